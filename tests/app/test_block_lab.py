"""The block pool page's ways to look at a run: by hand, block sizes, paged or contiguous."""

from __future__ import annotations

import csv
import io
import re
from typing import Any, get_args, get_type_hints

import pytest

from core import by_hand
from core.config import EngineConfig
from core.errors import KVScopeError
from core.pool_studies import BLOCK_SIZES
from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import calls
from tests.app.conftest import Open, text_of
from ui import catalogue, choice, forms, lesson, links, runs
from ui.block_lab import allocators, copies, hand, sizes

RECORDED = ["two_answers_one_prefix", "beam_search", "no_kv_cache"]


def built_in(slug: str) -> runs.Played:
    return runs.simulate(catalogue.entries()[slug].text)


@pytest.mark.parametrize("view", ["hand", "size", "paged"])
@pytest.mark.parametrize(
    "what",
    [("scenario", "contiguous"), ("scenario", "pool-1024"), *(("run", name) for name in RECORDED)],
)  # fmt: skip
def test_every_view_of_every_kind_of_run_opens(
    open_page: Open, view: str, what: tuple[str, str]
) -> None:
    at = open_page("block_pool", view=view, **{what[0]: what[1]})
    assert not at.exception
    assert not at.error
    assert at.query_params["view"] in (view, [view])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"view": "<script>"}, "view"),
        ({"view": "size", "size": "3"}, "size"),
        ({"view": "size", "size": "-1"}, "size"),
        ({"view": "paged", "reserve": "all"}, "reserve"),
    ],
)
def test_a_bad_view_in_a_link_says_so_once(
    open_page: Open, params: dict[str, str], said: str
) -> None:
    at = open_page("block_pool", scenario="fork", **params)
    assert not at.exception
    assert len(at.warning) == 1
    assert f"This link's {said} cannot be shown" in at.warning[0].value
    assert at.selectbox(key="bp.select").value == "scenario:fork", "the rest of the link counts"


def test_a_base_that_is_no_recorded_run_is_left_out(open_page: Open) -> None:
    packed = links.pack({"schema": "scenario/1", "requests": [{"id": "A", "prompt": "x"}]})
    assert packed is not None
    for base in ("../../secret", "no-such"):
        at = open_page("block_pool", own=packed, base=base)
        assert not at.exception
        assert not at.error
        assert "base" not in at.query_params


def test_the_mode_goes_into_the_link(open_page: Open) -> None:
    at = open_page("block_pool", scenario="block-sizes")
    at.segmented_control(key="bp.mode").set_value("size").run()
    assert not at.exception
    assert "size" in at.query_params["view"]
    at.segmented_control(key="bp.size.widget").set_value(64).run()
    assert "64" in at.query_params["size"]
    at.segmented_control(key="bp.mode").set_value("play").run()
    assert "view" not in at.query_params
    assert "size" not in at.query_params


def test_what_cannot_be_compared_says_why_and_offers_what_can(open_page: Open) -> None:
    at = open_page("block_pool", view="paged", scenario="fork")
    assert not at.exception
    shown = "\n".join(str(h.proto.body) for h in at.get("html"))
    assert "cannot fork" in shown
    at.button(key="bp.paged.go").click().run()
    assert not at.exception
    assert at.selectbox(key="bp.select").value == "scenario:contiguous"
    assert "paged" in at.query_params["view"]


# ---- by hand ------------------------------------------------------------------------------------


def make(slug: str, step: int, action: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
    scenario, said, chosen = hand.make(built_in(slug).data(), step, action)
    return simulate(scenario).to_dict(), said, chosen


def test_a_fork_by_hand_says_what_it_did() -> None:
    run, said, chosen = make("two-answers", 2, {"kind": "fork", "seq": "B#0"})
    assert (said, chosen) == ("Step 3: F goes on from B#0, with the same blocks.", "F")
    assert [e["request"] for e in run["steps"][3]["events"] if e["type"] == "forked"] == ["F"]


def test_a_request_by_hand_begins_like_another() -> None:
    action = {"kind": "add", "seq": "A", "shared": 8, "own": 3, "max_tokens": 2, "n": 1}
    run, said, chosen = make("two-answers", 1, action)
    assert said == "Step 2: F arrives and begins like A: 8 tokens."
    assert run["header"]["prompts"]["F"][:8] == run["header"]["prompts"]["A"][:8]
    assert len(run["header"]["prompts"]["F"]) == 11
    # Its own tokens are words that this run knows.
    assert all(str(t) in built_in("two-answers").header["token_text"]
               for t in run["header"]["prompts"]["F"])  # fmt: skip
    assert chosen == "F"


ACTIONS: list[dict[str, Any]] = [
    {"kind": "fork", "seq": "A"},
    {"kind": "add", "own": 3, "max_tokens": 4, "n": 2},
    {"kind": "add", "seq": "A", "shared": 4, "own": 2, "max_tokens": 6, "n": 1},
]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", ["two_answers_one_prefix", "two-answers", "preempt"])
def test_what_is_made_by_hand_can_be_read(name: str, action: dict[str, Any]) -> None:
    """Its answers are scripts of words, and not of numbers that stand for no text."""
    base = name if name in RECORDED else ""
    played = runs.recorded(name) if base else built_in(name)
    step = next(k for k in range(9) if any(o.can_fork and o.sequence == "A"
                                           for o in by_hand.alive(played.data(), k)))  # fmt: skip
    scenario, _, new = hand.make(played.data(), step, action)
    changed = runs.simulate(forms.pretty(scenario), base=base)
    assert changed.header["label"] == "SIMULATED"
    said = [
        e["token"]
        for record in changed.data()["steps"][step + 1 :]
        for e in record["events"]
        if e["type"] == "token_sampled" and e["request"] == new
    ]
    assert said
    assert all(str(token) in changed.header["token_text"] for token in said)


def test_a_long_answer_by_hand_is_as_long_as_it_was_asked_to_be() -> None:
    """Its script would not fit the link: then it goes without words, and is not cut."""
    action = {"kind": "add", "own": 2, "max_tokens": 200, "n": 1}
    scenario = hand.make(built_in("two-answers").data(), 1, action)[0]
    assert scenario.requests[-1].output_tokens is None
    assert scenario.requests[-1].max_tokens == 200


def test_a_fork_without_a_place_is_not_said_to_go_on() -> None:
    """Both places are taken: the bar refuses, and so does Python, with the reason."""
    requests = [{"id": name, "prompt_tokens": [1, 2, 3], "max_tokens": 9} for name in "AB"]
    given = {"schema": "scenario/1", "engine": {"max_num_seqs": 2}, "requests": requests}
    played = runs.simulate(forms.pretty(Scenario.from_dict(given)))
    (span, _) = hand._reach(played.packed.id, played).spans
    assert (span["forks"], span["full"]) == ([], [[0, 7]])
    with pytest.raises(KVScopeError, match="all 2 places of max_num_seqs are taken"):
        hand.make(played.data(), 2, {"kind": "fork", "seq": "A"})


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"kind": "rm"},
        {"kind": "fork"},
        {"kind": "fork", "seq": ["A"]},
        {"kind": "add", "own": "many", "max_tokens": 1, "n": 1},
        {"kind": "add", "own": 3, "max_tokens": -1, "n": 1},
        {"kind": "add", "text": "\ud800", "max_tokens": 1, "n": 1},
        {"kind": "add", "own": 10**9, "max_tokens": 1, "n": 10**9},
        {"kind": "cancel", "seq": "Z" * 10_000},
    ],
)
def test_whatever_the_browser_asks_is_answered(action: dict[str, Any]) -> None:
    data = built_in("two-answers").data()

    def carried_out() -> None:
        runs.check_size(hand.make(data, 1, action)[0])

    with pytest.raises((KVScopeError, KeyError, TypeError, ValueError)):
        carried_out()


def test_what_cannot_be_changed_by_hand_says_why() -> None:
    played = runs.recorded("beam_search")
    reach = hand._reach(played.packed.id, played)
    assert reach.spans == []
    assert reach.refused is not None and "Beams" in reach.refused


def test_the_spans_are_those_who_are_alive() -> None:
    played = built_in("two-answers")
    data = played.data()
    spans = hand._reach(played.packed.id, played).spans
    for step in range(len(data["steps"])):
        there = {s["seq"]: any(a <= step <= b for a, b in s["forks"]) for s in spans
                 if s["first"] <= step <= s["last"]}  # fmt: skip
        alive = {one.sequence: one.can_fork for one in by_hand.alive(data, step)}
        assert there == alive, step


def test_recorded_tokens_keep_their_texts_as_a_script() -> None:
    recorded = runs.recorded("two_answers_one_prefix")
    script = by_hand.as_script(recorded.data())
    again = runs.simulate(forms.pretty(script), base="two_answers_one_prefix")
    assert again.header["label"] == "SIMULATED"
    texts = recorded.header["token_text"]
    sampled = {
        str(e["token"])
        for r in again.data()["steps"]
        for e in r["events"]
        if e["type"] == "token_sampled"
    }
    assert all(again.header["token_text"].get(t) == texts[t] for t in sampled if t in texts)


# ---- block sizes --------------------------------------------------------------------------------


def test_the_picture_of_sizes_shows_what_was_counted() -> None:
    played = built_in("block-sizes")
    found = sizes.summaries(played.packed.id, played)
    assert list(found) == list(BLOCK_SIZES)
    shown = sizes.picture(found, 64, 16, "A note.")
    for summary in found.values():
        assert summary is not None
        assert f"{100 * summary.waste:.1f} %" in shown
        assert f">{summary.steps:,}<" in shown
    assert shown.count('class="on"') == len(sizes.MEASURES)
    assert "× 1<" in shown, "the time of the scenario's own size is the unit"
    rows = list(csv.DictReader(io.StringIO(sizes.to_csv(found))))
    assert [int(row["block_size"]) for row in rows] == list(BLOCK_SIZES)
    assert [int(row["steps"]) for row in rows] == [80, 80, 80, 80, 80, 80, 93, 108]


def test_a_size_that_does_not_fit_is_no_bar_and_cannot_be_chosen(open_page: Open) -> None:
    played = built_in("two-answers")
    found = sizes.summaries(played.packed.id, played)
    assert [size for size, summary in found.items() if summary is None] == [128]
    at = open_page("block_pool", view="size", size="128", scenario="two-answers")
    assert not at.exception
    assert at.segmented_control(key="bp.size.widget").value == 64


def test_what_would_take_too_long_is_not_run_eight_times() -> None:
    played = built_in("pool-16384")
    with pytest.raises(KVScopeError, match="too many"):
        sizes.summaries(played.packed.id, played)


# ---- paged or contiguous ------------------------------------------------------------------------


def both(slug: str, reserve: str = "request") -> tuple[allocators.Side, allocators.Side]:
    played = built_in(slug)
    return allocators.sides(played.packed.id, reserve, "", played)


def test_who_waits_longer() -> None:
    paged, contiguous = both("contiguous")
    assert allocators.slower(paged, contiguous) == "E waits longer with contiguous memory."
    assert (paged.waited, contiguous.waited) == (0, 6)
    whole = both("contiguous", "max_model_len")
    assert allocators.slower(*whole) == "B, C, D, E wait longer with contiguous memory."
    assert allocators.slower(*both("one-request")).startswith("Nobody")


def test_a_run_that_reserves_is_compared_in_its_own_way(open_page: Open) -> None:
    at = open_page("block_pool", view="paged", run="contiguous_reservation")
    assert at.segmented_control(key="bp.reserve.widget").value == "max_model_len"
    at = open_page("block_pool", view="paged", run="contiguous_reservation", reserve="request")
    assert at.segmented_control(key="bp.reserve.widget").value == "request"


def test_the_charts_go_to_the_longer_run() -> None:
    paged, contiguous = both("contiguous")
    for chart in allocators.charts(paged, contiguous, present=False):
        last = chart["x"]["last"]
        assert last == contiguous.summary.steps - 1
        assert all(len(line["values"]) == last + 1 for line in chart["lines"])
        assert len({line["style"] for line in chart["lines"]}) == 2
    external = allocators.charts(paged, contiguous, present=False)[2]
    assert max(v for v in external["lines"][0]["values"] if v is not None) == 0
    assert max(external["lines"][1]["values"]) == 8


def test_the_figures_are_markup_of_names_made_safe() -> None:
    text = catalogue.entries()["contiguous"].text.replace('"id": "A"', '"id": "<b>=1"')
    played = runs.simulate(text)
    paged, contiguous = allocators.sides(played.packed.id, "request", "", played)
    assert "<b>=1" not in allocators.figures(paged, contiguous, "")
    spreadsheet = text.replace("<b>=1", "=1+1")
    played = runs.simulate(spreadsheet)
    sides = allocators.sides(played.packed.id, "request", "", played)
    assert "'=1+1" in allocators.to_csv(*sides)


# ---- one copy -----------------------------------------------------------------------------------


def test_the_moments_are_found_in_the_runs() -> None:
    proof = copies.moment(copies.PROOF)
    assert proof is not None
    assert (proof.first.refs_before, proof.first.refs_after) == (2, 1)
    for chosen in copies.MOMENTS:
        assert copies.moment(chosen) is not None, chosen


def test_the_copy_is_predicted_and_then_looked_at(open_page: Open) -> None:
    at = open_page("block_pool")
    at.number_input(key="copy.copied").set_value(3)
    at.button(key="copy.lock").click().run()
    assert not at.exception
    said = text_of(at)
    assert "You copied what nobody writes to" in said
    assert "had 2 references and has 1" in said
    proof = copies.moment(copies.PROOF)
    assert proof is not None
    at.button(key="copy.see").click().run()
    assert at.selectbox(key="bp.select").value == copies.PROOF
    assert str(proof.first.step) in at.query_params["step"]
    assert str(proof.first.src) in at.query_params["block"]


def test_the_lesson_states_what_the_runs_show() -> None:
    """Every number of the lesson's studies, against the runs that it speaks of."""
    played = built_in("block-sizes")
    found = {size: s for size, s in sizes.summaries(played.packed.id, played).items() if s}
    paged, contiguous = both("contiguous")
    words = lesson.load("block_pool").sections["words"]
    claims = re.findall(r"\d[\d,.]*\d|\d", words)
    assert claims, "the lesson names figures"
    for text in (
        f"{100 * found[16].waste:.1f} %",
        f"{100 * found[128].waste:.1f} %",
        f"{found[128].preemptions} times",
        f"{max(contiguous.series.unfit)} blocks are free",
        f"waits {contiguous.lives['E'].waited} steps",
    ):
        assert text in words, text
    assert paged.lives["E"].waited == 0
    assert choice.DEFAULT == "scenario:two-answers"


def test_the_lesson_says_which_setting_each_rule_belongs_to() -> None:
    """Each cache, order and policy by its name, and what other engines do with their version."""
    words = lesson.load("block_pool").sections["words.full"]
    kinds = get_type_hints(EngineConfig)
    for setting in ("prefix_cache", "eviction", "policy"):
        for name in set(get_args(kinds[setting])) - {"off"}:
            assert f"`{name}`" in words, name
    (others,) = [line for line in words.splitlines() if "vLLM" in line]
    for text in ("0.21", "SGLang", "November 2026", "copy nothing on write", "whole blocks"):
        assert text in others, text
    assert "watermark" in lesson.load("block_pool").sections["paged-note"]


def test_the_list_says_what_its_scenarios_hold() -> None:
    said = {slug: entry.shows for slug, entry in catalogue.entries().items()}
    for slug, requests in (("pool-1024", 42), ("pool-4096", 48), ("pool-16384", 48)):
        scenario = Scenario.from_json(catalogue.entries()[slug].text)
        assert said[slug].startswith(f"{requests} requests") and len(scenario.requests) == requests
    sized = Scenario.from_json(catalogue.entries()["block-sizes"].text)
    prompts = [spec.prompt_tokens or () for spec in sized.requests]
    system = max(prompts, key=len)[:150]
    assert said["block-sizes"].startswith("16 requests, 13 of them") and len(prompts) == 16
    assert sum(prompt[:150] == system for prompt in prompts) == 13
    assert [spec.n for spec in sized.requests if spec.n > 1] == [3, 3]


def test_a_scenario_of_a_million_blocks_runs_in_the_worker(monkeypatch: Any) -> None:
    from ui import worker

    called = []
    run = worker.simulate
    monkeypatch.setattr(worker, "simulate", lambda s: called.append(s) or run(s))
    played = runs.simulate(catalogue.entries()["pool-1048576"].text)
    (scenario,) = called
    assert isinstance(scenario, Scenario) and scenario.engine.num_blocks == 1_048_576
    most = max(r["usage"]["in_use"] for r in played.data()["steps"])
    assert 0.02 < most / 1_048_576 < 0.05, "fewer than five of a hundred"


def computed(function: str, **inputs: Any) -> float:
    value = calls.call(function, inputs).result.value
    assert value is not None
    return float(value)


def test_the_full_text_states_what_the_library_computes() -> None:
    """What a block weighs and what beams share, recomputed."""
    words = lesson.load("block_pool").sections["words.full"]
    model = {"model": "llama-3-70b", "dtype": "fp8", "block_size": 16}
    layer, whole = computed("block_bytes", scope="layer", **model), computed("block_bytes", **model)
    blocks = computed("num_blocks", pool_bytes=40 * 2**30, **model)
    for text in (
        f"{layer / 2**10:.0f} KiB in one layer",
        f"{whole / 2**20:.1f} MiB in all {whole / layer:.0f}",
        f"{blocks:,.0f} blocks",
        f"{40 * 2**30 / layer:,.0f}",
        f"{100 * computed('cow_saving', prefix=512, suffix=100, n=4):.1f} % less",
        f"{100 * computed('cow_saving', prefix=512, suffix=100, n=4, block_size=16):.1f} % less",
    ):
        assert text in words, text
