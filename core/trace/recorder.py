"""Collects what happened, step by step, as cheaply as it can.

Events stay tuples in one flat list until a run is asked for; a step costs two list appends more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.trace.events import Event, to_dict


@dataclass(slots=True)
class StepMark:
    """Where a step's events end, and what was measured.

    timing: microseconds by part. usage: blocks free, cached, in use. extras: `work`, `candidates`,
    `state`, where there are any.
    """

    end: int
    timing: dict[str, float]
    usage: dict[str, int]
    extras: dict[str, Any]


class Recorder:
    """`emit` is the sink that scheduler, manager and caches write to."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.emit = self.events.append
        self._marks: list[StepMark] = []
        self._first = 0  # the step of the first mark

    def end_step(
        self, timing: dict[str, float], usage: dict[str, int], extras: dict[str, Any]
    ) -> None:
        """Close a step."""
        self._marks.append(StepMark(len(self.events), timing, usage, extras))

    def token_ids(self) -> set[int]:
        """Every token that was sampled, or was a candidate of a beam."""
        tokens = {event[3] for event in self.events if event[0] == "token_sampled"}
        for mark in self._marks:
            for candidates in mark.extras.get("candidates", {}).values():
                tokens.update(token for token, _ in candidates)
        return tokens

    def step(self, index: int) -> dict[str, Any]:
        """The JSON record of one step, which has not been taken. Raises IndexError."""
        place = index - self._first
        if place < 0:
            raise IndexError(f"the record of step {index} has been taken")
        mark = self._marks[place]
        start = self._marks[place - 1].end if place else 0
        events = [to_dict(event) for event in self.events[start : mark.end]]
        record: dict[str, Any] = {
            "step": index,
            "scheduled": {
                event["sequence"]: {
                    "num_scheduled_tokens": event["num_scheduled_tokens"],
                    "num_computed_tokens": event["num_computed_tokens"],
                    "num_cached_tokens": event["num_cached_tokens"],
                }
                for event in events
                if event["type"] == "scheduled"
            },
            "events": events,
            "timing": {part: round(us, 1) for part, us in mark.timing.items()},
            "usage": mark.usage,
        }
        record.update(mark.extras)
        return record

    def steps(self) -> list[dict[str, Any]]:
        """The JSON records of all steps that have not been taken."""
        return [self.step(self._first + place) for place in range(len(self._marks))]

    def take_steps(self) -> list[dict[str, Any]]:
        """The same, which are forgotten here. Events of a step that has not ended stay."""
        records = self.steps()
        if records:
            del self.events[: self._marks[-1].end]  # in place: `emit` is this list's
            self._first += len(records)
            self._marks.clear()
        return records
