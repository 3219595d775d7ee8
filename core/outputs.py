"""What goes into `LLM.generate` beside the prompts, and what comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from core.runner import TokenLogprobs


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample. Defaults are the field's (temperature 1, 16 tokens).

    temperature: 0 is greedy. seed: None derives one from the engine's seed and the request. top_k
    (0: all), top_p, min_p: what a draw leaves out; see `core.sampling.sampler` for their order.
    repetition_penalty: above 1, tokens of prompt and outputs become less likely.

    stop: a string or several. The text ends before the first to occur in it; the tokens stay.
    stop_token_ids: end a sequence and stay in. ignore_eos: go on after the model's own EOS.

    logprobs: how many of the likeliest tokens to name beside each sampled one; 0 names the sampled
    one alone, None nothing. prompt_logprobs: the same for the prompt's tokens; such a request
    computes its whole prompt, cached or not.

    beam_width: 2 … 8 searches with so many beams (temperature 0); the outputs are its hypotheses,
    best first. length_penalty: a score is the sum of log-probabilities / length ** penalty.
    early_stopping: end as soon as beam_width hypotheses are there; else when no beam can beat them
    (`transformers`' True and False; there is no "never").
    """

    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop: str | Sequence[str] | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    beam_width: int = 0
    length_penalty: float = 1.0
    early_stopping: bool = False


@dataclass(slots=True)
class CompletionOutput:
    """One of a request's answers; those of a beam search are its hypotheses, best first.

    times: seconds since the call at which each token came. logprobs: of each token, natural
    logarithms, and cumulative_logprob, their sum: None where not asked for. score: of a hypothesis.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None
    times: list[float]
    logprobs: list[TokenLogprobs] | None = None
    cumulative_logprob: float | None = None
    score: float | None = None


@dataclass(slots=True)
class RequestOutput:
    """A prompt and its answers.

    num_cached_tokens: prompt tokens found in the prefix cache. prompt_logprobs: one for each prompt
    token, None for the first, which nothing predicts; None where not asked for.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    num_cached_tokens: int
    prompt_logprobs: list[TokenLogprobs | None] | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of streamed text: whole characters only, and nothing that a stop string cuts off.

    Empty when a token completed none. logprobs: of the token, where asked for.
    """

    request_id: str
    index: int
    text: str
    token_id: int
    finish_reason: str | None
    logprobs: TokenLogprobs | None = None


def shown_logprobs(entries: list[TokenLogprobs], asked: int) -> list[TokenLogprobs]:
    """As many of the likeliest tokens as were asked for: the engine names one even for 0."""
    if asked:
        return entries
    return [dataclasses.replace(entry, top=()) for entry in entries]
