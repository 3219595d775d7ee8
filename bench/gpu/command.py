"""The command itself: arguments, the parts in order, and what becomes of a part that breaks."""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from bench.gpu import attention, correctness, engine, machine, moves, peers
from bench.gpu.bench import COPY, MATMUL, Bench
from bench.gpu.report import Report, Row
from bench.gpu.shapes import FULL, QUICK, TINY
from bench.gpu.timer import CudaTimer, WallTimer
from bench.timing import Timing
from core.errors import KVScopeError
from core.trace.run import check_writable
from kernels.dispatch import choose

RUNS = Path(__file__).resolve().parents[2] / "runs"
PARTS = ("correctness", "ceilings", "decode", "prefill", "paging", "moves", "engine")
REHEARSAL = "REHEARSAL on a CPU: this shows that the command works, and measures nothing"


def main(arguments: list[str]) -> int:
    """0: done, and every kernel is right; 1: one is wrong; 2: there is nothing to run on."""
    args = _parser().parse_args(arguments)
    problem = _problem(args)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    bench = _bench(args)
    for name, value in bench.report.settings.items():
        print(f"{name}: {value}")
    parts = {name: run for name, run in _parts(bench, args).items() if name in args.part}
    while parts:
        name = next(iter(parts))
        run = parts.pop(name)
        bench.report.head(name)
        if not _attempt(bench, name, run) and parts:
            bench.report.say("the device no longer answers: a fresh process does the rest")
            _elsewhere(bench.report, args, list(parts))
            break
    _end(bench, args)
    return 0 if bench.report.correct else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench gpu",
        description="Kernels and engine on a GPU: right, and how near to what the device can do.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer shapes, shorter runs")
    parser.add_argument("--json", metavar="FILE", help="write everything there too")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a name or a directory")
    parser.add_argument(
        "--vllm-python", metavar="PATH", help="an interpreter that has vLLM, to run it in turn"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--tiny", action="store_true", help="with --device cpu: a rehearsal on tiny shapes"
    )
    return parser


def _problem(args: argparse.Namespace) -> str | None:
    """Why the command cannot run, in one line."""
    try:
        if args.json:
            check_writable(args.json)  # before the long part, not after it
    except KVScopeError as error:
        return str(error)
    if args.device == "cuda":
        if args.tiny:
            return "--tiny rehearses the command: it goes with --device cpu"
        if os.environ.get("TRITON_INTERPRET") == "1":
            return "TRITON_INTERPRET=1 runs the kernels in Python: unset it to measure a GPU"
        if not torch.cuda.is_available():
            build = torch.version.cuda
            why = f"torch {torch.__version__} is built " + (
                f"for CUDA {build}, but finds no device" if build else "without CUDA"
            )
            return (
                f"there is no GPU here ({why}); --device cpu --tiny rehearses the command without "
                "one, and `python scripts/doctor.py --gpu` says what is missing"
            )
        return None
    if not args.tiny:
        return "on a CPU there is only the rehearsal: --device cpu --tiny"
    if args.json and RUNS in Path(args.json).resolve().parents:
        return f"a rehearsal is no measurement: it is not written into {RUNS.name}/"
    return None


def _bench(args: argparse.Namespace) -> Bench:
    device = torch.device(args.device)
    report = Report()
    if args.device == "cpu":
        backend = "triton" if _interpreted() else "torch"
        how = "triton's interpreter" if backend == "triton" else "plain torch"
        report.settings["rehearsal"] = f"{REHEARSAL}; in place of the kernels: {how}"
        report.settings |= machine.describe(device, how)
        bench = Bench(device, WallTimer(), TINY, backend, report)
    else:
        sizes = QUICK if args.quick else FULL
        chosen = choose(device, torch.bfloat16, sizes.heads.d)
        report.settings |= machine.describe(device, str(chosen))
        bench = Bench(device, CudaTimer(device, sizes.runs), sizes, chosen.name, report)
    report.settings["timer"] = f"{bench.timer.label}; median of {bench.sizes.repeats} (range)"
    return bench


def _interpreted() -> bool:
    """Whether kernels can run here without a GPU: under TRITON_INTERPRET=1, where triton is."""
    try:
        from kernels.gpu.launch import INTERPRETED
    except ImportError:
        return False
    return INTERPRETED


def _parts(bench: Bench, args: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """In the order in which they run: first whether it is right, then how fast."""
    loaded: list[list[peers.Peer]] = []  # when first asked for: it takes a while

    def with_peers(part: Callable[[Bench, list[peers.Peer]], None]) -> Callable[[], None]:
        def run() -> None:
            if not loaded:
                found, absent = peers.installed(bench.device)
                loaded.append(found)
                for line in absent:
                    bench.report.say(line)
            part(bench, loaded[0])

        return run

    return {
        "correctness": lambda: correctness.run(bench),
        "ceilings": lambda: _ceilings(bench),
        "decode": with_peers(attention.decode),
        "prefill": with_peers(attention.prefill),
        "paging": lambda: attention.paging(bench),
        "moves": lambda: moves.run(bench),
        "engine": lambda: engine.run(bench, args.model, args.vllm_python),
    }


def _ceilings(bench: Bench) -> None:
    """The two that everything else is held against, by themselves."""
    for name in (COPY, MATMUL):
        limit = bench.ceiling(name)
        samples = [bench.timer.seconds(limit.work) for _ in range(bench.sizes.repeats + 1)]
        seconds = Timing.of(samples[1:])
        what = (
            f"copy {bench.sizes.copy_bytes / 1e9:.2f} GB within the device"
            if name == COPY
            else f"product {bench.sizes.matmul:,}³, bfloat16"
        )
        bench.report.add(
            Row("ceilings", what, "torch", seconds, seconds.per_second(limit.units), limit.unit)
        )


def _attempt(bench: Bench, name: str, run: Callable[[], None]) -> bool:
    """Run a part; what it raises is reported. False if the device is of no more use after that: an
    illegal access ends a CUDA context, not only the kernel."""
    try:
        run()
    except Exception as error:  # the other parts are to run all the same
        why = " ".join(str(error).split())[:300] or type(error).__name__
        bench.report.failed[name] = f"{type(error).__name__}: {why}"
        bench.report.say(f"{name} broke: {bench.report.failed[name]}")
    gc.collect()
    return answers(bench.device)


def answers(device: torch.device) -> bool:
    """Whether the device still computes for this process."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _elsewhere(report: Report, args: argparse.Namespace, parts: list[str]) -> None:
    """The remaining parts in a fresh process; what it finds joins the report."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "rest.json"
        command = [sys.executable, "-m", "bench", "gpu", "--json", str(found)]
        command += ["--model", args.model, "--device", args.device]
        command += ["--quick"] if args.quick else []
        command += ["--tiny"] if args.tiny else []
        command += ["--vllm-python", args.vllm_python] if args.vllm_python else []
        subprocess.run([*command, "--part", *parts], cwd=RUNS.parent, check=False)
        if found.exists():
            report.take(json.loads(found.read_text(encoding="utf-8")))
            return
    for part in parts:
        report.failed[part] = "the process for it ended without a report"


def _end(bench: Bench, args: argparse.Namespace) -> None:
    report = bench.report
    if args.device == "cuda":
        report.settings["after"] = machine.clocks()
        print(f"\nafter: {report.settings['after']}")
    wrong = [check.name for check in report.checks if not check.passed]
    checked = f"{len(report.checks)} checks, {len(wrong)} wrong"
    print(f"\n{checked}; {len(report.rows)} rows")
    for name in wrong:
        print(f"WRONG: {name}")
    for part, why in report.failed.items():
        print(f"BROKE: {part}: {why}")
    if args.device == "cpu":
        print(REHEARSAL)
    if args.json:
        report.write(args.json)
