"""`replay`: read a run, reduce its events, and on request run it again to verify it."""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from typing import Any

from core.commands.common import print_json
from core.errors import KVScopeError, MismatchError
from core.simulate import verify
from core.trace.run import Run, read_run
from core.trace.text import describe_run, describe_step


def add(commands: Any) -> None:
    parser = commands.add_parser("replay", help="show a recorded run, or verify it")
    parser.add_argument("file", metavar="RUN", help="a run/1 file (.run.json.gz)")
    parser.add_argument("--step", type=int, metavar="K", help="only step K")
    parser.add_argument("--state", action="store_true", help="show the state after each step")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run scheduler and block manager again on the recorded tokens; exit 1 if they differ",
    )
    parser.add_argument(
        "--tokens", action="store_true", help="with --verify: run the model again as well"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.tokens and not args.verify:
        raise KVScopeError("--tokens goes with --verify")
    recorded = read_run(args.file)
    if args.step is not None and not 0 <= args.step < len(recorded.steps):
        raise KVScopeError(f"--step {args.step}: the run has {len(recorded.steps)} steps, from 0")
    if args.verify:
        return _verify(recorded, args)
    if args.step is None:
        states = list(recorded.states()) if args.state else None
        if args.json:
            print_json(_as_json(recorded, states))
        else:
            for line in describe_run(recorded, states):
                print(line)
        return 0
    record = _without_state(recorded.steps[args.step])
    state = next(islice(recorded.states(), args.step, None)) if args.state else None
    if args.json:
        print_json(record if state is None else {**record, "state": state})
    else:
        for line in describe_step(record, state):
            print(line)
    return 0


def _without_state(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "state"}


def _as_json(recorded: Run, states: list[Any] | None) -> Any:
    steps = [_without_state(record) for record in recorded.steps]
    if states is not None:
        steps = [{**record, "state": state} for record, state in zip(steps, states, strict=True)]
    return {**recorded.to_dict(), "steps": steps}


def _verify(recorded: Run, args: argparse.Namespace) -> int:
    try:
        verify(recorded)
        if args.tokens:
            from core.record import verify_tokens  # the only part that needs torch

            verify_tokens(recorded)
    except MismatchError as exc:
        print(f"not verified: {exc}", file=sys.stderr)
        return 1
    what = "scheduler, blocks, tokens and texts agree"
    if not args.tokens:
        what = "scheduler and blocks agree (texts, times and source are the file's word)"
    if args.json:
        print_json({"verified": True, "steps": len(recorded.steps), "tokens": args.tokens})
    else:
        print(f"verified: {len(recorded.steps)} steps, {what}")
    return 0
