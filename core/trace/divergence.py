"""Where two greedy answers to one prompt part, and how close the choice was there.

Pure functions of two runs (dict, run/1) that differ in their engine and not in what was asked. Up
to the first token that differs both have read the same text, so their log-probabilities at that
place are of the same question; behind it they are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that one of the two might have taken. logprobs: its log-probability in nats in the
    first and in the second run; None where it was not among those that the run names."""

    token: int
    logprobs: tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Divergence:
    """tokens: of both answers. first: index of the first output token that differs, None if none
    does; where one answer is the beginning of the other, it is the place behind the shorter one.
    candidates: at that place, the first run's choice, the second's, then the likeliest others;
    empty where nothing differs or the runs name no log-probabilities."""

    tokens: tuple[list[int], list[int]]
    first: int | None
    candidates: tuple[Candidate, ...]


def first_difference(a: list[int], b: list[int]) -> int | None:
    """Index of the first place where two lists differ; None if they are equal."""
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return None if len(a) == len(b) else min(len(a), len(b))


def outputs(run: Json, sequence: str) -> list[int]:
    """The tokens that a sequence was given, in order."""
    return [
        event["token"]
        for step in run["steps"]
        for event in step["events"]
        if event["type"] == "token_sampled" and event["sequence"] == sequence
    ]


def compare(first: Json, second: Json, sequence: str = "A") -> Divergence:
    """Two runs' answers in one sequence."""
    tokens = outputs(first, sequence), outputs(second, sequence)
    at = first_difference(*tokens)
    entries = [_entry(run, sequence, at) for run in (first, second)]
    if any(entry is None for entry in entries):
        return Divergence(tokens, at, ())
    known = [_known(entry) for entry in entries if entry is not None]
    others = sorted(
        (token for one in known for token in one),
        key=lambda token: -max(one.get(token, -1e9) for one in known),
    )
    order = dict.fromkeys([tokens[0][at], tokens[1][at], *others] if at is not None else ())
    return Divergence(
        tokens, at, tuple(Candidate(t, (known[0].get(t), known[1].get(t))) for t in order)
    )


def _entry(run: Json, sequence: str, at: int | None) -> Json | None:
    """What a run says of its choice at a place; None where it says nothing."""
    said = run["results"].get(sequence, {}).get("logprobs", [])
    return said[at] if at is not None and at < len(said) else None


def _known(entry: Json) -> dict[int, float]:
    """Token → log-probability of all that an entry names."""
    return {int(token): value for token, value in entry["top"]} | {entry["token"]: entry["logprob"]}
