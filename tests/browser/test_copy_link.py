"""Copy link on the instruments that have a button of their own: copied, or there to be copied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving import App

pytestmark = pytest.mark.browser

PLACES = {"block_pool": ".kv .cell", "batching": ".kv.gantt .stay", "prefix_cache": ".kv .hc"}


@pytest.mark.parametrize("path", list(PLACES))
@pytest.mark.parametrize("allowed", [True, False])
def test_a_link_is_copied_or_shown(page: Any, app: App, path: str, allowed: bool) -> None:
    write = "async (words) => { window.copied = words; }"
    refuse = "async () => { throw new Error('not allowed'); }"
    page.add_init_script(
        f"navigator.clipboard.__proto__.writeText = {write if allowed else refuse}"
    )
    page.goto(f"{app.url}/{path}")
    page.locator(PLACES[path]).first.wait_for()
    page.get_by_role("button", name="Copy link").first.click()
    if allowed:
        page.wait_for_function("() => window.copied")
        assert path in page.evaluate("window.copied")
        page.get_by_role("button", name="Copied").or_(page.get_by_text("Copied")).first.wait_for()
    else:
        field = page.get_by_label("Link to this picture").or_(page.locator(".linkfield"))
        field.first.wait_for()
        assert path in field.first.input_value()
