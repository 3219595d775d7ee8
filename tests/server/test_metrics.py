"""/metrics, read as Prometheus reads it: the counts are those of the requests that were made."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.config import EngineConfig
from core.server.metrics import LiveMetrics
from tests.server.conftest import TOKEN, Serve, Served
from tests.server.test_openai_completions import client

openai = pytest.importorskip("openai")

PROMPT = list(range(20, 33))
"""Thirteen tokens: three whole blocks."""


class Read(dict[str, float]):
    """Samples by name, those with labels of their own by name and labels."""

    @classmethod
    def of(cls, text: str) -> Read:
        out = cls()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = {k: v for k, v in sample.labels.items() if k != "model_name"}
                own = ",".join(f"{k}={v}" for k, v in sorted(labels.items()))
                name = sample.name.removeprefix("kvscope:")
                out[f"{name}{{{own}}}" if own else name] = sample.value
        return out

    def since(self, before: Read) -> Read:
        return Read({name: value - before.get(name, 0) for name, value in self.items()})


def read(served: Served) -> Read:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return Read.of(answer.read().decode())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def small(serve: Serve) -> Served:
    """24 blocks of 4 tokens, and a step of 10 ms."""
    return serve("--num-blocks", "24", step_s=0.01)


def ask(served: Served, prompt: Any, max_tokens: int, **more: Any) -> Any:
    body = {"ignore_eos": True, **more.pop("extra_body", {})}
    return client(served).completions.create(
        model="tiny", prompt=prompt, max_tokens=max_tokens, temperature=0, extra_body=body, **more
    )


def test_an_engine_that_has_done_nothing_says_so(small: Served) -> None:
    said = read(small)
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert said[name] == 0, name
    for name in ("prompt_tokens", "generation_tokens", "prefix_cache_queries", "num_preemptions"):
        assert said[f"{name}_total"] == 0, name
    info = next(name for name in said if name.startswith("cache_config_info"))
    assert "num_blocks=24" in info and "block_size=4" in info and said[info] == 1
    assert "cache_dtype=model" in info.replace('"', "")
    assert not any(name.startswith("device_memory") for name in said), "there is no device"


def test_tokens_hits_and_times_are_counted(small: Served) -> None:
    before = read(small)
    for _ in range(2):
        ask(small, PROMPT, 5)
    new = read(small).since(before)
    assert new["prompt_tokens_total"] == 26 and new["generation_tokens_total"] == 10
    assert new["prefix_cache_queries_total"] == 26 and new["prefix_cache_hits_total"] == 12
    assert new["request_success_total{finished_reason=length}"] == 2
    for name, count in (
        ("time_to_first_token", 2),
        ("request_queue_time", 2),
        ("e2e_request_latency", 2),
        ("inter_token_latency", 8),
    ):
        assert new[f"{name}_seconds_count"] == count, name
        assert new[f"{name}_seconds_bucket{{le=+Inf}}"] == count, name
    # Each of five steps a request takes 10 ms at least, one of them to the first token.
    assert 0.02 <= new["time_to_first_token_seconds_sum"] < new["e2e_request_latency_seconds_sum"]
    assert new["inter_token_latency_seconds_sum"] >= 0.08
    assert new["request_queue_time_seconds_sum"] < new["time_to_first_token_seconds_sum"]
    parts = new["time_to_first_token_seconds_sum"] + new["inter_token_latency_seconds_sum"]
    assert parts == pytest.approx(new["e2e_request_latency_seconds_sum"], abs=1e-6)


def test_answers_of_one_request(small: Served) -> None:
    before = read(small)
    ask(small, PROMPT, 4, n=2)
    new = read(small).since(before)
    assert new["prompt_tokens_total"] == 13 and new["generation_tokens_total"] == 8
    assert new["request_success_total{finished_reason=length}"] == 2
    assert new["e2e_request_latency_seconds_count"] == 2
    assert new["time_to_first_token_seconds_count"] == 1
    assert new["inter_token_latency_seconds_count"] == 6


def test_a_request_that_may_not_use_the_cache_is_no_query(small: Served) -> None:
    before = read(small)
    ask(small, PROMPT, 1, echo=True, logprobs=1)
    new = read(small).since(before)
    assert new["prefix_cache_queries_total"] == 0 and new["prompt_tokens_total"] == 13


def test_a_stop_and_an_abort(small: Served) -> None:
    before = read(small)
    ask(small, PROMPT, 40, extra_body={"stop_token_ids": list(range(320))})
    stream = ask(small, PROMPT, 60, stream=True)
    next(iter(stream))
    hang = small.folder / "hang"  # or all 60 tokens might be there before the reader has gone
    hang.touch()
    now = read(small)
    assert now["num_requests_running"] == 1 and now["kv_cache_usage_perc"] >= 4 / 24
    stream.close()
    time.sleep(1)
    hang.unlink()
    small.until(lambda health: health["usage"]["in_use"] == 0)
    new = read(small).since(before)
    assert new["request_success_total{finished_reason=stop}"] == 1
    assert new["request_success_total{finished_reason=abort}"] == 1
    assert new["e2e_request_latency_seconds_count"] == 1, "what is given up has no latency"


def test_blocks_that_are_evicted_tell_their_lives(small: Served) -> None:
    # A prompt of its own, hit twice: one gap for each of its three blocks.
    mine = [100 + i for i in range(13)]
    for _ in range(3):
        ask(small, mine, 1)
    before = read(small)
    # Then prompts that fill the pool, until nothing of it can be left.
    for i in range(8):
        ask(small, [150 + i, *range(200, 220)], 1)
    new = read(small).since(before)
    evicted = new["kv_block_lifetime_seconds_count"]
    assert evicted >= 3 and new["kv_block_idle_before_evict_seconds_count"] == evicted
    assert new["kv_block_reuse_gap_seconds_count"] >= 3
    lifetime, idle = (
        new[f"kv_block_{name}_seconds_sum"] for name in ("lifetime", "idle_before_evict")
    )
    assert 0 < idle < lifetime


def test_preemptions_and_who_waits(small: Served) -> None:
    before = read(small)
    prompts = [[10 * i + j for j in range(8)] for i in range(3)]
    waiting: set[str] = set()
    for i, _ in enumerate(ask(small, prompts, 45, stream=True)):
        if i % 6:
            continue
        now = read(small)
        waiting |= {n for n, value in now.items() if "waiting_by_reason" in n and value}
        total = sum(value for n, value in now.items() if "waiting_by_reason" in n)
        assert now["num_requests_waiting"] == total
    new = read(small).since(before)
    assert new["num_preemptions_total"] >= 1
    assert new["generation_tokens_total"] == 135, "what is computed again is not sampled again"
    assert new["time_to_first_token_seconds_count"] == 3
    assert new["prefix_cache_queries_total"] == 24, "a resume is no query"
    assert any("no_free_blocks" in name for name in waiting)
    after = read(small)
    assert after["num_requests_waiting"] == after["num_requests_running"] == 0


def test_a_failed_step_leaves_no_gauge_behind(small: Served) -> None:
    stream = iter(ask(small, PROMPT, 60, stream=True))
    next(stream)
    (small.folder / "break").touch()
    with pytest.raises(openai.APIError, match="a step failed"):
        list(stream)
    said = read(small)
    assert said["num_requests_running"] == said["kv_cache_usage_perc"] == 0
    ask(small, PROMPT, 2)


def test_a_devices_memory_is_read_when_it_is_asked_for() -> None:
    metrics = LiveMetrics("tiny", EngineConfig(), lambda: 2)
    free = [70]
    metrics.add_device_memory(lambda: {"total": 100, "free": free[0], "allocated": 20})
    said = Read.of(metrics.render().decode())
    assert said["device_memory_bytes{kind=total}"] == 100
    assert said["device_memory_bytes{kind=free}"] == 70
    free[0] = 50
    assert Read.of(metrics.render().decode())["device_memory_bytes{kind=free}"] == 50
    assert said["num_requests_waiting"] == 2
    assert said["num_requests_waiting_by_reason{reason=fair_queue}"] == 2
