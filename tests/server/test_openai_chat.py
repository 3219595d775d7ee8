"""/v1/chat/completions, asked by the `openai` package."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import TOKEN, Served
from tests.server.test_openai_completions import client

openai = pytest.importorskip("openai")

TALK = [
    {"role": "system", "content": "the tokens"},
    {"role": "user", "content": [{"type": "text", "text": "the block"}]},
]


@pytest.fixture(scope="module")
def api(engine: Served) -> Any:
    return client(engine)


def ask(api: Any, **changes: Any) -> Any:
    asked = {"model": "tiny", "messages": TALK, "max_completion_tokens": 8, "seed": 2}
    return api.chat.completions.create(**{**asked, **changes})


def test_a_conversation_goes_through_the_models_template(api: Any) -> None:
    text = (
        "<|im_start|>system\nthe tokens<|im_end|>\n<|im_start|>user\nthe block<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    plain = api.completions.create(model="tiny", prompt=text, max_tokens=8, seed=2)
    (choice,) = (answer := ask(api)).choices
    assert choice.message.role == "assistant" and choice.message.content == plain.choices[0].text
    assert choice.finish_reason == "length" and answer.object == "chat.completion"
    assert answer.usage.prompt_tokens == plain.usage.prompt_tokens
    assert ask(api, messages=[{**TALK[0], "role": "developer"}, TALK[1]]).choices == [choice]


def test_a_stream_says_the_same_in_pieces(api: Any) -> None:
    more = {"n": 2, "logprobs": True, "top_logprobs": 2}
    whole = ask(api, **more)
    options = {"include_usage": True}
    *chunks, last = ask(api, stream=True, stream_options=options, **more)
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    for choice in whole.choices:
        first, *parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert first.delta.role == "assistant" and first.delta.content == ""
        assert "".join(part.delta.content or "" for part in parts) == choice.message.content
        assert [p.finish_reason for p in parts if p.finish_reason] == [choice.finish_reason]
        told = [entry for part in parts if part.logprobs for entry in part.logprobs.content]
        assert [e.token for e in told] == [e.token for e in choice.logprobs.content]
        # Another batch may round the last bit otherwise.
        given = [e.logprob for e in choice.logprobs.content]
        assert [e.logprob for e in told] == pytest.approx(given, abs=1e-4)
        assert [len(e.top_logprobs) for e in told] == [2] * len(given)
    assert last.choices == [] and last.usage.completion_tokens == whole.usage.completion_tokens


def test_log_probabilities_name_tokens_and_their_bytes(api: Any) -> None:
    (choice,) = ask(api, temperature=0, logprobs=True, top_logprobs=3).choices
    assert len(choice.logprobs.content) == 8
    for entry in choice.logprobs.content:
        assert entry.top_logprobs[0].token == entry.token, "greedy takes the likeliest"
        assert entry.top_logprobs[0].logprob == entry.logprob
        assert len(entry.top_logprobs) == 3 and entry.bytes
        if not entry.token.startswith("bytes:"):
            assert bytes(entry.bytes).decode() == entry.token
    (bare,) = ask(api, logprobs=True).choices
    assert bare.logprobs.content[0].top_logprobs == []
    assert ask(api).choices[0].logprobs is None


def test_without_a_limit_it_goes_on_to_its_end(api: Any) -> None:
    answer = ask(api, max_completion_tokens=None, n=4, temperature=1.5)
    for choice in answer.choices:
        assert choice.finish_reason in ("stop", "length")
    # Four answers share the prompt's blocks, and all the pool's 128 have room for them.
    assert answer.usage.total_tokens <= 4 * 256


def test_the_old_name_of_the_limit_holds_too(api: Any) -> None:
    answer = ask(api, max_completion_tokens=None, max_tokens=3, temperature=0)
    assert answer.usage.completion_tokens == 3


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": []}, "messages", "1 to 64"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages", "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages", "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "text only"),
    ({"messages": [{"role": "user", "content": "a", "colour": 1}]}, "messages", "messages[0]"),
    ({"top_logprobs": 2}, "top_logprobs", "only with logprobs"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", "leave it out"),
    ({"response_format": {"type": "json_object"}}, "response_format", "leave it out"),
    ({"extra_body": {"prompt": "a"}}, "prompt", "unknown parameter"),
]


@pytest.mark.parametrize(("change", "param", "words"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused_is_400_and_names_the_parameter(
    api: Any, change: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(api, **change)
    assert refused.value.param == param and words in refused.value.body["message"]


def test_what_changes_nothing_is_taken(api: Any) -> None:
    assert ask(api, response_format={"type": "text"}, tools=[], tool_choice="none").choices


def test_the_asynchronous_client_too(engine: Served) -> None:
    from tests.server import aio

    async def talk() -> str:
        async with openai.AsyncOpenAI(base_url=f"{engine.url}/v1", api_key=TOKEN) as api:
            stream = await ask(api, stream=True)
            return "".join([c.delta.content or "" async for chunk in stream for c in chunk.choices])

    assert aio.run(talk()) == ask(client(engine)).choices[0].message.content
