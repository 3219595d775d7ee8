"""The table of GPUs, and one's own."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import gpus
from core.sizing.errors import SizingError

NAMED = [
    "h100-sxm5",
    "h100-pcie",
    "a100-sxm4-80",
    "a100-sxm4-40",
    "h200-sxm",
    "b200-sxm",
    "l40s",
    "rtx-4090",
    "mi300x",
]


def test_the_table_has_the_gpus_of_the_course() -> None:
    assert list(gpus.names()) == NAMED


@pytest.mark.parametrize("name", NAMED)
def test_each_entry_is_whole_and_says_where_it_is_from(name: str) -> None:
    gpu = gpus.get(name)
    assert gpu.name == name
    assert gpu.sources
    assert gpu.date
    assert set(gpu.peaks) <= set(gpus.COMPUTE)
    assert gpu.peaks["bf16"] == gpu.peaks["fp16"]
    assert gpu.peaks["tf32"] < gpu.peaks["bf16"] < gpu.peaks["int8"]
    assert set(gpu.sparse_peaks) == set(gpu.peaks)
    for dtype, dense in gpu.peaks.items():
        # Printed numbers are rounded, each on its own.
        assert math.isclose(gpu.sparse_peaks[dtype], 2 * dense, rel_tol=0.013), dtype
    assert gpu.pcie[0] in (4, 5)
    assert bool(gpu.link) == bool(gpu.link_name)
    # The driver shows about what the box says; GB there is 10⁹ or 2³⁰, as the maker likes.
    assert gpu.marketing_gb is not None
    assert 0.93 < gpu.visible_mib / 1024 / gpu.marketing_gb <= 1.0


def test_figures_of_the_h100() -> None:
    gpu = gpus.get("H100-SXM5")
    assert gpu.visible_bytes == 81_559 * 2**20
    assert gpu.peaks["bf16"] / gpu.bandwidth == pytest.approx(295.343, abs=1e-3)
    assert gpu.peaks["fp8"] / gpu.bandwidth == pytest.approx(590.716, abs=1e-3)
    assert "fp8" not in gpus.get("a100-sxm4-80").peaks


def test_int4_of_the_l40s_is_that_of_nvidias_sheet() -> None:
    gpu = gpus.get("l40s")
    assert (gpu.peaks["int4"], gpu.sparse_peaks["int4"]) == (733e12, 1466e12)


def test_a_name_that_is_not_there_is_met_with_near_ones() -> None:
    with pytest.raises(SizingError, match="did you mean h100-sxm5 or h100-pcie"):
        gpus.get("h100")
    with pytest.raises(SizingError, match="known: h100-sxm5"):
        gpus.get("")
    with pytest.raises(SizingError, match="must be the name"):
        gpus.get(None)  # type: ignore[arg-type]


def test_ones_own() -> None:
    gpu = gpus.custom(16_384, 5e11, {"bf16": 1e14}, "mine", link=1e10, pcie_gen=4)
    assert (gpu.name, gpu.visible_bytes, gpu.pcie) == ("mine", 16 << 30, (4, 16))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"visible_mib": 0}, "visible_mib"),
        ({"visible_mib": "80 GB"}, "visible_mib"),
        ({"bandwidth": 0}, "bandwidth"),
        ({"bandwidth": float("inf")}, "bandwidth"),
        ({"peaks": {}}, "peaks"),
        ({"peaks": {"bf17": 1e12}}, "peaks"),
        ({"peaks": {"bf16": -1}}, "peaks.bf16"),
        ({"peaks": [1]}, "peaks"),
        ({"sparse_peaks": 3}, "sparse_peaks"),
        ({"link": -1}, "link"),
        ({"pcie_gen": 9}, "pcie_gen"),
        ({"pcie_gen": 4, "pcie_lanes": 0}, "pcie_lanes"),
        ({"name": ""}, "name"),
    ],
)
def test_a_gpu_that_cannot_be_is_refused(options: dict[str, object], path: str) -> None:
    good = {"visible_mib": 1000, "bandwidth": 1e12, "peaks": {"bf16": 1e14}}
    with pytest.raises(SizingError) as caught:
        gpus.custom(**{**good, **options})  # type: ignore[arg-type]
    assert caught.value.path == path


@given(st.text(max_size=50))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    try:
        assert gpus.get(text).name in NAMED
    except SizingError as error:
        assert error.path == "gpu"
