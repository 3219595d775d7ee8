"""A scenario with a reader's own texts on the engine, waited for."""

from __future__ import annotations

from typing import Any

from core.trace.run import Run
from ui import awaited
from ui.prefix.tokens import MODEL


def run(scenario: dict[str, Any], prompts: list[str]) -> Run:
    """The scenario with these texts as its prompts, on the engine. Raises KVScopeError."""
    requests = [
        {**{k: v for k, v in one.items() if k != "prompt_tokens"}, "prompt": text}
        for one, text in zip(scenario["requests"], prompts, strict=True)
    ]
    return awaited.run({**scenario, "model": MODEL, "requests": requests})
