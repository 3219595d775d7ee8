"""`claims`: the ledger of what two texts say, each claim recomputed now."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from core.commands.common import print_json
from core.sizing.errors import SizingError

if TYPE_CHECKING:
    from core.sizing.claims import Judgement
    from core.sizing.result import Step


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "claims",
        help="recompute the claims ledger: what two texts say, and what is right",
        description="Recompute every claim of lessons/claims.json. With an id: its derivation.",
    )
    parser.add_argument("id", nargs="?", help="one claim, as B009")
    parser.add_argument("--verdict", help="only claims with this verdict")
    parser.add_argument("--source", help="only claims of the lesson or of the chapter")
    parser.add_argument("--json", action="store_true", help="with values, expressions and calls")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from core.sizing import checks, claims, ledger

    if args.verdict is not None:
        checks.choice(args.verdict, "verdict", claims.VERDICTS)
    if args.source is not None:
        checks.choice(args.source, "source", ledger.SOURCES)
    judged = claims.judge(ledger.load())
    if args.id is not None:
        if args.id not in judged:
            close = get_close_matches(args.id.upper(), judged, n=1, cutoff=0.7)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise SizingError("id", f"{args.id[:40]!r} is no claim{hint}")
        judged = {args.id: judged[args.id]}
    chosen = [
        one
        for one in judged.values()
        if args.verdict in (None, one.verdict) and args.source in (None, one.claim.source)
    ]
    if args.json:
        print_json([one.to_dict() for one in chosen])
    elif args.id is not None:
        for one in chosen:
            _print(one)
    else:
        for one in chosen:
            print(f"{one.claim.id}  {one.verdict:20}  {one.claim.says}")
        counts = claims.counts(chosen).items()
        print(", ".join(f"{count} {verdict}" for verdict, count in counts if count) or "none")
    return 0


def _print(one: Judgement) -> None:
    claim = one.claim
    print(f"{claim.id}  {claim.source}, {claim.section}: {claim.says}")
    print(f"{one.verdict}{' (by a fact, not computed)' if one.typed else ''}: {claim.explanation}")
    shown: set[str] = set()
    for finding in one.findings:
        print(f"  {finding.part.what}: {finding.reason}")
        if finding.value is not None and finding.value.text not in shown:
            shown.add(finding.value.text)  # parts often print one value in two units
            print(f"      = {finding.value.text}")
            for call in finding.value.calls:
                for step in call.result.steps:
                    print(f"      {step.formula} = {step.substituted} = {_number(step)}")
    for conflict in one.conflicts:
        print(f"  contradicts {conflict}")
    for assumption in claim.assumptions:
        print(f"  assumes: {assumption}")


def _number(step: Step) -> str:
    value = step.value
    return f"{value:,} {step.unit}" if isinstance(value, int) else f"{value:,.6g} {step.unit}"
