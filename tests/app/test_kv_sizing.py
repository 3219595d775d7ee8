"""The KV sizing page without a browser: its figures against `calc`, its link, its prediction, a
config.json of one's own, and the check against the engine."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from core.client import EngineRefusedError
from core.scenario import Scenario
from core.sizing import calls, catalog
from core.sizing.errors import SizingError
from core.sizing.units import both
from tests.app.conftest import Open, text_of
from ui import engine_process, lesson
from ui.kit import code
from ui.sizing import bench, curves, engine_check, example, figures, files
from ui.sizing import words as sizing_words
from ui.sizing.place import DEFAULT, EXAMPLES, KV_FORMATS, WORKED, Place
from ui.sizing.shown import lines

Json = dict[str, Any]
PLACES = [one for _, one in EXAMPLES.values()]


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


def shown(at: Place) -> Json:
    return bench.of(figures.sized(at))


# -- every figure is the library's


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_every_figure_is_what_calc_says(at: Place) -> None:
    page = shown(at)
    model: Json = {"model": at.model, "dtype": at.kv}
    split: Json = {"tp": at.gpus, "attention_dp": at.adp}
    token, memory, paging = page["token"], page["memory"], page["paging"]
    assert token["model"]["value"] == calc("kv_bytes_per_token", **model)
    assert token["gpu"]["value"] == calc("kv_bytes_per_token_per_gpu", **model, **split)
    assert token["sequence"]["value"] == calc("kv_bytes_sequence", **model, tokens=at.ctx)
    weights: Json = {"model": at.model, "weight_dtype": at.w, **split}
    gpu = memory["gpu"]
    assert gpu["weights"]["value"] == calc(
        "weight_bytes_per_gpu", model=at.model, dtype=at.w, **split
    )
    limits = {"max_num_batched_tokens": 8192, "max_num_seqs": 256}
    pool = calc("kv_pool_bytes_per_gpu", **weights, gpu=at.gpu, overhead_bytes=2 * 2**30, **limits)
    assert memory["pool"]["value"] == pool
    assert gpu["overhead"]["value"] == 2 * 2**30 + calc(
        "activation_bytes_bound", model=at.model, tp=at.gpus, **limits
    )
    each = calc("sequence_bytes_in_pool", **model, tokens=at.ctx, block_size=at.bs, **split)
    here = -(-at.n // at.adp)
    assert gpu["kv"]["value"] == here * each
    assert gpu["free"]["value"] == max(0, pool - here * each)
    fits: Json = {**model, "tokens": at.ctx, "per_gpu_pool_bytes": pool, **split}
    assert memory["fit"]["value"] == calc("max_streams", **fits, block_size=at.bs)
    assert paging["paged"] == {**memory["fit"], "label": paging["paged"]["label"]}
    assert paging["fractional"]["value"] == calc("max_streams", **fits, policy="fractional")
    assert paging["contiguous"]["value"] == calc(
        "max_streams", **fits, policy="contiguous", max_model_len=paging["reserved"]
    )
    assert paging["wasted"]["value"] == calc(
        "contiguous_waste_fraction", used=at.ctx, reserved=paging["reserved"]
    )
    even: Json = {**model, "weight_dtype": at.w}
    assert memory["balance_batch"]["value"] == calc("kv_weights_balance", **even, tokens=at.ctx)
    assert memory["balance_context"]["value"] == calc("kv_weights_balance", **even, batch=at.n)
    for name, part in memory["all"].items():
        assert part["value"] == at.gpus * gpu[name]["value"]


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_curves_and_cards_are_the_library_s(at: Place) -> None:
    page = shown(at)
    growth, balance, ways = page["growth"], page["balance"], page["ways"]
    split: Json = {"tp": at.gpus, "attention_dp": at.adp}
    own_line = growth["lines"][0]
    for tokens, value in zip(growth["contexts"], own_line["values"], strict=True):
        each = calc(
            "sequence_bytes_in_pool",
            model=at.model,
            dtype=at.kv,
            tokens=max(1, tokens),
            **split,
        )
        assert value == (at.gpus // at.adp * at.n * each if tokens else 0)
    assert growth["budget"] == at.gpus * page["memory"]["pool"]["value"]
    for tokens, even, fit in zip(balance["contexts"], balance["even"], balance["fit"], strict=True):
        model: Json = {"model": at.model, "dtype": at.kv, "tokens": tokens}
        assert even == calc("kv_weights_balance", **model, weight_dtype=at.w)
        pool = page["memory"]["pool"]["value"]
        assert fit == calc("max_streams", **model, per_gpu_pool_bytes=pool, **split)
    mine = next(way for way in ways["ways"] if way["mine"])
    if ways["layers"] == ways["of"]:
        assert mine["token"]["value"] == page["token"]["model"]["value"]
        assert mine["gpu"]["value"] == page["token"]["gpu"]["value"]
    assert mine["ratio"] == 1 and len({way["id"] for way in ways["ways"]}) == len(ways["ways"])


def test_sizes_carry_both_units() -> None:
    for figure in walk(shown(WORKED)):
        if figure["unit"] == "B":
            assert figure["both"] == both(figure["value"])
        assert figure["steps"] or figure["notes"], figure["label"]


def walk(node: Any) -> list[Json]:
    """Every figure in the page's data."""
    if isinstance(node, dict) and {"label", "steps", "symbols"} <= node.keys():
        return [node]
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [figure for part in parts for figure in walk(part)]


def test_the_formula_names_every_letter_of_every_model() -> None:
    """In pieces it gives the value; each letter has its sentence in the lesson."""
    known = sizing_words.of(lesson.load("kv_sizing"))["symbols"]
    counted = 0
    for name in catalog.names():
        for dtype in KV_FORMATS:
            try:
                done = figures.sized(replace(DEFAULT, model=name, kv=dtype, gpus=1))
            except SizingError:
                continue
            for line in lines(done.token):
                for piece in line["pieces"]:
                    letter = piece.get("sym", "").rsplit("_", 1)
                    if piece.get("text"):
                        plain = letter[0] if letter[-1].isdigit() else piece["sym"]
                        assert plain in known, piece
                        counted += 1
                if line["formula"].startswith("2 · L"):
                    value = 1.0
                    for piece in line["pieces"]:
                        value *= float(eval_size(piece["value"])) if "value" in piece else 1
                    assert value == line["value"], (name, dtype)
    assert counted > 1_000


def eval_size(text: str) -> float:
    """A number, or a quotient such as the 34/32 of a block format."""
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


def test_each_lever_has_its_words_for_every_model() -> None:
    words = sizing_words.of(lesson.load("kv_sizing"))["levers"]
    for name in catalog.names():
        for count, groups in ((1, 1), (8, 1), (8, 8)):
            try:
                done = figures.sized(replace(DEFAULT, model=name, gpus=count, adp=groups))
            except SizingError:
                continue
            for lever in figures.levers(done):
                case = f"{lever['id']}-{lever['case']}" if "case" in lever else lever["id"]
                title, text = words.get(case) or words[lever["id"]]
                assert title and "{" not in text.format(**lever)


def _lever(id: str, **at: Any) -> Json:
    done = figures.sized(replace(DEFAULT, **at))
    return next(lever for lever in figures.levers(done) if lever["id"] == id)


def test_a_lever_promises_only_what_it_does() -> None:
    """Fewer bytes are fewer, and two GPUs do not share what is one for all heads."""
    for kv in KV_FORMATS:
        lever = _lever("bytes", kv=kv)
        now = calc("kv_bytes_per_token", model=DEFAULT.model, dtype=kv)
        assert lever["case"] == ("least" if kv.startswith("int4") else "less")
        assert lever["case"] == "least" or lever["value"] < now
    assert _lever("gpus", gpus=1)["case"] == "one"
    assert _lever("gpus", model="deepseek-v3", gpus=1)["case"] == "one-copies"
    assert _lever("gpus", model="falcon-7b", gpus=1)["case"] == "alone", "71 query heads"
    assert _lever("gpus", model="mamba-2.8b", gpus=8)["case"] == "none"
    assert _lever("gpus", model="deepseek-v3")["case"] == "copies"
    apart = _lever("gpus", model="deepseek-v3", adp=8)
    whole = calc("kv_bytes_per_token", model="deepseek-v3")
    assert (apart["case"], apart["groups"], apart["value"]) == ("groups", 8, whole)


def test_attention_apart_keeps_a_latent_once_and_its_weights_in_every_group() -> None:
    split, apart = (
        shown(Place(model="deepseek-v3", gpu="h200-sxm", adp=groups, ctx=8192, n=60))
        for groups in (1, 8)
    )
    each = 61 * 576 * 2 * 8192
    assert split["memory"]["copies"] == 8 and apart["memory"]["copies"] == 1
    assert split["memory"]["gpu"]["kv"]["value"] == 60 * each
    assert apart["memory"]["gpu"]["kv"]["value"] == 8 * each, "sixty over eight: the fullest"
    assert apart["memory"]["all"]["kv"]["value"] == 60 * each, "four groups of 8, four of 7"
    weights = [page["memory"]["gpu"]["weights"]["value"] for page in (split, apart)]
    assert weights[0] < weights[1]
    assert apart["memory"]["fit"]["value"] % 8 == 0
    assert (
        split["growth"]["lines"][0]["values"][-1] == 8 * apart["growth"]["lines"][0]["values"][-1]
    )


def test_a_state_that_does_not_grow_is_shown_where_there_is_one() -> None:
    token = shown(Place(model="mamba-2.8b", gpus=1))["token"]
    assert token["state"]["value"] == calc("fixed_state_bytes", model="mamba-2.8b") > 10**6
    assert token["model"]["value"] == 0 and _lever("context", model="mamba-2.8b")["case"] == "none"
    assert "state" not in shown(DEFAULT)["token"]


def test_growth_draws_windows_copies_and_formats() -> None:
    lines_ = {line["name"]: line for line in shown(DEFAULT)["growth"]["lines"]}
    own_line = lines_["Llama 3.1 70B, BF16"]["values"]
    assert lines_["the same, FP8"]["values"][-1] * 2 == own_line[-1]
    assert lines_["70B with 64 KV heads*"]["values"][-1] == 8 * own_line[-1]
    assert lines_["DeepSeek-V3"]["copies"] == 8, "a latent is kept on each of eight GPUs"
    gemma = lines_["Gemma 3 27B"]["values"]
    assert gemma[1] - gemma[0] > gemma[-1] - gemma[-2], "windows fill up, and the line bends"
    assert curves.last_context(4096) == 32_768 and curves.last_context(40_000) == 131_072


def test_a_model_whose_parameters_are_not_known_has_a_formula_and_no_bar() -> None:
    page = shown(replace(DEFAULT, model="hypothetical-70b-mha"))
    assert page["token"]["model"]["value"] == 2_621_440
    assert page["memory"] is None and page["balance"] is None and page["paging"] is None
    assert "not known" in page["memory_why"]
    assert page["growth"]["budget"] is None


def test_the_same_place_sends_the_same_data() -> None:
    assert json.dumps(shown(WORKED)) == json.dumps(shown(WORKED))
    assert len(json.dumps(shown(DEFAULT))) < 60_000, "small enough for every move of a slider"


# -- the worked example


def test_the_worked_example_is_right() -> None:
    values = [answer.value for _, answer in example.steps()]
    assert values == [
        140_000_000_000,
        141_107_412_992,
        327_680,
        163_840,
        2_621_440,
        85_899_345_920,
        385,
        1_052,
        1_049,
        770,
    ]
    words = lesson.load("kv_sizing")
    said = words["example-after"].format(**example.values())
    planned = figures.sized(WORKED).planned
    assert planned is not None
    assert "**385**" in said and f"**{planned.held_paged.value}**" in said
    assert shown(WORKED)["memory"]["all"]["kv"]["value"] == 85_899_345_920


def test_figures_in_the_lesson_are_computed_ones() -> None:
    words = lesson.load("kv_sizing")
    assert calc("mla_equivalent_gqa_heads", d_latent=512, d_rope=64, d_head=128) == 2.25
    assert "576 numbers a layer, as much as 2.25 KV heads" in words["words.full"]
    gpu = shown(DEFAULT)["memory"]["gpu"]["total"]["value"]
    assert f"{gpu / 2**30:.1f} GiB, which is {gpu / 1e9:.1f} GB" in words["words"]
    fp8 = calc("kv_bytes_per_token", model="llama-3.1-70b", dtype="fp8")
    scaled = calc("kv_bytes_per_token", model="llama-3.1-70b", dtype="fp8_per_token_head")
    assert round(100 * (scaled / fp8 - 1)) == 3 and "adds 3 %" in words["words.full"]
    long = calc("kv_bytes_sequence", model="llama-3.1-70b", tokens=131_072)
    assert f"takes {long / 2**30:g} GiB ({long / 1e9:.2f} GB)" in words["words.full"]
    short = calc("kv_bytes_sequence", model="llama-3.1-70b", tokens=4096)
    assert f"as much as {long // short} requests of 4K" in words["words.full"]
    assert 0.45 < long / gpu < 0.55 and "about half of what an H100 has" in words["words.full"]


# -- exports


@pytest.mark.parametrize("at", [DEFAULT, replace(DEFAULT, model="hypothetical-70b-mqa")])
def test_exports_open_and_hold_the_figures(at: Place) -> None:
    import pandas as pd

    done = figures.sized(at)
    table = pd.read_csv(io.StringIO(files.as_csv(done)))
    whole = json.loads(files.as_json(done))
    assert len(table) == len(whole["results"])
    first = table.iloc[0]
    assert (first["name"], int(first["value"])) == ("kv_bytes_per_token", done.token.value)
    assert whole["results"][0]["derivation"]["steps"]
    assert whole["inputs"]["model"] == at.model
    for row in csv.reader(io.StringIO(files.as_csv(done))):
        assert not any(cell.startswith(("=", "+", "@")) for cell in row)


def test_an_export_of_one_s_own_config_leaves_the_file_out() -> None:
    done = figures.sized(replace(DEFAULT, own=json.dumps(catalog.entries()["qwen3-32b"].config)))
    assert json.loads(files.as_json(done))["inputs"]["own"] is True
    assert "num_hidden_layers" not in files.as_csv(done)


# -- the check against the engine


def test_the_recorded_pool_is_the_formula_s_to_the_byte() -> None:
    found = engine_check.recorded()
    assert found is not None
    assert (found.blocks, found.size) == (512, 16)
    assert found.allocated == found.formula.value == 188_743_680
    assert found.header["label"] == "RECORDED"
    part = engine_check.check_part(None, "")
    assert part["allocated"] == part["formula"]["value"] and not part["live"]


class _Engine:
    """Answers a scenario with the header of a pool that takes `extra` bytes more than it should."""

    def __init__(self, extra: int = 0, fails: Exception | None = None) -> None:
        self.extra, self.fails, self.asked = extra, fails, {}

    def scenario(self, scenario: Json) -> Any:
        if self.fails:
            raise self.fails
        self.asked = Scenario.from_dict(scenario).to_dict()  # as an engine reads it
        return self

    def __enter__(self) -> Any:
        engine = self.asked["engine"]
        took = engine["num_blocks"] * engine["block_size"] * 46_080 + self.extra
        source = {"device": "CPU", "model": "smollm2-135m-instruct", "dtype": "float32"}
        header = {
            "label": "LIVE",
            "source": source,
            "scenario": self.asked,
            "kv_cache_bytes": took,
        }
        return iter([("queue", {"position": 1}), ("header", header)])

    def __exit__(self, *_: object) -> None:
        pass


def test_a_pool_is_allocated_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _Engine()
    monkeypatch.setattr(engine_process, "client", lambda: engine)
    found, said = engine_check.allocate(128, 8)
    assert said == "" and found is not None
    assert found.allocated == found.formula.value == 128 * 8 * 46_080
    assert found.dtype == "fp32" and found.header["label"] == "LIVE"
    assert engine_check.check_part(found, "")["header"]["label"] == "LIVE"
    engine.extra = 64
    other, _ = engine_check.allocate(128, 8)
    assert other is not None and other.allocated != other.formula.value


@pytest.mark.parametrize(
    ("blocks", "size"), [(10**9, 16), ("512", 16), (None, None), (512, 0), (True, 16)]
)
def test_another_pool_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, blocks: Any, size: Any
) -> None:
    engine = _Engine()
    monkeypatch.setattr(engine_process, "client", lambda: engine)
    assert engine_check.allocate(blocks, size)[0] is None
    assert not engine.asked


def test_an_engine_that_says_no_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = _Engine(fails=EngineRefusedError(429, "8 scenarios wait", 2))
    monkeypatch.setattr(engine_process, "client", lambda: refused)
    found, said = engine_check.allocate(512, 16)
    assert found is None and "busy" in said
    monkeypatch.setattr(engine_process, "client", lambda: None)
    assert engine_check.allocate(512, 16)[1]


def test_a_model_that_the_catalogue_does_not_know_is_sized_as_its_engine_describes_it() -> None:
    header = {
        "label": "LIVE",
        "source": {"model": "somebody-s", "dtype": "bfloat16"},
        "scenario": {"engine": {"num_blocks": 10, "block_size": 4}},
        "kv_cache_bytes": 2 * 6 * 2 * 32 * 2 * 40,
    }
    assert engine_check.of_header(header) is None
    described = {"num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 32}
    found = engine_check.of_header(header, described)
    assert found is not None and found.formula.value == found.allocated


@pytest.mark.parametrize("missing", ["kv_cache_bytes", "source"])
def test_a_header_that_does_not_say_is_no_check(missing: str) -> None:
    header = {
        "label": "LIVE",
        "source": {"model": "smollm2-135m-instruct", "dtype": "float32"},
        "scenario": {"engine": {"num_blocks": 4, "block_size": 4}},
        "kv_cache_bytes": 1,
    }
    assert engine_check.of_header(header) is not None
    del header[missing]
    assert engine_check.of_header(header) is None


# -- the page


@pytest.mark.parametrize("level", ["short", "plain", "full"])
def test_every_level_has_its_words(open_page: Open, level: str) -> None:
    at = open_page("kv_sizing", level=level)
    assert not at.exception
    assert "What you are looking at" in text_of(at)


def test_the_code_and_the_example_open(open_page: Open) -> None:
    at = open_page("kv_sizing")
    at.session_state[code.KEY] = True
    at.session_state["ks.example"] = True
    at.run()
    assert not at.exception
    text = text_of(at)
    assert "def kv_bytes_per_token" in text and "def max_streams" in text
    at.button(key="ks.example.go").click().run()
    assert at.session_state[bench.PLACE] == WORKED


def test_on_a_projector_the_instrument_is_alone(open_page: Open) -> None:
    at = open_page("kv_sizing", present="1")
    assert not at.exception
    assert not at.number_input and "After this page" not in text_of(at)
