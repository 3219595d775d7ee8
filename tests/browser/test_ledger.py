"""The claims ledger and the numbers in a real browser: vote, keys, links, files, paper."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas
import pytest

from tests.browser.test_accessibility import axe, faults  # noqa: F401
from tests.browser.test_keyboard import FOCUSED
from tests.browser.test_play import SMALL_TEXT
from tests.serving import App
from ui.claims import ledger

pytestmark = pytest.mark.browser

WIDE = (
    "() => [document.documentElement.scrollWidth,"
    " document.querySelector('[data-testid=\"stMain\"]').scrollWidth]"
)
FOCUSED_ROW = """() => {
  let node = document.activeElement;
  while (node?.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  return node?.dataset?.id ?? null;
}"""


def _open(page: Any, app: App, query: str = "") -> list[str]:
    """The ledger, and everything that the server sends from now on."""
    heard: list[str] = []

    def note(sent: Any) -> None:
        heard.append(sent if isinstance(sent, str) else sent.decode("utf-8", "replace"))

    page.on("websocket", lambda socket: socket.on("framereceived", note))
    page.goto(f"{app.url}/claims_ledger?{query}")
    page.locator(".ledger .row, .ledger .claim").first.wait_for()
    page.wait_for_timeout(800)
    return heard


TOLD = "window[Symbol.for('kv-scope.ledger.answers')].verdicts"


def test_no_verdict_is_in_the_page_before_its_vote_and_a_vote_sends_little(
    page: Any,
    app: App,
    axe: str,  # noqa: F811
) -> None:
    heard = _open(page, app, "claim=B041")
    why = ledger.known()["B041"].explanation
    assert why not in "".join(heard) and why not in page.content()
    assert page.evaluate(TOLD) == {}
    assert not faults(page, axe)
    page.get_by_role("button", name="True T").click()
    page.locator(".ledger .said .mark.bad", has_text="wrong").wait_for()
    assert why in "".join(heard) and page.evaluate(TOLD) == {"B041": "wrong"}
    page.get_by_text("You said true.", exact=True).wait_for()
    page.get_by_text("⌊pool / each⌋").first.wait_for(state="attached")
    page.get_by_text("1 of 241 voted on, 0 as the ledger has it").wait_for()
    page.wait_for_timeout(800)  # the first vote marks the page as begun: that was another drawing

    heard.clear()
    page.locator('.row[data-id="B042"]').click()
    page.locator(".says", has_text="Paging allocates").first.wait_for()
    page.get_by_role("button", name="It depends D").click()
    page.locator(".ledger .said").wait_for()
    page.wait_for_timeout(800)
    assert 1_000 < sum(map(len, heard)) < 20_000
    heard.clear()
    for _ in range(5):
        page.get_by_role("button", name="Later claims").click()
    page.get_by_text("251–275 of 297 claims").wait_for()
    assert not heard


def test_the_keys_move_vote_open_and_come_back(page: Any, app: App) -> None:
    _open(page, app, "topic=paging")
    page.locator('.row[data-id="L019"], .row[data-id="B033"]').first.focus()
    page.keyboard.press("Home")
    first = page.evaluate(FOCUSED_ROW)
    page.keyboard.press("ArrowDown")
    second = page.evaluate(FOCUSED_ROW)
    assert first != second
    page.keyboard.press("End")
    assert page.evaluate(FOCUSED_ROW) == "B194"
    page.get_by_text("26–38 of 38 claims").wait_for()
    page.keyboard.press("d")
    page.locator('.row[data-id="B194"] .mine.same', has_text="you: it depends").wait_for()
    page.get_by_text("A benchmark alone decides this.").wait_for()
    assert page.evaluate(FOCUSED_ROW) == "B194"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert page.evaluate(FOCUSED)["tag"] == "h2"
    page.keyboard.press("t")
    page.locator(".ledger .said").wait_for()
    page.wait_for_timeout(300)
    assert page.evaluate(FOCUSED)["tag"] == "h3"
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED_ROW) == "B192"


def test_filters_are_in_the_link_and_the_link_brings_them_back(page: Any, app: App) -> None:
    _open(page, app)
    page.get_by_label("Topic", exact=True).select_option("mla")
    page.get_by_label("Source", exact=True).select_option("chapter")
    page.get_by_label("Search the claims").fill("128K users")
    page.get_by_role("button", name="Show all verdicts").click()
    page.get_by_label("Verdict", exact=True).select_option("wrong")
    page.wait_for_url(re.compile("verdict=wrong"))
    shown = [row.get_attribute("data-id") for row in page.locator(".ledger .row").all()]
    wanted = [
        id
        for id, one in ledger.judged().items()
        if one.claim.topic == "mla" and one.claim.source == "chapter" and one.verdict == "wrong"
        and "128k" in one.claim.says.lower() and "users" in one.claim.says.lower()
    ]  # fmt: skip
    assert shown == wanted and len(shown) > 1
    page.reload()
    page.locator(".ledger .row").first.wait_for()
    page.locator(".ledger .row .mark.bad").first.wait_for()
    again = [row.get_attribute("data-id") for row in page.locator(".ledger .row").all()]
    assert again == shown
    page.get_by_label("Search the claims").fill("nothing at all")
    page.get_by_text("No claim is like that").wait_for()


def test_hiding_the_verdicts_takes_them_out_again(page: Any, app: App) -> None:
    _open(page, app, "claim=B041&show=all")
    page.locator(".ledger .said").wait_for()
    page.get_by_role("button", name="Hide verdicts").click()
    page.get_by_role("button", name="True T").wait_for()
    assert page.locator(".ledger .mark").count() == 0
    page.wait_for_url(lambda url: "show" not in url)


def test_the_prediction_leads_to_a_claim_and_the_files_open(
    page: Any, app: App, tmp_path: Path
) -> None:
    _open(page, app, "topic=cost")
    page.get_by_label("Claims that hold").fill("100")
    page.get_by_label("Claims that hold").press("Enter")
    page.get_by_role("button", name="Lock it in").click()
    page.get_by_role("button", name="Start with claim B009").click()
    page.locator(".says", has_text="1,310,720 bytes").first.wait_for()
    page.locator('.row[data-id="B009"][aria-selected="true"]').wait_for()
    page.get_by_role("button", name="True T").click()
    page.get_by_text("You said true.", exact=True).wait_for()
    page.wait_for_timeout(800)  # the first vote marks the page as begun: it is drawn again

    page.get_by_role("button", name="Export").click()
    with page.expect_download() as one:
        page.get_by_role("button", name="All claims with verdicts, as CSV").click()
    one.value.save_as(tmp_path / "claims.csv")
    table = pandas.read_csv(tmp_path / "claims.csv")
    assert len(table) == 297
    assert list(table[table["vote"].notna()]["id"]) == ["B009"], "of the page as it now stands"
    with page.expect_download() as two:
        page.get_by_role("button", name="The same with derivations, as JSON").click()
    two.value.save_as(tmp_path / "claims.json")
    assert len(json.loads((tmp_path / "claims.json").read_text("utf-8"))["claims"]) == 297


@pytest.mark.parametrize("query", ["claims_ledger?claim=B041&show=all", "numbers"])
def test_on_a_phone_nothing_scrolls_sideways(page: Any, app: App, query: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{app.url}/{query}")
    page.locator(".ledger .row:visible, .ledger .said, .sheet .number").first.wait_for()
    page.wait_for_timeout(500)
    assert max(page.evaluate(WIDE)) <= 360
    if "claim=" in query:
        page.get_by_role("button", name="All claims").click()
        page.locator('.row[data-id="B041"]').wait_for()
        assert max(page.evaluate(WIDE)) <= 360


@pytest.mark.parametrize("query", ["claims_ledger?claim=B041&show=all", "numbers?number=reading"])
def test_on_a_projector_nothing_is_small(page: Any, app: App, query: str) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.goto(f"{app.url}/{query}&present=1")
    page.locator(".ledger .said, .sheet .deriv").first.wait_for()
    page.wait_for_timeout(500)
    assert not page.evaluate(SMALL_TEXT)


def test_a_number_opens_and_its_link_opens_it_again(page: Any, app: App) -> None:
    page.goto(f"{app.url}/numbers?group=gpus&cover=1")
    page.get_by_text("0 of 19 looked at").wait_for()
    hidden = page.locator(".value", has_text="3.35 TB/s")
    assert not hidden.is_visible()
    page.locator("summary", has_text="H100 SXM5, memory bandwidth").focus()
    page.keyboard.press("Enter")  # the first uncovers it and opens nothing
    hidden.wait_for()
    page.get_by_text("1 of 19 looked at").wait_for()
    assert page.locator(".number[open]").count() == 0
    page.keyboard.press("Enter")
    page.get_by_text("I* = peak / BW").first.wait_for()
    page.wait_for_url(re.compile("number=bw-h100-sxm5"))
    page.reload()
    page.get_by_text("I* = peak / BW").first.wait_for()
    page.locator('.deriv a[href="claims_ledger?claim=B094"]').wait_for()


def test_on_paper_it_is_the_sheet_alone_in_black(page: Any, app: App) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{app.url}/numbers")
    page.locator(".sheet .number").first.wait_for()
    page.wait_for_timeout(500)
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator('[data-testid="stSidebar"]').is_visible()
    assert not page.locator(".sbar").is_visible()
    assert not page.locator(".st-key-kv-words").is_visible()
    ink = page.locator(".sheet .name").first.evaluate("(n) => getComputedStyle(n).color")
    ground = page.locator(".stApp").evaluate("(n) => getComputedStyle(n).backgroundColor")
    assert (ink, ground) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    paper = page.pdf(format="A4", prefer_css_page_size=True)
    pages = len(re.findall(rb"/Type\s*/Page\b", paper))
    assert 1 <= pages <= 3
