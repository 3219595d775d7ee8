"""A number with its unit, as somebody typed it.

What is decided where spellings disagree:

    327,680   327 680   327_680   327'680    groups of three digits: 327680
    0,33   1,5   1.234,5                     a comma that cannot group digits is a decimal comma
    1.234.567                                several points group digits, a single one is decimal
    kB, KB = 1,000 bytes; KiB = 1,024        GB and GiB are never taken for each other
    Gb, Gbit, Gbps = bits; GB, GBps = bytes  the case decides; "gb" is read as GB and said so
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from core.sizing.units import SIZES
from quiz.errors import QuizError

MAX_CHARS: Final = 80
MAX_DIGITS: Final = 40
BASES: Final = {"B": "size", "B/s": "rate", "s": "time", "fraction": "share", "x": "factor"}
KINDS: Final = {
    "size": "a size",
    "rate": "a size per second",
    "time": "a time",
    "share": "a share",
    "factor": "a factor",
    "FLOP/B": "FLOP per byte",
    "requests/s": "requests per second",
}
COUNTS: Final = {
    "tokens": ("token",),
    "users": ("user", "sequence", "stream", "request", "session"),
    "links": ("link", "port"),
    "GPUs": ("gpu", "card"),
    "documents": ("document", "doc"),
    "blocks": ("block",),
    "heads": ("head",),
}
"""What can be counted, with other words for it; sequences, requests and users count the same."""

_TIMES: Final = {
    "ns": (Fraction(1, 10**9), ("nanosecond",)),
    "µs": (Fraction(1, 10**6), ("us", "microsecond")),
    "ms": (Fraction(1, 1000), ("msec", "millisecond")),
    "s": (Fraction(1), ("sec", "second")),
    "min": (Fraction(60), ("minute",)),
    "h": (Fraction(3600), ("hour", "hr")),
}
_PREFIX_WORDS: Final = {
    "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta",
    "Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi", "Pi": "pebi",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """name: how it is written here. kind: what it measures: "size", "rate", "time", "share",
    "factor", "FLOP/B", "requests/s", or what is counted. factor: base units in one. note: how an
    ambiguous spelling was read."""

    name: str
    kind: str
    factor: Fraction
    note: str = ""


@dataclass(frozen=True, slots=True)
class Quantity:
    """number: in the unit that was written. unit: None if there was none. step: one unit of the
    last digit written. digits: significant digits written."""

    number: Fraction
    unit: Unit | None
    step: Fraction
    digits: int

    @property
    def value(self) -> Fraction:
        """In base units; as written where there is no unit."""
        return self.number * self.factor

    @property
    def factor(self) -> Fraction:
        return Fraction(1) if self.unit is None else self.unit.factor

    @property
    def shown(self) -> str:
        """How it was read: 327,680 B."""
        return f"{plain(self.number)} {self.unit.name if self.unit else ''}".strip()


def plain(number: Fraction) -> str:
    """A number in digits, thousands grouped, no longer than it has to be."""
    if number.denominator == 1 and abs(number) < 10**15:
        return f"{number.numerator:,}"
    shown = float(number)
    return f"{shown:,.12g}" if 1e-6 <= abs(shown) < 1e15 else f"{shown:.6g}"


def read(text: str) -> Quantity:
    """The quantity that a text says. Raises QuizError with one sentence on what cannot be read."""
    if len(text) > MAX_CHARS:
        raise QuizError("Write one number with its unit, and nothing else.")
    said = _tidied(text)
    if not said:
        raise QuizError("Write a number with its unit.")
    found = _NUMBER.match(said)
    if found is None:
        raise QuizError("There is no number at the beginning. Write it in digits: 96 KiB, 2.5 ms.")
    number, step, digits = _number(found)
    rest = said[found.end() :].strip()
    if re.search(r"\d", rest):
        raise QuizError("Here stands more than one number. Write the result alone.")
    return Quantity(number, _unit(rest), step, digits)


_SPACES: Final = dict.fromkeys(
    map(ord, "\u00a0\u2000\u2002\u2003\u2007\u2009\u200a\u202f\t\r\n"), " "
)
_SAME: Final = {
    ord("−"): "-", ord("–"): "-", ord("×"): "x", ord("·"): "*", ord("μ"): "µ", ord("％"): "%",
    ord("’"): "'",
}  # fmt: skip
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_BEFORE: Final = re.compile(
    r"^(?:[~≈=≃]|about\b|approximately\b|approx\b\.?|roughly\b|ca\b\.?|circa\b)\s*", re.IGNORECASE
)
_NUMBER: Final = re.compile(
    r"""(?P<sign>[+-]?)\s*
    (?P<body>[0-9]{1,3}(?:(?P<sep>[ '_])[0-9]{3})(?:(?P=sep)[0-9]{3})*(?![0-9])(?:[.,][0-9]+)?
      |[0-9][0-9.,]*[0-9]|[0-9]|[.,][0-9]+)
    (?:[eE](?P<exp>[+-]?[0-9]+)(?![\w.])
      |\s*[x*]\s*10\s*(?:\^|\*\*)\s*(?P<ten>[+-]?[0-9]+)
      |\s*(?:\^|\*\*)\s*(?P<power>[+-]?[0-9]+))?""",
    re.VERBOSE,
)
_EACH: Final = re.compile(r"(?<=.)/(?:token|request|user|sequence|stream|document)$", re.IGNORECASE)
"""What the question says anyway: 128 KiB/token."""
_GROUPS: Final = re.compile(r"[1-9][0-9]{0,2}(?:[,.][0-9]{3})+")


def _tidied(text: str) -> str:
    said = text.translate(_SPACES).translate(_SAME)
    raised = re.compile(r"(?<=[0-9])[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
    said = raised.sub(lambda found: f"^{found[0].translate(_RAISED)}", said)
    said = re.sub(r" +", " ", said).strip()
    return _BEFORE.sub("", said)


def _number(found: re.Match[str]) -> tuple[Fraction, Fraction, int]:
    """Value, one unit of the last digit, significant digits."""
    body = re.sub(r"[ '_]", "", found["body"])
    whole, decimals = _parts(body)
    if len(whole) + len(decimals) > MAX_DIGITS:
        raise QuizError(f"A number has at most {MAX_DIGITS} digits here.")
    sign = -1 if found["sign"] == "-" else 1
    base = Fraction(int(whole + decimals or "0"), 10 ** len(decimals))
    step = Fraction(1, 10 ** len(decimals))
    digits = len((whole + decimals).lstrip("0")) or 1
    if found["power"]:
        if abs(base) > 1000 or len(decimals) > 3:
            raise QuizError("This power is too large to be read. Write the number out.")
        exponent = _exponent(found["power"])
        if base == 0 and exponent < 0:
            raise QuizError("This is not a number: nothing can be divided by zero.")
        return sign * base**exponent, Fraction(1), MAX_DIGITS
    scale = Fraction(10) ** _exponent(found["exp"] or found["ten"] or "0")
    return sign * base * scale, step * scale, digits


def _exponent(text: str) -> int:
    if len(text) > 4 or abs(int(text)) > MAX_DIGITS:
        raise QuizError(f"An exponent here is at most {MAX_DIGITS}.")
    return int(text)


def _parts(body: str) -> tuple[str, str]:
    """Digits before and after the decimal sign."""
    points, commas = body.count("."), body.count(",")
    unclear = QuizError("It is not clear where the decimals begin. Write 1234.5 or 1,234.5.")
    if points and commas:
        mark = max(".,", key=body.rindex)
        whole, _, decimals = body.rpartition(mark)
        if mark in whole or not _GROUPS.fullmatch(whole):
            raise unclear
        return re.sub(r"[.,]", "", whole), decimals
    if points + commas == 0:
        return body, ""
    mark = "." if points else ","
    if _GROUPS.fullmatch(body) and (mark == "," or points > 1):
        return body.replace(mark, ""), ""
    whole, _, decimals = body.partition(mark)
    if mark in decimals:
        raise unclear
    return whole, decimals


def _unit(text: str) -> Unit | None:
    said = re.sub(r"\s*/\s*", "/", text).strip(" .").replace(" per ", "/").strip()
    said = _EACH.sub("", said)
    if not said:
        return None
    exact, loose = _spellings()
    if said in exact:
        return exact[said]
    unit = loose.get(said.lower())
    if unit is None:
        if said in ("k", "K", "m", "M", "G", "T"):
            raise QuizError(f"{said} alone may mean 1,000s or 1,024s. Write the number out.")
        raise QuizError("The unit is not known here. Write B, KiB, GB, GB/s, Gbit/s, ms, % …")
    if said.lower() in _AMBIGUOUS:
        return Unit(unit.name, unit.kind, unit.factor, f"read as {unit.name}")
    return unit


_AMBIGUOUS: Final = frozenset(
    f"{p}b{end}" for p in ("", "k", "m", "g", "t", "p", "ki", "mi", "gi", "ti", "pi")
    for end in ("", "/s", "ps")
)  # fmt: skip
"""In small letters these may be bits or bytes."""


@cache
def _spellings() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Spelling → unit, case and all; and the same in small letters for those nobody can mistake."""
    exact: dict[str, Unit] = {}
    loose: dict[str, Unit] = {}
    for unit, spellings in _units():
        for spelling in spellings:
            exact.setdefault(spelling, unit)
            loose.setdefault(spelling.lower(), unit)
    return exact, loose


def _units() -> Iterator[tuple[Unit, list[str]]]:
    for name, factor in SIZES.items():  # bytes before bits: in small letters the first counts
        spellings = _size_spellings(name)
        yield Unit(name, "size", factor), spellings
        rate = Unit(f"{name}/s", "rate", factor)
        yield rate, [f"{s}{end}" for s in spellings for end in ("/s", "/sec", "/second", "ps")]
    for name, (factor, others) in _TIMES.items():
        yield Unit(name, "time", factor), [name, *others, *(f"{o}s" for o in others)]
    yield Unit("%", "share", Fraction(1, 100)), ["%", "percent", "per cent", "pct"]
    yield Unit("x", "factor", Fraction(1)), ["x", "times", "fold", "-fold", "times as many"]
    flops = [f"{f}/{b}" for f in ("FLOP", "FLOPs", "flop", "flops") for b in ("B", "byte", "Byte")]
    yield Unit("FLOP/B", "FLOP/B", Fraction(1)), flops
    many = [f"{r}/{s}" for r in ("requests", "request", "req") for s in ("s", "sec", "second")]
    yield Unit("requests/s", "requests/s", Fraction(1)), ["RPS", *many]
    for name, others in COUNTS.items():
        words = [w for other in (name.removesuffix("s"), *others) for w in (other, f"{other}s")]
        yield Unit(name, name, Fraction(1)), [name, *words]


def _size_spellings(name: str) -> list[str]:
    """KiB, kibibyte, kibibytes; Kb, Kbit, Kbits."""
    bits = name.endswith("bit")
    prefix = name.removesuffix("bit" if bits else "B")
    word = "bit" if bits else "byte"
    long = f"{_PREFIX_WORDS.get(prefix, '')}{word}"
    out = [name, long, f"{long}s", f"{prefix}{word}", f"{prefix}{word}s"]
    if bits and not prefix.endswith("i"):  # "Gib" is more often a slip for GiB than gibibits
        out.append(f"{prefix}b")
    if prefix == "k":
        out += [f"K{spelling.removeprefix('k')}" for spelling in out[:1] + out[3:]]
    return out
