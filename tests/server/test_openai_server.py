"""Many clients at once, clients that hang up, bad tokens, a device that fails, and a server that is
told to stop."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.conftest import TOKEN, Serve, Served
from tests.server.test_engine_http import post
from tests.server.test_openai_completions import client

openai = pytest.importorskip("openai")

LONG = {
    "model": "tiny",
    "prompt": [5, 6, 7, 8, 9],
    "max_tokens": 240,
    "temperature": 0,
    "extra_body": {"ignore_eos": True},
}
NUM_INSIDE = 6
"""Requests that the narrow engine has at once: two that run, and four that wait in it."""


@pytest.fixture(scope="module")
def narrow(serve: Serve) -> Served:
    """Two sequences at once, three requests that may wait for their turn, 30 ms a step more."""
    return serve("--max-num-seqs", "2", "--max-waiting", "3", step_s=0.03)


def idle(health: dict[str, Any]) -> bool:
    nobody = health["live"] == {"running": 0, "waiting": 0}
    return bool(nobody and health["usage"]["in_use"] == 0)


def get(served: Served, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("given", ["", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN])
def test_a_bad_token_is_401_in_openais_shape(engine: Served, given: str) -> None:
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/chat/completions"),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=20)
        connection.request(method, path, headers={"Authorization": given})
        answer = connection.getresponse()
        error = json.loads(answer.read())["error"]
        connection.close()
        assert answer.status == 401 and error["code"] == "invalid_api_key"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    wrong = openai.OpenAI(base_url=f"{engine.url}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="token"):
        wrong.models.list()


def test_metrics_and_readiness_need_the_token(engine: Served) -> None:
    for path in ("/metrics", "/ready"):
        connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=20)
        connection.request("GET", path)
        assert connection.getresponse().status == 401
        connection.close()


def test_other_errors_have_openais_shape_too(engine: Served) -> None:
    too_large = b'{"prompt": "' + b"x" * (2 << 20) + b'"}'
    for path, body, status, words in (
        ("/v1/anything", {}, 404, "there is no POST"),
        ("/v1/models", {}, 405, "there is no POST"),
        ("/v1/completions", b"{", 400, "not JSON"),
        ("/v1/completions", [1], 400, "a JSON object"),
        ("/v1/chat/completions", b'{"model": NaN}', 400, "NaN"),
        ("/v1/completions", too_large, 413, "1,048,576"),
    ):
        got, _, said = post(engine, path, body)
        assert got == status, path
        assert words in json.loads(said)["error"]["message"]


def test_who_hangs_up_is_forgotten(narrow: Served) -> None:
    before = narrow.client().health()["steps"]
    stream = client(narrow).completions.create(stream=True, **LONG)
    next(iter(stream))
    narrow.until(lambda health: health["live"]["running"] == 1)
    stream.close()
    narrow.until(idle, 10)
    # Without a stream there is nothing to read, and yet it is noticed.
    body = json.dumps({**{k: v for k, v in LONG.items() if k != "extra_body"}, "ignore_eos": True})
    connection = http.client.HTTPConnection("127.0.0.1", narrow.port, timeout=20)
    connection.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {TOKEN}"})
    narrow.until(lambda health: health["live"]["running"] == 1)
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    steps = narrow.until(idle, 10)["steps"] - before
    assert steps < 240, "neither was computed to its end"


def test_full_is_429_with_a_time_and_who_waits_gets_their_turn(narrow: Served) -> None:
    api = client(narrow)
    streams = [api.completions.create(stream=True, **LONG) for _ in range(NUM_INSIDE + 3)]
    with pytest.raises(openai.RateLimitError) as full:
        api.completions.create(**LONG)
    assert full.value.code == "rate_limit_exceeded" and "3 requests are waiting" in str(full.value)
    assert int(full.value.response.headers["Retry-After"]) > 0
    last = streams.pop()
    for stream in streams[1:]:  # those before it hang up, in the engine and in front of it
        stream.close()
    assert next(iter(last)).choices, "its turn has come"
    last.close()
    assert next(iter(streams[0])).choices
    streams[0].close()
    narrow.until(idle, 10)


def test_one_client_does_not_wait_for_anothers_batch(narrow: Served) -> None:
    ended: dict[Any, float] = {}

    def batch() -> None:
        many = {**LONG, "prompt": [LONG["prompt"]] * (NUM_INSIDE + 2), "max_tokens": 8}
        for chunk in client(narrow).completions.create(stream=True, user="many", **many):
            for choice in chunk.choices:
                if choice.finish_reason:
                    ended[choice.index] = time.monotonic()

    thread = threading.Thread(target=batch)
    thread.start()
    narrow.until(lambda health: health["live"]["running"] == 2)
    client(narrow).completions.create(user="one", **{**LONG, "max_tokens": 8})
    ended["one"] = time.monotonic()
    thread.join(30)
    assert ended["one"] < ended[NUM_INSIDE + 1], ended
    narrow.until(idle, 10)


def test_a_step_that_fails_ends_a_stream_with_its_reason(narrow: Served) -> None:
    api = client(narrow)
    stream = iter(api.completions.create(stream=True, **LONG))
    next(stream)
    (narrow.folder / "break").touch()
    with pytest.raises(openai.APIError, match="a step failed"):
        list(stream)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(api.completions.create, **LONG)
        narrow.until(lambda health: health["live"]["running"] == 1)
        (narrow.folder / "break").touch()
        with pytest.raises(openai.InternalServerError, match="a step failed"):
            asked.result(20)
    assert api.completions.create(**{**LONG, "max_tokens": 2}).choices, "and goes on"


def test_sigterm_lets_what_runs_come_to_its_end(serve: Serve) -> None:
    served = serve(step_s=0.03)
    assert get(served, "/ready") == (200, {"status": "ready"})
    api = client(served)
    stream = iter(api.completions.create(stream=True, **{**LONG, "max_tokens": 60, "logprobs": 0}))
    chunks = [next(stream)]
    served.process.send_signal(signal.SIGTERM)
    served.until(lambda health: health["status"] == "draining")
    assert get(served, "/ready") == (503, {"status": "draining"})
    assert get(served, "/health")[0] == 200, "it lives"
    with pytest.raises(openai.InternalServerError, match="draining") as refused:
        api.completions.create(**LONG)
    assert refused.value.status_code == 503 and refused.value.response.headers["Retry-After"]
    assert post(served, "/live", {"prompt_tokens": [1, 2]})[0] == 503
    chunks += stream
    assert sum(len(c.logprobs.tokens) for chunk in chunks for c in chunk.choices) == 60
    assert chunks[-1].choices[0].finish_reason == "length"
    assert served.process.wait(10) == 0
    with pytest.raises(openai.APIConnectionError):
        api.models.list()


def test_sigterm_ends_what_takes_too_long(serve: Serve) -> None:
    served = serve("--drain-timeout", "1", "--max-num-seqs", "2", step_s=0.03)
    api = client(served)
    streams = [iter(api.completions.create(stream=True, **LONG)) for _ in range(NUM_INSIDE + 2)]
    next(streams[0])
    started = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    for stream in (streams[0], streams[-1]):  # one that runs, and one that waits for its turn
        with pytest.raises(openai.APIError, match="the server is stopping; 1 s were not enough"):
            list(stream)
    assert served.process.wait(10) == 0
    assert 0.9 < time.monotonic() - started < 8


def test_sigterm_ends_an_idle_server_at_once(serve: Serve) -> None:
    served = serve(wait=False)
    served.until(lambda health: True)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(20) == 0, "also while it loads"
