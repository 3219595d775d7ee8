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
from quiz import bank, gate
from quiz.items import RIGHT, Item, Proof
from quiz.progress import Attempt, Progress
from ui import catalogue, links, nav, quiz_gate, runs
from ui.lesson import Lesson, load

WORDS = {"right": "right", "wrong": "wrong this time", "now": "you are here", "todo": "to come"}
PLAYERS = ("block_pool", "prefill_decode")
"""Pages that play a run by its link. A proof on any other page is that page, with its numbers."""


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
    """The run behind an answer; None where there is none, or not on this server."""
    if proof.page not in PLAYERS:
        return None
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


def address(proof: Proof) -> str:
    """Of a proof that is a page: where it shows the question's numbers."""
    query = urlencode(proof.link)
    return f"{proof.page}?{query}" if query else proof.page


def page_title(name: str) -> str:
    """A page by its name in the navigation. Raises KeyError."""
    return {place.name: place.title for place in nav.COURSE}[name]


def _titles(attempt: Attempt) -> list[str]:
    """What each question is called: by its topic where each has another."""
    if attempt.gate == gate.LESSON:
        return [bank.topics()[name].title for name in gate.plan(attempt.gate)]
    return [f"Question {i}" for i in range(1, len(attempt.asked) + 1)]


def topics(attempt: Attempt, place: int) -> list[dict[str, Any]]:
    """The strip: each question and how it stands."""
    out = []
    for i, (title, asked) in enumerate(zip(_titles(attempt), attempt.asked, strict=True)):
        if asked.answer:
            state = "right" if asked.answer == RIGHT else "wrong"
        else:
            state = "now" if i == place else "todo"
        numbered = attempt.gate != gate.LESSON
        out.append({"title": title, "state": state, "word": WORDS[state], "numbered": numbered})
    return out


def _head(words: Lesson, attempt: Attempt, place: int, *, present: bool) -> dict[str, Any]:
    return {
        "id": f"{attempt.id} {place}",
        "place": place,
        "present": present,
        "title": quiz_gate.title(attempt.gate, words),
        "lead": words.objective if attempt.gate == gate.LESSON else words["lead"],
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
    shown, plays = run_of(item.proof), item.proof.page in PLAYERS
    known = item.proof.lines
    lines = [known[key] for key in dict.fromkeys((answer, RIGHT)) if key in known]
    data: dict[str, Any] = {
        "say": item.see if shown or not plays else load("quiz")["no-run"],
        "lines": [
            {"who": one.who, "factors": one.factors, "equals": one.equals, "changed": one.changed}
            for one in lines
        ],
        "heads": None,
        "run": None,
        "page": None,
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
            "page": page_title(shown.page),
            "href": shown.address,
            "open": playing,
        }
    elif not plays:
        data["page"] = {"title": page_title(item.proof.page), "href": address(item.proof)}
    return data


def result(
    words: Lesson,
    progress: Progress,
    attempt: Attempt,
    made: list[Item],
    *,
    present: bool,
) -> dict[str, Any]:
    """The end of an attempt."""
    right = attempt.right
    since = progress.completed.get(attempt.gate)
    if right == len(made):
        says = words["complete"]
    elif since is not None:
        says = words["complete-before"].format(date=day(since), right=right)
    else:
        says = words["not-yet"]
    rows = [
        {
            "title": title,
            "good": asked.answer == RIGHT,
            "says": words["row-right"] if asked.answer == RIGHT else item.option(asked.answer).says,
        }
        for title, item, asked in zip(_titles(attempt), made, attempt.asked, strict=True)
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
