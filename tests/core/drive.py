"""Drive the engine from tests: short scenarios, single sequences, a KV that can be read back."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from itertools import count
from pathlib import Path
from typing import Any

from core.config import EngineConfig
from core.engine import Engine
from core.kv.manager import KVCacheManager
from core.prefix.radix_cache import RadixPrefixCache
from core.request import Request, Sequence
from core.runner import ScriptedRunner, StepBatch, StepOutput
from core.scenario import RequestSpec, Scenario
from core.simulate import simulate
from core.trace.run import Run
from tests.core.memory_runner import ReadBackRunner

ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]
_order = count()


def req(name: str, tokens: list[int], **fields: Any) -> Json:
    """A request of a scenario with its prompt as token ids."""
    return {"id": name, "prompt_tokens": list(tokens), **fields}


def scenario(*requests: Json, **engine: Any) -> Json:
    return {"schema": "scenario/1", "engine": engine, "requests": list(requests)}


def run_of(*requests: Json, **engine: Any) -> Run:
    """The run of a scenario, with state in each step and all bookkeeping checked."""
    return simulate(Scenario.from_dict(scenario(*requests, **engine)), keep_state=True, debug=True)


def sample_run() -> Run:
    """Hits, a split, a fork with copies, a preemption, an eviction: most kinds of events."""
    return run_of(
        req("A", list(range(9)), max_tokens=6),
        req("B", [*range(4), 50, 51], max_tokens=4, arrive_step=1),
        req("C", [60, 61], n=2, max_tokens=4, arrive_step=1),
        req("D", list(range(6)), max_tokens=4, arrive_step=2, cancel_step=9),
        num_blocks=7,
    )


def engine_of(*requests: Json, eos: frozenset[int] = frozenset(), **engine: Any) -> Engine:
    """An engine at step 0, to be stepped by hand; checks itself after each step.

    eos: only a model has such tokens, so the run then says that it was recorded from one.
    """
    model = {"device": "CPU", "dtype": "float32", "model": "some-model", "model_sha256": None}
    return Engine(
        Scenario.from_dict(scenario(*requests, **engine)),
        ScriptedRunner(eos, model if eos else None),
        debug=True,
        keep_state=True,
        label="RECORDED" if eos else "SIMULATED",
    )


def events(run: Run, kind: str, step: int | None = None, **fields: Any) -> list[Json]:
    """Events of a kind (of one step), with these field values."""
    records = run.steps if step is None else [run.steps[step]]
    return [
        event
        for record in records
        for event in record["events"]
        if event["type"] == kind and all(event.get(k) == v for k, v in fields.items())
    ]


def granted(run: Run, name: str) -> list[int | None]:
    """Tokens that a sequence computed in each step; None where it was not scheduled."""
    return [record["scheduled"].get(name, {}).get("num_scheduled_tokens") for record in run.steps]


def waits(run: Run, name: str) -> list[tuple[int, str]]:
    """(step, reason) of each new reason for which an entry waits."""
    return [
        (record["step"], event["reason"])
        for record in run.steps
        for event in record["events"]
        if event["type"] == "waiting" and event["sequence"] == name
    ]


def step_of(run: Run, kind: str, name: str) -> int:
    """The first step with such an event of this sequence."""
    return next(
        record["step"]
        for record in run.steps
        for event in record["events"]
        if event["type"] == kind and event["sequence"] == name
    )


def tokens(start: int, length: int) -> list[int]:
    """A prompt of consecutive token ids."""
    return list(range(start, start + length))


# ---- one manager, without a scheduler ----------------------------------------------------------


def manager(emit: Any = None, sliding_window: int | None = None, **engine: Any) -> KVCacheManager:
    return KVCacheManager(EngineConfig(**engine), emit or (lambda event: None), sliding_window)


def tree(**engine: object) -> tuple[KVCacheManager, RadixPrefixCache]:
    """A manager with a radix tree, and the tree."""
    kv = manager(prefix_cache="radix", **{"num_blocks": 16, **engine})
    assert isinstance(kv.cache, RadixPrefixCache)
    return kv, kv.cache


def nodes(kv: KVCacheManager) -> list[tuple[int, int | None, list[int], int]]:
    """(id, parent, blocks, lock_ref) of each node."""
    return [(n["id"], n["parent"], n["blocks"], n["lock_ref"]) for n in kv.cache.tree()]


def sequence(tokens: list[int], **fields: Any) -> Sequence:
    """A sequence with this prompt that nobody has admitted."""
    order = next(_order)
    spec = RequestSpec(id=f"s{order}", prompt_tokens=tuple(tokens), **fields)
    return Sequence(Request(spec, array("q", tokens), order), 0, 1)


def admit(kv: KVCacheManager, seq: Sequence) -> int:
    """Take the cached prefix; how many blocks it has."""
    hit = kv.find_prefix(seq)
    kv.admit(seq, hit)
    return len(hit)


def compute(kv: KVCacheManager, seq: Sequence, num_tokens: int | None = None) -> int:
    """Compute the next tokens (all that lack, if not said) and cache what they fill.

    Returns the blocks appended.
    """
    start = seq.num_computed_tokens
    n = seq.num_tokens - start if num_tokens is None else num_tokens
    appended = kv.allocate_slots(seq, n)
    seq.num_computed_tokens = start + n
    if (start + n) // kv.block_size > start // kv.block_size:
        kv.cache_blocks(seq, start // kv.block_size, (start + n) // kv.block_size)
    kv.check()
    return max(appended, 0)


def served(kv: KVCacheManager, tokens: list[int], **fields: Any) -> Sequence:
    """A sequence whose whole prompt has been admitted and computed."""
    seq = sequence(tokens, **fields)
    admit(kv, seq)
    compute(kv, seq)
    return seq


def fork(kv: KVCacheManager, seq: Sequence, num_twins: int) -> list[Sequence]:
    """Twins of a sequence that share all its blocks."""
    twins = [Sequence(seq.request, i, 1) for i in range(1, num_twins + 1)]
    for twin in twins:
        twin.tokens = seq.tokens[:]
        twin.num_computed_tokens = seq.num_computed_tokens
    kv.fork(seq, twins)
    return twins


def snapshot(kv: KVCacheManager) -> Json:
    """Everything that may not change when a call is refused."""
    pool, cache = kv.pool, kv.cache
    cached = {b: cache.describe(b) for b, matchable in enumerate(pool.matchable) if matchable}
    return {
        "ref_counts": list(pool.ref_counts),
        "matchable": bytes(pool.matchable),
        "free_order": pool.free_order(),
        "idle": list(pool.idle),
        "num_idle": len(pool.idle),
        "num_free": pool.num_free,
        "usage": kv.usage(),
        "cached": cached,
        "hits": list(cache.hits),
        "tree": cache.tree(),
        "sizes": (cache.num_cached_blocks, cache.evictable_size, cache.protected_size),
    }


# ---- a KV whose contents can be read -----------------------------------------------------------


class ContentRunner(ReadBackRunner):
    """Scripted tokens on a KV that is read back; counts the hits that it has seen."""

    def __init__(self, block_size: int) -> None:
        super().__init__(block_size)
        self.num_hits = 0

    def execute(self, batch: StepBatch) -> StepOutput:
        self.num_hits += sum(item.num_cached_tokens > 0 for item in batch.scheduled)
        self.write_and_read(batch)
        return super().execute(batch)


def run_with_contents(data: Json) -> tuple[Run, ContentRunner]:
    """Run a scenario on a KV that is read back in each step."""
    checked = Scenario.from_dict(data)
    runner = ContentRunner(checked.engine.block_size)
    return Engine(checked, runner, debug=True).run_to_end(), runner


# ---- the command line --------------------------------------------------------------------------


def cli(
    *arguments: str | Path, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`python -m core …` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "core", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
        timeout=120,
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **options},
    )


def assert_one_error(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """Exit code 2, one line on standard error, nothing on standard output. Returns the line."""
    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line, line
    return line
