"""`python -m bench engine`: the engine on a CPU, beside `transformers` on the same weights.

Same process, same threads, same token ids, in turns. The targets are ratios, because a shared
machine's speed is not a constant; beside each figure stands how near it comes to what the machine
can do at all: bytes that must move against its memory, operations against its matrix products.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from bench.machine import Shares, ceilings
from bench.other_work import OtherWork
from bench.ours import BLOCK_SIZE, Ours
from bench.timing import Timing, alternate, ratio
from bench.workload import FULL, QUICK, Workload
from core.errors import KVScopeError
from core.model.calibrate import Calibration
from core.model.model_runner import ModelRunner
from core.version import VERSION

POOL_BLOCKS = 512
READY_TARGET_S = 4.0
DECODE_TARGET, PREFILL_TARGET, WARM_TARGET = 2.2, 1.0, 1 / 8


@dataclass(frozen=True, slots=True)
class Row:
    """One line. Rates in tokens/s (larger is better), times in seconds.

    ratio: ours against transformers', pair by pair; for a time, against another time. target:
    what was aimed at, in words; met: whether the median reaches it, None without a target.
    """

    name: str
    unit: str
    ours: Timing
    transformers: Timing | None = None
    ratio: Timing | None = None
    target: str | None = None
    met: bool | None = None
    roofline: Shares | None = None

    def show(self) -> str:
        scale, unit = (1e3, "ms") if self.unit == "s" else (1, self.unit)
        line = f"{self.name:<30}{self.ours.show(scale, unit, 1):>34}"
        theirs = self.transformers.show(scale, "", 1) if self.transformers else ""
        times = self.ratio.show(1, "×", 2) if self.ratio else ""
        line += f"{theirs:>26}{times:>22}"
        if self.roofline is not None:
            line += f"{self.roofline.memory:>8.0%}{self.roofline.compute:>8.0%}"
        if self.target is not None:
            line = f"{line:<130}  {'met   ' if self.met else 'missed'} {self.target}"
        return line.rstrip()


def main(arguments: list[str]) -> int:
    """Print all rows; `--json` writes them too."""
    args = _parser().parse_args(arguments)
    workload = QUICK if args.quick else FULL
    other = OtherWork()
    try:
        runner = ModelRunner(
            args.model, args.dtype, "cpu", 1, BLOCK_SIZE, args.threads, weights=args.weights
        )
        machine = ceilings(args.quick)
    except KVScopeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    peer = _peer(runner.directory, args.dtype, workload, args.compile)
    settings = _settings(runner, peer, workload, machine)
    for name, value in settings.items():
        print(f"{name}: {value}")
    rows: list[Row] = []
    print(
        f"\n{'median of ' + str(workload.repeats) + ' (range)':<30}{'this engine':>34}"
        f"{'transformers':>26}{'ratio':>22}{'memory':>8}{'compute':>8}"
    )
    for row in _rows(Ours(runner, workload), peer, workload, machine, args):
        print(row.show(), flush=True)
        rows.append(row)
    if peer is not None:
        print(f"\ntransformers used: {peer.chosen}")
        settings["transformers_used"] = peer.chosen
    share = other.share()
    settings["other_work"] = share
    if share is not None:
        print(f"other processes took {share:.0%} of the processor meanwhile")
    if args.json:
        report = {"settings": settings, "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench engine")
    parser.add_argument("--quick", action="store_true", help="shorter runs, three of each")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a name or a directory")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--weights", choices=["int8"], help="default: of the dtype")
    parser.add_argument("--threads", type=int, help="default: torch's choice")
    parser.add_argument(
        "--compile", action="store_true", help="let transformers try torch.compile: minutes"
    )
    return parser


def _peer(directory: Path, dtype: str, workload: Workload, compiled: bool) -> Any:
    """A Peer, or None where transformers, which only tests and benchmarks need, is absent."""
    from bench.peer import Peer

    try:
        return Peer(directory, dtype, workload, compiled)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed: ours only (pip install -r requirements-dev.txt)")
        return None


def _settings(
    runner: ModelRunner, peer: Any, workload: Workload, machine: Calibration
) -> dict[str, Any]:
    products = {name: rate.median / 1e9 for name, rate in machine.matmul_flops_per_s.items()}
    return {
        "engine": f"kv-scope {VERSION}, block size {BLOCK_SIZE}, {runner.source}",
        "transformers": peer and f"{peer.version}, sdpa, inference mode",
        "torch": f"{torch.__version__}, {torch.get_num_threads()} threads, "
        f"GOMP_SPINCOUNT {os.environ.get('GOMP_SPINCOUNT')}",
        "workload": asdict(workload),
        "memory_read_gb_per_s": round(machine.read_bytes_per_s.median / 1e9, 1),
        "matmul_gflop_per_s": {name: round(rate) for name, rate in products.items()},
    }


def _rows(
    ours: Ours, peer: Any, workload: Workload, machine: Calibration, args: argparse.Namespace
) -> Any:
    """One after another, as they are measured."""
    products = args.weights or args.dtype  # what the matrices are multiplied in
    compare = partial(_compare, ours, workload, machine, products)
    yield compare(
        f"prefill {workload.prefill}",
        workload.prefill,
        ours.prefill,
        peer and peer.prefill,
        PREFILL_TARGET,
    )
    for batch in workload.batches:
        yield compare(
            f"decode, batch {batch}",
            batch * workload.decode_steps,
            partial(ours.decode, batch),
            peer and partial(peer.decode, batch),
            DECODE_TARGET,
        )
    yield compare(
        f"serve {workload.serve_requests} × "
        f"({workload.serve_prompt} in, {workload.serve_outputs} out)",
        workload.serve_requests * workload.serve_outputs,
        ours.serve,
        peer and peer.serve,
        None,
    )
    yield from _first_token(ours, peer, workload, machine, products)
    yield _ready(args, workload.repeats)
    yield _pool(ours.runner)


def _compare(
    ours: Ours,
    workload: Workload,
    machine: Calibration,
    dtype: str,
    name: str,
    tokens: int,
    run: Callable[[], float],
    run_peer: Callable[[], float] | None,
    target: float | None,
) -> Row:
    """A rate in tokens/s. target: least ratio to transformers."""
    samples = alternate({"ours": run, **({"peer": run_peer} if run_peer else {})}, workload.repeats)
    seconds = Timing.of(samples["ours"])
    row = Row(
        name=name,
        unit="tok/s",
        ours=seconds.per_second(tokens),
        roofline=Shares.of(ours.work, seconds.median, machine, dtype),
    )
    if run_peer is None:
        return row
    times = ratio(samples["peer"], samples["ours"])
    return Row(
        name=name,
        unit="tok/s",
        ours=row.ours,
        transformers=Timing.of(samples["peer"]).per_second(tokens),
        ratio=times,
        target=None if target is None else f"≥ {target} × transformers",
        met=None if target is None else times.median >= target,
        roofline=row.roofline,
    )


def _first_token(
    ours: Ours, peer: Any, workload: Workload, machine: Calibration, dtype: str
) -> Any:
    works = {}

    def run(warm: bool) -> float:
        seconds = ours.first_token(warm=warm)
        works[warm] = ours.work
        return seconds

    runs = {"cold": partial(run, False), "warm": partial(run, True)}
    if peer is not None:
        runs["peer"] = peer.first_token
    samples = alternate(runs, workload.repeats)
    timings = {name: Timing.of(values) for name, values in samples.items()}
    prompt = f"first token of {workload.first_token}"
    yield Row(
        name=f"{prompt}, cold",
        unit="s",
        ours=timings["cold"],
        transformers=timings.get("peer"),
        ratio=ratio(samples["peer"], samples["cold"]) if peer is not None else None,
        roofline=Shares.of(works[False], timings["cold"].median, machine, dtype),
    )
    times = ratio(samples["warm"], samples["cold"])
    yield Row(
        name=f"{prompt}, {workload.shared} cached",
        unit="s",
        ours=timings["warm"],
        ratio=times,
        target="≤ 1/8 of cold",
        met=times.median <= WARM_TARGET,
        roofline=Shares.of(works[True], timings["warm"].median, machine, dtype),
    )


def _ready(args: argparse.Namespace, repeats: int) -> Row:
    """A fresh process: imports, weights, one token printed. The files are in the page cache."""
    command = [sys.executable, "-m", "core", "generate", "The", "--max-tokens", "1", "--device"]
    command += ["cpu", "--model", args.model, "--dtype", args.dtype]
    if args.weights:
        command += ["--weights", args.weights]
    if args.threads:
        command += ["--threads", str(args.threads)]

    def once() -> float:
        started = perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            seconds = perf_counter() - started
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
        return seconds

    timing = Timing.of(alternate({"ready": once}, repeats)["ready"])
    return Row(
        name="ready in a fresh process",
        unit="s",
        ours=timing,
        target=f"≤ {READY_TARGET_S:.0f} s",
        met=timing.median <= READY_TARGET_S,
    )


def _pool(runner: ModelRunner) -> Row:
    """Bytes that the pool's tensors hold, against the sizing formula."""
    runner.bind(POOL_BLOCKS, BLOCK_SIZE)
    assert runner.store is not None
    held = sum(layer.untyped_storage().nbytes() for layer in runner.store.blocks)
    config = runner.config
    formula = (
        2
        * config.num_hidden_layers
        * config.num_key_value_heads
        * config.head_dim
        * runner.dtype.itemsize
        * BLOCK_SIZE
        * POOL_BLOCKS
    )
    return Row(
        name=f"pool of {POOL_BLOCKS} blocks",
        unit="bytes",
        ours=Timing(held, held, held),
        target=f"= 2 · layers · kv_heads · head_dim · bytes · block_size · blocks = {formula:,}",
        met=held == formula,
    )
