"""What the quiz page shows, as data: the browser draws it and decides nothing.

The right answer is in it only once an answer has been given.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from core.errors import KVScopeError
from quiz import bank
from quiz.items import RIGHT, Item, Proof
from quiz.progress import Attempt, Progress
from ui import catalogue, links, runs
from ui.lesson import Lesson, load

WORDS = {"right": "right", "wrong": "wrong this time", "now": "you are here", "todo": "to come"}
PAGES = {"block_pool": "Block pool", "prefill_decode": "Prefill and decode"}


@dataclass(frozen=True, slots=True)
class Shown:
    """The run that proves an answer. page, link: where it is at home, and its parameters there."""

    played: runs.Played
    step: int
    block: int | None
    page: str
    link: dict[str, str]

    @property
    def address(self) -> str:
        return f"{self.page}?{urlencode(self.link)}"


def run_of(proof: Proof) -> Shown | None:
    """The run behind an answer; None where it is not on this server."""
    asked = dict(proof.link)
    step, block = int(asked.pop("step", 0)), asked.pop("block", None)
    place = {"step": str(step), **({} if block is None else {"block": str(block)})}
    (kind, value), *_ = asked.items()
    try:
        if kind == "run":
            played = runs.recorded(value)
        elif kind == "scenario":
            played = runs.simulate(catalogue.entries()[value].text)
        else:
            packed = links.pack(value)
            if packed is None:
                return None
            played, value = runs.simulate(json.dumps(value)), packed
    except KVScopeError:
        return None
    return Shown(played, step, block, proof.page, {kind: str(value), **place})


def topics(attempt: Attempt, place: int) -> list[dict[str, str]]:
    """The strip: each topic and how it stands."""
    out = []
    for i, (topic, asked) in enumerate(zip(bank.topics().values(), attempt.asked, strict=True)):
        if asked.answer:
            state = "right" if asked.answer == RIGHT else "wrong"
        else:
            state = "now" if i == place else "todo"
        out.append({"title": topic.title, "state": state, "word": WORDS[state]})
    return out


def _head(words: Lesson, attempt: Attempt, place: int, *, present: bool) -> dict[str, Any]:
    return {
        "id": f"{attempt.id} {place}",
        "place": place,
        "present": present,
        "title": words.title,
        "lead": words.objective,
        "topics": topics(attempt, place),
    }


def question(
    words: Lesson, attempt: Attempt, made: list[Item], place: int, *, playing: bool, present: bool
) -> dict[str, Any]:
    """A question of the gate, and after its answer what is to be said about it."""
    item, answer = made[place], attempt.asked[place].answer
    last = all(one.answer for one in attempt.asked)
    return {
        **_head(words, attempt, place, present=present),
        **_card(item, answer, playing=playing),
        "number": f"Question {place + 1} of {len(made)}, {bank.topics()[item.topic].area}",
        "note": "The first answer counts.",
        "lock": "Lock it in",
        "next": "See the result" if last else "Next question",
    }


def single(item: Item, answer: str, *, playing: bool, present: bool) -> dict[str, Any]:
    """A question by itself, as a page asks it."""
    return {
        "id": f"{item.template} {item.seed}",
        "place": 0,
        "present": present,
        "title": None,
        **_card(item, answer, playing=playing),
        "number": "Now another configuration",
        "note": "",
        "lock": "Check it",
        "next": "Again with other numbers",
    }


def _card(item: Item, answer: str, *, playing: bool) -> dict[str, Any]:
    return {
        "drawn": item.drawn,
        "question": item.question,
        "given": list(item.given),
        "words": not bank.varies(item.template),
        "options": [{"text": one.text, "aside": one.aside} for one in item.options],
        "answered": _answered(item, answer) if answer else None,
        "see": _see(item, answer, playing=playing) if answer else None,
        "done": None,
    }


def _answered(item: Item, answer: str) -> dict[str, Any]:
    option = item.option(answer)
    good = answer == RIGHT
    return {
        "chosen": item.keys.index(answer),
        "right": item.keys.index(RIGHT),
        "good": good,
        "says": option.says,
        "fact": option.fact,
        "also": "" if good else item.option(RIGHT).fact,
    }


def _see(item: Item, answer: str, *, playing: bool) -> dict[str, Any]:
    shown = run_of(item.proof)
    known = item.proof.lines
    lines = [known[key] for key in dict.fromkeys((answer, RIGHT)) if key in known]
    data: dict[str, Any] = {
        "say": item.see if shown else load("quiz")["no-run"],
        "lines": [
            {"who": one.who, "factors": one.factors, "equals": one.equals, "changed": one.changed}
            for one in lines
        ],
        "heads": None,
        "run": None,
    }
    if len(lines) == 2:  # what the misconception changed is also marked in the engine's line
        data["lines"][1]["changed"] = lines[0].changed
    if item.proof.heads is not None:
        data["heads"] = {"query": item.proof.heads[0], "kv": item.proof.heads[1]}
    if shown is not None:
        kind, about = runs.label(shown.played.header)
        data["run"] = {
            "kind": kind,
            "about": about,
            "page": PAGES[shown.page],
            "href": shown.address,
            "open": playing,
        }
    return data


def result(
    words: Lesson,
    progress: Progress,
    attempt: Attempt,
    made: list[Item],
    *,
    lesson: str,
    present: bool,
) -> dict[str, Any]:
    """The end of an attempt."""
    right = attempt.right
    since = progress.completed.get(lesson)
    if right == len(made):
        says = words["complete"]
    elif since is not None:
        says = words["complete-before"].format(date=day(since), right=right)
    else:
        says = words["not-yet"]
    rows = [
        {
            "title": bank.topics()[item.topic].title,
            "good": asked.answer == RIGHT,
            "says": words["row-right"] if asked.answer == RIGHT else item.option(asked.answer).says,
        }
        for item, asked in zip(made, attempt.asked, strict=True)
    ]
    done = {"right": right, "of": len(made), "complete": right == len(made), "says": says}
    return {
        **_head(words, attempt, len(made), present=present),
        "answered": None,
        "done": {**done, "rows": rows},
    }


def day(at: str) -> str:
    """ "2026-11-28T…" as people write it: 28 Nov 2026."""

    when = date.fromisoformat(at[:10])
    return f"{when.day} {when:%b %Y}"
