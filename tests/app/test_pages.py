"""The pages, as a visitor meets them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.scenario import Scenario
from quiz import gate
from tests.app.conftest import Open, text_of
from ui import catalogue, forms, links, nav
from ui.kit import code
from ui.runs import list_recorded


def test_home_opens(open_page: Open) -> None:
    at = open_page("home")
    assert not at.exception
    assert not at.error


def test_home_shows_a_few_runs_of_each_page_and_folds_the_rest(open_page: Open) -> None:
    at = open_page("home")
    folded = [block for block in at.get("expander") if block.label.endswith(" more")]
    links = at.get("page_link")
    inside = sum(len(block.get("page_link")) for block in folded)
    labels = [link.proto.label for link in links]
    assert [labels.count(run.title) for run in list_recorded()] == [1] * len(list_recorded())
    assert inside == sum(int(block.label.split()[0]) for block in folded) > 0
    about = {link.proto.query_string: link.proto.page for link in links}
    assert about["run=one_question"].endswith("prefill_decode")
    assert about["study=pressure"].endswith("batching")


def test_marks_say_begun_for_what_was_done_and_done_for_mastery_alone(open_page: Open) -> None:
    def marks(at: AppTest) -> dict[str, str]:
        return {link.proto.label: link.proto.icon for link in at.get("page_link")}

    at = open_page("home")
    assert marks(at)["Block pool"] == f":material/{nav.TODO}:"
    at.switch_page("../pages/block_pool.py").run()
    at.number_input(key="predict.blocks").set_value(9)
    at.number_input(key="predict.waste").set_value(3)
    at.button(key="predict.lock").click().run()
    at.switch_page("../pages/home.py").run()
    assert marks(at)["Block pool"] == f":material/{nav.BEGUN}:"
    known = at.session_state[nav.PROGRESS]
    mastered = replace(known, completed={"four-questions": "2026-11-30T12:00:00Z"})
    at.session_state[nav.PROGRESS] = mastered
    at.run()
    assert [marks(at)[place.title] for place in nav.COURSE] == [
        f":material/{mark}:" for mark in nav.marks(mastered)
    ]
    assert marks(at)["Quiz"] == f":material/{nav.DONE}:"
    assert f":material/{nav.TODO}:" == marks(at)["Prefill and decode"]


def test_the_gate_s_lesson_is_a_page_s_mastery() -> None:
    assert [place.name for place in nav.COURSE if place.mastery == gate.LESSON] == ["quiz"]


def test_block_pool_opens_on_the_first_scenario(open_page: Open) -> None:
    at = open_page("block_pool")
    assert not at.exception
    assert at.selectbox(key="bp.select").value == "scenario:two-answers"
    assert at.query_params["scenario"] in ("two-answers", ["two-answers"])


@pytest.mark.parametrize("slug", [s for s, e in catalogue.entries().items() if not e.blocks])
def test_every_built_in_scenario_has_a_link(open_page: Open, slug: str) -> None:
    at = open_page("block_pool", scenario=slug)
    assert not at.exception
    assert not at.error
    assert at.selectbox(key="bp.select").value == f"scenario:{slug}"


def test_choosing_another_scenario_changes_the_address(open_page: Open) -> None:
    at = open_page("block_pool", scenario="fork", step="1")
    at.selectbox(key="bp.select").select("scenario:evict").run()
    assert not at.exception
    assert "evict" in at.query_params["scenario"]
    assert "step" not in at.query_params


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"scenario": "![x](https://evil.example)"}, "is not here"),
        ({"run": "../../secret"}, "is not on this server"),
        ({"own": "%%%"}, "damaged"),
        ({"own": "A" * 10_000}, "limit"),
        ({"step": "minus one"}, "step cannot be shown"),
        ({"scenario": "fork", "run": "x"}, "only one"),
    ],
)
def test_a_bad_link_says_so_once_and_shows_a_picture(
    open_page: Open, params: dict[str, str], said: str
) -> None:
    at = open_page("block_pool", **params)
    assert not at.exception
    assert len(at.warning) == 1
    assert said in at.warning[0].value and "evil" not in at.warning[0].value
    assert at.selectbox(key="bp.select").value == "scenario:two-answers"


def _own(scenario: dict[str, Any]) -> str:
    packed = links.pack(scenario)
    assert packed is not None
    return packed


def test_an_own_scenario_comes_back_from_its_link(open_page: Open) -> None:
    scenario = Scenario.from_dict(
        {"schema": "scenario/1", "requests": [{"id": "Z", "prompt": "hello", "max_tokens": 3}]}
    )
    at = open_page("block_pool", own=_own(forms.minimal(scenario)))
    assert not at.exception
    assert not at.error
    assert at.selectbox(key="bp.select").value == "own"


def test_a_bad_scenario_in_a_link_names_the_field_and_loses_nothing(open_page: Open) -> None:
    bad = {"schema": "scenario/1", "requests": [{"id": "A", "prompt": "x", "n": 0}]}
    at = open_page("block_pool", own=_own(bad))
    assert not at.exception
    assert "requests[0].n" in text_of(at)
    at.toggle(key="bp.edit").set_value(True).run()
    assert json.loads(at.text_area(key="own.json").value) == bad


def test_an_error_in_the_json_changes_nothing_that_was_typed(open_page: Open) -> None:
    at = open_page("block_pool", scenario="fork")
    at.toggle(key="bp.edit").set_value(True).run()
    typed = '{"schema": "scenario/1", "engine": {"num_blocks": -3}, "requests": []}'
    at.text_area(key="own.json").set_value(typed).run()
    at.button(key="own.run.json").click().run()
    assert not at.exception
    assert at.text_area(key="own.json").value == typed
    assert "engine.num_blocks" in text_of(at)
    assert at.selectbox(key="bp.select").value == "scenario:fork"


@pytest.mark.parametrize(
    "typed", ["", "{", "[]", '{"schema": "scenario/1", "x": NaN}', "ha" * 9999]
)
def test_any_text_in_the_json_is_one_error(open_page: Open, typed: str) -> None:
    at = open_page("block_pool")
    at.toggle(key="bp.edit").set_value(True).run()
    at.text_area(key="own.json").set_value(typed).run()
    at.button(key="own.run.json").click().run()
    assert not at.exception
    assert len(at.error) == 1
    assert at.text_area(key="own.json").value == typed


def test_a_scenario_typed_as_json_runs_and_gets_a_link(open_page: Open) -> None:
    at = open_page("block_pool")
    at.toggle(key="bp.edit").set_value(True).run()
    typed = '{"schema": "scenario/1", "name": "Mine", "requests": [{"id": "Q", "prompt": "hey"}]}'
    at.text_area(key="own.json").set_value(typed).run()
    at.button(key="own.run.json").click().run()
    assert not at.exception
    assert not at.error
    assert at.selectbox(key="bp.select").value == "own"
    own = at.query_params["own"]
    text = links.unpack(own if isinstance(own, str) else own[0])
    assert Scenario.from_json(text).name == "Mine"


def test_the_form_runs_what_it_shows(open_page: Open) -> None:
    at = open_page("block_pool", scenario="fork")
    at.toggle(key="bp.edit").set_value(True).run()
    at.number_input(key="own.engine.num_blocks").set_value(9).run()
    at.button(key="own.run.form").click().run()
    assert not at.exception
    assert not at.error
    assert Scenario.from_json(at.session_state["bp.own"]).engine.num_blocks == 9
    assert '"num_blocks": 9' in at.text_area(key="own.json").value


def test_an_absurd_value_in_the_form_stays_and_is_named(open_page: Open) -> None:
    at = open_page("block_pool", scenario="fork")
    at.toggle(key="bp.edit").set_value(True).run()
    at.number_input(key="own.engine.block_size").set_value(-4).run()
    at.button(key="own.run.form").click().run()
    assert not at.exception
    assert "engine.block_size" in text_of(at)
    assert at.number_input(key="own.engine.block_size").value == -4


def test_the_prediction_locks_and_then_reveals(open_page: Open) -> None:
    at = open_page("block_pool")
    assert "9 blocks" not in text_of(at)
    at.number_input(key="predict.blocks").set_value(8)
    at.number_input(key="predict.waste").set_value(0)
    at.button(key="predict.lock").click().run()
    assert not at.exception
    assert "9 blocks" in text_of(at)
    assert "rounded down" in text_of(at)
    at.number_input(key="predict.waste16").set_value(15)
    at.button(key="predict.lock16").click().run()
    assert "at most 15" in text_of(at)
    at.button(key="predict.see").click().run()
    assert at.selectbox(key="bp.select").value == "scenario:thirty-three"


def test_half_a_prediction_does_not_lock(open_page: Open) -> None:
    at = open_page("block_pool")
    at.number_input(key="predict.blocks").set_value(9)
    at.button(key="predict.lock").click().run()
    assert at.button(key="predict.lock")


def test_the_prediction_can_be_skipped(open_page: Open) -> None:
    at = open_page("block_pool")
    assert "33 tokens" in text_of(at)
    at.button(key="predict.skip").click().run()
    assert not at.exception
    assert "33 tokens" not in text_of(at)


def test_present_mode_leaves_the_picture_and_the_list(open_page: Open) -> None:
    at = open_page("block_pool", present="1", scenario="fork")
    assert not at.exception
    assert at.selectbox(key="bp.select").value == "scenario:fork"
    assert not at.toggle
    assert "Predict first" not in text_of(at)


def test_without_recorded_runs(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path / "none"))
    for page in ("home", "block_pool"):
        at = open_page(page)
        assert not at.exception
        assert not at.error
        html = "\n".join(element.proto.body for element in at.get("html"))
        assert ("No recorded run is here." in html) == (page == "home")


def test_a_damaged_recorded_run_hides_nothing(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.run.json.gz").write_bytes(b"\x1f\x8bnot gzip")
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    at = open_page("block_pool")
    assert not at.exception
    assert at.selectbox(key="bp.select").value == "scenario:two-answers"
    at = open_page("block_pool", run="broken")
    assert not at.exception
    assert "broken" in text_of(at)


def test_a_recorded_run_plays_and_is_labelled(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from core.simulate import simulate

    run = simulate(Scenario.from_json(catalogue.entries()["fork"].text))
    run.header["label"] = "RECORDED"
    run.header["source"] = {"device": "CPU", "dtype": "bfloat16", "model": "m", "model_sha256": "0"}
    run.write(tmp_path / "demo.run.json.gz")
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    at = open_page("block_pool", run="demo")
    assert not at.exception
    assert not at.error
    assert at.selectbox(key="bp.select").value == "run:demo"
    from ui import runs

    (item,) = runs.list_recorded()
    assert item.detail.startswith("CPU, m, bf16")


def test_code_is_shown_from_its_source(open_page: Open) -> None:
    at: AppTest = open_page("block_pool")
    assert not at.code  # it is sent when it is asked for
    at.session_state[code.KEY] = True
    at.run()
    shown = [c.value for c in at.code]
    assert any("def allocate_slots" in value for value in shown)


@pytest.mark.parametrize("name", list(catalogue.recorded()))
def test_a_recorded_run_has_a_link_to_the_page_that_is_about_it(open_page: Open, name: str) -> None:
    about = catalogue.recorded()[name]
    at = open_page(about.get("page", "block_pool"), **about.get("query", {"run": name}))
    assert not at.exception
    assert not at.error and not at.warning, text_of(at)
