"""Runs worked out by hand from the specification, step by step, against the engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.scenario import Scenario
from core.simulate import simulate, verify
from tests import reference
from tests.core.compare import decisions, of_reference, of_run

HAND = sorted((Path(__file__).parents[1] / "fixtures" / "hand").glob("*.json"))


def test_there_are_enough() -> None:
    assert len(HAND) >= 12


@pytest.mark.parametrize("path", HAND, ids=[path.stem for path in HAND])
def test_engine_agrees_with_the_hand(path: Path) -> None:
    assert_hand(path)


def assert_hand(path: Path) -> None:
    fixture = json.loads(path.read_text("utf-8"))
    run = simulate(Scenario.from_dict(fixture["scenario"]), keep_state=True, debug=True)
    assert len(run.steps) == len(fixture["steps"])
    for expected, record in zip(fixture["steps"], run.steps, strict=True):
        events, state = record["events"], record["state"]
        got = {
            "step": record["step"],
            "scheduled": record["scheduled"],
            "usage": record["usage"],
            "block_tables": state["block_tables"],
            "free_order": state["free_order"],
            "cached": sorted(int(block) for block in state["cached"]),
            "waiting": state["waiting"],
            "running": state["running"],
            "outputs": state["outputs"],
            "decisions": decisions(record),
            "copies": [[e["src"], e["dst"]] for e in events if e["type"] == "block_copied"],
            "evicted": [b for e in events if e["type"] == "block_evicted" for b in e["blocks"]],
        }
        wanted = {key: value for key, value in expected.items() if key != "note"}
        assert got == {**got, **wanted}, expected["note"]
    verify(run)


@pytest.mark.parametrize("path", HAND, ids=[path.stem for path in HAND])
def test_reference_agrees_too(path: Path) -> None:
    """Three ways to one answer: the hand, the engine, and a simulator written without either."""
    scenario = json.loads(path.read_text("utf-8"))["scenario"]
    run = simulate(Scenario.from_dict(scenario), keep_state=True)
    steps = reference.simulate(scenario)
    assert [of_run(record) for record in run.steps] == [of_reference(record) for record in steps]
