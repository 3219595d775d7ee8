"""Numbers with units as people type them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing.units import SIZES
from quiz.errors import QuizError
from quiz.exercises import quantity
from quiz.exercises.quantity import read

SAME = {
    327_680: (
        "320 KiB", "320KiB", "327680 B", "327,680 B", "327 680 B", "327'680 B", "327_680 bytes",
        "327\u202f680\u00a0B", "2621440 bits", "2,560 Kibit", "320 kibibytes", "= 320 KiB.",
        "about 320 KiB", "≈ 320 KiB", "320 KiB/token", "320 KiB per token",
    ),
    16_800_000_000: ("16.8 GB", "16,8 GB", "16800 MB", "1.68e10 B", "1.68×10^10 B", "1.68·10¹⁰ B",
                     "134.4 Gbit", "134.4 Gb", "16.8 gigabytes"),
    2**30: ("1 GiB", "2^30 B", "2**30 bytes", "1073741824 B", "1.073.741.824 B", "1,073,741,824 B"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"), [(text, value) for value, texts in SAME.items() for text in texts]
)
def test_one_size_in_many_spellings(text: str, value: int) -> None:
    found = read(text)
    assert found.unit is not None and found.unit.kind == "size"
    assert found.value == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("16.8 GB/s", "rate", Fraction(16_800_000_000)),
        ("134.4 Gbit/s", "rate", Fraction(16_800_000_000)),
        ("134.4 Gbps", "rate", Fraction(16_800_000_000)),
        ("16.8 GBps", "rate", Fraction(16_800_000_000)),
        ("16.8 GB per second", "rate", Fraction(16_800_000_000)),
        ("59 %", "share", Fraction(59, 100)),
        ("59.2 percent", "share", Fraction(592, 1000)),
        ("2 ms", "time", Fraction(2, 1000)),
        ("2000 us", "time", Fraction(2, 1000)),
        ("2000 μs", "time", Fraction(2, 1000)),
        ("0,002 seconds", "time", Fraction(2, 1000)),
        ("64 FLOP/B", "FLOP/B", Fraction(64)),
        ("64 FLOPs per byte", "FLOP/B", Fraction(64)),
        ("3.46×", "factor", Fraction(346, 100)),
        ("9 times", "factor", Fraction(9)),
        ("296 tokens", "tokens", Fraction(296)),
        ("74 requests", "users", Fraction(74)),
        ("163 requests/s", "requests/s", Fraction(163)),
        ("163 RPS", "requests/s", Fraction(163)),
    ],
)
def test_every_kind_is_read(text: str, kind: str, value: Fraction) -> None:
    found = read(text)
    assert found.unit is not None and (found.unit.kind, found.value) == (kind, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,024", 1024), ("1.024", Fraction(1024, 1000)), ("0,335", Fraction(335, 1000)),
        ("1.234,5", Fraction(12345, 10)), ("1,234.5", Fraction(12345, 10)),
        ("7.5", Fraction(15, 2)), (".5", Fraction(1, 2)), ("1 024", 1024), ("74", 74),
        ("-3", -3), ("−3", -3),
    ],
)  # fmt: skip
def test_points_commas_and_groups(text: str, value: Fraction) -> None:
    found = read(text)
    assert found.unit is None and found.value == value


def test_a_prefix_of_1000_is_never_one_of_1024() -> None:
    assert read("1 GB").value == 10**9 != read("1 GiB").value
    assert read("1 KB").value == read("1 kB").value == 1000
    assert read("1 Gb").value * 8 == read("1 GB").value


def test_small_letters_are_read_and_said() -> None:
    found = read("12 gb")
    assert found.unit is not None
    assert (found.unit.name, found.unit.note) == ("GB", "read as GB")
    assert read("12 gib").unit is not None and read("12 gib").value == 12 * 2**30
    written = read("12 GB").unit
    assert written is not None and written.note == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Write a number"), ("   ", "Write a number"), ("three", "There is no number"),
        ("GB", "There is no number"), ("4K", "1,000s or 1,024s"),
        ("12 parsecs", "unit is not known"), ("1,2,3", "decimals begin"),
        ("1.2.3", "decimals begin"), ("12 GB 3", "more than one number"),
        ("1e999", "exponent"), ("2^99999", "exponent"), ("0^-1", "divided by zero"),
        ("9" * 41, "digits"), ("x" * 81, "nothing else"),
        ("<script>alert(1)</script>", "no number"), ("12 <b>", "unit is not known"),
        ("inf", "There is no number"), ("nan", "There is no number"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_gets_one_sentence(text: str, says: str) -> None:
    with pytest.raises(QuizError, match=says) as caught:
        read(text)
    assert "<" not in str(caught.value), "what was typed is never said again"


NUMBERS = st.decimals(min_value="0.001", max_value="999999999", places=3)
UNITS = st.sampled_from(
    [
        *SIZES,
        *(f"{name}/s" for name in SIZES),
        "ms",
        "s",
        "µs",
        "%",
        "x",
        "FLOP/B",
        *quantity.COUNTS,
    ]
)


@settings(max_examples=200, deadline=None)
@given(NUMBERS, UNITS, st.sampled_from(["", " ", "\u00a0"]))
def test_what_is_written_is_read_again(number, unit: str, space: str) -> None:  # type: ignore[no-untyped-def]
    for text in (f"{number}{space or ' '}{unit}", f"{number:,}{space or ' '}{unit}"):
        found = read(text)
        assert found.unit is not None
        assert (found.number, found.unit.name) == (Fraction(number), unit)
        again = read(found.shown)
        assert again.unit == found.unit and abs(again.number - found.number) <= found.number / 10**9


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.text(max_size=100),
        st.text(alphabet="0123456789.,eE+-^x* '_%/KMGTiBbits", max_size=40),
        st.from_regex(r"\A[0-9.,]{1,12}(e|\^|x10\^)?-?[0-9]{0,6} ?[A-Za-z/%]{0,8}\Z"),
    )
)
def test_no_text_breaks_it(text: str) -> None:
    try:
        found = read(text)
    except QuizError as error:
        assert 0 < len(str(error)) < 120
    else:
        assert found.shown and found.step > 0 and found.digits > 0
