"""A page's place and its address, without a browser: what is read, written and left alone."""

from __future__ import annotations

import pytest
import streamlit as st

from ui.kit import address
from ui.kit.address import Address


@pytest.fixture
def params(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An address and a session of one's own."""
    found: dict[str, str] = {"step": "3", "level": "In full"}
    monkeypatch.setattr(st, "query_params", found)
    monkeypatch.setattr(st, "session_state", {})
    return found


def test_one_arrives_once_and_again_by_another_link(params: dict[str, str]) -> None:
    here = Address("t", ("step", "run"))
    assert here.arrived() == {"step": "3"}
    assert here.arrived() is None
    params["step"] = "4"
    assert here.arrived() == {"step": "4"}
    del params["step"]
    assert here.arrived() is None, "a link without a word leaves the page where it is"


def test_the_first_visit_counts_even_if_it_asks_for_nothing(params: dict[str, str]) -> None:
    assert Address("t", ("run",)).arrived() == {}


def test_what_the_page_writes_is_no_arrival(params: dict[str, str]) -> None:
    here = Address("t", ("step", "run"))
    here.arrived()
    here.write({"run": "one"})
    assert params == {"run": "one", "level": "In full"}, "its own names alone"
    assert here.arrived() is None


def test_what_cannot_be_shown_is_named_and_the_rest_counts() -> None:
    def value(name: str, raw: str) -> int | None:
        return int(raw) if raw.isdigit() else None

    names = ("a", "b", "c", "d")
    assert address.sort({"a": "1", "z": "x"}, names, value) == ({"a": 1}, None)
    found, said = address.sort({"a": "1", "b": "x", "c": "y"}, names, value)
    assert found == {"a": 1}
    assert said == "This link's b and c cannot be shown here, so they were left out."
    found, said = address.sort({"b": "x", "c": "y", "d": "<i>"}, names, value)
    assert found == {} and said is not None and "b, c, d" in said
