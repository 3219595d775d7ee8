"""The ledger to take away: every claim with its verdict, one's own votes, and the derivations."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from core.sizing import ledger as core_ledger
from ui.claims import ledger
from ui.claims.votes import LOOK, Ballot

COLUMNS = (
    "id", "source", "section", "topic", "says", "vote", "verdict",
    "printed", "value", "unit", "reason", "explanation", "assumptions",
)  # fmt: skip


def as_csv(ballot: Ballot) -> str:
    """One claim a row; printed, value and unit are those of its first part."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(COLUMNS)
    for id, found in ledger.judged().items():
        lead = found.findings[0].to_dict()
        rows.writerow(
            _cell(value)
            for value in (
                id,
                found.claim.source,
                found.claim.section,
                found.claim.topic,
                found.claim.says,
                _vote(ballot, id),
                found.verdict,
                lead["printed"],
                lead["value"],
                lead["unit"],
                "; ".join(one.reason for one in found.findings),
                found.claim.explanation,
                "; ".join(found.claim.assumptions),
            )
        )
    return out.getvalue()


def as_json(ballot: Ballot) -> str:
    """What `python -m core claims --json` prints of each, with the sources and the votes."""
    content: dict[str, Any] = {
        "schema": "kv-scope/claims-judged/1",
        "sources": {name: source.credit for name, source in core_ledger.sources().items()},
        "claims": [
            {**found.to_dict(), "vote": _vote(ballot, id) or None}
            for id, found in ledger.judged().items()
        ],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _vote(ballot: Ballot, id: str) -> str:
    said = ballot.cast.get(id, "")
    return "" if said == LOOK else said


def _cell(value: object) -> object:
    """A spreadsheet would run a text that begins like a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
