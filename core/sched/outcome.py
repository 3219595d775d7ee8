"""What becomes of a step's output: tokens join sequences, blocks are cached, sequences end.

Sections 4 to 6 of a step, after the forward pass. The lists and totals are the scheduler's own;
here they are brought up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.kv.block_table import held_blocks
from core.kv.manager import KVCacheManager
from core.request import Sequence, Status
from core.runner import Runner, ScheduledSequence, StepBatch, StepOutput
from core.sched.beam_steps import BeamSteps, note_logprobs

if TYPE_CHECKING:
    from core.sched.scheduler import Scheduler


class StepOutcome:
    """Takes in the outputs of one scheduler's steps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._config, self._kv, self._emit = scheduler.config, scheduler.kv, scheduler.emit
        self._paged = isinstance(scheduler.kv, KVCacheManager)
        self._beam_steps = BeamSteps(scheduler)

    def take_in(self, batch: StepBatch, output: StepOutput, runner: Runner) -> list[Sequence]:
        """Take in what the runner sampled: append or fork, cache full blocks, end sequences.

        runner: says which tokens and which texts end a sequence. Returns the sequences that got a
        token, in the order of sampling.
        """
        block_size = self._config.block_size
        windowed = self._kv.sliding_window is not None
        filled: list[tuple[Sequence, int, int]] = []
        advanced: list[Sequence] = []
        grown: list[Sequence] = []
        late: list[Sequence] = []
        ahead = self._config.async_scheduling
        for i, (item, tokens) in enumerate(zip(batch.scheduled, output.token_ids, strict=True)):
            seq = item.seq
            if ahead and not self._land(item):
                late.append(seq)
                continue
            start = seq.num_computed_tokens
            stop = start + item.num_scheduled_tokens if self._config.kv_cache else 0
            seq.num_computed_tokens = stop
            if seq.request.beams is not None:
                holders = self._update_beam(item, i, output, grown)
            else:
                holders = [seq] if item.num_samples < 2 else self._fork(seq)
                for twin, token in zip(holders, tokens, strict=False):
                    self._append(twin, token, grown)
            if stop // block_size > start // block_size:
                filled += [(seq, start // block_size, stop // block_size) for seq in holders]
            if windowed:
                advanced += holders
        if output.logprobs or output.prompt_logprobs:
            _keep_logprobs(batch, output, late)
        for seq, first, last in filled:
            self._kv.cache_blocks(seq, first, last)
        for seq in advanced:
            self._kv.release_before_window(seq)
        ended = [seq for seq in grown if self._finish(seq, runner)]
        static = self._config.batching == "static"
        for seq in late:
            if seq.finish_reason == "cancelled":
                self._kv.release(seq, "cancelled")
            elif not static:
                self._kv.release(seq, "finished")
        if static:
            self._release_finished_batch()
        elif ended:
            for seq in ended:
                if not seq.num_in_flight_tokens:
                    self._kv.release(seq, "finished")
            self._scheduler.running = [
                seq for seq in self._scheduler.running if seq.status is Status.RUNNING
            ]
        return grown

    def _land(self, item: ScheduledSequence) -> bool:
        """The share is in flight no more. False if its sequence ended meanwhile: what was computed
        is dropped."""
        seq = item.seq
        if self._config.kv_cache:
            seq.num_in_flight_tokens -= item.num_scheduled_tokens
        if seq.status is Status.RUNNING:
            return True
        seq.num_computed_tokens = item.stop
        seq.num_output_placeholders = 0
        return False

    def _append(self, seq: Sequence, token: int, grown: list[Sequence]) -> None:
        if seq.num_output_placeholders:
            seq.num_output_placeholders -= 1  # its block is owed since it was scheduled
        elif self._paged and len(seq.tokens) % self._config.block_size == 0:
            self._scheduler.owed += 1
        seq.tokens.append(token)
        grown.append(seq)
        if self._emit is not None:
            self._emit(("token_sampled", seq.request.id, seq.id, token))

    def _update_beam(
        self, item: ScheduledSequence, i: int, output: StepOutput, grown: list[Sequence]
    ) -> list[Sequence]:
        """Entry i of the batch belongs to a beam search; the sequences that hold its blocks now.

        The beams of a group stand side by side in the batch: the last one expands them all.
        """
        seq, steps = item.seq, self._beam_steps
        group = seq.request.beams
        assert group is not None, "the caller has looked"
        is_unit = seq.num_places > 1
        if is_unit and seq.num_computed_tokens < len(seq.tokens):
            return [seq]  # an unfinished chunk of the prompt
        if is_unit:
            steps.fork_unit(seq)
        elif item.num_candidates == 0:
            return [seq]  # beams that still compute their own tokens again
        elif seq is not group.beams[-1]:
            return []
        if item.num_candidates:
            count = 1 if is_unit else len(group.beams)
            candidates = output.candidates[i + 1 - count : i + 1]
            for beam, chosen in steps.expand(seq.request, candidates):
                note_logprobs(beam, chosen, candidates[chosen.beam])
                self._append(beam, chosen.token_id, grown)
        return [beam for beam in seq.request.sequences if not beam.finished]

    def _fork(self, seq: Sequence) -> list[Sequence]:
        """Turn the unit of a request into its n sequences, which share every block."""
        request = seq.request
        twins = [seq.twin(index) for index in range(1, seq.num_places)]
        seq.num_places = 1
        self._kv.fork(seq, twins)
        self._scheduler.owed += sum(self._scheduler.owed_by(twin) for twin in twins)
        request.sequences = [seq, *twins]
        place = self._scheduler.running.index(seq) + 1
        self._scheduler.running[place:place] = twins
        if self._emit is not None:
            names = [twin.id for twin in request.sequences]
            blocks = list(held_blocks(seq.block_table))
            self._emit(("forked", request.id, seq.id, names, blocks, None))
        return request.sequences

    def _finish(self, seq: Sequence, runner: Runner) -> bool:
        """End the sequence if its newest token says so."""
        reason = self._finish_reason(seq, runner)
        if reason is None:
            return False
        self._scheduler.give_up_place(seq)
        group = seq.request.beams
        if group is not None:
            group.add_hypothesis(seq)
        stopped = reason in ("stop_token", "stop_string")
        seq.status = Status.FINISHED_STOPPED if stopped else Status.FINISHED_LENGTH
        seq.finish_reason = reason
        if self._emit is not None:
            holds = True if self._config.batching == "static" else None
            outputs = seq.num_output_tokens
            self._emit(("finished", seq.request.id, seq.id, reason, outputs, holds))
        return True

    def _finish_reason(self, seq: Sequence, runner: Runner) -> str | None:
        spec = seq.request.spec
        token = seq.tokens[-1]
        if token in seq.request.stop_token_ids:
            return "stop_token"
        if not spec.ignore_eos and token in runner.eos_token_ids:
            return "stop_token"
        if spec.stop and runner.hits_stop_string(seq):
            return "stop_string"
        num_tokens = len(seq.tokens)
        if num_tokens < seq.max_num_tokens and num_tokens < self._config.max_model_len:
            return None
        if num_tokens - seq.num_prompt_tokens >= spec.max_tokens:
            return "max_tokens"
        return "max_model_len" if num_tokens >= self._config.max_model_len else "script_end"

    def _release_finished_batch(self) -> None:
        """A static batch gives its blocks back only when its last member has ended."""
        for seq in self._scheduler.running:
            if seq.status is Status.RUNNING or seq.num_in_flight_tokens:
                return
        for seq in self._scheduler.running:
            self._kv.release(seq, "finished")
        self._scheduler.running = []


def _keep_logprobs(batch: StepBatch, output: StepOutput, late: list[Sequence]) -> None:
    """Hand out a step's log-probabilities; requests with n > 1 have forked by now. late: those that
    ended before, and get nothing more."""
    for item, chosen in zip(batch.scheduled, output.logprobs, strict=False):
        if item.seq in late:
            continue
        twins = [item.seq] if item.num_samples == 1 else item.seq.request.sequences
        for seq, logprobs in zip(twins, chosen, strict=False):
            seq.logprobs.append(logprobs)
    for item, prompt in zip(batch.scheduled, output.prompt_logprobs, strict=False):
        if item.seq in late:
            continue
        item.seq.request.prompt_logprobs += prompt
