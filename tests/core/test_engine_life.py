"""An engine that lives on: more requests, cancels, failures, and what it says afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine import Engine, EngineFailedError
from core.errors import RequestError, ScenarioError
from core.runner import ScriptedRunner, StepBatch, StepOutput
from core.scenario import RequestSpec, Scenario
from core.simulate import verify
from core.trace.run import parse_run


def engine(
    *requests: dict[str, Any], runner: ScriptedRunner | None = None, **fields: Any
) -> Engine:
    scenario = {"schema": "scenario/1", "engine": fields, "requests": list(requests)}
    return Engine(Scenario.from_dict(scenario), runner or ScriptedRunner(), debug=True)


def spec(name: str, step: int, *tokens: int, **fields: Any) -> RequestSpec:
    return RequestSpec(id=name, arrive_step=step, prompt_tokens=tokens, **fields)


class FailsAt(ScriptedRunner):
    """Raises in the given step."""

    def __init__(self, step: int, error: BaseException) -> None:
        super().__init__()
        self.step, self.error = step, error

    def execute(self, batch: StepBatch) -> StepOutput:
        if batch.step == self.step:
            raise self.error
        return super().execute(batch)


@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()])
def test_a_step_that_fails_half_way_ends_the_engine(error: BaseException) -> None:
    """Its tables already name blocks that were never written: nothing may go on from there."""
    prompt = {"id": "A", "prompt_tokens": [1, 2, 3, 4, 5, 6], "n": 2}
    live = engine(prompt, runner=FailsAt(1, error))
    live.step()
    with pytest.raises(type(error)):
        live.step()
    assert live.failed
    for _ in range(2):
        with pytest.raises(EngineFailedError, match="failed in step 1"):
            live.step()
    assert len(live.run().steps) == 1, "the broken step is not part of the run"


def test_requests_can_be_added_while_others_run() -> None:
    live = engine({"id": "A", "prompt_tokens": [1, 2, 3, 4, 5]})
    live.step()
    live.step()
    live.add([spec("B", 2, 1, 2, 3, 4, 9), spec("C", 4, 7)])
    run = live.run_to_end()
    assert run.results["B"]["num_cached_tokens"] == 4
    assert [request.id for request in run.scenario.requests] == ["A", "B", "C"]
    verify(parse_run(run.to_bytes()))


@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (spec("A", 1, 1), ScenarioError, "in use"),
        (spec("B", 0, 1), ScenarioError, "passed"),
        (spec("B", 1), RequestError, "empty"),
        (spec("B", 1, *range(64)), RequestError, "too long"),
        (spec("B", 1, 1, n=9, max_tokens=2), RequestError, "more sequences"),
        (spec("B", 1, -1), ScenarioError, "prompt_tokens"),
        (spec("B", 1, 1, temperature=-1.0), ScenarioError, "temperature"),
    ],
)
def test_a_bad_request_is_refused_and_takes_none_of_the_others_with_it(
    bad: RequestSpec, error: type[Exception], says: str
) -> None:
    live = engine({"id": "A", "prompt_tokens": [1, 2]})
    live.step()
    with pytest.raises(error, match=says):
        live.add([spec("fine", 1, 5), bad])
    assert [request.id for request in live.requests] == ["A"]
    live.add([spec("fine", 1, 5)])
    verify(live.run_to_end())


def test_a_cancel_from_outside_is_part_of_the_scenario() -> None:
    live = engine({"id": "A", "prompt_tokens": [1, 2, 3]}, {"id": "B", "prompt_tokens": [4]})
    live.step()
    live.cancel(live.requests[0])
    live.cancel(live.requests[0])  # once is enough
    live.step()
    assert live.kv.usage()["in_use"] == 1
    run = live.run_to_end()
    assert run.results["A"]["finish_reason"] == "cancelled"
    verify(parse_run(run.to_bytes()))
    live.cancel(live.requests[1])
    assert live.done, "cancelling what has ended does nothing"


def test_a_request_that_has_not_arrived_can_be_cancelled() -> None:
    live = engine({"id": "A", "prompt_tokens": [1, 2, 3]})
    live.cancel(live.requests[0])
    run = live.run_to_end()
    assert run.results["A"]["finish_reason"] == "cancelled"
    verify(parse_run(run.to_bytes()))


def test_results_name_every_sequence_also_before_the_fork() -> None:
    request = {"id": "A", "prompt_tokens": [1] * 9, "n": 3, "cancel_step": 1}
    run = engine(request, max_num_batched_tokens=4).run_to_end()
    assert {name: r["finish_reason"] for name, r in run.results.items()} == {
        "A#0": "cancelled",
        "A#1": "cancelled",
        "A#2": "cancelled",
    }


def test_preemptions_are_counted_for_each_sequence() -> None:
    requests = [{"id": name, "prompt_tokens": [1, 2, 3], "max_tokens": 6} for name in "AB"]
    run = engine(*requests, num_blocks=3, block_size=4, prefix_cache="off").run_to_end()
    assert run.results["A"]["num_preemptions"] == 0
    assert run.results["B"]["num_preemptions"] == 1
