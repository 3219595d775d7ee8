"""The studies of the batching page: which runs stand under each other.

A study is a few runs of the same requests. Recorded ones were made on a real model; simulated ones
are made now, by the same scheduler, from what the controls say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import streamlit as st

from core.trace.serving_metrics import serving
from ui import runs
from ui.batching import arrivals
from ui.components.gantt import Lane
from ui.components.run_player import PackedRun

Json = dict[str, Any]

RECORDED = {
    "policies": {"Static": "static_batch", "Continuous": "continuous_batch"},
    "pressure": {
        "Nothing held back": "pressure_thrash",
        "Watermark 20 %": "pressure_watermark",
        "Four places": "pressure_fewer_places",
    },
}
WHOLE = "long_prompt_whole"
CHUNKED = {256: "long_prompt_chunks_256", 64: "long_prompt_chunks_64"}


@dataclass(frozen=True, slots=True)
class Shown:
    """title: of the picture. axis: in which it is first drawn."""

    title: str
    lanes: list[Lane]
    axis: str = "steps"


def shown(place: Mapping[str, Any]) -> Shown:
    """The runs that a place asks for. Raises KVScopeError."""
    study = place["study"]
    if study == "arrivals":
        return Shown(arrivals.title(place), _both_policies(arrivals.scenario(place)))
    if study == "landing":
        chunk = place["chunk"]
        names = {"The whole prompt in one step": WHOLE, f"{chunk} tokens a step": CHUNKED[chunk]}
        long = max(figures(WHOLE)["rows"], key=lambda row: row["prompt_tokens"])
        title = f"A prompt of {long['prompt_tokens']:,} tokens lands among running answers"
        return Shown(title, _recorded(names), "ms")
    if study == "policies":
        if place["source"] == "recorded":
            return Shown("Eight answers of unlike length", _recorded(RECORDED[study]))
        seats = place["seats"]
        title = f"The same eight answers, {seats} {'place' if seats == 1 else 'places'}"
        return Shown(title, _both_policies(rerun(RECORDED[study]["Continuous"], seats)))
    if place["source"] == "recorded":
        return Shown("Eight requests outgrow the pool", _recorded(RECORDED[study]))
    base = RECORDED[study]["Nothing held back"]
    seats, percent = place["seats"], place["watermark"]
    lanes = {
        "Nothing held back, 8 places": rerun(base, 8),
        f"Watermark {percent} %, {seats} places": rerun(base, seats, percent / 100),
    }
    return Shown("The same eight requests, your admission", simulated(lanes))


def lane(name: str, played: runs.Played) -> Lane:
    return Lane(name, played.packed, figures_text(played.packed))


def _recorded(names: Mapping[str, str]) -> list[Lane]:
    return [lane(title, runs.recorded(name)) for title, name in names.items()]


def simulated(scenarios: Mapping[str, str]) -> list[Lane]:
    """scenarios: the name of a lane → the scenario's text."""
    return [lane(name, runs.simulate(text)) for name, text in scenarios.items()]


def _both_policies(text: str) -> list[Lane]:
    static = json.loads(text)
    static["engine"]["batching"] = "static"
    return simulated({"Static": json.dumps(static), "Continuous": text})


@lru_cache(maxsize=64)
def rerun(name: str, seats: int, watermark: float | None = None) -> str:
    """A recorded run's requests as a scenario without a model, under other settings: the same
    prompts, token by token, and answers as long as the model's were."""
    data = runs.recorded(name).data()
    scenario: Json = data["header"]["scenario"]
    engine = {**scenario["engine"], "max_num_seqs": seats}
    if watermark is not None:
        engine["watermark"] = watermark
    figures = serving(data)
    lengths = {row["request"]: row["output_tokens"] for row in figures["rows"]}
    requests = [
        {
            "id": request["id"],
            "arrive_step": request["arrive_step"],
            "prompt_tokens": data["header"]["prompts"][request["id"]],
            "max_tokens": lengths[request["id"]],
        }
        for request in scenario["requests"]
    ]
    return json.dumps(
        {
            "schema": "scenario/1",
            "name": f"{scenario['name'].partition(',')[0]}, {seats} places",
            "engine": engine,
            "requests": requests,
        }
    )


def figures(name: str) -> Json:
    """The figures of a recorded run, as `serving_metrics.serving` gives them."""
    loaded: Json = json.loads(figures_text(runs.recorded(name).packed))
    return loaded


def figures_text(packed: PackedRun) -> str:
    """The figures of a run as JSON text, made once for all visitors."""
    return _figures(packed.id, packed)


@st.cache_resource(ttl=3600, max_entries=128, show_spinner=False)
def _figures(key: str, _packed: PackedRun) -> str:
    return json.dumps(serving(_packed.run()), separators=(",", ":"))
