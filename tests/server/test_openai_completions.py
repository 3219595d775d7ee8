"""/v1/completions, asked by the `openai` package: its answers are those of the engine itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from core.llm import LLM
from core.outputs import SamplingParams
from tests.server.conftest import TOKEN, Served

openai = pytest.importorskip("openai")

PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [40, 41, 42], [5, 6, 7, 8, 99]]
GREEDY = {"temperature": 0, "extra_body": {"ignore_eos": True}}


def client(served: Served) -> Any:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key=TOKEN, max_retries=0, timeout=30)


@pytest.fixture(scope="module")
def api(engine: Served) -> Any:
    return client(engine)


@pytest.fixture(scope="module")
def llm(tiny_dir: Path) -> LLM:
    """The same model in this process."""
    return LLM(tiny_dir, dtype="float32", device="cpu", threads=1, block_size=4, max_model_len=256)


def test_the_model_is_listed(api: Any) -> None:
    (model,) = api.models.list().data
    assert model.id == "tiny" and model.max_model_len == 256
    assert api.models.retrieve("tiny") == model
    with pytest.raises(openai.NotFoundError) as missing:
        api.models.retrieve("another")
    assert missing.value.code == "model_not_found"


def test_a_batch_of_token_ids_is_answered_in_its_order(api: Any, llm: LLM) -> None:
    outs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6, ignore_eos=True))
    answer = api.completions.create(model="tiny", prompt=PROMPTS, max_tokens=6, **GREEDY)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [choice.text for choice in answer.choices] == [out.outputs[0].text for out in outs]
    assert {choice.finish_reason for choice in answer.choices} == {"length"}
    assert answer.usage.prompt_tokens == sum(map(len, PROMPTS))
    assert answer.usage.completion_tokens == 18
    assert answer.usage.total_tokens == 18 + answer.usage.prompt_tokens


def test_a_text_with_a_seed_and_n_answers_is_what_the_engine_draws(api: Any, llm: LLM) -> None:
    params = SamplingParams(n=3, temperature=0.8, top_p=0.9, seed=7, max_tokens=8, ignore_eos=True)
    (out,) = llm.generate("the block table", params)
    asked = {"n": 3, "temperature": 0.8, "top_p": 0.9, "seed": 7, "max_tokens": 8}
    answer = api.completions.create(
        model="tiny", prompt="the block table", extra_body={"ignore_eos": True}, **asked
    )
    texts = [choice.text for choice in answer.choices]
    assert texts == [output.text for output in out.outputs] and len(set(texts)) == 3


def test_a_stream_says_the_same_in_pieces(api: Any) -> None:
    asked: dict[str, Any] = {
        "model": "tiny",
        "prompt": [PROMPTS[0], "naïve café"],
        "n": 2,
        "max_tokens": 12,
        "seed": 3,
        "echo": True,
        "logprobs": 2,
    }
    whole = api.completions.create(**asked)
    chunks = list(api.completions.create(stream=True, **asked))
    assert all(chunk.id == chunks[0].id and chunk.usage is None for chunk in chunks)
    for choice in whole.choices:
        parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
        assert [p.finish_reason for p in parts if p.finish_reason] == [choice.finish_reason]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = [entry for part in parts for entry in getattr(part.logprobs, name)]
            # Another batch may round the last bit otherwise.
            near = [pytest.approx(e, abs=1e-4) if e else e for e in getattr(choice.logprobs, name)]
            assert joined == (near if "logprobs" in name else getattr(choice.logprobs, name)), name


def test_usage_comes_last_in_a_stream_that_asks_for_it(api: Any) -> None:
    asked = {"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 3, **GREEDY}
    *chunks, last = api.completions.create(
        stream=True, stream_options={"include_usage": True}, **asked
    )
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert last.choices == [] and last.usage.completion_tokens == 3
    assert last.usage.prompt_tokens == 7
    # The prompt was cached by one of the tests before, or by the first of these two.
    again = api.completions.create(**asked)
    assert again.usage.prompt_tokens_details.cached_tokens == 4


def loglikelihood(choice: Any, num_context_tokens: int) -> tuple[float, bool]:
    """As an evaluation harness reads an echoed prompt: of what follows the context."""
    values = choice.logprobs.token_logprobs[num_context_tokens:-1]
    tops = choice.logprobs.top_logprobs[num_context_tokens:-1]
    greedy = all(value == max(top.values()) for value, top in zip(values, tops, strict=True))
    return sum(values), greedy


@pytest.mark.parametrize("as_text", [False, True])
def test_echo_gives_the_prompts_own_log_probabilities(api: Any, llm: LLM, as_text: bool) -> None:
    texts = ["the block table maps", "naïve café 日本語"]
    tokens = [llm.runner.tokenizer.encode(text) for text in texts]
    params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1, ignore_eos=True)
    outs = llm.generate(tokens, params)
    answer = api.completions.create(
        model="tiny",
        prompt=texts if as_text else tokens,
        max_tokens=1,
        logprobs=1,
        echo=True,
        seed=1234,
        **GREEDY,
    )
    for choice, out, text in zip(answer.choices, outs, texts, strict=True):
        assert choice.text == text + out.outputs[0].text
        entries = out.prompt_logprobs
        assert entries is not None
        assert choice.logprobs.token_logprobs[0] is None and choice.logprobs.top_logprobs[0] is None
        assert len(choice.logprobs.tokens) == len(entries) + 1
        given = [e.logprob for e in entries[1:] if e is not None]
        assert choice.logprobs.token_logprobs[1:-1] == pytest.approx(given, abs=1e-4)
        value, greedy = loglikelihood(choice, 2)
        assert value == pytest.approx(sum(given[1:]), abs=1e-4)
        assert greedy == all(e.rank == 1 for e in entries[2:] if e is not None)
        for name, start in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
            assert name.startswith("bytes:") or choice.text[start:].startswith(name)


def test_a_greedy_continuation_is_seen_to_be_one(api: Any, llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    (out,) = llm.generate(PROMPTS[:1], params)
    continued = [*PROMPTS[0], *out.outputs[0].token_ids]
    answer = api.completions.create(
        model="tiny", prompt=continued, max_tokens=1, logprobs=1, echo=True, temperature=0
    )
    value, greedy = loglikelihood(answer.choices[0], len(PROMPTS[0]))
    assert greedy and -50 < value < 0


def test_no_tokens_at_all_gives_the_prompt_alone(api: Any) -> None:
    asked = {"model": "tiny", "prompt": PROMPTS[:2], "echo": True, "logprobs": 3}
    nothing = api.completions.create(max_tokens=0, **asked)
    one = api.completions.create(max_tokens=1, **asked)
    assert nothing.usage.completion_tokens == 0
    for empty, longer, prompt in zip(nothing.choices, one.choices, PROMPTS, strict=False):
        assert len(empty.logprobs.tokens) == len(prompt)
        # A matrix product of another batch may round otherwise.
        assert empty.logprobs.token_logprobs[1:] == pytest.approx(
            longer.logprobs.token_logprobs[1:-1], abs=1e-5
        )
        assert all(3 <= len(top) <= 4 for top in empty.logprobs.top_logprobs[1:])
    (streamed,) = [
        "".join(c.text for chunk in stream for c in chunk.choices if c.index == 0)
        for stream in [api.completions.create(max_tokens=0, stream=True, **asked)]
    ]
    assert streamed == nothing.choices[0].text


def test_log_probabilities_of_samples(api: Any, llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=5, logprobs=2, ignore_eos=True)
    (out,) = llm.generate(PROMPTS[:1], params)
    answer = api.completions.create(
        model="tiny", prompt=PROMPTS[0], max_tokens=5, logprobs=2, **GREEDY
    )
    entries = out.outputs[0].logprobs
    assert entries is not None
    logprobs = answer.choices[0].logprobs
    assert logprobs.token_logprobs == pytest.approx([e.logprob for e in entries], abs=1e-4)
    assert all(len(top) == 2 for top in logprobs.top_logprobs)
    none = api.completions.create(model="tiny", prompt=PROMPTS[0], max_tokens=5, **GREEDY)
    assert none.choices[0].logprobs is None
    own = api.completions.create(
        model="tiny", prompt=PROMPTS[0], max_tokens=5, logprobs=0, **GREEDY
    )
    assert all(len(top) == 1 for top in own.choices[0].logprobs.top_logprobs)


def test_a_stop_string_ends_an_answer_and_is_not_in_it(api: Any) -> None:
    asked = {"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 40, **GREEDY}
    text = api.completions.create(**asked).choices[0].text
    stop = next(text[i : i + 2] for i in range(4, len(text)) if "\ufffd" not in text[i : i + 2])
    (choice,) = api.completions.create(stop=["never ever", stop], **asked).choices
    assert choice.finish_reason == "stop" and choice.text == text[: text.index(stop)]
    stream = api.completions.create(stop=stop, stream=True, **asked)
    assert "".join(c.text for chunk in stream for c in chunk.choices) == choice.text


def test_the_models_own_end_is_a_stop(api: Any) -> None:
    answer = api.completions.create(
        model="tiny", prompt="the", max_tokens=60, temperature=1, seed=1, n=2
    )
    assert [choice.finish_reason for choice in answer.choices] == ["length", "stop"]
    assert answer.usage.completion_tokens == 119, "the end is a token too"
    assert not any("<|im_end|>" in choice.text for choice in answer.choices)


def test_what_says_nothing_here_is_ignored_and_nulls_are_as_good_as_nothing(api: Any) -> None:
    answer = api.completions.create(
        model="tiny",
        prompt="a",
        max_tokens=1,
        user="somebody",
        frequency_penalty=0,
        presence_penalty=0.0,
        logit_bias={},
        best_of=1,
        suffix=None,
        stop=None,
        seed=None,
        extra_body={"metadata": {"a": "b"}, "top_k": 5, "min_p": 0.1, "cache_salt": "mine"},
    )
    assert answer.usage.completion_tokens == 1


REFUSED: list[tuple[dict[str, Any], str | None, str]] = [
    ({"model": None}, "model", "give the model's name"),
    ({"prompt": None}, "prompt", "give a text"),
    ({"prompt": []}, "prompt", "0 prompts"),
    ({"prompt": [["a"]]}, "prompt", "prompt[0]"),
    ({"prompt": [1, "a"]}, "prompt", "prompt[0]"),
    ({"prompt": [[-1]]}, "prompt", "prompt[0]"),
    ({"prompt": ""}, None, "the prompt is empty"),
    ({"prompt": [1, 999]}, "prompt", "outside the model's vocabulary of 320"),
    ({"prompt": [1] * 300}, None, "300 needed, 255 available (tokens)"),
    ({"prompt": ["x"] * 1100}, "prompt", "1,100 prompts; 1 to 1,024"),
    ({"n": 9}, None, "9 needed, 8 available (sequences)"),
    ({"n": 0}, "n", "n: 0 is less than"),
    ({"n": True}, "n", "n: true"),
    ({"max_tokens": 0}, "max_tokens", "without echo"),
    ({"max_tokens": -1}, "max_tokens", "-1 is not in"),
    ({"max_tokens": "3"}, "max_tokens", "wrong type"),
    ({"temperature": -1}, "temperature", "less than"),
    ({"top_p": 1.5}, "top_p", "greater than"),
    ({"seed": 1.5}, "seed", "seed"),
    ({"stop": [""]}, "stop", "stop[0]"),
    ({"stop": ["a"] * 17}, "stop", "at most 16"),
    ({"logprobs": 21}, "logprobs", "0 … 20"),
    ({"best_of": 2}, "best_of", "ranks no answers"),
    ({"logit_bias": {"5": 1}}, "logit_bias", "leave it out"),
    ({"frequency_penalty": 0.5}, "frequency_penalty", "leave it out"),
    ({"suffix": "end"}, "suffix", "leave it out"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "only with stream"),
    ({"extra_body": {"colour": 1}}, "colour", "unknown parameter"),
]


@pytest.mark.parametrize(("change", "param", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused_is_400_and_names_the_parameter(
    api: Any, change: dict[str, Any], param: str | None, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        api.completions.create(**{"model": "tiny", "prompt": "a", "max_tokens": 2, **change})
    assert refused.value.param == param and words in refused.value.body["message"]
    assert refused.value.type == "invalid_request_error"


def test_larger_than_the_pool_is_400_with_the_numbers(serve: Any) -> None:
    small = client(serve("--num-blocks", "4"))
    with pytest.raises(openai.BadRequestError, match="8 needed, 4 available") as refused:
        small.completions.create(model="tiny", prompt=[1] * 15, max_tokens=16)
    assert "(blocks)" in refused.value.message
    # What does fit is answered, and a conversation takes no more than the pool has.
    assert small.completions.create(model="tiny", prompt=[1] * 8, max_tokens=4).choices
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(openai.BadRequestError, match="available"):
        small.chat.completions.create(model="tiny", messages=messages)


def test_probabilities_are_probabilities(api: Any) -> None:
    answer = api.completions.create(
        model="tiny", prompt=PROMPTS[0], max_tokens=4, logprobs=20, **GREEDY
    )
    for top in answer.choices[0].logprobs.top_logprobs:
        assert 0 < sum(map(math.exp, top.values())) <= 1 + 1e-6
