"""The KV sizing page without a browser: its figures against `calc`, its link, its prediction, a
config.json of one's own, and the check against the engine."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.client import EngineRefusedError
from core.sizing import calls, catalog, config_json
from core.sizing.errors import SizingError
from core.sizing.units import both
from tests.app.conftest import Open, text_of
from ui import engine_process, lesson
from ui.kit import code
from ui.sizing import bench, curves, engine_check, example, figures, files, grading, own, place
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
    token, memory, paging = page["token"], page["memory"], page["paging"]
    assert token["model"]["value"] == calc("kv_bytes_per_token", **model)
    assert token["gpu"]["value"] == calc("kv_bytes_per_token_per_gpu", **model, tp=at.gpus)
    assert token["sequence"]["value"] == calc("kv_bytes_sequence", **model, tokens=at.ctx)
    weights: Json = {"model": at.model, "weight_dtype": at.w, "tp": at.gpus}
    gpu = memory["gpu"]
    assert gpu["weights"]["value"] == calc(
        "weight_bytes_per_gpu", model=at.model, dtype=at.w, tp=at.gpus
    )
    limits = {"max_num_batched_tokens": 8192, "max_num_seqs": 256}
    pool = calc("kv_pool_bytes_per_gpu", **weights, gpu=at.gpu, overhead_bytes=2 * 2**30, **limits)
    assert memory["pool"]["value"] == pool
    assert gpu["overhead"]["value"] == 2 * 2**30 + calc(
        "activation_bytes_bound", model=at.model, tp=at.gpus, **limits
    )
    each = calc("sequence_bytes_in_pool", **model, tokens=at.ctx, block_size=at.bs, tp=at.gpus)
    assert gpu["kv"]["value"] == at.n * each
    assert gpu["free"]["value"] == max(0, pool - at.n * each)
    fits: Json = {**model, "tokens": at.ctx, "per_gpu_pool_bytes": pool, "tp": at.gpus}
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
    own_line = growth["lines"][0]
    for tokens, value in zip(growth["contexts"], own_line["values"], strict=True):
        each = calc(
            "sequence_bytes_in_pool",
            model=at.model,
            dtype=at.kv,
            tokens=max(1, tokens),
            tp=at.gpus,
        )
        assert value == (at.gpus * at.n * each if tokens else 0)
    assert growth["budget"] == at.gpus * page["memory"]["pool"]["value"]
    for tokens, even, fit in zip(balance["contexts"], balance["even"], balance["fit"], strict=True):
        model: Json = {"model": at.model, "dtype": at.kv, "tokens": tokens}
        assert even == calc("kv_weights_balance", **model, weight_dtype=at.w)
        pool = page["memory"]["pool"]["value"]
        assert fit == calc("max_streams", **model, per_gpu_pool_bytes=pool, tp=at.gpus)
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
        for count in (1, 8):
            try:
                done = figures.sized(replace(DEFAULT, model=name, gpus=count))
            except SizingError:
                continue
            for lever in figures.levers(done):
                case = f"{lever['id']}-{lever['case']}" if "case" in lever else lever["id"]
                title, text = words.get(case) or words[lever["id"]]
                assert title and "{" not in text.format(**lever)


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


# -- the link


@given(
    model=st.sampled_from(catalog.names()),
    gpus=st.sampled_from(place.GPU_COUNTS),
    kv=st.sampled_from(list(KV_FORMATS)),
    ctx=st.integers(1, place.MOST_TOKENS),
    n=st.integers(1, place.MOST_SEQUENCES),
    most=st.integers(0, place.MOST_TOKENS),
    vs=st.lists(st.sampled_from(catalog.names()), max_size=4, unique=True),
)
def test_a_link_brings_the_controls_back(vs: list[str], **fields: Any) -> None:
    at = Place(**fields, vs=tuple(vs), of="gpu", w="fp8", bs=32)
    back, said = place.read(place.written(at) or {})
    assert (back, said) == (at, None)


def test_a_config_goes_into_the_link_and_back() -> None:
    text = json.dumps(catalog.entries()["qwen3-8b"].config)
    at = replace(DEFAULT, own=text)
    written = place.written(at)
    assert written is not None and "model" not in written
    back, said = place.read(written)
    assert said is None and json.loads(back.own) == json.loads(text)
    assert (
        figures.sized(back).token.value
        == figures.sized(replace(DEFAULT, model="qwen3-8b")).token.value
    )
    assert place.written(replace(DEFAULT, own=json.dumps({"a": "\ud800"}))) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "<script>alert(1)</script>"),
        ("model", "llama-3.1-70b "),
        ("gpu", "h101"),
        ("gpus", "3"),
        ("gpus", "-8"),
        ("kv", "bf17"),
        ("w", ""),
        ("ctx", "0"),
        ("ctx", "9" * 40),
        ("ctx", "١٢"),
        ("n", "1e3"),
        ("max", "-1"),
        ("bs", "100000"),
        ("of", "moon"),
        ("vs", "a,b"),
        ("vs", ",".join(catalog.names()[:9])),
        ("own", "eJyr"),
        ("own", "x" * 9_000),
    ],
)
def test_what_a_link_asks_in_vain_is_left_out_and_named(name: str, value: str) -> None:
    found, said = place.read({name: value, "n": "7"} if name != "n" else {name: value})
    assert said is not None and f"link's {name} cannot" in said
    assert found == (DEFAULT if name == "n" else replace(DEFAULT, n=7))


def test_the_page_says_what_a_link_asks_in_vain(open_page: Open) -> None:
    at = open_page("kv_sizing", model="<script>", ctx="0", own="x", bs="8")
    assert not at.exception
    (warning,) = at.warning
    assert warning.value.startswith("This link's model, own, ctx cannot be shown here")
    assert at.session_state[bench.PLACE] == replace(DEFAULT, bs=8)


def test_a_link_to_what_cannot_be_laid_out_shows_the_first_example(open_page: Open) -> None:
    at = open_page("kv_sizing", model="llama-2-13b", gpus="16")
    assert not at.exception
    assert at.session_state[bench.PLACE] == DEFAULT


def test_a_control_says_only_what_it_can() -> None:
    moved = place.taken(DEFAULT, {"ctx": "8192", "n": "0", "own": "x", "gpus": "5", "model": 3})
    assert moved == replace(DEFAULT, ctx=8192)
    assert place.taken(DEFAULT, {"max": "0"}).most == 0
    assert place.taken(replace(DEFAULT, own="{}"), {"model": "qwen3-8b"}) == replace(
        DEFAULT, model="qwen3-8b"
    )
    assert place.taken(DEFAULT, {"example": "worked"}) == WORKED
    assert place.taken(DEFAULT, "hello") == DEFAULT


# -- a config.json of one's own

GOOD = json.dumps(catalog.entries()["qwen3-32b"].config)


def _paste(at: Any, text: str) -> Any:
    at.text_area(key="ks.own.text").set_value(text)
    return at.button(key="ks.own.go").click().run()


def test_a_pasted_config_is_sized(open_page: Open) -> None:
    at = _paste(open_page("kv_sizing"), GOOD)
    assert not at.exception and not at.error
    done = figures.sized(at.session_state[bench.PLACE])
    assert done.token.value == 262_144 and done.place.own == GOOD
    assert at.query_params["own"], "the link carries it"


HOSTILE = {
    "nothing": "",
    "no JSON": "import os; os.system('true')",
    "a list": "[1, 2]",
    "deep": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "large": '{"a": "' + "x" * config_json.MAX_BYTES + '"}',
    "twice": '{"num_hidden_layers": 1, "num_hidden_layers": 2}',
    "infinite": '{"model_type": "llama", "hidden_size": Infinity}',
    "huge": GOOD.replace('"num_hidden_layers": 64', '"num_hidden_layers": ' + "9" * 30),
    "negative": GOOD.replace('"num_key_value_heads": 8', '"num_key_value_heads": -8'),
    "a word": GOOD.replace('"head_dim": 128', '"head_dim": "<img src=x onerror=alert(1)>"'),
    "a name": '{"model_type": "<script>alert(1)</script>", "hidden_size": 8}',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_config_is_refused_with_its_place(kind: str) -> None:
    with pytest.raises(SizingError) as caught:
        own.checked(HOSTILE[kind], DEFAULT)
    said = str(caught.value)
    assert said.startswith("config") and len(said) < 600 and "\n" not in said


@pytest.mark.parametrize("kind", ["nothing", "a word", "a name"])
def test_a_hostile_config_is_one_sentence_and_changes_nothing(open_page: Open, kind: str) -> None:
    at = _paste(open_page("kv_sizing"), HOSTILE[kind])
    assert not at.exception
    assert lesson.load("kv_sizing")["own-refused"] in [error.value for error in at.error]
    assert at.session_state[bench.PLACE] == DEFAULT
    assert [block.value for block in at.code if block.value.startswith("config")]
    assert not [m.value for m in at.markdown if "<script" in m.value or "<img" in m.value]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200) | st.sampled_from(sorted(HOSTILE)).map(HOSTILE.__getitem__))
def test_whatever_is_pasted_is_sized_or_refused(text: str) -> None:
    with pytest.raises(SizingError):
        own.checked(text, DEFAULT)


def test_names_in_a_config_are_shown_as_text() -> None:
    config = {**json.loads(GOOD), "<b>odd</b>": 1}
    at = own.checked(json.dumps(config), DEFAULT)
    assert figures.title(at) == "Your config.json"
    assert any("<b>odd</b>" in text for text in shown(at)["model"]["warnings"])


def test_a_config_that_cannot_be_split_over_so_many_goes_on_one() -> None:
    text = json.dumps(catalog.entries()["llama-2-13b"].config)
    assert own.checked(text, replace(DEFAULT, gpus=16)).gpus == 1


# -- the prediction


@pytest.mark.parametrize(
    ("guess", "section"),
    [
        (262_144, "right"),
        (2 * 64 * 5120 * 2, "wrong-hidden"),
        (2 * 64 * 64 * 128 * 2, "wrong-query-heads"),
        (2 * 64 * 8 * 80 * 2, "wrong-head-dim"),
        (64 * 8 * 128 * 2, "wrong-half"),
        (64 * 8 * 128, "wrong-half"),
        (2 * 8 * 128 * 2, "wrong-one-layer"),
        (2 * 64 * 128 * 2, "wrong-one-head"),
        (64 * 5120 * 2, "wrong-hidden"),
        (12_345, "wrong"),
    ],
)
def test_a_guess_is_answered_by_its_misconception(guess: int, section: str) -> None:
    assert grading.feedback(guess) == section
    answer = lesson.load("kv_sizing")[section].format(**grading.values())
    assert answer and "{" not in answer


def test_no_two_slips_give_the_same_number() -> None:
    numbers = [value for values in grading.slips().values() for value in values]
    assert len({*numbers, grading.right()}) == len(numbers) + 1


def test_the_prediction_locks_is_answered_and_goes_on(open_page: Open) -> None:
    at = open_page("kv_sizing")
    at.number_input(key="ks.predict.bytes").set_value(1_310_720)
    at.button(key="ks.predict.lock").click().run()
    assert not at.exception
    assert "You said 1,310,720 B." in text_of(at) and "You took the hidden size" in text_of(at)
    assert "262,144 B" in text_of(at)
    at.number_input(key="ks.predict.each").set_value(16_384)
    at.button(key="ks.predict.lock16").click().run()
    assert "You divided by 16" in text_of(at) and "32,768 B" in text_of(at)
    at.button(key="ks.predict.see").click().run()
    assert at.session_state[bench.PLACE].model == grading.MODEL


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
    done = figures.sized(replace(DEFAULT, own=GOOD))
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
        self.asked = scenario
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
    assert engine_check.check_part(found, "")["live"]
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
