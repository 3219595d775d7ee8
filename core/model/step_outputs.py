"""From a step's logits to what the scheduler gets back: tokens, log-probabilities, candidates.

Rows: the forward pass gives hidden states for all T tokens of a step, and logits for one row per
sequence that has caught up, in the order of the batch (`StepInputs.logits_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import accumulate

import torch

from core.runner import Candidate, ScheduledSequence, StepOutput, TokenLogprobs
from core.sampling import (
    Draft,
    SampleSpec,
    draft,
    request_key,
    rows_at_once,
    token_logprobs,
    top_candidates,
)

ComputeLogits = Callable[[torch.Tensor], torch.Tensor]
"""[n, h] → [n, vocab_size]."""


def has_logits(item: ScheduledSequence) -> bool:
    """Whether a sequence has caught up, so that the forward pass gives it a row of logits."""
    return item.num_samples > 0 or item.num_candidates > 0


class PendingOutput:
    """A step's output, on its way: tokens are being chosen, and `read` waits for them.

    What is judged (log-probabilities, candidates of beams) is waited for at once: it needs the
    tokens, and the logits of prompts, which are too large to be kept. All that is read of the
    scheduled sequences is read here, so they may go on before `read`.

    scheduled, logits [L, vocab_size], in the order of the batch. hidden_states: [T, h], read only
    for prompt log-probabilities. starts: the row of each sequence's first token there. seed: the
    scenario's, for requests without one of their own.
    """

    def __init__(
        self,
        scheduled: Seq[ScheduledSequence],
        logits: torch.Tensor,
        hidden_states: torch.Tensor,
        starts: Seq[int],
        compute_logits: ComputeLogits,
        seed: int,
    ) -> None:
        self._counts = [item.num_samples for item in scheduled]
        self._ids = [item.seq.id for item in scheduled]
        specs = _sample_specs(scheduled, seed)
        self.draft: Draft = draft(logits, specs)
        self._logprobs = _logprobs(scheduled, logits, specs, self.draft)
        self._prompt_logprobs = _prompt_logprobs(
            scheduled, hidden_states, starts, compute_logits, logits.shape[-1]
        )
        self._candidates = _candidates(scheduled, logits)

    @property
    def places(self) -> dict[str, int]:
        """Of each sequence that samples one token, by id: where it is among `draft.ids`."""
        ends = accumulate(self._counts)
        counted = zip(self._ids, self._counts, ends, strict=True)
        return {name: end - 1 for name, count, end in counted if count == 1}

    def read(self) -> StepOutput:
        """Raises FloatingPointError if the logits are not finite."""
        tokens = iter(self.draft.read())
        return StepOutput(
            token_ids=[[next(tokens) for _ in range(n)] for n in self._counts],
            logprobs=self._logprobs,
            prompt_logprobs=self._prompt_logprobs,
            candidates=self._candidates,
        )


def _sample_specs(scheduled: Seq[ScheduledSequence], seed: int) -> list[SampleSpec]:
    """One spec per token to sample; a request about to fork draws n times from one row."""
    specs: list[SampleSpec] = []
    row = 0
    for item in scheduled:
        seq = item.seq
        spec = seq.request.spec
        key = request_key(spec.seed, seed, seq.request.order)
        specs += [
            SampleSpec(
                row=row,
                temperature=spec.temperature,
                key=key,
                index=seq.index + twin,
                position=item.stop,
                top_k=spec.top_k,
                top_p=spec.top_p,
                min_p=spec.min_p,
                repetition_penalty=spec.repetition_penalty,
                tokens=seq.tokens,
            )
            for twin in range(item.num_samples)
        ]
        row += has_logits(item)
    return specs


def _candidates(scheduled: Seq[ScheduledSequence], logits: torch.Tensor) -> list[list[Candidate]]:
    """Of each beam its likeliest next tokens; an empty list where there are no beams."""
    if not any(item.num_candidates for item in scheduled):
        return []
    with_logits = [item for item in scheduled if has_logits(item)]
    rows = [i for i, item in enumerate(with_logits) if item.num_candidates]
    counts = [with_logits[i].num_candidates for i in rows]
    index = torch.tensor(rows, device=logits.device)
    found = iter(top_candidates(logits.index_select(0, index), counts))
    return [next(found) if item.num_candidates else [] for item in scheduled]


def _logprobs(
    scheduled: Seq[ScheduledSequence],
    logits: torch.Tensor,
    specs: Seq[SampleSpec],
    chosen: Draft,
) -> list[list[TokenLogprobs]]:
    """Of the tokens just sampled, for requests that ask; empty if none does."""
    tops = [item.seq.request.spec.logprobs for item in scheduled]
    if not any(tops):
        return []
    sampled = chosen.read()
    per_token = [
        k for item, k in zip(scheduled, tops, strict=True) for _ in range(item.num_samples)
    ]
    asked = [i for i, k in enumerate(per_token) if k]
    rows = torch.tensor([specs[i].row for i in asked], dtype=torch.int64, device=logits.device)
    judged = iter(
        token_logprobs(
            logits.index_select(0, rows),
            [sampled[i] for i in asked],
            [per_token[i] for i in asked],
        )
    )
    return [
        [next(judged) for _ in range(item.num_samples)] if k else []
        for item, k in zip(scheduled, tops, strict=True)
    ]


def _prompt_logprobs(
    scheduled: Seq[ScheduledSequence],
    hidden_states: torch.Tensor,
    starts: Seq[int],
    compute_logits: ComputeLogits,
    vocab_size: int,
) -> list[list[TokenLogprobs]]:
    """Of the prompt tokens that this step's positions predict and that are not judged yet.

    Position p predicts token p + 1. After a preemption the positions are computed again, but
    what the request has already is not judged twice. Empty if no request asks.
    """
    if not any(item.seq.request.spec.prompt_logprobs for item in scheduled):
        return []
    out: list[list[TokenLogprobs]] = []
    for item, row in zip(scheduled, starts, strict=True):
        seq, request = item.seq, item.seq.request
        first = item.start
        begin = max(first, len(request.prompt_logprobs))
        end = min(item.stop, seq.num_prompt_tokens - 1)
        judged: list[TokenLogprobs] = []
        if request.spec.prompt_logprobs and begin < end:
            judged = _judge(
                compute_logits,
                hidden_states[row + begin - first : row + end - first],
                seq.tokens[begin + 1 : end + 1].tolist(),
                request.spec.prompt_logprobs,
                vocab_size,
            )
        out.append(judged)
    return out


def _judge(
    compute_logits: ComputeLogits,
    hidden_states: torch.Tensor,
    token_ids: list[int],
    num_tops: int,
    vocab_size: int,
) -> list[TokenLogprobs]:
    """How likely each token is after its hidden state; in pieces, for logits are large."""
    out: list[TokenLogprobs] = []
    step = rows_at_once(vocab_size)
    for i in range(0, len(token_ids), step):
        ids = token_ids[i : i + step]
        logits = compute_logits(hidden_states[i : i + step])
        out += token_logprobs(logits, ids, [num_tops] * len(ids))
    return out
