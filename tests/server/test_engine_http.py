"""An engine process over HTTP: what it streams, what it refuses, and with which words."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.client import EngineClient, EngineRefusedError, EngineUnreachableError
from core.simulate import verify, verify_states
from core.trace.run import output_tokens, run_from_dict
from core.trace.streamed import RunBuilder
from tests.server.conftest import ROOT, TOKEN, Served

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13]


def scenario(served: Served, *requests: dict[str, Any], **engine: Any) -> dict[str, Any]:
    model = served.client().models()[0]["id"]
    settings = {"num_blocks": 32, "block_size": 4, "max_model_len": 48, **engine}
    return {
        "schema": "scenario/1",
        "model": model,
        "engine": settings,
        "requests": [{"ignore_eos": True, **request} for request in requests],
    }


def built(stream: Any) -> tuple[RunBuilder, list[str], str]:
    """The run of a stream, the kinds of its messages, and its text."""
    builder, kinds, text = RunBuilder(), [], ""
    with stream:
        for kind, value in stream:
            builder.add(kind, value)
            kinds.append(kind)
            text += value["text"] if kind == "text" else ""
    return builder, kinds, text


def as_file(builder: RunBuilder) -> Any:
    run = builder.run()
    assert run is not None
    return run_from_dict(json.loads(json.dumps(run.to_dict())))


def test_health_and_models(engine: Served) -> None:
    health = engine.client().health()
    assert health["status"] == "ready"
    assert health["source"]["dtype"] == "float32" and health["source"]["device"] == "CPU"
    assert health["live"] == {"running": 0, "waiting": 0} and health["queue"] == 0
    assert health["load"]["cores"] >= 1
    (model,) = engine.client().models()
    assert (model["num_attention_heads"], model["num_key_value_heads"]) == (6, 2)


def test_a_scenario_is_a_run_that_can_be_verified(engine: Served) -> None:
    asked = scenario(
        engine,
        {"id": "A", "prompt_tokens": PROMPT, "max_tokens": 6, "n": 2, "temperature": 1.0},
        {"id": "B", "prompt": "the block table", "max_tokens": 5, "arrive_step": 2},
    )
    builder, kinds, text = built(engine.client().scenario(asked))
    assert kinds[-1] == "end" and kinds.count("end") == 1 and kinds.count("header") == 1
    run = as_file(builder)
    assert builder.end is not None and builder.end["end"] == "finished"
    assert run.header["label"] == "LIVE" and "initial_state" not in run.header
    pool = run.header["scenario"]["engine"]
    slots = pool["num_blocks"] * pool["block_size"]
    assert run.header["kv_cache_bytes"] == slots * run.header["kv_bytes_per_token"]
    assert sorted(text) == sorted("".join(result["text"] for result in run.results.values()))
    verify(run)


def test_the_text_of_a_fork_begins_with_what_it_inherits(engine: Served) -> None:
    asked = scenario(
        engine,
        {"id": "A", "prompt_tokens": PROMPT, "max_tokens": 8, "n": 2, "temperature": 1.0},
        {"id": "B", "fork_of": "A#1", "arrive_step": 4, "max_tokens": 9},
        {"id": "C", "fork_of": "B", "arrive_step": 6, "max_tokens": 9, "temperature": 1.0},
    )
    builder, _, text = built(engine.client().scenario(asked))
    run = as_file(builder)
    assert run.results["B"]["text"] and run.results["C"]["text"]
    assert sorted(text) == sorted("".join(result["text"] for result in run.results.values()))
    tokens = output_tokens(run)
    assert tokens["B"][:4] == tokens["A#1"][:4] and tokens["C"][:6] == tokens["B"][:6]
    verify(run)


def test_without_extras_the_lines_are_header_steps_and_end(engine: Served) -> None:
    asked = scenario(engine, {"id": "A", "prompt_tokens": PROMPT, "max_tokens": 3})
    lines = post(engine, "/scenario", asked)[2].decode().splitlines()
    header, *steps, end = map(json.loads, lines)
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert end["end"] == "finished"
    run = run_from_dict({"schema": "run/1", "header": header, "steps": steps})
    assert run.scenario.requests[0].id == "A"


def test_a_live_request_streams_its_text(engine: Served) -> None:
    body = {"prompt_tokens": PROMPT, "max_tokens": 8, "ignore_eos": True, "n": 2}
    builder, kinds, text = built(engine.client().live(body))
    run = as_file(builder)
    assert kinds[0] == "header"
    assert set(run.results) == {"A#0", "A#1"}
    assert sorted(text) == sorted("".join(result["text"] for result in run.results.values()))
    verify_states(run)
    assert [step["step"] for step in run.steps] == list(range(len(run.steps)))
    assert run.steps[0]["timing"]["step_us"] >= run.steps[0]["timing"]["forward_us"]


def test_a_second_live_request_begins_in_the_middle(engine: Served) -> None:
    body = {"prompt_tokens": PROMPT, "max_tokens": 2, "ignore_eos": True, "cache_salt": "mine"}
    built(engine.client().live(body))
    builder, _, _ = built(engine.client().live(body))
    run = as_file(builder)
    cached = run.header["initial_state"]["cached"].values()
    assert PROMPT[:4] in [entry["tokens"] for entry in cached]
    assert run.results["A"]["num_cached_tokens"] == 8
    verify_states(run)


def test_a_salt_keeps_prefixes_apart(engine: Served) -> None:
    prompt = [40 + i for i in range(9)]

    def ask(salt: str) -> Any:
        body = {"prompt_tokens": prompt, "max_tokens": 1, "cache_salt": salt}
        return as_file(built(engine.client().live(body))[0])

    def shown(run: Any) -> bool:
        """Whether the state tells that this prompt is cached."""
        cached = run.header["initial_state"]["cached"].values()
        return prompt[:4] in [entry["tokens"] for entry in cached]

    hits = {}
    for name, salt in (("first", "one"), ("other", "two"), ("again", "one")):
        run = ask(salt)
        hits[name] = run.results["A"]["num_cached_tokens"]
        assert shown(run) == (name == "again")
    assert hits == {"first": 0, "other": 0, "again": 8}


def test_a_conversation_goes_through_the_models_template(engine: Served) -> None:
    body = {"messages": [{"role": "user", "content": "the tokens"}], "max_tokens": 1}
    run = built(engine.client().live(body))[0].run()
    assert run is not None
    prompt = "".join(run.header["token_text"][str(t)] for t in run.header["prompts"]["A"])
    assert "the tokens" in prompt and "assistant" in prompt


def post(
    served: Served, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        given = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        connection.request("POST", path, data, given)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


REFUSED: list[tuple[Any, str]] = [
    ({"prompt_tokens": []}, "empty"),
    ({"prompt_tokens": [1] * 300}, "300 needed, 255 available (tokens)"),
    ({"prompt_tokens": [1], "n": 9}, "9 needed, 8 available (sequences)"),
    ({"prompt_tokens": [9999]}, "outside the model's vocabulary of 320"),
    ({"prompt": "a", "prompt_tokens": [1]}, "both are given"),
    ({}, "neither is given"),
    ({"prompt": "a", "colour": 1}, "colour: unknown field"),
    ({"prompt": "a", "beam_width": 2}, "beam_width: unknown field"),
    ({"prompt": "a", "temperature": -1}, "temperature: -1 is less than"),
    ({"messages": [], "max_tokens": 1}, "messages"),
    ({"messages": [{"role": "user"}]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": "a"}], "prompt": "b"}, "not both"),
    ([1, 2], "a JSON object"),
    (b"{", "not JSON"),
    (b'{"prompt": "\\ud800"}', "surrogate"),
    (b'{"n": NaN}', "NaN"),
]


@pytest.mark.parametrize(("body", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_can_never_be_served_is_400_with_the_numbers(
    engine: Served, body: Any, words: str
) -> None:
    status, _, said = post(engine, "/live", body)
    assert status == 400
    assert words in json.loads(said)["error"]


def test_a_request_larger_than_the_pool_is_400_with_the_numbers(serve: Any) -> None:
    small = serve("--num-blocks", "4")
    status, _, said = post(small, "/live", {"prompt_tokens": [1] * 15, "max_tokens": 16})
    assert status == 400
    assert "can never fit the pool: 8 needed, 4 available (blocks)" in json.loads(said)["error"]


def test_scenarios_that_are_refused(engine: Served) -> None:
    good = scenario(engine, {"id": "A", "prompt_tokens": [1], "max_tokens": 1})
    for change, words in (
        ({"model": "another"}, "is not loaded here"),
        ({"engine": {"num_blocks": 100_000}}, "65,536"),
        ({"engine": {"num_blocks": -1}}, "engine.num_blocks"),
        ({"requests": [{"id": "A", "prompt_tokens": [1], "output_tokens": [1]}]}, "script"),
        (
            {
                "requests": [
                    {"id": str(i), "prompt_tokens": [1] * 9000, "max_tokens": 1} for i in range(23)
                ]
            },
            "tokens in all",
        ),
    ):
        status, _, said = post(engine, "/scenario", {**good, **change})
        assert status == 400, change
        assert words in json.loads(said)["error"]


def test_a_scenario_whose_only_request_cannot_be_served_is_rejected(engine: Served) -> None:
    asked = scenario(engine, {"id": "A", "prompt_tokens": [1] * 60, "max_tokens": 1})
    builder, _, _ = built(engine.client().scenario(asked))
    assert builder.end is not None and builder.end["end"] == "rejected"
    (rejected,) = [e for e in builder.steps[0]["events"] if e["type"] == "request_rejected"]
    assert rejected["reason"] == "prompt_too_long"


@pytest.mark.parametrize("given", ["", "Bearer wrong", "Basic YTpi", f"Bearer {TOKEN}x", TOKEN])
def test_a_wrong_token_is_401_on_every_route(engine: Served, given: str) -> None:
    for method, path in (("GET", "/health"), ("GET", "/models"), ("POST", "/live")):
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=20)
        connection.request(method, path, headers={"Authorization": given})
        answer = connection.getresponse()
        assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
        connection.close()
    with pytest.raises(EngineRefusedError, match="token") as refused:
        EngineClient(engine.url, "wrong").health()
    assert refused.value.status == 401


def test_a_body_has_limits(engine: Served) -> None:
    status, _, said = post(engine, "/live", b'{"prompt": "' + b"x" * (2 << 20) + b'"}')
    assert status == 413 and "1,048,576" in json.loads(said)["error"]
    # Without a length: the limit holds while it comes.
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=20)
    parts = (b"y" * 65536 for _ in range(40))
    try:
        connection.request(
            "POST",
            "/live",
            parts,
            {"Authorization": f"Bearer {TOKEN}", "Transfer-Encoding": "chunked"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 413
    except OSError:
        pass  # it need not read the rest of such a body
    finally:
        connection.close()
    assert engine.client().health()["status"] == "ready"


def test_other_paths_are_not_there(engine: Served) -> None:
    assert post(engine, "/v1/anything", {})[0] == 404
    assert post(engine, "/health", {})[0] == 405


def test_nobody_listens() -> None:
    with pytest.raises(EngineUnreachableError):
        EngineClient("http://127.0.0.1:9").health()
    with pytest.raises(EngineUnreachableError, match="address"):
        EngineClient("file:///etc/passwd")


def run_serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "core", "serve", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_port_that_is_taken_is_one_clear_line(engine: Served, tiny_dir: Path) -> None:
    done = run_serve("--port", str(engine.port), "--model", str(tiny_dir))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and f"port {engine.port}" in done.stderr


def test_other_machines_need_a_token(tiny_dir: Path) -> None:
    done = run_serve("--host", "0.0.0.0", "--model", str(tiny_dir), KV_SCOPE_ENGINE_TOKEN="")
    assert done.returncode == 2 and "KV_SCOPE_ENGINE_TOKEN" in done.stderr


def test_a_model_that_is_not_there_ends_the_process_with_its_reason(tmp_path: Path) -> None:
    done = run_serve("--port", "0", "--model", str(tmp_path / "nothing"))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("error: ")
