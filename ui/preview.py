"""The landing page's small picture: a run turned into frames, each ready to draw.

The state of every frame comes from the engine's own reducer; nothing is worked out here.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import KVScopeError
from core.request import GIVEN_BACK
from ui import catalogue, runs

MAX_BLOCKS, MAX_BLOCK_SIZE, MAX_STEPS = 16, 6, 40
PREVIEW = "two-answers"
START = 2
"""The frame shown first: the copy, which is the moment to see even where nothing moves."""

Json = dict[str, Any]

# What a step is about, the most telling event first.
HEADS = {
    "block_copied": "Copy-on-write",
    "forked": "Fork",
    "preempted": "Preempted",
    "block_evicted": "Evicted",
    "resumed": "Resumed",
    "admitted": "Admitted",
    "waiting": "Waits",
    "finished": "Finished",
    "blocks_allocated": "New block",
    "block_cached": "Block full",
}


def _blocks(ids: list[int]) -> str:
    names = [str(b) for b in ids]
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return f"{'block' if len(names) == 1 else 'blocks'} {listed}"


def _sentence(event: Json) -> str:
    who = event.get("sequence") or event.get("request") or ""
    kind = event["type"]
    if kind == "block_copied":
        return (
            f"{who} must write into block {event['src']}, which it shares. Only that block "
            f"is copied, {event['src']} → {event['dst']}."
        )
    if kind == "forked":
        names = " and ".join(event["sequences"])
        if "position" in event:
            return f"{event['request']} forks off {event['sequence']}. No block is copied yet."
        return f"{event['request']} forks into {names}. No block is copied yet."
    if kind == "preempted":
        return f"No block is free, so {who} gives its blocks back and keeps what it has written."
    if kind == "block_evicted":
        return f"What {_blocks(event['blocks'])} held in the cache is forgotten to make room."
    if kind in ("admitted", "resumed"):
        hit = event["num_cached_tokens"]
        found = f"{hit} of its {event['num_tokens']} tokens are already in the cache."
        rest = f"All of its {event['num_tokens']} tokens must be computed."
        return f"{who} {'is back' if kind == 'resumed' else 'is let in'}. {found if hit else rest}"
    if kind == "waiting":
        return f"{who} does not fit yet."
    if kind == "finished":
        return f"{who} ends and gives its blocks back."
    if kind == "blocks_allocated":
        return f"{who} takes {_blocks(event['blocks'])}."
    return f"{_blocks(event['blocks']).capitalize()} can now be matched by others."


def headline(events: list[Json]) -> tuple[str, str]:
    """What a step is about: a word or two, and a sentence."""
    for kind, head in HEADS.items():
        for event in events:
            if event["type"] == kind:
                return head, _sentence(event)
    return _work(events)


def _work(events: list[Json]) -> tuple[str, str]:
    """Of a step in which nothing else happened: a piece of a prompt, all tokens anew where nothing
    is kept, or a token each."""
    shares = {e["sequence"]: e["num_scheduled_tokens"] for e in events if e["type"] == "scheduled"}
    longer = [f"{who} computes {count} tokens" for who, count in shares.items() if count > 1]
    if not longer:
        return "Decode", "Every running sequence computes one token."
    others = ", the others one each" if len(longer) < len(shares) else ""
    return "Prefill", f"{', '.join(longer)}{others}."


def _texts(run: Json, tokens: list[int]) -> list[str]:
    known = run["header"].get("token_text", {})
    return [known.get(str(t), str(t)).strip() or "␣" for t in tokens]


def _frame(run: Json, record: Json, state: Json, computed: dict[str, int]) -> Json:
    header = run["header"]
    size = header["scenario"]["engine"]["block_size"]
    blocks: list[Json | None] = [None] * header["scenario"]["engine"]["num_blocks"]
    for block, entry in state["cached"].items():
        blocks[int(block)] = {
            "owners": [],
            "slots": _texts(run, entry["tokens"]),
            "written": [],
            "idle": True,
        }
    twins = {
        e["sequences"][0]: e["sequences"]
        for e in record["events"]
        if e["type"] == "forked" and "position" not in e
    }
    written: set[tuple[int, int]] = set()
    for name, share in record["scheduled"].items():
        end = (
            share["num_computed_tokens"]
            + share["num_cached_tokens"]
            + share["num_scheduled_tokens"]
        )
        for owner in twins.get(name, [name]):
            table = state["block_tables"].get(owner, [])
            for position in range(end - share["num_scheduled_tokens"], end):
                if position // size < len(table) and table[position // size] != GIVEN_BACK:
                    written.add((table[position // size], position % size))
    for name, table in state["block_tables"].items():
        tokens = header["prompts"][name.split("#")[0]] + state["outputs"].get(name, [])
        for i, block in enumerate(table):
            if block == GIVEN_BACK:
                continue
            cell = blocks[block]
            if cell is not None and not cell["idle"]:
                cell["owners"].append(name)
                continue
            part = tokens[i * size : min((i + 1) * size, computed.get(name, 0))]
            blocks[block] = {
                "owners": [name],
                "slots": _texts(run, part),
                "written": [s for s in range(size) if (block, s) in written],
                "idle": False,
            }
    head, text = headline(record["events"])
    copied = [e for e in record["events"] if e["type"] == "block_copied"]
    return {
        "step": record["step"],
        "head": head,
        "text": text,
        "copy": [copied[0]["src"], copied[0]["dst"]] if copied else None,
        "blocks": blocks,
    }


def frames(run: Json) -> list[Json]:
    """One frame for each step."""
    from core.trace.reducer import Reducer

    reducer = Reducer(run["header"])
    out = []
    for record in run["steps"]:
        reducer.apply_step(record)
        out.append(_frame(run, record, reducer.state(), reducer.num_computed_tokens))
    return out


def _small(run: Json) -> bool:
    engine = run["header"]["scenario"]["engine"]
    return (
        engine["num_blocks"] <= MAX_BLOCKS
        and engine["block_size"] <= MAX_BLOCK_SIZE
        and 0 < len(run["steps"]) <= MAX_STEPS
    )


def pick() -> str | None:
    """The recorded run to show: the one that tells most in a small pool, a CPU's if there is one.
    None: there is none."""
    small = []
    for name in runs.recorded_names():
        try:
            run = runs.recorded(name).data()
        except KVScopeError:
            continue
        if _small(run):
            kinds = {event["type"] for step in run["steps"] for event in step["events"]}
            on_cpu = "@" not in name
            small.append((on_cpu, "block_copied" in kinds, len(run["steps"]), name))
    return max(small)[-1] if small else None


@st.cache_resource(ttl=600, max_entries=2, show_spinner=False)
def preview_data(names: tuple[str, ...] = ()) -> Json:
    """What the component draws. names: the recorded runs there are, so that a new one is seen."""
    name = pick()
    played = runs.recorded(name) if name else runs.simulate(catalogue.entries()[PREVIEW].text)
    run = played.data()
    kind, detail = runs.label(played.header)
    engine = run["header"]["scenario"]["engine"]
    made = frames(run)
    sequences: dict[str, int] = {}
    for i, request in enumerate(run["header"]["scenario"]["requests"]):
        for j in range(request.get("n", 1)):
            sequences[request["id"] if request.get("n", 1) == 1 else f"{request['id']}#{j}"] = i
        sequences[request["id"]] = i
    copies = [i for i, frame in enumerate(made) if frame["copy"]]
    count = len(run["header"]["scenario"]["requests"])
    return {
        "title": f"{engine['num_blocks']} blocks, {count} request{'s' if count != 1 else ''}",
        "label": {"kind": kind, "detail": detail},
        "link": {"run": name} if name else {"scenario": PREVIEW},
        "block_size": engine["block_size"],
        "sequences": sequences,
        "frames": made,
        "start": copies[0] if copies else min(START, len(made) - 1),
    }
