"""A learner reviews in a real browser: by keyboard, with undo, and over a reload."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quiz import bank, deck
from quiz.items import RIGHT
from quiz.progress import Plan, Progress, moment, written
from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_keeping import AT, KEY, seed, stored
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App

pytestmark = pytest.mark.browser

RIDGE = "number:ridge-h100-sxm5"
MASTERED = Progress(completed={"four-questions": AT})


def _open(page: Any, app: App, known: Progress, query: str = "") -> None:
    seed(page, app, known.to_json())
    page.goto(f"{app.url}/review{query}")


def _reviews(page: Any, count: int) -> Progress:
    page.wait_for_function(
        "([key, count]) => JSON.parse(localStorage.getItem(key)).deck.log.length === count",
        arg=[KEY, count],
    )
    return stored(page)


def test_a_number_by_keyboard_and_back(page: Any, app: App) -> None:
    before = deck.add(Progress(), [RIDGE], AT)
    _open(page, app, before)
    page.get_by_role("heading", name="H100 SXM5, ridge, BF16").wait_for()
    assert page.locator(".shown").count() == 0
    page.get_by_role("button", name="Show it").focus()
    page.keyboard.press("Enter")
    page.locator(".shown", has_text="FLOP/B").wait_for()
    page.keyboard.press("4")
    page.get_by_text("Nothing is due until").wait_for()
    plan = _reviews(page, 1).deck.plans[RIDGE]
    assert (plan.state, plan.reviews) == ("review", 1)
    page.reload()
    page.get_by_text("Nothing is due until").wait_for()
    page.get_by_role("button", name="Undo “Easy”").click()
    page.get_by_role("heading", name="H100 SXM5, ridge, BF16").wait_for()
    plan = _reviews(page, 0).deck.plans[RIDGE]
    assert (plan.due, plan.state, plan.reviews) == (AT, "new", 0)


WORDS = [name for name in bank.topics()["paging"].templates if not bank.varies(name)]


@pytest.mark.parametrize("right", [True, False])
def test_an_answer_decides_and_a_key_moves_on(page: Any, app: App, right: bool) -> None:
    """A question of words: from numbers drawn in the app no test could tell the right answer."""
    name = WORDS[0]
    _open(page, app, deck.add(Progress(), [name], AT))
    page.locator("label.opt").first.wait_for()
    is_right = [_key_of(name, one.inner_text()) == RIGHT for one in page.locator("label.opt").all()]
    assert is_right.count(True) == 1
    page.locator(".review").focus()
    page.keyboard.press(str(is_right.index(right) + 1))
    page.get_by_role("button", name="Check it").click()
    page.locator(".fb.good" if right else ".fb.bad").wait_for()
    assert page.locator(".rates button").count() == (4 if right else 1)
    page.wait_for_timeout(300)  # the focus goes to what is said
    page.keyboard.press("Space")
    page.get_by_text("Nothing is due until").wait_for()
    known = _reviews(page, 1)
    assert known.deck.log[-1].rating == (deck.GOOD if right else deck.AGAIN)
    assert known.deck.plans[name].state == ("review" if right else "learning")


def _key_of(template: str, text: str) -> str:
    """The key of an option by its words; other seeds leave other options out."""
    shown = re.sub(r"^[A-D]\s+", "", text.strip())
    options = (option for seed in range(60) for option in bank.make(template, seed).options)
    return next(option.key for option in options if option.text == shown)


def _days_later(known: Progress, days: float) -> Progress:
    """The same document after a pause: all that is in it lies further back."""

    def back(at: str) -> str:
        return written(moment(at) - timedelta(days=days)) if at else at

    def earlier(plan: Plan) -> Plan:
        return replace(plan, due=back(plan.due), at=back(plan.at), last=back(plan.last))

    plans = {name: earlier(plan) for name, plan in known.deck.plans.items()}
    log = tuple(replace(one, at=back(one.at)) for one in known.deck.log)
    return replace(known, deck=replace(known.deck, plans=plans, log=log))


def test_over_weeks_the_pauses_grow_and_a_lapse_shrinks_them(page: Any, app: App) -> None:
    known, pauses = deck.add(Progress(), [RIDGE], AT), []
    ratings = ("Good", "Good", "Good", "Again", "Good")
    for count, rating in enumerate(ratings, 1):
        _open(page, app, known)
        page.get_by_role("button", name="Show it").click()
        page.locator(".rates button", has_text=rating).click()
        page.get_by_text("Nothing is due until").wait_for()
        known = _reviews(page, count)
        plan = known.deck.plans[RIDGE]
        pauses.append((moment(plan.due) - moment(plan.last)) / timedelta(days=1))
        known = _days_later(known, pauses[-1] + 0.01)
    assert 1 <= pauses[0] < pauses[1] < pauses[2]
    assert pauses[2] > 20 and pauses[3] < 0.1 and 1 <= pauses[4] < pauses[2]
    assert known.deck.plans[RIDGE].lapses == 1
    _open(page, app, _days_later(known, -pauses[-1]))
    page.get_by_text("As a table").click()
    assert page.locator(".kv-forecast tbody tr").count() == 1


def test_cards_are_added_suspended_and_asked_again(page: Any, app: App) -> None:
    _open(page, app, Progress())
    page.get_by_text("No cards yet.").wait_for()
    page.get_by_text("Cards and numbers").last.click()
    page.get_by_role("button", name=re.compile(r"^Numbers to add")).click()
    page.get_by_role("searchbox").fill("ridge h100 bf16")
    page.get_by_role("button", name="Add: H100 SXM5, ridge, BF16").click()
    page.get_by_role("heading", name="H100 SXM5, ridge, BF16").wait_for()
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="In the deck (1)").click()
    page.get_by_role("button", name="Suspend: H100 SXM5, ridge, BF16").click()
    page.get_by_text("All cards are set aside.").wait_for()
    page.get_by_role("button", name="Set aside (1)").click()
    page.get_by_role("button", name="Ask again: H100 SXM5, ridge, BF16").click()
    page.get_by_role("heading", name="H100 SXM5, ridge, BF16").wait_for()
    page.wait_for_function("key => JSON.parse(localStorage.getItem(key)).deck.standing", arg=KEY)
    page.get_by_role("button", name=re.compile(r"^Numbers to add")).click()
    page.get_by_role("button", name=re.compile(r"^Add all")).click()
    page.get_by_role("button", name="Numbers to add (0)").wait_for()


def test_a_review_in_one_tab_is_known_in_the_other(page: Any, app: App) -> None:
    _open(page, app, deck.add(Progress(), [RIDGE], AT))
    page.get_by_role("button", name="Show it").wait_for()
    other = page.context.new_page()
    other.set_default_timeout(20_000)
    other.goto(f"{app.url}/review")
    other.get_by_role("button", name="Show it").click()
    other.get_by_role("button", name=re.compile("Good")).click()
    other.get_by_text("Nothing is due until").wait_for()
    page.get_by_text("Nothing is due until").wait_for()


def test_present_and_phone(page: Any, app: App) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    _open(page, app, MASTERED, "?present=1")
    page.locator("label.opt").first.wait_for()
    page.wait_for_timeout(500)
    small = page.evaluate(SMALL_TEXT)
    assert not small, small[:10]
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{app.url}/review")
    page.locator("label.opt").first.click()
    page.get_by_role("button", name="Check it").click()
    page.locator(".rates").wait_for()
    wide = (
        "() => Math.max(document.documentElement.scrollWidth,"
        " document.querySelector('[data-testid=\"stMain\"]').scrollWidth)"
    )
    assert page.evaluate(wide) <= 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_faults(page: Any, app: App, axe: str, scheme: str) -> None:  # noqa: F811
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    _open(page, app, deck.add(MASTERED, [RIDGE], "2026-11-19T12:00:00Z"))

    def check(where: str) -> None:
        page.wait_for_timeout(800)  # Streamlit fades in what it draws again
        found = faults(page, axe)
        assert not found, f"{where}\n" + "\n".join(found)

    page.get_by_role("button", name="Show it").click()
    page.get_by_text("Cards and numbers").last.click()
    page.locator(".deck table").wait_for()
    page.get_by_text("As a table").click()
    check("a number and the lists")
    page.get_by_role("button", name=re.compile("Good")).click()
    page.locator("label.opt").first.click()
    page.get_by_role("button", name="Check it").click()
    page.locator(".rates").wait_for()
    check("a question and its ratings")
