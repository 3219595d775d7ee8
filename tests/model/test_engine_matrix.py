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
from matrix import SMOLLM, Case, pairs_of, pairwise_cover
from matrix_run import Subject, check, make_subject, run_case

COVER = pairwise_cover()


def marks(model: str):
    return pytest.mark.model if model == SMOLLM else ()


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


@pytest.mark.parametrize(
    ("number", "case"),
    [pytest.param(i, c, id=str(c), marks=marks(c.model)) for i, c in enumerate(COVER)],
)
def test_the_answers_are_the_oracles(subject, number: int, case: Case):
    model = subject(case.model)
    check(case, model, run_case(case, model, matrix.few(case, number)))


@pytest.mark.parametrize("policy", matrix.FACTORS["policy"])
@pytest.mark.parametrize(
    ("situation", "batching"),
    [("alone", "static"), ("batch", "continuous"), ("mixed", "continuous"), ("forked", "static")],
)
def test_without_a_kv_cache(subject, situation: str, batching: str, policy: str):
    """A step computes sequences whole: there is nothing to share, to copy, to preempt for."""
    case = Case("mistral-window", 4, 0, "off", situation, policy, "paged", batching)
    model = subject(case.model)
    check(case, model, run_case(case, model, slice(None, None, 2), kv_cache=False))


@pytest.mark.model
def test_the_real_model_without_a_kv_cache(subject):
    case = Case(SMOLLM, 4, 0, "off", "mixed", "fcfs", "paged", "continuous")
    model = subject(case.model)
    check(case, model, run_case(case, model, slice(None, 12, 3), kv_cache=False))


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("situation", matrix.FACTORS["situation"])
@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=marks(m)) for m in matrix.FACTORS["model"]]
)
def test_the_answers_are_the_oracles_in_the_full_product(subject, model: str, situation: str):
    for number, case in enumerate(matrix.product(model, situation)):
        part = matrix.few(case, number) if situation == "alone" else slice(None)
        check(case, subject(model), run_case(case, subject(model), part))
