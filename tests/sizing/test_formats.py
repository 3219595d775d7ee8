"""Bytes per number: the table against GGUF's own, and its arithmetic."""

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import formats, units
from core.sizing.errors import SizingError
from tests.sizing import derivation

FORMATS = st.sampled_from(list(formats.FORMATS.values()))


def test_block_formats_are_those_of_gguf() -> None:
    sizes = {kind.name.lower(): size for kind, size in gguf.GGML_QUANT_SIZES.items()}
    shared = [name for name in formats.FORMATS if name in sizes and name != "nvfp4"]
    assert {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q6_k", "iq4_nl"} <= set(shared)
    for name in shared:
        fmt = formats.get(name)
        assert (fmt.block_elements, fmt.block_bytes) == sizes[name], name


@pytest.mark.parametrize(
    ("name", "numbers", "size"),
    [
        ("fp32", 7, 28),
        ("bf16", 7, 14),
        ("fp8_e5m2", 7, 7),
        ("int4", 8, 4),
        ("int4", 7, 4),
        ("q8_0", 64, 68),
        ("q4_k", 256, 144),
        ("nvfp4", 64, 36),
        ("fp8_g128", 128, 132),
    ],
)
def test_bytes_of_a_row(name: str, numbers: int, size: int) -> None:
    assert formats.bytes_of(numbers, formats.get(name)) == size


def test_common_spellings_mean_the_same() -> None:
    assert formats.get("bfloat16") is formats.get("bf16")
    assert formats.get("Q8_0") is formats.get("q8_0")
    assert formats.get("float8_e4m3fn") is formats.get("fp8_e4m3")


def test_an_unknown_format_is_refused_with_near_ones() -> None:
    with pytest.raises(SizingError, match="q8_0") as caught:
        formats.get("q8_00", "weight_dtype")
    assert caught.value.path == "weight_dtype"
    with pytest.raises(SizingError, match="known: fp32"):
        formats.get("\ud83d")


@given(FORMATS, st.integers(0, 10**15), st.integers(0, 10**15))
def test_bytes_grow_with_numbers_and_padding_is_less_than_a_block(
    fmt: formats.Format, one: int, two: int
) -> None:
    both = formats.bytes_of(one, fmt) + formats.bytes_of(two, fmt)
    together = formats.bytes_of(one + two, fmt)
    assert both - fmt.block_bytes <= together <= both
    exact = one * fmt.block_bytes
    assert exact <= formats.bytes_of(one, fmt) * fmt.block_elements
    assert formats.bytes_of(one, fmt) * fmt.block_elements < exact + (
        fmt.block_bytes * fmt.block_elements
    )


@pytest.mark.parametrize(
    ("value", "from_", "to", "expected"),
    [
        (327680, "B", "MB", 0.32768),
        (327680, "B", "MiB", 0.3125),
        (320, "KiB", "B", 327680),
        (1, "GiB", "GB", 1.073741824),
        (400, "Gbit/s", "GB/s", 50),
        (0.1, "GB", "B", 100_000_000),
    ],
)
def test_units_convert_exactly(value: float, from_: str, to: str, expected: float) -> None:
    result = units.convert(value, from_, to)
    assert result.value == expected
    assert result.unit == to
    derivation.check(result)


def test_a_size_is_not_a_rate() -> None:
    with pytest.raises(SizingError, match="GB/s is a rate") as caught:
        units.convert(1, "GB", "GB/s")
    assert caught.value.path == "to"
    with pytest.raises(SizingError):
        units.convert(float("nan"), "GB", "B")


@pytest.mark.parametrize(
    ("from_", "given", "hint"),
    [
        ("GB/s", "Gb/s", "did you mean Gbit/s or GB/s?"),
        ("GB", "Gb", "did you mean Gbit or GB?"),
        ("GB", "b", "did you mean bit or B?"),
        ("GB", "gib", "did you mean GiB or Gibit?"),
        ("GB/s", "GBps", "did you mean GB/s or Gbit/s?"),
        ("GB", "xyz", "known: B, kB"),
        ("GB", None, "known: B, kB"),
    ],
)
def test_an_unknown_unit_is_met_with_what_may_be_meant(from_: str, given: str, hint: str) -> None:
    with pytest.raises(SizingError) as caught:
        units.convert(1, from_, given)
    assert caught.value.path == "to" and hint in caught.value.message


def test_both_units_are_shown_apart() -> None:
    assert units.both(85_899_345_920) == "85.90 GB = 80.00 GiB"
    assert units.both(327_680) == "327.68 kB = 320.00 KiB"
    assert units.both(12) == "12 B"
    assert units.both(5 * 10**15) == "5.00 PB = 4.44 PiB"
