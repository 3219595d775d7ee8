"""An exercise of lessons/exercises/, its numbers computed by the sizing library.

A file holds words, names and expressions (`core.sizing.expressions`) and no result:

    given     what the statement gives: numbers, a model, a GPU. Text in it names something
    again     other values to draw from, for a fresh set of numbers; missing where none would do
    figures   further numbers for the text: {"is": expression, "as": form}, or {"says", "source"}
              for what somebody measured
    parts     what is asked: with "right" a number is, with "rubric" words are

In expressions "$tokens" is a given value, "@a" the right value of part a or a figure. In texts
`{tokens}` is a given value, `{a}` a part's right value, `{name}` a figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

from core.sizing import calls, catalog, gpus
from core.sizing.errors import SizingError
from core.sizing.expressions import Value, evaluate
from core.sizing.result import Result
from quiz.errors import QuizError
from quiz.exercises.diagnose import COARSE, Slip, Target, diagnose
from quiz.exercises.figures import shown

FOLDER: Final = Path(__file__).resolve().parents[2] / "lessons" / "exercises"
LEVELS: Final = {
    "worked": "With numbers",
    "foundational": "Foundational",
    "intermediate": "Intermediate",
    "principal": "Principal",
}
MAX_DRAW: Final = 9_999
_TRIES: Final = 60
_NAME: Final = re.compile(r"(?<![_^])\{([a-z_][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of the text. value: None where it is given, or somebody reports it; then source says
    who."""

    text: str
    value: Value | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is asked. target: None where words are asked; then rubric and model are there.
    answer: the right value as text. fact: what to take from it. model: with figures' `{names}`."""

    id: str
    ask: str
    claims: tuple[str, ...] = ()
    like: str = ""
    formula: str = ""
    fact: str = ""
    answer: str = ""
    target: Target | None = None
    derived: Value | None = None
    rubric: tuple[str, ...] = ()
    model: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exercise:
    """An exercise with its numbers put in. draw: 0 as written, else which fresh set of them.
    changed: what a text's own version got wrong and is put otherwise here. pages: where it is
    taught."""

    id: str
    level: str
    number: int
    short: str
    title: str
    draw: int
    varies: bool
    statement: str
    changed: str
    parts: tuple[Part, ...]
    pages: tuple[str, ...]

    def part(self, id: str) -> Part:
        """Raises KeyError."""
        return {part.id: part for part in self.parts}[id]


@cache
def files() -> dict[str, dict[str, Any]]:
    """Every file's content by id, in the order of levels and numbers."""
    loaded = [json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")]
    order = list(LEVELS)
    loaded.sort(key=lambda one: (order.index(one["level"]), one["number"]))
    return {one["id"]: one for one in loaded}


@lru_cache(maxsize=256)
def make(id: str, draw: int = 0) -> Exercise:
    """The exercise with the numbers of a draw: the same ones every time. Raises QuizError."""
    content = files().get(id)
    if content is None:
        raise QuizError("there is no such exercise in this version")
    if not 0 <= draw <= MAX_DRAW or (draw and "again" not in content):
        raise QuizError("this exercise has no such set of numbers")
    if draw == 0:
        return _made(content, content["given"], 0)
    rng = Random(f"{id} {draw}")
    for _ in range(_TRIES):
        given = {
            name: rng.choice(content["again"].get(name, [value]))
            for name, value in content["given"].items()
        }
        made = _made(content, given, draw)
        if given != content["given"] and not clashes(made):
            return made
    raise AssertionError(f"{id} finds no numbers that tell its misconceptions apart")


def clashes(made: Exercise) -> list[str]:
    """Misconceptions that these numbers do not tell from the right value or from each other."""
    found = []
    for part in made.parts:
        if part.target is None:
            continue
        values = [("right", part.target.value)] + [(s.id, s.value) for s in part.target.slips]
        for index, (name, value) in enumerate(values):
            for other, against in values[:index]:
                near = 0 if part.target.whole else max(abs(value), abs(against)) * COARSE
                if abs(value - against) <= near:
                    found.append(f"{made.id}/{part.id}: {other} and {name}")
    return found


def put_in(words: str, figure: Callable[[str], str]) -> str:
    """A text with its `{names}` replaced."""
    return _NAME.sub(lambda found: figure(found[1]), words)


def _environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Given values, and what follows from a model's or a GPU's name."""
    env = dict(given)
    if "model" in given:
        fields = catalog.get(given["model"]).fields
        names = {"layers": "n_layers", "heads": "n_heads", "kv_heads": "n_kv_heads"}
        for name, field in (names | {"head_dim": "d_head"}).items():
            env[name] = int(str(fields[field]))
    if "gpu" in given:
        gpu = gpus.get(given["gpu"])
        env |= {"bandwidth": gpu.bandwidth, "peak": gpu.peaks["bf16"]}
    return env


def _said(name: str, value: Any) -> str:
    """A given value in a sentence."""
    if name == "model":
        return catalog.entries()[value].title
    if name == "gpu":
        return gpus.get(value).title
    if name in _FORMS:
        return shown(Fraction(repr(value)), _FORMS[name])
    if isinstance(value, str):
        return value.upper()
    return shown(Fraction(repr(value)), "num")


_FORMS: Final = {"bandwidth": "TB/s", "peak": "TFLOP/s", "hit_rate": "percent", "hidden": "percent",
                 "card": "GB", "runtime": "GB", "weights": "GB", "link": "GB/s"}  # fmt: skip


def _library(name: str, given: Mapping[str, Any]) -> Result:
    return calls.call(name, given).result


class _Maker:
    """One exercise with one set of given values."""

    def __init__(self, content: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.content = content
        self.env = _environment(given)
        self.parts = {one["id"]: one for one in content["parts"] if "right" in one}
        self.figures: dict[str, Any] = content.get("figures", {})
        self.values: dict[str, Value] = {}

    def tree(self, expression: Any) -> Any:
        """An expression with "$names" and "@names" put in."""
        if isinstance(expression, dict):
            return {key: self.tree(value) for key, value in expression.items()}
        if isinstance(expression, list):
            return [self.tree(value) for value in expression]
        if isinstance(expression, str) and expression[:1] == "$":
            return self.env[expression[1:]]
        if isinstance(expression, str) and expression[:1] == "@":
            name = expression[1:]
            return self.tree(
                self.parts[name]["right"] if name in self.parts else self.figures[name]["is"]
            )
        return expression

    def value(self, expression: Any, path: str) -> Value:
        """Raises SizingError where it is malformed or has no value."""
        where = f"{self.content['id']}.{path}"
        value = evaluate(self.tree(expression), _library, where)
        if value.exact is None:
            raise SizingError(where, "has no value")
        return value

    def exact(self, expression: Any, path: str) -> Fraction:
        exact = self.value(expression, path).exact
        assert exact is not None  # value sees to that
        return exact

    def figure(self, name: str) -> Figure:
        """A number of the text by its name. Raises KeyError."""
        if name in self.parts:
            part = self.parts[name]
            value = self.value(part["right"], name)
            return Figure(shown(value.exact or Fraction(0), part["as"]), value)
        if name in self.env:
            return Figure(_said(name, self.env[name]))
        said = self.figures[name]
        if "says" in said:
            return Figure(said["says"], source=said["source"])
        value = self.value(said["is"], name)
        return Figure(shown(value.exact or Fraction(0), said["as"]), value)

    def text(self, words: str) -> str:
        return put_in(words, lambda name: self.figure(name).text)

    def part(self, one: Mapping[str, Any]) -> Part:
        base = Part(one["id"], self.text(one["ask"]), tuple(one.get("claims", ())))
        if "rubric" in one:
            words = "\n\n".join(one["model"])
            return replace(
                base,
                rubric=tuple(self.text(line) for line in one["rubric"]),
                model=words,
                figures={name: self.figure(name) for name in _NAME.findall(words)},
            )
        derived, target = self.value(one["right"], one["id"]), self.target(one)
        return replace(
            base,
            like=_like(one, target),
            formula=one.get("formula", ""),
            fact=self.text(one.get("fact", "")),
            answer=shown(derived.exact or Fraction(0), one["as"]),
            target=target,
            derived=derived,
        )

    def target(self, one: Mapping[str, Any]) -> Target:
        whole, before = one.get("whole", ""), one.get("before")
        if whole and before is None:  # ⌊x⌋ and ⌈x⌉ hold their quotient
            before = self.tree(one["right"]).get(_OPERATOR[whole])
        return Target(
            self.exact(one["right"], one["id"]),
            one["unit"],
            tuple(
                Slip(name, self.exact(said["is"], f"{one['id']}.{name}"), self.text(said["says"]))
                for name, said in one["wrong"].items()
            ),
            whole,
            None if before is None else self.exact(before, f"{one['id']}.before"),
        )


def _like(one: Mapping[str, Any], target: Target) -> str:
    """An example of how to write an answer that is none itself, nor nearly one."""
    other = re.sub(r"[0-9.]+", "7.2" if "." in one["like"] else "72", one["like"])
    tells = ("right", "unit", "misconception", "rounding")
    return other if diagnose(one["like"], target).verdict in tells else str(one["like"])


_OPERATOR: Final = {"down": "floor", "up": "ceil"}


def _made(content: Mapping[str, Any], given: Mapping[str, Any], draw: int) -> Exercise:
    maker = _Maker(content, given)
    return Exercise(
        id=content["id"],
        level=content["level"],
        number=content["number"],
        short=content["short"],
        title=content["title"],
        draw=draw,
        varies="again" in content,
        statement=maker.text("\n\n".join(content["statement"])),
        changed=maker.text(content.get("changed", "")),
        parts=tuple(maker.part(one) for one in content["parts"]),
        pages=tuple(content["pages"]),
    )
