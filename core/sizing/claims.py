"""The claims ledger: what two texts on LLM serving say, recomputed, each with a derived verdict.

`lessons/claims.json` holds the claims as data: who says it, what is printed, and the call into the
library that computes it. A claim has parts; the first is what it is about. The verdict follows:

    stripped              the number or formula is missing from the text
    right                 to the printed digits, and within one in a thousand
    right-with-rounding   its rounding or cut, or in the binary unit (GiB under "GB"), or right
                          where it stands but not in a case that the sentence also covers
    inconsistent          contradicts another claim, or its own other parts, or holds only for
                          something else than the sentence says, or mixes 1,000 and 1,024
    wrong                 no reading of it holds
    unverifiable          no formula decides it: it needs a measurement, a price, a convention

A verdict is typed only where a part has no formula but a fact settles it (a metric's name, an
engine's default); the part then says why and from where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from core.sizing.errors import SizingError
from core.sizing.expressions import Evaluate, Value, evaluate
from core.sizing.printed import CLOSE, Agreement, Printed, Reading
from core.sizing.result import Result

Verdict = Literal[
    "right", "right-with-rounding", "inconsistent", "wrong", "stripped", "unverifiable"
]
VERDICTS: Final[tuple[Verdict, ...]] = (
    "right", "right-with-rounding", "inconsistent", "wrong", "stripped", "unverifiable",
)  # fmt: skip
_SOUND: Final = ("right", "right-with-rounding")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a claim says.

    printed: the number as printed; None if the text has lost it (`lost`), or if the part is a
    formula (`formula`, whose value `gives` is compared instead) or a sentence.
    compute: the expression of the right value, in base units. binary: the same with the sentence's
    own GB read as GiB. otherwise: (what else it may speak of, expression). but: (case that the
    sentence covers too, expression). own_numbers: compute uses only numbers printed beside it, so a
    mismatch is the text against itself. restored: what belongs where a formula is lost.
    judged: the typed verdict of a part without a formula. needs: what would decide it instead.
    """

    what: str
    printed: Printed | None = None
    unit: str = ""
    lost: bool = False
    formula: str = ""
    gives: Any = None
    compute: Any = None
    binary: Any = None
    otherwise: tuple[tuple[str, Any], ...] = ()
    but: tuple[tuple[str, Any], ...] = ()
    own_numbers: bool = False
    restored: str = ""
    judged: Verdict | None = None
    needs: str = ""
    why: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a text. contradicts: ids of claims that cannot hold beside it."""

    id: str
    source: str  # "lesson" or "chapter"
    section: str
    topic: str
    says: str
    parts: tuple[Part, ...]
    explanation: str
    assumptions: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a part. reason: one line. value: the computed one, in the base unit. holds:
    the readings of its units under which the printed number is right."""

    part: Part
    verdict: Verdict
    reason: str
    value: Value | None = None
    holds: frozenset[Reading] = frozenset()

    def to_dict(self) -> dict[str, Any]:
        """As JSON. value is null for what is not computed, and if there is no such number."""
        part, value = self.part, self.value
        calls = () if value is None else value.calls
        return {
            "what": part.what,
            "printed": str(part.printed) if part.printed else part.formula or None,
            "verdict": self.verdict,
            "reason": self.reason,
            "source": part.source,
            "value": None if value is None else value.number,
            "unit": part.printed.base if part.printed else part.unit,
            "expression": None if value is None else value.text,
            "calls": [
                {
                    "function": call.function,
                    "inputs": dict(call.inputs),
                    "value": call.result.value,
                    "unit": call.result.unit,
                    "derivation": call.result.derivation(),
                }
                for call in calls
            ],
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim's verdict. typed: it rests on a judged part. conflicts: between its parts, and with
    the claims that it contradicts."""

    claim: Claim
    verdict: Verdict
    typed: bool
    findings: tuple[Finding, ...]
    conflicts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: the claim, its verdict, and of each part the value with the calls behind it."""
        claim = self.claim
        return {
            "id": claim.id,
            "source": claim.source,
            "section": claim.section,
            "topic": claim.topic,
            "says": claim.says,
            "verdict": self.verdict,
            "typed": self.typed,
            "parts": [finding.to_dict() for finding in self.findings],
            "conflicts": list(self.conflicts),
            "explanation": claim.explanation,
            "assumptions": list(claim.assumptions),
        }


def judge(claims: Sequence[Claim], call: Evaluate | None = None) -> dict[str, Judgement]:
    """The verdict of every claim, by id, in order. call: the library's door, `calls.call` if None.

    Raises SizingError, with the path in the ledger, if an expression fails or if a contradiction
    that the ledger names does not show in the numbers of both claims.
    """
    door = call or _library
    findings = {
        claim.id: tuple(
            _find(part, door, f"{claim.id}.parts[{index}]")
            for index, part in enumerate(claim.parts)
        )
        for claim in claims
    }
    return {claim.id: _judgement(claim, findings) for claim in claims}


def counts(judgements: Iterable[Judgement]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    found = [judgement.verdict for judgement in judgements]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def _library(function: str, inputs: Mapping[str, Any]) -> Result:
    from core.sizing import calls

    return calls.call(function, inputs).result


def _find(part: Part, call: Evaluate, path: str) -> Finding:
    value = None if part.compute is None else evaluate(part.compute, call, f"{path}.compute")
    if part.lost:
        found = [part.restored] if part.restored else []
        if value is not None:
            found.append(_shown(value, unit=part.unit))
        return Finding(part, "stripped", f"missing: {'; '.join(found)}", value)
    if part.judged:
        return Finding(part, part.judged, part.why, value)
    if value is None:
        return Finding(part, "unverifiable", f"needs {part.needs}", value)
    if part.printed is None:
        return _compare_formulas(part, value, call, path)
    return _compare(part, part.printed, value, call, path)


def _compare_formulas(part: Part, value: Value, call: Evaluate, path: str) -> Finding:
    claimed = evaluate(part.gives, call, f"{path}.printed.gives")
    if claimed.exact is None or value.exact is None:
        same = claimed.exact == value.exact
    else:
        same = abs(claimed.exact - value.exact) <= abs(value.exact) * CLOSE
    shown, right = _shown(claimed, unit=part.unit), _shown(value, unit=part.unit)
    reason = f"{part.formula}: {shown}" if same else f"{part.formula} gives {shown}: it is {right}"
    return Finding(part, "right" if same else "wrong", reason, value)


def _compare(part: Part, printed: Printed, value: Value, call: Evaluate, path: str) -> Finding:
    """A printed number against the computed one, reading by reading."""

    def found(verdict: Verdict, reason: str) -> Finding:
        return Finding(part, verdict, reason, value, frozenset(agreement))

    agreement = _agreement(part, printed, value, call, path)
    computed = _shown(value, printed)
    literal, binary = agreement.get("printed"), agreement.get("binary")
    if literal == "exact" or (literal and binary != "exact"):
        for case, expression in part.but:
            other = evaluate(expression, call, f"{path}.but")
            if printed.agrees(other.exact) != "exact":
                reason = f"{printed}: {computed}, but {_shown(other, printed)} {case}"
                return found("right-with-rounding", reason)
        if literal == "exact":
            return found("right", f"{printed}: {computed}")
        how = "rounds" if literal == "rounded" else "cuts"
        return found("right-with-rounding", f"{printed} {how} {computed}")
    if binary and part.binary is not None:
        return found("right-with-rounding", f"{printed} holds in GiB: in GB it is {computed}")
    if binary:
        return found("right-with-rounding", f"{printed} is in powers of 1,024: it is {computed}")
    if "mixed" in agreement:
        reason = f"{printed} mixes 1,000 and 1,024 in one unit: it is {computed}"
        return found("inconsistent", reason)
    for reading, expression in part.otherwise:
        if printed.agrees(evaluate(expression, call, f"{path}.otherwise").exact):
            reason = f"{printed} holds for {reading}, but here it is {computed}"
            return found("inconsistent", reason)
    if part.own_numbers:
        return found("inconsistent", f"{printed}, but its own numbers give {computed}")
    if value.exact is None:
        return found("wrong", f"{printed}: there is no such number")
    return found("wrong", f"{printed}: it is {computed}")


def _agreement(
    part: Part, printed: Printed, value: Value, call: Evaluate, path: str
) -> dict[Reading, Agreement]:
    """The readings of its units under which a part holds, and how well it does."""
    in_gib = value if part.binary is None else evaluate(part.binary, call, f"{path}.binary")
    out: dict[Reading, Agreement] = {}
    for reading, factor in printed.factors():
        number = in_gib if reading == "binary" else value
        agrees = printed.agrees(number.exact, factor)
        if agrees and reading not in out and (reading == "printed" or agrees != "cut"):
            out[reading] = agrees  # two leniences at once, another unit and a cut, would be luck
    if "binary" not in dict(printed.factors()) and (agrees := printed.agrees(in_gib.exact)):
        out["binary"] = agrees  # users, shares: only what they are computed from has two readings
    return out


def _judgement(claim: Claim, all_findings: Mapping[str, tuple[Finding, ...]]) -> Judgement:
    findings = all_findings[claim.id]
    lead, rest = findings[0], findings[1:]
    verdict = lead.verdict
    conflicts = _conflicts_within(findings)
    for other in claim.contradicts:
        if other not in all_findings or other == claim.id:
            raise SizingError(f"{claim.id}.contradicts", f"{other} is no other claim")
        conflict = _conflict(findings, all_findings[other])
        if conflict is None:
            message = f"nothing computed from both shows that it contradicts {other}"
            raise SizingError(f"{claim.id}.contradicts", message)
        conflicts.append(f"{other}: {conflict}")
    if verdict in _SOUND:
        if conflicts or any(finding.verdict in ("wrong", "inconsistent") for finding in rest):
            verdict = "inconsistent"
        elif any(finding.verdict == "right-with-rounding" for finding in rest):
            verdict = "right-with-rounding"
    typed = lead.part.judged is not None
    return Judgement(claim, verdict, typed, findings, tuple(conflicts))


def _conflicts_within(findings: tuple[Finding, ...]) -> list[str]:
    pairs = ((a, b) for index, a in enumerate(findings) for b in findings[index + 1 :])
    return [found for a, b in pairs if (found := _differently_printed(a, b))]


def _conflict(mine: tuple[Finding, ...], theirs: tuple[Finding, ...]) -> str | None:
    for a in mine:
        for b in theirs:
            if found := _differently_printed(a, b):
                return found
    for a in mine:
        for b in theirs:
            if a.holds and b.holds and not a.holds & b.holds:
                return f"{a.part.printed} holds in {_units(a)}, {b.part.printed} in {_units(b)}"
    return None


def _differently_printed(a: Finding, b: Finding) -> str | None:
    """One quantity, two numbers."""
    if a.value is None or b.value is None or a.part.printed is None or b.part.printed is None:
        return None
    if a.value.exact is None or a.value.exact != b.value.exact:
        return None
    if a.part.printed.can_equal(b.part.printed):
        return None
    return f"{a.part.printed} and {b.part.printed} for the same quantity"


def _units(finding: Finding) -> str:
    return {"printed": "powers of 1,000", "binary": "powers of 1,024", "mixed": "a mix"}[
        min(finding.holds)
    ]


def _shown(value: Value | None, printed: Printed | None = None, unit: str = "") -> str:
    """A computed value, in the printed unit where there is one."""
    if value is None or value.exact is None:
        return "no such number"
    number = value.exact
    if printed is not None:
        number, unit = number / printed.factors()[0][1], printed.unit
    if number.denominator == 1:
        text = f"{number.numerator:,}"
    else:
        text = f"{float(number):,.0f}" if abs(number) >= 10_000 else f"{float(number):,.4g}"
    return f"{text} {unit}".strip()
