"""The capacity planner without a browser: its figures against the library, its link, its files, its
prediction, and the trial on the engine."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from core.sizing import calls, catalog, gpus
from core.sizing.advice import advise
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.plan import plan
from core.sizing.rules import rules
from tests.app.conftest import Open, text_of
from tests.sizing.test_flags import parsed
from ui import lesson
from ui.claims import ledger
from ui.kit import code
from ui.planner import bench, example, figures, files, grading, others, place, steps, trial
from ui.planner.place import DEFAULT, EXAMPLES, NAMES, Place

Json = dict[str, Any]
PLACES = [one for _, one in EXAMPLES.values()]
PAGE = "capacity_planner"


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


# -- every figure is the library's


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_every_step_is_what_the_library_says(at: Place) -> None:
    done = figures.planned(at)
    shown = {row["id"]: row["figure"]["value"] for row in steps.steps(done)}
    weights: Json = figures._AWQ if at.w == "awq" else {"weight_dtype": at.w}
    made = plan(
        Deployment(
            catalog.get(at.model), gpus.get(at.gpu), tp=at.tp, attention_dp=at.adp,
            context=at.ctx, kv_dtype=at.kv, prefix_tokens=at.sys, **weights,
        )
    )  # fmt: skip
    names = {
        "weights": "weights", "weights_gpu": "weights_per_gpu", "overhead": "overhead",
        "pool": "kv_pool_per_gpu", "token": "kv_per_token", "sequence": "kv_per_sequence",
        "sequence_gpu": "sequence_in_pool", "held": "held", "streams": "streams",
        "prefill": "prefill", "prefill_hit": "prefill_hit",
    }  # fmt: skip
    for step, name in names.items():
        if step in shown:
            assert shown[step] == getattr(made, name).value, step
    held = calc(
        "gpus_for_users", users=at.users, streams_per_replica=made.batch, gpus_per_replica=at.tp
    )
    assert shown["gpus"] == held
    answer = bench.of(done)["answer"]
    assert answer["bounds"] == made.bounds and answer["binding"] == made.binding
    assert answer["each"] == at.adp * min(made.bounds.values())
    if "price" in shown:
        assert shown["price"] == calc(
            "cost_per_hour", price_per_gpu_hour=at.price, n_gpu=answer["gpus"]
        )
    assert shown["token"] == calc("kv_bytes_per_token", model=at.model, dtype=at.kv)
    if answer["load"] and at.w != "awq":
        assert shown["itl"] == calc(
            "decode_step_time", model=at.model, gpu=at.gpu, n_gpu=at.tp, batch=answer["load"],
            context=at.ctx, weights=at.w, kv=at.kv, mfu=0.5, attention_dp=at.adp,
        )  # fmt: skip


def test_every_rule_can_speak() -> None:
    """There is a place for each of them, and the anti-patterns can be seen as such."""
    places = [
        DEFAULT,
        Place(alloc="contiguous", sys=0),
        Place(hit=30, evict="fifo", off="nvme-gen5", dis=1, kv="int4_per_token_head", bs=256),
        Place(seqs=8, tp=16, kv="bf16"),
        Place(kv="bf16", tp=8, w="bf16"),
        Place(kv="bf16"),
    ]
    found = [one for at in places for one in figures.planned(at).findings]
    assert {one.rule.id for one in found} == set(rules())
    bad = {one.rule.id for one in found if one.status == "problem" and one.rule.anti_pattern}
    assert {"contiguous_reservation", "fifo_eviction", "int4_kv_evaluated"} <= bad


def test_every_rule_is_held_against_the_plan() -> None:
    done = figures.planned(replace(DEFAULT, kv="int4_per_token_head", bs=128))
    found = bench.advice(done)
    assert found["found"] == sorted(
        (one.to_dict() for one in advise(done.whole)),
        key=lambda one: ["problem", "notice", "unknown", "pass"].index(one["status"]),
    )
    assert len(found["found"]) + len(found["silent"]) == found["count"] == len(rules())
    worst = {one["id"] for one in found["found"] if one["status"] == "problem"}
    assert "int4_kv_evaluated" in worst
    evaluated = figures.planned(replace(DEFAULT, kv="int4_per_token_head", ev=1))
    assert "int4_kv_evaluated" not in {
        one.rule.id for one in evaluated.findings if one.status == "problem"
    }


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_what_if_changes_one_thing_and_says_its_figures(at: Place) -> None:
    rows = others.table(at)
    assert rows[0]["set"] == {} and len(rows) > 5
    for row in rows[1:]:
        assert len(row["set"]) == 1
        taken = place.taken(at, row["set"])
        assert taken != at
        if "why" not in row:
            expected = others.of(figures.designed(figures.alone(taken)))
            assert {name: row[name] for name in expected} == expected
    assert {row["group"] for row in rows} >= {"Quantisation", "Parallelism"}


@pytest.mark.parametrize("axis", ["itl", "ttft"])
def test_the_frontier_is_what_no_other_plan_beats(axis: str) -> None:
    at = replace(DEFAULT, gpu2="h200-sxm", y=axis)
    points = others.frontier(at)
    assert len(points) > 20 and {one["kind"] for one in points} == {0, 1}
    assert [one["now"] for one in points].count(True) == 1
    for one in points:
        beats = [
            o for o in points
            if o["price"] <= one["price"] and o[axis] <= one[axis]
            and (o["price"], o[axis]) != (one["price"], one[axis])
        ]  # fmt: skip
        assert one["dominated"] == bool(beats)
        there = figures.designed(figures.alone(place.taken(at, one["set"])))
        assert there.holds and others.of(there)["price"] == one["price"]


def test_a_control_waits_for_no_other_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes first; the other plans come when the browser asks, or are known already."""
    state: Json = {}
    monkeypatch.setattr(bench.st, "session_state", state)
    words = lesson.load(PAGE)
    bench.go(DEFAULT)
    bench._rest()
    assert bench.data(words, present=False)["frontier"]
    bench.go(replace(DEFAULT, ctx=5008))
    light = bench.data(words, present=False)
    assert light["frontier"] is None and light["others"] is None and light["answer"]["each"]
    bench._rest()
    assert bench.data(words, present=False)["others"]
    bench.go(replace(DEFAULT, ctx=5008, users=300, ttft=0, price=3.0))
    assert bench.data(words, present=False)["frontier"], "all its replicas are planned already"


# -- the chapter's example


def test_the_example_lists_the_ledgers_claims_and_its_words_hold() -> None:
    listed = {id for _, id, *_ in example.claims()}
    known = {id for id, one in ledger.known().items() if one.section.startswith(example.SECTION)}
    assert listed == known and len(listed) > 15
    assert {id for ids in steps.CLAIMS.values() for id in ids} <= listed
    values = example.values()
    pair = figures.planned(EXAMPLES["pairs"][1])
    assert int(values["one"]) < DEFAULT.users < int(values["pair"]) < 2 * DEFAULT.users
    assert not pair.design.meets(0.4, None)
    assert int(values["pair_hit"]) > DEFAULT.ttft > int(values["right_miss"])
    assert int(values["right_each"]) < DEFAULT.users
    assert figures.planned(DEFAULT).design.meets(0.4, 0.05)
    for name in ("example", "example-after"):
        assert "{" not in lesson.load(PAGE)[name].format(**values)
    for _, id, *_ in example.claims():
        assert f'href="claims_ledger?claim={id}"' in example.table()


def test_claims_stand_beside_the_steps_of_the_chapters_plan_alone() -> None:
    assert any(row["claims"] for row in steps.steps(figures.planned(DEFAULT)))
    other = figures.planned(replace(DEFAULT, users=150))
    assert not any(row["claims"] for row in steps.steps(other))


# -- the trial


@pytest.mark.parametrize(
    "at",
    [*PLACES, replace(DEFAULT, seqs=32), replace(DEFAULT, seqs=999, batch=40)],
    ids=[*EXAMPLES, "few places", "small budget"],
)
def test_the_engine_admits_n_and_the_next_one_waits(at: Place) -> None:
    done = trial.tried(at)
    assert done is not None
    assert done.fill.binding == figures.planned(at).plan.binding
    assert (done.admitted, done.reason) == (done.fill.predicted, done.fill.reason)
    assert done.played.header["label"] == "SIMULATED"
    predicted, said = trial.sentences(lesson.load(PAGE), done, 158, "blocks")
    assert f"**{done.fill.predicted} fit" in predicted
    assert f"{done.admitted} ran at once" in said and "report" not in said
    assert "{" not in predicted + said


# -- what can be taken away


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_files_open(at: Place) -> None:
    done = figures.planned(at)
    table = pd.read_csv(io.StringIO(files.as_csv(done)))
    assert list(table.columns[:4]) == ["group", "name", "value", "unit"]
    value = table.set_index("name")["value"]
    assert int(value["kv_per_token"]) == calc("kv_bytes_per_token", model=at.model, dtype=at.kv)
    out = json.loads(files.as_json(done))
    assert out["schema"] == "capacity-plan/1" and out["inputs"]["users"] == at.users
    named = {row["name"]: row for row in out["results"]}
    assert named["streams"]["value"] == done.plan.streams.value
    assert named["streams"]["derivation"]["steps"]
    report = files.as_report(done)
    assert report.startswith("# Capacity plan") and "{" not in report
    assert not re.search(r"\.\d*[1-9]\d{4}", report), "no more digits than one reads"
    assert len(report.splitlines()) < 90  # a page
    for engine in ("vllm", "sglang"):
        text = files.as_flags(done, engine)
        assert text in report
        got = parsed(text, engine)
        if engine == "vllm":
            assert got.tensor_parallel_size * at.adp == at.tp and got.max_num_seqs == at.seqs
        else:
            assert got.tp == at.tp and got.max_running_requests == at.adp * at.seqs


def test_a_plan_that_holds_nothing_still_gives_files() -> None:
    done = figures.planned(Place(tp=1, w="bf16"))
    assert files.as_flags(done, "vllm").startswith("#")
    assert "# Capacity plan" in files.as_report(done)
    assert json.loads(files.as_json(done))["design"]["gpus"] == 0
    assert trial.tried(Place(tp=1, w="bf16")) is None


def test_a_trial_counts_in_words_and_the_ledgers_verdicts_are_its_words() -> None:
    at = Place(seqs=2, ctx=64, sys=0)
    done = trial.tried(at)
    assert done is not None and done.admitted == 2
    assert "was the 3rd, and waited" in trial.sentences(lesson.load(PAGE), done, 2, "x")[1]
    assert steps.verdict("B200") == "no formula decides" and steps.verdict("B143") == (
        "right with rounding"
    )


def test_a_model_that_nobody_publishes_is_not_named_as_if_one_could_load_it() -> None:
    text = files.as_flags(figures.planned(EXAMPLES["forty"][1]), "vllm")
    assert text.splitlines()[0] == "# custom-40b is published nowhere: put the path of yours for it"
    assert "published nowhere" not in files.as_flags(figures.planned(DEFAULT), "vllm")


@pytest.mark.parametrize(
    ("change", "cached"),
    [({}, 1024), ({"sys": 8}, 0), ({"sys": 4096}, 4080), ({"p": 1000}, 992), ({"sys": 0}, 0)],
)
def test_what_the_cache_has_is_counted_in_whole_blocks(change: Json, cached: int) -> None:
    done = figures.planned(replace(DEFAULT, **change))
    assert figures.cached_tokens(done.plan) == bench.of(done)["answer"]["cached"] == cached
    assert (done.plan.prefill_hit is None) == (not cached)


def test_attention_apart_is_worth_it_for_a_latent() -> None:
    """Eight GPUs that each keep every latent, against eight that share the sequences out."""
    split, apart = (figures.planned(EXAMPLES[name][1]) for name in ("latent", "apart"))
    assert apart.plan.batch > 5 * split.plan.batch and apart.design.num_gpus == 8
    assert apart.plan.batch == 8 * min(apart.plan.bounds.values())
    row = next(row for row in steps.steps(apart) if row["id"] == "streams")
    assert [line.split(" = ")[0] for line in row["lines"]] == [
        "min(blocks, max_num_seqs, max_num_batched_tokens)",
        "schedulers · min",
    ]
    names = {row["name"]: row for row in others.table(EXAMPLES["latent"][1])}
    assert names["Attention in 8 groups"]["each"] == apart.plan.batch
    assert not any("why" in row for row in others.table(EXAMPLES["apart"][1]))
    assert place.read({"tp": "4", "adp": "16"})[0].adp == 4


# -- the link


def test_a_link_brings_every_control() -> None:
    at = Place(
        users=77, ctx=2048, sys=512, p=1024, ttft=900, itl=33, price=1.25, model="llama-3.1-8b",
        gpu="a100-sxm4-80", tp=4, adp=2, r=3, w="awq", kv="bf16", seqs=64,
        batch=2048, bs=32, util=88, alloc="paged", evict="fifo", off="dram-pcie5", hit=85, ev=1,
        dis=1, gpu2="h200-sxm", price2=3.5, y="ttft",
    )  # fmt: skip
    written = place.written(at)
    assert set(written) == set(NAMES) - {"alloc"}
    assert place.read(written) == (at, None)
    assert place.written(DEFAULT) == {} and place.read({}) == (DEFAULT, None)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("users", "0"), ("users", "-3"), ("users", "1e9"), ("users", "9" * 40), ("users", "٣"),
        ("ctx", "nan"), ("price", "inf"), ("price", "0"), ("price", "-1"), ("price", "1e3"),
        ("model", "<script>"), ("gpu", "__class__"), ("tp", "3"), ("w", "{}"), ("kv", ""),
        ("y", "users"), ("gpu2", "../x"), ("ev", "2"), ("util", "0"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_named(name: str, raw: str) -> None:
    at, notice = place.read({name: raw, "bs": "32"})
    assert at == replace(DEFAULT, bs=32)
    assert notice is not None and name in notice
    assert place.taken(DEFAULT, {name: raw}) == DEFAULT


def test_what_a_browser_sends_is_not_trusted() -> None:
    for sent in (None, 3, [], {"users": 7}, {3: "x"}, {"example": ["start"]}, {"nobody": "1"}):
        assert place.taken(DEFAULT, sent) == DEFAULT
    assert place.taken(DEFAULT, {"ctx": "512"}).sys == 512  # no more shared than there is
    assert place.taken(DEFAULT, {"alloc": "contiguous"}).sys == 0  # nor where nothing can be
    assert place.taken(replace(DEFAULT, hit=85), {"hit": ""}).hit == place.UNKNOWN
    assert place.taken(DEFAULT, {"example": "pairs"}) == EXAMPLES["pairs"][1]


def test_hostile_link_on_the_page(open_page: Open) -> None:
    at = open_page(PAGE, users="<b>", model="llama-9", tp="2")
    assert not at.exception
    assert "model" in at.warning[0].value and "<b>" not in text_of(at)


def test_a_link_that_cannot_be_laid_out_shows_the_example(open_page: Open) -> None:
    at = open_page(PAGE, model="llama-2-13b", tp="16")
    assert not at.exception
    assert at.session_state[bench.PLACE] == DEFAULT
    assert "This cannot be" in at.session_state["cp.refused"]
    with pytest.raises(SizingError):
        figures.planned(replace(DEFAULT, model="llama-2-13b", tp=16))


def test_a_link_reproduces_the_place(open_page: Open) -> None:
    at = open_page(PAGE, users="77", kv="bf16")
    assert not at.exception and not at.warning
    assert at.session_state[bench.PLACE] == replace(DEFAULT, users=77, kv="bf16")


# -- the prediction


@pytest.mark.parametrize("section", list(grading.slips()))
def test_each_slip_has_its_answer(section: str) -> None:
    numbers = list(grading.slips().values())
    assert len(set(numbers)) == len(numbers)
    guess = grading.slips()[section]
    assert grading.feedback(guess) == section
    words = lesson.load(PAGE)
    assert "{" not in words[section].format(**grading.values())
    assert grading.feedback(1) == "wrong"
    assert [grading.feedback_again(n) for n in (158, 256, 5)] == [
        "again-right", "again-wrong-limit", "again-wrong",
    ]  # fmt: skip


def test_the_prediction_locks_and_reveals(open_page: Open) -> None:
    at = open_page(PAGE)
    at.number_input(key="cp.predict.users").set_value(158)
    at.button(key="cp.predict.lock").click().run()
    text = text_of(at)
    assert "You said 158 users." in text and "You counted blocks, and rightly" in text
    assert "The least is **128**" in text
    at.button(key="cp.predict.see").click().run()
    assert at.session_state[bench.PLACE] == grading.CASE
    assert not at.exception


# -- the page


@pytest.mark.parametrize("level", ["short", "plain", "full"])
def test_the_lesson_has_three_levels(open_page: Open, level: str) -> None:
    titles = {"short": "In short", "plain": "How it works", "full": "In full"}
    at = open_page(PAGE, level=titles[level])
    assert not at.exception
    assert ("dominated" in text_of(at)) == (level == "full")


def test_present_shows_the_instrument_alone(open_page: Open) -> None:
    at = open_page(PAGE, present="1")
    assert not at.exception
    assert "Predict first" not in text_of(at)


def test_the_code_that_is_shown_exists() -> None:
    source = (lesson.__file__ or "").replace("ui/lesson.py", f"pages/{PAGE}.py")
    with open(source, encoding="utf-8") as file:
        targets = re.findall(r'"(core\.[\w.]+:\w+)"', file.read())
    assert len(targets) == 6
    assert all(code.snippet(one) is not None for one in targets)
