"""An action by hand after step k: steps 0 … k stay as they were, and the next one shows it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core import by_hand
from core.by_hand import ActionError
from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import read_run
from tests.scenario_gen import random_scenario

Json = dict[str, Any]
randoms = st.randoms(use_true_random=False)
thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
few = settings(thorough, max_examples=40)


def run_of(scenario: Scenario) -> Json:
    return simulate(scenario).to_dict()


def built_in(root: Path, slug: str) -> Scenario:
    return Scenario.from_file(root / "lessons" / "scenarios" / f"{slug}.json")


def told(run: Json, steps: int) -> list[Any]:
    """What a run says of its first steps, without what was measured."""
    return [(r["scheduled"], r["events"], r["usage"]) for r in run["steps"][:steps]]


def events(run: Json, step: int, kind: str) -> list[Json]:
    return [e for e in run["steps"][step]["events"] if e["type"] == kind]


def act(rng: random.Random, run: Json, step: int) -> tuple[str, by_hand.Alive | None, Scenario]:
    """Some action that is possible after a step, at random."""
    there = by_hand.alive(run, step)
    forkable = [one for one in there if one.can_fork]
    engine = run["header"]["scenario"]["engine"]
    kinds = ["add"]
    if there:
        kinds += ["cancel", "finish"]
    if forkable and engine["allocator"] == "paged" and engine["batching"] == "continuous":
        kinds += ["fork"]
    kind = rng.choice(kinds)
    if kind == "add":
        n = 1 if engine["allocator"] == "contiguous" else rng.randint(1, 3)
        tokens = [rng.randint(0, 5) for _ in range(rng.randint(1, 12))]
        if there and rng.random() < 0.5:
            tokens = [*by_hand.prefix_of(run, step, rng.choice(there).sequence, 8), *tokens]
        return kind, None, by_hand.add(run, step, prompt_tokens=tokens, max_tokens=4, n=n)
    one = rng.choice(forkable if kind == "fork" else there)
    return kind, one, getattr(by_hand, kind)(run, step, one.sequence)


@thorough
@given(randoms)
def test_actions_leave_the_past_alone(rng: random.Random) -> None:
    """Four actions one after another, each at some step not before the last one."""
    run = run_of(Scenario.from_dict(random_scenario(rng)))
    step = 0
    for _ in range(4):
        if not run["steps"]:
            return
        step = rng.randint(min(step, len(run["steps"]) - 1), len(run["steps"]) - 1)
        kind, one, scenario = act(rng, run, step)
        changed = run_of(scenario)
        assert told(changed, step + 1) == told(run, step + 1), kind
        if kind == "add":
            assert events(changed, step + 1, "request_arrived")[-1]["request"] == (
                scenario.requests[-1].id
            )
        elif kind == "fork":
            _forked(changed, step, scenario.requests[-1].id, one)
        elif kind == "cancel":
            assert one is not None
            ended = {e["sequence"]: e for e in events(changed, step + 1, "finished")}
            assert ended[one.sequence]["reason"] == "cancelled"
        else:
            assert one is not None
            _finished(changed, step, one)
        run = changed


def _forked(run: Json, step: int, new: str, one: by_hand.Alive | None) -> None:
    """It starts with all of the parent's tokens and blocks, and is never rejected."""
    assert one is not None
    assert not [e for e in events(run, step + 1, "request_rejected") if e["request"] == new]
    (event,) = [e for e in events(run, step + 1, "forked") if e["request"] == new]
    assert event["sequences"] == [one.sequence, new]
    assert event["blocks"]
    at_most = [c for c in run["steps"][step + 1]["events"] if c["type"] == "block_copied"]
    assert all(copy["src"] in event["blocks"] for copy in at_most if copy["sequence"] == new)


@few
@given(randoms)
def test_where_only_the_place_is_missing_the_engine_rejects_a_fork(rng: random.Random) -> None:
    """What `full` refuses, asked of the engine all the same, is rejected for want of a place."""
    run = run_of(Scenario.from_dict(random_scenario(rng)))
    engine = run["header"]["scenario"]["engine"]
    if engine["allocator"] == "contiguous" or engine["batching"] == "static":
        return
    full = [(span, step) for span in by_hand.spans(run) for step, _ in span.full]
    for span, step in full[:2]:
        with pytest.raises(ActionError, match="places of max_num_seqs are taken"):
            by_hand.fork(run, step, span.sequence)
        data = by_hand.as_script(run).to_dict()
        parent = next(spec for spec in data["requests"] if spec["id"] == span.request)
        spec = {"id": "new", "arrive_step": step + 1, "fork_of": span.sequence}
        data["requests"].append(spec | {"max_tokens": parent["max_tokens"]})
        (rejected,) = [
            e
            for e in events(run_of(Scenario.from_dict(data)), step + 1, "request_rejected")
            if e["request"] == "new"
        ]
        assert (rejected["reason"], rejected["needed"]) == ("invalid", 1)


def _places(max_num_seqs: int, requests: list[Json]) -> Json:
    engine = {"num_blocks": 64, "max_num_seqs": max_num_seqs}
    scenario = {"schema": "scenario/1", "engine": engine, "requests": requests}
    return run_of(Scenario.from_dict(scenario))


def test_a_second_fork_in_the_same_step_needs_a_place_of_its_own() -> None:
    """A and B run and three may: after the first fork by hand there is no place in that step."""
    requests = [{"id": name, "prompt_tokens": [1, 2, 3], "max_tokens": 9} for name in "AB"]
    run = _places(3, requests)
    changed = run_of(by_hand.fork(run, 2, "A"))
    assert [one.can_fork for one in by_hand.alive(run, 2)] == [True, True]
    there = by_hand.alive(changed, 2)
    assert [(one.can_fork, one.full) for one in there] == [(False, True), (False, True)]
    with pytest.raises(ActionError, match="all 3 places"):
        by_hand.fork(changed, 2, "B")
    (a, *_) = by_hand.spans(changed)
    assert (a.forks, a.full) == ([[0, 1]], [[2, 7]])


def test_a_request_that_is_about_to_fork_takes_all_its_places() -> None:
    """B's prompt takes two steps, and its three places are taken from the first."""
    a = {"id": "A", "prompt_tokens": [1, 2, 3], "max_tokens": 9}
    b = {"id": "B", "prompt_tokens": [*range(40)], "max_tokens": 2, "n": 3, "arrive_step": 1}
    engine = {"num_blocks": 64, "max_num_seqs": 4, "max_num_batched_tokens": 32}
    scenario = {"schema": "scenario/1", "engine": engine, "requests": [a, b]}
    run = run_of(Scenario.from_dict(scenario))
    assert [next(o for o in by_hand.alive(run, k) if o.sequence == "A").full for k in range(4)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_a_place_falls_free_when_another_is_cancelled() -> None:
    requests = [{"id": name, "prompt_tokens": [1, 2, 3], "max_tokens": 9} for name in "AB"]
    run = _places(2, requests)
    assert all(one.full for one in by_hand.alive(run, 2))
    changed = run_of(by_hand.cancel(run, 2, "B"))
    a, b = by_hand.alive(changed, 2)
    assert a.can_fork and not b.can_fork and not b.full
    again = run_of(by_hand.fork(changed, 2, "A"))
    assert [e["request"] for e in events(again, 3, "forked")] == ["C"]


def test_new_requests_can_be_given_words(root: Path) -> None:
    run = run_of(built_in(root, "two-answers"))
    words = [301, 302, 303, 304, 305, 306, 307, 308, 309, 310]
    scenario = by_hand.fork(run, 2, "A", words)
    changed = run_of(scenario)
    said = [
        e["token"]
        for record in changed["steps"]
        for e in record["events"]
        if e["type"] == "token_sampled" and e["sequence"] == scenario.requests[-1].id
    ]
    left = scenario.requests[0].max_tokens - by_hand.alive(run, 2)[0].num_outputs
    assert left > 1 and said == words[:left]
    too_few = by_hand.fork(run, 2, "A", words[:1]).requests[-1]
    assert too_few.output_tokens is None, "a script must not end it early"
    added = by_hand.add(run, 2, prompt_tokens=[1], max_tokens=2, n=2, answers=[[1, 2], [3, 4]])
    assert added.requests[-1].output_tokens == ((1, 2), (3, 4))


def _finished(run: Json, step: int, one: by_hand.Alive) -> None:
    """It samples one more token at most, and that one ends it, unless it is cancelled before."""
    after = [
        e
        for record in run["steps"][step + 1 :]
        for e in record["events"]
        if e.get("sequence") == one.sequence
    ]
    (end,) = [e for e in after if e["type"] == "finished"]
    sampled = [e for e in after if e["type"] == "token_sampled"]
    if end["reason"] == "cancelled":
        assert not sampled
    else:
        assert end["reason"] == "stop_token"
        assert len(sampled) == 1


@pytest.mark.parametrize(
    "name", ["two_answers_one_prefix", "preempted_and_resumed", "contiguous_reservation",
             "one_system_prompt", "long_prompt_in_chunks", "static_batch"],
)  # fmt: skip
def test_a_recorded_run_as_a_script_takes_the_same_steps(root: Path, name: str) -> None:
    recorded = read_run(root / "runs" / f"{name}.run.json.gz").to_dict()
    script = by_hand.as_script(recorded)
    assert script.model == "none"
    again = run_of(script)
    assert told(again, len(again["steps"])) == told(recorded, len(recorded["steps"]))
    assert again["header"]["label"] == "SIMULATED"


@pytest.mark.parametrize(
    ("name", "said"), [("beam_search", "Beams"), ("no_kv_cache", "keeps no blocks")]
)
def test_what_only_a_model_can_decide_is_refused(root: Path, name: str, said: str) -> None:
    recorded = read_run(root / "runs" / f"{name}.run.json.gz").to_dict()
    with pytest.raises(ActionError, match=said):
        by_hand.add(recorded, 1, prompt="x")
    for step in range(len(recorded["steps"])):
        for one in by_hand.alive(recorded, step):
            with pytest.raises(ActionError):
                by_hand.cancel(recorded, step, one.sequence)


def test_a_cancelled_sequence_of_a_recorded_run_is_not_ended_by_its_script() -> None:
    requests = [{"id": "A", "prompt_tokens": [1, 2, 3], "max_tokens": 9, "cancel_step": 3}]
    run = run_of(Scenario.from_dict({"schema": "scenario/1", "requests": requests}))
    run["header"]["source"] |= {"model": "some-model", "device": "CPU", "dtype": "float32"}
    run["header"]["scenario"]["model"] = "some-model"
    again = run_of(by_hand.as_script(run))
    assert told(again, 9) == told(run, 9)


def test_a_fork_of_a_recorded_run_forks_again(root: Path) -> None:
    run = run_of(by_hand.fork(run_of(built_in(root, "two-answers")), 0, "A"))
    run["header"]["source"] |= {"model": "some-model", "device": "CPU", "dtype": "float32"}
    run["header"]["scenario"]["model"] = "some-model"
    again = run_of(by_hand.as_script(run))
    assert told(again, len(again["steps"])) == told(run, len(run["steps"]))


def test_what_a_stop_string_ended_is_refused() -> None:
    """A script would end it with another reason: the past would not stay what it was."""
    requests = [{"id": "A", "prompt_tokens": [1, 2], "max_tokens": 9, "output_tokens": [7, 8, 9]}]
    run = run_of(Scenario.from_dict({"schema": "scenario/1", "requests": requests}))
    run["header"]["source"] |= {"model": "some-model", "device": "CPU", "dtype": "float32"}
    run["header"]["scenario"] |= {"model": "some-model"}
    run["header"]["scenario"]["requests"][0] |= {"stop": ["x"], "output_tokens": None}
    events(run, 2, "finished")[0]["reason"] = "stop_string"
    with pytest.raises(ActionError, match="A ended at a stop string"):
        by_hand.add(run, 0, prompt_tokens=[1])
    events(run, 2, "finished")[0]["reason"] = "max_tokens"
    run["header"]["scenario"]["requests"][0]["max_tokens"] = 3
    again = run_of(by_hand.as_script(run))
    assert told(again, 3) == told(run, 3), "a stop string that nothing met changes nothing"


def test_what_the_end_of_sequence_ended_ends_there_again() -> None:
    requests = [{"id": "A", "prompt_tokens": [1, 2], "max_tokens": 9, "output_tokens": [7, 8, 9]}]
    requests[0]["stop_token_ids"] = [9]
    run = run_of(Scenario.from_dict({"schema": "scenario/1", "requests": requests}))
    run["header"]["source"] |= {"model": "some-model", "device": "CPU", "dtype": "float32"}
    run["header"]["scenario"]["model"] = "some-model"
    del run["header"]["scenario"]["requests"][0]["stop_token_ids"]
    again = run_of(by_hand.as_script(run))
    assert events(again, 2, "finished")[0]["reason"] == "stop_token"


def test_finish_writes_a_token_that_was_not_said_before() -> None:
    """Every answer is all commas: as a stop token the comma would have ended them long ago."""
    script = [[5, 5, 5, 5, 5], [5, 5, 5, 5, 5]]
    requests = [
        {"id": "A", "prompt_tokens": [1, 2, 3], "n": 2, "max_tokens": 9, "output_tokens": script}
    ]
    run = run_of(Scenario.from_dict({"schema": "scenario/1", "requests": requests}))
    changed = run_of(by_hand.finish(run, 1, "A#1"))
    assert told(changed, 2) == told(run, 2)
    assert [e["sequence"] for e in events(changed, 2, "finished")] == ["A#1"]
    assert events(changed, 4, "finished")[0]["sequence"] == "A#0"


def test_a_fork_shares_all_blocks_and_copies_one_when_it_writes(root: Path) -> None:
    """A has 14 tokens, 13 of them computed: 4 blocks, the last with one token in it. The fork
    brings every reference to 2. The first of the two to write copies the last block, the other
    writes in place."""
    run = run_of(built_in(root, "two-answers"))
    scenario = by_hand.fork(run, 0, "A")
    new = scenario.requests[-1].id
    changed = simulate(scenario, keep_state=True).to_dict()
    assert told(changed, 1) == told(run, 1)
    (event,) = events(changed, 1, "forked")[:1]
    assert event["sequences"] == ["A", new] and event["blocks"] == [0, 1, 2, 3]
    (copy,) = events(changed, 1, "block_copied")
    assert (copy["sequence"], copy["src"], copy["num_slots"]) == ("A", 3, 1)
    state = changed["steps"][1]["state"]
    assert state["block_tables"]["A"][:3] == state["block_tables"][new][:3] == [0, 1, 2]
    assert state["ref_counts"]["3"] == state["ref_counts"][str(copy["dst"])] == 1
    assert [state["ref_counts"][str(b)] for b in (0, 1, 2)] == [2, 2, 2]
    assert state["outputs"][new][0] == state["outputs"]["A"][0]
    again = simulate(by_hand.finish(changed, 2, new)).to_dict()
    assert events(again, 3, "finished")[0]["sequence"] == new


def test_who_can_be_acted_on(root: Path) -> None:
    run = run_of(built_in(root, "two-answers"))
    assert [one.sequence for one in by_hand.alive(run, 0)] == ["A"]
    assert [one.sequence for one in by_hand.alive(run, 2)] == ["A", "B#0", "B#1", "C"]
    assert all(one.can_fork for one in by_hand.alive(run, 2))
    last = len(run["steps"]) - 1
    assert by_hand.alive(run, last) == []
    for action in (by_hand.cancel, by_hand.finish, by_hand.fork):
        with pytest.raises(ActionError, match="neither waits nor runs"):
            action(run, last, "A")


def test_a_request_can_be_added_when_all_have_ended(root: Path) -> None:
    run = run_of(built_in(root, "one-request"))
    last = len(run["steps"]) - 1
    changed = run_of(by_hand.add(run, last, prompt="again", max_tokens=2))
    assert len(changed["steps"]) == last + 3
    assert events(changed, last + 1, "admitted")[0]["request"] == "B"


def test_a_shared_prefix_is_found(root: Path) -> None:
    run = run_of(built_in(root, "two-answers"))
    tokens = [*by_hand.prefix_of(run, 1, "A", 12), 900, 901]
    changed = run_of(by_hand.add(run, 1, prompt_tokens=tokens, max_tokens=2))
    assert events(changed, 2, "admitted")[-1]["num_cached_tokens"] == 12


def test_new_requests_get_the_next_free_letter() -> None:
    used = [{"id": name, "prompt": "x"} for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    full = Scenario.from_dict({"schema": "scenario/1", "requests": used})
    assert by_hand.next_id(full) == "A1"
    some = Scenario.from_dict({"schema": "scenario/1", "requests": used[1:3]})
    assert by_hand.next_id(some) == "A"
