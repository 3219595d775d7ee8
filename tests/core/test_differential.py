"""The engine against a naive simulator written from the specification alone."""

from __future__ import annotations

import random

import pytest

from core.engine import Engine
from core.runner import ScriptedRunner
from core.scenario import Scenario
from tests import reference
from tests.core.compare import of_reference, of_run
from tests.scenario_gen import random_scenario, with_forks


def assert_agreement(
    seed: int, window: int | None = None, prompt_logprobs: float = 0.0, forks: bool = False
) -> None:
    """window: of the model. prompt_logprobs: the share of requests that ask for them.

    forks: some requests more, which fork off others while those run.
    """
    scenario = random_scenario(random.Random(seed))
    rng = random.Random(seed)
    for request in scenario["requests"]:
        if rng.random() < prompt_logprobs:
            request["prompt_logprobs"] = 1
    if forks:
        scenario = with_forks(rng, scenario)
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


def test_every_block_id_agrees_where_requests_do_not_read_the_cache() -> None:
    """Trap 15, also on resume, with forks, and beside requests that find what these have cached."""
    for seed in range(600, 700):
        assert_agreement(seed, prompt_logprobs=0.4)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 9, 15])
def test_every_block_id_agrees_with_a_sliding_window(window: int) -> None:
    for seed in range(60):
        assert_agreement(1_000 * window + seed, window)


@pytest.mark.parametrize("batch", range(3))
def test_every_block_id_agrees_with_forks_off_running_sequences(batch: int) -> None:
    for seed in range(20_000 + 60 * batch, 20_060 + 60 * batch):
        window = (None, None, None, 1 + seed % 9)[seed % 4]
        assert_agreement(seed, window, prompt_logprobs=0.1, forks=True)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("batch", range(20))
def test_every_block_id_agrees_at_length(batch: int) -> None:
    for seed in range(10_000 + 1_000 * batch, 10_000 + 1_000 * (batch + 1)):
        assert_agreement(seed)
