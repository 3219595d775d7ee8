"""Beam search: one request keeps its W likeliest continuations, its beams.

Each step every beam is computed, and of all their continuations the best W live on. A beam with two
of them forks (its blocks are shared, nothing is copied), a beam with none is pruned (only what it
alone holds is freed). A continuation that ends the text leaves the search as a *hypothesis*. All
beams are equally long, so they are scheduled together or not at all.

    step     beams                       continuations kept        blocks
    k        A#0 "the"   A#1 "a"         "the cat"  "the dog"      A#1 is pruned, A#0 forks to A#1
    k+1      A#0 "the cat"  A#1 "the dog"     …

The rules are those of `transformers` (`num_beams`, `length_penalty`, `early_stopping`), so the same
weights give the same text: a hypothesis' score is the sum of its tokens' log-probabilities divided
by (number of output tokens) ** length_penalty. Source: GenerationMixin._beam_search, version 5.

Nothing here knows blocks, queues or tensors.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from core.request import Sequence
    from core.runner import Candidate


class Continuation(NamedTuple):
    """One more token for a beam. beam: its place in `BeamGroup.beams`. logprob: of the token.

    cumulative_logprob: of all output tokens, this one included.
    """

    beam: int
    token_id: int
    logprob: float
    cumulative_logprob: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What becomes of a step's continuations, best first.

    ended: they end the text and are good enough to be kept as hypotheses. kept: the next beams;
    they are all at the end if `at_limit`. done: the search is over (then nothing is kept, unless
    it is at the limit).
    """

    ended: list[Continuation]
    kept: list[Continuation]
    at_limit: bool
    done: bool


class BeamGroup:
    """The state of one request's search.

    beams: the sequences alive, in the order in which they stand in `running`; none before the
    prompt is computed. After a preemption they wait here with their tokens, without blocks, until
    the prompt is computed again. hypotheses: the best W that have ended, best first. num_ended: all
    that have. max_output_tokens: where every beam must end. stop_token_ids: tokens that end a text.
    """

    __slots__ = (
        "beams",
        "early_stopping",
        "hypotheses",
        "length_penalty",
        "max_output_tokens",
        "num_ended",
        "stop_token_ids",
        "width",
    )

    def __init__(
        self,
        width: int,
        length_penalty: float,
        early_stopping: bool,
        max_output_tokens: int,
        stop_token_ids: frozenset[int],
    ) -> None:
        self.width = width
        self.length_penalty = length_penalty
        self.early_stopping = early_stopping
        self.max_output_tokens = max_output_tokens
        self.stop_token_ids = stop_token_ids
        self.beams: list[Sequence] = []
        self.hypotheses: list[Sequence] = []
        self.num_ended = 0

    @property
    def num_candidates(self) -> int:
        """Continuations to look at, of each beam and of all: so many that W do not end the text."""
        return max(2, 1 + len(self.stop_token_ids)) * self.width

    def score(self, cumulative_logprob: float, num_output_tokens: int) -> float:
        """What hypotheses are compared by; a positive penalty favours long ones."""
        return float(cumulative_logprob / num_output_tokens**self.length_penalty)

    def select(self, candidates: Listing[Listing[Candidate]], num_output_tokens: int) -> Selection:
        """Choose among the beams' continuations.

        candidates: for each beam its likeliest next tokens. num_output_tokens: of each beam now.
        Equal sums: the earlier beam first, then the lower token id.
        """
        best = self._best(candidates)
        length = num_output_tokens + 1
        if length >= self.max_output_tokens:
            return Selection([], best[: self.width], at_limit=True, done=True)
        # Only the first W may end: those behind are there to fill the places of the ended ones.
        ended = [c for c in best[: self.width] if c.token_id in self.stop_token_ids]
        kept = [c for c in best if c.token_id not in self.stop_token_ids][: self.width]
        scores = [seq.beam_score for seq in self.hypotheses if seq.beam_score is not None]
        better = []
        for continuation in ended:
            score = self.score(continuation.cumulative_logprob, length)
            if len(scores) < self.width or score > min(scores):
                better.append(continuation)
                scores = sorted([*scores, score], reverse=True)[: self.width]
        full = len(scores) == self.width
        # The best beam can still win if it would, were it to end here.
        done = full and (
            self.early_stopping or self.score(kept[0].cumulative_logprob, length) <= min(scores)
        )
        return Selection(better, [] if done else kept, at_limit=False, done=done)

    def _best(self, candidates: Listing[Listing[Candidate]]) -> list[Continuation]:
        every = [
            Continuation(i, token, logprob, self.beams[i].cumulative_logprob + logprob)
            for i, of_beam in enumerate(candidates)
            for token, logprob in of_beam
        ]
        every.sort(key=lambda c: (-c.cumulative_logprob, c.beam, c.token_id))
        return every[: self.num_candidates]

    def add_hypothesis(self, seq: Sequence) -> None:
        """Rank a sequence that has ended; the worst of more than W is no hypothesis any more."""
        seq.beam_score = self.score(seq.cumulative_logprob, seq.num_output_tokens)
        place = sum(_score(other) >= seq.beam_score for other in self.hypotheses)
        self.hypotheses.insert(place, seq)
        del self.hypotheses[self.width :]


def _score(seq: Sequence) -> float:
    assert seq.beam_score is not None, "a hypothesis has been scored"
    return seq.beam_score
