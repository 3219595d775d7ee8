"""Draws: the right distribution, and the same whatever happens around them."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_driver import Driver, generate

from core.sampling.random import request_key, uniform
from core.sampling.sampler import SampleSpec, invert_cdf, probabilities, sample

KEY = (1234, 0)


def spec(row=0, temperature=1.0, key=KEY, index=0, position=0):
    return SampleSpec(row, temperature, key, index, position)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax(temperature):
    """Chi-square over 20,000 draws; the seed is fixed, so this fails always or never."""
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0, 0.5, -50.0]])
    draws = 20_000
    specs = [spec(temperature=temperature, position=p) for p in range(draws)]
    counts = Counter(sample(logits, specs))
    weights = [math.exp(x / temperature) for x in logits[0].tolist()]
    expected = [draws * w / sum(weights) for w in weights]
    chi_square = sum((counts[t] - e) ** 2 / e for t, e in enumerate(expected) if e > 5)
    assert counts[5] == 0
    assert chi_square < 18.47  # the 0.1 % point for 4 degrees of freedom


def test_uniform_numbers_are_uniform_and_uncorrelated():
    for numbers in (
        np.array([uniform(KEY, 0, p) for p in range(4000)]),
        np.array([uniform(KEY, s, 7) for s in range(4000)]),
        np.array([uniform((s, 0), 0, 7) for s in range(4000)]),
        np.array([uniform((7, o), 0, 7) for o in range(4000)]),
    ):
        counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
        assert ((counts - 200) ** 2 / 200).sum() < 43.8  # 0.1 % point, 19 degrees of freedom
        assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.06
        assert len(set(numbers)) == len(numbers)


def test_known_numbers():
    """Recorded runs depend on these: they must not change with numpy or the platform."""
    assert uniform((0, 1), 0, 5) == 0.05096591852472809
    assert uniform((42, 0), 3, 1000) == 0.856002803091533
    assert uniform((2**64 - 1, 0), 0, 0) == 0.23494158814525556


@settings(deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**31),
    st.integers(0, 2**31),
    st.integers(0, 2**31),
)
def test_a_number_depends_on_its_arguments_only(seed, order, index, position):
    first = uniform((seed, order), index, position)
    uniform((seed, order + 1), index, position)
    assert first == uniform((seed, order), index, position)
    assert 0.0 <= first < 1.0


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.data())
def test_alone_or_in_a_batch_the_same_token(seed, rows, data):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, 50, generator=generator) * 3
    specs = [
        spec(
            row=data.draw(st.integers(0, rows - 1)),
            temperature=data.draw(st.sampled_from([0.0, 0.3, 1.0, 1.7])),
            key=(seed, data.draw(st.integers(0, 3))),
            index=data.draw(st.integers(0, 3)),
            position=data.draw(st.integers(0, 100)),
        )
        for _ in range(rows)
    ]
    together = sample(logits, specs)
    alone = []
    for one in specs:
        row = logits[one.row : one.row + 1]
        moved = SampleSpec(0, one.temperature, one.key, one.index, one.position)
        alone += sample(row, [moved])
    assert together == alone


def test_greedy_takes_the_lowest_of_equal_ids():
    logits = torch.tensor([[0.0, 3.0, 1.0, 3.0], [5.0, 5.0, 5.0, 5.0]])
    assert sample(logits, [spec(0, 0.0), spec(1, 0.0)]) == [1, 0]


def test_a_tiny_temperature_is_greedy_and_finite():
    logits = torch.tensor([[100.0, 99.0, -100.0]])
    for temperature in (1e-3, 1e-12, 1e-320):
        assert sample(logits, [spec(temperature=temperature)]) == [0]


def test_a_huge_temperature_is_uniform():
    drawn_from = probabilities(torch.tensor([[5.0, -5.0, 0.0, 3.0]]), [spec(temperature=1e12)])
    assert torch.allclose(drawn_from, torch.full((1, 4), 0.25, dtype=torch.float64))


def test_a_token_of_probability_zero_is_never_drawn():
    p = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]], dtype=torch.float64).repeat(4, 1)
    assert invert_cdf(p, [0.0, 0.4999999, 0.5, 1 - 2**-53]).tolist() == [1, 1, 3, 3]


def test_minus_infinity_is_allowed_and_never_drawn():
    logits = torch.tensor([[-math.inf, 0.0, -math.inf]])
    assert {sample(logits, [spec(position=p)])[0] for p in range(50)} == {1}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(temperature, bad):
    with pytest.raises(FloatingPointError):
        sample(torch.tensor([[0.0, bad, 1.0]]), [spec(temperature=temperature)])


def test_nothing_to_sample():
    assert sample(torch.empty(0, 10), []) == []


def test_keys_of_requests_do_not_collide():
    keys = [request_key(s, 5, 0) for s in (0, 1, 5, -1)]
    keys += [request_key(None, s, order) for s in (0, 1, 5) for order in range(5)]
    assert len(set(keys)) == len(keys)
    assert request_key(9, 0, 1) == request_key(9, 77, 8)


def test_temperature_survives_batching_chunking_and_preemption(tiny):
    prompts = [[5, 6, 7, 8, 9], list(range(60, 90)), [200]]

    def run(chunk, preempt, together):
        out = []
        groups = [[0, 1, 2]] if together else [[0], [1], [2]]
        for group in groups:
            tiny.bind(128, 4, seed=11)
            driver = Driver(tiny, seed=chunk or 0)
            sequences = [driver.add(prompts[i], temperature=1.0, order=i) for i in group]
            if preempt:
                driver.run(sequences, 5, chunk)
                driver.preempt(sequences[0])
            out += driver.run(sequences, 10, chunk)
        return out

    wanted = run(None, False, True)
    assert wanted == run(3, False, True) == run(None, True, True) == run(4, True, False)


def test_twins_draw_their_own_first_tokens(tiny):
    tiny.bind(64, 4)
    driver = Driver(tiny)
    unit = driver.add([5, 6, 7], n=5, temperature=8.0, seed=3)
    [tokens] = driver.step([(unit, 3)])
    assert len(tokens) == 5
    assert len(set(tokens)) > 1


def test_the_scenario_seed_matters_and_a_request_seed_overrides_it(tiny):
    def run(scenario_seed, seed):
        tiny.bind(64, 4, seed=scenario_seed)
        driver = Driver(tiny)
        return driver.run([driver.add([5, 6], temperature=2.0, seed=seed)], 12)

    assert run(0, None) == run(0, None) != run(1, None)
    assert run(0, 7) == run(1, 7) != run(0, 8)


def test_greedy_runs_ignore_the_seed(tiny):
    assert generate(tiny, [[5, 6, 7]], 6)[0] == generate(tiny, [[5, 6, 7]], 6, seed=9)[0]


def test_every_position_and_every_request_draws_anew(tiny):
    """At a huge temperature all tokens are equally likely: what shows is the random numbers."""
    tiny.bind(64, 4)
    driver = Driver(tiny)
    sequences = [driver.add([5, 6, 7], temperature=1e9) for _ in range(3)]
    outputs = driver.run(sequences, 12)
    assert all(len(set(tokens)) > 8 for tokens in outputs)
    assert len({tuple(tokens) for tokens in outputs}) == 3
