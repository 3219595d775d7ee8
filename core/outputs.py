"""What goes into `LLM.generate` beside the prompts, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample. Defaults are the field's (temperature 1, 16 tokens).

    temperature: 0 is greedy. seed: None derives one from the engine's seed and the request.
    beam_width: 2 … 8 searches with so many beams (temperature 0); the outputs are its hypotheses,
    best first. length_penalty: a score is the sum of log-probabilities / length ** penalty.
    early_stopping: end as soon as beam_width hypotheses are there.
    """

    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    beam_width: int = 0
    length_penalty: float = 1.0
    early_stopping: bool = False


@dataclass(slots=True)
class CompletionOutput:
    """One of a request's answers. times: seconds since the call at which each token came.

    score: of a beam search's hypothesis.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None
    times: list[float]
    score: float | None = None


@dataclass(slots=True)
class RequestOutput:
    """A prompt and its answers. num_cached_tokens: prompt tokens found in the prefix cache."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    num_cached_tokens: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of streamed text: whole characters only. Empty when a token completed none."""

    request_id: str
    index: int
    text: str
    token_id: int
    finish_reason: str | None
