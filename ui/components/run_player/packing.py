"""The form in which a run travels to the browser: the same run in a tenth of the room.

What most steps have in common is not said again. A `scheduled` event that only goes on where the
sequence stopped, and a sampled token that is one more than the last (a scripted run's are), become
the number of the sequence; other events become rows beside a list of their shapes; prompts are said
once; `scheduled` is left to the events it follows from. js/packing.js undoes it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Json = dict[str, Any]

PLAIN_BELOW = 24_000
"""Characters: a shorter run is sent as it is, and drawn without waiting for its decompression."""
SCHEDULED, SAMPLED = -1, -2
"""First entries of a row that holds events of one type, one after another."""
COUNTS = ("num_scheduled_tokens", "num_computed_tokens", "num_cached_tokens")
USAGE = ("free", "cached", "in_use")
NAMES = ("request", "sequence")
_SCHEDULED_KEYS = {"type", *NAMES, *COUNTS}
_SAMPLED_KEYS = {"type", *NAMES, "token"}


@dataclass(frozen=True)
class PackedRun:
    """A run as the browser gets it, and its digest.

    text: JSON, or the same gzipped and in base64, which begins with "H4sI".
    """

    text: str
    id: str

    @property
    def plain(self) -> str:
        """The same as JSON, for a component that draws at once; packing.js's `readRun` reads it."""
        if not self.text.startswith("H4sI"):
            return self.text
        return gzip.decompress(base64.b64decode(self.text)).decode()

    def run(self) -> Json:
        """The run, read anew: what `pack` was given, without the optional states."""
        return unpack(json.loads(self.plain))


def pack(run: Json) -> PackedRun:
    """Prepares a run for `run_player`; keep the result in a cache where a run is shown again."""
    text = json.dumps(packed(run), separators=(",", ":"), ensure_ascii=False)
    raw = text.encode("utf-8", "backslashreplace")
    if len(text) >= PLAIN_BELOW:
        text = base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")
    return PackedRun(text, hashlib.blake2b(raw, digest_size=12).hexdigest())


@lru_cache(maxsize=65_536)
def _request_of(sequence: str) -> str:
    return sequence.rpartition("#")[0] if "#" in sequence else sequence


def _shares(events: list[Json]) -> Json:
    return {e["sequence"]: {k: e[k] for k in COUNTS} for e in events if e["type"] == "scheduled"}


class _Memory:
    """What both sides remember from event to event, by sequence."""

    def __init__(self) -> None:
        self.end: dict[str, int] = {}  # tokens known after its last turn
        self.token: dict[str, int] = {}  # what it sampled last
        self.key: dict[str, str] = {}  # of its last block that became matchable


class _Packer(_Memory):
    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, int] = {}
        self.shapes: dict[tuple[str, ...], int] = {}

    def name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def step(self, index: int, step: Json) -> Json:
        out = {k: v for k, v in step.items() if k not in ("state", "events")}
        if out.get("step") == index:
            del out["step"]
        if out.get("scheduled") == _shares(step["events"]):
            del out["scheduled"]
        if tuple(out.get("usage", ())) == USAGE:
            out["usage"] = list(out["usage"].values())
        rows: list[list[Any]] = []
        for event in step["events"]:
            kind, row = self.event(event)
            if kind and rows and rows[-1][0] == kind:
                rows[-1].append(row)
            else:
                rows.append([kind, row] if kind else row)
        out["events"] = rows
        return out

    def event(self, event: Json) -> tuple[int, Any]:
        """(SCHEDULED or SAMPLED, entry), or (0, whole row)."""
        kind, sequence = event["type"], event.get("sequence")
        regular = sequence is not None and event.get("request") == _request_of(sequence)
        if kind == "scheduled" and regular and event.keys() == _SCHEDULED_KEYS:
            counts = [event[k] for k in COUNTS]
            goes_on = counts == [1, self.end.get(sequence), 0]
            self.end[sequence] = sum(counts)
            return SCHEDULED, self.name(sequence) if goes_on else [self.name(sequence), *counts]
        if kind == "token_sampled" and regular and event.keys() == _SAMPLED_KEYS:
            token, last = event["token"], self.token.get(sequence)
            self.token[sequence] = token
            one_more = last is not None and token == last + 1
            return SAMPLED, self.name(sequence) if one_more else [self.name(sequence), token]
        row: list[Any] = [self.shapes.setdefault(tuple(event), len(self.shapes)), kind]
        for field, value in event.items():
            if field == "type":
                continue
            if field in NAMES:
                value = self.name(value)
            elif field == "sequences":
                value = [self.name(name) for name in value]
            elif field == "parent_key" and value is not None and value == self.key.get(sequence):
                value = 1
            row.append(value)
        if kind == "block_cached" and event["keys"]:
            self.key[sequence] = event["keys"][-1]
        return 0, row


def packed(run: Json) -> Json:
    """The short form, as JSON values."""
    packer = _Packer()
    steps = [packer.step(i, step) for i, step in enumerate(run["steps"])]
    header = run["header"]
    prompts = header.get("prompts", {})
    requests = [
        {**r, "prompt_tokens": 1} if r.get("prompt_tokens") and _same(r, prompts) else r
        for r in header["scenario"]["requests"]
    ]
    short = {**header, "scenario": {**header["scenario"], "requests": requests}}
    shapes = [[f for f in shape if f != "type"] for shape in packer.shapes]
    return {
        **{k: v for k, v in run.items() if k not in ("header", "steps")},
        "packed": 1,
        "header": short,
        "names": list(packer.names),
        "shapes": shapes,
        "steps": steps,
    }


def _same(request: Json, prompts: Json) -> bool:
    return bool(prompts.get(request["id"]) == request["prompt_tokens"])


class _Unpacker(_Memory):
    def __init__(self, names: list[str], shapes: list[list[str]]) -> None:
        super().__init__()
        self.names, self.shapes = names, shapes

    def step(self, index: int, step: Json) -> Json:
        events = [event for row in step["events"] for event in self.row(row)]
        out = {"step": index, "scheduled": _shares(events), **step, "events": events}
        if isinstance(out.get("usage"), list):
            out["usage"] = dict(zip(USAGE, out["usage"], strict=True))
        return out

    def row(self, row: list[Any]) -> list[Json]:
        if row[0] == SCHEDULED:
            return [self.scheduled(entry) for entry in row[1:]]
        if row[0] == SAMPLED:
            return [self.sampled(entry) for entry in row[1:]]
        event: Json = {"type": row[1]}
        for field, value in zip(self.shapes[row[0]], row[2:], strict=True):
            if field in NAMES:
                value = self.names[value]
            elif field == "sequences":
                value = [self.names[name] for name in value]
            elif field == "parent_key" and value == 1:
                value = self.key[event["sequence"]]
            event[field] = value
        if event["type"] == "block_cached" and event["keys"]:
            self.key[event["sequence"]] = event["keys"][-1]
        return [event]

    def scheduled(self, entry: Any) -> Json:
        number, *counts = entry if isinstance(entry, list) else [entry]
        name = self.names[number]
        counts = counts or [1, self.end[name], 0]
        self.end[name] = sum(counts)
        known = {"type": "scheduled", "request": _request_of(name), "sequence": name}
        return {**known, **dict(zip(COUNTS, counts, strict=True))}

    def sampled(self, entry: Any) -> Json:
        number, *token = entry if isinstance(entry, list) else [entry]
        name = self.names[number]
        self.token[name] = token[0] if token else self.token[name] + 1
        known = {"type": "token_sampled", "request": _request_of(name), "sequence": name}
        return {**known, "token": self.token[name]}


def unpack(short: Json) -> Json:
    """The run of which `packed` made this."""
    unpacker = _Unpacker(short["names"], short["shapes"])
    header = short["header"]
    requests = [
        {**r, "prompt_tokens": header["prompts"][r["id"]]} if r.get("prompt_tokens") == 1 else r
        for r in header["scenario"]["requests"]
    ]
    rest = {k: v for k, v in short.items() if k not in ("packed", "names", "shapes")}
    return {
        **rest,
        "header": {**header, "scenario": {**header["scenario"], "requests": requests}},
        "steps": [unpacker.step(i, step) for i, step in enumerate(short["steps"])],
    }
