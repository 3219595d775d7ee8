"""`gpus`: the accelerators that sizing knows, with the sources of their numbers."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from core.commands.common import print_json


def add(commands: Any) -> None:
    parser = commands.add_parser("gpus", help="list the GPUs that sizing knows, with sources")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from core.sizing import gpus

    known = [gpus.get(name) for name in gpus.names()]
    if args.json:
        print_json([{**asdict(gpu), "visible_bytes": gpu.visible_bytes} for gpu in known])
        return 0
    for gpu in known:
        size = gpu.visible_bytes
        print(f"{gpu.name}  {gpu.title}")
        print(
            f"    memory   {gpu.visible_mib:,} MiB as the driver shows it = {size / 1e9:.2f} GB = "
            f"{size / 2**30:.2f} GiB; {gpu.bandwidth / 1e12:.4g} TB/s"
        )
        print(f"    TFLOP/s  {_peaks(gpu.peaks)} (dense)")
        if gpu.sparse_peaks:
            what = "with 2:4 sparsity: a contrast, used nowhere"
            print(f"    sparse   {_peaks(gpu.sparse_peaks)} ({what})")
        print(f"    links    {_links(gpu.link, gpu.link_name, gpu.pcie)}")
        for note in gpu.notes:
            print(f"    note     {note}")
        print(f"    sources  {'; '.join(gpu.sources)} ({gpu.date})")
    return 0


def _peaks(peaks: dict[str, float]) -> str:
    return ", ".join(f"{dtype} {rate / 1e12:,.4g}" for dtype, rate in peaks.items())


def _links(link: float, name: str, pcie: tuple[int, int]) -> str:
    from core.sizing.transfer import pcie_bandwidth

    parts = [f"{name} ({link / 1e9:g} one way)"] if link else []
    if pcie[0]:
        rate = pcie_bandwidth(*pcie).value or 0
        parts.append(f"PCIe {pcie[0]}.0 x{pcie[1]} ({rate / 1e9:.4g} GB/s one way)")
    return ", ".join(parts) or "none known"
