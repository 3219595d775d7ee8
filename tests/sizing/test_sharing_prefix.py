"""Shared blocks and cached prefixes: against our own block manager, and a simulated cache."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import catalog, lru, prefix, sharing
from core.sizing.errors import SizingError
from core.trace.run import Run

LLAMA = catalog.get("llama-3-70b")


def value(result) -> float:
    assert result.value is not None, result.notes
    return result.value


def run_requests(requests: list[dict[str, object]], **engine: object) -> Run:
    """Requests on the real scheduler and block manager, without a model."""
    settings = {"max_num_seqs": 16, "max_num_batched_tokens": 512, "max_model_len": 512, **engine}
    return simulate(
        Scenario.from_dict(
            {
                "schema": "scenario/1",
                "name": "sizing",
                "seed": 0,
                "engine": {"num_blocks": 512, **settings},
                "model": "none",
                "requests": requests,
            }
        )
    )


def engine_blocks(prompt: int, generated: int, n: int, block_size: int) -> tuple[int, int]:
    """Most blocks in use at once, and blocks copied, with n samples of one prompt.

    The last sampled token is never written, and the step that samples it frees all: 2 more tokens.
    """
    request = {
        "id": "A",
        "arrive_step": 0,
        "prompt_tokens": list(range(prompt)),
        "max_tokens": generated + 2,
        "n": n,
        "ignore_eos": True,
    }
    run = run_requests([request], block_size=block_size, prefix_cache="off")
    events = [event["type"] for step in run.steps for event in step["events"]]
    return max(step["usage"]["in_use"] for step in run.steps), events.count("block_copied")


@pytest.mark.parametrize(
    ("prompt", "generated", "n", "block_size"),
    [(50, 10, 4, 16), (48, 10, 4, 16), (6, 3, 3, 4), (31, 40, 2, 8), (9, 1, 5, 4), (20, 12, 1, 8)],
)
def test_the_block_manager_takes_as_many_slots(
    prompt: int, generated: int, n: int, block_size: int
) -> None:
    blocks, copies = engine_blocks(prompt, generated, n, block_size)
    assert blocks * block_size == sharing.slots(prompt, generated, n, block_size, "shared")
    assert copies * block_size == sharing.cow_copied_bytes(prompt, n, 1, block_size).value


@given(st.integers(0, 5000), st.integers(0, 500), st.integers(1, 9), st.sampled_from([1, 16, 64]))
def test_sharing_never_takes_more_and_gives_one_nothing(p: int, s: int, n: int, bs: int) -> None:
    shared, naive = (sharing.slots(p, s, n, bs, mode) for mode in ("shared", "naive"))
    assert shared <= naive
    if n == 1:
        assert shared == naive
    if bs == 1:
        assert shared == p + n * s
        assert naive == n * (p + s)


def test_beams_that_part_later_save_more() -> None:
    at = [value(sharing.beam_saving(512, 100, 4, common)) for common in (0, 40, 100)]
    assert at[0] == pytest.approx(1 - 960 / 2496)
    assert at == sorted(at)
    assert at[2] == 0.75
    with pytest.raises(SizingError, match="common"):
        sharing.beam_saving(512, 100, 4, 101)


# ---- Prefix caches -----------------------------------------------------------------------------


@given(st.integers(0, 5000), st.integers(0, 500), st.floats(0, 1), st.sampled_from([1, 16, 64]))
def test_tokens_saved_and_their_ratio_are_the_same_thing(S: int, U: int, h: float, bs: int) -> None:
    if S + U == 0:
        return
    saved = value(prefix.prefill_reduction(S, U, h, bs))
    assert value(prefix.prefill_token_ratio(S, U, h, bs)) == pytest.approx(1 / (1 - saved))
    assert saved <= h * S / (S + U) + 1e-12
    assert value(prefix.prefill_flop_reduction(LLAMA, S, U, h, bs)) <= saved + 1e-12


def test_a_prompt_that_is_cached_whole_still_computes_a_token() -> None:
    """The last token of 64, and with it its block."""
    assert prefix.reusable_tokens(64, 0, 16) == 48
    assert prefix.reusable_tokens(64, 0) == 63
    assert prefix.reusable_tokens(64, 1, 16) == 64
    assert value(prefix.prefill_token_ratio(64, 0, 1.0)) == 64


@pytest.mark.parametrize("cache", ["hash", "radix"])
@pytest.mark.parametrize(("S", "U"), [(64, 0), (64, 1), (50, 30), (3, 9), (0, 20), (33, 0)])
def test_the_engine_reuses_as_many_tokens(S: int, U: int, cache: str) -> None:
    """A second request with S tokens in common with the first and U of its own."""
    common = list(range(S))
    first = {"id": "A", "arrive_step": 0, "prompt_tokens": [*common, 900, 901], "max_tokens": 1}
    own = list(range(1000, 1000 + U))
    second = {"id": "B", "arrive_step": 2, "prompt_tokens": [*common, *own], "max_tokens": 1}
    run = run_requests([first, second], block_size=8, prefix_cache=cache)
    hit = next(s["scheduled"]["B"]["num_cached_tokens"] for s in run.steps if "B" in s["scheduled"])
    assert hit == prefix.reusable_tokens(S, U, 8)


def test_unique_documents_save_nothing() -> None:
    assert prefix.prefill_reduction(0, 4096, 0.9).value == 0
    assert prefix.prefill_reduction(4096, 128, 0).value == 0


def test_break_even_is_where_the_time_saved_is_the_overhead() -> None:
    flops = 2e15
    for overhead in (1e-6, 1e-3):
        h = value(prefix.break_even_hit_rate(LLAMA, 2048, 200, flops, overhead, 16))
        saved = value(prefix.prefill_flop_reduction(LLAMA, 2048, 200, h, 16))
        whole = 2 * 70_553_706_496 * 2248 + 2 * 80 * 64 * 128 * 2248**2
        assert saved * whole / flops == pytest.approx(overhead)
    assert prefix.break_even_hit_rate(LLAMA, 8, 200, flops, 0.001, 16).value is None


def test_working_set_and_capacity_are_inverse() -> None:
    """200 documents of 512 tokens are 16,777,216,000 B in FP8; so much memory holds 200."""
    size = value(prefix.prefix_cache_bytes(200, 512, 163840, 16))
    assert size == 16_777_216_000
    assert prefix.prefix_cache_capacity(size, 512, 163840, 16).value == 200
    assert prefix.prefix_cache_capacity(size - 1, 512, 163840, 16).value == 199
    assert prefix.prefix_cache_capacity(size, 15, 163840, 16).value is None


def simulated(requests: Iterator[int], capacity: int, total: int) -> float:
    """The hit rate of an LRU cache after it has warmed up."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for step in range(2 * total):
        document = next(requests)
        hit = document in cache
        hits += hit and step >= total
        cache[document] = None
        cache.move_to_end(document)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return hits / total


@pytest.mark.parametrize("capacity", [5, 40, 160])
@pytest.mark.parametrize(("access", "exponent"), [("uniform", 0.0), ("zipf", 0.8), ("zipf", 1.2)])
def test_an_lru_cache_hits_as_often_as_we_say(access: str, exponent: float, capacity: int) -> None:
    documents, dice = 200, random.Random(7)
    weights = list(accumulate((i + 1) ** -exponent for i in range(documents)))
    draw = (dice.choices(range(documents), cum_weights=weights)[0] for _ in count())
    predicted = value(lru.lru_hit_rate(documents, capacity, access, exponent=exponent))
    assert predicted == pytest.approx(simulated(draw, capacity, 20_000), abs=0.012)


def test_ranks_in_groups_give_the_hit_rate_of_single_ones() -> None:
    """Che's sums over each of 30,000 documents, T found by bisection."""
    documents, capacity = 30_000, 500
    popularity = [(i + 1) ** -0.9 for i in range(documents)]
    low, high = 0.0, 1e9
    for _ in range(60):
        middle = (low + high) / 2
        filled = sum(1 - math.exp(-q * middle) for q in popularity) >= capacity
        low, high = (low, middle) if filled else (middle, high)
    hits = sum(q * (1 - math.exp(-q * high)) for q in popularity) / sum(popularity)
    found = value(lru.lru_hit_rate(documents, capacity, "zipf", exponent=0.9))
    assert found == pytest.approx(hits, rel=1e-4)


def test_a_cycle_is_the_worst_case() -> None:
    around = (i % 250 for i in count())
    assert simulated(around, 249, 2_000) == lru.lru_hit_rate(250, 249, "cyclic").value == 0
    assert lru.lru_hit_rate(250, 250, "cyclic", 0.65).value == 0.65


@given(
    st.integers(1, 400),
    st.floats(0, 1),
    st.sampled_from(lru.ACCESS),
    st.floats(0.1, 1),
    st.floats(0, 2),
)
def test_the_size_for_a_hit_rate_is_the_smallest_that_reaches_it(
    documents: int, target: float, access: str, ceiling: float, exponent: float
) -> None:
    found = lru.documents_for_hit_rate(documents, target, access, ceiling, exponent)
    if found.value is None:
        assert target > ceiling
        return

    def rate(capacity: int) -> float:
        return value(lru.lru_hit_rate(documents, capacity, access, ceiling, exponent))

    assert rate(found.value) >= target - 1e-9
    assert found.value == 0 or rate(found.value - 1) < target + 1e-9


def test_the_audits_knowledge_base() -> None:
    """250 documents where 200 fit: 0.65 · 200 / 250 = 0.52, and 47.4 % of prefill saved."""
    h = value(lru.lru_hit_rate(250, 200, ceiling=0.65))
    assert h == pytest.approx(0.52)
    assert value(prefix.prefill_reduction(2048, 200, h)) == pytest.approx(0.474, abs=5e-4)
