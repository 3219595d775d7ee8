"""The prefill and decode page without a browser: its numbers, its link, its prediction."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sizing import calls, catalog, gpus, step_time
from tests.app.conftest import Open, text_of
from ui import lesson, runs
from ui.kit import code
from ui.prefill import ceilings, data, grading, heads, metrics, modelled, place

RECORDED = [*(name for names in data.STAND_INS.values() for name in names), data.FIRST]


@pytest.fixture
def in_browser(node: str, root: Path) -> Any:
    """What the browser's code makes of a run."""

    def made(run: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            [node, str(root / "tests" / "js" / "prefill_cli.mjs")],
            input=json.dumps({"run": run, "machine": machine}),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        out: dict[str, Any] = json.loads(done.stdout)
        return out

    return made


def test_browser_and_python_tell_the_same_times_and_floors(in_browser: Any) -> None:
    h100 = modelled.machines()[0]
    for name in RECORDED:
        run = runs.recorded(name).data()
        seen = in_browser(run, h100)
        assert len(seen["times"]) == len(run["header"]["scenario"]["requests"])
        for request, told in seen["times"].items():
            mine = metrics.times(run, request)
            assert told["tokens"] == mine.tokens
            assert told["ttft_us"] == pytest.approx(mine.ttft_us)
            assert told["gap_us"] == pytest.approx(mine.gap_us)
        for step, told in zip(run["steps"], seen["modelled"], strict=True):
            mine = modelled.step_seconds(step["work"], h100["flops"], h100["bytes"])
            assert told == pytest.approx(mine)


@pytest.mark.parametrize("name", list(modelled.SHOWN))
def test_a_modelled_step_is_what_the_sizing_library_says(name: str) -> None:
    """Within 2 %: the step's counts have norms, writes and logits, which the formula leaves out."""
    gpu, spec = gpus.get(name), catalog.get("smollm2-135m")
    run = runs.recorded("batch_1_to_32").data()
    checked = 0
    for step in run["steps"]:
        shares = step["scheduled"].values()
        if any(share["num_scheduled_tokens"] != 1 for share in shares):
            continue
        held = sum(share["num_computed_tokens"] for share in shares)
        batch = len(shares)
        told = modelled.step_seconds(step["work"], gpu.peaks["bf16"], gpu.bandwidth)
        context = round(held / batch)
        known = step_time.decode_step_time(spec, gpu, batch=batch, context=context).value
        assert told == pytest.approx(known, rel=0.02)
        checked += 1
    assert checked > 30
    prompt = run["steps"][0]
    told = modelled.step_seconds(prompt["work"], gpu.peaks["bf16"], gpu.bandwidth)
    tokens = prompt["scheduled"]["R1"]["num_scheduled_tokens"]
    known = step_time.prefill_time(spec, tokens, gpu, weights="bf16").value
    assert told == pytest.approx(known, rel=0.02)


# -- ceilings


def _calibration(folder: Path, content: object) -> None:
    (folder / "calibration.json").write_text(
        content if isinstance(content, str) else json.dumps(content), "utf-8"
    )


DEVICE = {
    "device": "CPU",
    "processor": "P, 2 threads",
    "threads": 2,
    "torch": "2.13.0",
    "kernels": "compiled",
    "date": "2026-11-30T00:00:00Z",
    "read_bytes_per_s": {"median": 2e10, "low": 1e10, "high": 3e10},
    "matmul_flops_per_s": {
        "bfloat16": {"median": 1e11, "low": 1e11, "high": 1e11},
        "bfloat16 packed": {"median": 3e11, "low": 1e11, "high": 4e11},
        "float32": {"median": 5e10, "low": 1e10, "high": 6e10},
    },
}


def test_the_stored_ceilings_are_read_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path))
    assert ceilings.stored() == []
    _calibration(tmp_path, {"schema": "calibration/1", "devices": {"CPU": DEVICE}})
    (found,) = ceilings.stored()
    assert found["flops"] == {"bfloat16": 3e11, "float32": 5e10}
    assert found["bytes"] == 2e10
    assert found["kernels"] == "compiled"


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        {"schema": "calibration/2", "devices": {"CPU": DEVICE}},
        {"schema": "calibration/1", "devices": []},
        {"schema": "calibration/1", "devices": {"CPU": None}},
        {"schema": "calibration/1", "devices": {"CPU": {**DEVICE, "read_bytes_per_s": 3}}},
        {"schema": "calibration/1", "devices": {"CPU": {**DEVICE, "matmul_flops_per_s": {}}}},
    ],
)
def test_a_damaged_calibration_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object
) -> None:
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path))
    _calibration(tmp_path, content)
    assert ceilings.stored() == []


# -- heads


def test_the_heads_of_the_default_model_are_its_own() -> None:
    found = heads.loaded()
    assert found is not None
    assert (found.query, found.kv, found.head_dim, found.layers) == (9, 3, 64, 30)
    assert found.kind == "GQA"
    run = runs.recorded(data.FIRST).header
    assert found.kv_bytes(found.kv) == run["kv_bytes_per_token"] == 23_040
    assert [kv for _, kv in found.variants()] == [9, 3, 1]
    page = heads.page(found, "words <b>")
    assert page.count("<i></i>") == 27
    assert "words &lt;b&gt;" in page


@pytest.mark.parametrize("name", catalog.names())
def test_any_model_is_drawn_or_left_out(name: str) -> None:
    found = heads.of_spec(catalog.get(name), name, "somewhere")
    if found is None:
        return
    for _, kv in found.variants():
        assert found.query % kv == 0
        assert heads.drawing(found, kv).count("<i></i>") == found.query


def test_a_model_that_nobody_knows_has_no_drawing() -> None:
    assert heads.loaded("no-such-model") is None


# -- the link


def test_a_link_says_where_to_stand() -> None:
    asked = {"run": "one_question", "step": "3", "gap": "20", "machine": "h100-sxm5", "chat": "0"}
    found, refused = place.read(asked)
    assert refused is None
    assert found == {
        "run": "one_question",
        "step": 3,
        "gap": 20,
        "machine": "h100-sxm5",
        "chat": False,
    }


@given(st.dictionaries(st.sampled_from(place.NAMES), st.text(max_size=60)))
def test_no_link_breaks_the_page(asked: dict[str, str]) -> None:
    found, refused = place.read(asked)
    assert set(found) <= set(place.NAMES)
    assert (refused is None) == (len(found) == len(asked))
    assert place.written(asked).keys() == found.keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", "../../etc/passwd"),
        ("run", ".hidden"),
        ("step", "-1"),
        ("step", "²"),
        ("max", "100000"),
        ("exp", "all"),
        ("machine", "z80"),
        ("prompt", "x" * 5_000),
        ("follow", "<b>"),
    ],
)
def test_what_cannot_be_shown_is_named(open_page: Open, name: str, value: str) -> None:
    at = open_page("prefill_decode", **{name: value})
    assert not at.exception
    (warning,) = at.warning
    assert name in warning.value


def test_only_words_go_into_the_address() -> None:
    assert place.written({"step": 3, "gap": "50", "other": "x"}) == {"gap": "50"}
    assert place.written("step") == {}


# -- the prediction


_RATIOS = list(grading.OPTIONS.values())


def _measured(ttft: float, gap: float) -> dict[str, Any]:
    rows = [
        {"tokens": 74, "ttft_us": 40_000.0, "gap_us": 11_000.0},
        {"tokens": 148, "ttft_us": 40_000.0 * ttft, "gap_us": 11_000.0 * gap},
    ]
    return {"id": "double", "label": "LIVE", "rows": rows}


@pytest.mark.parametrize(
    ("ttft", "gap", "said"),
    [
        (2.0, 1.0, ["right"]),
        (1.0, 1.0, ["wrong-ttft-same"]),
        (4.0, 1.0, ["wrong-ttft-square"]),
        (2.0, 2.0, ["wrong-gap-doubles"]),
        (1.0, 4.0, ["wrong-ttft-same", "wrong-gap-doubles"]),
    ],
)
def test_feedback_names_what_was_believed(ttft: float, gap: float, said: list[str]) -> None:
    found = grading.doubling(_measured(1.7, 1.03))
    assert found is not None
    assert grading.feedback(found, ttft, gap) == said


def test_on_a_machine_that_reads_longer_than_it_computes_the_first_token_stays() -> None:
    found = grading.doubling(_measured(1.05, 1.6))
    assert found is not None
    assert grading.feedback(found, 2.0, 1.0) == ["wrong-ttft-not-yet", "wrong-gap"]


@given(st.sampled_from(_RATIOS), st.sampled_from(_RATIOS), st.floats(0.5, 5), st.floats(0.5, 5))
def test_every_answer_has_its_words(ttft: float, gap: float, a: float, b: float) -> None:
    words = lesson.load("prefill_decode")
    found = grading.doubling(_measured(a, b))
    assert found is not None
    for name in grading.feedback(found, ttft, gap):
        assert words[name]
    assert "{" not in words["fact"].format(**found.values())


def test_what_the_lesson_says_of_larger_machines_is_computed() -> None:
    node = {"model": "llama-3-70b", "gpu": "h100-sxm5", "n_gpu": 8}
    prompt = calls.call("prefill_time", {**node, "tokens": 2048, "mfu": 0.5}).value
    alone = calls.call("decode_step_time", {**node, "context": 2048}).value
    many = calls.call("decode_step_time", {**node, "context": 2048, "batch": 64}).value
    share = calls.call("attention_flop_share", {"model": "llama-3-70b", "tokens": 2048}).value
    assert prompt and alone and many and share
    words = lesson.load("prefill_decode")["words.full"]
    for said in (
        f"takes {prompt * 1e3:.0f} ms at half the peak",
        f"behind it {alone * 1e3:.1f} ms at full bandwidth",
        f"costs {prompt / 2048 * 1e3:.2f} ms and a token of the answer {alone / prompt * 2048:.0f}",
        f"the step takes {many * 1e3:.1f} ms, nearly a third longer",
        f"attention is {share:.1%}".replace("%", " %"),
    ):
        assert said in words
    assert 1.25 < many / alone < 1.4


@pytest.mark.parametrize(
    "measured",
    [None, 3, {}, {"id": "batch"}, {"id": "double", "rows": [1]}, _measured(0, 1)],
)
def test_another_report_is_no_answer(measured: object) -> None:
    assert grading.doubling(measured) is None


def test_the_prediction_locks_and_is_answered(open_page: Open) -> None:
    at = open_page("prefill_decode")
    at.segmented_control(key="pd.predict.ttft").set_value("× 1")
    at.button(key="pd.predict.lock").click().run()
    assert at.button(key="pd.predict.lock"), "half a prediction does not lock"
    at.segmented_control(key="pd.predict.gap").set_value("× 2")
    at.button(key="pd.predict.lock").click().run()
    assert "Locked" in text_of(at)
    at.session_state["pd.measured"] = _measured(1.9, 1.03)
    at.run()
    assert not at.exception
    assert "You let the gap grow" in text_of(at)
    assert "74 → 148 tokens" in text_of(at)
    at.button(key="pd.predict.close").click().run()
    assert "You let the gap grow" not in text_of(at)


@pytest.mark.parametrize("level", ["short", "plain", "full"])
def test_every_level_has_its_words(open_page: Open, level: str) -> None:
    at = open_page("prefill_decode", level=level)
    assert not at.exception
    assert "What you are looking at" in text_of(at)


# -- the page


def test_the_page_stands_without_recorded_runs(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path / "none"))
    at = open_page("prefill_decode")
    assert not at.exception
    assert not at.error


def test_the_code_of_a_step_is_shown(open_page: Open) -> None:
    at = open_page("prefill_decode")
    at.session_state[code.KEY] = True
    shown = "\n".join(c.value for c in at.run().code)
    assert "def _step" in shown
    assert "def count" in shown


def test_the_same_page_sends_the_same_data() -> None:
    words = lesson.load("prefill_decode")
    one, two = (data.bench_data(words, {}, present=False) for _ in range(2))
    assert one == two
    assert one["first"] == "one_question"
    assert all(one["experiments"].values())
    assert one["examples"][0]["text"].startswith("Read this")
    assert 190 < one["reading"] < 200
