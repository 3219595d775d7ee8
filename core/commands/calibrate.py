"""`calibrate`: measure this machine's ceilings and keep them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.commands.common import positive, print_json

if TYPE_CHECKING:
    from core.model.calibrate import Rate


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "calibrate", help="measure this machine's memory and matrix-product speed, and keep it"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the best at hand")
    parser.add_argument("--threads", type=positive, help="CPU threads; default: torch's choice")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import torch  # here, because it is slow to load

    from core.model.calibrate import measure, store
    from core.model.device import pick_device

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    calibration = measure(pick_device(args.device))
    path = store(calibration)
    if args.json:
        print_json(asdict(calibration))
        return 0
    print(f"{calibration.processor}, torch {calibration.torch}; median of several (range)")
    print(_line("memory read", calibration.read_bytes_per_s, "GB/s"))
    for name, rate in calibration.matmul_flops_per_s.items():
        print(_line(f"matrix product {name}", rate, "GFLOP/s"))
    for dtype in ("float32", "bfloat16"):
        ridge = calibration.best_flops_per_s(dtype) / calibration.read_bytes_per_s.median
        print(f"{'ridge ' + dtype:<32}{ridge:>8.1f} FLOP/byte")
    print(f"kept in {path}")
    return 0


def _line(name: str, rate: Rate, unit: str) -> str:
    median, low, high = (f"{value / 1e9:,.1f}" for value in (rate.median, rate.low, rate.high))
    return f"{name:<32}{median:>8} {unit} ({low}–{high})"
