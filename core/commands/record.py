"""`record`: run a scenario on its real model and write the run."""

from __future__ import annotations

import argparse
from typing import Any

from core.commands.common import add_gpu_options, positive, prepare_model
from core.scenario import Scenario
from core.trace.run import check_writable


def add(commands: Any) -> None:
    parser = commands.add_parser("record", help="run a scenario on the real model, write the run")
    parser.add_argument("scenario", help="a scenario/1 JSON file that names a model")
    parser.add_argument("-o", "--output", required=True, help="the file to write (.run.json.gz)")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--weights", choices=["int8"], help="8 bits; default: of the dtype")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    add_gpu_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
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
