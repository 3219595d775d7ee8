"""`kv-quality`: measure what a quantised KV cache costs in quality, and write it down."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from core.commands.common import positive, prepare_model
from core.errors import UnsupportedError
from core.trace.run import check_writable


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "kv-quality", help="measure perplexity and KL of each format of the KV cache"
    )
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a name or a directory")
    parser.add_argument("-o", "--output", required=True, help="the JSON file to write")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    check_writable(args.output)
    prepare_model(args.model)
    from core import kv_outlier, kv_quality  # here, because they load torch
    from core.model.model_runner import ModelRunner

    runner = ModelRunner(args.model, args.dtype, args.device, 1, 16, args.threads)
    document = kv_quality.measure(runner, _show)
    try:
        document["outlier"] = kv_outlier.measure(runner, args.threads)
    except UnsupportedError as exc:  # what has been measured is kept
        print(f"without an outlier head: {exc}", file=sys.stderr)
    kv_quality.write(args.output, document)
    print(f"{args.output}: {len(document['rows'])} formats, {document['text']['tokens']} tokens")
    return 0


def _show(row: dict[str, Any]) -> None:
    print(
        f"{row['name']:<34}{row['kv_bytes_per_token']:>9,} B a token"
        f"   perplexity {row['perplexity']:8.3f}   KL {row['kl']:.5f}   same {row['top1']:.1%}",
        flush=True,
    )
