"""The lives of a run's sequences: when each waited, ran and answered, and which place it held.

A run says what happened step by step; here the same events are read sequence by sequence. A place
is one of the engine's `max_num_seqs`. The engine counts places and gives them no numbers: a row is
this module's own, the lowest one free when a sequence joins `running`, kept until it leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Kind = Literal["prefill", "again", "decode", "stalled", "held"]
"""What a place did in a step: computed prompt tokens for the first time; computed tokens that had
been computed before and were given up; computed what was sampled last; held a running sequence that
got no token of the budget; held one that had ended, in a static batch that had not."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Steps `start` … `end` − 1 in the queue for one `reason`. needed, available: its numbers."""

    start: int
    end: int
    reason: str
    needed: int | None = None
    available: int | None = None


@dataclass(slots=True)
class Stay:
    """One stay of a sequence in a place: row, first step, and what it did in each step."""

    row: int
    start: int
    kinds: list[Kind] = field(default_factory=list)


@dataclass(slots=True)
class Life:
    """One sequence, by steps. Every field that names a step is None where it did not happen.

    sampled: the step of each output token. computed: tokens computed in all; recomputed: those of
    them whose keys and values the sequence had before, computed or found, and lost. cached: tokens
    found in the prefix cache instead.
    """

    sequence: str
    request: str
    num_prompt_tokens: int
    arrived: int
    admitted: int | None = None
    ended: int | None = None
    finish_reason: str | None = None
    rejected: str | None = None
    sampled: list[int] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    computed: int = 0
    recomputed: int = 0
    cached: int = 0

    @property
    def first_token(self) -> int | None:
        return self.sampled[0] if self.sampled else None


@dataclass(frozen=True, slots=True)
class Lives:
    """lives: by sequence, in order of arrival. num_places: `max_num_seqs`. num_steps: of the run.

    waiting: sequences in the queue once step k was scheduled, for each k; n for a request of n.
    """

    lives: dict[str, Life]
    num_places: int
    num_steps: int
    waiting: list[int]

    def stays(self) -> Iterator[tuple[Life, Stay]]:
        """Every stay in a place with whose it is."""
        for life in self.lives.values():
            for stay in life.stays:
                yield life, stay


def read(run: Json) -> Lives:
    """The lives in a run (`run/1` as JSON) that begins with an empty engine."""
    reader = _Reader(run["header"]["scenario"]["engine"]["max_num_seqs"])
    for step in run["steps"]:
        reader.step(step)
    return reader.result()


class _Reader:
    def __init__(self, num_places: int) -> None:
        self.lives: dict[str, Life] = {}
        self.num_places = num_places
        self.k = -1
        self.waiting: set[str] = set()
        self.waiting_counts: list[int] = []
        self._units: dict[str, list[str]] = {}  # a queue entry → the sequences it stands for
        self._rows: dict[str, int] = {}  # who holds which row now
        self._joining: list[str] = []  # forked in this step: their places are theirs from the next
        self._held: set[str] = set()  # ended members of a static batch
        self._reached: dict[str, int] = {}  # tokens that a sequence once had computed
        self._open: dict[str, Json] = {}  # the `waiting` event that holds now
        self._since: dict[str, int] = {}

    def step(self, record: Json) -> None:
        self.k = record["step"]
        events = record["events"]
        forward = max((i for i, e in enumerate(events) if e["type"] == "scheduled"), default=-1)
        after = []
        for i, event in enumerate(events):
            if _gives_place_after(event, i > forward):
                after.append(event)
            else:
                self._apply(event)
        self.waiting_counts.append(sum(len(self._units[entry]) for entry in self.waiting))
        self._fill(record["scheduled"])
        for event in after:
            self._apply(event)
        for twin in self._joining:  # once those that leave in this step have left
            if self.lives[twin].ended is None:
                self._take(twin, self.k + 1)
        self._joining.clear()

    def result(self) -> Lives:
        for sequence in list(self._open):
            self._close(sequence, self.k + 1)
        return Lives(self.lives, self.num_places, self.k + 1, self.waiting_counts)

    def _apply(self, event: Json) -> None:
        handler = getattr(self, f"_{event['type']}", None)
        if handler is not None:
            handler(event)

    # ---- the queue ----------------------------------------------------------------------------

    def _request_arrived(self, event: Json) -> None:
        sequences = event["sequences"]
        for name in sequences:
            self.lives[name] = Life(name, event["request"], event["num_prompt_tokens"], self.k)
        if "position" in event:
            self._units[sequences[0]] = list(sequences)
            self.waiting.add(sequences[0])

    def _request_rejected(self, event: Json) -> None:
        for life in self.lives.values():
            if life.request == event["request"]:
                life.rejected, life.ended = event["reason"], self.k

    def _waiting(self, event: Json) -> None:
        self._close(event["sequence"], self.k)
        self._open[event["sequence"]] = event
        self._since[event["sequence"]] = self.k

    def _close(self, sequence: str, end: int) -> None:
        event = self._open.pop(sequence, None)
        if event is None or self._since[sequence] == end:
            return
        wait = Wait(
            self._since[sequence],
            end,
            event["reason"],
            event.get("needed"),
            event.get("available"),
        )
        for name in self._units.get(sequence, [sequence]):
            self.lives[name].waits.append(wait)

    def _admitted(self, event: Json) -> None:
        entry = event["sequence"]
        self._close(entry, self.k)
        self.waiting.discard(entry)
        for name in self._units.get(entry, [entry]):
            life = self.lives[name]
            life.admitted = self.k if life.admitted is None else life.admitted
            self._take(name, self.k)
        self.lives[entry].cached += event["num_cached_tokens"]

    _resumed = _admitted

    def _preempted(self, event: Json) -> None:
        entry = event["sequence"]
        names = event.get("sequences") or self._units.get(entry, [entry])
        self._units[entry] = list(names)
        self.waiting.add(entry)
        for name in names:
            self._leave(name)
            self.lives[name].preempted.append(self.k)

    # ---- places -------------------------------------------------------------------------------

    def _take(self, sequence: str, start: int) -> None:
        if sequence in self._rows:
            return
        row = min(set(range(len(self._rows) + 1)) - set(self._rows.values()))
        self._rows[sequence] = row
        self.lives[sequence].stays.append(Stay(row, start))

    def _leave(self, sequence: str) -> None:
        self._rows.pop(sequence, None)
        self._held.discard(sequence)

    def _fill(self, scheduled: Json) -> None:
        """What each place did in this step."""
        for sequence in self._rows:
            kinds = self.lives[sequence].stays[-1].kinds
            if sequence in self._held:
                kinds.append("held")
            elif sequence in scheduled:
                kinds.append(self._compute(sequence, scheduled[sequence]))
            else:
                kinds.append(self._with_unit(sequence, scheduled) or "stalled")

    def _with_unit(self, sequence: str, scheduled: Json) -> Kind | None:
        """What the first of its unit did: n answers are one prompt until their first token."""
        for unit, members in self._units.items():
            if sequence in members[1:] and unit in scheduled:
                return self.lives[unit].stays[-1].kinds[-1]
        return None

    def _compute(self, sequence: str, share: Json) -> Kind:
        life = self.lives[sequence]
        start = share["num_computed_tokens"] + share["num_cached_tokens"]
        end = start + share["num_scheduled_tokens"]
        reached = self._reached.get(sequence, 0)
        again = max(0, min(end, reached) - start)
        life.computed += end - start
        life.recomputed += again
        self._reached[sequence] = max(reached, end)
        if again:
            return "again"
        return "prefill" if start < life.num_prompt_tokens else "decode"

    # ---- after the forward pass ---------------------------------------------------------------

    def _token_sampled(self, event: Json) -> None:
        self.lives[event["sequence"]].sampled.append(self.k)

    def _forked(self, event: Json) -> None:
        first, *twins = event["sequences"]
        parent = self.lives[first]
        self._units[first] = [first]
        for twin in twins:
            self._units[twin] = [twin]
            self._reached[twin] = self._reached.get(first, 0)
            life = self.lives.setdefault(
                twin, Life(twin, parent.request, parent.num_prompt_tokens, parent.arrived)
            )
            life.ended = life.finish_reason = None
            if life.request != parent.request:  # it forks off another request, in this step
                life.admitted = self.k
                self._take(twin, self.k)
                continue
            if event.get("copies_outputs"):
                life.sampled = list(parent.sampled)
            life.admitted = parent.admitted if life.admitted is None else life.admitted
            self._joining.append(twin)

    def _pruned(self, event: Json) -> None:
        self._end(event["sequence"], "pruned")
        self._leave(event["sequence"])

    def _finished(self, event: Json) -> None:
        sequence = event["sequence"]
        self._end(sequence, event["reason"])
        self._close(sequence, self.k)
        self.waiting.discard(sequence)
        if event.get("holds"):
            self._held.add(sequence)
        else:
            self._leave(sequence)

    def _end(self, sequence: str, reason: str) -> None:
        life = self.lives[sequence]
        life.ended, life.finish_reason = self.k, reason

    def _blocks_freed(self, event: Json) -> None:
        if event["sequence"] in self._held:
            self._leave(event["sequence"])


def _gives_place_after(event: Json, past_forward: bool) -> bool:
    """Whether an event changes who holds a place only from the next step on: it comes after the
    forward pass. A cancel and a preemption free the place at once, and a request that forks off a
    running one has its place in the step in which it arrives. So it is with the outcome of a step
    that was taken in before this one was decided (`core.sched.ahead`), before the schedule.
    """
    kind = event["type"]
    if not past_forward:
        return False
    if kind == "finished":
        return bool(event["reason"] != "cancelled")
    if kind == "blocks_freed":
        return bool(event["reason"] == "finished")
    return kind in ("token_sampled", "pruned", "forked")
