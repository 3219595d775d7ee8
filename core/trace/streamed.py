"""A run that comes in pieces, and a run in pieces: the same messages from an engine and a file.

    header · step · step · … · end          each a (kind, value)

A streamed step may hold `token_text` and `prompts` of what came after the header was written; put
together, they belong to the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.trace.run import Run

Json = dict[str, Any]
Message = tuple[str, Json]
"""("header" | "step" | "text" | "queue" | "end", value)."""


class RunBuilder:
    """Puts a run together from its messages; it may be asked for at any time."""

    def __init__(self) -> None:
        self.header: Json | None = None
        self.steps: list[Json] = []
        self.results: Json = {}
        self.end: Json | None = None

    def add(self, kind: str, value: Json) -> None:
        """Take in one message."""
        if kind == "header":
            self.header = {
                **value,
                "prompts": dict(value["prompts"]),
                "token_text": dict(value["token_text"]),
            }
        elif kind == "step" and self.header is not None:
            step = dict(value)
            self.header["token_text"].update(step.pop("token_text", {}))
            prompts = step.get("prompts", {})
            self.header["prompts"].update(prompts)
            scenario = self.header["scenario"]
            known = {request["id"] for request in scenario["requests"]}
            joined = [
                {"id": name, "arrive_step": step["step"], "prompt_tokens": tokens}
                for name, tokens in prompts.items()
                if name not in known and tokens
            ]
            if joined:
                requests = [*scenario["requests"], *joined]
                self.header["scenario"] = {**scenario, "requests": requests}
            self.steps.append(step)
        elif kind == "end":
            self.end = value
            self.results = value.get("results", {})

    def run(self) -> Run | None:
        """What there is so far; None before the header."""
        if self.header is None:
            return None
        return Run(self.header, self.steps, self.results)


def play(run: Run) -> Iterator[Message]:
    """A recorded run as the messages in which a live one comes."""
    yield "header", run.header
    for step in run.steps:
        yield "step", step
    yield "end", {"end": "finished", "message": "", "results": run.results}
