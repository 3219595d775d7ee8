"""The small parts of the pages: lessons, catalogue, prediction, preview, code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RunError, ScenarioError
from core.scenario import Scenario
from core.simulate import simulate
from ui import catalogue, code, lesson, prediction, preview, runs, worker


def test_a_lesson_is_cut_into_its_sections() -> None:
    made = lesson.parse("# T\n> one\n> two\n\n## a\nx\n\ny\n## b\nz\n")
    assert (made.title, made.objective) == ("T", "one two")
    assert made["a"] == "x\n\ny"
    assert made["b"] == "z"


def test_a_lesson_without_an_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="objective"):
        lesson.parse("# T\n## a\nx")


@pytest.mark.parametrize("name", ["home", "block_pool"])
def test_every_section_that_a_page_names_exists(name: str, root: Path) -> None:
    words = lesson.load(name)
    used = {"home": ["ui/landing.py"], "block_pool": ["pages/block_pool.py", "ui/predict.py"]}
    for file in used[name]:
        for section in re.findall(r'words\["([^"]+)"\]', (root / file).read_text("utf-8")):
            assert section in words.sections, (file, section)


@given(st.integers(1, 500), st.integers(1, 64), st.integers(0, 600), st.integers(0, 600))
def test_feedback_has_words_for_every_answer(p: int, size: int, blocks: int, waste: int) -> None:
    packing = prediction.Packing(p, size)
    assert packing.blocks * size - p == packing.waste < size
    words = lesson.load("block_pool")
    for answer in (blocks, None):
        said = words[prediction.feedback(packing, answer, waste)].format(**packing.values())
        assert said
        assert "{" not in said


def test_feedback_names_the_misconception() -> None:
    packing = prediction.Packing(33, 4)
    assert prediction.feedback(packing, 9, 3) == "right"
    assert prediction.feedback(packing, 8, 3) == "wrong-rounded-down"
    assert prediction.feedback(packing, 33, 0) == "wrong-per-token"
    assert prediction.feedback(packing, 16, 31) == "wrong-reserve"
    assert prediction.feedback(packing, 9, 7) == "wrong-waste"


def test_the_answer_is_counted_in_the_engine() -> None:
    run = runs.simulate(catalogue.entries()["thirty-three"].text).data()
    assert prediction.from_run(run) == prediction.Packing(33, 4)


@pytest.mark.parametrize("slug", list(catalogue.entries()))
def test_built_in_scenarios_run_and_can_be_read(slug: str) -> None:
    entry = catalogue.entries()[slug]
    assert Scenario.from_json(entry.text).name == entry.title
    if entry.blocks:
        return  # run in tests/core; its tokens are numbers
    run = runs.simulate(entry.text).data()
    assert run["header"]["label"] == "SIMULATED"
    if slug not in ("system-prompt-256", "block-sizes"):
        texts = run["header"]["token_text"]
        sampled = {
            str(event["token"])
            for step in run["steps"]
            for event in step["events"]
            if event["type"] == "token_sampled"
        }
        assert sampled <= texts.keys()


def _kinds(slug: str) -> set[str]:
    run = runs.simulate(catalogue.entries()[slug].text).data()
    kinds = set()
    for step in run["steps"]:
        for event in step["events"]:
            kinds.add(event["type"])
            kinds.add(f"{event['type']} {event.get('reason') or event.get('cause')}")
    return kinds


@pytest.mark.parametrize(
    ("slug", "shown"),
    [
        ("shared-prefix", "block_shared hit"),
        ("fork", "block_copied copy_on_write"),
        ("preempt", "preempted no_free_blocks"),
        ("evict", "block_evicted reused"),
        ("head-of-line", "waiting behind_head"),
        ("static", "waiting batch_not_finished"),
        ("contiguous", "waiting no_contiguous_run"),
        ("radix-twins", "blocks_freed duplicate"),
        ("system-prompt-256", "node_split"),
    ],
)
def test_each_scenario_shows_what_its_line_says(slug: str, shown: str) -> None:
    assert shown in {k.replace(" None", "") for k in _kinds(slug)}


def test_continuous_needs_fewer_steps_than_static() -> None:
    steps = [
        len(runs.simulate(catalogue.entries()[slug].text).data()["steps"])
        for slug in ("continuous", "static")
    ]
    assert steps[0] < steps[1]


def test_salts_share_within_and_never_across() -> None:
    run = runs.simulate(catalogue.entries()["salts"].text).data()
    hits = {name: result["num_cached_tokens"] for name, result in run["results"].items()}
    assert hits == {"A": 0, "B": 8, "C": 0, "D": 8}


def test_a_step_without_an_event_says_what_it_computes() -> None:
    """Also where that is more than a token each: a piece of a prompt, or all of it anew."""
    steps = runs.recorded("kv_cache_off").data()["steps"]
    assert preview.headline(steps[20]["events"]) == ("Prefill", "A computes 94 tokens.")
    steps = runs.recorded("kv_cache_on").data()["steps"]
    said = "Every running sequence computes one token."
    assert preview.headline(steps[20]["events"]) == ("Decode", said)
    shares = [("A", 1), ("B", 7), ("C", 1)]
    mixed = [{"type": "scheduled", "sequence": n, "num_scheduled_tokens": k} for n, k in shares]
    assert preview.headline(mixed)[1] == "B computes 7 tokens, the others one each."


def test_preview_frames_follow_the_run() -> None:
    run = runs.simulate(catalogue.entries()["two-answers"].text).data()
    frames = preview.frames(run)
    assert [f["step"] for f in frames] == [s["step"] for s in run["steps"]]
    copy = next(f for f in frames if f["copy"])
    assert copy["head"] == "Copy-on-write"
    source, target = copy["copy"]
    assert copy["blocks"][source]["owners"] == ["B#1"]
    assert copy["blocks"][target]["owners"] == ["B#0"]
    for frame, step in zip(frames, run["steps"], strict=True):
        used = [b for b in frame["blocks"] if b and b["owners"]]
        assert len(used) == step["usage"]["in_use"]
        idle = [b for b in frame["blocks"] if b and b["idle"]]
        assert len(idle) == step["usage"]["cached"]


def test_code_comes_with_its_place(root: Path) -> None:
    found = code.snippet("core.kv.manager:KVCacheManager.allocate_slots")
    assert found is not None
    assert found.source.startswith("def allocate_slots")
    lines = (root / found.path).read_text("utf-8").splitlines()
    assert "def allocate_slots" in lines[found.line - 1]
    assert code.snippet("core.nothing:here") is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\x1f\x8b", b"\x1f\x8bzzzz", b"[]", b'{"schema": "run/2"}', b"\xff\xfe", b"{" * 99],
)
def test_a_hostile_upload_is_one_error(data: bytes) -> None:
    from core.errors import KVScopeError

    with pytest.raises(KVScopeError) as caught:
        runs.open_file(data)
    assert "\n" not in str(caught.value)


def test_a_bomb_upload_is_not_inflated() -> None:
    import gzip

    from core.errors import RunError

    bomb = gzip.compress(b" " * (runs.MAX_OPENED_BYTES + 10), 9)
    assert len(bomb) < 100_000
    with pytest.raises(RunError, match="after decompression"):
        runs.open_file(bomb)


def test_uploads_are_told_apart() -> None:
    import gzip

    text = catalogue.entries()["fork"].text
    assert runs.open_file(text.encode())[0] == "scenario"
    packed = json.dumps(runs.simulate(text).data()).encode()
    assert runs.open_file(packed)[0] == "run"
    assert runs.open_file(gzip.compress(packed))[0] == "run"


@pytest.mark.parametrize("lie", ["block", "label", "token"])
def test_a_run_file_that_the_scheduler_disagrees_with_is_not_opened(lie: str) -> None:
    run = simulate(Scenario.from_json(catalogue.entries()["fork"].text))
    first = run.steps[0]["events"]
    if lie == "block":
        next(e for e in first if e["type"] == "blocks_allocated")["blocks"][0] += 1
    elif lie == "label":
        run.header["label"] = "LIVE"
    else:
        next(e for e in first if e["type"] == "token_sampled")["token"] += 1
    with pytest.raises(RunError, match="does not agree"):
        runs.open_file(run.to_bytes())


def large(num_blocks: int) -> str:
    engine = {"num_blocks": num_blocks, "max_num_batched_tokens": 8}
    requests = [{"id": "A", "prompt_tokens": [1, 2, 3, 4, 5], "n": 2}]
    return json.dumps({"schema": "scenario/1", "engine": engine, "requests": requests})


def test_a_million_blocks_run_in_a_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = runs.simulate(large(64)).data()["steps"]
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **kwargs: started.append(1) or popen(*args, **kwargs)
    )
    there = runs.simulate(large(1_000_000)).data()["steps"]
    assert started
    assert [step["events"] for step in there] == [step["events"] for step in here]
    assert there[0]["usage"]["free"] == 1_000_000 - 2


def test_a_worker_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_SECONDS", 0.01)
    with pytest.raises(ScenarioError, match="given up"):
        runs.simulate(large(70_000))


def test_a_worker_that_needs_too_much_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_MEMORY_BYTES", 100 * 1024**2)
    with pytest.raises(ScenarioError):
        runs.simulate(large(1_000_001))


def test_more_than_that_is_refused_with_the_way_to_do_it() -> None:
    with pytest.raises(ScenarioError, match="python -m core simulate"):
        runs.simulate(large(2_000_000))


def test_a_prompt_in_chunks_of_one_token_is_not_run_for_everybody() -> None:
    asked = {
        "schema": "scenario/1",
        "engine": {"num_blocks": 40_000, "max_num_batched_tokens": 1, "max_model_len": 99_999},
        "requests": [{"id": "A", "prompt": "x" * 20_000, "max_tokens": 1}],
    }
    with pytest.raises(ScenarioError, match="10,000 steps"):
        runs.check_size(Scenario.from_json(json.dumps(asked)).scripted())
