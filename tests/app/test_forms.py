"""The form and the scenario file say the same thing."""

from __future__ import annotations

import json

import pytest

from core.errors import ScenarioError
from core.scenario import Scenario
from ui import catalogue, forms, runs


@pytest.mark.parametrize("slug", list(catalogue.entries()))
def test_built_in_scenarios_survive_the_form(slug: str) -> None:
    scenario = Scenario.from_json(catalogue.entries()[slug].text)
    engine, rows = forms.to_form(scenario)
    again = Scenario.from_dict(forms.to_scenario(engine, rows, name=scenario.name))
    assert again == scenario
    assert forms.fits_form(scenario)


@pytest.mark.parametrize("slug", list(catalogue.entries()))
def test_the_short_form_is_the_same_scenario(slug: str) -> None:
    scenario = Scenario.from_json(catalogue.entries()[slug].text)
    assert Scenario.from_dict(forms.minimal(scenario)) == scenario
    assert Scenario.from_json(forms.pretty(scenario)) == scenario


def test_no_requests_is_still_a_scenario() -> None:
    assert Scenario.from_json(forms.pretty(Scenario())) == Scenario()


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"id": "A", "prompt_tokens": "1, two"}, "requests[0].prompt_tokens"),
        ({"id": "A", "prompt_tokens": "{}"}, "requests[0].prompt_tokens"),
        ({"id": "A", "prompt": "x", "max_tokens": 1.5}, "requests[0].max_tokens"),
        ({"id": "A", "prompt": "x", "n": 0}, "requests[0].n"),
        ({"id": "A", "prompt": "x", "arrive_step": -1}, "requests[0].arrive_step"),
        ({"id": "A#1", "prompt": "x"}, "requests[0].id"),
        ({"id": "A"}, "requests[0]"),
        ({"id": "A", "prompt": "x", "output_tokens": "[[1], [2]]"}, "request"),
    ],
)
def test_a_bad_cell_is_named(row: dict[str, object], path: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(forms.to_scenario({"num_blocks": 16}, [row]))
    assert caught.value.path.startswith(path)


def test_empty_cells_and_rows_are_left_out() -> None:
    nan = float("nan")
    rows = [
        {"id": "A", "prompt": "hi", "prompt_tokens": None, "n": nan, "cache_salt": ""},
        {"id": None, "prompt": None},
    ]
    made = forms.to_scenario({}, rows)
    assert made["requests"] == [{"id": "A", "prompt": "hi"}]


def test_what_the_form_cannot_show_is_left_to_json() -> None:
    scenario = Scenario.from_dict(
        {"schema": "scenario/1", "requests": [{"id": "A", "prompt": "x", "stop_token_ids": [3]}]}
    )
    assert not forms.fits_form(scenario)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"engine": {"num_blocks": 1_048_577}}, "engine.num_blocks"),
        ({"requests": [{"id": "A", "prompt": "x", "arrive_step": 90_000}]}, "requests[0].arrive"),
        (
            {
                "engine": {"max_model_len": 1_000_000, "num_blocks": 60_000},
                "requests": [{"id": "A", "prompt": "x", "max_tokens": 900_000}],
            },
            "requests",
        ),
    ],
)
def test_what_would_keep_others_waiting_is_refused(change: dict[str, object], path: str) -> None:
    text = json.dumps({"schema": "scenario/1", **change})
    with pytest.raises(ScenarioError) as caught:
        runs.simulate(text)
    assert caught.value.path.startswith(path)
