"""Charts, recorded runs and links of the lessons: each resolves, and shows what it says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import jsonschema_rs
import pytest

from tests.lessons.conftest import READ, words_of
from ui import lesson, links, nav, runs
from ui.batching import place as batching
from ui.claims import place as claims
from ui.course import place as course
from ui.kit import text
from ui.numbers import place as numbers
from ui.paths import LESSONS
from ui.planner import place as planner
from ui.prefill import place as prefill
from ui.prefix import place as prefix
from ui.reading import charts, document, run_card
from ui.roofline import place as roofline
from ui.sizing import place as sizing

CHARTS = sorted(charts.FOLDER.glob("*.json"))
READERS: dict[str, Callable[..., Any]] = {
    "batching": batching.read,
    "block_pool": links.read,
    "capacity_planner": planner.read,
    "claims_ledger": claims.read,
    "course": course.read,
    "kv_sizing": sizing.read,
    "numbers": numbers.read,
    "prefill_decode": prefill.read,
    "prefix_cache": prefix.read,
    "roofline": roofline.read,
}
SHARED = ("level", "present")


def figures(kind: type) -> Iterator[tuple[str, Any]]:
    for name in READ:
        for section, said in words_of(name).sections.items():
            if section not in document.APART:
                for block in document.blocks(said):
                    if isinstance(block, kind):
                        yield name, block


# --- charts ------------------------------------------------------------------------------------


def test_every_chart_is_used_and_every_used_one_is_there() -> None:
    assert {block.name for _, block in figures(document.Chart)} == {file.stem for file in CHARTS}


@pytest.mark.parametrize("file", CHARTS, ids=lambda file: file.stem)
def test_a_chart_keeps_the_schema_and_can_be_drawn(file: Any) -> None:
    schema = json.loads((LESSONS / "chart.schema.json").read_text(encoding="utf-8"))
    spec = json.loads(file.read_text(encoding="utf-8"))
    jsonschema_rs.validator_for(schema).validate(spec)
    data = charts.data(file.stem)
    assert data["label"]["label"] == "MODELLED"
    places = data["x"]["values"]
    assert places == sorted(set(places))
    assert not data["x"]["log"] or places[0] > 0
    assert len({line["name"] for line in data["lines"]}) == len(data["lines"])
    for line in data["lines"]:
        there = [value for value in line["values"] if value is not None]
        assert len(there) >= 2, line["name"]
        assert all(math.isfinite(value) for value in there)
        assert not data["y"]["log"] or min(there) > 0, line["name"]
        assert line["call"].startswith(tuple(one["function"] for one in spec["lines"]))
    for rule in data["rules"]:
        if rule["axis"] == "x":
            assert places[0] <= rule["at"] <= places[-1], "a rule that nobody sees"


def test_a_chart_varies_the_input_it_names_and_converts_to_its_unit() -> None:
    spec = {
        "title": "t", "about": "a", "x": {"label": "x", "name": "tokens", "values": [1024, 2048]},
        "y": {"label": "y", "unit": "MiB"},
        "lines": [
            {"label": "a", "function": "kv_bytes_sequence", "inputs": {"model": "llama-3-70b"}},
            {"label": "b", "function": "kv_bytes_sequence", "scale": 2,
             "inputs": {"model": "llama-3-70b", "tokens": "$x", "dtype": "fp8"}},
        ],
    }  # fmt: skip
    data = charts.computed(spec)
    assert data["lines"][0]["values"] == [320.0, 640.0]
    assert data["lines"][1]["values"] == [2.0 * 1024 * 163840, 2.0 * 2048 * 163840]
    assert data["label"]["source"]["inputs"] == {"by": "kv_bytes_sequence", "model": "llama-3-70b"}


@pytest.mark.parametrize(
    ("axis", "wanted"),
    [
        ({"from": 1, "to": 100, "points": 3, "log": True}, [1, 10, 100]),
        ({"from": 0, "to": 1.0, "points": 3}, [0, 0.5, 1.0]),
        ({"from": 1, "to": 3, "points": 9}, [1, 2, 3]),
        ({"values": [4, 8]}, [4, 8]),
    ],
)
def test_the_places_of_an_axis(axis: dict[str, Any], wanted: list[float]) -> None:
    assert charts.values_of(axis) == pytest.approx(wanted)


def test_a_chart_that_is_not_there_says_its_name() -> None:
    with pytest.raises(charts.ChartError, match=r"charts/no_such\.json"):
        charts.data("no_such")


# --- recorded runs -----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "run"), list(figures(document.Run)))
def test_a_recorded_run_is_there_and_its_link_is_one(name: str, run: document.Run) -> None:
    played = runs.recorded(run.name)
    assert played.header["label"] == "RECORDED"
    page, query = run_card.target(run)
    assert page in nav.PLACES
    assert READERS[page](query)[1] is None, query
    path = runs.recorded_path(run.name)
    assert path is not None
    step = int(run.query.get("step", "0"))
    drawn = run_card._picture(path, path.stat().st_mtime_ns, run.name, step)
    blocks = played.header["scenario"]["engine"]["num_blocks"]
    assert drawn.count("<i") == blocks
    assert f"A pool of {blocks} blocks" in drawn


def test_the_picture_of_a_step_says_whose_blocks_they_are() -> None:
    path = runs.recorded_path("two_answers_one_prefix")
    assert path is not None
    drawn = run_card._picture(path, path.stat().st_mtime_ns, "two_answers_one_prefix", 2)
    assert "A pool of 16 blocks: A 4, B 4, C 1, 2 of them shared, 7 free." in drawn
    assert "Step 2 of 0 to 16." in drawn and "6 → 7" in drawn
    assert drawn.count("shared") == 3
    with pytest.raises(ValueError, match="steps 0 to 16"):
        run_card._picture(path, path.stat().st_mtime_ns, "two_answers_one_prefix", 17)


# --- links -------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^()\s]+)\)")


def targets(said: str) -> list[str]:
    return LINK.findall(re.sub(r"`[^`]*`|\$[^$\n]*\$", "", said))


def check_link(target: str) -> None:
    if target.startswith(("https://", "http://")):
        assert re.fullmatch(r"https?://[a-z0-9.-]+\.[a-z]{2,}(?:/\S*)?", target), target
        return
    name, _, query = target.partition("?")
    params = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    planned = {place.name: place for place in nav.planned()}
    assert name in planned, target
    rest = {key: value for key, value in params.items() if key not in SHARED}
    if params.get("level"):
        assert params["level"] in text.LEVELS, target
    if planned[name].reads:
        assert rest.keys() <= {"at"}, target
        if "at" in rest:
            assert rest["at"] in document.part_names(lesson.load(name)), target
    elif name in READERS:
        read, notice = READERS[name](rest)
        assert notice is None, target
        if name == "block_pool":
            assert not rest.keys() - {"scenario", "run", "step", "block", "view", "size"}, target
            assert read.run is None or runs.recorded_path(read.run), target


@pytest.mark.parametrize("name", READ)
def test_every_link_leads_somewhere(name: str) -> None:
    for said in words_of(name).sections.values():
        for target in targets(said):
            check_link(target)


@pytest.mark.parametrize(
    "target",
    [
        "no_page", "tiers?at=nowhere", "claims_ledger?claim=X1", "https://nodot",
        "numbers?number=x", "tiers?step=3", "block_pool?run=none", "/tiers", "metrics?level=Deep",
    ],
)  # fmt: skip
def test_a_link_that_leads_nowhere_is_found(target: str) -> None:
    with pytest.raises(Exception):  # noqa: B017 — whichever way it is found
        check_link(target)
