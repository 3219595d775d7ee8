"""The whole engine, float32 on the CPU, against `transformers`: in every combination of settings.

Scheduler, block manager, prefix cache and model all take part, and every step is compared with the
reduced events (`debug=True`). Tokens are the oracle's, also those drawn with a seed, and so are
log-probabilities of outputs and prompts, within 1e-4.
"""

from __future__ import annotations

import functools

import families
import matrix
import pytest
from matrix import SMOLLM, Case, pairwise_cover, pairs_of
from matrix_run import Subject, check, make_subject, run_case

COVER = pairwise_cover()


def marked(cases):
    """Cases of the real model are marked so."""
    return [
        pytest.param(case, id=str(case), marks=pytest.mark.model if case.model == SMOLLM else ())
        for case in cases
    ]


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    """`subject(model)`: made when it is first asked for."""
    directory = tmp_path_factory.mktemp("matrix")

    @functools.cache
    def make(model: str) -> Subject:
        return make_subject(model, directory)

    return make


def test_the_cover_is_complete_and_possible():
    covered = set().union(*map(pairs_of, COVER))
    assert covered == set(matrix.possible_pairs())
    assert len(COVER) == len(set(COVER)) < 120
    assert pairwise_cover() == COVER


def test_the_prompts_are_many_and_share_stems():
    for prompts in (matrix.TINY_PROMPTS, matrix.TEXTS):
        assert len(prompts) >= 20
    lengths = {len(prompt) for prompt in matrix.TINY_PROMPTS}
    windows = [c.get("sliding_window") or 0 for n, c in families.CONFIGS.items() if "window" in n]
    assert min(lengths) == 1 and max(lengths) > 64 > max(windows)


@pytest.mark.parametrize("case", marked(COVER))
def test_the_answers_are_the_oracles(subject, case: Case):
    model = subject(case.model)
    check(case, model, run_case(case, model))


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("situation", matrix.FACTORS["situation"])
@pytest.mark.parametrize("model", matrix.FACTORS["model"])
def test_the_answers_are_the_oracles_in_the_full_product(subject, model, situation):
    for case in matrix.product(model, situation):
        check(case, subject(model), run_case(case, subject(model)))
