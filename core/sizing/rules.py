"""The rules that a plan is held against, in words, and what one of them found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

PASS, NOTICE, PROBLEM, UNKNOWN = "pass", "notice", "problem", "unknown"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in words. threshold: its numbers by name. basis: as in `Result`."""

    id: str
    title: str
    anti_pattern: bool
    saw: str
    rule: str
    threshold: dict[str, float]
    mend: str
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found. saw: the sentence; numbers: what it was made of."""

    rule: Rule
    status: str
    saw: str
    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: the rule's words, status, saw and numbers in one object."""
        found = {"status": self.status, "saw": self.saw, "numbers": self.numbers}
        return {**asdict(self.rule), **found}


@cache
def rules() -> dict[str, Rule]:
    """id → rule, in order."""
    text = resources.files("core.sizing").joinpath("data", "advice.json").read_text("utf-8")
    return {one["id"]: Rule(**one) for one in json.loads(text)["rules"]}
