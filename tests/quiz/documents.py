"""Progress as hypothesis makes it up: few ids and days, so that two documents meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from quiz.progress import (
    Asked,
    Attempt,
    Deck,
    Note,
    Plan,
    Predicted,
    Progress,
    Review,
    Source,
    Standing,
)

dates = st.integers(0, 5).map(lambda day: f"2026-11-2{day}T12:00:00Z")
ids = st.sampled_from(["a", "b", "c", "d"])
cards = st.sampled_from(["paging/blocks", "kv-size/per-token", "number:kv-llama-3-70b-bf16"])
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)


def attempt(name: str, answers: list[str], gate: str = "four-questions") -> Attempt:
    """Attempts of one id ask the same at the same time, as ours do."""
    day = ord(name) - ord("a")
    asked = tuple(
        Asked(f"t{i}", day * 10 + i, f"t{i} {day}", answer) for i, answer in enumerate(answers)
    )
    return Attempt(name, f"2026-11-2{day}T12:00:00Z", asked, gate)


attempts = st.builds(
    attempt,
    ids,
    st.lists(st.sampled_from(["", "right", "wrong"]), min_size=3, max_size=3),
    st.sampled_from(["four-questions", "tiers"]),
)
sources = st.builds(
    Source,
    st.sampled_from(["block_pool", "tiers"]),
    texts,
    st.sampled_from(["", "whole-blocks"]),
    st.sampled_from(["", "run=x&step=4"]),
)
notes = st.builds(
    Note,
    ids,
    dates,
    texts,
    texts,
    texts,
    edited=st.just("") | dates,
    tags=st.lists(st.sampled_from(["kv", "to-do"]), max_size=2, unique=True).map(tuple),
    quote=st.just("") | texts,
    source=st.none() | sources,
)
predictions = st.builds(
    Predicted, dates, st.dictionaries(texts, st.integers(0, 99) | texts, max_size=2), texts
)
_new = st.builds(Plan, due=dates, at=dates, turn=st.integers(0, 2))
_known = st.builds(
    Plan,
    due=dates,
    at=dates,
    turn=st.integers(0, 2),
    state=st.sampled_from(["learning", "relearning"]),
    step=st.integers(0, 1),
    stability=st.floats(0.01, 400),
    difficulty=st.floats(1, 10),
    last=dates,
    reviews=st.integers(1, 9),
    lapses=st.integers(0, 3),
    by=ids,
)
_long = st.builds(
    Plan,
    due=dates,
    at=dates,
    turn=st.integers(0, 2),
    state=st.just("review"),
    stability=st.floats(0.01, 400),
    difficulty=st.floats(1, 10),
    last=dates,
    by=ids,
)
plans = _new | _known | _long
standings = st.builds(
    Standing, st.sampled_from(["on", "suspended", "removed"]), dates, st.integers(0, 2)
)
reviews = st.builds(Review, ids, cards, dates, st.integers(1, 4), plans)


def _unique(values: list[Any]) -> tuple[Any, ...]:
    return tuple({one.id: one for one in values}.values())


def _deck(retention: tuple[float, str], **parts: Any) -> Deck:
    return Deck(retention=retention[0], retention_at=retention[1], **parts)


decks = st.builds(
    _deck,
    st.just((0.9, "")) | st.tuples(st.sampled_from([0.8, 0.9, 0.95]), dates),
    plans=st.dictionaries(cards, plans, max_size=3),
    standing=st.dictionaries(cards, standings, max_size=3),
    log=st.lists(reviews, max_size=3).map(_unique),
)

progresses = st.builds(
    Progress,
    attempt=st.none() | attempts,
    past=st.lists(attempts, max_size=3).map(_unique),
    completed=st.dictionaries(st.sampled_from(["four-questions", "x"]), dates),
    begun=st.dictionaries(st.sampled_from(["quiz", "block_pool"]), dates),
    notes=st.lists(notes, max_size=3).map(_unique),
    predictions=st.dictionaries(st.sampled_from(["quiz/p", "p.x/q"]), predictions, max_size=2),
    deck=decks,
    removed=st.dictionaries(ids, dates, max_size=2),
    since=st.just("") | dates,
)
