"""Accelerators: memory, bandwidth, dense peaks and links, each with its source and date."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from core import jsonio
from core.sizing import checks
from core.sizing.errors import SizingError

COMPUTE = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")
"""The dtypes of matrix units."""


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


def names() -> tuple[str, ...]:
    """The GPUs of the table, in its order."""
    return tuple(_table())


def get(name: str) -> GpuSpec:
    """A GPU of the table. Raises SizingError at "gpu", with near matches."""
    if not isinstance(name, str):
        raise SizingError("gpu", "must be the name of a GPU")
    table = _table()
    found = table.get(name) or table.get(name.strip().lower())
    if found is None:
        key = name.strip().lower()
        near = [known for known in table if known.startswith(key)]
        near = near or difflib.get_close_matches(key, table, 3, 0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if key and near else f"known: {', '.join(table)}"
        )
        raise SizingError("gpu", f"there is no GPU {name[:40]!r}; {hint}")
    return found


def custom(
    visible_mib: int,
    bandwidth: float,
    peaks: dict[str, float],
    name: str = "custom",
    sparse_peaks: dict[str, float] | None = None,
    link: float = 0.0,
    pcie_gen: int = 0,
    pcie_lanes: int = 16,
) -> GpuSpec:
    """One's own GPU. visible_mib: as the driver reports it. bandwidth, link: bytes/s.

    peaks, sparse_peaks: FLOP/s by dtype ("bf16", "fp8", "int8" …). pcie_gen 0: not known.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > 80:
        raise SizingError("name", "must be a word of at most 80 characters")
    if not isinstance(peaks, dict) or not peaks:
        raise SizingError("peaks", 'must hold at least one rate, as in {"bf16": 1e14}')
    generation = checks.whole(pcie_gen, "pcie_gen", 0, 8)
    return GpuSpec(
        name=name.strip(),
        title=name.strip(),
        visible_mib=checks.whole(visible_mib, "visible_mib", 1, 1 << 30),
        bandwidth=checks.positive(bandwidth, "bandwidth"),
        peaks=_rates(peaks, "peaks"),
        sparse_peaks=_rates(sparse_peaks or {}, "sparse_peaks"),
        link=checks.number(link, "link"),
        link_name="as given" if link else "",
        pcie=(generation, checks.whole(pcie_lanes, "pcie_lanes", 1, 32)) if generation else (0, 0),
        sources=("as given",),
    )


def _rates(given: dict[str, float], path: str) -> dict[str, float]:
    if not isinstance(given, dict):
        raise SizingError(path, 'must be an object, as in {"bf16": 1e14}')
    return {
        checks.choice(dtype, path, COMPUTE): checks.positive(rate, f"{path}.{dtype}")
        for dtype, rate in given.items()
    }


@cache
def _table() -> dict[str, GpuSpec]:
    data = resources.files("core.sizing").joinpath("data", "gpus.json").read_bytes()
    return {
        name: GpuSpec(
            name=name,
            title=row["title"],
            visible_mib=row["visible_mib"],
            bandwidth=row["bandwidth"],
            peaks=row["peaks"],
            sparse_peaks=row["sparse_peaks"],
            link=row["link"],
            link_name=row["link_name"],
            pcie=tuple(row["pcie"]),
            marketing_gb=row["marketing_gb"],
            sources=tuple(row["sources"]),
            date=row["date"],
            notes=tuple(row["notes"]),
        )
        for name, row in jsonio.loads(data).items()
    }
