"""The ledger as the page shows it: rows that hold no verdict, and one claim with its derivation.

The rows are the same for every visitor and go to the browser once. A verdict leaves this module
only through `detail` and `verdicts`; who may ask for one is `ui.claims.votes`'s to say.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from core.sizing import claims, ledger
from core.sizing.claims import Claim, Judgement
from ui import derivation

TITLES: Final[dict[str, str]] = {
    "basics": "Basics",
    "attention": "Attention",
    "kv_bytes": "Bytes of the KV cache",
    "weights": "Weights",
    "quantization": "Quantisation",
    "quality": "Quality",
    "capacity": "Capacity",
    "paging": "Paging",
    "sharing": "Sharing",
    "prefix": "Prefix cache",
    "roofline": "Roofline",
    "offload": "Offloading",
    "disaggregation": "Disaggregation",
    "mla": "Latent attention",
    "cost": "Cost",
    "planning": "Planning",
    "metrics": "Metrics",
    "engines": "Engines",
}
SOURCES: Final = {"lesson": "Lesson", "chapter": "Chapter"}


@cache
def known() -> dict[str, Claim]:
    """Every claim by its id, in the ledger's order."""
    return {claim.id: claim for claim in ledger.load()}


@cache
def judged() -> dict[str, Judgement]:
    """Every claim recomputed, by its id. Some 0.3 s, once in a process."""
    return claims.judge(tuple(known().values()))


def is_lost(id: str) -> bool:
    """Whether the text has lost what the claim is about: then there is nothing to vote on."""
    return known()[id].parts[0].lost


@cache
def rows() -> dict[str, Any]:
    """What the browser may know before any vote."""
    return {
        "rows": [
            {
                "id": claim.id,
                "source": claim.source,
                "section": claim.section,
                "topic": claim.topic,
                "says": claim.says,
                "lost": is_lost(claim.id),
            }
            for claim in known().values()
        ],
        "topics": TITLES,
        "sources": {
            name: {"title": SOURCES[name], "credit": source.credit}
            for name, source in ledger.sources().items()
        },
        "verdicts": list(claims.VERDICTS),
    }


def verdicts(ids: Any) -> dict[str, str]:
    """The verdicts of these claims."""
    return {id: judged()[id].verdict for id in ids}


def detail(id: str) -> dict[str, Any]:
    """One claim, judged now: what is right, why, and every step behind it. Raises KeyError."""
    wanted = known()[id]
    found = claims.judge([wanted, *(known()[other] for other in wanted.contradicts)])[id]
    parts = []
    for finding in found.findings:
        given = finding.to_dict()
        value = finding.value
        parts.append(
            {
                "what": given["what"],
                "printed": given["printed"],
                "verdict": finding.verdict,
                "reason": finding.reason,
                "needs": finding.part.needs,
                "source": finding.part.source,
                "value": None if value is None else derivation.number(value.number, given["unit"]),
                "derived": derivation.of_value(value),
            }
        )
    return {
        "id": id,
        "verdict": found.verdict,
        "typed": found.typed,
        "needs": found.findings[0].part.needs,
        "parts": parts,
        "conflicts": list(found.conflicts),
        "explanation": wanted.explanation,
        "assumptions": list(wanted.assumptions),
        "command": f"python -m core claims {id}",
    }
