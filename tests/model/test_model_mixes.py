"""Any schedule gives the same tokens: random shares, orders, block sizes, hits and preemptions."""

import functools
import random

import pytest
import torch
from model_driver import Driver, check_against_oracle

PROMPTS = [
    [5, 9, 11, 250, 3, 8, 8, 8, 77],
    [5, 9, 11, 250, 3, 8, 8, 8, 100, 101, 102],
    [42],
    list(range(100, 137)),
    [319, 318],
]
NUM_OUTPUTS = 6


@functools.cache
def expected(runner):
    """Each prompt alone, unchunked."""
    out = []
    for prompt in PROMPTS:
        runner.bind(64, 16)
        driver = Driver(runner)
        out.append(driver.run([driver.add(prompt)], NUM_OUTPUTS)[0])
    return out


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("seed", range(12))
def test_any_schedule_gives_the_tokens_of_each_alone(tiny, tiny_oracle, block_size, seed):
    wanted = expected(tiny)
    tiny.bind(300, block_size)
    rng = random.Random(seed)
    driver = Driver(tiny, seed)
    sequences = [driver.add(p) for p in PROMPTS]
    first, second = sequences[:2]
    hit_taken = False
    while todo := [s for s in sequences if s.num_output_tokens < NUM_OUTPUTS]:
        chosen = rng.sample(todo, rng.randint(1, len(todo)))
        if rng.random() < 0.1 and not hit_taken:
            driver.preempt(chosen[0])
        if not hit_taken and not second.num_computed_tokens and first.num_computed_tokens >= 8:
            driver.share_prefix(second, first, 8 // block_size)
            hit_taken = True
        driver.step([(s, rng.randint(1, s.num_tokens - s.num_computed_tokens)) for s in chosen])
    for seq, prompt, tokens in zip(sequences, PROMPTS, wanted, strict=True):
        assert seq.output_tokens == tokens
        rows = torch.stack(driver.logits[seq.id])
        check_against_oracle(tiny_oracle, prompt, tokens, rows)
