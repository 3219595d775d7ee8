"""Runs without a model: simulate a scenario, and run a recorded one again to verify it."""

from __future__ import annotations

import dataclasses
from typing import Any

from core.engine import Engine
from core.errors import MismatchError, RunError
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.trace.run import Run, output_tokens


def simulate(scenario: Scenario, *, keep_state: bool = False, debug: bool = False) -> Run:
    """The real scheduler and block manager on scripted tokens; no model, no torch.

    A scenario that names a model is run without it. Raises ScenarioError where that cannot be.
    """
    engine = Engine(scenario.scripted(), ScriptedRunner(), keep_state=keep_state, debug=debug)
    return engine.run_to_end()


def verify(run: Run) -> None:
    """Run scheduler and block manager again on the recorded arrivals and tokens, without torch.

    All but timings must match. Also checks that the events lead to the recorded states, if any.
    Raises MismatchError that names the first difference.
    """
    try:
        _verify_states(run)
    except MismatchError:
        raise
    except RunError as exc:  # an event that does not fit the state
        raise MismatchError(str(exc)) from None
    again = Engine(_as_scripted(run), _RecordedRunner(run), label=run.header["label"])
    for index, recorded in enumerate(run.steps):
        if again.done:
            raise MismatchError(
                f"step {index} is recorded, but the run ends after step {index - 1}"
            )
        try:
            again.step()
        except (KeyError, IndexError):
            raise MismatchError(
                f"step {index}: more tokens are sampled than were recorded"
            ) from None
        assert again.recorder is not None
        _compare(index, recorded, again.recorder.step(index))
    if not again.done:
        raise MismatchError(f"the run goes on after step {len(run.steps) - 1}, the last recorded")
    for name, result in again.results().items():
        recorded_result = run.results.get(name, {})
        for key, value in result.items():
            old = recorded_result.get(key, value)
            if old != value:
                raise MismatchError(f"results.{name}.{key}: recorded {old!r}, run again {value!r}")


def _verify_states(run: Run) -> None:
    for record, state in zip(run.steps, run.states(), strict=True):
        kept = record.get("state")
        if kept is not None and kept != state:
            part = next((key for key in state if kept.get(key) != state[key]), "state")
            raise MismatchError(
                f"step {record['step']}: the recorded {part} is not what the events give"
            )
        usage = record["usage"]
        in_use = len(state["ref_counts"])
        idle = sum(1 for entry in state["cached"].values() if not entry["lock_ref"])
        free = len(state["free_order"]) - idle
        if (usage["free"], usage["cached"], usage["in_use"]) != (free, idle, in_use):
            raise MismatchError(f"step {record['step']}: usage is not what the events give")


def _compare(index: int, recorded: dict[str, Any], again: dict[str, Any]) -> None:
    for i, (old, new) in enumerate(zip(recorded["events"], again["events"], strict=False)):
        if old != new:
            raise MismatchError(f"step {index}, event {i}: recorded {old}, run again {new}")
    if len(recorded["events"]) != len(again["events"]):
        numbers = f"{len(recorded['events'])} recorded, {len(again['events'])} run again"
        raise MismatchError(f"step {index}: number of events: {numbers}")
    for part in ("scheduled", "usage"):
        if recorded[part] != again[part]:
            raise MismatchError(
                f"step {index}, {part}: recorded {recorded[part]}, run again {again[part]}"
            )


def _prompts(run: Run) -> dict[str, list[int]]:
    prompts: dict[str, list[int]] = run.header["prompts"]
    return prompts


def _as_scripted(run: Run) -> Scenario:
    """The recorded scenario with its prompts as token ids."""
    scenario = run.scenario
    prompts = _prompts(run)
    for request in scenario.requests:
        if request.id not in prompts:
            raise MismatchError(f"header.prompts lacks request {request.id!r}")
        given = request.prompt_tokens
        if given is not None and list(given) != prompts[request.id]:
            raise MismatchError(f"header.prompts differs from the scenario for {request.id!r}")
    requests = tuple(
        dataclasses.replace(r, prompt=None, prompt_tokens=tuple(prompts[r.id]))
        for r in scenario.requests
    )
    return dataclasses.replace(scenario, requests=requests)


class _RecordedRunner(ScriptedRunner):
    """Gives out the tokens that a run recorded."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            eos_token_ids=frozenset(run.header.get("eos_token_ids", ())),
            source=run.header["source"],
        )
        self._tokens = output_tokens(run)

    def execute(self, batch: Any) -> list[list[int]]:
        out = []
        for item in batch.scheduled:
            seq = item.seq
            names = [
                seq.request.sequence_id(index)
                for index in range(seq.index, seq.index + item.num_samples)
            ]
            out.append([self._tokens[name][seq.num_output_tokens] for name in names])
        return out
