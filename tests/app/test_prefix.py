"""The prefix cache page without a browser: its link, its pairs, its figures, its prediction."""

from __future__ import annotations

import base64
import json
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.prefix_metrics import lookups
from core.trace.run import parse_run, read_run
from core.workloads_prefix import KINDS, Knobs, edited_prompt, hot_prompt, scenario
from tests.app.conftest import Open, text_of
from ui import catalogue, lesson, runs
from ui.components.run_player import PackedRun
from ui.kit import code
from ui.paths import runs_dir
from ui.prefix import economics, money, pairs, place, predict, tokens, watch, yours
from ui.prefix.studies import TITLES

WORDS = lesson.load("prefix_cache")

# ---- the browser's pictures -------------------------------------------------------------------


@pytest.fixture
def laid_out(node: str, root: Path) -> Any:
    """What the browser makes of a run, step by step."""

    def made(run: dict[str, Any]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [node, str(root / "tests" / "js" / "prefix_cli.mjs")],
            input=json.dumps(run),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        out: list[dict[str, Any]] = json.loads(done.stdout)
        return out

    return made


@pytest.mark.parametrize(
    "given",
    [
        hot_prompt("hash", "fifo"),
        hot_prompt("radix", "fifo"),
        hot_prompt("radix", "lfu"),
        edited_prompt("radix"),
        scenario("agent", Knobs(block_size=2, pool_tokens=128), prefix_cache="hash"),
        scenario("rag", Knobs(users=4, pool_tokens=128)),
    ],
    ids=lambda g: f"{g['name']} {g['engine']['prefix_cache']} {g['engine']['eviction']}",
)
def test_chain_tree_and_order_are_those_of_the_engines_snapshot(laid_out: Any, given: Any) -> None:
    run = simulate(Scenario.from_dict(given), keep_state=True).to_dict()
    for step, seen in zip(run["steps"], laid_out(run), strict=True):
        state = step["state"]
        cached = {int(b): e for b, e in state["cached"].items()}
        by_key = {cached[b]["key"]: b for b in sorted(cached, reverse=True)}
        cells = {c["b"]: c for c in seen["chain"]}
        assert cells.keys() == cached.keys()
        for b, entry in cached.items():
            above = entry["parent_key"]
            parent = by_key.get(above)
            assert cells[b]["parent"] == parent
            assert cells[b]["lost"] == (above is not None and parent is None)
            if parent is not None:
                assert cells[b]["col"] == cells[parent]["col"] + 1
        tree = {n["id"]: n for n in seen["tree"]}
        assert {n["id"]: n["parent"] for n in state["tree"]} == {
            i: n["parent"] for i, n in tree.items()
        }
        for n in tree.values():
            above = n["parent"]
            assert n["depth"] == (0 if above is None else tree[above]["depth"] + 1)
        assert seen["order"] == [b for b in state["free_order"] if b in cached]
        assert seen["before"] == len(state["free_order"]) - len(seen["order"])


# ---- pairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", watch.RECORDED)
def test_a_recorded_run_and_its_twin_find_the_same_blocks(name: str) -> None:
    pair = pairs.recorded(name)
    chain, radix = pair.looks
    assert [one["hit_blocks"] for one in chain] == [one["hit_blocks"] for one in radix]
    assert pair.header["label"] == "RECORDED"
    chained = PackedRun(pair.chain, "").run()
    header = chained["header"]
    assert header["label"] == "SIMULATED"
    assert header["scenario"]["engine"]["prefix_cache"] == "hash"
    assert header["prompts"] == pair.header["prompts"]
    verify(parse_run(json.dumps(chained).encode(), 1 << 24))


def test_a_twin_samples_what_was_recorded() -> None:
    for name in watch.RECORDED:
        run = read_run(runs_dir() / f"{name}.run.json.gz")
        other = pairs.twin(run, "hash")
        said = [
            [
                (e["sequence"], e["token"])
                for s in one
                for e in s["events"]
                if e["type"] == "token_sampled"
            ]
            for one in (run.steps, other["steps"])
        ]
        assert sorted(said[0]) == sorted(said[1])


def test_the_browser_gets_words_for_every_token_of_a_workload() -> None:
    pair = pairs.workload("Chat", "chat", Knobs(), "lru")
    header = PackedRun(pair.radix, "").run()["header"]
    used = {str(t) for tokens in header["prompts"].values() for t in tokens}
    assert used <= header["token_text"].keys()
    first = [header["token_text"][str(t)] for t in header["prompts"]["A"][:4]]
    assert "".join(first) == " You are a patient"


def test_recorded_runs_are_named_as_the_course_describes_them() -> None:
    names = {*watch.RECORDED, *money.RUNS}
    assert names <= catalogue.recorded().keys()
    found = {one.request: one for one in lookups(runs.recorded("long_prompt_cached").data())}
    said = catalogue.recorded()["long_prompt_cached"]
    assert f"finds {found['B'].num_cached_tokens} of its {found['B'].num_tokens}" in said["look"]
    assert f"find {found['B'].hit_blocks} blocks" in said["shows"]
    prompts = list(runs.recorded("long_prompt_cached").header["prompts"].values())
    assert f"system prompt of {economics.common_prefix(prompts)} tokens" in said["shows"]
    again = lookups(runs.recorded("documents_reordered").data())[2]
    assert (again.step, again.request, again.hit_blocks) == (20, "C", 1)


def test_what_a_resumed_request_finds_of_its_own_is_told_apart() -> None:
    given = {
        "schema": "scenario/1",
        "engine": {"num_blocks": 10, "block_size": 4, "prefix_cache": "radix"},
        "requests": [
            {"id": "A", "prompt_tokens": list(range(100, 112)), "max_tokens": 12},
            {"id": "B", "prompt_tokens": list(range(200, 212)), "max_tokens": 12},
        ],
    }
    pair = pairs.of_run(simulate(Scenario.from_dict(given)))
    said = watch.found_sentence(pair.totals)
    assert said.startswith("**0 of 24** tokens of prompts were found in the tree, 0\u2009%;")
    assert "taken up again after preemption found **16 of 21** tokens again" in said
    assert [look["resumed"] for look in pair.looks[1]] == [False, False, True]
    alone = watch.found_sentence(pairs.fixed("Edited", "edited", "lru").totals)
    assert "preemption" not in alone


def test_the_lesson_says_of_the_workloads_what_their_runs_do() -> None:
    """Each sentence with a share in it, and the test of the engine that holds it."""
    titles = watch._titles()
    # tests/core/test_prefix_metrics.py: test_most_of_a_conversation_hits_…
    assert "so most of it hits, as long as the pool keeps it" in titles["chat"][1]
    # …: test_programs_share_nothing_at_any_block_size
    assert "across programs nothing" in titles["api"][1]


# ---- the link ---------------------------------------------------------------------------------


def test_a_place_comes_back_from_its_link() -> None:
    there = {**place.DEFAULTS, "work": "rag", "users": 5, "block": 8, "step": 7, "pick": "node:2"}
    back, refused = place.read(place.written(there))
    assert (back, refused) == (there, None)
    own = place.pack_own(["one text", "another – ünïcode"])
    mine = {**place.DEFAULTS, "study": "yours", "own": own, "block": 2}
    assert place.read(place.written(mine)) == (mine, None)
    assert place.unpack_own(str(own)) == ["one text", "another – ünïcode"]


def test_a_link_says_only_what_its_study_uses() -> None:
    there = {**place.DEFAULTS, "users": 5, "take": 4}
    assert place.written(there) == {"work": "one_system_prompt"}  # no knob turns a recorded run
    assert place.written({**there, "work": "hot", "evict": "lfu"}) == {
        "work": "hot",
        "evict": "lfu",
    }
    assert place.written({**there, "study": "evict"}) == {"study": "evict", "take": "4"}
    assert place.written({**there, "study": "time", "step": 9}) == {"study": "time"}


NASTY = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["-1", "9" * 30, "1e3", "../../etc", "node:x", "<script>", "٣", "\ud800", "0x1"]
    ),
)


@given(st.dictionaries(st.sampled_from([*place.NAMES, "other"]), NASTY))
@settings(max_examples=200, deadline=None)
def test_no_link_leads_anywhere_but_to_what_can_be_shown(params: dict[str, str]) -> None:
    there, refused = place.read(params)
    assert there.keys() == place.DEFAULTS.keys()
    assert there["study"] in place.STUDIES and there["block"] in place.BLOCKS
    for name, (low, high) in place.LIMITS.items():
        assert low <= there[name] <= high
    assert refused is None or refused.endswith("left out.")
    again, still = place.read(place.written(there))
    assert still is None and again["study"] == there["study"]


@pytest.mark.parametrize("prompts", [["one"], ["a"] * 7, ["a", 3], ["a", "b" * 2_000], "ab", None])
def test_prompts_that_are_none_are_refused(prompts: Any) -> None:
    packed = place.links.pack({"prompts": prompts})
    assert place.read({"study": "yours", "own": str(packed)})[1] is not None


def test_half_a_character_in_a_link_is_refused() -> None:
    text = zlib.compress(b'{"prompts": ["a", "\\ud800"]}')
    packed = base64.urlsafe_b64encode(text).rstrip(b"=").decode()
    assert place.read({"study": "yours", "own": packed})[1] is not None


@given(st.one_of(st.none(), st.integers(), st.dictionaries(st.text(max_size=8), st.integers())))
def test_what_the_browser_reports_is_checked(report: Any) -> None:
    assert place.rest(report).keys() <= set(place.REST)
    assert place.rest({"step": "x", "pick": "node:1", "follow": "../x"}) == {
        "step": None,
        "pick": "node:1",
        "follow": None,
    }


# ---- your prompts -----------------------------------------------------------------------------


def test_bytes_stand_in_where_no_tokenizer_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_tokenizer", lambda: None)
    ids, words = tokens.encode(["ab", "aé"])
    assert ids == [[97, 98], [97, 0xC3, 0xA9]]
    assert words == {"97": "a", "98": "b", str(0xC3): "⟨c3⟩", str(0xA9): "⟨a9⟩"}
    assert tokens.named() == "one token a byte"


def test_ones_own_prompts_hit_whole_blocks_from_the_start() -> None:
    ids = [[1] * 9, [1] * 9, [1] * 5 + [2] * 4]
    made = {cache: yours.scenario(ids, 4, cache) for cache in ("hash", "radix")}
    pair = pairs.both("Your prompts", made, {})
    assert [one.hit_blocks for one in pair.lookups] == [0, 2, 1]


# ---- prediction and words ---------------------------------------------------------------------


def test_the_prediction_is_answered_by_a_run() -> None:
    found = predict.answers()
    assert (found["early"], found["late"], found["same"]) == (1, 6, 7)
    for name in ("predict", "predict-again", "fact", "fact-again"):
        assert "{" not in WORDS[name].format(**found)


@pytest.mark.parametrize(
    ("early", "late", "section"),
    [
        (1, 6, "right"),
        (7, 7, "wrong-hole"),
        (0, 0, "wrong-all"),
        (1, 7, "wrong-partial"),
        (2, 6, "wrong-partial"),
        (1, 27, "wrong-tokens"),
        (1, 3, "wrong"),
    ],
)
def test_a_wrong_number_names_its_misconception(early: int, late: int, section: str) -> None:
    assert predict.feedback(predict.answers(), early, late) == section
    assert section in WORDS.sections


def test_every_choice_has_its_words() -> None:
    assert set(watch._titles()) == {*KINDS, *place.FIXED}
    assert all(title and shows for title, shows in watch._titles().values())
    assert len(yours.examples(WORDS)) == 3
    assert TITLES.keys() == set(place.STUDIES)
    assert {"words", "words.short", "words.full", "objectives"} <= WORDS.sections.keys()


def test_the_code_that_is_shown_exists(root: Path) -> None:
    source = (root / "pages" / "prefix_cache.py").read_text("utf-8")
    targets = [part for part in source.split('"') if part.startswith("core.") and ":" in part]
    assert len(targets) == 6
    assert all(code.snippet(target) is not None for target in targets)


# ---- the page ---------------------------------------------------------------------------------


def param(at: Any, name: str) -> str:
    """A parameter of the address as the page left it."""
    value = at.query_params[name]
    return value[0] if isinstance(value, list) else value


@pytest.mark.parametrize("study", place.STUDIES)
@pytest.mark.parametrize("present", ["0", "1"])
def test_every_study_opens(open_page: Open, study: str, present: str) -> None:
    at = open_page("prefix_cache", study=study, present=present)
    assert not at.exception and not at.error and not at.warning


@pytest.mark.parametrize("work", [*KINDS, *place.FIXED, *watch.RECORDED])
def test_every_choice_opens(open_page: Open, work: str) -> None:
    at = open_page("prefix_cache", work=work)
    assert not at.exception and not at.error and not at.warning
    assert param(at, "work") == work
    assert "tokens of prompts were found in the tree" in text_of(at)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"work": "../../etc/passwd"}, "work cannot be shown here"),
        ({"work": "nothing-like-it"}, "This link's workload or run is not here"),
        ({"users": "99", "pick": "x"}, "users and pick cannot be shown here"),
        ({"study": "yours", "own": "%%%"}, "own cannot be shown here"),
        ({"study": "<b>"}, "study cannot be shown here"),
    ],
)
def test_a_hostile_link_gets_one_sentence(open_page: Open, params: Any, said: str) -> None:
    at = open_page("prefix_cache", **params)
    assert not at.exception and not at.error
    assert said in " ".join(w.value for w in at.warning)


def test_a_run_without_a_cache_is_refused_in_words(open_page: Open) -> None:
    at = open_page("prefix_cache", work="long_prompt_uncached")
    assert not at.exception
    assert "prefix cache off" in text_of(at)


def test_a_knob_changes_the_run_and_the_link(open_page: Open) -> None:
    at = open_page("prefix_cache", work="api")
    before = text_of(at)
    at.number_input(key="px.w.users").set_value(5).run()
    assert param(at, "users") == "5"
    assert text_of(at) != before and not at.exception


def test_the_prediction_locks_reveals_and_leads_to_the_engine(open_page: Open) -> None:
    at = open_page("prefix_cache")
    at.number_input(key="px.predict.early").set_value(7)
    at.number_input(key="px.predict.late").set_value(7)
    at.button(key="px.predict.lock").click().run()
    said = text_of(at)
    assert "You said 7 and 7." in said and "with another past" in said
    at.number_input(key="px.predict.same").set_value(8)
    at.button(key="px.predict.lockagain").click().run()
    assert "You said 8." in text_of(at) and "the last token is always computed" in text_of(at)
    at.button(key="px.predict.see").click().run()
    assert param(at, "work") == "edited" and not at.exception


def test_an_empty_prompt_is_asked_for(open_page: Open) -> None:
    own = place.pack_own(["a text", "  "])
    at = open_page("prefix_cache", study="yours", own=str(own))
    assert not at.exception


def test_another_prompt_takes_an_edited_text_along(open_page: Open) -> None:
    own = place.pack_own(["a text", "another"])
    at = open_page("prefix_cache", study="yours", own=str(own))
    at.text_area[0].set_value("an edited text")
    at.button(key="px.more").click().run()
    assert not at.exception
    assert [box.value for box in at.text_area] == ["an edited text", "another", "another"]
    assert place.unpack_own(param(at, "own")) == ["an edited text", "another", "another"]
    at.text_area[1].set_value("edited too")
    at.button(key="px.less").click().run()
    assert place.unpack_own(param(at, "own")) == ["an edited text", "edited too"]


def test_where_one_rests_sends_no_run_again(open_page: Open, monkeypatch: Any) -> None:
    """The runs travel with all else that the instrument gets, so that must stay as it is."""
    seen: list[dict[str, Any]] = []
    rested: dict[str, Any] = {"place": None}

    class Shown(dict[str, Any]):
        present = None

    def mount(chain: str, radix: str, looks: Any, **given: Any) -> Any:
        seen.append({"chain": chain, "radix": radix, **given})
        if rested["place"]:
            rested["place"]["id"] = given["run_id"]
        return Shown(rested)

    monkeypatch.setattr("ui.prefix.state.prefix_view", mount)
    at = open_page("prefix_cache", work="one_system_prompt", step="2")
    rested["place"] = {"step": 7, "pick": "node:1", "follow": "B"}
    at.run()
    at.run()
    assert (param(at, "step"), param(at, "pick"), param(at, "follow")) == ("7", "node:1", "B")
    assert seen[-1] == seen[0] and seen[0]["step"] == 2
