"""The further topics: every number comes out again when it is computed in another way, and what
shows an answer is there."""

from __future__ import annotations

import pytest

from quiz import bank
from tests.quiz import again_memory, again_serving  # noqa: F401  they fill CHECKS
from tests.quiz.again import CHECKS, number
from ui import catalogue, nav, runs
from ui.batching import place as batching
from ui.claims import place as claims
from ui.planner import place as planner
from ui.prefix import place as prefix
from ui.roofline import place as roofline
from ui.sizing import place as sizing

SEEDS = range(25)

NINE = (
    "quantisation",
    "tiers",
    "disaggregation",
    "mla",
    "speculation",
    "failures",
    "decisions",
    "operating",
    "engines",
)
TEMPLATES = [name for topic in NINE for name in bank.topics()[topic].templates]


def test_every_topic_is_large_enough_and_half_of_it_is_numbers() -> None:
    drawn = [name for name in TEMPLATES if bank.varies(name)]
    assert {*drawn} == {*CHECKS}
    assert len(TEMPLATES) >= 66
    for topic in NINE:
        templates = bank.topics()[topic].templates
        assert len(templates) >= 7
        assert 2 * sum(bank.varies(name) for name in templates) >= len(templates), topic


@pytest.mark.parametrize("template", sorted(CHECKS))
def test_the_answer_and_each_slip_are_what_they_are_said_to_be(template: str) -> None:
    for seed in SEEDS:
        item = bank.make(template, seed)
        expected = CHECKS[template](item.sign.split(" ")[1:], item)
        for option in item.options:
            if isinstance(expected.get(option.key), str):
                assert option.text == expected[option.key], (seed, option.key)
            else:
                shown, half = number(option.text)
                assert abs(shown - float(expected[option.key])) <= half, (seed, option.key)


PAGES = {
    "kv_sizing": sizing.read,
    "roofline": roofline.read,
    "capacity_planner": planner.read,
    "claims_ledger": claims.read,
    "batching": batching.read,
    "prefix_cache": prefix.read,
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_shows_the_answer_is_there(template: str) -> None:
    for seed in range(8):
        item = bank.make(template, seed)
        link = item.proof.link
        if item.proof.page in PAGES:
            asked = {name: str(value) for name, value in link.items()}
            _, refused = PAGES[item.proof.page](asked)
            assert asked and refused is None, (seed, refused)
        elif not link:
            assert item.proof.page in {place.name for place in nav.COURSE}
        elif "run" in link:
            played = runs.recorded(str(link["run"]))
            assert link["step"] < len(played.data()["steps"])
        else:
            assert "own" in link or link["scenario"] in catalogue.entries()
