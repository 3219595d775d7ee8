"""Text ↔ tokens, display texts, streaming, chat templates."""

import json

import pytest
import tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st

from core.model.detokenizer import IncrementalDetokenizer
from core.model.errors import ModelError
from core.model.tokenizer import Tokenizer, display_bytes

VOCAB = 320
HARD = "🙂👩‍👩‍👧é日本語ñ́ \n\t½€𝄞"
texts = st.text() | st.text(alphabet=HARD) | st.sampled_from(["", " ", "the block", HARD])


@pytest.fixture(scope="session")
def tokenizer(tiny_dir):
    return Tokenizer(tiny_dir)


@pytest.fixture(scope="session")
def fallback(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fallback")
    tiny_llama.byte_fallback_tokenizer().save(str(directory / "tokenizer.json"))
    return Tokenizer(directory)


@pytest.fixture(scope="session", params=["byte_level", "byte_fallback"])
def either(request, tokenizer, fallback):
    return tokenizer if request.param == "byte_level" else fallback


def stream(tokenizer, ids, skip=True):
    detokenizer = IncrementalDetokenizer(tokenizer, skip)
    return [*(detokenizer.push([i]) for i in ids), detokenizer.finish()]


@settings(deadline=None)
@given(texts)
def test_encode_then_decode_gives_the_text_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@settings(deadline=None)
@given(st.lists(st.integers(0, VOCAB - 1), max_size=30))
def test_decode_equals_the_library_on_any_ids(tokenizer, ids):
    """Broken characters in the middle and at the end included."""
    for skip in (True, False):
        wanted = tokenizer._tokenizer.decode(ids, skip_special_tokens=skip)
        assert tokenizer.decode(ids, skip) == wanted


@settings(deadline=None)
@given(texts)
def test_byte_fallback_decodes_like_the_library_on_valid_text(fallback, text):
    text = text.replace("▁", "")
    ids = [3 + b for b in text.encode()]
    assert fallback.decode(ids) == fallback._tokenizer.decode(ids) == text


@settings(deadline=None)
@given(data=st.data())
def test_deltas_add_up_to_the_whole(either, data):
    ids = data.draw(st.lists(st.integers(0, either.vocab_size - 1), max_size=40))
    skip = data.draw(st.booleans())
    assert "".join(stream(either, ids, skip)) == either.decode(ids, skip)


@settings(deadline=None)
@given(text=texts)
def test_deltas_of_valid_text_hold_no_replacement_character(either, text):
    by_byte = either.token_bytes(3 + ord("x")) == b"x"
    ids = [3 + b for b in text.encode()] if by_byte else either.encode(text)
    deltas = stream(either, ids, skip=False)
    assert "".join(deltas) == text
    assert deltas[-1] == ""
    if "\ufffd" not in text:
        assert not any("\ufffd" in d for d in deltas)


@settings(deadline=None)
@given(texts, st.lists(st.integers(1, 4), min_size=1))
def test_any_grouping_of_tokens_gives_the_same_text(tokenizer, text, sizes):
    ids = tokenizer.encode(text)
    detokenizer, out, at = IncrementalDetokenizer(tokenizer, False), "", 0
    while at < len(ids):
        size = sizes[at % len(sizes)]
        out += detokenizer.push(ids[at : at + size])
        at += size
    assert out + detokenizer.finish() == text


def test_half_a_character_is_held_back_and_flushed_at_the_end(fallback):
    euro = [3 + b for b in "€".encode()]
    assert stream(fallback, euro) == ["", "", "€", ""]
    assert stream(fallback, euro[:2]) == ["", "", "\ufffd"]
    # As soon as it cannot become a character it is shown, once.
    assert stream(fallback, [*euro[:2], 3 + ord("a")]) == ["", "", "\ufffda", ""]


def test_control_tokens_are_text_only_if_wanted(tokenizer):
    ids = [*tokenizer.encode("the"), 2]
    assert tokenizer.decode(ids) == "the"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "the<|im_end|>"
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.encode("<|im_end|>") == [2]


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70))
def test_display_text_of_any_id(tokenizer, token_id):
    shown = tokenizer.token_text([token_id])[token_id]
    assert shown
    assert "\ufffd" not in shown


def test_display_text_of_half_a_character(tokenizer):
    ids = tokenizer.encode("𝄞")
    assert len(ids) == 4
    assert list(tokenizer.token_text(ids).values()) == ["⟨f0⟩", "⟨9d⟩", "⟨84⟩", "⟨9e⟩"]
    assert display_bytes(b" caf\xc3\xa9 \xe2\x82") == " café ⟨e2⟩⟨82⟩"


@settings(deadline=None)
@given(st.binary(max_size=12))
def test_display_never_fails_and_never_shows_a_surrogate(data):
    shown = display_bytes(data)
    shown.encode("utf-8")
    assert shown == data.decode("utf-8", "backslashreplace") or "⟨" in shown


def test_a_lone_surrogate_is_refused(tokenizer):
    with pytest.raises(ModelError, match="Unicode"):
        tokenizer.encode("a\ud800b")


def test_chat_template(tokenizer):
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}])
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(text)[0] == 1


def with_template(tiny_dir, tmp_path, template):
    (tmp_path / "tokenizer.json").write_bytes((tiny_dir / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return Tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": {"type": "BPE"}}', "null"])
def test_a_damaged_tokenizer_is_one_clear_error(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer(tmp_path)


def test_a_missing_tokenizer_is_one_clear_error(tmp_path):
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Tokenizer(tmp_path)


def test_nested_content_of_named_tokens(tiny_dir, tmp_path):
    tokenizer = with_template(tiny_dir, tmp_path, "{{ bos_token }}")
    settings_file = tmp_path / "tokenizer_config.json"
    settings_file.write_text(
        json.dumps({"chat_template": "{{ bos_token }}", "bos_token": {"content": "<s>"}})
    )
    assert Tokenizer(tmp_path).apply_chat_template([]) == "<s>"
    assert tokenizer.apply_chat_template([]) == ""


def test_truncation_and_padding_of_the_file_do_not_count(tiny_dir, tmp_path):
    raw = json.loads((tiny_dir / "tokenizer.json").read_text())
    raw["truncation"] = {
        "direction": "Right",
        "max_length": 2,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    raw["padding"] = {
        "strategy": {"Fixed": 1 << 40},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    text = "the block table maps the tokens"
    assert Tokenizer(tmp_path).encode(text) == Tokenizer(tiny_dir).encode(text)


@pytest.mark.model
def test_smollm_tokens_equal_transformers(model_dir):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(model_dir)
    ours = Tokenizer(model_dir)
    messages = [{"role": "user", "content": "What is 12 × 34? 日本 🙂"}]
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert ours.apply_chat_template(messages) == text
    for sample in [text, "The capital of France is", "  two  spaces\n\n1234", HARD, ""]:
        assert ours.encode(sample) == theirs.encode(sample)
        assert ours.decode(ours.encode(sample)) == theirs.decode(
            theirs.encode(sample), skip_special_tokens=True
        )
