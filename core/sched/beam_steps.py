"""What the scheduler does with the beams of a request: expand, fork, prune, put back together.

The choice of continuations is `core.sched.beams`; here it is carried out on sequences and blocks.
Blocks move as little as the choice allows: a beam's first continuation goes on in place, every
further one forks into the place of a beam that was pruned, and forking shares all blocks.
"""

from __future__ import annotations

from collections.abc import Sequence as Listing
from typing import TYPE_CHECKING

from core.kv.block_table import held_blocks
from core.request import Request, Sequence, Status
from core.runner import Candidate, TokenLogprobs
from core.sched.beams import BeamGroup, Continuation

if TYPE_CHECKING:
    from core.sched.scheduler import Scheduler

Sampled = list[tuple[Sequence, Continuation]]


class BeamSteps:
    """Expands the beams of one scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def fork_unit(self, unit: Sequence) -> None:
        """The prompt is computed: one table for each beam, all blocks shared.

        The first time the beams are new and all alike; after a preemption they have their tokens,
        of which those behind the prompt are to be computed again.
        """
        scheduler, request = self._scheduler, unit.request
        group = _group(request)
        scheduler.owed -= scheduler.owed_by(unit)
        beams = sorted(group.beams, key=lambda seq: seq.index)
        if not beams:
            beams = [unit.twin(index) for index in range(unit.num_places)]
        for beam in beams:
            beam.num_computed_tokens = unit.num_computed_tokens
            beam.status = Status.RUNNING
            beam.num_preemptions = unit.num_preemptions
        scheduler.kv.fork(unit, beams[1:])
        _hand_over(unit, beams[0])
        scheduler.owed += sum(scheduler.owed_by(beam) for beam in beams)
        ended = [seq for seq in request.sequences if seq.finished]
        group.beams = beams
        request.sequences = [*beams, *ended]
        place = scheduler.running.index(unit)
        scheduler.running[place : place + 1] = beams
        if scheduler.emit is not None:
            names = [beam.id for beam in beams]
            blocks = list(held_blocks(beams[0].block_table))
            scheduler.emit(("forked", request.id, beams[0].id, names, blocks, None))

    def expand(self, request: Request, candidates: Listing[Listing[Candidate]]) -> Sampled:
        """Choose the continuations and bring sequences and blocks into line with the choice.

        candidates: of each beam, or of the first one for all if they are alike. Returns each
        sequence that gets a token, and the token, without appending it.
        """
        group = _group(request)
        alike = group.beams[0].num_output_tokens == 0  # just forked: any may take any continuation
        selection = group.select(candidates, group.beams[0].num_output_tokens)
        sampled = [(self._hypothesis(group, c), c) for c in selection.ended]
        if selection.done and not selection.at_limit:
            for beam in list(group.beams):
                self._prune(group, beam)
        elif alike:
            sampled += zip(group.beams, selection.kept, strict=True)
        else:
            sampled += self._continue(group, selection.kept)
        for seq, continuation in sampled:
            seq.cumulative_logprob = continuation.cumulative_logprob
        return sampled

    def _continue(self, group: BeamGroup, kept: list[Continuation]) -> Sampled:
        """One beam for each continuation: in place, or forked into a pruned one's place."""
        of_beam: dict[int, list[Continuation]] = {}
        for continuation in kept:
            of_beam.setdefault(continuation.beam, []).append(continuation)
        beams = list(group.beams)
        free_indexes = sorted(seq.index for i, seq in enumerate(beams) if i not in of_beam)
        for i, beam in enumerate(beams):
            if i not in of_beam:
                self._prune(group, beam)
                beam.request.sequences.remove(beam)  # its id goes to another beam at once
        sampled: Sampled = []
        for i, continuations in sorted(of_beam.items()):
            own, *others = continuations
            sampled.append((beams[i], own))
            indexes, free_indexes = free_indexes[: len(others)], free_indexes[len(others) :]
            twins = self._fork(group, beams[i], indexes)
            sampled += zip(twins, others, strict=True)
        return sampled

    def _hypothesis(self, group: BeamGroup, continuation: Continuation) -> Sequence:
        """A sequence of its own for a continuation that ends the text."""
        parent = group.beams[continuation.beam]
        index = group.width + group.num_ended
        group.num_ended += 1
        (seq,) = self._fork(group, parent, [index], is_beam=False)
        return seq

    def _fork(
        self, group: BeamGroup, parent: Sequence, indexes: list[int], is_beam: bool = True
    ) -> list[Sequence]:
        """Twins of a beam, right behind it in `running`; they share all its blocks."""
        if not indexes:
            return []
        scheduler, request = self._scheduler, parent.request
        twins = [parent.twin(index) for index in indexes]
        scheduler.kv.fork(parent, twins)
        scheduler.owed += sum(scheduler.owed_by(twin) for twin in twins)
        scheduler.num_running_seqs += len(twins)
        request.sequences += twins
        _insert_behind(scheduler.running, parent, twins)
        if is_beam:
            _insert_behind(group.beams, parent, twins)
        if scheduler.emit is not None:
            names = [parent.id, *(twin.id for twin in twins)]
            blocks = list(held_blocks(parent.block_table))
            scheduler.emit(("forked", request.id, parent.id, names, blocks, True))
        return twins

    def _prune(self, group: BeamGroup, beam: Sequence) -> None:
        """Better beams took its place. Blocks that others hold too only lose a reference."""
        scheduler = self._scheduler
        scheduler.give_up_place(beam)
        scheduler.running.remove(beam)
        group.beams.remove(beam)
        beam.status = Status.FINISHED_ABORTED
        beam.finish_reason = "pruned"
        if scheduler.emit is not None:
            scheduler.emit(("pruned", beam.request.id, beam.id))
        scheduler.kv.release(beam, "pruned")


def put_together(members: list[Sequence]) -> Sequence:
    """One queue entry for beams that have just been preempted: their prompt comes first again.

    They keep their tokens, and fork again once the prompt is computed.
    """
    first = members[0]
    unit = Sequence(first.request, 0, len(members))
    unit.num_preemptions = first.num_preemptions
    ended = [seq for seq in first.request.sequences if seq.finished]
    first.request.sequences = [unit, *ended]
    return unit


def note_logprobs(seq: Sequence, continuation: Continuation, candidates: list[Candidate]) -> None:
    """Keep a beam's token with its rank among the likeliest, if the request asks for it."""
    top = candidates[: seq.request.spec.logprobs]
    if top:
        rank = 1 + candidates.index((continuation.token_id, continuation.logprob))
        seq.logprobs.append(
            TokenLogprobs(continuation.token_id, continuation.logprob, rank, tuple(top))
        )


def _group(request: Request) -> BeamGroup:
    assert request.beams is not None, "only a beam search comes here"
    return request.beams


def _hand_over(unit: Sequence, beam: Sequence) -> None:
    """The unit's table is the first beam's from here on."""
    beam.block_table = unit.block_table
    beam.block_keys = list(unit.block_keys)
    beam.num_cached_blocks = unit.num_cached_blocks


def _insert_behind(sequences: list[Sequence], parent: Sequence, twins: list[Sequence]) -> None:
    place = sequences.index(parent) + 1
    sequences[place:place] = twins
