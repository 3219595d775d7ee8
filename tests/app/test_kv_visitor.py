"""What a visitor brings to the KV sizing page: a link, a config.json, a guess."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import catalog, config_json
from core.sizing.errors import SizingError
from tests.app.conftest import Open, text_of
from ui import lesson
from ui.sizing import bench, curves, figures, grading, mine, own, place
from ui.sizing.place import DEFAULT, KV_FORMATS, WORKED, Place

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
        ("adp", "3"),
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


def test_the_address_comes_back_with_the_page(open_page: Open) -> None:
    at = open_page("kv_sizing", n="7", ctx="512")
    del at.query_params["n"], at.query_params["ctx"]  # as a link of the sidebar does
    at.run()
    assert at.session_state[bench.PLACE] == replace(DEFAULT, n=7, ctx=512)
    assert at.query_params["n"] in ("7", ["7"]) and at.query_params["ctx"] in ("512", ["512"])


def test_a_link_to_what_cannot_be_laid_out_shows_the_first_example(open_page: Open) -> None:
    at = open_page("kv_sizing", model="llama-2-13b", gpus="16")
    assert not at.exception
    assert at.session_state[bench.PLACE] == DEFAULT


def test_there_are_no_more_attention_groups_than_gpus() -> None:
    assert place.read({"gpus": "4", "adp": "16"})[0].adp == 4
    assert place.taken(Place(gpus=8, adp=8), {"gpus": "2"}).adp == 2


def test_a_config_may_begin_with_the_mark_that_editors_put_there() -> None:
    text = json.dumps(catalog.entries()["qwen3-8b"].config)
    assert own.checked(f"\ufeff{text}", DEFAULT).own == text


def test_a_config_of_one_s_own_is_kept_in_its_session_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No cache of the process holds it, where it would outlive the visit."""
    text = json.dumps({**catalog.entries()["qwen3-8b"].config, "_name_or_path": "ours/secret"})
    session: dict[str, Any] = {}
    monkeypatch.setattr(mine.st, "session_state", session)
    shared = [
        cell.cell_contents
        for made in (figures.model, figures.sized, curves._grown, curves._frontier, place._packed)
        for cell in made.__closure__ or ()
        if hasattr(cell.cell_contents, "cache_info")
    ]
    assert len(shared) == 5
    others = replace(DEFAULT, ctx=1000, vs=())
    bench.of(figures.sized(others))
    place.written(others)
    before = [cache.cache_info().currsize for cache in shared]
    at = own.checked(text, others)
    bench.of(figures.sized(at))
    place.written(at)
    assert [cache.cache_info().currsize for cache in shared] == before
    assert "ours/secret" in repr(session)
    for size in range(2 * mine.MOST):
        figures.sized(replace(at, n=1 + size))
    (kept,) = session.values()
    assert len(kept) <= mine.MOST


def test_a_context_beyond_the_model_s_is_said() -> None:
    said = bench.of(figures.sized(replace(WORKED, ctx=16_384)))["model"]["warnings"]
    assert said == ["Llama 3 70B was made for 8,192 tokens; 16,384 are sized all the same."]
    assert bench.of(figures.sized(WORKED))["model"]["warnings"] == []
    assert bench.of(figures.sized(replace(WORKED, ctx=8192)))["model"]["warnings"] == []


def test_a_control_says_only_what_it_can() -> None:
    assert place.taken(DEFAULT, {"example": ["worked"], "kv": ["fp8"], "n": 3}) == DEFAULT
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
    assert any("<b>odd</b>" in text for text in figures.sized(at).spec.warnings)


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
