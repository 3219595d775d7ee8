"""The cases of the matrix: whole engines that must all give the oracle's tokens.

A case has one value of each factor. Two factors suffice to bring most faults to light, so the fast
tests run a *pairwise cover*: every pair of values that is possible stands in some case. The slow
ones run the product.
"""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import families

SMOLLM = "smollm2-135m-instruct"


class Case(NamedTuple):
    """chunk: `long_prefill_token_threshold`, 0: prompts are computed whole where they fit a step.

    situation: see `FACTORS`. allocator, prefix_cache, policy, batching: the engine's settings.
    """

    model: str
    block_size: int
    chunk: int
    prefix_cache: str
    situation: str
    policy: str
    allocator: str
    batching: str

    def __str__(self) -> str:
        chunk = f"chunk{self.chunk}" if self.chunk else "whole"
        return "-".join([self.model, f"block{self.block_size}", chunk, *self[3:]])


FACTORS: dict[str, tuple[object, ...]] = {
    "model": (SMOLLM, *families.FAMILIES),
    "block_size": (1, 4, 16, 64),
    "chunk": (1, 7, 16, 0),
    "prefix_cache": ("radix", "hash", "off"),
    # alone: each request in an engine of its own. batch: all arrive at once. mixed: one after
    # another, so that prompts are computed beside decodes. hits: a second call finds what the first
    # one cached. preempted: the pool holds little more than the largest request. forked: n = 3.
    "situation": ("alone", "batch", "mixed", "hits", "preempted", "forked", "forked+preempted"),
    "policy": ("fcfs", "priority"),
    "allocator": ("paged", "contiguous"),
    "batching": ("continuous", "static"),
}

Pair = frozenset[tuple[str, object]]
IMPOSSIBLE: dict[Pair, str] = {
    frozenset({(f, a), (g, b)}): why
    for f, a, g, values, why in (
        ("allocator", "contiguous", "prefix_cache", ("radix", "hash"), "shares no blocks"),
        ("allocator", "contiguous", "situation", ("hits",), "shares no blocks"),
        ("allocator", "contiguous", "situation", ("forked", "forked+preempted"), "cannot fork"),
        ("allocator", "contiguous", "situation", ("preempted",), "never preempts"),
        ("prefix_cache", "off", "situation", ("hits",), "finds nothing"),
        ("batching", "static", "situation", ("mixed",), "nobody joins a batch that runs"),
    )
    for b in values
}


def pairs_of(case: Case) -> set[Pair]:
    """The 28 pairs of values that a case covers."""
    return {frozenset(pair) for pair in itertools.combinations(case._asdict().items(), 2)}


def is_possible(case: Case) -> bool:
    return IMPOSSIBLE.keys().isdisjoint(pairs_of(case))


def possible_pairs() -> list[Pair]:
    """All that a cover has to cover."""
    pairs = (
        frozenset({(f, a), (g, b)})
        for f, g in itertools.combinations(FACTORS, 2)
        for a in FACTORS[f]
        for b in FACTORS[g]
    )
    return [pair for pair in pairs if pair not in IMPOSSIBLE]


def pairwise_cover(num_tries: int = 5) -> list[Case]:
    """Cases that cover all possible pairs, greedily: always the best of some tries.

    A try starts from a pair that is still lacking and goes through the other factors in random
    order; each takes the value that completes the most lacking pairs. The same list each time.
    """
    rng = random.Random(0)
    lacking = dict.fromkeys(possible_pairs())
    cases: list[Case] = []
    while lacking:
        start = next(iter(lacking))
        tries = [case for _ in range(num_tries) if is_possible(case := _try(start, lacking, rng))]
        covered = [pairs_of(case) & lacking.keys() for case in tries]
        best = max(range(len(tries)), key=lambda i: len(covered[i]))
        cases.append(tries[best])
        for pair in covered[best]:
            del lacking[pair]
    return sorted(cases, key=lambda case: [FACTORS[f].index(v) for f, v in case._asdict().items()])


def _try(start: Pair, lacking: dict[Pair, None], rng: random.Random) -> Case:
    chosen = dict(start)
    others = [factor for factor in FACTORS if factor not in chosen]
    rng.shuffle(others)
    for factor in others:
        gains = []
        for value in FACTORS[factor]:
            new = [frozenset({(factor, value), item}) for item in chosen.items()]
            if IMPOSSIBLE.keys().isdisjoint(new):
                gains.append((sum(pair in lacking for pair in new), rng.random(), value))
        if not gains:  # what was chosen first leaves nothing: an impossible case, no try
            gains.append((0, 0.0, FACTORS[factor][0]))
        chosen[factor] = max(gains, key=lambda gain: gain[:2])[2]
    return Case(**chosen)


def few(case: Case, number: int) -> slice:
    """The prompts for the `number`-th case of the cover: not all where that takes many steps.

    The model's other cases have all of them.
    """
    step = 3 if case.situation == "alone" else 2 if case.chunk == 1 else 1
    if case.model == SMOLLM and "preempted" in case.situation:
        step = 2  # with fewer there would be room for all
    elif case.model == SMOLLM and (step > 1 or case.situation == "mixed"):
        step *= 2
    return slice(number % step, None, step)


def product(model: str, situation: str) -> list[Case]:
    """All possible cases of a model in a situation; of the real model, which takes long, a fifth.

    Five divides no number of values, so all of them still meet.
    """
    values = FACTORS | {"model": (model,), "situation": (situation,)}
    cases = map(Case._make, itertools.product(*values.values()))
    return [case for case in cases if is_possible(case)][:: 5 if model == SMOLLM else 1]


# ---- prompts -------------------------------------------------------------------------------------

VOCABULARY = 320
_STEM = [random.Random(1).randrange(3, VOCABULARY) for _ in range(80)]
# (tokens shared with the others, tokens of its own): shared stems that end in a block and on its
# edge, for every block size, and most windows are shorter. Those of more than LONG tokens are asked
# where blocks have 64.
LONG = 48
_LENGTHS = [
    (0, 1), (0, 2), (0, 5), (1, 2), (2, 0), (3, 1), (4, 1), (5, 3), (6, 1), (7, 4), (8, 1),
    (58, 2), (61, 1), (9, 0), (10, 6), (13, 2), (16, 1), (62, 0), (17, 3), (66, 3), (70, 2),
    (22, 1), (67, 1), (32, 1), (33, 5), (71, 0), (38, 2), (40, 0),
    (59, 1), (60, 1), (63, 0), (57, 2),
]  # fmt: skip
TINY_PROMPTS: list[list[int]] = [
    _STEM[:shared] + [3 + (37 * i + 5 * j) % (VOCABULARY - 3) for j in range(own)]
    for i, (shared, own) in enumerate(_LENGTHS)
]

_TALE = "In the old town by the river there is a small museum. It shows clocks, maps and letters."
_LONG_TALE = (
    _TALE + " Every morning the keeper winds the largest clock, opens the windows, and sweeps the "
    "stairs. Visitors are rare in winter, but in spring"
)
_LONGER_TALE = (
    _LONG_TALE
    + " whole classes come, with their teachers, to draw the old maps and the tower clock;"
)
TEXTS = [
    "The capital of France is",
    "Water boils at 100 degrees at sea level, but",
    "def add(a, b):\n    return",
    "def add(a, b):\n    return a",
    "SELECT name FROM users WHERE",
    '{"name": "Ada", "age": 36, "',
    "#include <stdio.h>\n\nint main",
    "Once upon a time there was a",
    "1, 2, 4, 8, 16,",
    "日本の首都は",
    "中国的首都是",
    "Die Hauptstadt von Deutschland ist",
    "La capitale de l'Italie est",
    "Столица России —",
    "عاصمة مصر هي",
    "대한민국의 수도는",
    "🙂🙂 means that",
    "👩‍👩‍👧 is a family, and 🚀",
    _TALE + " One day a visitor",
    _TALE + " Nobody knows who built it, because",
    _TALE + " One day the keeper",
    _LONGER_TALE + " the house",
    _LONGER_TALE + " it is loud",
    _LONG_TALE + " the house is full of people, voices and noise, and",
    _TALE,
    "A",
]
