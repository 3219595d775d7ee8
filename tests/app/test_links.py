"""Links: what goes in comes out, and a hostile one gives one sentence."""

from __future__ import annotations

import base64
import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui import links

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=6))
def test_a_packed_scenario_comes_back(scenario: dict[str, object]) -> None:
    import json

    packed = links.pack(scenario)
    assert packed is not None
    assert json.loads(links.unpack(packed)) == scenario


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_sentence(value: str) -> None:
    try:
        links.unpack(value)
    except links.LinkError as exc:
        assert str(exc).count("\n") == 0
        assert len(str(exc)) < 300


@given(st.integers(0, 3000), st.integers(0, 255))
def test_a_changed_character_never_escapes(place: int, value: int) -> None:
    packed = links.pack({"requests": [{"id": str(i)} for i in range(50)]})
    assert packed is not None
    place %= len(packed)
    damaged = packed[:place] + chr(value) + packed[place + 1 :]
    with contextlib.suppress(links.LinkError):
        links.unpack(damaged)


def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compress(b" " * 4_000_000, 9)
    value = base64.urlsafe_b64encode(bomb).decode().rstrip("=")
    with pytest.raises(links.LinkError, match="expands to more than"):
        links.unpack(value[: links.MAX_LINK_CHARS])


def test_a_truncated_link_is_damaged() -> None:
    packed = links.pack({"name": "x" * 300, "requests": list(range(200))})
    assert packed is not None
    with pytest.raises(links.LinkError, match="damaged"):
        links.unpack(packed[:-6])


def test_what_is_too_long_for_a_link_has_none() -> None:
    import random

    numbers = [random.Random(0).getrandbits(40) for _ in range(5)]
    noise = [random.Random(i).getrandbits(50) for i in range(3000)]
    assert links.pack({"a": numbers}) is not None
    assert links.pack({"a": noise}) is None


@pytest.mark.parametrize("step", ["-1", "1.5", "x", "９", "1" * 30, ""])
def test_a_step_is_a_plain_number_and_the_rest_of_the_link_counts(step: str) -> None:
    target, said = links.read({"step": step, "scenario": "fork", "size": "32"})
    assert (target.scenario, target.step, target.size) == ("fork", None, 32)
    assert said is not None and "step" in said


@pytest.mark.parametrize("name", ["step", "block", "size", "view", "reserve"])
def test_what_stands_in_a_link_is_never_said_again(name: str) -> None:
    target, said = links.read({name: "![x](https://evil.example/x.png)"})
    assert target == links.Target()
    assert said is not None and "evil" not in said


def test_one_picture_a_link() -> None:
    with pytest.raises(links.LinkError, match="only one"):
        links.read({"scenario": "fork", "run": "x"})


def test_a_whole_link() -> None:
    target, said = links.read({"scenario": "fork", "step": "3", "block": "6", "present": "1"})
    assert said is None
    assert (target.scenario, target.step, target.block) == ("fork", 3, 6)
