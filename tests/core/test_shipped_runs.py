"""The recorded runs that ship with the course: each verifies, and says where it comes from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import read_run

RUNS = Path(__file__).resolve().parents[2] / "runs"
CPU_FILES = sorted(RUNS.glob("*.run.json.gz"))
GPU_FILES = sorted(RUNS.glob("gpu/*/*.run.json.gz"))
FILES = CPU_FILES + GPU_FILES


def test_there_are_four() -> None:
    assert len(CPU_FILES) >= 4


def test_each_lies_where_runs_of_its_device_lie() -> None:
    """One device's run in another's place would pass for it."""
    for path in FILES:
        device = read_run(path).header["source"]["device"]
        slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
        expected = RUNS if device == "CPU" else RUNS / "gpu" / slug
        assert path.parent == expected, (path, device)


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
