"""What Prometheus is told: vLLM's metrics, with their meanings, under the prefix `kvscope:`.

Counted on the engine's thread from the records of the live engine's steps; scenario runs do not
enter. A request with n answers counts once in the times to its first token and in the queue, and
each of its answers by itself in everything else.
"""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.exposition import generate_latest

from core.config import EngineConfig
from core.request import Request
from core.sched.scheduler import Scheduler

__all__ = ["CONTENT_TYPE", "LiveMetrics"]

Json = dict[str, Any]

# When a series began is nobody's question here, and each would be a second line.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_FINISHED = {
    "stop_token": "stop",
    "stop_string": "stop",
    "script_end": "stop",
    "max_tokens": "length",
    "max_model_len": "length",
    "cancelled": "abort",
    "error": "error",
}
_SHORT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40)
_LONG_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560)
_BLOCK_S = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800)
NUM_HITS_KEPT = 4
"""Of a block only so many of its newest hits are remembered, as in vLLM."""


@dataclass(slots=True)
class _Life:
    """A request so far. Times are monotonic seconds; last: of each sequence's newest token."""

    arrived: float
    num_prompt_tokens: int
    looks_up: bool
    last: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Block:
    """A block since it was last allocated."""

    born: float
    used: float
    hits: deque[float] = field(default_factory=lambda: deque(maxlen=NUM_HITS_KEPT))


class LiveMetrics:
    """model: a label of every series. num_in_front: requests that wait before the engine's queue.

    `arrived`, `step` and `forget` from the engine's thread, `render` from any.
    """

    def __init__(self, model: str, config: EngineConfig, num_in_front: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._lives: dict[str, _Life] = {}
        self._blocks: dict[int, _Block] = {}
        self._num_blocks = config.num_blocks
        self._has_cache = config.prefix_cache != "off"
        self._num_waiting = 0
        self._reasons: set[str] = set()
        self._gauges(config, num_in_front)
        self._counters()
        self._histograms()

    def _gauges(self, config: EngineConfig, num_in_front: Callable[[], int]) -> None:
        self._running = self._gauge("num_requests_running", "Sequences in the running batch.")
        waiting = self._gauge("num_requests_waiting", "Requests that wait for the engine.")
        waiting.set_function(lambda: self._num_waiting + num_in_front())
        self._by_reason = Gauge(
            "kvscope:num_requests_waiting_by_reason",
            "Requests that wait, by why; fair_queue: for their client's turn.",
            ["model_name", "reason"],
            registry=self._registry,
        )
        self._by_reason.labels(self._model, "fair_queue").set_function(num_in_front)
        self._usage = self._gauge(
            "kv_cache_usage_perc", "Share of the pool's blocks that are in use; 1 is all of them."
        )
        kv_dtype = config.kv_dtype
        shape = {
            name: str(getattr(config, name))
            for name in ("num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens")
        } | {
            "max_model_len": str(config.max_model_len),
            "prefix_cache": config.prefix_cache,
            # vLLM's name for it; an object (`core.kv_spec`) as JSON.
            "cache_dtype": kv_dtype if isinstance(kv_dtype, str) else json.dumps(kv_dtype),
        }
        info = Gauge(
            "kvscope:cache_config_info",
            "The live engine's settings, as labels.",
            ["model_name", *shape],
            registry=self._registry,
        )
        info.labels(self._model, *shape.values()).set(1)

    def _counters(self) -> None:
        count = self._counter
        self._preemptions = count("num_preemptions", "Sequences sent back to the queue.")
        self._queries = count("prefix_cache_queries", "Prompt tokens looked up in the cache.")
        self._hits = count("prefix_cache_hits", "Prompt tokens found in the cache.")
        self._prompt = count("prompt_tokens", "Prompt tokens read, cached ones included.")
        self._generated = count("generation_tokens", "Tokens sampled.")
        self._success = Counter(
            "kvscope:request_success",
            "Answers that have ended, by why.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )

    def _histograms(self) -> None:
        times = self._histogram
        self._ttft = times("time_to_first_token", "From arrival to the first token.", _LONG_S)
        self._itl = times("inter_token_latency", "From a token to the next one.", _SHORT_S)
        self._e2e = times("e2e_request_latency", "From arrival to the last token.", _LONG_S)
        self._queue = times("request_queue_time", "From arrival to admission.", _LONG_S)
        self._lifetime = times(
            "kv_block_lifetime", "A cached block's, from allocation to eviction.", _BLOCK_S
        )
        self._idle = times(
            "kv_block_idle_before_evict", "From a block's last use to its eviction.", _BLOCK_S
        )
        self._gaps = times(
            "kv_block_reuse_gap",
            f"Between hits of a block (its newest {NUM_HITS_KEPT}), told at its eviction.",
            _BLOCK_S,
        )

    def add_device_memory(self, read: Callable[[], dict[str, int]]) -> None:
        """Memory of the device in bytes by kind, read whenever the metrics are."""
        gauge = Gauge(
            "kvscope:device_memory_bytes",
            "The device's memory: total, free (to every process), allocated (by tensors here).",
            ["model_name", "kind"],
            registry=self._registry,
        )
        for kind in read():
            gauge.labels(self._model, kind).set_function(partial(_one, read, kind))

    def render(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    # ---- the engine's thread ------------------------------------------------------------------

    def arrived(self, request: Request, at: float) -> None:
        """A request that the engine has taken. at: when it was asked for, monotonic seconds."""
        looks_up = self._has_cache and not request.spec.prompt_logprobs
        self._lives[request.id] = _Life(at, len(request.prompt_tokens), looks_up)

    def step(
        self, record: Json, scheduler: Scheduler, usage: dict[str, int], began: float, ended: float
    ) -> None:
        """A step's record, and the state after it."""
        for event in record["events"]:
            handler = getattr(self, f"_on_{event['type']}", None)
            if handler is not None:
                handler(event, began if event["type"] in _BEFORE else ended)
        self._running.set(len(scheduler.running))
        self._usage.set(usage["in_use"] / self._num_blocks)
        self._set_waiting(
            Tally(seq.waiting_reason or "arrived" for seq in scheduler.waiting.entries())
        )

    def forget(self) -> None:
        """The engine begins anew, on an empty pool: what waited and ran is gone."""
        self._lives.clear()
        self._blocks.clear()
        self._running.set(0)
        self._usage.set(0)
        self._set_waiting(Tally())

    def _set_waiting(self, reasons: Tally[str]) -> None:
        self._num_waiting = reasons.total()
        self._reasons |= reasons.keys()
        for reason in self._reasons:
            self._by_reason.labels(self._model, reason).set(reasons[reason])

    def _on_admitted(self, event: Json, now: float) -> None:
        # Not for a resume: what a preempted sequence finds of its own blocks is no reuse.
        life = self._lives[event["request"]]
        self._queue.observe(now - life.arrived)
        if life.looks_up:
            self._queries.inc(event["num_tokens"])
            self._hits.inc(event["num_cached_tokens"])

    def _on_preempted(self, event: Json, now: float) -> None:
        self._preemptions.inc(len(event.get("sequences") or [event["sequence"]]))

    def _on_token_sampled(self, event: Json, now: float) -> None:
        life, name = self._lives[event["request"]], event["sequence"]
        if not life.last:
            self._ttft.observe(now - life.arrived)
            self._prompt.inc(life.num_prompt_tokens)
        elif name in life.last:
            self._itl.observe(now - life.last[name])
        life.last[name] = now
        self._generated.inc()

    def _on_finished(self, event: Json, now: float) -> None:
        life = self._lives[event["request"]]
        reason = _FINISHED[event["reason"]]
        self._success.labels(self._model, reason).inc()
        if reason != "abort":
            self._e2e.observe(now - life.arrived)

    def ended(self, name: str) -> None:
        """Nothing more will come of a request."""
        self._lives.pop(name, None)

    def _on_blocks_allocated(self, event: Json, now: float) -> None:
        for block in event["blocks"]:
            self._blocks[block] = _Block(now, now)

    def _on_block_shared(self, event: Json, now: float) -> None:
        if event["cause"] == "hit":
            for block in event["blocks"]:
                known = self._blocks[block]
                known.used = now
                known.hits.append(now)

    def _on_block_evicted(self, event: Json, now: float) -> None:
        for block in event["blocks"]:
            known = self._blocks.pop(block)
            if event["reason"] != "reused":
                continue
            self._lifetime.observe(now - known.born)
            self._idle.observe(now - known.used)
            for earlier, later in pairwise(known.hits):
                self._gaps.observe(later - earlier)

    # ---- series -------------------------------------------------------------------------------

    def _gauge(self, name: str, what: str) -> Gauge:
        gauge = Gauge(f"kvscope:{name}", what, ["model_name"], registry=self._registry)
        return gauge.labels(self._model)

    def _counter(self, name: str, what: str) -> Counter:
        counter = Counter(f"kvscope:{name}", what, ["model_name"], registry=self._registry)
        return counter.labels(self._model)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"kvscope:{name}_seconds",
            what,
            ["model_name"],
            buckets=buckets,
            registry=self._registry,
        ).labels(self._model)


def _one(read: Callable[[], dict[str, int]], kind: str) -> int:
    return read()[kind]


_BEFORE = frozenset({"admitted", "preempted", "blocks_allocated", "block_shared", "block_evicted"})
"""What the scheduler does before the step's tokens are computed."""
