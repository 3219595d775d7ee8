"""The scheduler: which tokens of which sequences are computed in a step.

There is no prefill phase and no decode phase. A sequence has `num_tokens` and
`num_computed_tokens`; each step it gets some tokens until it has caught up, and then it samples.

    step k:  cancels, arrivals ─▶ running: grant, preempt ─▶ waiting: admit ─▶ forward ─▶
             sample, fork ─▶ cache the blocks just filled ─▶ give back what the sliding window
             has passed ─▶ finish, release

`core/engine.py` calls these in turn. With `async_scheduling` the forward pass of step k goes on
while step k + 1 is scheduled: see `core.sched.ahead`.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.config import EngineConfig
from core.kv.block_table import held_blocks
from core.kv.choose import KVManager
from core.kv.manager import KVCacheManager
from core.prefix.base import Emit
from core.request import Request, Sequence, Status
from core.runner import Runner, ScheduledSequence, StepBatch, StepOutput
from core.sched.admission import Wait, blocks_needed, lacks_blocks, reject, reject_fork
from core.sched.ahead import leaves_placeholder, sits_out
from core.sched.beam_steps import put_together
from core.sched.outcome import StepOutcome
from core.sched.preemption import victims
from core.sched.queue import FCFSQueue, PriorityQueue, WaitingQueue


class Scheduler:
    """Continuous or static batching over one block pool.

    running: admitted sequences in order of admission, ended members of a static batch included.
    waiting: the queue. owed: blocks that running sequences lack for the tokens they have.
    ran_short: the last step met a lack of blocks while another was in flight, and granted no more.
    """

    def __init__(
        self,
        config: EngineConfig,
        kv: KVManager,
        emit: Emit | None = None,
    ) -> None:
        self.config = config
        self.kv = kv
        self.emit = emit
        self.running: list[Sequence] = []
        self.waiting: WaitingQueue = FCFSQueue() if config.policy == "fcfs" else PriorityQueue()
        self.num_running_seqs = 0
        self.owed = 0
        self.ran_short = False
        self._ahead = config.async_scheduling
        self._paged = isinstance(kv, KVCacheManager)
        self._outcome = StepOutcome(self)
        self._watermark = config.watermark_blocks
        self._chunk = config.max_num_batched_tokens
        # Without a cache nothing of a chunk would be left for the next one.
        self._chunked = config.chunked_prefill and config.kv_cache
        if self._chunked and config.long_prefill_token_threshold:
            self._chunk = config.long_prefill_token_threshold
        # Waiters whose reason may have to change in this step, each group in queue order.
        self._arrived: list[Sequence] = []
        self._victims: list[Sequence] = []
        self._last_head: Sequence | None = None

    # ---- 1. cancels and arrivals --------------------------------------------------------------

    def cancel(self, request: Request) -> None:
        """End the unfinished sequences of a request; their blocks are free at once, or when the
        step in flight that uses them has been taken in."""
        alive = [seq for seq in request.sequences if not seq.finished]
        if not alive:
            return
        if self.emit is not None:
            self.emit(("cancelled", request.id))
        for seq in sorted(alive, key=lambda seq: seq.index):
            if seq.status is Status.RUNNING:
                self.give_up_place(seq)
                self.running.remove(seq)
            else:
                self.waiting.remove(seq)
            seq.status = Status.FINISHED_ABORTED
            seq.finish_reason = "cancelled"
            for name, member in request.stands_for(seq):
                member.status = Status.FINISHED_ABORTED
                member.finish_reason = "cancelled"
                if self.emit is not None:
                    outputs = member.num_output_tokens
                    self.emit(("finished", request.id, name, "cancelled", outputs, None))
            if not seq.num_in_flight_tokens:
                self.kv.release(seq, "cancelled")

    def arrive(self, request: Request) -> None:
        """Put a new request into the queue, fork it off its parent, or reject it for good."""
        origin = request.origin()
        rejection = reject(self.config, request)
        if rejection is None and request.parent is not None:
            places_left = self.config.max_num_seqs - self.num_running_seqs
            rejection = reject_fork(request, origin, places_left)
        position = None
        if rejection is None and origin is None:
            seq = Sequence(request, 0, request.num_places)
            request.sequences = [seq]
            position = self.waiting.push(seq)
            self._arrived.append(seq)
        if self.emit is not None:
            names = [request.sequence_id(index) for index in range(request.num_places)]
            arrived = ("request_arrived", request.id, names, len(request.prompt_tokens), position)
            self.emit(arrived)
            if rejection is not None:
                numbers = (rejection.needed, rejection.available)
                self.emit(("request_rejected", request.id, rejection.reason, *numbers))
        if rejection is None and origin is not None:
            self._fork_off(request, origin)

    def _fork_off(self, request: Request, origin: Sequence) -> None:
        """Start the request as a copy of a running sequence, as the last one admitted.

        Nothing is copied and no block is taken: whoever first writes into a block that both hold
        copies it (see `core.kv.manager`).
        """
        seq = origin.copy_for(request)
        self.kv.fork(origin, [seq])
        request.sequences = [seq]
        request.num_cached_tokens = 0
        position = len(self.running)
        self.running.append(seq)
        self.num_running_seqs += 1
        self.owed += self.owed_by(seq)
        if self.emit is not None:
            names, blocks = [origin.id, seq.id], list(held_blocks(origin.block_table))
            self.emit(("forked", request.id, origin.id, names, blocks, True, position))

    # ---- 2. schedule --------------------------------------------------------------------------

    def schedule(self, step: int, in_flight: StepBatch | None = None) -> StepBatch:
        """Grant tokens and blocks: first to those that run, then to those that wait.

        in_flight: the step before, if it has not been taken in.
        """
        self.kv.copies = []
        self.ran_short = False
        scheduled: dict[str, ScheduledSequence] = {}
        batch_is_open = self.config.batching == "continuous" or not self.running
        budget = self._grant_running(scheduled, in_flight)
        wait = self._admit_waiting(scheduled, budget, batch_is_open)
        if wait is not None or self._arrived or self._victims:
            self._tell_waiting(wait)
        if self.emit is not None:
            for item in scheduled.values():
                seq, cached = item.seq, item.num_cached_tokens
                self.emit(
                    (
                        "scheduled",
                        seq.request.id,
                        seq.id,
                        item.num_scheduled_tokens,
                        item.start - cached,
                        cached,
                    )
                )
        if self._ahead:
            for item in scheduled.values():
                self._take_off(item)
        return StepBatch(step, list(scheduled.values()), self.kv.copies)

    def _take_off(self, item: ScheduledSequence) -> None:
        """The share is in flight from here on, until `StepOutcome` has taken it in."""
        seq = item.seq
        if self.config.kv_cache:
            seq.num_in_flight_tokens += item.num_scheduled_tokens
        if leaves_placeholder(item, self.config):
            self.owed += self._paged and item.stop % self.config.block_size == 0
            seq.num_output_placeholders += 1

    def _grant_running(
        self, scheduled: dict[str, ScheduledSequence], in_flight: StepBatch | None
    ) -> int:
        """Give each running sequence its tokens, preempting where blocks lack; the budget left."""
        budget = self.config.max_num_batched_tokens
        chunk = self._chunk
        whole = not self.config.kv_cache
        kv = self.kv
        running_state = Status.RUNNING
        next_victims: Iterator[Sequence] | None = None
        out = sits_out(in_flight, kv) if in_flight is not None else ()
        for seq in self.running:
            if seq.status is not running_state:
                continue  # preempted in this step, or an ended member of a static batch
            if out and seq.id in out:
                continue  # in flight, and cannot go on before that step is taken in
            if budget == 0:
                break  # nobody below would get a token either
            members = _members(seq)
            if members[0] is not seq:
                continue  # a beam: it went with the first of its group
            lacking = len(seq.tokens) - seq.num_computed_tokens
            if in_flight is not None:
                lacking += seq.num_output_placeholders - seq.num_in_flight_tokens
            n = min(lacking, budget // len(members), chunk)
            if n == 0 or (whole and n < lacking):
                continue
            wanted = self._blocks_wanted(members, n)
            if wanted:
                if in_flight is not None and wanted > kv.num_free:
                    self.ran_short = True
                    break
                while wanted > kv.num_free:
                    if next_victims is None:
                        next_victims = victims(self.running, self.config.policy)
                    budget += self._preempt(next(next_victims), seq, scheduled)
                    if seq.status is not running_state:
                        break
                    wanted = self._blocks_wanted(members, n)
                if seq.status is not running_state:
                    continue
                for member in members:
                    self.owed -= kv.allocate_slots(member, n)
            budget -= n * len(members)
            for member in members:
                scheduled[member.id] = _scheduled(member, n, n == lacking)
        if self._victims:
            self.running = [seq for seq in self.running if seq.status is not Status.PREEMPTED]
        return budget

    def _preempt(
        self, victim: Sequence, asker: Sequence, scheduled: dict[str, ScheduledSequence]
    ) -> int:
        """Send a running sequence back to the queue; the tokens it gives back to the budget.

        A beam takes its whole group along. They leave `running` when the pass over it is over.
        """
        members = _members(victim)
        for seq in members:
            self.give_up_place(seq)
            seq.status = Status.PREEMPTED
            seq.num_computed_tokens = 0
            seq.num_preemptions += 1
        grouped = len(members) > 1
        entry = put_together(members) if grouped else victim
        entry.status = Status.PREEMPTED
        position = self.waiting.push_preempted(entry)
        self._victims.append(entry)
        if self.emit is not None:
            reason = "priority" if self.config.policy == "priority" else "no_free_blocks"
            numbers = (victim.num_output_tokens, position)
            names = [name for name, _ in entry.request.stands_for(entry)] if grouped else None
            who = (entry.request.id, entry.id, reason, asker.id)
            self.emit(("preempted", *who, *numbers, names))
        refund = 0
        for seq in members:
            self.kv.release(seq, "preempted")
            share = scheduled.pop(seq.id, None)
            refund += share.num_scheduled_tokens if share else 0
        return refund

    def _admit_waiting(
        self, scheduled: dict[str, ScheduledSequence], budget: int, batch_is_open: bool
    ) -> Wait | None:
        """Admit heads of the queue until one must wait; why it must, or None if none waits."""
        while len(self.waiting):
            seq = self.waiting.head()
            if self._victims:
                return Wait("preemption_in_step")
            if self.ran_short:
                return Wait("no_free_blocks")
            if not batch_is_open:
                return Wait("batch_not_finished")
            if self.num_running_seqs + seq.num_places > self.config.max_num_seqs:
                return Wait(
                    "max_num_seqs",
                    seq.num_places,
                    self.config.max_num_seqs - self.num_running_seqs,
                )
            hit = self.kv.find_prefix(seq)
            num_cached_tokens = len(hit) * self.config.block_size
            lacking = len(seq.tokens) - num_cached_tokens
            n = min(lacking, budget, self._chunk)
            if n == 0 or (n < lacking and not self._chunked):
                return Wait("token_budget", lacking, budget)
            wait = lacks_blocks(self.kv, seq, hit, self.owed, self._watermark * bool(self.running))
            if wait is not None:
                return wait
            self._admit(seq, hit, n)
            budget -= n
            scheduled[seq.id] = _scheduled(seq, n, n == lacking, num_cached_tokens)
        return None

    def _admit(self, seq: Sequence, hit: list[int], n: int) -> None:
        self.waiting.pop()
        num_cached_tokens = len(hit) * self.config.block_size
        resumed = seq.status is Status.PREEMPTED
        if not resumed:
            seq.request.num_cached_tokens = num_cached_tokens
        if self.emit is not None:
            kind = "resumed" if resumed else "admitted"
            numbers = (len(seq.tokens), num_cached_tokens)
            self.emit((kind, seq.request.id, seq.id, *numbers))
        seq.status = Status.RUNNING
        seq.waiting_reason = None
        self.running.append(seq)
        self.num_running_seqs += seq.num_places
        self.kv.admit(seq, hit)
        self.kv.allocate_slots(seq, n)
        self.owed += self.owed_by(seq)

    def _tell_waiting(self, wait: Wait | None) -> None:
        """Record why each waiter waits, where that has changed: the head, then the others."""
        if wait is not None:
            head = self.waiting.head()
            others = [*reversed(self._victims), *self._arrived]
            if self._last_head is not None and self._last_head is not head:
                others.insert(len(self._victims), self._last_head)
            if self.config.policy == "priority":
                others.sort(key=lambda seq: seq.sort_key)
            self._wait(head, wait)
            for seq in others:
                if seq is not head and seq.status in (Status.WAITING, Status.PREEMPTED):
                    self._wait(seq, Wait("behind_head"))
            self._last_head = head
        self._arrived = []
        self._victims = []

    def _wait(self, seq: Sequence, wait: Wait) -> None:
        if seq.waiting_reason != wait.reason:
            seq.waiting_reason = wait.reason
            if self.emit is not None:
                numbers = (wait.needed, wait.available)
                self.emit(("waiting", seq.request.id, seq.id, wait.reason, *numbers))

    # ---- 4 – 6. sample, cache, finish: `core.sched.outcome` -------------------------------------

    def update(self, batch: StepBatch, output: StepOutput, runner: Runner) -> list[Sequence]:
        """Take in what the runner sampled: append or fork, cache full blocks, end sequences.

        runner: says which tokens and which texts end a sequence. Returns the sequences that got a
        token, in the order of sampling.
        """
        return self._outcome.take_in(batch, output, runner)

    # ---- bookkeeping ---------------------------------------------------------------------------

    def give_up_place(self, seq: Sequence) -> None:
        """The sequence counts as running no more, and is owed nothing."""
        self.owed -= self.owed_by(seq)
        self.num_running_seqs -= seq.num_places

    def owed_by(self, seq: Sequence) -> int:
        """Blocks that it lacks for the tokens it has: ⌈num_tokens / block_size⌉ − table length."""
        if not self._paged:
            return 0
        return blocks_needed(seq, self.config.block_size) - len(seq.block_table)

    def _blocks_wanted(self, members: list[Sequence], num_new_tokens: int) -> int:
        if len(members) > 1 and isinstance(self.kv, KVCacheManager):
            return self.kv.blocks_wanted_together(members, num_new_tokens)
        return self.kv.blocks_wanted(members[0], num_new_tokens)

    def check(self) -> None:
        """Raise AssertionError where running totals and their sums differ."""
        alive = [seq for seq in self.running if seq.status is Status.RUNNING]
        assert self.owed == sum(self.owed_by(seq) for seq in alive)
        assert self.num_running_seqs == sum(seq.num_places for seq in alive)
        assert self.num_running_seqs <= self.config.max_num_seqs


def _members(seq: Sequence) -> list[Sequence]:
    """Who is scheduled and preempted with it: all beams of a group, else it alone."""
    group = seq.request.beams
    return [seq] if group is None or seq.num_places > 1 else group.beams


def _scheduled(
    seq: Sequence, n: int, catches_up: bool, num_cached_tokens: int = 0
) -> ScheduledSequence:
    """A sequence's share; what is sampled if it catches up: a token for each place.

    Beams return candidates instead, but not the unit of beams that compute their prompt again.
    """
    group = seq.request.beams
    start = seq.num_computed_tokens + seq.num_in_flight_tokens
    if not catches_up or (group is not None and seq.num_places > 1 and group.beams):
        return ScheduledSequence(seq, n, 0, num_cached_tokens, 0, start)
    if group is not None:
        num_candidates = max(group.num_candidates, seq.request.spec.logprobs)
        return ScheduledSequence(seq, n, 0, num_cached_tokens, num_candidates, start)
    return ScheduledSequence(seq, n, seq.num_places, num_cached_tokens, 0, start)
