"""Printed numbers: their digits, their units, and what counts as the same number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import printed
from core.sizing.errors import SizingError


def _read(unit: str = "", **content: str) -> printed.Printed:
    return printed.read({**content, "unit": unit}, "printed")


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("35", 35, "exact"),
        ("35", Fraction("35.28"), "rounded"),
        ("35", Fraction("35.51"), "cut"),
        ("35", 36, ""),
        ("35", Fraction("34.5"), "rounded"),
        ("35", Fraction("34.49"), ""),
        ("80.5", Fraction("80.46875"), "exact"),
        ("3.4", Fraction("3.4615"), "cut"),
        ("3.5", Fraction("3.4615"), "rounded"),
        ("3.3", Fraction("3.4615"), ""),
        ("1,310,720", 1_310_720, "exact"),
        ("1,310,720", 1_310_721, ""),
        ("−0.2", Fraction("-0.2"), "exact"),
        ("0", 0, "exact"),
        ("0", 1, ""),
    ],
)
def test_the_last_digit_sets_the_precision(text: str, value: Any, expected: str) -> None:
    assert _read(value=text).agrees(Fraction(value)) == expected


def test_ranges_and_bounds() -> None:
    assert _read(low="60", high="80", unit="%").agrees(Fraction("0.618")) == "exact"
    assert _read(low="60", high="80", unit="%").agrees(Fraction("0.93")) == ""
    assert _read(below="4", unit="%").agrees(Fraction("0.04")) == ""
    assert _read(at_most="4", unit="%").agrees(Fraction("0.04")) == "exact"
    assert _read(above="1", unit="x").agrees(Fraction(1)) == ""
    assert _read(at_least="1", unit="x").agrees(Fraction(1)) == "exact"
    assert _read(value="1").agrees(None) == ""


def test_units_have_readings() -> None:
    assert dict(_read(value="1", unit="KB").factors()) == {"printed": 1000, "binary": 1024}
    mega = _read(value="0.320", unit="MB").factors()
    assert [factor for reading, factor in mega if reading == "mixed"] == [1_024_000]
    giga = _read(value="0.64", unit="GB/s").factors()
    assert [int(factor) for _, factor in giga] == [10**9, 2**30, 1_024_000_000, 1_048_576_000]
    assert dict(_read(value="1", unit="GiB").factors()) == {"printed": 2**30}
    assert printed.base("GB/s") == "B/s" and printed.base("ms") == "s"
    assert printed.base("%") == "fraction" and printed.base("users") == "users"


@given(st.integers(1, 10**15), st.sampled_from(["kB", "KB", "MB", "GB", "TB"]))
def test_what_is_printed_to_the_byte_is_exact(value: int, unit: str) -> None:
    """Any count of bytes printed with all its digits is itself again."""
    power = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}[unit[0]]
    text = f"{value // 1000**power}.{value % 1000**power:0{3 * power}d}"
    assert _read(value=text, unit=unit).agrees(Fraction(value)) == "exact"


@given(st.integers(1, 10**6))
def test_a_binary_count_under_a_decimal_unit_is_found(mebibytes: int) -> None:
    number = _read(value=str(mebibytes), unit="MB")
    readings = dict(number.factors())
    assert number.agrees(Fraction(mebibytes * 2**20), readings["binary"]) == "exact"
    assert number.agrees(Fraction(mebibytes * 10**6), readings["printed"]) == "exact"


def test_one_quantity_in_two_prints() -> None:
    def can(a: str, b: str, unit: str = "x") -> bool:
        return _read(value=a, unit=unit).can_equal(_read(value=b, unit=unit))

    assert not can("3.5", "3.4") and can("3.5", "3.5")
    assert can("38.9", "38") and can("38.9", "39") and not can("38.9", "37")
    assert _read(low="1", high="2").can_equal(_read(value="2"))
    assert not _read(low="1", high="2").can_equal(_read(value="3"))
    assert _read(value="1", unit="GB").can_equal(_read(value="7", unit="B"))  # not compared


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"value": "1", "low": "1"},
        {"value": 1},
        {"value": "1.2.3"},
        {"value": "12,34"},
        {"value": "1e5"},
        {"value": ""},
        {"low": "2", "high": "1"},
        {"low": "1"},
        {"about": "1"},
        {"value": "1", "unit": 3},
    ],
)
def test_what_is_no_printed_number_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(SizingError, match=r"^printed"):
        printed.read(content, "printed")


@given(st.dictionaries(st.sampled_from(["value", "low", "high", "below", "unit", "x"]), st.text()))
def test_any_content_is_a_number_or_an_error_with_a_path(content: dict[str, Any]) -> None:
    try:
        printed.read(content, "here")
    except SizingError as error:
        assert error.path.startswith("here")
