"""Votes on claims, and who may see a verdict: whoever has voted on it, or has asked for all.

A vote is true, false or "it depends". It agrees with the ledger by one rule: what is right, with or
without rounding, is true; what holds in no reading is false; what contradicts itself, holds only
for something else, or cannot be decided by a formula depends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from core.sizing.claims import Verdict
from ui.claims import ledger

VOTES: Final = ("true", "false", "depends")
LOOK: Final = "look"
"""What stands for a vote on a claim whose number is lost: it has only been looked at."""
MEANT: Final[Mapping[Verdict, str]] = {
    "right": "true",
    "right-with-rounding": "true",
    "wrong": "false",
    "inconsistent": "depends",
    "unverifiable": "depends",
    "stripped": LOOK,
}


@dataclass(frozen=True, slots=True)
class Ballot:
    """What a visitor has voted in this session, by claim. all: every verdict is shown."""

    cast: Mapping[str, str]
    all: bool = False

    def sees(self, id: str) -> bool:
        return self.all or id in self.cast

    def vote(self, id: object, said: object) -> Ballot:
        """With this vote. The first one counts, and one made once the verdict was to be seen counts
        nothing; nor does what is no vote on a claim of the ledger."""
        if not isinstance(id, str) or id not in ledger.known() or self.sees(id):
            return self
        if said != LOOK and (said not in VOTES or ledger.is_lost(id)):
            return self
        if said == LOOK and not ledger.is_lost(id):
            return self
        return replace(self, cast={**self.cast, id: said})


EMPTY: Final = Ballot({})


def tally(ballot: Ballot) -> dict[str, Any]:
    """How the votes stand against the verdicts. table: vote → verdict → how many."""
    found = ledger.judged()
    counted = {id: said for id, said in ballot.cast.items() if said in VOTES}
    table: dict[str, dict[str, int]] = {said: {} for said in VOTES}
    for id, said in counted.items():
        row = table[said]
        row[found[id].verdict] = row.get(found[id].verdict, 0) + 1
    return {
        "of": sum(not ledger.is_lost(id) for id in ledger.known()),
        "votes": len(counted),
        "agree": sum(MEANT[found[id].verdict] == said for id, said in counted.items()),
        "table": table,
    }


def shown(ballot: Ballot, open_id: str | None) -> dict[str, Any]:
    """What the browser gets: the votes, the verdicts that may be seen, the open claim if it may."""
    seen = ledger.known() if ballot.all else ballot.cast
    detail = ledger.detail(open_id) if open_id and ballot.sees(open_id) else None
    return {
        "all": ballot.all,
        "votes": dict(ballot.cast),
        "verdicts": ledger.verdicts(seen),
        "agree": {
            id: MEANT[ledger.judged()[id].verdict] == said
            for id, said in ballot.cast.items()
            if said in VOTES
        },
        "tally": tally(ballot),
        "open": detail,
    }
