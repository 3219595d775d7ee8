"""Accelerators: memory, bandwidth, dense peaks and links, each with its source and date."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GpuSpec:
    """One accelerator.

    visible_mib: what the driver reports (nvidia-smi's total), not what the box says.
    bandwidth: memory bytes/s. peaks: dense FLOP/s (or OP/s) by dtype: "bf16", "fp8", "int8" …;
    a dtype that the hardware has no matrix unit for is absent. sparse_peaks: with 2:4 sparsity,
    shown only as a contrast. link: bytes/s one way to its peers, 0 if none.
    pcie: (generation, lanes).
    """

    name: str  # "h100-sxm5"
    title: str  # "NVIDIA H100 SXM5 80 GB"
    visible_mib: int
    bandwidth: float
    peaks: dict[str, float]
    sparse_peaks: dict[str, float] = field(default_factory=dict)
    link: float = 0.0
    link_name: str = ""
    pcie: tuple[int, int] = (0, 0)
    marketing_gb: float | None = None
    sources: tuple[str, ...] = ()
    date: str = ""  # when the sources were read
    notes: tuple[str, ...] = ()

    @property
    def visible_bytes(self) -> int:
        return self.visible_mib * 2**20
