"""A scenario as a form and back: plain data on both sides, no widgets.

The form's engine half is a dict of values, its other half a table of rows with text cells. What a
cell cannot mean is refused with the same path that the scenario reader would name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.config import EngineConfig
from core.errors import ScenarioError
from core.scenario import RequestSpec, Scenario

MAX_ROWS = 500
"""A table that a person edits. Larger scenarios are JSON or a file."""


@dataclass(frozen=True, slots=True)
class EngineField:
    """One engine setting. options: the words it may take; None for a number or a switch."""

    name: str
    label: str
    options: tuple[str, ...] | None = None
    help: str = ""


ENGINE_FIELDS = (
    EngineField("num_blocks", "Blocks in the pool"),
    EngineField("block_size", "Slots a block", help="Tokens that one block holds"),
    EngineField("max_num_seqs", "Sequences at once"),
    EngineField("max_num_batched_tokens", "Tokens a step", help="The budget of one step"),
    EngineField("max_model_len", "Longest sequence", help="Prompt and answer together, in tokens"),
    EngineField(
        "long_prefill_token_threshold", "Largest chunk", help="0: only the budget limits it"
    ),
    EngineField("watermark", "Watermark", help="Share of the pool that admission leaves free"),
    EngineField("prefix_cache", "Prefix cache", ("radix", "hash", "off")),
    EngineField("eviction", "Eviction", ("lru", "fifo", "lfu")),
    EngineField("batching", "Batching", ("continuous", "static")),
    EngineField("policy", "Policy", ("fcfs", "priority")),
    EngineField("allocator", "Allocator", ("paged", "contiguous")),
    EngineField("reserve", "Contiguous reserve", ("max_model_len", "request")),
    EngineField("chunked_prefill", "Chunked prefill"),
)

TEXT_COLUMNS = ("id", "prompt", "prompt_tokens", "fork_of", "output_tokens", "cache_salt")
NUMBER_COLUMNS = ("arrive_step", "max_tokens", "n", "priority", "cancel_step")
COLUMNS = (
    "id", "arrive_step", "prompt", "prompt_tokens", "max_tokens", "n", "priority", "cache_salt",
    "cancel_step", "output_tokens", "fork_of",
)  # fmt: skip

_ENGINE_DEFAULTS = {f.name: getattr(EngineConfig(), f.name) for f in ENGINE_FIELDS}
_REQUEST_DEFAULTS = RequestSpec(id="A").to_dict()


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _tokens(cell: Any, path: str) -> list[Any]:
    """``1, 2, 3`` or ``[1, 2, 3]`` or ``[[1], [2]]``: a list of token ids, or of lists of them."""
    text = str(cell).strip()
    if not text.startswith("["):
        text = "[" + ",".join(text.replace(",", " ").split()) + "]"
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise ScenarioError(
            path, f"{str(cell)[:60]!r} is not a list of token ids; write 1, 2, 3"
        ) from None
    if not isinstance(value, list):
        raise ScenarioError(path, "not a list of token ids; write 1, 2, 3")
    return value


def to_scenario(
    engine: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    name: str = "My scenario",
    seed: int = 0,
    model: str = "none",
) -> dict[str, Any]:
    """The scenario that a form describes, not yet checked. Raises ScenarioError for a bad cell."""
    requests = []
    for i, row in enumerate(rows):
        request: dict[str, Any] = {}
        for column in COLUMNS:
            cell = row.get(column)
            if _empty(cell):
                continue
            path = f"requests[{i}].{column}"
            if column in ("prompt_tokens", "output_tokens"):
                request[column] = _tokens(cell, path)
            elif column in NUMBER_COLUMNS:
                number = float(cell)
                if not number.is_integer():
                    raise ScenarioError(path, f"{cell} is not a whole number")
                request[column] = int(number)
            else:
                request[column] = str(cell)
        if not request:
            continue  # a row that was added and never filled
        requests.append(request)
    return {
        "schema": "scenario/1",
        "name": name,
        "seed": seed,
        "engine": dict(engine),
        "model": model,
        "requests": requests,
    }


def to_form(scenario: Scenario) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Engine values and table rows that `to_scenario` turns back into this scenario."""
    full = scenario.to_dict()
    engine = {f.name: full["engine"][f.name] for f in ENGINE_FIELDS}
    rows = []
    for request in full["requests"]:
        row: dict[str, Any] = {column: request[column] for column in COLUMNS}
        for column in ("prompt_tokens", "output_tokens"):
            value = row[column]
            if value is None:
                continue
            nested = bool(value) and isinstance(value[0], list)
            row[column] = json.dumps(value) if nested else ", ".join(map(str, value))
        rows.append(row)
    return engine, rows


def fits_form(scenario: Scenario) -> bool:
    """Whether the form can show all of it; what only JSON can say would be lost in the table."""
    if len(scenario.requests) > MAX_ROWS:
        return False
    engine, rows = to_form(scenario)
    rest = {"name": scenario.name, "seed": scenario.seed, "model": scenario.model}
    try:
        again = Scenario.from_dict(to_scenario(engine, rows, **rest))
    except ScenarioError:
        return False
    return again == scenario


def minimal(scenario: Scenario) -> dict[str, Any]:
    """The scenario without what is default anyway: short enough for a link, kind to the eye."""
    full = scenario.to_dict()
    out: dict[str, Any] = {"schema": "scenario/1", "name": full["name"]}
    if full["seed"]:
        out["seed"] = full["seed"]
    defaults = Scenario().to_dict()["engine"]
    # The five sizes stay: they are what a reader looks for first.
    keep = {f.name for f in ENGINE_FIELDS[:5]}
    out["engine"] = {k: v for k, v in full["engine"].items() if k in keep or v != defaults[k]}
    if full["model"] != "none":
        out["model"] = full["model"]
    out["requests"] = [
        {k: v for k, v in request.items() if k == "id" or v != _REQUEST_DEFAULTS[k]}
        for request in full["requests"]
    ]
    return out


def pretty(scenario: Scenario) -> str:
    """JSON that a person can edit: settings on lines of their own, a line for each request."""
    data = minimal(scenario)
    requests = data.pop("requests")
    head = json.dumps(data, ensure_ascii=False, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(r, ensure_ascii=False) for r in requests)
    body = f"[\n{lines}\n  ]" if requests else "[]"
    return f'{head},\n  "requests": {body}\n}}\n'
