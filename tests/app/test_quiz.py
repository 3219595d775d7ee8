"""The quiz page without a browser: what it shows, what it keeps back, and where its proofs lie."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core.simulate import verify
from core.trace.run import read_run
from quiz import bank, gate
from quiz.draw import kv
from quiz.items import RIGHT, Proof
from quiz.progress import Progress
from tests.app.conftest import Open, text_of
from ui import lesson, links, nav, quiz_gate, quiz_view, runs
from ui.batching import place as batching
from ui.claims import place as claims
from ui.numbers import place as numbers
from ui.planner import place as planner
from ui.prefix import place as prefix
from ui.roofline import place as roofline
from ui.sizing import place as sizing

AT = "2026-11-30T12:00:00Z"
READERS = {
    "kv_sizing": sizing.read,
    "roofline": roofline.read,
    "capacity_planner": planner.read,
    "prefix_cache": prefix.read,
    "batching": batching.read,
    "claims_ledger": claims.read,
    "numbers": numbers.read,
}
TEMPLATES = [name for topic in bank.topics().values() for name in topic.templates]


def _began() -> Progress:
    return gate.start(Progress(), Random(3), AT)


def _question(progress: Progress, place: int) -> dict[str, Any]:
    attempt = progress.attempt
    assert attempt is not None
    words = lesson.load("quiz")
    made = gate.items(attempt)
    return quiz_view.question(words, attempt, made, place, playing=False, present=False)


def test_before_the_browser_has_answered_there_is_an_outline(open_page: Open) -> None:
    at = open_page("quiz")
    assert not at.exception
    assert nav.PROGRESS not in at.session_state


def test_a_new_learner_gets_an_attempt(open_page: Open) -> None:
    at = open_page("quiz")
    at.session_state["kv.progress"] = Progress()
    at.run()
    assert not at.exception
    attempt = at.session_state["kv.progress"].attempt
    assert attempt is not None and len(attempt.asked) == 4


def test_an_attempt_of_an_older_bank_is_drawn_again_and_that_is_said(open_page: Open) -> None:

    progress = _began()
    assert progress.attempt is not None
    old = replace(progress.attempt.asked[0], sign="what it was", answer="swapped")
    stale = replace(progress.attempt, asked=(old, *progress.attempt.asked[1:]))
    at = open_page("quiz")
    at.session_state["kv.progress"] = replace(progress, attempt=stale)
    at.run()
    assert not at.exception
    assert at.session_state["kv.progress"].attempt.id != stale.id
    assert at.session_state["quiz.notice"] == lesson.load("quiz")["changed"]


@pytest.mark.parametrize("place", range(4))
def test_the_right_answer_is_not_in_the_page_before_an_answer(place: int) -> None:
    progress = _began()
    assert progress.attempt is not None
    data = _question(progress, place)
    item = gate.items(progress.attempt)[place]
    assert data["answered"] is None and data["see"] is None
    assert all(set(option) == {"text", "aside"} for option in data["options"])
    sent = json.dumps(data, ensure_ascii=False)
    for option in item.options:
        assert option.fact not in sent and option.says not in sent


def test_after_an_answer_the_misconception_is_named_and_the_right_one_shown() -> None:
    progress = _began()
    assert progress.attempt is not None
    item = gate.items(progress.attempt)[1]
    wrong = next(key for key in item.keys if key != RIGHT)
    data = _question(gate.answer(progress, 1, wrong, AT), 1)
    said = data["answered"]
    assert said["chosen"] == item.keys.index(wrong)
    assert said["right"] == item.keys.index(RIGHT)
    assert said["says"] == item.option(wrong).says
    assert said["also"] == item.option(RIGHT).fact
    assert [topic["state"] for topic in data["topics"]] == ["todo", "wrong", "todo", "todo"]


def test_the_result_lists_what_was_wrong() -> None:
    progress = _began()
    assert progress.attempt is not None
    for place, item in enumerate(gate.items(progress.attempt)):
        key = next(k for k in item.keys if k != RIGHT) if place == 2 else RIGHT
        progress = gate.answer(progress, place, key, AT)
    words, attempt = lesson.load("quiz"), progress.attempt
    assert attempt is not None
    made = gate.items(attempt)
    data = quiz_view.result(words, progress, attempt, made, present=False)
    assert data["done"]["right"] == 3 and not data["done"]["complete"]
    assert [row["good"] for row in data["done"]["rows"]] == [True, True, False, True]
    assert data["done"]["rows"][2]["says"].startswith("You ")


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_proof_is_there_and_its_link_opens_it(template: str, root: Path) -> None:
    for seed in range(5):
        proof = bank.make(template, seed).proof
        assert proof.page in {place.name for place in nav.COURSE}
        if proof.page in quiz_view.PLAYERS:
            _plays(proof)
        else:
            assert quiz_view.run_of(proof) is None
            _opens(proof, root)


def _plays(proof: Proof) -> None:
    shown = quiz_view.run_of(proof)
    assert shown is not None
    run = shown.played.data()
    assert 0 <= shown.step < len(run["steps"])
    if shown.block is not None:
        assert shown.block < run["header"]["scenario"]["engine"]["num_blocks"]
    page, _, query = shown.address.partition("?")
    assert page == proof.page
    target, _ = links.read(
        {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
    )
    assert target.step == shown.step
    if target.own_text is not None:
        again = runs.simulate(target.own_text).data()
        assert [s["events"] for s in again["steps"]] == [s["events"] for s in run["steps"]]


def _opens(proof: Proof, root: Path) -> None:
    """A page that reads its address finds all of it there; another takes none."""
    page, _, query = quiz_view.address(proof).partition("?")
    read = READERS.get(page)
    if read is None:
        assert not query and (root / "lessons" / f"{page}.md").exists()
    else:
        params = {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
        _, refused = read(params)
        assert refused is None and params.keys() == dict(proof.link).keys()


def test_what_the_sentence_says_of_the_engine_is_in_the_recorded_run(root: Path) -> None:
    item = bank.make("kv-size/per-token", 1)
    run = read_run(root / "runs" / f"{kv.RUN}.run.json.gz")
    verify(run)
    per_token = run.header["kv_bytes_per_token"]
    block = run.header["scenario"]["engine"]["block_size"]
    assert f"{per_token:,} B a token" in item.see
    assert block == 4 and f"block of 4 slots takes {4 * per_token:,} B" in item.see
    assert item.proof.lines[RIGHT].equals == f"{per_token:,} B"


def test_the_two_products_mark_the_same_factor() -> None:
    for seed in range(20):
        item = bank.make("kv-size/per-token", seed)
        for key in item.keys:
            lines = quiz_view.single(item, key, playing=False, present=False)["see"]["lines"]
            assert lines[-1]["who"] == "engine"
            if len(lines) == 2:
                mine, engine = lines
                differ = [
                    i
                    for i, (a, b) in enumerate(zip(mine["factors"], engine["factors"], strict=True))
                    if a != b
                ]
                assert differ == [mine["changed"]] == [engine["changed"]]


def test_without_recorded_runs_the_answer_stands_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path / "none"))
    item = bank.make("kv-size/per-token", 1)
    see = quiz_view.single(item, RIGHT, playing=False, present=False)["see"]
    assert see["run"] is None
    assert see["say"] == lesson.load("quiz")["no-run"]


def test_the_page_opens_without_recorded_runs(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path / "none"))
    at = open_page("quiz")
    at.session_state["kv.progress"] = Progress()
    at.run()
    assert not at.exception
    assert not text_of(at).count("Traceback")


def _at_gate(open_page: Open, **params: str) -> AppTest:
    at = open_page("quiz", **params)
    at.session_state["kv.progress"] = Progress()
    return at.run()


@pytest.mark.parametrize("name", gate.lessons())
def test_every_gate_has_a_link(open_page: Open, name: str) -> None:
    at = _at_gate(open_page, lesson=name)
    assert not at.exception and not at.warning
    attempt = at.session_state["kv.progress"].attempt
    assert attempt.gate == name == at.selectbox(key="quiz.select").value
    written = at.query_params.get("lesson", gate.LESSON)
    assert written in (name, [name])


@pytest.mark.parametrize("hostile", ["nothing", "", "../../x", "<b>bold</b>", "A" * 5_000])
def test_a_gate_that_is_not_there_is_one_sentence(open_page: Open, hostile: str) -> None:
    at = _at_gate(open_page, lesson=hostile)
    assert not at.exception
    assert [one.value for one in at.warning] == [
        "This link's lesson cannot be shown here, so it was left out."
    ]
    assert at.session_state["kv.progress"].attempt.gate == gate.LESSON
    assert "lesson" not in at.query_params


def test_choosing_another_gate_and_coming_back_finds_the_same_place(open_page: Open) -> None:
    at = _at_gate(open_page)
    progress = gate.answer(at.session_state["kv.progress"], 0, RIGHT, AT)
    at.session_state["kv.progress"] = progress
    at.selectbox(key="quiz.select").select("batching").run()
    assert not at.exception
    known = at.session_state["kv.progress"]
    assert known.attempt.gate == "batching" and at.query_params["lesson"] in (
        "batching",
        ["batching"],
    )
    at.selectbox(key="quiz.select").select(gate.LESSON).run()
    known = at.session_state["kv.progress"]
    assert gate.current(known) == progress.attempt
    assert "lesson" not in at.query_params
    assert quiz_gate.mark(gate.LESSON, known) == "1 of 4 answered"
    assert quiz_gate.mark("batching", known) == ""


def test_a_lesson_s_result_numbers_its_questions_and_its_mark_says_how_it_went() -> None:
    progress = gate.start(Progress(), Random(2), AT, "batching")
    for place, item in enumerate(gate.items(progress.attempt)):
        key = next(k for k in item.keys if k != RIGHT) if place == 1 else RIGHT
        progress = gate.answer(progress, place, key, AT, "batching")
    attempt, words = gate.current(progress, "batching"), lesson.load("quiz")
    assert attempt is not None
    data = quiz_view.result(words, progress, attempt, gate.items(attempt), present=False)
    assert [row["title"] for row in data["done"]["rows"]] == [f"Question {i}" for i in range(1, 5)]
    assert data["title"] == "Batching" and data["lead"] == words["lead"]
    assert quiz_gate.mark("batching", progress) == "3 of 4 right"
    done = replace(progress, completed={"batching": AT})
    assert quiz_gate.mark("batching", done) == "complete"


@pytest.mark.parametrize("name", gate.lessons()[1:])
def test_every_lesson_leads_to_its_own_questions(open_page: Open, name: str) -> None:
    at = open_page(name)
    assert not at.exception
    links = {link.proto.query_string for link in at.get("page_link")}
    assert f"lesson={name}" in links
