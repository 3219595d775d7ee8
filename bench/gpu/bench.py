"""What the parts share: the device, the clock, and the two ceilings that rows are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bench.gpu.report import Report, Row
from bench.gpu.shapes import Sizes
from bench.gpu.timer import Timer, Work, take_turns
from bench.timing import Timing, ratio

COPY, MATMUL = "copy bandwidth", "matmul rate"


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Work that stands for what the device can do, and its units: bytes or operations."""

    work: Work
    units: float
    unit: str


class Bench:
    """One run of the command on one device.

    backend: of the kernels, "triton" or "torch". dtype: of activations and native blocks. `ours` is
    what our rows are signed with.
    """

    def __init__(
        self, device: torch.device, timer: Timer, sizes: Sizes, backend: str, report: Report
    ) -> None:
        self.device = device
        self.timer = timer
        self.sizes = sizes
        self.backend = backend
        self.report = report
        self.dtype = torch.bfloat16
        self.ours = "ours" if backend == "triton" else "twin (torch)"
        self._ceilings: dict[str, Ceiling] = {}

    def ceiling(self, name: str) -> Ceiling:
        """COPY: a large copy within the device, bytes read and written. MATMUL: a square product in
        `dtype`. Their tensors are kept: every row is measured in turn with one of them."""
        if name not in self._ceilings:
            make = self._copy if name == COPY else self._matmul
            self._ceilings[name] = make()
        return self._ceilings[name]

    def _copy(self) -> Ceiling:
        source = torch.ones(self.sizes.copy_bytes, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        return Ceiling(lambda: target.copy_(source), 2 * source.nbytes, "B/s")

    def _matmul(self) -> Ceiling:
        side = self.sizes.matmul
        a, b = (torch.randn(side, side, device=self.device).to(self.dtype) for _ in "ab")
        out = torch.empty_like(a)
        return Ceiling(lambda: torch.matmul(a, b, out=out), 2 * side**3, "FLOP/s")

    def measure(
        self,
        part: str,
        name: str,
        works: Mapping[str, Work],
        units: float,
        ceiling: str,
        note: str = "",
    ) -> dict[str, Timing]:
        """Time all in turn with a ceiling, and report a row for each, the first one ours; the
        others are held against it. units: what each does, in the ceiling's. Returns the seconds."""
        limit = self.ceiling(ceiling)
        samples = take_turns(self.timer, {**works, "ceiling": limit.work}, self.sizes.repeats)
        ours = next(iter(works))
        for who, work in works.items():
            seconds = Timing.of(samples[who])
            pairs = zip(samples[who], samples["ceiling"], strict=True)
            share = Timing.of([units / mine * top / limit.units for mine, top in pairs])
            remarks = [note] if note else []
            if self.timer.waits_for_host(work):
                remarks.append("launched too slowly to be sure: Python may be in the time")
            self.report.add(
                Row(
                    part=part,
                    name=name,
                    who=who,
                    seconds=seconds,
                    rate=seconds.per_second(units),
                    unit=limit.unit,
                    share=share,
                    of=ceiling,
                    against=None if who == ours else ratio(samples[ours], samples[who]),
                    beside="" if who == ours else ours,
                    note="; ".join(remarks),
                )
            )
        return {who: Timing.of(samples[who]) for who in works}
