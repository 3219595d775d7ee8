"""`calc`: one sizing function, or a file of calls; bare values or values with their derivation."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from core.commands.common import json_argument, json_file, print_json
from core.sizing.errors import SizingError


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "calc",
        help="compute one sizing number, with its derivation",
        description="Call a sizing function: python -m core calc kv_bytes_per_token "
        '\'{"model": "llama-3-70b", "dtype": "bf16"}\'. A model is `model`, a name from `models`, '
        "or `config`, what a config.json holds.",
    )
    parser.add_argument("function", nargs="?", help="its name; --list shows all")
    parser.add_argument("inputs", nargs="?", help="a JSON object; - reads it from standard input")
    parser.add_argument("--json", action="store_true", help="with inputs, unit and derivation")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--batch", metavar="FILE", help="many calls from a file, or from -")
    what.add_argument("--list", action="store_true", help="all functions with their inputs")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from core.sizing import calls

    alone = args.list or args.batch is not None
    if alone and args.function is not None:
        raise SizingError("function", "stands beside --list or --batch, which take none")
    if args.list:
        return _list(args.json)
    if args.batch is not None:
        return _batch(args.batch, args.json)
    if args.function is None:
        raise SizingError("function", "is missing: name one of those that calc --list shows")
    wanted = calls.function(args.function)
    if args.inputs is None:
        raise SizingError("inputs", f"is missing: a JSON object for {wanted.signature}")
    answer = calls.call(wanted.name, json_argument(args.inputs, "inputs"))
    for text in answer.result.warnings:
        print(text, file=sys.stderr)
    print_json(answer.to_dict() if args.json else answer.value)
    return 0


def _list(as_json: bool) -> int:
    from core.sizing import calls

    table = calls.functions().values()
    if as_json:
        print_json([one.to_dict() for one in table])
        return 0
    for one in table:
        print(f"{one.signature} → {one.unit}\n    {one.summary}")
    return 0


def _batch(source: str, as_json: bool) -> int:
    from core.sizing import calls

    try:
        content = json_file(source, "batch")
    except SizingError as error:
        # What lies inside is named as the calls themselves name it: cases[3].inputs.tokens.
        raise SizingError(error.path.removeprefix("batch."), error.message) from None
    answers = calls.batch(content)
    out: dict[str, Any] = {}
    failed = 0
    for name, answer in answers.items():
        if isinstance(answer, SizingError):
            failed += 1
            out[name] = {"error": str(answer)}
        else:
            out[name] = answer.to_dict() if as_json else answer.value
            for text in answer.result.warnings:
                print(f"{name}: {text}", file=sys.stderr)
    print_json(out)
    if failed:
        print(f"error: {failed} of {len(out)} cases failed", file=sys.stderr)
    return 2 if failed else 0
