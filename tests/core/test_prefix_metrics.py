"""What a run says about its prefix cache, and the workloads that are made for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.conversations import PAUSE
from core.scenario import Scenario
from core.simulate import simulate
from core.trace import prefix_cost
from core.trace import prefix_metrics as metrics
from core.trace.pool_metrics import pool_summary
from core.trace.run import read_run
from core.workloads_prefix import (
    EDITS,
    KINDS,
    LEAF_BLOCKS,
    Knobs,
    edited_prompt,
    evict_leaf,
    hot_prompt,
    scenario,
    system_prompt,
    texts,
    timed,
)
from tests.scenario_gen import random_scenario

RUNS = Path(__file__).resolve().parents[2] / "runs"
CACHES = ("hash", "radix")
Json = dict[str, Any]


def run(given: Json) -> Json:
    return simulate(Scenario.from_dict(given)).to_dict()


def recorded(name: str) -> Json:
    return read_run(RUNS / f"{name}.run.json.gz").to_dict()


def hits(data: Json) -> list[tuple[str, int, str]]:
    return [(one.request, one.hit_blocks, one.why) for one in metrics.lookups(data)]


def evicted(data: Json) -> list[int]:
    """The blocks that were forgotten, in order."""
    return [
        block
        for step in data["steps"]
        for event in step["events"]
        if event["type"] == "block_evicted"
        for block in event["blocks"]
    ]


# ---- edits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", CACHES)
def test_an_edit_leaves_the_whole_blocks_before_it(cache: str) -> None:
    data = run(edited_prompt(cache))
    assert hits(data) == [
        ("A", 0, "empty"),
        ("B", 1, "differs"),
        ("C", 6, "differs"),
        ("D", 7, "limit"),
    ]
    found = {one.request: one for one in metrics.lookups(data)}
    assert {name: found[name].differs_at for name in EDITS} == EDITS
    assert found["D"].num_tokens == 32 and found["D"].most_blocks == 7
    # D reads A's own blocks, in order.
    shared = [e for s in data["steps"] for e in s["events"] if e["type"] == "block_shared"]
    assert next(e["blocks"] for e in shared if e["request"] == "D") == [0, 1, 2, 3, 4, 5, 6]


# ---- eviction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("take", range(LEAF_BLOCKS + 1))
def test_what_is_taken_from_the_tail_is_missed(cache: str, take: int) -> None:
    """A's eight blocks are 0 … 7; F takes `take` of them, the last one first."""
    data = run(evict_leaf(take, cache))
    assert evicted(data)[:take] == [7, 6, 5, 4, 3, 2, 1, 0][:take]
    last = metrics.lookups(data)[-1]
    assert (last.request, last.most_blocks) == ("B", 7)
    assert last.hit_blocks == min(7, 8 - take)
    assert last.why == ("limit" if take < 2 else "evicted")


def chats_that_hit(cache: str, eviction: str) -> str:
    data = run(hot_prompt(cache, eviction))
    head = system_prompt()
    prompts = data["header"]["prompts"]
    return "".join(
        one.request
        for one in metrics.lookups(data)
        if prompts[one.request][: len(head)] == head and one.hit_blocks
    )


def test_the_hot_system_prompt_is_lost_under_one_policy_and_kept_under_another() -> None:
    """The chats are A B C E H K Q R; A comes first and finds nothing under any."""
    assert chats_that_hit("hash", "fifo") == "BCEKR"  # lost twice, once while in use
    assert chats_that_hit("radix", "fifo") == "BCEHKR"  # leaf first: the prefix outlives its tails
    assert chats_that_hit("radix", "lru") == "BCEHKR"
    assert chats_that_hit("radix", "lfu") == "BCEHKQR"  # never lost


@pytest.mark.parametrize(
    ("cache", "eviction", "computed"),
    [("hash", "fifo", 456), ("radix", "fifo", 428), ("radix", "lru", 428), ("radix", "lfu", 400)],
)
def test_what_each_policy_costs(cache: str, eviction: str, computed: int) -> None:
    data = run(hot_prompt(cache, eviction))
    assert metrics.totals(data).computed == computed
    assert metrics.totals(data).computed == sum(metrics.computed_tokens(data))
    kept = metrics.kept(data, system_prompt())
    assert max(kept) == 6 and (min(kept[1:]) == 6) == (eviction == "lfu")


# ---- the generated workloads ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(
    knobs=st.builds(
        Knobs,
        users=st.integers(1, 8),
        turns=st.integers(1, 6),
        block_size=st.sampled_from((1, 2, 4, 8, 16)),
        pool_tokens=st.sampled_from((128, 256, 512, 1024)),
        seed=st.integers(0, 9_999),
    )
)
@settings(max_examples=6, deadline=None)
def test_a_workload_is_the_same_again_and_nobody_is_refused(kind: str, knobs: Knobs) -> None:
    made = scenario(kind, knobs)
    assert made == scenario(kind, knobs)
    data = run(made)
    assert len(data["results"]) == knobs.users * knobs.turns
    known = texts()
    assert all(str(t) in known for tokens in data["header"]["prompts"].values() for t in tokens)
    for one in metrics.lookups(data):
        assert 0 <= one.hit_blocks <= one.most_blocks
        assert (one.hit_blocks == one.most_blocks) == (one.why in ("limit", "short"))


@pytest.mark.parametrize("cache", CACHES)
def test_what_the_workloads_share_at_their_first_knobs(cache: str) -> None:
    rates = {
        kind: round(100 * metrics.totals(run(scenario(kind, Knobs(), prefix_cache=cache))).hit_rate)
        for kind in KINDS
    }
    assert rates == {"chat": 76, "few_shot": 77, "agent": 77, "rag": 73, "api": 56, "unique": 0}


def test_behind_the_first_difference_the_same_documents_do_not_hit() -> None:
    """B's documents stand in another order: of A's 14 whole blocks it finds those before them."""
    data = run(scenario("rag", Knobs()))
    assert hits(data)[:4] == [
        ("A", 0, "empty"),
        ("B", 2, "differs"),
        ("C", 13, "differs"),
        ("D", 13, "differs"),
    ]


# ---- recorded runs ----------------------------------------------------------------------------


def test_the_recorded_runs_find_what_they_are_said_to_find() -> None:
    assert [(r, n) for r, n, _ in hits(recorded("one_system_prompt"))] == [
        ("A", 0),
        ("B", 3),
        ("C", 3),
        ("D", 4),
        ("E", 5),
    ]
    assert [(r, n) for r, n, _ in hits(recorded("documents_reordered"))] == [
        ("A", 0),
        ("B", 24),
        ("C", 1),
        ("D", 24),
        ("E", 10),
    ]
    long = recorded("long_prompt_cached")
    assert [n for _, n, _ in hits(long)] == [0, 41, 41, 41, 41, 41]
    assert [len(p) for p in long["header"]["prompts"].values()][:2] == [682, 682]
    assert {n for _, n, _ in hits(recorded("unique_cached"))} == {0}


def test_with_and_without_have_the_same_prompts_and_answers() -> None:
    for name in ("long_prompt", "unique"):
        on, off = recorded(f"{name}_cached"), recorded(f"{name}_uncached")
        assert on["header"]["prompts"] == off["header"]["prompts"]
        assert metrics.lookups(off) == []
        assert metrics.first_token_us(on).keys() == metrics.first_token_us(off).keys()
    assert metrics.totals(on).computed == metrics.totals(off).computed


@pytest.mark.parametrize("name", ["unique_cached", "unique_hashed"])
def test_the_cost_of_a_cache_is_that_of_the_steps_in_which_it_works(name: str) -> None:
    """Its time is that of the run; the steps that count are those of the events, counted here."""
    on, off = recorded(name), recorded("unique_uncached")
    assert {n for _, n, _ in hits(on)} == {0}
    cost = prefix_cost.scheduling_cost(on, off)
    assert cost is not None
    busy = {
        step["step"]
        for step in on["steps"]
        if {event["type"] for event in step["events"]} & {"admitted", "block_cached"}
    }
    assert (cost.all.count, cost.busy.count, cost.quiet.count) == (58, len(busy), 58 - len(busy))
    assert len(busy) == 19
    took = [
        [s["timing"]["schedule_us"] for s in r["steps"] if s["step"] in busy] for r in (on, off)
    ]
    assert cost.busy.ratio == pytest.approx(sum(took[0]) / sum(took[1]))
    assert cost.all.with_us == pytest.approx(cost.busy.with_us + cost.quiet.with_us)
    assert cost.busy.more_us == pytest.approx((sum(took[0]) - sum(took[1])) / 19)


def test_a_cost_in_few_steps_is_not_hidden_by_the_many_others() -> None:
    """Double the time in each step that works: the median step would not notice."""
    on, off = recorded("unique_cached"), recorded("unique_uncached")
    for step, bare in zip(on["steps"], off["steps"], strict=True):
        kinds = {event["type"] for event in step["events"]}
        bare["timing"]["schedule_us"] = 100.0
        works = bool(kinds & {"admitted", "block_cached"})
        step["timing"]["schedule_us"] = 200.0 if works else 100.0
    cost = prefix_cost.scheduling_cost(on, off)
    assert cost is not None
    assert (cost.busy.ratio, cost.busy.more_us, cost.quiet.ratio) == (2, 100, 1)
    assert cost.all.ratio == pytest.approx((39 + 2 * 19) / 58)
    assert prefix_cost.scheduling_cost(on, {**off, "steps": []}) is None


# ---- any run ----------------------------------------------------------------------------------


def longest_match(cached: dict[Any, int], space: Any, tokens: list[int], size: int) -> int:
    found = 0
    while cached.get((space, tuple(tokens[: (found + 1) * size])), 0) > 0:
        found += 1
        if (found + 1) * size > len(tokens):
            break
    return found


def brute_force(data: Json) -> list[int]:
    """How many blocks each lookup must find, by a plain list of everything that is cached."""
    header = data["header"]
    size = header["scenario"]["engine"]["block_size"]
    space = {
        r["id"]: (r.get("adapter"), r.get("cache_salt")) for r in header["scenario"]["requests"]
    }
    outputs: dict[str, list[int]] = {}
    of_block: dict[int, Any] = {}
    cached: dict[Any, int] = {}
    out = []
    for step in data["steps"]:
        for event in step["events"]:
            kind = event["type"]
            if kind == "token_sampled":
                outputs.setdefault(event["sequence"], []).append(event["token"])
            if kind in ("admitted", "resumed", "block_cached"):
                tokens = header["prompts"][event["request"]] + outputs.get(event["sequence"], [])
            if kind in ("admitted", "resumed"):
                most = (event["num_tokens"] - 1) // size
                match = longest_match(cached, space[event["request"]], tokens[: most * size], size)
                out.append(min(match, most))
            if kind == "block_cached":
                for i, block in enumerate(event["blocks"], event["index"]):
                    key = (space[event["request"]], tuple(tokens[: (i + 1) * size]))
                    of_block[block] = key
                    cached[key] = cached.get(key, 0) + 1
            for block in event["blocks"] if kind == "block_evicted" else ():
                cached[of_block.pop(block)] -= 1
            if kind == "block_uncached":
                cached[of_block.pop(event["block"])] -= 1
    return out


@given(seed=st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_any_run_finds_what_is_cached_and_says_why_it_ends(seed: int) -> None:
    given = random_scenario(random.Random(seed))
    data = run(given)
    found = metrics.lookups(data)
    if given["engine"].get("prefix_cache", "radix") == "off":
        assert found == []
        return
    assert [one.hit_blocks for one in found] == brute_force(data)
    size = given["engine"]["block_size"]
    for one in found:
        assert one.num_cached_tokens == one.hit_blocks * size
        assert (one.why == metrics.SHORT) == (one.most_blocks == 0)
        if one.why == metrics.DIFFERS:
            assert one.differs_at is not None
            assert one.hit_blocks * size <= one.differs_at < (one.hit_blocks + 1) * size
    total = metrics.totals(data)
    assert total.cached == sum(one.num_cached_tokens for one in found if not one.resumed)
    assert total.again_cached == sum(one.num_cached_tokens for one in found if one.resumed)
    last = metrics.hit_rate(data)[-1] if data["steps"] else None
    assert last is None or last == pytest.approx(total.hit_rate)


def test_why_tells_salts_from_other_tokens_and_twins_from_both() -> None:
    prompt = list(range(1, 10))
    data = run(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 32, "block_size": 4},
            "requests": [
                {"id": "A", "prompt_tokens": prompt, "cache_salt": "x"},
                {"id": "B", "prompt_tokens": prompt, "cache_salt": "x"},
                {"id": "C", "prompt_tokens": prompt, "arrive_step": 2},
                {"id": "D", "prompt_tokens": prompt[:4] + [7] * 5, "arrive_step": 4},
                {"id": "E", "prompt_tokens": [3], "arrive_step": 6},
            ],
        }
    )
    assert hits(data) == [
        ("A", 0, "empty"),
        ("B", 0, "computing"),
        ("C", 0, "other_salt"),
        ("D", 1, "differs"),
        ("E", 0, "short"),
    ]


# ---- preemption -------------------------------------------------------------------------------


def resumed_run(cache: str = "radix") -> Json:
    """Two prompts that share nothing outgrow a pool of ten blocks: B is preempted and resumed."""
    return run(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 10, "block_size": 4, "prefix_cache": cache},
            "requests": [
                {"id": "A", "prompt_tokens": list(range(100, 112)), "max_tokens": 12},
                {"id": "B", "prompt_tokens": list(range(200, 212)), "max_tokens": 12},
            ],
        }
    )


@pytest.mark.parametrize("cache", CACHES)
def test_what_a_preempted_request_finds_of_its_own_is_no_hit(cache: str) -> None:
    data = resumed_run(cache)
    found = metrics.lookups(data)
    assert [(one.request, one.resumed) for one in found] == [
        ("A", False),
        ("B", False),
        ("B", True),
    ]
    assert (found[2].num_cached_tokens, found[2].num_tokens) == (16, 21)
    total = metrics.totals(data)
    assert (total.cached, total.looked_up, total.hit_rate) == (0, 24, 0)
    assert (total.again_cached, total.again_looked_up) == (16, 21)
    assert set(metrics.hit_rate(data)) == {0}
    assert total.cached == pool_summary(data).cached_tokens


# ---- blocks on their way ----------------------------------------------------------------------


def test_a_prompt_in_chunks_is_being_computed_over_several_steps() -> None:
    """A's four blocks take four steps. B comes when two are cached, C when A has left."""
    prompt = list(range(1, 18))
    data = run(
        {
            "schema": "scenario/1",
            "engine": {
                "num_blocks": 32,
                "block_size": 4,
                "long_prefill_token_threshold": 4,
            },
            "requests": [
                {"id": "A", "prompt_tokens": prompt, "max_tokens": 2, "cancel_step": 3},
                {"id": "B", "prompt_tokens": prompt, "max_tokens": 2, "arrive_step": 2},
                {"id": "C", "prompt_tokens": [*prompt[:8], *[99] * 9], "arrive_step": 9},
                {"id": "D", "prompt_tokens": prompt, "arrive_step": 10},
            ],
        }
    )
    # Without memory of the steps before, B's would be "new".
    assert hits(data) == [
        ("A", 0, "empty"),
        ("B", 2, "computing"),
        ("C", 2, "differs"),
        ("D", 4, "limit"),
    ]


def test_what_a_cancelled_prompt_would_have_computed_is_not_on_its_way() -> None:
    prompt = list(range(1, 18))
    data = run(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 32, "block_size": 4, "long_prefill_token_threshold": 4},
            "requests": [
                {"id": "A", "prompt_tokens": prompt, "cancel_step": 2},
                {"id": "B", "prompt_tokens": prompt, "arrive_step": 3},
            ],
        }
    )
    assert hits(data) == [("A", 0, "empty"), ("B", 2, "new")]


def test_an_answer_that_fills_a_block_is_on_its_way_until_it_is_computed() -> None:
    """A's second token fills its block; its keys and values are computed a step later."""
    data = run(
        {
            "schema": "scenario/1",
            "engine": {"num_blocks": 32, "block_size": 4},
            "requests": [
                {
                    "id": "A",
                    "prompt_tokens": [1, 2],
                    "output_tokens": [3, 4, 5, 6],
                    "max_tokens": 4,
                },
                {"id": "B", "prompt_tokens": [1, 2, 3, 4, 9], "arrive_step": 2},
                {"id": "C", "prompt_tokens": [1, 2, 3, 4, 9], "arrive_step": 3},
            ],
        }
    )
    assert hits(data) == [("A", 0, "short"), ("B", 0, "computing"), ("C", 1, "limit")]


# ---- what the workloads promise ---------------------------------------------------------------

LARGE = Knobs(users=8, turns=6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("knobs", "eviction"),
    [(LARGE, "lru"), (Knobs(8, 6, 16, 128, 7), "lfu"), (Knobs(8, 4, 1, 128, 3), "fifo")],
    ids=["many", "small pool", "blocks of one"],
)
def test_a_turn_comes_when_the_one_before_has_been_answered(
    kind: str, cache: str, knobs: Knobs, eviction: str
) -> None:
    turns = timed(kind, knobs, eviction)
    data = run(scenario(kind, knobs, prefix_cache=cache, eviction=eviction))
    ended = {
        event["request"]: step["step"]
        for step in data["steps"]
        for event in step["events"]
        if event["type"] == "finished"
    }
    names = [one["id"] for one in data["header"]["scenario"]["requests"]]
    assert [one["arrive_step"] for one in data["header"]["scenario"]["requests"]] == [
        step for step, _, _ in turns
    ]
    last: dict[int, str] = {}
    for name, (step, user, _) in zip(names, turns, strict=True):
        if user in last:
            assert step >= ended[last[user]] + PAUSE, (name, user)
        last[user] = name


def test_most_of_a_conversation_hits_as_long_as_the_pool_keeps_it() -> None:
    """The lesson says "most of it": of each later turn, at the page's first knobs."""
    found = metrics.lookups(run(scenario("chat", Knobs())))
    later = [one for one in found if one.num_tokens > found[0].num_tokens]
    assert len(later) == 6
    assert all(0.8 <= one.num_cached_tokens / one.num_tokens < 0.84 for one in later)
    small = metrics.totals(run(scenario("chat", Knobs(8, 6, 4, 128))))
    assert small.hit_rate < 0.5 < metrics.totals(run(scenario("chat", LARGE))).hit_rate


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 16])
def test_programs_share_nothing_at_any_block_size(cache: str, block_size: int) -> None:
    knobs = Knobs(users=8, turns=2, block_size=block_size, pool_tokens=1024)
    turns = timed("api", knobs)
    found = metrics.lookups(run(scenario("api", knobs, prefix_cache=cache)))
    seen: set[int] = set()
    for one, (_, user, _) in zip(found, turns, strict=True):
        assert (one.hit_blocks > 0) == (user in seen), (one.request, user)
        seen.add(user)


def test_texts_need_nothing_of_random_but_what_python_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python promises that `random()` gives the same for ever; `choice` and `shuffle` may change
    with a version, and both draw bits."""

    class Kept(random.Random):
        def getrandbits(self, k: int) -> int:
            raise AssertionError("a draw that Python does not promise to keep")

    monkeypatch.setattr("core.workloads_prefix.Random", Kept)
    timed.cache_clear()
    for kind in KINDS:
        scenario(kind, Knobs(users=4, seed=11))
    for make in (hot_prompt, edited_prompt):
        make("radix", "lru")
    timed.cache_clear()
