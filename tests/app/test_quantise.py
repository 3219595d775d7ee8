"""The page on quantised caches without a browser: its address, bytes, predictions and parts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.client import EngineClient
from core.sizing import kv
from core.trace.run import Run
from tests import kv_quantised as made
from tests.app.conftest import Open, text_of
from ui import awaited, code, engine_process, lesson, links, runs
from ui.quantise import bench, files, formats, live, measured, memory, place, predict, quality
from ui.quantise.place import DEFAULT, EXAMPLES, Place


def packed(prompt: str) -> str:
    found = links.pack({"prompt": prompt})
    assert found is not None
    return found


# --- formats -------------------------------------------------------------------------------------


def test_two_spellings_of_a_format_are_one() -> None:
    spec = formats.spec
    assert spec("int8_per_token_head") == spec({"format": "int8", "scale": "per_token_head"})
    assert spec("fp8") == spec({"format": "fp8_e4m3", "scale": "per_tensor", "calibration": "text"})
    fixed = {"format": "int4", "scale": "per_tensor"}
    assert spec(fixed) != spec({**fixed, "calibration": "one"})
    one = {"format": "int4", "layers": {"0-1": "int8", "5": "int8"}}
    other = {"format": "int4", "layers": {"0": "int8", "1": "int8", "5": "int8", "7": "int4"}}
    assert spec(one) == spec(other)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("0-2,29", [0, 1, 2, 29]),
        ("3,1-3", [1, 2, 3]),
        ("5", [5]),
        ("", None),
        ("30", None),
        ("4-2", None),
        ("-1", None),
        ("1,,2", None),
        ("x", None),
        ("١", None),
    ],
)
def test_spans_of_layers(text: str, layers: list[int] | None) -> None:
    found = formats.spans(text, 30)
    assert found == layers or text == "١"
    if found:
        assert formats.spans(formats.written(found), 30) == found


def test_a_title_says_what_differs() -> None:
    mix = EXAMPLES["outer"][1].spec
    assert formats.title(mix, "BF16").endswith("; INT4 in layers 0-4,25-29")
    one = Place(fmt="fp8_e4m3", scale="per_tensor", cal="one").spec
    assert "calibrated not at all: scale 1" in formats.title(one, "BF16")
    assert formats.short(mix) == "INT8 / INT4"
    assert formats.title(formats.spec("model"), "BF16") == "BF16"


# --- the address ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_survives_its_link(name: str) -> None:
    here = Place(**{**vars(EXAMPLES[name][1]), "prompt": "What is a key?\nAnd a value? 🗝"})
    assert place.read(place.written(here)) == (here, None)
    row = quality.place_of(here.kv_dtype())
    assert row is not None and row.kv_dtype() == here.kv_dtype()


@pytest.mark.parametrize(
    "params",
    [
        {"fmt": "fp4"},
        {"scale": "<b>"},
        {"cal": "text "},
        {"apart": "0-30"},
        {"apart": "0,1," * 40},
        {"to": "fp8"},
        {"own": "x"},
        {"own": packed("x" * 401)},
        {"own": packed("é" * 301)},
        {"own": packed("")},
        {"own": links.pack({"prompt": 5}) or ""},
    ],
)
def test_what_cannot_be_is_left_out_and_named(params: dict[str, str]) -> None:
    found, notice = place.read(params)
    assert found == DEFAULT and notice is not None
    assert next(iter(params)) in notice and not any(v in notice for v in params.values() if v)


def test_what_has_no_meaning_is_dropped() -> None:
    assert place.read({"cal": "one"})[0] == DEFAULT
    assert place.read({"to": "model"})[0] == DEFAULT
    assert place.read({"fmt": "int8", "apart": "0"})[0].to == "int4"
    assert place.read({"fmt": "fp8_e4m3", "apart": "0"})[0].to == "int8"
    assert place.read({"fmt": "int4", "apart": "0"})[0].to == "int8"


def test_controls_move_the_place_and_nonsense_does_not() -> None:
    four = place.taken(DEFAULT, {"fmt": "int4", "apart": "29,0-1"})
    assert (four.fmt, four.apart) == ("int4", "0-1,29")
    assert place.taken(four, {"apart": ""}).apart == ""
    kept = Place(prompt="Why?")
    assert place.taken(kept, {"example": "inner"}).prompt == "Why?"
    for sent in (None, 5, {"fmt": 5}, {"fmt": "x"}, {"prompt": 5}, {"prompt": "\ud800"}, {5: 5}):
        assert place.taken(four, sent) == four


# --- bytes ---------------------------------------------------------------------------------------


def test_eight_bits_are_not_half() -> None:
    done = memory.of_place(DEFAULT)
    assert done.token.value == 12_240 and done.numbers == 11_520
    assert done.ratio == pytest.approx(0.53125) and done.held == 1_445
    fixed = memory.of_place(Place(scale="per_head_static"))
    assert fixed.ratio == 0.5 and fixed.fixed == 2 * 30 * 3 * 4
    assert fixed.held == (23_040 * 768 - 720) // 11_520


def test_a_mix_is_the_sum_of_its_layers() -> None:
    mix = memory.of_place(EXAMPLES["inner"][1])
    four, eight = (memory.of_place(Place(fmt=name)) for name in ("int4", "int8"))
    a, b, c = (int(one.token.value or 0) for one in (four, eight, mix))
    assert c == (10 * a + 20 * b) // 30 == memory.of_place(EXAMPLES["outer"][1]).token.value
    own = memory.of_place(Place(fmt="int4", apart="0-29", to="model"))
    assert own.token.value == kv.kv_bytes_per_token(memory.spec(), "bf16").value


def test_what_an_engine_allocated_stands_beside_the_formula() -> None:
    run = made.run("int8_per_token_head", token_bytes=12_240)
    found = memory.allocated(run["header"])
    assert found is not None
    assert found["pool"] == found["pool_formula"] and found["token"] == found["token_formula"]
    run["header"]["source"]["dtype"] = "float32"
    other = memory.allocated(run["header"])
    assert other is not None and other["token_formula"] == 12_240
    run["header"]["kv_cache_bytes"] = None
    assert memory.allocated(run["header"]) is None


# --- measured pairs ------------------------------------------------------------------------------


def test_a_pair_of_runs_as_the_instrument_shows_it() -> None:
    other = made.run("int8_per_token_head", [10, 11, 16, 13], token_bytes=12_240, label="LIVE")
    part = measured.of_runs(made.run(), other)
    assert part["label"]["label"] == "LIVE" and part["own"] == "BF16"
    texts = part["texts"]
    assert texts["first"] == 2 and "".join(texts["same"]) == "The sky"
    assert texts["parts"][0][0] == " is" and texts["parts"][1][0] == " bright"
    assert texts["gap"] == pytest.approx(0.1) and texts["candidates"][0]["text"] == " is"
    assert part["errors"]["key"][4][1] == pytest.approx(0.05)
    json.dumps(part)


def test_equal_texts_and_a_run_without_errors() -> None:
    part = measured.of_runs(made.run(), made.run("int8_per_token_head", token_bytes=12_240))
    assert part["texts"]["first"] is None and part["texts"]["parts"] == [[], []]
    assert part["texts"]["candidates"] == [] and part["texts"]["gap"] is None
    assert measured.of_runs(made.run(), made.run())["errors"] is None


def test_the_scenario_of_a_prompt_holds_any_prompt_that_a_link_can() -> None:
    given = measured.scenario("x" * place.MAX_BYTES, DEFAULT.kv_dtype())
    engine = given["engine"]
    assert engine["measure_kv_error"] and engine["num_blocks"] * engine["block_size"] == 768
    template = len(measured.asked("").encode())
    assert place.MAX_BYTES + template + measured.ANSWER <= engine["max_model_len"]
    assert measured.message({"scenario": given}) == "x" * place.MAX_BYTES
    assert "measure_kv_error" not in measured.scenario("x", "model")["engine"]


def test_recorded_scenarios_ask_what_the_page_asks(root: Path) -> None:
    examples = {name: EXAMPLES[key][1].kv_dtype() for key, name in measured.RECORDED.items()}
    assert measured.RECORDED.keys() == EXAMPLES.keys()
    for name, dtype in {measured.OWN: "model", **examples}.items():
        path = root / "runs" / "scenarios" / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        assert {**found, "name": ""} == {**measured.scenario(measured.prompt(), dtype), "name": ""}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_has_a_recorded_run_that_is_equal_to_the_byte(name: str) -> None:
    found = measured.recorded(EXAMPLES[name][1])
    assert found is not None and found["label"]["label"] == "RECORDED"
    for one in (found["allocated"], found["own_allocated"]):
        assert one["token"] == one["token_formula"]
        assert one["pool"] == one["pool_formula"]
        assert one["fixed"] == one["fixed_formula"]
    errors = found["errors"]
    assert (len(errors["key"]), len(errors["key"][0])) == (made.LAYERS, made.HEADS)
    assert all(0 < v < 1 for kind in ("key", "value") for layer in errors[kind] for v in layer)


def test_recorded_errors_are_as_the_lesson_says() -> None:
    def of(name: str) -> float:
        found = measured.recorded(EXAMPLES[name][1])
        assert found is not None
        return float(found["errors"]["key_all"])

    # Four bits have steps some 18 times as large as eight; one scale for all fits worse.
    assert 10 < of("int4") / of("int8") < 30
    assert of("int8") < of("int8-tensor") and of("int4") < of("int4-tensor")
    assert of("int8") < of("fp8") < of("int4")
    # Three bits of mantissa: at most one part in sixteen, whatever the scale.
    assert of("fp8-one") < 1 / 16 and of("fp8-tensor") < 1 / 16
    mix = measured.recorded(EXAMPLES["inner"][1])
    assert mix is not None
    layers = [max(layer) for layer in mix["errors"]["key"]]
    assert max(layers[:10] + layers[20:]) < min(layers[10:20])


# --- the prediction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "section"),
    [
        (53, "right"),
        (50, "wrong-half"),
        (25, "wrong-quarter"),
        (52, "wrong-narrow"),
        (75, "wrong-more"),
        (100, "wrong"),
        (3, "wrong"),
    ],
)
def test_a_guess_is_answered_by_its_slip(guess: int, section: str) -> None:
    assert predict.feedback(guess, predict.values()["percent"]) == section


def test_four_bits_are_answered_too() -> None:
    percent = predict.values()["percent4"]
    assert percent == 28
    found = [predict.feedback_again(guess, percent) for guess in (28, 25, 40)]
    assert found == ["again-right", "again-wrong-quarter", "again-wrong"]


# --- the page ------------------------------------------------------------------------------------


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server with a measurement, and with a recorded pair in the first format alone."""
    (tmp_path / quality.FILE).write_text(json.dumps(made.quality()), encoding="utf-8")
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    other = made.run("int8_per_token_head", [10, 11, 16, 13, 14, 15], token_bytes=12_240)
    there = {measured.OWN: made.run(), measured.RECORDED["int8"]: other}

    def found(name: str) -> runs.Played:
        if name not in there:
            raise runs.RunError("there is none")
        return runs.Played.of(there[name])

    monkeypatch.setattr(runs, "recorded", found)


@pytest.mark.usefixtures("recorded")
def test_the_page_shows_the_recorded_pair_and_its_prediction(open_page: Open) -> None:
    at = open_page("quantisation")
    assert not at.exception and not at.error and not at.warning
    assert "Predict first" in text_of(at) and "within 6 tokens" in text_of(at)
    at.number_input(key="kq.predict.percent").set_value(50)
    at.segmented_control(key="kq.predict.text").set_value("stays the same")
    at.button(key="kq.predict.lock").click().run()
    assert not at.exception
    said = text_of(at)
    assert (
        "You halved it" in said
        and "**53 %**" in said
        and "it parts at token 3, where BF16 preferred its own token by 0.10 nats" in said
    )
    at.number_input(key="kq.predict.four").set_value(28)
    at.button(key="kq.predict.lock4").click().run()
    assert "(32 + 4) B of 128 B: **28 %**" in text_of(at)


@pytest.mark.usefixtures("recorded")
def test_a_recorded_pair_is_shown_for_its_format_and_its_prompt_alone() -> None:
    assert measured.recorded(DEFAULT) is not None
    assert measured.recorded(Place(prompt=made.PROMPT)) is not None
    assert measured.recorded(Place(fmt="int4")) is None
    assert measured.recorded(Place(prompt="Another question?")) is None


@pytest.mark.parametrize("params", [{}, {"fmt": "int4", "apart": "0-4,25-29"}, {"present": "1"}])
def test_the_page_opens_without_recorded_runs(
    open_page: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, params: dict[str, str]
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    at = open_page("quantisation", **params)
    assert not at.exception and not at.error and not at.warning
    html = "\n".join(one.proto.body for one in at.get("html"))
    assert "has not been measured here" in html
    assert ("Predict first" in text_of(at)) == ("present" not in params)


@pytest.mark.usefixtures("recorded")
def test_the_instrument_does_not_answer_the_prediction_on_the_same_screen(open_page: Open) -> None:
    at = open_page("quantisation")
    assert at.session_state[bench.PLACE] == EXAMPLES["fp8-tensor"][1]
    at.run()
    assert at.query_params["fmt"] == "fp8_e4m3"
    at.number_input(key="kq.predict.percent").set_value(53)
    at.segmented_control(key="kq.predict.text").set_value("changes")
    at.button(key="kq.predict.lock").click().run()
    at.button(key="kq.predict.see").click().run()
    assert at.session_state[bench.PLACE] == DEFAULT
    # A link is shown as it is, and so is a place that somebody has chosen meanwhile.
    at = open_page("quantisation", fmt="int8")
    assert at.session_state[bench.PLACE] == DEFAULT


def test_a_projector_shows_the_instrument_or_the_part_that_a_link_names(open_page: Open) -> None:
    at = open_page("quantisation", present="1")
    assert not at.exception and "Two things to make smaller" not in text_of(at)
    at = open_page("quantisation", present="1", at="scales")
    assert not at.exception and "Scales, and why half is not half" in text_of(at)
    assert "scales" in at.query_params["at"]
    at.run()  # it stays
    assert "Scales, and why half is not half" in text_of(at)
    at = open_page("quantisation", at="scales")
    assert "Scales, and why half is not half" in text_of(at) and "Predict first" in text_of(at)
    at.query_params["present"] = "1"  # by the button, from where one has read to
    at.run()
    assert "Scales, and why half is not half" not in text_of(at) and "at" not in at.query_params


def test_a_hostile_link_gets_one_sentence(open_page: Open) -> None:
    at = open_page("quantisation", fmt="<script>", own="%%%", apart="0-99999999999")
    assert not at.exception and len(at.warning) == 1
    assert "<script>" not in at.warning[0].value
    assert "fmt, apart, own cannot be shown" in at.warning[0].value


@pytest.mark.usefixtures("recorded")
def test_a_damaged_measurement_is_not_shown(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / quality.FILE).write_text("{}", encoding="utf-8")
    at = open_page("quantisation")
    assert not at.exception
    assert "has not been measured here" in "\n".join(one.proto.body for one in at.get("html"))


def test_the_code_that_is_shown_is_there(root: Path) -> None:
    page = (root / "pages" / "quantisation.py").read_text(encoding="utf-8")
    targets = re.findall(r'": "((?:core|kernels)[\w.]+:[\w.]+)"', page)
    assert len(targets) == 6 and all(code.snippet(target) is not None for target in targets)


# --- quality -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("recorded")
def test_rows_of_the_table_lead_to_their_formats() -> None:
    found = quality.recorded()
    words = lesson.load(measured.WORDS)
    data = quality.data(found, words, EXAMPLES["inner"][1], present=False)
    assert [row["place"] for row in data["rows"]] == [False, True, True, True, True, True]
    assert data["here"] == 5
    assert quality.data(found, words, Place(scale="per_tensor"), present=False)["here"] == -1
    assert "1,024 tokens" in data["words"]["about"] and "2 prompts" in data["words"]["about"]
    layers = quality.by_layer(found, words, present=False)
    assert layers is not None and layers["lines"][0]["values"][:2] == [1.0, 2.0]
    for hostile in ({"format": "int8", "layers": {"0": "int4", "1": "model"}}, {}, {"format": []}):
        assert quality.place_of(hostile) is None


@pytest.mark.usefixtures("recorded")
def test_the_outlier_is_two_charts_of_lines_by_scales() -> None:
    words = lesson.load(measured.WORDS)
    error, kl = quality.charts(quality.recorded(), words, present=False)
    assert error["x"]["values"] == [1, 4, 16, 64]
    assert [line["name"] for line in error["lines"]] == [
        "INT8, one scale",
        "INT8, a scale a head",
        "INT8, a scale a token and head",
    ]
    assert error["lines"][0]["values"] == pytest.approx([0.6, 2.4, 9.6, 38.4])
    assert kl["unit"] == "nats" and kl["lines"][2]["values"] == [0.0002] * 4


def test_the_shipped_measurement_is_as_the_page_says() -> None:
    found = quality.recorded()
    assert found.label["label"] == "RECORDED" and len(found.by_layer) == made.LAYERS
    for row in found.rows:
        token = memory.sized(formats.spec(row.kv_dtype), found.label["source"]["dtype"]).token
        assert row.kv_bytes_per_token == token.value, row.name
    by = {quality.place_of(row.kv_dtype): row for row in found.rows}
    assert len(by) == len(found.rows), "a row that no control can say, or two of one format"
    words = lesson.load(measured.WORDS)
    facts = quality.facts(found, words)
    assert "Where four bits break" in facts and "Where four bits lie" in facts
    assert "For 4 of 6 formats of eight bits" in facts and "One small model, one text" in facts
    one, calibrated = by[EXAMPLES["fp8-one"][1]], by[EXAMPLES["fp8-tensor"][1]]
    assert one.kl < 1.1 * calibrated.kl  # so nothing is cut off, as the page says
    assert (
        "96 tokens first differs"
        in quality.data(found, words, DEFAULT, present=False)["words"]["about"]
    )
    four = by[EXAMPLES["int4"][1]], by[EXAMPLES["int4-tensor"][1]]
    assert found.own.perplexity < four[0].perplexity < four[1].perplexity
    inner, outer = by[EXAMPLES["inner"][1]], by[EXAMPLES["outer"][1]]
    assert inner.kv_bytes_per_token == outer.kv_bytes_per_token
    assert found.own.kl == 0 and min(row.kl for row in found.rows[1:]) > 0


def test_the_costliest_layer_is_named_where_it_is_in_the_cheaper_mix() -> None:
    found, words = quality.recorded(), lesson.load(measured.WORDS)
    assert "the one that costs most, 1, is among" in quality.facts(found, words)
    inside = [0.0] * made.LAYERS
    inside[12] = 1.0
    for by_layer in ((), tuple(inside)):
        said = quality.facts(replace(found, by_layer=by_layer), words)
        assert "Where four bits lie" in said and "No rule" not in said
    only = replace(found, rows=found.rows[:1])
    assert quality.facts(only, words) == ""


def test_the_shipped_outlier_is_noticed_through_a_shared_scale_of_even_steps_alone() -> None:
    found = quality.recorded()
    error = {(one.format, one.scale, one.factor): one.key_error_others for one in found.outlier}
    assert {one.factor for one in found.outlier} == {1, 4, 16, 64}  # as the lesson says
    assert error["int8", "per_tensor", 64] > 10 * error["int8", "per_tensor", 1]
    for kind in (("int8", "per_head_static"), ("int8", "per_token_head")):
        assert error[*kind, 64] == pytest.approx(error[*kind, 1], rel=0.01)
    fp8 = [error["fp8_e4m3", "per_tensor", factor] for factor in (1, 64)]
    assert fp8[1] == pytest.approx(fp8[0], rel=0.1)


def test_a_large_or_missing_measurement_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KV_SCOPE_RUNS", str(tmp_path))
    with pytest.raises(runs.RunError, match="there is no"):
        quality.recorded()
    (tmp_path / quality.FILE).write_text(" " * (quality.MAX_BYTES + 1), encoding="utf-8")
    with pytest.raises(runs.RunError, match="larger"):
        quality.recorded()


# --- live ----------------------------------------------------------------------------------------


class Engine:
    """Answers every scenario; keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[made.Json] = []

    def run(self, body: made.Json) -> Run:
        self.asked.append(body)
        dtype = body["engine"]["kv_dtype"]
        prompt = measured.message({"scenario": body})
        tokens = None if dtype == "model" else [10, 11, 16]
        given = made.run(dtype, tokens, label="LIVE", prompt=prompt)
        return Run(given["header"], given["steps"], given["results"])


def test_both_are_run_and_the_model_s_own_once_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    monkeypatch.setattr(awaited, "run", engine.run)
    monkeypatch.setattr(live.st, "session_state", {})
    for here in (Place(prompt="Why?"), Place(fmt="int4", prompt="Why?"), Place(prompt="How?")):
        assert live.part(here) is None
        live.run(here)
    dtypes = [one["engine"]["kv_dtype"] for one in engine.asked]
    eight, four = DEFAULT.kv_dtype(), Place(fmt="int4").kv_dtype()
    assert dtypes == ["model", eight, four, "model", eight]
    assert [measured.message({"scenario": one})[:-1] for one in engine.asked[2:4]] == ["Why", "How"]
    part = live.part(Place(prompt="Why?"))
    assert part is not None and part["label"]["label"] == "LIVE" and part["texts"]["first"] == 2
    assert live.part(Place(prompt="When?")) is None
    for index in range(live.MOST + 3):
        live.run(Place(prompt=f"{index}?"))
    assert live.part(Place(prompt="Why?")) is None and live.part(Place(prompt="5?")) is not None


def test_an_engine_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(body: made.Json) -> Run:
        raise awaited.LiveRunError("The engine did not take it: it is busy.")

    monkeypatch.setattr(awaited, "run", refuse)
    monkeypatch.setattr(live.st, "session_state", {})
    live.run(DEFAULT)
    assert live.controls(DEFAULT)["said"] == "The engine did not take it: it is busy."
    assert live.controls(Place(fmt="int4"))["said"] == ""  # it was said of another format


def test_an_engine_that_has_just_ended_is_one_sentence_and_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        awaited.engine_process, "client", lambda: EngineClient("http://127.0.0.1:1")
    )
    monkeypatch.setattr(live.st, "session_state", {})
    live.run(DEFAULT)
    for state, can in (("restarting", True), ("absent", False)):
        seen = engine_process.Seen(state)
        monkeypatch.setattr(live.engine_process, "seen", lambda seen=seen: seen)
        found = live.controls(DEFAULT)
        assert found["can"] is can and "try once more" in found["said"]
        assert "127.0.0.1" not in found["said"]
    assert not live.controls(DEFAULT)["has"]


def test_what_can_be_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "recorded", lambda here: None)
    monkeypatch.setattr(files.bench, "now", lambda: DEFAULT)
    found = json.loads(files.as_json())
    assert found["bytes_per_token"] == 12_240 and found["measured"] is None
    assert found["kv_dtype"] == {"format": "int8", "scale": "per_token_head"}
    assert found["inputs"]["prompt"] == measured.prompt()
