"""A number that carries its derivation: symbols, values, units, steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Number = int | float

WARNING = "warning: "
"""How a note begins that must be read before the number is used."""

ARITHMETIC, CONVENTION, LITERATURE = "arithmetic", "convention", "literature"
"""What a number rests on: it follows from the inputs; it follows once a rule of thumb is accepted;
it was reported by someone, on their machine."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One letter of the formula: `n_kv`, "KV heads", 8, "heads"."""

    symbol: str
    meaning: str
    value: Number | str | None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the derivation: the formula, with the values put in, and what it gives."""

    formula: str  # "2 · L · n_kv · d · b"
    substituted: str  # "2 · 80 · 8 · 128 · 2"
    value: Number
    unit: str


@dataclass(frozen=True, slots=True)
class Result:
    """What a sizing function returns.

    value: an exact `int` for bytes, blocks, streams and counts; `float` for rates, times, shares.
    None if there is no such number, which `notes` then explains ("no crossover").
    unit: "B", "GiB", "s", "FLOP/B", "streams", "x", "fraction" … Bytes are always plain bytes; GB
    (10⁹) and GiB (2³⁰) are made by `units`, never mixed.
    scope: "layer", "gpu", "replica", "fleet" (all replicas), "model", or "" where the question does
    not arise.
    basis: ARITHMETIC, CONVENTION or LITERATURE. source: paper, data sheet or file, if it has one.
    """

    value: Number | None
    unit: str
    symbols: tuple[Symbol, ...] = ()
    steps: tuple[Step, ...] = ()
    scope: str = ""
    notes: tuple[str, ...] = ()
    basis: str = ARITHMETIC
    source: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes that are warnings."""
        return tuple(note for note in self.notes if note.startswith(WARNING))

    def derivation(self) -> dict[str, Any]:
        """As JSON: {symbols, steps, scope, notes, basis, source}."""
        whole = asdict(self)
        del whole["value"], whole["unit"]
        return whole


def symbols(*rows: Sequence[Any]) -> tuple[Symbol, ...]:
    """Rows of (symbol, meaning, value[, unit])."""
    return tuple(Symbol(*row) for row in rows)
