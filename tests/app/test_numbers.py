"""The page of the numbers to know: every figure is the library's, by name; safe links; files."""

from __future__ import annotations

import io
import json
import shlex
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.__main__ import main
from core.sizing import calls, quick_reference
from tests.app.conftest import Open, text_of
from ui import derivation
from ui.kit import code
from ui.numbers import desk, place, sheet
from ui.paths import ROOT

SHOWN = {one["id"]: one for group in sheet.data()["groups"] for one in group["numbers"]}
ENTRIES = {entry.id: entry for group in quick_reference.load() for entry in group.entries}


def test_the_page_shows_every_number_of_the_file() -> None:
    assert list(SHOWN) == list(ENTRIES) and len(SHOWN) == 88
    for id, shown in SHOWN.items():
        entry = ENTRIES[id]
        assert (shown["value"], shown["scope"]) == (entry.shown, entry.scope)
        assert shown["exact"] == derivation.number(entry.value, entry.base)
    json.dumps(sheet.data())


@pytest.mark.parametrize("id", [id for id, one in SHOWN.items() if one["derived"]["calls"]])
def test_what_a_number_opens_is_what_calc_gives(id: str) -> None:
    for call, made in zip(SHOWN[id]["derived"]["calls"], ENTRIES[id].derived.calls, strict=True):
        name, inputs = shlex.split(call["command"].removeprefix("python -m core calc "))
        answer = calls.call(name, json.loads(inputs))
        assert answer.result == made.result
        assert call["value"] == derivation.number(answer.value, answer.result.unit)
        assert [step[2] for step in call["steps"]] == [
            derivation.number(step.value, step.unit) for step in answer.result.steps
        ]
        assert call["steps"] or name == "param_count"


def test_the_command_shown_gives_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    command = shlex.split(SHOWN["ridge-h100-sxm5"]["derived"]["calls"][0]["command"])
    assert main(command[3:]) == 0
    assert float(capsys.readouterr().out) == ENTRIES["ridge-h100-sxm5"].value


def test_the_files_open() -> None:
    table = pandas.read_csv(io.StringIO(sheet.as_csv())).set_index("id")
    assert len(table) == len(ENTRIES)
    for id, entry in ENTRIES.items():
        assert table.loc[id, "value"] == pytest.approx(float(entry.value))
        assert (table.loc[id, "unit"], table.loc[id, "shown"]) == (entry.base, entry.shown)
    markdown = sheet.as_markdown()
    assert markdown.startswith("# Numbers to know\n")
    assert markdown.count("\n## ") == len(sheet.groups())
    assert "| H100 SXM5, ridge, BF16 | 295.3 FLOP/B | gpu |" in markdown


def test_a_whole_link_is_read() -> None:
    params = {"number": "ridge-h100-sxm5", "group": "gpus", "cover": "1"}
    assert place.read(params) == (params, None) and place.written(params) == params


@pytest.mark.parametrize(
    "params", [{"number": "<script>"}, {"group": "../gpus"}, {"cover": "yes"}, {"number": ""}]
)
def test_a_hostile_link_gives_one_sentence(open_page: Open, params: dict[str, str]) -> None:
    ((name, _),) = params.items()
    assert place.read(params) == (
        {},
        f"This link's {name} cannot be shown here, so it was left out.",
    )
    at = open_page("numbers", **params)
    assert not at.exception and len(at.warning) == 1


@settings(max_examples=40)
@given(
    st.one_of(
        st.none(), st.text(), st.lists(st.integers()),
        st.dictionaries(st.sampled_from(place.NAMES), st.one_of(st.text(), st.floats())),
    )
)  # fmt: skip
def test_what_a_browser_sends_as_its_place_is_checked(sent: Any) -> None:
    assert place.read(place.written(sent))[1] is None


def test_the_page_opens(open_page: Open) -> None:
    at = open_page("numbers", number="reading", group="decode")
    assert not at.exception and not at.warning
    assert at.session_state[desk.PLACE] == {"number": "reading", "group": "decode"}
    assert "Read the scope" in text_of(at)


def test_the_code_shown_exists() -> None:
    source = (ROOT / "pages" / "numbers.py").read_text("utf-8")
    shown = [part for part in source.split('"') if part.startswith("core.") and ":" in part]
    assert len(shown) == 3 and all(code.snippet(target) for target in shown)
