"""Runs without a model: simulate a scenario, and run a recorded one again to verify it."""

from __future__ import annotations

import dataclasses
from typing import Any

from core.engine import Engine
from core.errors import MismatchError, RunError, ScenarioError, UnsupportedError
from core.request import Sequence
from core.runner import Candidate, ScheduledSequence, ScriptedRunner, StepBatch, StepOutput
from core.scenario import Scenario
from core.trace.reducer import Reducer
from core.trace.results import check_results
from core.trace.run import Run, output_tokens


def simulate(scenario: Scenario, *, keep_state: bool = False, debug: bool = False) -> Run:
    """The real scheduler and block manager on scripted tokens; no model, no torch.

    A scenario that names a model is run without it. Raises ScenarioError where that cannot be.
    """
    engine = Engine(scenario.scripted(), ScriptedRunner(), keep_state=keep_state, debug=debug)
    return engine.run_to_end()


def verify(run: Run) -> None:
    """Run scheduler and block manager again on the recorded arrivals and tokens, without torch.

    All but timings must match: every event, share and usage of every step, and the results. Also
    checks that the events lead to the recorded usage, and states if any. A scripted run's tokens
    are checked against the script; a model's tokens, texts and log-probabilities need
    `verify --tokens` (here only what they say about each other is checked), and the display texts
    of tokens are not checked. Raises MismatchError that names the first difference, and
    UnsupportedError for a run that does not begin with an empty engine.
    """
    if begins_midway(run):
        raise UnsupportedError(
            "the run begins in the middle of a live engine's life, beside requests whose tokens it "
            "does not hold: it can be reduced, but not run again"
        )
    verify_states(run)
    scripted = run.header["source"]["model"] == "none"
    if scripted != (run.header["label"] == "SIMULATED"):
        raise MismatchError(f"label {run.header['label']} for source {run.header['source']}")
    if scripted and run.header.get("sliding_window") is not None:
        raise MismatchError("header.sliding_window: a script has no model, and so no window")
    _verify_kv_format(run, scripted)
    runner = ScriptedRunner() if scripted else _RecordedRunner(run)
    again = Engine(_as_scripted(run), runner, label=run.header["label"])
    for index, recorded in enumerate(run.steps):
        if again.done:
            raise MismatchError(f"step {index} is recorded, but the run ends before it")
        again.step()
        assert again.recorder is not None
        _compare(index, recorded, again.recorder.step(index))
    if not again.done:
        raise MismatchError(f"the run goes on after its {len(run.steps)} recorded steps")
    _verify_results(run.results, again.results())
    check_results(run)


def _verify_kv_format(run: Run, scripted: bool) -> None:
    """Whether the header's `kv_format` is what the scenario's `kv_dtype` asks for."""
    spec, told = run.scenario.engine.kv_spec, run.header.get("kv_format")
    if scripted or not spec.quantised:
        fits = told is None
    else:
        fits = told is not None and spec.describes(told)
    if not fits:
        raise MismatchError("header.kv_format is not what the scenario's kv_dtype asks for")


_ADDED_LATER = ("num_preemptions",)  # older runs are without it


def _verify_results(recorded: dict[str, Any], again: dict[str, Any]) -> None:
    if recorded.keys() != again.keys():
        raise MismatchError(f"results: recorded {sorted(recorded)}, run again {sorted(again)}")
    for name, result in again.items():
        for key, value in result.items():
            old = recorded[name].get(key, value if key in _ADDED_LATER else None)
            if old != value:
                raise MismatchError(f"results.{name}.{key}: recorded {old!r}, run again {value!r}")


def begins_midway(run: Run) -> bool:
    """Whether the run is a part of a live engine's life, and so cannot be run again."""
    return "initial_state" in run.header or "hidden_token" in run.header


def verify_states(run: Run) -> None:
    """Whether the events lead to the recorded usage, and states if any. Raises MismatchError."""
    try:
        _reduce(run)
    except MismatchError:
        raise
    except RunError as exc:  # an event that does not fit the state
        raise MismatchError(str(exc)) from None


def _reduce(run: Run) -> None:
    shadow = Reducer(run.header)
    for record in run.steps:
        shadow.apply_step(record)
        step = record["step"]
        if record["usage"] != shadow.usage():
            raise MismatchError(f"step {step}: usage is not what the events give")
        kept = record.get("state")
        if kept is None:
            continue
        state = shadow.state()
        if kept != state:
            part = next((key for key in state if kept.get(key) != state[key]), "state")
            raise MismatchError(f"step {step}: the recorded {part} is not what the events give")


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
    if prompts.keys() != {request.id for request in scenario.requests}:
        raise MismatchError("header.prompts are not those of the scenario's requests")
    for request in scenario.requests:
        given = request.prompt_tokens
        if request.fork_of is not None:
            given = tuple(prompts[request.fork_of.partition("#")[0]])
        elif given is None and scenario.model == "none":
            given = tuple(ScriptedRunner().tokenize(request.prompt or ""))
        if given is not None and list(given) != prompts[request.id]:
            raise MismatchError(f"header.prompts differs from the scenario for {request.id!r}")
    if run.header["source"]["model"] == "none":
        try:
            scenario = scenario.scripted()
        except ScenarioError as exc:
            raise MismatchError(f"header.scenario is none for a script: {exc}") from None
    requests = tuple(
        r
        if r.fork_of is not None
        else dataclasses.replace(r, prompt=None, prompt_tokens=tuple(prompts[r.id]))
        for r in scenario.requests
    )
    return dataclasses.replace(scenario, requests=requests)


class _RecordedRunner(ScriptedRunner):
    """Gives out the tokens that a run recorded."""

    def __init__(self, run: Run) -> None:
        super().__init__(
            eos_token_ids=frozenset(run.header.get("eos_token_ids", ())),
            source=run.header["source"],
            sliding_window=run.header.get("sliding_window"),
        )
        self._tokens = output_tokens(run)
        # Taken in in the step after, where steps are scheduled ahead.
        later = int(run.scenario.engine.async_scheduling)
        self._candidates = [record.get("candidates", {}) for record in run.steps[later:]]
        # Whether a text contains a stop string only its tokenizer can say: the record is believed.
        self._stop_string_at = {
            event["sequence"]: event["num_output_tokens"]
            for record in run.steps
            for event in record["events"]
            if event["type"] == "finished" and event["reason"] == "stop_string"
        }

    def hits_stop_string(self, seq: Sequence) -> bool:
        return self._stop_string_at.get(seq.id) == seq.num_output_tokens

    def execute(self, batch: StepBatch) -> StepOutput:
        out = []
        candidates: list[list[Candidate]] = []
        for item in batch.scheduled:
            seq = item.seq
            if seq.finished:  # its late token is dropped, and was never recorded
                out.append([0] * item.num_samples)
                candidates.append([])
                continue
            candidates.append(self._candidates_of(batch.step, item))
            names = [
                seq.request.sequence_id(index)
                for index in range(seq.index, seq.index + item.num_samples)
            ]
            try:
                out.append([self._tokens[name][seq.num_output_tokens] for name in names])
            except (KeyError, IndexError):
                raise MismatchError(
                    f"step {batch.step}: {names[0]} samples more tokens than were recorded"
                ) from None
        return StepOutput(out, candidates=candidates)

    def _candidates_of(self, step: int, item: ScheduledSequence) -> list[Candidate]:
        recorded = self._candidates[step].get(item.seq.id, [])
        if len(recorded) != item.num_candidates:
            raise MismatchError(
                f"step {step}: {item.seq.id} has {item.num_candidates} candidates, "
                f"{len(recorded)} are recorded"
            )
        values = [logprob for _, logprob in recorded]
        distinct = {token for token, _ in recorded}
        if (
            len(distinct) < len(recorded)
            or values != sorted(values, reverse=True)
            or any(value > 0 for value in values)
        ):
            raise MismatchError(f"step {step}: the candidates of {item.seq.id} are no ranking")
        return [(token, logprob) for token, logprob in recorded]
