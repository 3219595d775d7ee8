"""What hit rate a cache of limited size keeps, and what size a hit rate needs.

A working set of equal prefixes ("documents"), of which the cache holds a few. With every request
independent of the last and all documents equally liked, any replacement policy hits in proportion
to what it holds. Popularity that falls as a power of rank (Zipf) is better for LRU: Che's
approximation (Che, Tung, Wang 2002) gives its hit rate. A fixed cycle is the worst case: LRU evicts
each document just before it is needed.
"""

from __future__ import annotations

import math

from core.sizing import checks
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols
from core.sizing.text import num, short

ACCESS = ("uniform", "zipf", "cyclic")
MOST_DOCUMENTS = 1_000_000
SOURCE = "Che, Tung, Wang 2002, Hierarchical Web Caching Systems: Modeling, Design and Experiment"


def lru_hit_rate(
    documents: int,
    capacity: int,
    access: str = "uniform",
    ceiling: float = 1.0,
    exponent: float = 1.0,
) -> Result:
    """The hit rate of LRU over `documents` equal prefixes when `capacity` of them fit.

    ceiling: the hit rate if all fit (first visits and prompts with no prefix never hit). exponent:
    of Zipf's law, used with access "zipf" alone: popularity of rank i is i to the power −exponent.
    """
    documents, capacity, ceiling, exponent = _inputs(documents, capacity, access, ceiling, exponent)
    shown = _symbols(documents, ceiling, access, exponent) + symbols(
        ("c", "documents that fit", capacity)
    )
    if capacity >= documents:
        return Result(ceiling, "fraction", shown, notes=("the whole working set fits",))
    if access == "cyclic":
        why = "LRU evicts each document just before its turn comes: no hits at all"
        return Result(0.0, "fraction", shown, notes=(why,), basis=CONVENTION)
    if access == "uniform":
        value = ceiling * capacity / documents
        step = Step("h₀ · c / n", f"{num(ceiling)} · {capacity} / {documents}", value, "fraction")
        return Result(value, "fraction", shown, (step,), basis=CONVENTION)
    held = _zipf_hits(documents, capacity, exponent)
    value = ceiling * held
    return Result(
        value,
        "fraction",
        shown,
        (
            Step(
                "held = popularity of what is present, by Che's sum over all documents",
                "",
                held,
                "fraction",
            ),
            Step("h₀ · held", f"{num(ceiling)} · {num(held)}", value, "fraction"),
        ),
        notes=("Che's approximation: right to a few thousandths for independent requests",),
        basis=CONVENTION,
        source=SOURCE,
    )


def documents_for_hit_rate(
    documents: int,
    target: float,
    access: str = "uniform",
    ceiling: float = 1.0,
    exponent: float = 1.0,
) -> Result:
    """How many documents must fit for LRU to reach the target hit rate; None above the ceiling."""
    documents, _, ceiling, exponent = _inputs(documents, 0, access, ceiling, exponent)
    target = checks.share(target, "target")
    shown = _symbols(documents, ceiling, access, exponent) + symbols(
        ("h", "hit rate wanted", target, "fraction")
    )
    if target > ceiling:
        why = f"even with all {documents:,} documents cached the hit rate is {short(ceiling)}"
        return Result(None, "documents", shown, notes=(why,))
    if access == "uniform":
        value = math.ceil(documents * target / ceiling - 1e-9) if target else 0
        step = Step(
            "⌈n · h / h₀⌉", f"⌈{documents} · {num(target)} / {num(ceiling)}⌉", value, "documents"
        )
        return Result(value, "documents", shown, (step,), basis=CONVENTION)
    if access == "cyclic":
        value = documents if target else 0
        why = "in a fixed cycle LRU hits always or never: all must fit"
        return Result(value, "documents", shown, notes=(why,), basis=CONVENTION)
    low, high = 0, documents
    while low < high:
        middle = (low + high) // 2
        held = 1.0 if middle == documents else _zipf_hits(documents, middle, exponent)
        low, high = (low, middle) if ceiling * held >= target else (middle + 1, high)
    step = Step("the fewest documents whose hit rate reaches h", "", low, "documents")
    return Result(low, "documents", shown, (step,), basis=CONVENTION, source=SOURCE)


def _inputs(
    documents: int, capacity: int, access: str, ceiling: float, exponent: float
) -> tuple[int, int, float, float]:
    checks.choice(access, "access", ACCESS)
    return (
        checks.whole(documents, "documents", 1, MOST_DOCUMENTS),
        checks.whole(capacity, "capacity"),
        checks.number(ceiling, "ceiling", 0.0, 1.0, above=True),
        checks.number(exponent, "exponent", 0.0, 10.0),
    )


def _symbols(documents: int, ceiling: float, access: str, exponent: float) -> tuple[Symbol, ...]:
    zipf = symbols(("α", "Zipf's exponent", exponent)) if access == "zipf" else ()
    return (
        *symbols(
            ("n", "documents asked for", documents),
            ("h₀", "hit rate if all fit", ceiling, "fraction"),
            ("access", "order of requests", access),
        ),
        *zipf,
    )


def _zipf_hits(documents: int, capacity: int, exponent: float) -> float:
    """Che: a document is present if it was asked for within the last T requests."""
    if capacity == 0:
        return 0.0
    # Ranks far down differ little, so they stand in groups that grow with the rank: a few hundred
    # terms instead of a million, and the first 100 ranks exact.
    groups: list[tuple[float, int]] = []
    first = 1
    while first <= documents:
        last = min(documents, max(first, first + first // 100 - 1))
        groups.append((((first + last) / 2) ** -exponent, last - first + 1))
        first = last + 1
    total = sum(q * count for q, count in groups)
    low, high = 0.0, 1.0

    def present(T: float) -> float:
        return sum(count * -math.expm1(-q * T) for q, count in groups)

    while present(high) < capacity and high < 1e18:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if present(middle) < capacity else (low, middle)
    return sum(q * count * -math.expm1(-q * high) for q, count in groups) / total
