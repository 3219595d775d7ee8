"""A broken page says one sentence and shows nothing of its insides."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def _broken() -> None:
    from ui.failure import show

    assert show(RuntimeError("secret insides"))


def test_no_traceback_reaches_the_visitor() -> None:
    at = AppTest.from_function(_broken).run()
    assert not at.exception
    (error,) = at.error
    assert "secret" not in error.value
    assert "log" in error.value
