"""`record`: run a scenario, or a folder of them, on the real model and write the runs."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from core.commands.common import add_gpu_options, positive, prepare_model
from core.errors import KVScopeError
from core.scenario import Scenario
from core.trace.run import check_writable

RUNS = Path(__file__).resolve().parents[2] / "runs"


def add(commands: Any) -> None:
    parser = commands.add_parser("record", help="run a scenario on the real model, write the run")
    parser.add_argument("scenario", nargs="?", help="a scenario/1 JSON file that names a model")
    parser.add_argument("-o", "--output", help="the file to write (.run.json.gz)")
    parser.add_argument(
        "--all",
        nargs="?",
        const=str(RUNS / "scenarios"),
        metavar="FOLDER",
        help="every scenario of a folder (runs/scenarios), into the folder -o; "
        "on a GPU by default runs/gpu/DEVICE",
    )
    parser.add_argument(
        "--again", action="store_true", help="with --all: also what is recorded already"
    )
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--weights", choices=["int8"], help="8 bits; default: of the dtype")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    add_gpu_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.all is not None:
        return _all(args)
    if args.scenario is None or args.output is None:
        raise KVScopeError("name a scenario and its -o FILE, or --all (see record --help)")
    if args.again:
        raise KVScopeError("--again goes with --all")
    scenario = Scenario.from_file(args.scenario)
    check_writable(args.output)
    prepare_model(scenario.model)
    from core.model.load_runner import GpuSettings  # here, because it loads torch
    from core.record import record

    result = record(
        scenario,
        dtype=args.dtype,
        weights=args.weights,
        device=args.device,
        threads=args.threads,
        gpu=GpuSettings(args.gpu_memory_utilization, args.enforce_eager),
    )
    result.write(args.output)
    source = result.header["source"]
    print(
        f"{args.output}: {len(result.steps)} steps on {source['device']}, "
        f"{source['model']}, {source['dtype']}, weights {source['weights']}"
    )
    return 0


def _all(args: argparse.Namespace) -> int:
    """Exit code 1 if any scenario was not recorded; the others are."""
    if args.scenario is not None:
        raise KVScopeError("record: a scenario or --all, not both (see record --help)")
    if args.gpu_memory_utilization is not None:
        raise KVScopeError("--all: the scenarios give the number of blocks")
    from core.model.device import device_name, pick_device  # here, because they load torch
    from core.record_all import device_slug, record_all, scenario_files

    device = pick_device(args.device)
    name = device_name(device)
    folder = Path(args.output) if args.output else RUNS / "gpu" / device_slug(name)
    if device.type == "cpu" and args.output is None:
        raise KVScopeError("record --all on a CPU: name the folder to write to with -o")
    scenarios = scenario_files(Path(args.all))
    print(f"{len(scenarios)} scenarios on {name}, into {folder}", flush=True)
    counts: Counter[str] = Counter()
    for outcome in record_all(
        scenarios,
        folder,
        name,
        device_kind=args.device,
        dtype=args.dtype,
        weights=args.weights,
        threads=args.threads,
        again=args.again,
        enforce_eager=args.enforce_eager,
    ):
        counts[outcome.what] += 1
        print(f"{outcome.what:<9} {outcome.name:<28} {outcome.said}", flush=True)
    print(", ".join(f"{counts[what]} {what}" for what in ("recorded", "kept", "failed")))
    return 1 if counts["failed"] else 0
