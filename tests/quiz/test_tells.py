"""Nothing but the subject tells the right option: not its place, length, size or form."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from statistics import mean, median

import pytest

from quiz import bank
from quiz.items import RIGHT, Item

TEMPLATES = [name for topic in bank.topics().values() for name in topic.templates]
IN_WORDS = [name for name in TEMPLATES if "text" in bank.topic_of(name).templates[name]["right"]]
IN_NUMBERS = [name for name in TEMPLATES if name not in IN_WORDS]
SEEDS = range(24)
LONGEST_BY_MEDIAN = 1.6
ABSOLUTE = re.compile(r"\b(always|never|impossible|every single|all of the above)\b", re.IGNORECASE)


@cache
def drawn(template: str) -> tuple[Item, ...]:
    return tuple(bank.make(template, seed) for seed in SEEDS)


def test_the_place_of_the_right_option_is_even() -> None:
    places = Counter(item.keys.index(RIGHT) for name in TEMPLATES for item in drawn(name))
    total = sum(places.values())
    for place in range(4):
        assert abs(places[place] / total - 0.25) < 0.03, places


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_question_has_a_place_of_its_own(template: str) -> None:
    places = Counter(item.keys.index(RIGHT) for item in drawn(template))
    assert max(places.values()) <= 0.55 * len(SEEDS) and len(places) == 4, places


@pytest.mark.parametrize("template", IN_WORDS)
def test_no_option_in_words_stands_out_by_its_length(template: str) -> None:
    words = bank.topic_of(template).templates[template]
    texts = [words["right"]["text"], *(said["text"] for said in words["wrong"].values())]
    middle = median(len(text) for text in texts)
    for text in texts:
        assert middle / LONGEST_BY_MEDIAN <= len(text) <= LONGEST_BY_MEDIAN * middle, text


def test_the_right_option_is_the_longest_or_the_shortest_as_often_as_chance_has_it() -> None:
    def longest(item: Item) -> bool:
        return max(item.options, key=lambda one: len(one.text)).key == RIGHT

    def shortest(item: Item) -> bool:
        return min(item.options, key=lambda one: len(one.text)).key == RIGHT

    items = [item for name in IN_WORDS for item in drawn(name)]
    assert 0.10 <= mean(map(longest, items)) <= 0.40
    assert mean(map(shortest, items)) <= 0.40


@pytest.mark.parametrize("template", IN_WORDS)
def test_no_option_gives_itself_away_by_an_absolute(template: str) -> None:
    words = bank.topic_of(template).templates[template]
    for said in (words["right"], *words["wrong"].values()):
        assert not ABSOLUTE.search(said["text"]), said["text"]


def _figure(text: str) -> str:
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert found, text
    return found.group()


def _form(text: str) -> str:
    """An option without its numbers, and in the plural."""
    bare = re.sub(r"\d[\d,]*(\.\d+)?", "#", text)
    return re.sub(r"^(# [a-z-]+?)s?$", r"\1s", bare)


@pytest.mark.parametrize("template", IN_NUMBERS)
def test_all_figures_of_a_question_have_the_same_form(template: str) -> None:
    for item in drawn(template):
        assert len({_form(one.text) for one in item.options}) == 1, item.options
        figures = [_figure(one.text) for one in item.options]
        places = {len(figure.partition(".")[2]) for figure in figures}
        if len(places) > 1:  # else three digits each, and from 100 on whole
            for figure in figures:
                digits = re.sub(r"^0\.0*|[.,]", "", figure)
                assert len(digits) == 3 or ("." not in figure and len(digits) > 3), figures
        assert len({bool(one.aside) for one in item.options}) == 1, item.options


def _value(text: str) -> float:
    return float(_figure(text).replace(",", ""))


def test_the_right_number_is_as_often_small_as_large() -> None:
    """By rank among the four of a question. The one in the middle is right more often than not,
    since misconceptions err on both sides; the ends are not left to them either."""
    ranks: Counter[int] = Counter()
    for name in IN_NUMBERS:
        for item in drawn(name):
            values = sorted(_value(one.text) for one in item.options)
            ranks[values.index(_value(item.option(RIGHT).text))] += 1
    total = sum(ranks.values())
    for rank in range(4):
        assert 0.08 <= ranks[rank] / total <= 0.42, ranks


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_question_fits_into_what_progress_keeps(template: str) -> None:
    for item in drawn(template):
        assert len(item.sign) <= 200
