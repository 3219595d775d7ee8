"""What exactly is wrong with an answer: its unit, a known misconception, rounding, its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from core.sizing.units import SIZES
from quiz.errors import QuizError
from quiz.exercises import quantity
from quiz.exercises.quantity import BASES, COUNTS, KINDS, Quantity, plain

Verdict = Literal["right", "unread", "unit", "misconception", "rounding", "magnitude", "off"]
"""unit: the number would be right in another unit. magnitude: its digits would be right."""

CLOSE: Final = Fraction(1, 200)
"""Within half a percent an answer is right, however many digits it has."""
NEAR: Final = Fraction(1, 20)
"""Within five percent something was rounded on the way."""
COARSE: Final = Fraction(1, 40)
"""So far a correct rounding to two digits or more may lie from the value."""

MANY: Final = 1000
"""Below it a whole number must be exact: one user more or less can be told from a rounding."""


@dataclass(frozen=True, slots=True)
class Slip:
    """A wrong answer that a known misconception leads to. value: in base units."""

    id: str
    value: Fraction
    says: str


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked for. base: "B", "B/s", "s", "fraction", "x", "FLOP/B", "requests/s", or what is
    counted. whole: how a quotient becomes a whole number: "down", "up", or "" where it need not.
    before: that quotient."""

    value: Fraction
    base: str
    slips: tuple[Slip, ...] = ()
    whole: Literal["", "down", "up"] = ""
    before: Fraction | None = None

    @property
    def kind(self) -> str:
        return BASES.get(self.base, self.base)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """says: one or two sentences for the learner. read_as: how the answer was read, where that is
    not how it was written. slip: the misconception's id."""

    verdict: Verdict
    says: str
    read_as: str = ""
    slip: str = ""


@lru_cache(maxsize=1024)
def diagnose(text: str, target: Target) -> Diagnosis:
    """Judge an answer as it was typed. Kept: a page draws all its parts again at every answer."""
    try:
        given = quantity.read(text)
    except QuizError as error:
        return Diagnosis("unread", str(error))
    found = _judge(given, target)
    typed = " ".join(text.split())
    if given.unit is not None and given.unit.note:
        return _with(found, f"{given.shown} ({given.unit.note.removeprefix('read as ')} is meant?)")
    return (
        found if typed in (given.shown, given.shown.replace(",", "")) else _with(found, given.shown)
    )


def _with(found: Diagnosis, read_as: str) -> Diagnosis:
    return Diagnosis(found.verdict, found.says, read_as, found.slip)


def _judge(given: Quantity, target: Target) -> Diagnosis:
    if given.number < 0:
        return Diagnosis("off", "It cannot be below zero.")
    if given.unit is not None and given.unit.kind != target.kind:
        return _other_kind(given, target)
    if given.unit is None and target.kind in ("size", "rate", "time"):
        return _no_unit(given, target)
    if _equal(given, target.value, target):
        return Diagnosis("right", "Right.")
    if confused := _unit_slip(given, target, alike=True):
        return confused  # these very digits in bits are not the slip of a factor of 8
    for slip in target.slips:
        if _equal(given, slip.value, target):
            return Diagnosis("misconception", slip.says, slip=slip.id)
    return (
        _rounded_whole(given, target)
        or _unit_slip(given, target)
        or _magnitude(given, target)
        or _rounding(given, target)
        or _off(given, target)
    )


def _equal(given: Quantity, value: Fraction, target: Target) -> bool:
    """Whether the answer is that value, as far as its digits say."""
    return _agrees(given.number, given.step, given.digits, value / given.factor, target)


def _agrees(number: Fraction, step: Fraction, digits: int, value: Fraction, target: Target) -> bool:
    off = abs(number - value)
    if (target.whole and value < MANY) or value == 0:
        return off == 0
    if off <= abs(value) * CLOSE:
        return True
    return digits >= 2 and off <= step / 2 and off <= abs(value) * COARSE


def _no_unit(given: Quantity, target: Target) -> Diagnosis:
    for name, factor in _units(target.kind):
        if _agrees(given.number, given.step, given.digits, target.value / factor, target):
            return Diagnosis("unit", f"The number is right in {name}. Write the unit with it.")
    examples = {"size": "B, KiB, MB or GiB", "rate": "GB/s or Gbit/s", "time": "ms or s"}
    return Diagnosis("unit", f"A number alone is not {KINDS[target.kind]}. Write its unit: "
                     f"{examples[target.kind]}.")  # fmt: skip


def _other_kind(given: Quantity, target: Target) -> Diagnosis:
    unit = given.unit
    assert unit is not None
    asked = KINDS.get(target.kind, f"a number of {target.kind}")
    if unit.kind == "size" and target.kind == "rate" and _equal(given, target.value, target):
        return Diagnosis("unit", f"The number is right, and it is a rate: {unit.name}/s.")
    if unit.kind == "rate" and target.kind == "size" and _equal(given, target.value, target):
        name = unit.name.removesuffix("/s")
        return Diagnosis("unit", f"The number is right, and it is a size: {name}, not per second.")
    what = KINDS.get(unit.kind, f"a number of {unit.kind}")
    both_plain = {unit.kind, target.kind} <= {"share", "factor", *COUNTS}
    hint = ""
    if both_plain and _agrees(given.number, given.step, given.digits, target.value, target):
        hint = " The number is right."
    return Diagnosis("unit", f"{unit.name} says {what}; asked is {asked}.{hint}")


def _units(kind: str) -> Iterator[tuple[str, Fraction]]:
    """Units of a kind, those that people mean first: bytes, binary before decimal, then bits."""
    if kind in ("size", "rate"):
        end = "/s" if kind == "rate" else ""
        names = [n for n in SIZES if n.endswith("iB")] + [n for n in SIZES if not n.endswith("iB")]
        if kind == "rate":
            names = [n for n in SIZES if not n.endswith("iB")] + names
        for name in dict.fromkeys(names):
            yield f"{name}{end}", SIZES[name]
    elif kind == "time":
        yield from (("s", Fraction(1)), ("ms", Fraction(1, 1000)), ("µs", Fraction(1, 10**6)))
    elif kind == "share":
        yield from (("%", Fraction(1, 100)), ("a fraction of 1", Fraction(1)))


def _unit_slip(given: Quantity, target: Target, *, alike: bool = False) -> Diagnosis | None:
    """The number is right, in another unit than the one that was written. alike: in one of the same
    size that it is easily taken for, GiB for GB; nobody who writes bytes means bits by them."""
    written = given.unit.name if given.unit else ""
    meant = [
        name
        for name, factor in _units(target.kind)
        if factor != given.factor
        and not (alike and ("bit" in name or name[:1].lower() != written[:1].lower()))
        and _agrees(given.number, given.step, given.digits, target.value / factor, target)
    ]
    if not meant:
        return None
    name = next((one for one in meant if one[:1].lower() == written[:1].lower()), meant[0])
    if target.kind == "share":
        if written == "%":
            return Diagnosis("unit", "The number is right as a fraction of 1; with % it is a "
                             "hundred times less.")  # fmt: skip
        return Diagnosis("unit", "The number is right in percent. Write the sign: %.")
    return Diagnosis("unit", f"The number is right in {name}, and you wrote {written}. "
                     f"{_difference(written, name)}".strip())  # fmt: skip


def _difference(written: str, meant: str) -> str:
    """What one has to do with the other."""
    if ("bit" in written) != ("bit" in meant):
        return "A byte is 8 bits."
    if written.replace("i", "").lower() == meant.replace("i", "").lower() != written:
        binary, decimal = sorted((written, meant), key=lambda name: name[1:2] != "i")
        sizes = [SIZES[name.removesuffix("/s")] for name in (binary, decimal)]
        more = float(sizes[0] / sizes[1] - 1) * 100
        return f"1 {binary} is {plain(sizes[0])} B, {more:.1f} % more than 1 {decimal}."
    return ""


def _rounded_whole(given: Quantity, target: Target) -> Diagnosis | None:
    """A quotient that was not cut to whole ones, or rounded the wrong way."""
    if not target.whole or target.before is None:
        return None
    before = target.before
    if given.number.denominator != 1 and abs(given.number - before) <= max(
        given.step, before * CLOSE
    ):
        if target.whole == "down":
            return Diagnosis("rounding", "That is the quotient. A part of one does not fit: round "
                             "down.")  # fmt: skip
        return Diagnosis("rounding", "That is the quotient. Short of the whole number it is not "
                         "yet reached: round up.")  # fmt: skip
    if given.number in (before.__floor__(), before.__ceil__()):
        if target.whole == "down":
            return Diagnosis("rounding", "Rounded up: the last one does not fit whole.")
        return Diagnosis("rounding", "Rounded down: with so many it is not yet reached.")
    return None


def _magnitude(given: Quantity, target: Target) -> Diagnosis | None:
    if given.number == 0:
        return None
    ratio = given.value / target.value
    powers = [(Fraction(10) ** k, 10 ** abs(k)) for k in range(-12, 13) if k]
    powers += [(Fraction(1024) ** k, 1024 ** abs(k)) for k in (-3, -2, -1, 1, 2, 3)]
    for power, times in powers:
        if abs(ratio / power - 1) <= CLOSE:
            way = "large" if power > 1 else "small"
            return Diagnosis("magnitude", f"The digits are right: it is {times:,} times too {way}.")
    return None


def _rounding(given: Quantity, target: Target) -> Diagnosis | None:
    off = given.value / target.value - 1
    if given.digits == 1 and abs(given.value - target.value) <= given.step * given.factor / 2:
        return Diagnosis("rounding", "Right to one digit. Give two or three.")
    if abs(off) <= NEAR:
        way = "above" if off > 0 else "below"
        return Diagnosis("rounding", f"Close: {abs(float(off)) * 100:.1f} % {way}. Round at the "
                         "end and not on the way.")  # fmt: skip
    return None


def _off(given: Quantity, target: Target) -> Diagnosis:
    """How far off, without giving the answer away."""
    ratio = given.value / target.value
    way, times = ("high", ratio) if ratio > 1 else ("low", 1 / ratio if ratio else Fraction(10**6))
    if times >= 10:
        return Diagnosis("off", f"Far too {way}: by more than a factor of ten.")
    if times >= 2:
        return Diagnosis("off", f"Too {way}, by more than a factor of two.")
    return Diagnosis("off", f"Too {way}.")
