"""The engine against a naive simulator written from the specification alone."""

from __future__ import annotations

import random

import pytest

from core.engine import Engine
from core.runner import ScriptedRunner
from core.scenario import Scenario
from tests import reference
from tests.core.compare import of_reference, of_run
from tests.scenario_gen import random_scenario


def assert_agreement(seed: int, window: int | None = None) -> None:
    scenario = random_scenario(random.Random(seed))
    runner = ScriptedRunner(sliding_window=window)
    run = Engine(Scenario.from_dict(scenario), runner, keep_state=True).run_to_end()
    expected = [of_reference(record) for record in reference.simulate(scenario, window=window)]
    got = [of_run(record) for record in run.steps]
    for mine, theirs in zip(got, expected, strict=False):
        assert mine == theirs, f"seed {seed}"
    assert len(got) == len(expected), f"seed {seed}"


@pytest.mark.parametrize("batch", range(10))
def test_every_block_id_agrees(batch: int) -> None:
    for seed in range(60 * batch, 60 * (batch + 1)):
        assert_agreement(seed)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 9, 15])
def test_every_block_id_agrees_with_a_sliding_window(window: int) -> None:
    for seed in range(60):
        assert_agreement(1_000 * window + seed, window)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("batch", range(20))
def test_every_block_id_agrees_at_length(batch: int) -> None:
    for seed in range(10_000 + 1_000 * batch, 10_000 + 1_000 * (batch + 1)):
        assert_agreement(seed)
