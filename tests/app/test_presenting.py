"""Presenting: every page has the keys, and its recorded run is there to go to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.app.conftest import Open
from ui import catalogue, nav, presenting, runs
from ui.paths import LESSONS, PAGES
from ui.reading.document import Run

PLACES = ["", *nav.PLACES]


@pytest.mark.parametrize("here", PLACES)
def test_every_page_leads_to_a_recorded_run_that_is_there(here: str) -> None:
    name, query = presenting.recorded(here)
    assert name in presenting.PLAYERS and name in nav.PLACES
    shown = [run for run in runs.recorded_names() if _shows(run, name, query)]
    assert shown, (name, query)


def _shows(run: str, name: str, query: dict[str, str]) -> bool:
    where, asked = presenting._played(Run(run, {}, ""))
    return where == name and asked.items() <= query.items()


def test_a_lesson_leads_to_the_run_of_its_open_part_or_to_its_first() -> None:
    assert presenting.recorded("failures", "blocking") == (
        "batching",
        {"study": "landing", "chunk": "64", "step": "12"},
    )
    assert presenting.recorded("failures", "queue") == presenting.recorded("failures")
    assert presenting.recorded("failures", "<script>") == presenting.recorded("failures")
    # Its own page shows it in a table; as blocks it plays.
    assert presenting.recorded("failures", "cold")[0] == "block_pool"
    assert presenting.recorded("attention")[1]["run"] == "kv_cache_off"
    assert presenting.recorded("failures") == (
        "batching",
        {"study": "pressure", "step": "15"},
    )


def test_the_list_names_pages_and_runs() -> None:
    listed = json.loads((LESSONS / "present.json").read_text("utf-8"))
    assert set(listed) <= {"", "*", *(place.name for place in nav.planned())}
    assert set(listed.values()) <= set(catalogue.recorded()) & set(runs.recorded_names())


@pytest.mark.parametrize("page", ["home", "exercises", "quiz", "numbers"])
def test_the_keys_are_there_while_presenting_and_only_then(open_page: Open, page: str) -> None:
    def keys(at: Any) -> bool:
        return any("kv_presenter" in str(one.proto) for one in at.get("bidi_component"))

    assert (PAGES / f"{page}.py").is_file()
    assert keys(open_page(page, present="1"))
    assert not keys(open_page(page))
