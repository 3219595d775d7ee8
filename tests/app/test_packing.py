"""A run on its way to the browser: shorter, and on arrival the same."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import read_run
from tests.scenario_gen import random_scenario
from ui.components.run_player.packing import PackedRun, pack

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
MOST_COMPRESSED = 500_000
"""Bytes of a busy run of 1,000 steps."""


@cache
def busy() -> Json:
    """32 sequences at once on 4,096 blocks, half of them with one system prompt; 1,000 steps."""
    g = random.Random(1)
    system = [g.randrange(100, 9000) for _ in range(128)]

    def request(i: int) -> Json:
        own = [g.randrange(100, 9000) for _ in range(g.randrange(64, 512))]
        prompt = (system if i % 2 else []) + own
        most = g.randrange(100, 250)
        known = {"id": f"R{i}", "arrive_step": 5 * i, "prompt_tokens": prompt}
        return {**known, "max_tokens": most, "ignore_eos": True}

    engine = {
        "num_blocks": 4096,
        "block_size": 16,
        "max_num_seqs": 32,
        "max_num_batched_tokens": 512,
        "max_model_len": 2048,
        "prefix_cache": "hash",
    }
    requests = [request(i) for i in range(170)]
    scenario = {"schema": "scenario/1", "name": "busy", "engine": engine, "requests": requests}
    return simulate(Scenario.from_dict(scenario)).to_dict()


def without_state(run: Json) -> Json:
    steps = [{k: v for k, v in step.items() if k != "state"} for step in run["steps"]]
    return {**run, "steps": steps}


def shipped() -> list[Json]:
    files = sorted((ROOT / "runs").glob("*.run.json.gz"))
    assert files
    return [read_run(file).to_dict() for file in files]


def test_a_busy_run_of_a_thousand_steps_is_small_on_the_wire() -> None:
    run = busy()
    assert len(run["steps"]) >= 1000
    packed = base64.b64decode(pack(run).text)
    assert len(packed) <= MOST_COMPRESSED
    plain = json.dumps(without_state(run), separators=(",", ":")).encode()
    assert len(packed) < len(gzip.compress(plain)) / 2, "no better than compressing it as it is"


def test_what_is_packed_comes_out_again() -> None:
    for run in [busy(), *shipped()]:
        assert pack(run).run() == without_state(run)


def test_odd_runs_come_out_too() -> None:
    """Names that look like those of forks, tokens that go down, keys that begin again."""
    run = shipped()[0]
    key = "a" * 16
    who = {"request": "A#1", "sequence": "A#1"}
    counts = {"num_scheduled_tokens": 1, "num_computed_tokens": 0, "num_cached_tokens": 0}
    cached = {"type": "block_cached", "request": "B", "sequence": "B", "blocks": [1], "index": 0}
    run["steps"] = [
        {
            "step": 0,
            "scheduled": {"A#1": counts, "B": counts},
            "usage": {"free": 1, "cached": 0, "in_use": 3},
            "timing": {"schedule_us": 1.5},
            "events": [
                {"type": "scheduled", **who, **counts},
                {"type": "token_sampled", **who, "token": 9},
                {"type": "token_sampled", "request": "B", "sequence": "B", "token": 9},
                {"type": "token_sampled", "request": "B", "sequence": "B", "token": 0},
                {"type": "token_sampled", "request": "B", "sequence": "B", "token": 1},
                {"type": "scheduled", "request": "B", "sequence": "B", **counts},
                {**cached, "keys": [key], "parent_key": None},
                {**cached, "keys": [], "parent_key": key},
                {**cached, "keys": ["b" * 16], "parent_key": "c" * 16},
            ],
        },
        {"step": 1, "scheduled": {"B": counts}, "usage": {}, "timing": {}, "events": []},
    ]
    assert pack(run).run() == run


def test_the_browser_reads_the_same_run() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    runs = [busy(), *shipped()]
    packed: list[PackedRun] = [pack(run) for run in runs]
    assert {p.text.startswith("H4sI") for p in packed} == {True, False}
    done = subprocess.run(
        [node, str(ROOT / "tests" / "js" / "unpack_cli.mjs")],
        input="\n".join(p.text for p in packed),
        capture_output=True,
        text=True,
        check=True,
    )
    for line, run in zip(done.stdout.splitlines(), runs, strict=True):
        assert json.loads(line) == without_state(run), run["header"]["scenario"]["name"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False).map(random_scenario))
def test_any_run_comes_out_again(scenario: Json) -> None:
    """Forks, preemptions, hits, refusals and all, as the scheduler makes them."""
    run = simulate(Scenario.from_dict(scenario), keep_state=True).to_dict()
    assert pack(run).run() == without_state(run)
