"""One running app and one browser for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.serving import App, running

ARGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app as a visitor without torch finds it: that is the harder case."""
    with running(tmp_path_factory.mktemp("app"), block="torch,triton,transformers") as app:
        yield app


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=ARGS)
        yield started
        started.close()


class Messages(list[str]):
    """What the browser's console complained about, less what is known to be harmless."""

    # Streamlit asks for one external image, and for its own health route below a page's address.
    HARMLESS = ("net::ERR_NAME_NOT_RESOLVED", "net::ERR_INTERNET_DISCONNECTED", "_stcore/")

    def note(self, text: str) -> None:
        if not any(part in text for part in self.HARMLESS):
            self.append(text)

    def listen(self, page: Any) -> None:
        """Note a page's errors from now on."""

        def on_console(message: Any) -> None:
            if message.type == "error":
                self.note(f"{message.text} {message.location.get('url', '')}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: self.note(f"page error: {error}"))


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page, 1440 × 900; fails the test if its console showed an error."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    messages = Messages()
    messages.listen(page)
    page.set_default_timeout(20_000)
    yield page
    context.close()
    assert not messages, messages


def at_rest(locator: Any) -> dict[str, float]:
    """Where something is, once nothing moves it any more: what is above it may still be drawn."""
    before = None
    for _ in range(50):
        now: dict[str, float] | None = locator.bounding_box()
        if now is not None and now == before:
            return now
        before = now
        locator.page.wait_for_timeout(150)
    raise AssertionError(f"{locator} never stands still")


def until(holds: Callable[[], bool], page: Any) -> None:
    """Wait until something holds that no selector can say, such as what a field contains."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never came to hold")
