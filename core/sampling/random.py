"""The random numbers of draws.

A draw's number depends on nothing but (seed, sequence index, position). Not on how often the
generator was used before: so it cannot matter in which batch a sequence runs, whether it was
preempted and computed again, or when it forked. That is why there is no generator with a state
here but a counter-based one: Philox (Salmon et al. 2011) turns a key and a counter into random
bits, any of them at once, in any order.
"""

from __future__ import annotations

import numpy as np

_MASK_64 = (1 << 64) - 1


def request_key(seed: int | None, scenario_seed: int, order: int) -> tuple[int, int]:
    """The Philox key of a request: its own seed, else one from the scenario's and its place.

    Two requests with the same seed of their own draw the same numbers; without one, no two requests
    of a scenario do, and neither does any share a key with a seeded one (second word 0).
    """
    if seed is not None:
        return (seed & _MASK_64, 0)
    return (scenario_seed & _MASK_64, order + 1)


def uniform(key: tuple[int, int], index: int, position: int) -> float:
    """A number in [0, 1), one of 2⁵³, that only these arguments decide."""
    generator = np.random.Philox(
        key=np.array(key, dtype=np.uint64),
        counter=np.array([0, position, index, 0], dtype=np.uint64),
    )
    # Raw bits, not Generator.random(): numpy promises that the former never change.
    return (int(generator.random_raw()) >> 11) * 2.0**-53
