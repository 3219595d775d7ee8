"""Stop strings: found wherever tokens begin and end, cut from the text, never streamed."""

from __future__ import annotations

import copy
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model_driver import chosen

from core.errors import MismatchError, RequestError
from core.model.detokenizer import IncrementalDetokenizer
from core.model.stop_strings import completes_stop_string, completion_text, find_stop, safe_length
from core.outputs import SamplingParams
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import parse_run, run_from_dict


class Pieces:
    """A tokenizer whose token i stands for the i-th of these bytes."""

    def __init__(self, pieces):
        self.pieces = pieces

    def token_bytes(self, token, skip_special_tokens=False):
        return self.pieces[token]


def served(pieces, stops, prompt=0):
    """(tokens, whether a stop string ended it) when each piece is sampled in turn."""
    tokenizer = Pieces(pieces)
    tokens = list(range(prompt))
    for token in range(prompt, len(pieces)):
        tokens.append(token)
        if completes_stop_string(tokenizer, tokens, prompt, stops):
            return tokens[prompt:], True
    return tokens[prompt:], False


def streamed(pieces, outputs, stops, stopped):
    """The deltas of a stream of these outputs."""
    text = IncrementalDetokenizer(Pieces(pieces), stop=stops)
    deltas = [text.push([token]) for token in outputs]
    deltas.append(text.finish(cut=stopped))
    return deltas


def both(text_pieces, *stops, prompt=0):
    """(final text, number of tokens, stopped); the stream must say the same."""
    pieces = [p if isinstance(p, bytes) else p.encode() for p in text_pieces]
    encoded = [stop.encode() for stop in stops]
    outputs, stopped = served(pieces, encoded, prompt)
    reason = "stop_string" if stopped else "max_tokens"
    text = completion_text(Pieces(pieces), outputs, encoded, reason)
    assert "".join(streamed(pieces, outputs, encoded, stopped)) == text
    return text, len(outputs), stopped


@pytest.mark.parametrize(
    ("pieces", "stops", "wanted"),
    [
        (["one", " END of it", "more"], ["END"], ("one ", 2, True)),
        (["one E", "ND", "more"], ["END"], ("one ", 2, True)),
        (["one E", "N", "D", "more"], ["END"], ("one ", 3, True)),
        (["E", "E", "N", "E", "N", "D"], ["END"], ("EEN", 6, True)),
        (["aab", "aab", "aac"], ["aabaac"], ("aab", 3, True)),
        (["one", "two"], ["END"], ("onetwo", 2, False)),
        (["one E", "N"], ["END"], ("one EN", 2, False)),
        (["x", "é".encode()[:1], "é".encode()[1:], "y"], ["é"], ("x", 3, True)),
        (["日".encode()[:1], "日".encode()[1:], "本"], ["日本"], ("", 3, True)),
        (["🙂".encode()[:3], "🙂".encode()[3:] + b"!"], ["🙂"], ("", 2, True)),
        ([b"\xe2\x82", "END"], ["END"], ("�", 2, True)),
        ([b"\xc3", b"\xa9\xa9"], ["é"], ("", 2, True)),
        (["ab", "cd"], ["d", "bcd"], ("a", 2, True)),
        (["ab", "cd"], ["bcd", "d"], ("a", 2, True)),
        (["xabc"], ["bc", "a"], ("x", 1, True)),
        (["a", "b", "c"], ["abc", "b"], ("a", 2, True)),
        (["abab", "ab"], ["abab"], ("", 1, True)),
        (["x", "x", "x"], ["x"], ("", 1, True)),
        (["a", "", "", "b", "c"], ["abc"], ("", 5, True)),
        (["The END", "x"], ["END"], ("The ", 1, True)),
    ],
    ids=str,
)
def test_where_it_ends_and_what_is_left(pieces, stops, wanted):
    assert both(pieces, *stops) == wanted


def test_a_stop_string_in_the_prompt_or_half_in_it_does_not_count():
    assert both(["EN", "D", "x"], "END", prompt=1) == ("Dx", 2, False)
    assert both(["END", "x", "END"], "END", prompt=1) == ("x", 2, True)


def test_a_token_without_bytes_completes_nothing():
    """A control token after "END" was passed by (the sequence went on): nothing new, no match."""
    assert not completes_stop_string(Pieces([b"END", b""]), [0, 1], 0, [b"END"])


# Few characters, some of several bytes, so that stops occur, overlap and are cut apart.
texts = st.text(alphabet="ab é日🙂", max_size=14)
stop_sets = st.lists(st.text(alphabet="ab é日🙂", min_size=1, max_size=4), max_size=3)


@st.composite
def byte_pieces(draw):
    """A text's bytes cut anywhere, with a little noise that is no UTF-8."""
    data = draw(texts).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=2)) + data[at:]
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=10)))
    ends = [*cuts, len(data)]
    return [data[a:b] for a, b in zip([0, *cuts], ends, strict=True)]


@settings(deadline=None, max_examples=400)
@given(byte_pieces(), stop_sets)
@example([b"a", b"b", b"a", b"b"], ["aba", "bb"])
@example([b"\xe6", b"\x97\xa5", b"\xe6\x97"], ["日本", "日日"])
def test_a_stream_is_the_cut_text_and_takes_nothing_back(pieces, stops):
    encoded = [stop.encode() for stop in stops]
    outputs, stopped = served(pieces, encoded) if stops else (list(range(len(pieces))), False)
    whole = b"".join(pieces[: len(outputs)])
    # By hand: every match anywhere. The sequence ends with the first piece that completes one.
    matches = [
        (start, start + len(stop))
        for stop in encoded
        for start in range(len(whole))
        if whole.startswith(stop, start)
    ]
    before_last = len(whole) - len(pieces[outputs[-1]])
    assert all(end > before_last for _, end in matches)
    assert stopped == bool(matches)
    cut = min((start for start, _ in matches), default=len(whole))
    wanted = whole[:cut].decode("utf-8", "replace")
    reason = "stop_string" if stopped else "max_tokens"
    assert completion_text(Pieces(pieces), outputs, encoded, reason) == wanted
    deltas = streamed(pieces, outputs, encoded, stopped)
    assert "".join(deltas) == wanted
    # Whatever comes next, nothing is taken back: even if it completes what may be a stop string.
    shown = ""
    for i, delta in enumerate(deltas[: len(outputs) - 1]):
        shown += delta
        assert wanted.startswith(shown)
        data = b"".join(pieces[: i + 1])
        for stop in encoded:
            for length in range(1, len(stop)):
                if data.endswith(stop[:length]):
                    assert data[:-length].decode("utf-8", "replace").startswith(shown)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=12), st.lists(st.binary(min_size=1, max_size=4), max_size=3))
def test_the_safe_length_is_the_longest_that_no_later_match_can_reach(data, stops):
    safe = safe_length(data, stops)
    openings = [
        start
        for start in range(len(data))
        if any(len(data) - start < len(s) and s.startswith(data[start:]) for s in stops)
    ]
    assert safe == min(openings, default=len(data))
    assert find_stop(data, stops, 0) is None


def test_long_stop_strings_are_searched_in_reasonable_time():
    """64 stop strings of 1,000 characters that all could begin anywhere."""
    stops = [b"a" * (999 - i) + b"b" for i in range(64)]
    text = IncrementalDetokenizer(Pieces([b"a"]), stop=stops)
    assert "".join(text.push([0]) for _ in range(1200)) == "a" * 201
    assert text.finish() == "a" * 999


# ---- the engine ----------------------------------------------------------------------------------


@pytest.fixture
def says(monkeypatch):
    """Make a model say something: its tokens are given, all the rest is computed as ever."""

    def install(runner, *texts, eos=False):
        scripts = [runner.tokenize(text) + ([2] if eos else []) for text in texts]
        num_prompt_tokens = []

        def scripted(logits, specs):
            if not num_prompt_tokens:
                num_prompt_tokens.append(specs[0].position)
            return chosen(
                (scripts[spec.index] + [5] * 99)[spec.position - num_prompt_tokens[0]]
                for spec in specs
            )

        monkeypatch.setattr("core.model.step_outputs.draft", scripted)
        return scripts

    return install


def params(*stop, **fields):
    return SamplingParams(**{"temperature": 0, "max_tokens": 40, "stop": stop, **fields})


SENTENCE = "the naïve 日本語 maps 👩‍👩‍👧 12"
PROMPT = [5, 6, 7]


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("ve 日", "the naï"),
        ("語 m", "the naïve 日本"),
        ("👩‍👧", "the naïve 日本語 maps 👩‍"),
        ("e", "th"),
        ("2", "the naïve 日本語 maps 👩‍👩‍👧 1"),
    ],
)
@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_a_text_ends_before_its_stop_string(tiny_llm, says, stop, text, batching):
    llm = tiny_llm(batching=batching)
    (script,) = says(llm.runner, SENTENCE)
    (out,) = llm.generate(PROMPT, params(stop, "never"))
    (answer,) = out.outputs
    assert (answer.text, answer.finish_reason) == (text, "stop_string")
    assert answer.token_ids == script[: len(answer.token_ids)], "the tokens stay"
    assert stop in llm.runner.tokenizer.decode(answer.token_ids)
    assert stop not in llm.runner.tokenizer.decode(answer.token_ids[:-1])
    deltas = list(llm.stream(PROMPT, params(stop, "never")))
    assert "".join(delta.text for delta in deltas) == text
    assert [delta.token_id for delta in deltas] == answer.token_ids
    assert deltas[-1].finish_reason == "stop_string"
    run = parse_run(llm.last_run.to_bytes())
    assert run.results["0"]["text"] == run.results["1"]["text"] == text
    verify(run)
    assert llm.engine.kv.usage()["in_use"] == 0


def test_a_single_string_will_do(tiny_llm, says):
    llm = tiny_llm()
    says(llm.runner, SENTENCE)
    assert llm.generate(PROMPT, params(stop="ve"))[0].outputs[0].text == "the naï"
    says(llm.runner, SENTENCE)
    (answer,) = llm.generate(PROMPT, params(stop=None, max_tokens=3))[0].outputs
    assert answer.finish_reason == "max_tokens"


def test_each_twin_ends_for_itself(tiny_llm, says):
    llm = tiny_llm(num_blocks=12)
    says(llm.runner, "the block END", "the END block", "the tokens")
    (out,) = llm.generate(PROMPT, params("END", n=3, max_tokens=14))
    assert [a.text for a in out.outputs[:2]] == ["the block ", "the "]
    assert [a.finish_reason for a in out.outputs] == ["stop_string", "stop_string", "max_tokens"]
    verify(parse_run(llm.last_run.to_bytes()))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "stop_string"),
        ({"stop_token_ids": "last"}, "stop_token"),
        ({"max_tokens": "exact"}, "stop_string"),
        ({"max_tokens": "one less"}, "max_tokens"),
    ],
    ids=str,
)
def test_which_reason_comes_first(tiny_llm, says, fields, reason):
    """stop_token, stop_string, max_tokens: only a stop string's end cuts the text."""
    llm = tiny_llm()
    (script,) = says(llm.runner, "the block END")
    values = {"last": (script[-1],), "exact": len(script), "one less": len(script) - 1}
    fields = {key: values[value] for key, value in fields.items()}
    (answer,) = llm.generate(PROMPT, params("END", **fields))[0].outputs
    assert answer.finish_reason == reason
    whole = llm.runner.tokenizer.decode(answer.token_ids)
    assert answer.text == ("the block " if reason == "stop_string" else whole)
    says(llm.runner, "the block END")
    assert "".join(d.text for d in llm.stream(PROMPT, params("END", **fields))) == answer.text
    verify(parse_run(llm.last_run.to_bytes()))


def test_the_longest_context_is_a_later_reason_than_a_stop_string(tiny_llm, says):
    llm = tiny_llm(max_model_len=3 + 6)
    says(llm.runner, "abcdefghij")
    assert llm.generate(PROMPT, params("f"))[0].outputs[0].finish_reason == "stop_string"
    says(llm.runner, "abcdefghij")
    assert llm.generate(PROMPT, params("g"))[0].outputs[0].finish_reason == "max_model_len"


def test_control_tokens_are_no_text_to_search(tiny_llm, says):
    """<|im_end|> ends the sequence as EOS; written out as a stop string it matches nothing."""
    llm = tiny_llm()
    says(llm.runner, "the ", eos=True)
    (answer,) = llm.generate(PROMPT, params("<|im_end|>"))[0].outputs
    assert (answer.text, answer.finish_reason) == ("the ", "stop_token")
    says(llm.runner, "the ", eos=True)
    (answer,) = llm.generate(PROMPT, params("<|im_end|>", ignore_eos=True, max_tokens=9))[0].outputs
    assert answer.finish_reason == "max_tokens"


@pytest.mark.parametrize(
    ("stop", "says_"),
    [
        ("", r"stop\[0\]"),
        (["fine", ""], r"stop\[1\]"),
        ([5], r"stop\[0\]"),
        (5, "stop: give a list"),
        ("x" * 1001, r"stop\[0\]"),
        (["x"] * 65, "stop"),
        ("\ud800", "stop"),
    ],
    ids=["empty", "one empty", "number in list", "number", "long", "many", "surrogate"],
)
def test_impossible_stop_strings_are_refused_at_once(tiny_llm, stop, says_):
    llm = tiny_llm()
    with pytest.raises(RequestError, match=says_):
        llm.generate(PROMPT, params(stop=stop))
    assert llm.engine.num_steps == 0


# ---- runs ----------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tiny_dir, tiny_llm, says):
    """A run of two requests with a stop string, one of which it ends; and one without."""
    llm = tiny_llm()
    says(llm.runner, "the block END")
    llm.generate([PROMPT] * 3, [params("END"), params("END", max_tokens=3), params(max_tokens=20)])
    run = parse_run(llm.last_run.to_bytes())
    assert [result["finish_reason"] for result in run.results.values()] == [
        "stop_string",
        "max_tokens",
        "max_tokens",
    ]
    verify(run)
    return run.to_dict()


def ends(content, name):
    return next(
        event
        for record in content["steps"]
        for event in record["events"]
        if event["type"] == "finished" and event["sequence"] == name
    )


def claims_a_stop_string(content, name):
    ends(content, name)["reason"] = "stop_string"
    content["results"][name]["finish_reason"] = "stop_string"


def denies_a_stop_string(content):
    ends(content, "0")["reason"] = "max_tokens"
    content["results"]["0"]["finish_reason"] = "max_tokens"


def drops_the_stop_strings(content):
    content["header"]["scenario"]["requests"][0]["stop"] = []


def moves_the_end(content):
    ends(content, "0")["num_output_tokens"] -= 1


def says_more(content):
    content["results"]["0"]["text"] += "END"


@pytest.mark.parametrize(
    "change",
    [
        partial(claims_a_stop_string, name="2"),
        denies_a_stop_string,
        drops_the_stop_strings,
        moves_the_end,
        says_more,
    ],
    ids=["claimed without any", "denied", "none asked for", "moved", "text goes on"],
)
def test_a_changed_end_is_found_without_the_model(recorded, change):
    content = copy.deepcopy(recorded)
    change(content)
    with pytest.raises(MismatchError):
        verify(run_from_dict(content))


def test_the_model_confirms_ends_and_texts(tiny_dir, tiny):
    """Greedy text of the tiny model, stopped by a piece of it; a false claim needs the model."""
    tiny.bind(64, 4)
    scenario = {
        "schema": "scenario/1",
        "model": str(tiny_dir),
        "requests": [{"id": "A", "prompt_tokens": PROMPT, "max_tokens": 12, "ignore_eos": True}],
    }

    def recorded(**fields):
        asked = {**scenario, "requests": [{**scenario["requests"][0], **fields}]}
        run = record(Scenario.from_dict(asked), dtype="float32", device="cpu")
        run.header["source"]["model"] = str(tiny_dir)
        return parse_run(run.to_bytes())

    text = recorded().results["A"]["text"]
    stop = next(char for char in text[3:] if char != "�" and char not in text[:3])
    run = recorded(stop=[stop])
    assert run.results["A"]["finish_reason"] == "stop_string"
    assert run.results["A"]["text"] == text[: text.index(stop)]
    verify(run)
    verify_tokens(run)
    content = copy.deepcopy(run.to_dict())
    content["header"]["scenario"]["requests"][0]["stop"] = ["never"]
    verify(run_from_dict(content))  # without the model the claim is believed
    with pytest.raises(MismatchError, match="other tokens"):
        verify_tokens(run_from_dict(content))
    content = copy.deepcopy(recorded().to_dict())
    content["header"]["scenario"]["requests"][0]["stop"] = ["never"]
    claims_a_stop_string(content, "A")
    verify(run_from_dict(content))
    with pytest.raises(MismatchError, match="finish_reason"):
        verify_tokens(run_from_dict(content))
