"""A request that forks off a running sequence: what it shares, when it is refused, how it lives."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from core.engine import Engine
from core.errors import MismatchError, ScenarioError
from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.reducer import Reducer
from core.trace.run import Run, output_tokens, parse_run
from core.trace.streamed import RunBuilder, play
from tests.core.drive import Json, events, granted, req, run_of, run_with_contents, scenario
from tests.core.memory_runner import memory_for
from tests.core.test_properties import assert_javascript_agrees
from tests.scenario_gen import random_scenario, with_forks

every_cache = pytest.mark.parametrize("cache", ["off", "hash", "radix"])


def fork(name: str, origin: str, step: int, **fields: Any) -> Json:
    return {"id": name, "fork_of": origin, "arrive_step": step, **fields}


def ref_counts_after(run: Run, step: int, kind: str) -> Json:
    """Reference counts in the middle of a step, right after its first event of a kind."""
    reducer = Reducer(run.header)
    for record in run.steps[:step]:
        reducer.apply_step(record)
    happened = run.steps[step]["events"]
    end = 1 + next(i for i, event in enumerate(happened) if event["type"] == kind)
    reducer.apply_step({"step": step, "events": happened[:end], "scheduled": {}})
    return reducer.state()["ref_counts"]


# ---- what is shared, what is copied --------------------------------------------------------------


@every_cache
def test_a_fork_shares_every_block_and_the_first_write_copies_one(cache: str) -> None:
    """A has 5 prompt and 2 output tokens in blocks 0 and 1. B holds both too, at no cost. In the
    same step A writes first: block 1 is copied to 2, and its count falls from 2 to 1."""
    run = run_of(
        req("A", [1, 2, 3, 4, 5], max_tokens=4), fork("B", "A", 2, max_tokens=4), prefix_cache=cache
    )
    before = run.steps[1]["state"]
    assert before["block_tables"] == {"A": [0, 1]} and before["ref_counts"] == {"0": 1, "1": 1}
    (forked,) = events(run, "forked", step=2)
    assert forked == {
        "type": "forked",
        "request": "B",
        "sequence": "A",
        "sequences": ["A", "B"],
        "blocks": [0, 1],
        "copies_outputs": True,
        "position": 1,
    }
    assert ref_counts_after(run, 2, "forked") == {"0": 2, "1": 2}
    assert ref_counts_after(run, 2, "block_copied") == {"0": 2, "1": 1, "2": 1}
    copies = events(run, "block_copied")
    assert [(e["sequence"], e["src"], e["dst"], e["num_slots"]) for e in copies] == [("A", 1, 2, 2)]
    assert run.steps[2]["state"]["block_tables"] == {"A": [0, 2], "B": [0, 1]}
    verify(run)


@every_cache
def test_a_fork_behind_full_blocks_copies_nothing(cache: str) -> None:
    """A has computed 8 tokens, two whole blocks: each of the two takes a third block of its own."""
    run = run_of(
        req("A", [1, 2, 3, 4, 5, 6, 7], max_tokens=5),
        fork("B", "A", 2, max_tokens=5),
        prefix_cache=cache,
    )
    assert run.steps[2]["state"]["block_tables"] == {"A": [0, 1, 2], "B": [0, 1, 3]}
    assert run.steps[2]["state"]["ref_counts"] == {"0": 2, "1": 2, "2": 1, "3": 1}
    assert not events(run, "block_copied")


def test_it_inherits_the_tokens_and_samples_its_own() -> None:
    """Inherited tokens count: with max_tokens 6 and 3 of them, B samples 3. It starts in the step
    in which it arrives, and computes the last inherited token itself."""
    run = run_of(req("A", [1, 2, 3], max_tokens=9), fork("B", "A", 3, max_tokens=6))
    tokens = output_tokens(run)
    assert tokens["B"][:3] == tokens["A"][:3] == [1_000_000, 1_000_001, 1_000_002]
    assert tokens["B"][3:] == [2_000_003, 2_000_004, 2_000_005]
    assert granted(run, "B")[:6] == [None, None, None, 1, 1, 1]
    assert run.steps[3]["scheduled"]["B"]["num_computed_tokens"] == 5
    (ended,) = events(run, "finished", sequence="B")
    assert (ended["reason"], ended["num_output_tokens"]) == ("max_tokens", 6)
    assert run.results["B"]["num_cached_tokens"] == 0


def test_its_script_is_read_from_where_it_starts() -> None:
    """Token j of B is `output_tokens[j]`: those at the places of inherited tokens are not used."""
    run = run_of(
        req("A", [1, 2, 3], max_tokens=9), fork("B", "A", 2, output_tokens=[70, 71, 72, 73])
    )
    assert output_tokens(run)["B"] == [1_000_000, 1_000_001, 72, 73]
    assert run.results["B"]["finish_reason"] == "script_end"


def test_one_sequence_of_several_and_a_fork_of_a_fork() -> None:
    run = run_of(
        req("A", [1, 2, 3], n=2, max_tokens=8),
        fork("B", "A#1", 3, max_tokens=8),
        fork("C", "B", 5, max_tokens=8),
    )
    tokens = output_tokens(run)
    assert tokens["B"][:3] == tokens["A#1"][:3]
    assert tokens["C"][:5] == tokens["B"][:5] and tokens["C"][5] == 3_000_005
    assert run.steps[5]["state"]["running"] == ["A#0", "A#1", "B", "C"]
    verify(run)


def test_what_follows_its_parent_is_in_its_parents_namespace() -> None:
    """A is salted, so B is. C, unsalted, does not find their prefix; D, with the salt, finds A's 4
    tokens and not B's, for those are others."""
    data = [
        req("A", [1, 2, 3, 4], cache_salt="x", output_tokens=[5, 6, 7, 8, 9, 9, 9]),
        fork("B", "A", 2, output_tokens=[5, 6, 17, 18, 19, 19, 19]),
        req("C", [1, 2, 3, 4, 5], arrive_step=12, max_tokens=1),
        req("D", [1, 2, 3, 4, 5, 6, 17, 18, 19], arrive_step=12, max_tokens=1, cache_salt="x"),
    ]
    for cache in ("hash", "radix"):
        run = run_of(*data, prefix_cache=cache)
        found = {e["sequence"]: e["num_cached_tokens"] for e in events(run, "admitted")}
        assert (found["C"], found["D"]) == (0, 8)


# ---- scheduling ----------------------------------------------------------------------------------


def test_the_fork_was_admitted_last_so_it_gives_way_first() -> None:
    """Five blocks: A, X and B need more. B is behind X although its parent is not; it keeps all its
    tokens, inherited ones too, and goes on where it was."""
    run = run_of(
        req("A", [1, 2, 3, 4, 5], max_tokens=9),
        req("X", [50, 51, 52], max_tokens=7, arrive_step=1),
        fork("B", "A", 3, max_tokens=9),
        num_blocks=5,
    )
    assert run.steps[3]["state"]["running"] == ["A", "X", "B"]
    preempted = events(run, "preempted")
    assert preempted[0]["sequence"] == "B" and preempted[0]["num_output_tokens"] >= 3
    assert events(run, "resumed", sequence="B")
    assert output_tokens(run)["B"] == [
        1_000_000,
        1_000_001,
        1_000_002,
        *range(3_000_003, 3_000_009),
    ]
    assert run.results["B"]["num_preemptions"] >= 1
    verify(run)


def test_its_priority_is_its_own() -> None:
    """A is urgent, B is not, X is between them: B gives way first, then X, and A never."""
    run = run_of(
        req("A", [1, 2, 3, 4, 5], max_tokens=9, priority=0),
        req("X", [50, 51, 52], max_tokens=7, priority=1),
        fork("B", "A", 3, max_tokens=9, priority=2),
        num_blocks=5,
        policy="priority",
    )
    assert [e["sequence"] for e in events(run, "preempted")][:2] == ["B", "X"]
    assert not events(run, "preempted", sequence="A")


def test_a_parent_that_computes_its_tokens_again_can_be_forked() -> None:
    """B was preempted and is back, one token a step: its fork F has the 3 computed, in block 0, and
    all 4 output tokens; both compute the other 3, each into blocks of its own."""
    data = scenario(
        req("A", [1, 2, 3, 4, 5], max_tokens=5),
        req("B", [7, 8, 9], max_tokens=9),
        fork("F", "B", 12, max_tokens=9),
        num_blocks=4,
        block_size=3,
        long_prefill_token_threshold=1,
        prefix_cache="off",
    )
    run, _ = run_with_contents(data)
    shares = run.steps[12]["scheduled"]
    assert shares["B"] == shares["F"] and shares["F"]["num_computed_tokens"] == 3
    (forked,) = events(run, "forked")
    assert forked["blocks"] == [0] and not events(run, "block_copied")
    taken = [(e["sequence"], e["blocks"]) for e in events(run, "blocks_allocated", step=12)]
    assert taken == [("B", [2]), ("F", [1])]
    assert output_tokens(run)["F"][:4] == output_tokens(run)["B"][:4]
    verify(run)


# ---- refused in its step, refused when read ------------------------------------------------------

A: Json = req("A", [1, 2, 3], max_tokens=6)
NOT_NOW: dict[str, tuple[list[Json], Json]] = {
    "arrives with its parent": ([A, fork("B", "A", 0)], {}),
    "its parent waits": ([A, req("W", [9], max_tokens=3), fork("B", "W", 2)], {"max_num_seqs": 1}),
    "its parent has no token yet": (
        [req("A", [1] * 9), fork("B", "A", 2)],
        {"max_num_batched_tokens": 2},
    ),
    "its parent has not forked yet": (
        [req("A", [1] * 9, n=2), fork("B", "A#1", 2)],
        {"max_num_batched_tokens": 2},
    ),
    "its parent has ended": ([A, fork("B", "A", 6)], {}),
    "its parent is cancelled in this step": ([{**A, "cancel_step": 3}, fork("B", "A", 3)], {}),
    "its parent was rejected": ([req("A", [1] * 90), fork("B", "A", 1)], {}),
    "its parent's parent did not run": ([A, fork("P", "A", 0), fork("B", "P", 2)], {}),
    "it may have no more tokens": ([A, fork("B", "A", 3, max_tokens=3)], {}),
    "its script has no more tokens": ([A, fork("B", "A", 3, output_tokens=[1, 2, 3])], {}),
    "no place is left": ([A, fork("B", "A", 3)], {"max_num_seqs": 1}),
}


@pytest.mark.parametrize("case", NOT_NOW, ids=lambda case: case.replace(" ", "-"))
def test_a_fork_that_cannot_be_made_is_rejected_and_changes_nothing(case: str) -> None:
    requests, engine = NOT_NOW[case]
    run = run_of(*requests, **engine)
    reasons = {e["request"]: e["reason"] for e in events(run, "request_rejected")}
    expected = "prompt_too_long" if case == "its parent was rejected" else "invalid"
    assert reasons["B"] == expected
    assert "B" not in run.results and not events(run, "forked", request="B")
    without = run_of(*requests[:-1], **engine)
    assert output_tokens(run) == output_tokens(without)
    verify(run)


def test_rejections_say_their_numbers_where_there_are_any() -> None:
    requests, engine = NOT_NOW["no place is left"]
    (rejected,) = events(run_of(*requests, **engine), "request_rejected")
    assert (rejected["needed"], rejected["available"]) == (1, 0)
    (rejected,) = events(run_of(*NOT_NOW["its parent has ended"][0]), "request_rejected")
    assert "needed" not in rejected


def test_a_fork_that_can_never_fit_the_pool_is_rejected() -> None:
    run = run_of(A, fork("B", "A", 2, max_tokens=40), num_blocks=4)
    (rejected,) = events(run, "request_rejected")
    assert (rejected["reason"], rejected["needed"]) == ("exceeds_pool", 11)


BEAMS = {"beam_width": 2}
ODD: dict[str, tuple[Json, str]] = {
    "unknown": (scenario(A, fork("B", "Z", 2)), "[1].fork_of"),
    "later": (scenario(fork("B", "A", 2), A), "[0].fork_of"),
    "itself": (scenario(fork("B", "B", 2)), "[0].fork_of"),
    "no such sequence": (scenario(A, fork("B", "A#0", 2)), "[1].fork_of"),
    "one of several": (scenario({**A, "n": 2}, fork("B", "A", 2)), "[1].fork_of"),
    "beyond n": (scenario({**A, "n": 2}, fork("B", "A#2", 2)), "[1].fork_of"),
    "leading zero": (scenario({**A, "n": 2}, fork("B", "A#01", 2)), "[1].fork_of"),
    "no id": (scenario(A, fork("B", "", 2)), "[1].fork_of"),
    "a number": (scenario(A, {"id": "B", "fork_of": 0}), "[1].fork_of"),
    "a prompt too": (scenario(A, fork("B", "A", 2, prompt="x")), "[1].prompt"),
    "tokens too": (scenario(A, fork("B", "A", 2, prompt_tokens=[])), "[1].prompt_tokens"),
    "n": (scenario(A, fork("B", "A", 2, n=2)), "[1].n"),
    "salt": (scenario(A, fork("B", "A", 2, cache_salt="x")), "[1].cache_salt"),
    "adapter": (scenario(A, fork("B", "A", 2, adapter="x")), "[1].adapter"),
    "prompt_logprobs": (scenario(A, fork("B", "A", 2, prompt_logprobs=1)), "[1].prompt_logprobs"),
    "logprobs": (scenario(A, fork("B", "A", 2, logprobs=1)), "[1].logprobs"),
    "stop": (scenario(A, fork("B", "A", 2, stop=["x"])) | {"model": "m"}, "[1].stop"),
    "beams": (scenario(A, fork("B", "A", 2, **BEAMS)) | {"model": "m"}, "[1].fork_of"),
    "of a beam": (scenario({**A, **BEAMS}, fork("B", "A#0", 2)) | {"model": "m"}, "[1].fork_of"),
    "contiguous": (
        scenario(A, fork("B", "A", 2), allocator="contiguous", prefix_cache="off"),
        "[1].fork_of",
    ),
    "static": (scenario(A, fork("B", "A", 2), batching="static"), "[1].fork_of"),
    "no KV cache": (scenario(A, fork("B", "A", 2), kv_cache=False) | {"model": "m"}, "[1].fork_of"),
}


@pytest.mark.parametrize("case", ODD, ids=lambda case: case.replace(" ", "-"))
def test_a_fork_that_could_never_be_is_refused_when_it_is_read(case: str) -> None:
    data, path = ODD[case]
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(data)
    assert caught.value.path == f"requests{path}" and len(str(caught.value)) < 300


# ---- runs ----------------------------------------------------------------------------------------


def forks_run() -> Run:
    return run_of(
        req("A", list(range(9)), n=2, max_tokens=7),
        fork("B", "A#1", 3, max_tokens=8),
        fork("C", "B", 5, max_tokens=9, cancel_step=8),
        fork("D", "A#0", 2, max_tokens=2),
        num_blocks=9,
    )


def test_a_scenario_with_forks_and_its_run_survive_their_files() -> None:
    run = forks_run()
    assert Scenario.from_dict(run.scenario.to_dict()) == run.scenario
    again = parse_run(run.to_bytes())
    verify(again)
    assert again.header["prompts"]["C"] == list(range(9))
    streamed = RunBuilder()
    for kind, value in play(again):
        streamed.add(kind, value)
    whole = streamed.run()
    assert whole is not None and whole.to_dict() == again.to_dict()


@pytest.mark.parametrize("damage", ["prompt", "position", "outputs", "origin"])
def test_a_run_whose_fork_was_tampered_with_does_not_verify(damage: str) -> None:
    content = json.loads(json.dumps(forks_run().to_dict()))
    forked = next(
        e
        for r in content["steps"]
        for e in r["events"]
        if "position" in e and e["type"] == "forked"
    )
    if damage == "prompt":
        content["header"]["prompts"]["B"][0] += 1
    elif damage == "position":
        forked["position"] = 0
    elif damage == "outputs":
        del forked["copies_outputs"]
    else:
        forked["sequences"][0] = "A#0"
    run = parse_run(json.dumps(content).encode())
    with pytest.raises(MismatchError):
        verify(run)


def random_forks(seed: int) -> Json:
    rng = random.Random(seed)
    return json.loads(json.dumps(with_forks(rng, random_scenario(rng))))


@pytest.mark.parametrize("seed", range(10))
def test_javascript_and_python_reduce_forks_alike(seed: int, node: str) -> None:
    for i in range(4):
        run = simulate(Scenario.from_dict(random_forks(40 * seed + i)))
        verify(run)
        assert_javascript_agrees(node, run)


@pytest.mark.parametrize("window", [None, 1, 3, 7])
def test_every_fork_reads_what_it_needs(window: int | None) -> None:
    """The KV is read back: whatever shares, copies and is preempted, nobody reads a wrong slot."""
    num_forks = num_copies = 0
    for seed in range(500, 540):
        data = random_forks(seed)
        for request in data["requests"]:
            request["output_tokens"] = None
        runner = memory_for(data, window)
        run = Engine(Scenario.from_dict(data), runner, debug=True).run_to_end()
        num_forks += sum("position" in e for e in events(run, "forked"))
        num_copies += len(events(run, "block_copied"))
    assert num_forks > 20 and num_copies > 20
