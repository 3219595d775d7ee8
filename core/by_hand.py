"""Actions by hand: a run up to step k stays what it was, and the scenario goes on differently.

A run is a function of its scenario, and no step depends on what arrives, ends or is sampled after
it. So an action after step k is an edit of the scenario that only steps > k can notice:

    add      a new last request that arrives at k + 1
    fork     a new last request, `fork_of` a running sequence, at k + 1
    cancel   `cancel_step` k + 1
    finish   the token that the sequence samples next becomes a stop token of its request

New requests go to the end of the file: the place in the file decides scripted tokens and ties.
A recorded run becomes a script first (`as_script`): its tokens stay, the model goes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from core.errors import KVScopeError
from core.scenario import RequestSpec, Scenario
from core.trace.reducer import Reducer
from core.trace.run import Run, output_tokens

Json = dict[str, Any]
END = 999_999
"""The token that `finish` writes where the script's own one stands elsewhere in the request: in no
model's vocabulary, and no default token."""


class ActionError(KVScopeError):
    """This cannot be done at this step; the message says why."""


@dataclass(frozen=True, slots=True)
class Alive:
    """A sequence that waits or runs after a step. request: its id in the scenario.

    num_outputs: tokens sampled so far. can_fork: it runs, holds blocks and has a token, and the
    next step has a place for its copy. full: only the place is missing.
    """

    sequence: str
    request: str
    num_outputs: int
    can_fork: bool
    full: bool


@dataclass(slots=True)
class Span:
    """Steps after which a sequence waits or runs, first … last, and the stretches of them after
    which it can be forked (forks), or could if there were a place for its copy (full)."""

    sequence: str
    request: str
    first: int
    last: int
    forks: list[list[int]]
    full: list[list[int]]


def spans(run: Json) -> list[Span]:
    """What can be acted on and when, in the order of the scenario. Raises RunError."""
    found: dict[str, Span] = {}
    for step, there in enumerate(_lives(run)):
        for one in there:
            new = Span(one.sequence, one.request, step, step, [], [])
            span = found.setdefault(one.sequence, new)
            span.last = step
            if one.can_fork or one.full:
                _stretch(span.forks if one.can_fork else span.full, step)
    return _in_order(run, list(found.values()))


def _stretch(stretches: list[list[int]], step: int) -> None:
    """Make the last stretch of steps longer, or begin one."""
    if stretches and stretches[-1][1] == step - 1:
        stretches[-1][1] = step
    else:
        stretches.append([step, step])


def alive(run: Json, step: int) -> list[Alive]:
    """Who waits or runs after a step, in the order of the scenario. Raises RunError."""
    for k, there in enumerate(_lives(run)):
        if k == step:
            return _in_order(run, there)
    return []


def _lives(run: Json) -> Iterator[list[Alive]]:
    """Who waits or runs, after each step."""
    reducer = Reducer(run["header"])
    max_num_seqs = run["header"]["scenario"]["engine"]["max_num_seqs"]
    request_of: dict[str, str] = {}
    arriving: list[str] = []  # a rejection follows the arrival at once
    stands_for: dict[str, list[str]] = {}  # who takes n places from its admission, until it forks
    steps = run["steps"]
    for record, after in zip(steps, [*steps[1:], {"events": []}], strict=True):
        reducer.apply_step(record)
        for event in record["events"]:
            if event["type"] == "request_arrived":
                request_of |= dict.fromkeys(event["sequences"], event["request"])
                arriving = event["sequences"]
                stands_for[arriving[0]] = arriving
            elif event["type"] == "request_rejected":
                for name in arriving:
                    del request_of[name]
            elif event["type"] == "forked":
                stands_for.pop(event["sequences"][0], None)
            elif event["type"] in ("finished", "pruned"):
                request_of.pop(event["sequence"], None)
        running = set(reducer.running)
        cancelled, forked = _before_the_fork(after["events"])
        places = {one for name in running for one in stands_for.get(name, [name])}
        place = len(places - cancelled) + forked < max_num_seqs
        there = []
        for name, request in request_of.items():
            num_outputs = len(reducer.outputs.get(name, ()))
            works = name in running and name not in cancelled and num_outputs > 0
            could = works and bool(reducer.block_tables.get(name))
            there.append(Alive(name, request, num_outputs, could and place, could and not place))
        yield there


def _before_the_fork(events: list[Json]) -> tuple[set[str], int]:
    """(sequences that are cancelled, forks that arrive) in a step, before a new fork at its end."""
    cancelled = {
        event["sequence"]
        for event in events
        if event["type"] == "finished" and event["reason"] == "cancelled"
    }
    return cancelled, sum(event["type"] == "forked" and "position" in event for event in events)


S = TypeVar("S", Alive, Span)


def _in_order(run: Json, found: list[S]) -> list[S]:
    places = {r["id"]: i for i, r in enumerate(run["header"]["scenario"]["requests"])}
    return sorted(found, key=lambda one: (places[one.request], _index(one.sequence)))


def _state(run: Json, step: int) -> Reducer:
    reducer = Reducer(run["header"])
    for record in run["steps"][: step + 1]:
        reducer.apply_step(record)
    return reducer


def _request_of(sequence: str, requests: dict[str, int]) -> str:
    return sequence if sequence in requests else sequence[: sequence.rindex("#")]


def _index(sequence: str) -> int:
    _, mark, index = sequence.rpartition("#")
    return int(index) if mark else 0


def as_script(run: Json) -> Scenario:
    """The scenario of a run with its tokens as script, so that it runs the same without a model.

    A scenario that is scripted anyway is left as it is. Raises ActionError for what only a model
    can decide.
    """
    header = run["header"]
    scenario = Scenario.from_dict(header["scenario"])
    if header["source"]["model"] == "none":
        return scenario.scripted()
    ends = _ends(run)
    why = _needs_model(header, scenario, ends)
    if why is not None:
        raise ActionError(why)
    sampled = output_tokens(Run(header, run["steps"], {}))
    requests = []
    for spec in scenario.requests:
        names = [spec.id] if spec.n == 1 else [f"{spec.id}#{i}" for i in range(spec.n)]
        scripts = tuple(tuple(sampled.get(name, ())) for name in names)
        last = (s[-1] for n, s in zip(names, scripts, strict=True) if ends.get(n) == "stop_token")
        stops = {*spec.stop_token_ids, *last}
        # A cancelled sequence would have gone on: its script must not end it before.
        if any(ends.get(name) == "cancelled" for name in names):
            scripts = tuple((*tokens, END) for tokens in scripts)
        requests.append(
            RequestSpec(
                id=spec.id,
                arrive_step=spec.arrive_step,
                prompt_tokens=None if spec.fork_of else tuple(header["prompts"][spec.id]),
                fork_of=spec.fork_of,
                max_tokens=spec.max_tokens,
                n=spec.n,
                prompt_logprobs=spec.prompt_logprobs,
                stop_token_ids=tuple(sorted(stops)),
                priority=spec.priority,
                cache_salt=spec.cache_salt,
                adapter=spec.adapter,
                cancel_step=spec.cancel_step,
                output_tokens=scripts if all(scripts) else None,
            )
        )
    return dataclasses.replace(scenario, model="none", requests=tuple(requests)).scripted()


def _needs_model(header: Json, scenario: Scenario, ends: dict[str, str]) -> str | None:
    """Why a run cannot be had without its model; None if it can."""
    if any(spec.beam_width for spec in scenario.requests):
        return "Beams live by the model's probabilities, so this run cannot go on by hand."
    if not scenario.engine.kv_cache:
        return "This run keeps no blocks, so there is nothing to do by hand."
    if header.get("sliding_window") is not None:
        return "This model forgets what its window has passed, and a script has no window."
    stopped = next((name for name, reason in ends.items() if reason == "stop_string"), None)
    if stopped is not None:
        return f"{stopped} ended at a stop string, which is text, and a script has only tokens."
    if "initial_state" in header or "hidden_token" in header:
        return "This run is a part of a live engine's life and cannot be run again."
    return None


def _ends(run: Json) -> dict[str, str]:
    return {
        event["sequence"]: event["reason"]
        for record in run["steps"]
        for event in record["events"]
        if event["type"] == "finished"
    }


def add(
    run: Json,
    step: int,
    *,
    prompt: str | None = None,
    prompt_tokens: Sequence[int] | None = None,
    max_tokens: int = 8,
    n: int = 1,
    answers: Sequence[Sequence[int]] | None = None,
) -> Scenario:
    """A new request that arrives in the step after `step`. answers: the script of each of its n.

    Raises ScenarioError, ActionError.
    """
    scenario = as_script(run)
    tokens = None if prompt_tokens is None else tuple(prompt_tokens)
    spec = RequestSpec(
        id=next_id(scenario),
        arrive_step=step + 1,
        prompt=prompt,
        prompt_tokens=tokens,
        max_tokens=max_tokens,
        n=n,
        output_tokens=None if answers is None else tuple(map(tuple, answers)),
    )
    return _checked(scenario, (*scenario.requests, spec))


def prefix_of(run: Json, step: int, sequence: str, num_tokens: int) -> list[int]:
    """The first tokens of a sequence, its outputs after its prompt, as far as it has them."""
    state = _state(run, step)
    specs = {r["id"]: i for i, r in enumerate(run["header"]["scenario"]["requests"])}
    prompt = state.prompts[_request_of(sequence, specs)]
    return [*prompt, *state.outputs.get(sequence, ())][:num_tokens]


def fork(run: Json, step: int, sequence: str, words: Sequence[int] = ()) -> Scenario:
    """A copy of a running sequence, with all of its blocks shared, from the next step on.

    words: what it says after the tokens that it inherits, if they are as many as it may still say.
    Raises ActionError, ScenarioError.
    """
    one = _one(run, step, sequence)
    if one.full:
        places = run["header"]["scenario"]["engine"]["max_num_seqs"]
        raise ActionError(
            f"{sequence} cannot be forked after step {step}: all {places} places of max_num_seqs "
            "are taken."
        )
    if not one.can_fork:
        raise ActionError(
            f"{sequence} cannot be forked after step {step}: it must run on, and have sampled a "
            "token."
        )
    scenario = as_script(run)
    parent = _spec(scenario, one.request)
    inherited = _state(run, step).outputs[sequence]
    script = (*inherited, *words)[: parent.max_tokens]
    spec = RequestSpec(
        id=next_id(scenario),
        arrive_step=step + 1,
        fork_of=sequence,
        max_tokens=parent.max_tokens,
        priority=parent.priority,
        output_tokens=(script,) if len(script) == parent.max_tokens else None,
    )
    return _checked(scenario, (*scenario.requests, spec))


def cancel(run: Json, step: int, sequence: str) -> Scenario:
    """Cancel the sequence's request before the next step. Raises ActionError."""
    one = _one(run, step, sequence)
    return _replaced(as_script(run), one.request, cancel_step=step + 1)


def finish(run: Json, step: int, sequence: str) -> Scenario:
    """The next token that the sequence samples ends it, with the reason stop_token.

    Raises ActionError.
    """
    one = _one(run, step, sequence)
    scenario = as_script(run)
    spec = _spec(scenario, one.request)
    order = scenario.requests.index(spec)
    at, index = one.num_outputs, _index(sequence) if spec.n > 1 else 0
    scripts = spec.output_tokens
    if scripts is None:
        token = default_token(order, index, at)
        return _replaced(scenario, spec.id, stop_token_ids=(*spec.stop_token_ids, token))
    token = scripts[index][at]
    if sum(script.count(token) for script in scripts) > 1:
        # Said before, or by a twin: as a stop token it would change the past, or end another.
        token = END
        while any(token in script for script in scripts):
            token -= 1
    script = (*scripts[index][:at], token)
    changed = (*scripts[:index], script, *scripts[index + 1 :])
    stops = tuple(dict.fromkeys((*spec.stop_token_ids, token)))
    return _replaced(scenario, spec.id, output_tokens=changed, stop_token_ids=stops)


def default_token(order: int, index: int, position: int) -> int:
    """What is sampled without a script: see `core.runner.ScriptedRunner`."""
    return 1_000_000 * (order + 1) + 10_000 * index + position


def next_id(scenario: Scenario) -> str:
    """The first of A, B … Z, A1, B1 … that no request has."""
    used = {spec.id for spec in scenario.requests}
    for number in range(len(used) + 1):
        letter, turn = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 26], number // 26
        name = f"{letter}{turn}" if turn else letter
        if name not in used:
            return name
    raise AssertionError("one more name than there are requests is always free")


def _one(run: Json, step: int, sequence: str) -> Alive:
    for one in alive(run, step):
        if one.sequence == sequence:
            return one
    raise ActionError(f"{sequence[:60]} neither waits nor runs after step {step}.")


def _spec(scenario: Scenario, request: str) -> RequestSpec:
    return next(spec for spec in scenario.requests if spec.id == request)


def _replaced(scenario: Scenario, request: str, **changes: Any) -> Scenario:
    requests = tuple(
        dataclasses.replace(spec, **changes) if spec.id == request else spec
        for spec in scenario.requests
    )
    return _checked(scenario, requests)


def _checked(scenario: Scenario, requests: tuple[RequestSpec, ...]) -> Scenario:
    """With other requests, read anew: an edit must be a scenario that a file could hold."""
    changed = dataclasses.replace(scenario, requests=requests)
    return Scenario.from_dict(changed.to_dict())
