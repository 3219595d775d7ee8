"""`size`: one capacity plan, as a table or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.commands.common import json_argument, print_json

DEFAULT_GPU = "h100-sxm5"


def _stages(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError("must be whole numbers with commas between") from None


_OPTIONS: tuple[tuple[str, Callable[[str], Any], str, str], ...] = (
    ("tp", int, "N", "GPUs that split each layer"),
    ("pp", int, "N", "pipeline stages"),
    ("dp", int, "N", "replicas"),
    ("attention-dp", int, "N", "groups of a replica that share no heads (for MLA)"),
    ("stages", _stages, "N,N,…", "layers of each stage, where they do not divide evenly"),
    ("context", int, "TOKENS", "tokens of each sequence"),
    ("prompt", int, "TOKENS", "of them, how many are prefilled (all)"),
    ("prefix-tokens", int, "TOKENS", "of them, how many all sequences share"),
    (
        "max-model-len",
        int,
        "TOKENS",
        "longest sequence, which contiguous allocation reserves (model's)",
    ),
    ("weight-dtype", str, "FORMAT", "bf16, fp8, int4, q4_0 …; or JSON; the config's, or bf16"),
    ("embedding-dtype", str, "FORMAT", "of embedding and head, where it differs"),
    ("part-dtypes", str, "JSON", 'of other parts, as in {"experts": "mxfp4"}'),
    ("group-size", int, "N", "numbers of a quantised matrix to one scale"),
    ("scale-bytes", float, "B", "of one such scale"),
    ("zero-bytes", float, "B", "of one zero point (0.5: packed in 4 bits)"),
    ("params", float, "N", "parameters, instead of the config's"),
    (
        "kv-dtype",
        str,
        "FORMAT",
        "of the cache; or a JSON object with scales, layers or indexer keys apart",
    ),
    ("gpu-memory-utilization", float, "SHARE", "of the GPU's memory that the engine may use"),
    ("overhead-bytes", float, "B", "per GPU, neither weights nor cache (a bound)"),
    ("block-size", int, "TOKENS", "tokens of a block"),
    ("max-num-seqs", int, "N", "sequences that a scheduler runs at once"),
    ("max-num-batched-tokens", int, "TOKENS", "tokens that a step computes"),
    ("allocator", str, "KIND", "paged or contiguous"),
    ("eviction", str, "KIND", "of the prefix cache: lru, fifo or lfu"),
    ("mfu", float, "SHARE", "of the dense peak that prefill reaches"),
    ("mbu", float, "SHARE", "of the bandwidth that decode reaches"),
    ("users", int, "N", "sequences wanted at once"),
    ("hit-rate", float, "SHARE", "of the prefix cache"),
    ("ttft-s", float, "S", "limit on the first token"),
    ("itl-s", float, "S", "limit between two tokens"),
    ("fleet-gpus", int, "N", "GPUs of the whole fleet"),
    ("offload", str, "TIER", "where preempted sequences go: dram-pcie5, nvme-gen5 …"),
    ("price-per-gpu-hour", float, "PRICE", "in any currency"),
)
_FLAGS = (
    ("no-prefix-cache", "prefix_cache", False, "nothing is kept between requests"),
    ("evaluated", "evaluated", True, "the quantised cache was evaluated on your own tasks"),
    ("disaggregated", "disaggregated", True, "prefill and decode run on GPUs of their own"),
)


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "size",
        help="plan a deployment: what fits, what binds it, how long its steps take",
        description="One capacity plan. What is left out has a default, shown in the plan.",
    )
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", help="a name from `models`")
    model.add_argument("--config", metavar="FILE", help="a config.json, or a directory with one")
    parser.add_argument("--gpu", default=DEFAULT_GPU, help="a name from `gpus`, or a JSON object")
    for name, kind, metavar, text in _OPTIONS:
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=text)
    for name, target, value, text in _FLAGS:
        parser.add_argument(f"--{name}", dest=target, action="store_const", const=value, help=text)
    parser.add_argument("--json", action="store_true", help="everything, derivations included")
    parser.add_argument("--explain", action="store_true", help="with each number's derivation")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from core.sizing import plan_text
    from core.sizing.advice import advise
    from core.sizing.plan import plan

    made = plan(_deployment(args))
    findings = advise(made)
    if args.json:
        print_json({**made.to_dict(), "advice": [one.to_dict() for one in findings]})
    else:
        print(plan_text.render(made, findings, explain=args.explain))
    return 0


def _deployment(args: argparse.Namespace) -> Any:
    """The Deployment that the options describe. Options that are not given keep its defaults."""
    from core.sizing import inputs
    from core.sizing.deployment import Deployment

    names = [name.replace("-", "_") for name, *_ in _OPTIONS] + [flag[1] for flag in _FLAGS]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.part_dtypes is not None:
        given["part_dtypes"] = json_argument(args.part_dtypes, "part_dtypes")
    for name in ("gpu", "kv_dtype", "weight_dtype"):
        text = getattr(args, name)
        if text is not None:
            given[name] = json_argument(text, name) if text.lstrip().startswith("{") else text
    given["model"] = args.model if args.config is None else _own_model(Path(args.config))
    return inputs.build(Deployment, given)


def _own_model(path: Path) -> Any:
    """The model of a config.json, named after the file, or after the directory that it is in."""
    from core.sizing import config_json, inputs

    file = path / "config.json" if path.is_dir() else path
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return inputs.model_described(config_json.read(file), name=name)
