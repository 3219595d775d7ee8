"""The batching page without a browser: its link, its studies, its prediction, its words."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import calls
from core.trace.lives import read
from core.trace.serving_metrics import Clock, goodput, in_us, serving, step_us
from tests.app.conftest import Open, text_of
from tests.scenario_gen import random_scenario
from ui import catalogue, lesson, runs
from ui.batching import arrivals, below, grading, place, studies
from ui.kit import code, glossary
from ui.runs import check_size

LESSON = lesson.load("batching")
RECORDED = [
    *(name for names in studies.RECORDED.values() for name in names.values()),
    studies.WHOLE,
    *studies.CHUNKED.values(),
]


def at(**values: Any) -> dict[str, Any]:
    return {**place.DEFAULTS, **values}


# -- the link


@given(st.dictionaries(st.sampled_from([*place.NAMES, "x"]), st.text(max_size=12), max_size=6))
def test_any_link_gives_a_place_that_can_be_shown(params: dict[str, str]) -> None:
    found, notice = place.read(params)
    assert found.keys() == place.DEFAULTS.keys()
    assert notice is None or "\n" not in notice
    again, refused = place.read(place.written(found))
    assert refused is None
    for name in ("study", *place.SETTINGS[found["study"]], *place.STANDING):
        assert again[name] == found[name]


@given(st.dictionaries(st.sampled_from(place.STANDING), st.none() | st.integers() | st.floats()))
def test_what_the_browser_reports_cannot_be_out_of_range(told: dict[str, Any]) -> None:
    found = place.reported(told)
    assert found.keys() == set(place.STANDING)
    assert 0 <= found["step"] <= 100_000
    for name, (low, high) in place.TARGETS.items():
        assert found[name] is None or low <= found[name] <= high


def test_only_what_a_study_has_is_in_its_link() -> None:
    here = at(study="landing", chunk=64, seats=2, ttft=500.0, step=12)
    assert place.written(here) == {"study": "landing", "chunk": "64", "step": "12", "ttft": "500"}
    assert place.written(at()) == {}


@pytest.mark.parametrize(
    "params",
    [
        {"study": "<script>"},
        {"seats": "99"},
        {"seed": "-1"},
        {"chunk": "65"},
        {"ttft": "1e9"},
        {"step": "²"},
        {"request": "a\nb" * 50},
        {"rate": "٣"},
    ],
)
def test_a_hostile_link_is_one_sentence(open_page: Open, params: dict[str, str]) -> None:
    page = open_page("batching", **params)
    assert not page.exception
    assert len(page.warning) == 1
    assert next(iter(params)) in page.warning[0].value
    assert "<script" not in text_of(page)


# -- the studies


@pytest.mark.parametrize("study", list(place.STUDIES))
@pytest.mark.parametrize("source", list(place.SOURCES))
def test_every_study_opens(open_page: Open, study: str, source: str) -> None:
    page = open_page("batching", study=study, source=source)
    assert not page.exception
    assert not page.error
    assert not page.warning


def test_a_missing_recording_is_one_sentence(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    page = open_page("batching")
    assert not page.exception
    assert LESSON["refused"] in text_of(page)
    monkeypatch.undo()
    assert not open_page("batching").error


def test_three_recorded_runs_at_least() -> None:
    headers = [runs.recorded(name).header for name in RECORDED]
    assert len(headers) >= 3
    assert {header["label"] for header in headers} == {"RECORDED"}
    assert catalogue.recorded().keys() >= set(RECORDED)


def _steps(shown: studies.Shown) -> dict[str, int]:
    return {lane.name: json.loads(lane.serving)["summary"]["steps"] for lane in shown.lanes}


def test_the_same_requests_without_a_model_take_the_same_steps() -> None:
    recorded = studies.shown(at())
    simulated = studies.shown(at(source="simulated", seats=4))
    assert _steps(recorded) == _steps(simulated) == {"Static": 44, "Continuous": 29}
    one = _steps(studies.shown(at(source="simulated", seats=1)))
    assert one["Static"] == one["Continuous"] == 101, "one at a time, there is nothing to batch"


def test_admission_cures_the_thrash_in_the_simulation_too() -> None:
    def preemptions(**settings: Any) -> list[int]:
        lanes = studies.shown(at(study="pressure", source="simulated", **settings)).lanes
        return [json.loads(lane.serving)["summary"]["preemptions"] for lane in lanes]

    assert preemptions(seats=8, watermark=0) == [6, 6]
    assert preemptions(seats=8, watermark=20) == [6, 0]
    assert preemptions(seats=4, watermark=0) == [6, 0]


def test_what_is_said_of_thrashing_holds_in_the_run() -> None:
    thrash = studies.RECORDED["pressure"]["Nothing held back"]
    found, run = studies.figures(thrash)["summary"], runs.recorded(thrash)
    again, computed = found["recomputed_tokens"], found["computed_tokens"]
    (away,) = [row for row in studies.figures(thrash)["rows"] if row["preempted"]]
    assert (away["sequence"], len(away["preempted"])) == ("H", 6)
    assert (
        f"H is sent away six times, and {again:,} of the {computed:,} tokens"
        in (LESSON["words.full"])
    )
    assert again > 0.6 * computed, "the glossary says most"
    said = catalogue.recorded()[thrash]
    *most, last = map(str, away["preempted"])
    assert f"Steps {', '.join(most)} and {last}: H gives way. Two of three" in said["look"]
    blocks = run.header["scenario"]["engine"]["num_blocks"]
    assert f"a pool of {blocks} blocks. H, with {away['prompt_tokens']} tokens" in said["shows"]
    assert round(3 * again / computed) == 2


@given(
    st.integers(*place.LIMITS["rate"]),
    st.integers(*place.LIMITS["count"]),
    st.sampled_from(list(place.MIXES)),
    st.sampled_from(list(place.PATTERNS)),
    st.integers(*place.LIMITS["seats"]),
    st.integers(*place.LIMITS["seed"]),
)
def test_any_draw_is_a_scenario_that_the_page_runs(
    rate: int, count: int, mix: str, pattern: str, seats: int, seed: int
) -> None:
    here = at(rate=rate, count=count, mix=mix, pattern=pattern, seats=seats, seed=seed)
    text = arrivals.scenario(here)
    assert text == arrivals.scenario(here), "a link means one picture"
    scenario = Scenario.from_json(text)
    check_size(scenario)
    assert len(scenario.requests) == count
    assert arrivals.CLASSES.keys() == place.MIXES.keys()


def test_another_draw_is_another_picture_and_another_rate_brings_the_same_requests() -> None:
    first, second = (json.loads(arrivals.scenario(at(seed=seed))) for seed in (1, 2))
    assert first["requests"] != second["requests"]
    faster = json.loads(arrivals.scenario(at(seed=1, rate=90)))
    for a, b in zip(first["requests"], faster["requests"], strict=True):
        assert (a["id"], a["prompt_tokens"], a["max_tokens"]) == (
            b["id"], b["prompt_tokens"], b["max_tokens"],
        )  # fmt: skip


def test_continuous_is_never_later_on_the_draws_that_are_linked() -> None:
    for seed in range(6):
        steps = _steps(studies.shown(at(study="arrivals", seed=seed)))
        assert steps["Continuous"] <= steps["Static"]


def test_the_charts_below_follow_the_runs() -> None:
    shown = studies.shown(at(study="pressure"))
    data = [runs.recorded(name).data() for name in studies.RECORDED["pressure"].values()]
    chart = below.blocks_chart(shown.lanes, data)
    assert [line["name"] for line in chart["lines"]] == [lane.name for lane in shown.lanes]
    assert [mark["x"] for mark in chart["marks"]] == [15, 19, 23, 28, 43, 63]
    first = data[0]["steps"]
    assert chart["lines"][0]["values"][15] == first[15]["usage"]["free"]
    queue = below.queue_chart(studies.shown(at()).lanes, data)
    assert queue["lines"][0]["values"][:25] == [4] * 24 + [0]


def test_what_chunks_cost_is_read_from_the_runs() -> None:
    rows = below.chunks()
    assert [row["name"] for row in rows] == ["Whole", "256 tokens a step", "64 tokens a step"]
    whole = runs.recorded(studies.WHOLE).data()
    spent = [step_us(step) for step in whole["steps"]]
    assert rows[0]["long_ttft_us"] == pytest.approx(spent[10])
    assert rows[0]["gap_us"] == pytest.approx(spent[10])
    assert f"<b>{spent[10] / 1000:,.0f}</b>" in below.chunks_table("")
    for row, name in zip(rows, (studies.WHOLE, *studies.CHUNKED.values()), strict=True):
        spent = [step_us(step) for step in runs.recorded(name).data()["steps"]]
        assert row["all"] == len(spent)
        own = spent[10 : 10 + row["steps"]]
        assert row["long_ttft_us"] == pytest.approx(sum(own))
        assert row["gap_us"] == pytest.approx(max(own))


def test_what_is_said_of_chunks_holds_in_the_runs() -> None:
    """The same steps in all, the prompt over more of them; shorter gaps that are still long."""
    rows = below.chunks()
    assert [row["steps"] for row in rows] == [1, 4, 15]
    assert {row["all"] for row in rows} == {44}
    ratios = [row["ratio"] for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] > 2, "the others do notice"
    waits = [row["long_ttft_us"] for row in rows]
    assert waits == sorted(waits)
    values = below.chunks_values(rows)
    assert (values["all"], values["steps"]) == (44, "4 or 15")
    assert f"is {ratios[1]:.0f} and {ratios[2]:.0f} times" in LESSON["chunks"].format(**values)


# -- the prediction


def _true() -> grading.Policies:
    return grading.policies(studies.figures("static_batch"), studies.figures("continuous_batch"))


def test_the_truth_is_counted_in_the_runs() -> None:
    true = _true()
    assert true.lengths == (6, 24, 10, 8, 20, 5, 12, 16)
    assert (true.static, true.continuous, true.packed, true.batches) == (44, 29, 26, (24, 20))
    assert (true.ends, true.first_to_end) == ((23, 12), "F")


def test_whose_place_is_taken_is_read_from_the_run() -> None:
    """Not that of the first to end: A ends before D does, and E takes its place."""
    true, found = _true(), read(runs.recorded("continuous_batch").data()).lives
    ends = sorted((life.ended or 0, name) for name, life in found.items())
    assert ends[:2] == [(5, "A"), (7, "D")]
    assert [(found[a].stays[0].row, found[b].stays[0].row) for a, b in ("AE", "DF")] == [
        (0, 0),
        (3, 3),
    ]
    assert (true.place_of, true.begins) == ("D", 8)
    assert "the place of D in step 8" in LESSON["wrong-who"].format(**true.values())


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ((44, 29, "F"), ["right"]),
        ((26, 29, "F"), ["wrong-static-packed"]),
        ((24, 24, "B"), ["wrong-static-longest", "wrong-same", "wrong-who"]),
        ((101, 26, "F"), ["wrong-static-one", "wrong-packed"]),
        ((44, 44, "F"), ["wrong-same"]),
        ((40, 31, "F"), ["wrong-static", "wrong-continuous"]),
    ],
)
def test_feedback_names_the_misconception(said: tuple[int, int, str], names: list[str]) -> None:
    assert grading.feedback(_true(), *said) == names


@given(st.integers(0, 999), st.integers(0, 999), st.sampled_from("BF"))
def test_there_are_words_for_every_answer(static: int, continuous: int, who: str) -> None:
    true = _true()
    for name in [*grading.feedback(true, static, continuous, who), "fact", "predict"]:
        assert "{" not in LESSON[name].format(**true.values())
    spike = grading.spike(studies.figures(studies.WHOLE))
    for name in ("again", "again-fact", "again-right", "again-wrong", "again-size"):
        assert "{" not in LESSON[name].format(**spike.values())


def test_the_spike_is_a_ratio_of_the_run() -> None:
    spike = grading.spike(studies.figures(studies.WHOLE))
    assert spike.tokens == 899
    assert spike.ratio > 4


def test_an_option_is_right_where_it_is_true_or_nearly() -> None:
    same, few, ten = grading.LONGER
    right = {r: grading.longer(r) for r in (0.9, 1.3, 1.4, 1.6, 3, 7, 9, 9.5, 10.5, 11.5, 40)}
    assert right == {
        0.9: [same], 1.3: [same], 1.4: [same, few], 1.6: [same, few], 3: [few], 7: [few],
        9: [few], 9.5: [few, ten], 10.5: [few, ten], 11.5: [ten], 40: [ten],
    }  # fmt: skip
    assert grading.longer_feedback(ten, 7) == grading.longer_feedback(few, 40) == "again-size"
    assert grading.longer_feedback(same, 7) == "again-wrong"
    assert grading.longer_feedback(ten, 9.5) == "again-right"


def test_the_prediction_locks_and_reveals(open_page: Open) -> None:
    page = open_page("batching")
    page.number_input(key="ba.predict.static").set_value(26)
    page.number_input(key="ba.predict.continuous").set_value(29)
    page.button_group(key="ba.predict.who").set_value("F")
    page.button(key="ba.predict.lock").click().run()
    said = text_of(page)
    assert "You said static 26, continuous 29, F first." in said
    assert LESSON["wrong-static-packed"].format(**_true().values()) in said
    assert LESSON["fact"].format(**_true().values()) in said
    page.button_group(key="ba.predict.longer").set_value("About the same")
    page.button(key="ba.predict.lockagain").click().run()
    assert "You took the step's time for fixed." in text_of(page)


# -- words


def test_every_section_and_term_of_the_lesson_exists(root: Path) -> None:
    files = [*(root / "ui" / "batching").glob("*.py"), root / "pages" / "batching.py"]
    for file in files:
        for section in re.findall(r'words\["([^"{]+)"\]', file.read_text("utf-8")):
            assert section in LESSON.sections, (file.name, section)
    for study in place.STUDIES:
        assert f"study-{study}" in LESSON.sections
    for text in LESSON.sections.values():
        for term in glossary.terms(text):
            assert term in glossary.by_form(), term


def test_the_full_text_states_what_the_library_computes() -> None:
    inputs = {"model": "llama-3.1-70b", "tokens": 65536, "gpu": "h100-sxm5", "n_gpu": 8}
    long = calls.call("prefill_time", {**inputs, "dtype": "bf16", "mfu": 0.5}).result.value
    assert f"{long:.2f} s" in LESSON["words.full"]
    assert f"{40 / 2000 * 1000:.0f} ms" in LESSON["words.full"]


def test_the_code_shown_is_there(root: Path) -> None:
    page = (root / "pages" / "batching.py").read_text("utf-8")
    targets = re.findall(r'"(core\.[\w.]+:[\w.]+)"', page)
    assert len(targets) == 5
    for target in targets:
        assert code.snippet(target) is not None, target


# -- browser and Python


def test_browser_and_python_agree_on_goodput(node: str, root: Path) -> None:
    cases = []
    for name in RECORDED:
        run = runs.recorded(name).data()
        found, figures = read(run), studies.figures(name)
        clock_ends = figures["ends_us"]
        assert clock_ends is not None
        for ttft, gap in ((1, 1), (14, 2), (30, 30)):
            mine = [*goodput(found, ttft, gap)]
            cases.append([figures, {"ttft": ttft, "gap": gap}, "steps", mine])
        clock = Clock.of(run)
        assert clock is not None
        times = [in_us(life, clock) for life in found.lives.values()]
        for share in (0.3, 0.6, 1.0):
            ttft = share * max(t.ttft or 0 for t in times)
            gap = share * max(max(t.gaps, default=0) for t in times)
            mine = [*goodput(found, ttft, gap, clock)]
            cases.append([figures, {"ttft": ttft, "gap": gap}, "ms", mine])
    for seed in range(40):  # cancelled, refused, several answers
        run = simulate(Scenario.from_dict(random_scenario(random.Random(seed)))).to_dict()
        for part in (run, {**run, "steps": run["steps"][: len(run["steps"]) // 2]}):
            mine = [*goodput(read(part), 12, 4)]
            cases.append([serving(part), {"ttft": 12, "gap": 4}, "steps", mine])
    module = (root / "ui/components/gantt/js/measure.js").as_uri()
    script = (
        f'import {{ goodput }} from "{module}"; let s = ""; for await (const c of process.stdin)'
        " s += c; console.log(JSON.stringify(JSON.parse(s).map((c) => {"
        " const g = goodput(c[0], c[1], c[2]); return [g.met, g.of]; })));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [case[3] for case in cases]
