"""A request, and the sequences that serve it.

There are no phases: a sequence has `num_tokens` and `num_computed_tokens`, and each step the
scheduler lets it compute some tokens until it has caught up. A request with n > 1 is one unit,
``A#0``, until its prompt is computed; then it forks into n sequences.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.runner import TokenLogprobs
    from core.scenario import RequestSpec
    from core.sched.beams import BeamGroup


Tag = tuple[str, str]
Namespace = tuple[Tag | None, Tag | None]
"""(("adapter", name) or None, ("salt", value) or None): prefixes are shared only within one."""

GIVEN_BACK = -1
"""An entry of a block table that names no block: the model's sliding window has passed it."""


class Status(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED_STOPPED = "finished_stopped"
    FINISHED_LENGTH = "finished_length"
    FINISHED_ABORTED = "finished_aborted"


class Request:
    """One request of a scenario, as the scheduler sees it.

    spec: what was asked. prompt_tokens: array('q') of token ids. order: place in the file, from 0,
    rejected requests counted; with `arrive_step` it gives the order of arrival. prompt_logprobs:
    of the prompt's tokens from the second on, where the request asks for them. sequences: those
    that exist, a unit that has not forked as one. beams: the state of a beam search, once it runs.
    parent: the request that it forks off (`fork_of`), in whose namespace it stays. stop_strings:
    UTF-8.
    """

    __slots__ = (
        "beams",
        "id",
        "namespace",
        "num_cached_tokens",
        "order",
        "parent",
        "prompt_logprobs",
        "prompt_tokens",
        "sequences",
        "sort_key",
        "spec",
        "stop_strings",
        "stop_token_ids",
    )

    def __init__(
        self,
        spec: RequestSpec,
        prompt_tokens: array[int],
        order: int,
        parent: Request | None = None,
    ) -> None:
        self.id = spec.id
        self.spec = spec
        self.prompt_tokens = prompt_tokens
        self.order = order
        self.parent = parent
        # Tagged by kind: an adapter "x" and a salt "x" are different namespaces.
        self.namespace: Namespace = (
            ("adapter", spec.adapter) if spec.adapter is not None else None,
            ("salt", spec.cache_salt) if spec.cache_salt is not None else None,
        )
        if parent is not None:
            self.namespace = parent.namespace
        self.sort_key = (spec.priority, spec.arrive_step, order)
        self.stop_token_ids = frozenset(spec.stop_token_ids)
        self.stop_strings = tuple(stop.encode("utf-8") for stop in spec.stop)
        self.num_cached_tokens: int | None = None
        self.prompt_logprobs: list[TokenLogprobs] = []
        self.sequences: list[Sequence] = []
        self.beams: BeamGroup | None = None

    @property
    def num_places(self) -> int:
        """Sequences that it runs at once: n, or the width of its beam search."""
        return self.spec.beam_width or self.spec.n

    @property
    def ended(self) -> bool:
        """It has arrived, and all its sequences are finished."""
        return bool(self.sequences) and all(seq.finished for seq in self.sequences)

    def sequence_id(self, index: int) -> str:
        """``A`` for a single sequence, else ``A#index``."""
        return self.id if self.num_places == 1 else f"{self.id}#{index}"

    def origin(self) -> Sequence | None:
        """The sequence that it forks off; None if it forks off none, or that does not exist yet."""
        siblings = [] if self.parent is None else self.parent.sequences
        return next((seq for seq in siblings if seq.id == self.spec.fork_of), None)

    def named_sequences(self) -> Iterator[tuple[str, Sequence]]:
        """Every accepted sequence by its id, each with the tokens it has."""
        for seq in self.sequences:
            yield from self.stands_for(seq)

    def stands_for(self, seq: Sequence) -> list[tuple[str, Sequence]]:
        """The sequences that an entry of a queue stands for, by id, in order of index.

        Before the fork all are the unit itself; but beams that were preempted keep their tokens.
        """
        if seq.num_places == 1:
            return [(seq.id, seq)]
        if self.beams is not None and self.beams.beams:
            return sorted(((beam.id, beam) for beam in self.beams.beams), key=lambda b: b[1].index)
        return [(self.sequence_id(index), seq) for index in range(seq.num_places)]

    def scripted_token(self, index: int, position: int) -> int:
        """Token `position` (from 0) of sequence `index` where no model samples."""
        script = self.spec.output_tokens
        if script is None:
            return 1_000_000 * (self.order + 1) + 10_000 * index + position
        return script[index][position]


class Sequence:
    """A request's tokens and the blocks that hold their keys and values.

    tokens: prompt and outputs, array('q'). max_num_tokens: with so many it ends, by `max_tokens` or
    its script. num_computed_tokens: leading tokens whose keys and
    values are in `block_table`. block_table: block ids; the first entries may be GIVEN_BACK.
    num_places: sequences it stands for (n before the fork, then 1). block_keys: memo of the
    chained keys of its full blocks. num_cached_blocks: leading blocks of the table that are
    matchable. num_preemptions: how often it was sent back to the queue. logprobs: one for each
    output token, where the request asks for them. cumulative_logprob, beam_score: of a beam (see
    `core.sched.beams`); the score is there once it has ended.

    With asynchronous scheduling (`core.sched.ahead`; else both are 0): num_in_flight_tokens: behind
    the computed ones, being computed by steps that are not taken in yet. num_output_placeholders:
    behind the known ones, sampled by such steps.
    """

    __slots__ = (
        "beam_score",
        "block_keys",
        "block_table",
        "cumulative_logprob",
        "finish_reason",
        "id",
        "index",
        "logprobs",
        "max_num_tokens",
        "num_cached_blocks",
        "num_computed_tokens",
        "num_in_flight_tokens",
        "num_output_placeholders",
        "num_places",
        "num_preemptions",
        "num_prompt_tokens",
        "request",
        "sort_key",
        "status",
        "tokens",
        "waiting_reason",
    )

    def __init__(self, request: Request, index: int, num_places: int) -> None:
        self.request = request
        self.id = request.sequence_id(index)
        self.index = index
        self.num_places = num_places
        self.tokens = array("q", request.prompt_tokens)
        self.num_prompt_tokens = len(request.prompt_tokens)
        most = request.spec.max_tokens
        if request.spec.output_tokens is not None:
            most = min(most, len(request.spec.output_tokens[index]))
        self.max_num_tokens = self.num_prompt_tokens + most
        self.num_computed_tokens = 0
        self.num_in_flight_tokens = 0
        self.num_output_placeholders = 0
        self.block_table: list[int] = []
        self.block_keys: list[bytes] = []
        self.num_cached_blocks = 0
        self.status = Status.WAITING
        self.waiting_reason: str | None = None
        self.num_preemptions = 0
        self.finish_reason: str | None = None
        self.logprobs: list[TokenLogprobs] = []
        self.cumulative_logprob = 0.0
        self.beam_score: float | None = None
        self.sort_key: tuple[int, ...] = (*request.sort_key, index)

    def twin(self, index: int) -> Sequence:
        """A running sequence that has come as far as this one; it holds no blocks yet."""
        twin = self.copy_for(self.request, index)
        twin.num_preemptions = self.num_preemptions
        twin.cumulative_logprob = self.cumulative_logprob
        return twin

    def copy_for(self, request: Request, index: int = 0) -> Sequence:
        """A running sequence of `request` with this one's tokens, so many of them computed; it
        holds no blocks yet. The log-probabilities come along only if the request wants any."""
        copy = Sequence(request, index, 1)
        copy.tokens = self.tokens[:]
        copy.num_computed_tokens = self.num_computed_tokens
        copy.status = Status.RUNNING
        if request.spec.logprobs:
            copy.logprobs = list(self.logprobs)
        return copy

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens; the last one sampled is not computed yet."""
        return len(self.tokens)

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens

    @property
    def output_tokens(self) -> list[int]:
        return self.tokens[self.num_prompt_tokens :].tolist()

    @property
    def finished(self) -> bool:
        return self.status.value.startswith("finished")
