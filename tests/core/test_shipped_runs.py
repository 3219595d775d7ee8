"""The recorded runs that ship with the course: each verifies, and says where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import read_run

RUNS = Path(__file__).resolve().parents[2] / "runs"
FILES = sorted(RUNS.glob("*.run.json.gz"))


def test_there_are_four() -> None:
    assert len(FILES) >= 4


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_shipped_run_verifies(path: Path) -> None:
    run = read_run(path)
    verify(run)
    assert run.header["label"] == "RECORDED"
    assert run.header["source"]["model_sha256"]
    revision = run.header["revision"]
    assert revision and not revision.endswith("+"), "recorded by code that was not committed"


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_shipped_run_is_that_of_its_scenario(path: Path) -> None:
    name = path.name.removesuffix(".run.json.gz")
    scenario = json.loads((RUNS / "scenarios" / f"{name}.json").read_text("utf-8"))
    assert read_run(path).scenario == Scenario.from_dict(scenario)
