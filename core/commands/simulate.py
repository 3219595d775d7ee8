"""`simulate`: the real scheduler and block manager on scripted tokens; no model, no torch."""

from __future__ import annotations

import argparse
from typing import Any

from core.commands.common import print_json
from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import check_writable
from core.trace.text import describe_run


def add(commands: Any) -> None:
    parser = commands.add_parser("simulate", help="run a scenario without a model")
    parser.add_argument("scenario", help="a scenario/1 JSON file")
    parser.add_argument("--state", action="store_true", help="show the state after each step")
    parser.add_argument("--json", action="store_true", help="print the run as JSON")
    parser.add_argument("-o", "--output", help="also write the run to this file (.run.json.gz)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.output:
        check_writable(args.output)
    result = simulate(Scenario.from_file(args.scenario), keep_state=args.state)
    if args.output:
        result.write(args.output)
    if args.json:
        print_json(result.to_dict())
        return 0
    states = [record["state"] for record in result.steps] if args.state else None
    for line in describe_run(result, states):
        print(line)
    return 0
