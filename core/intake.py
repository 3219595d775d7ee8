"""What is asked for, as the scheduler sees it: prompts as token ids, forks with their parents."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from core.config import EngineConfig
from core.errors import ScenarioError
from core.request import Request
from core.runner import Runner
from core.scenario import RequestSpec
from core.sched.beams import BeamGroup


def make_requests(
    specs: Iterable[RequestSpec], first: int, config: EngineConfig, runner: Runner
) -> list[Request]:
    """The requests of specs that have been checked together. first: the order of the first one.

    Raises ScenarioError for what only a model's vocabulary can refuse.
    """
    made: dict[str, Request] = {}
    for order, spec in enumerate(specs, first):
        if spec.fork_of is not None:
            parent = made[spec.fork_of.partition("#")[0]]
            made[spec.id] = Request(spec, parent.prompt_tokens, order, parent)
            continue
        request = made[spec.id] = Request(spec, _prompt_tokens(spec, order, runner), order)
        if spec.beam_width:
            request.beams = _beam_group(request, config, runner)
    return list(made.values())


def _prompt_tokens(spec: RequestSpec, order: int, runner: Runner) -> array[int]:
    tokens = spec.prompt_tokens
    limit = runner.vocab_size
    if tokens is None:
        assert spec.prompt is not None, "a scenario gives one or the other"
        return array("q", runner.tokenize(spec.prompt))
    if limit is not None and tokens and max(tokens) >= limit:
        raise ScenarioError(
            f"requests[{order}].prompt_tokens",
            f"token id {max(tokens)} is outside the model's vocabulary of {limit:,}",
        )
    return array("q", tokens)


def _beam_group(request: Request, config: EngineConfig, runner: Runner) -> BeamGroup:
    spec, num_prompt_tokens = request.spec, len(request.prompt_tokens)
    eos = frozenset() if spec.ignore_eos else runner.eos_token_ids
    group = BeamGroup(
        width=spec.beam_width,
        length_penalty=spec.length_penalty,
        early_stopping=spec.early_stopping,
        max_output_tokens=config.tokens_at_most(num_prompt_tokens, spec.max_tokens)
        - num_prompt_tokens,
        stop_token_ids=request.stop_token_ids | eos,
    )
    vocab_size = runner.vocab_size
    path = f"requests[{request.order}]"
    if vocab_size is not None and vocab_size < group.num_candidates:
        raise ScenarioError(
            f"{path}.beam_width",
            f"{spec.beam_width} beams look at {group.num_candidates} tokens each, and the "
            f"vocabulary has {vocab_size}",
        )
    if vocab_size is not None and vocab_size < spec.logprobs:
        raise ScenarioError(
            f"{path}.logprobs", f"{spec.logprobs} of a vocabulary of {vocab_size} tokens"
        )
    return group
