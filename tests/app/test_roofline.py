"""The roofline page without a browser: its figures against `calc`, measured points against the
run, its link, its prediction and its files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from core.sizing import calls, catalog, gpus
from tests.app.conftest import Open, text_of
from ui import lesson, runs
from ui.kit import code
from ui.roofline import bench, figures, files, grading, measured, place
from ui.roofline.place import DEFAULT, EXAMPLES, Place

Json = dict[str, Any]
PLACES = [one for _, one in EXAMPLES.values()]
LESSON = lesson.load("roofline")


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


# -- every figure is the library's


@pytest.mark.parametrize("at", PLACES, ids=list(EXAMPLES))
def test_every_figure_is_what_calc_says(at: Place) -> None:
    page = figures.modelled(at)
    for roof in page["roofs"]:
        gpu, dtype = roof["id"].split(":")
        assert roof["ridge"]["value"] == calc("ridge_point", gpu=gpu, dtype=dtype)
        assert roof["flops"] / roof["bytes"] == roof["ridge"]["value"], "drawn where it is said"
        assert roof["saturates"]["value"] == calc(
            "batch_to_saturate", model=at.model, gpu=gpu, weights=at.w, compute=dtype
        )
        formats = {"weights": at.w, "kv": at.kv}
        assert roof["decode"]["value"] == calc(
            "decode_step_time", model=at.model, gpu=gpu, batch=at.b, context=at.ctx,
            compute=dtype, **formats,
        )  # fmt: skip
        assert roof["prefill"]["value"] == calc(
            "prefill_time", model=at.model, gpu=gpu, tokens=at.n, dtype=dtype, weights=at.w
        )
    gpu, dtype = at.roofs[0].split(":")
    attention = {"model": at.model, "dtype": at.kv}
    wanted = {
        "decode-matrices": calc(
            "arithmetic_intensity_matrices", model=at.model, batch=at.b, dtype=at.w
        ),
        "decode-attention": calc(
            "arithmetic_intensity_attention_decode", context=at.ctx, **attention
        ),
        "prefill-matrices": calc(
            "arithmetic_intensity_matrices", model=at.model, batch=at.n, dtype=at.w
        ),
        "prefill-attention": calc(
            "arithmetic_intensity_attention_prefill", tokens=at.n, **attention
        ),
    }
    for point in page["points"]:
        assert point["at"]["value"] == wanted[point["id"]]
        on = "bf16" if point["id"].endswith("attention") else dtype
        asked = {"gpu": gpu, "dtype": on, "intensity": point["at"]["value"]}
        reached = calls.call("attainable_flops", asked).result
        assert point["reaches"]["value"] == reached.value
        assert reached.notes == (f"bound by {point['bound']}",)
    for tokens, at_tokens, rate in page["trail"]:
        found = calc("arithmetic_intensity_matrices", model=at.model, batch=tokens, dtype=at.w)
        assert at_tokens == found
        assert rate == calc("attainable_flops", gpu=gpu, dtype=dtype, intensity=found)


def test_batch_moves_the_matrices_and_leaves_attention() -> None:
    def at(**changes: Any) -> dict[str, float]:
        found = figures.points(replace(DEFAULT, **changes))
        return {one.id: float(one.at.value or 0) for one in found}

    one, many = at(b=1), at(b=256)
    assert (one["decode-matrices"], many["decode-matrices"]) == (1, 256)
    assert one["decode-attention"] == many["decode-attention"]
    assert one["decode-attention"] == at(ctx=100_000)["decode-attention"]
    assert many["decode-matrices"] == at(n=256)["prefill-matrices"], "one line for both"


def test_a_model_too_large_for_the_gpu_is_said() -> None:
    page = figures.modelled(replace(DEFAULT, model="llama-3.1-70b"))
    assert any("141.11 GB = 131.42 GiB, more than one H100 SXM5" in n for n in page["notes"])
    assert not figures.modelled(DEFAULT)["notes"]


# -- the measured points are the run's


def test_a_roof_narrower_than_the_weights_is_said() -> None:
    """BF16 weights meet an FP8 roof only once they are rounded; the other way nothing is lost."""
    assert figures.modelled(DEFAULT)["asides"] == [
        "H100 SXM5, FP8: weights are stored in BF16, and rounded before they are multiplied."
    ]
    for w, roof in (
        ("fp8", "h100-sxm5:fp8"),
        ("int4", "h100-sxm5:bf16"),
        ("bf16", DEFAULT.roofs[0]),
    ):
        assert figures.asides(replace(DEFAULT, w=w, roofs=(roof,))) == []
    own = replace(DEFAULT, model="gpt-oss-120b", w="checkpoint", roofs=("b200-sxm:fp4",))
    assert figures.asides(own) == [], "its weights are in four bits"


def test_measured_points_are_the_run_s_own_counts_and_times() -> None:
    run = runs.recorded("batch_1_to_32").data()
    part = measured.part("batch_1_to_32")
    assert part is not None and part["header"]["label"] == "RECORDED"
    top = run["header"]["source"]["ceilings"]
    assert part["ceilings"] == top and len(part["rows"]) == len(run["steps"])
    for row, step in zip(part["rows"], run["steps"], strict=True):
        whole = dict(zip(part["columns"], row[5], strict=True))
        assert (whole["flops"], whole["bytes"]) == (step["work"]["flops"], step["work"]["bytes"])
        seconds = step["timing"]["forward_us"] / 1e6
        assert whole["mfu"] == pytest.approx(
            step["work"]["flops"] / seconds / top["flops_per_s"], rel=1e-5
        )
        assert whole["mbu"] == pytest.approx(
            step["work"]["bytes"] / seconds / top["read_bytes_per_s"], rel=1e-5
        )


def test_the_recorded_run_shows_what_the_lesson_says_of_it() -> None:
    part = measured.part("batch_1_to_32")
    assert part is not None
    decode = [row for row in part["rows"] if row[1] == "decode"]
    at = part["columns"].index("intensity")
    assert {round(row[7][at], 2) for row in decode} == {3.0}, "attention, in one column"
    assert round(decode[0][6][at]) == 1 and round(decode[-1][6][at]) == 32
    assert "from 1 to 32 FLOP a byte, and attention stays at 3" in LESSON["words.full"]


def test_what_the_lesson_says_of_models_is_so() -> None:
    def decode(model: str, dtype: str = "bf16") -> float:
        return float(calc("arithmetic_intensity_attention_decode", model=model, dtype=dtype))

    assert decode("llama-2-7b") == 1 and decode("llama-3.1-70b") == 8
    assert decode("llama-3.1-70b", "fp8") == 16
    assert catalog.get("deepseek-v3").layers[0].num_query_heads == 128
    prompt = calc("arithmetic_intensity_attention_prefill", model="llama-3.1-8b", tokens=1000)
    assert prompt == 1000 / 2 * decode("llama-3.1-8b"), "N/2 times as much"
    four = calc("batch_to_saturate", model="llama-3.1-8b", gpu="h100-sxm5", weights="int4")
    assert four == -(-calc("batch_to_saturate", model="llama-3.1-8b", gpu="h100-sxm5") // 4)


def test_a_run_that_is_not_here_leaves_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured.part("no_such_run") is None
    assert place.value_of("run", "no_such_run") is None


# -- the link


def test_every_control_is_in_the_link_and_comes_back() -> None:
    at = Place(
        "llama-2-7b", "fp8", "fp8", ("mi300x:fp8",), 7, 100, 33, "one_question", "1,3-5", "own"
    )
    assert place.read(place.written(at)) == (at, None)
    assert set(place.written(at)) == set(place.NAMES)
    assert place.written(DEFAULT) == {}


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("model", "<img src=x>"),
        ("roofs", "h100-sxm5:bf16," * 5 + "x"),
        ("roofs", "h100-sxm5:tf64"),
        ("roofs", ",".join(place.roof_names()[:5])),
        ("roofs", ""),
        ("b", "0"),
        ("b", "９"),
        ("ctx", "99999999"),
        ("n", "-1"),
        ("run", "../../etc/passwd"),
        ("steps", "1-"),
        ("steps", "1," * 300 + "1"),
        ("view", "x"),
        ("w", "fp7"),
    ],
)
def test_what_a_link_cannot_ask_is_left_out(name: str, raw: str) -> None:
    found, said = place.read({name: raw, "n": "64"} if name != "n" else {name: raw, "b": "64"})
    assert said is not None and name in said
    assert getattr(found, name) == getattr(DEFAULT, name)


def test_a_control_sends_texts_and_nothing_else_is_taken() -> None:
    assert place.taken(DEFAULT, {"b": "8", "n": 4, "zzz": "1", "roofs": "x", 5: "1"}).b == 8
    assert place.taken(DEFAULT, ["b"]) == DEFAULT
    chosen = place.taken(DEFAULT, {"steps": "3-5"})
    assert chosen.steps == "3-5" and place.taken(chosen, {"steps": ""}).steps == ""
    other = place.taken(chosen, {"run": "one_question"})
    assert (other.run, other.steps) == ("one_question", ""), "another run's steps are others"
    kept = place.taken(chosen, {"example": "mha"})
    assert (kept.model, kept.steps) == ("llama-2-7b", "3-5")


def test_every_roof_can_be_chosen_and_its_precision_computed() -> None:
    for name in place.roof_names():
        for w in ("bf16", "int4"):
            page = figures.modelled(replace(DEFAULT, w=w, roofs=(name,)))
            assert page["roofs"][0]["ridge"]["value"] > 0
    assert {name.partition(":")[0] for name in place.roof_names()} == set(gpus.names())


def test_the_same_place_sends_the_same_data_and_little_of_it() -> None:
    first = json.dumps([figures.modelled(DEFAULT), measured.part(DEFAULT.run)])
    assert first == json.dumps([figures.modelled(DEFAULT), measured.part(DEFAULT.run)])
    assert len(first) < 60_000, "small enough for every move of a slider"


# -- the prediction


def test_the_answers_are_the_library_s() -> None:
    assert grading.answers() == {"one": "Memory", "many": "Memory", "prefill": "Compute"}
    reach = calc("batch_to_saturate", model="llama-3.1-8b", gpu="h100-sxm5")
    assert grading.reach() == reach == 296
    assert grading.slips() == {
        "wrong-batch-one": 1,
        "wrong-batch-half": 148,
        "wrong-batch-twice": 591,
    }


@pytest.mark.parametrize(
    ("said", "sections"),
    [
        (("Memory", "Memory", "Compute", 295), ["right"]),
        (("Memory", "Memory", "Compute", 300), ["right"]),
        (("Compute", "Memory", "Compute", 296), ["wrong-one"]),
        (("Memory", "Compute", "Memory", 150), ["wrong-many", "wrong-prefill", "wrong-batch-half"]),
        (("Memory", "Memory", "Compute", 590), ["wrong-batch-twice"]),
        (("Memory", "Memory", "Compute", 1), ["wrong-batch-one"]),
        (("Memory", "Memory", "Compute", 0), ["wrong-batch"]),
    ],
)
def test_each_guess_is_answered_by_its_misconception(said: Any, sections: list[str]) -> None:
    assert grading.feedback(*said) == sections
    for name in sections:
        assert "{" not in LESSON[name].format(**grading.values())


def test_the_page_asks_reveals_and_asks_again(open_page: Open) -> None:
    at = open_page("roofline")
    assert not at.exception and "Predict first." in text_of(at)
    at.button_group(key="rl.predict.one").set_value("Memory")
    at.button_group(key="rl.predict.many").set_value("Compute")
    at.button_group(key="rl.predict.prefill").set_value("Compute")
    at.number_input(key="rl.predict.batch").set_value(148)
    at.button(key="rl.predict.lock").click().run()
    assert not at.exception
    said = text_of(at)
    assert "still on the slope: 256 FLOP" in said
    assert "148 would do if a weight had one byte" in said
    at.button_group(key="rl.predict.attention").set_value("None")
    at.button(key="rl.predict.lockagain").click().run()
    assert "32 query heads on 8 KV heads do **4** FLOP" in text_of(at)
    at.button(key="rl.predict.see").click().run()
    assert not at.exception and at.session_state[bench.PLACE].b == 296


# -- the page


def test_a_link_is_shown_and_a_bad_one_answered_in_a_sentence(open_page: Open) -> None:
    at = open_page("roofline", b="8", roofs="rtx-4090:fp8", steps="9")
    assert not at.exception and not at.warning
    assert at.session_state[bench.PLACE] == replace(
        DEFAULT, b=8, roofs=("rtx-4090:fp8",), steps="9"
    )
    at = open_page("roofline", b="many", model="<b>x</b>")
    assert not at.exception and len(at.warning) == 1
    assert "model and b cannot be shown here" in at.warning[0].value
    assert at.session_state[bench.PLACE] == DEFAULT


def test_a_model_without_known_parameters_is_refused_in_a_sentence(open_page: Open) -> None:
    at = open_page("roofline", model="hypothetical-70b-mha")
    assert not at.exception
    assert at.session_state[bench.PLACE] == DEFAULT


def test_present_shows_the_instrument_alone(open_page: Open) -> None:
    at = open_page("roofline", present="1")
    assert not at.exception
    assert "Predict first." not in text_of(at)


def test_the_code_is_shown_with_its_place(open_page: Open) -> None:
    at = open_page("roofline")
    at.session_state[code.KEY] = True
    at.run()
    assert not at.exception
    said = text_of(at)
    for path in ("roofline.py", "intensity.py", "traffic.py"):
        assert f"core/sizing/{path}:" in said
    assert "core/trace/roofline_metrics.py:" in said


def test_exports_open_and_hold_the_figures() -> None:
    import pandas as pd

    table = pd.read_csv(io.StringIO(files.as_csv(DEFAULT)))
    whole = json.loads(files.as_json(DEFAULT))
    assert len(table) == len(whole["modelled"]) == 8 + 4 * 4
    ridge = table[(table["name"] == "ridge") & (table["where"] == "H100 SXM5, BF16")]
    assert float(ridge["value"].iloc[0]) == calc("ridge_point", gpu="h100-sxm5")
    assert whole["modelled"][0]["derivation"]["steps"]
    assert whole["measured"]["header"]["label"] == "RECORDED"
    for row in csv.reader(io.StringIO(files.as_csv(DEFAULT))):
        assert not any(cell.startswith(("=", "+", "@")) for cell in row)
