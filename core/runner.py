"""What computes a step's tokens: the seam between the scheduler and a model.

The engine decides *what* is computed (which tokens of which sequences, into which slots); a runner
computes it. `ScriptedRunner` needs no model: it reads the tokens from the scenario. The torch one
is `core.model.model_runner.ModelRunner`.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.request import Sequence


@dataclass(slots=True)
class ScheduledSequence:
    """One sequence's share of a step.

    seq: holds `tokens` (prompt and outputs) and `block_table` (already long enough for every slot
        that this step writes).
    num_scheduled_tokens: how many tokens to compute, ≥ 1.
    num_samples: tokens to sample from the last position's logits: 0 for an unfinished chunk, 1, or
        n for a request that is about to fork (sequence indexes 0 … n−1).
    num_cached_tokens: tokens taken from the prefix cache in this step (already computed).
    num_candidates: for a beam, how many of the likeliest next tokens to return instead of a sample.
    start: first position to compute; by default behind the sequence's computed tokens.
    """

    seq: Sequence
    num_scheduled_tokens: int
    num_samples: int
    num_cached_tokens: int = 0
    num_candidates: int = 0
    start: int = -1

    def __post_init__(self) -> None:
        if self.start < 0:
            self.start = self.seq.num_computed_tokens

    @property
    def stop(self) -> int:
        """Positions start … stop − 1 are computed; what is sampled then stands at `stop`."""
        return self.start + self.num_scheduled_tokens


@dataclass(slots=True)
class StepBatch:
    """Everything a runner needs for one step.

    copies: (src, dst) block ids, to be carried out in this order before any slot is written.
    """

    step: int
    scheduled: list[ScheduledSequence]
    copies: list[tuple[int, int]]


Candidate = tuple[int, float]
"""A token id, and its log-probability under the model (natural logarithm)."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely one token was, before temperature, penalties and filters.

    rank: 1 for the likeliest token of the vocabulary. top: the likeliest tokens, best first, as
    many as were asked for.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[Candidate, ...]

    def to_dict(self) -> dict[str, Any]:
        """As runs hold it: log-probabilities to 6 decimals, finer than float32 computes them."""
        return {
            "token": self.token_id,
            "logprob": round(self.logprob, 6),
            "rank": self.rank,
            "top": [[token, round(logprob, 6)] for token, logprob in self.top],
        }


@dataclass(slots=True)
class StepOutput:
    """What a step computed, one entry for each scheduled sequence, in the order of the batch.

    token_ids: its `num_samples` new tokens. logprobs: one for each of them, for requests that ask
    for log-probabilities, else empty. prompt_logprobs: of the prompt tokens that this step's
    positions predict, for requests that ask. candidates: for beams, likeliest first. The last
    three are empty lists where no sequence of the batch has any.
    """

    token_ids: list[list[int]]
    logprobs: list[list[TokenLogprobs]] = field(default_factory=list)
    prompt_logprobs: list[list[TokenLogprobs]] = field(default_factory=list)
    candidates: list[list[Candidate]] = field(default_factory=list)


class Runner(Protocol):
    """A source of tokens."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The model's own end-of-sequence ids; empty for scripted tokens."""
        ...

    @property
    def vocab_size(self) -> int | None:
        """Token ids are below this; None where any id will do."""
        ...

    @property
    def source(self) -> dict[str, Any]:
        """Where the tokens come from: device, dtype, model, model_sha256 (None where none), with a
        model also processor and weights ("int8", or the dtype)."""
        ...

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes of keys and values per token, all layers; None without a model."""
        ...

    @property
    def kv_cache_bytes(self) -> int | None:
        """Bytes that the pool's tensors take; None without a model."""
        ...

    @property
    def kv_format(self) -> dict[str, Any] | None:
        """What the layers of a quantised cache store; None if they store the model's numbers."""
        ...

    @property
    def sliding_window(self) -> int | None:
        """W if every layer sees only the last W tokens, the newest included; None: all tokens."""
        ...

    @property
    def step_timing(self) -> dict[str, float]:
        """Microseconds of the last step given back: `forward_us`, `sample_us`, and their parts."""
        ...

    @property
    def step_work(self) -> dict[str, int] | None:
        """FLOPs and bytes moved by the last step given back, from shapes; None without a model."""
        ...

    def take_kv_error(self) -> dict[str, list[list[float]]] | None:
        """What storing K and V has cost since the last call; None if it is not measured."""
        ...

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a prompt given as text."""
        ...

    def token_text(self, token_ids: Seq[int]) -> dict[int, str]:
        """A display text for each token id; empty where ids stand for no text."""
        ...

    def hits_stop_string(self, seq: Sequence) -> bool:
        """Whether the newest token completes one of the request's stop strings."""
        ...

    def execute(self, batch: StepBatch) -> StepOutput:
        """Compute the step: copies first, then the forward pass, then sampling."""
        ...

    def launch(self, batch: StepBatch) -> Any:
        """Begin to compute the step, and return what `collect` asks for.

        Steps are computed in the order in which they are launched. Where a sequence has fewer than
        `stop` tokens, the last one is what the step launched before samples for it. Until the step
        has been collected and taken in, its sequences' tables and blocks stay as they are.
        """
        ...

    def collect(self, step: Any) -> StepOutput:
        """Wait for a launched step. `execute` is both in one."""
        ...


class ScriptedRunner:
    """Tokens from a script instead of a model: the scheduler and the blocks are real all the same.

    A text prompt's tokens are its UTF-8 bytes. Sampled tokens come from `output_tokens`; without
    a script token j of sequence s of request i is 10⁶(i+1) + 10⁴s + j.

    eos_token_ids, source, sliding_window: given when a recorded run of a real model is run again,
    so that it ends where the model ended and gives back what the model could see no more.
    """

    def __init__(
        self,
        eos_token_ids: frozenset[int] = frozenset(),
        source: dict[str, Any] | None = None,
        sliding_window: int | None = None,
    ) -> None:
        self._eos = eos_token_ids
        self._window = sliding_window
        self._source = source or {
            "device": None,
            "dtype": None,
            "model": "none",
            "model_sha256": None,
        }

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self._eos

    @property
    def source(self) -> dict[str, Any]:
        return self._source

    @property
    def vocab_size(self) -> int | None:
        return None

    @property
    def kv_bytes_per_token(self) -> int | None:
        return None

    @property
    def kv_cache_bytes(self) -> int | None:
        return None

    @property
    def kv_format(self) -> dict[str, Any] | None:
        return None

    @property
    def sliding_window(self) -> int | None:
        return self._window

    @property
    def step_timing(self) -> dict[str, float]:
        return {"forward_us": 0.0, "sample_us": 0.0}

    @property
    def step_work(self) -> dict[str, int] | None:
        return None

    def take_kv_error(self) -> dict[str, list[list[float]]] | None:
        return None

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def token_text(self, token_ids: Seq[int]) -> dict[int, str]:
        return {t: bytes([t]).decode("ascii") for t in token_ids if 0x20 <= t < 0x7F}

    def hits_stop_string(self, seq: Sequence) -> bool:
        return False  # a script has no text

    def execute(self, batch: StepBatch) -> StepOutput:
        out: list[list[int]] = []
        for item in batch.scheduled:
            seq = item.seq
            position = item.stop - seq.num_prompt_tokens
            if item.num_samples == 1:
                out.append([seq.request.scripted_token(seq.index, position)])
            else:
                out.append(
                    [seq.request.scripted_token(s, position) for s in range(item.num_samples)]
                )
        return StepOutput(out)

    def launch(self, batch: StepBatch) -> StepBatch:
        return batch

    def collect(self, step: StepBatch) -> StepOutput:
        return self.execute(step)
