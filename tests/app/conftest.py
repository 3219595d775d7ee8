"""The app without a browser: one page at a time, by its link."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from ui import nav

Open = Callable[..., AppTest]


@pytest.fixture
def open_page(root: Path) -> Open:
    """Open a page by name with the parameters of a link."""

    def opened(page: str, **params: str) -> AppTest:
        at = AppTest.from_file(str(root / "ui" / "shell.py"), default_timeout=30)
        at.run()
        if page in nav.PLACES and nav.PLACES[page].reads:
            at._page_hash = calc_hash(page)  # all of them have one script: the address says which
        else:
            at.switch_page(f"../pages/{page}.py")
        for key, value in params.items():
            at.query_params[key] = value
        return at.run()

    return opened


def text_of(at: AppTest) -> str:
    """Everything on the page that a person can read as text."""
    parts = [*at.error, *at.warning, *at.info, *at.markdown, *at.code, *at.caption]
    return "\n".join(str(part.value) for part in parts)
