"""What the block manager costs: the pool, the prefix caches, a scheduled step.

Targets are for one quiet core of a current server; on a shared machine compare the ratios.
"""

from __future__ import annotations

import argparse
from array import array
from collections.abc import Callable

from bench.peers_blocks import PEERS, compare
from bench.timing import Timing, measure
from core.config import EngineConfig
from core.engine import Engine
from core.kv.block_pool import BlockPool
from core.kv.manager import KVCacheManager
from core.request import Request, Sequence
from core.runner import ScriptedRunner
from core.scenario import RequestSpec, Scenario
from core.trace.run import host

SIZES = (10_000, 1_000_000)
OPERATIONS = 200_000
BULK = 64


def main(arguments: list[str]) -> int:
    """Print all figures with their targets."""
    parser = argparse.ArgumentParser(prog="python -m bench blocks")
    for name in PEERS:
        parser.add_argument(f"--{name}-python", metavar="PATH", help=f"an interpreter with {name}")
    parser.add_argument("--peers-only", action="store_true", help="nothing but the comparisons")
    options = parser.parse_args(arguments)
    pythons = {name: getattr(options, f"{name}_python") for name in PEERS}
    print(f"{host()['cpu']}, {host()['cores']} cores; median of 5 (range)")
    if not options.peers_only:
        _own()
    compare(pythons)
    return 0


def _own() -> None:
    results = {size: _pool(size) for size in SIZES}
    print(f"\n{'per operation, untraced':<38}{'10 k blocks':>22}{'1 M blocks':>22}  ratio  target")
    for name, target in (
        ("allocate 1 + free 1", 150),
        ("bulk allocate + free, per block", 60),
        ("touch + free, per block", 120),
    ):
        small, large = (results[size][name] for size in SIZES)
        ratio = large.median / small.median
        line = f"{name:<38}{small.show(1e9, 'ns'):>22}{large.show(1e9, 'ns'):>22}"
        met = max(small.median, large.median) <= 1e-9 * target and ratio <= 1.3
        print(f"{line}  {ratio:5.2f}  {_mark(met)} ≤ {target} ns, ratio ≤ 1.3")
    config = EngineConfig(num_blocks=SIZES[1])
    _row("build 1 M blocks", measure(lambda: lambda: _build(config)), 1e3, "ms", 50)
    print()
    for blocks in (16, 4):
        for prefix_cache in ("radix", "hash"):
            timing = measure(lambda b=blocks, p=prefix_cache: _match(p, b))
            name = f"{prefix_cache} match, 1,000 tokens, block size {blocks}"
            _row(name, timing, 1e6, "µs", 20 if prefix_cache == "radix" else None)
    for eviction in ("lru", "fifo", "lfu"):
        timing = measure(lambda e=eviction: _evict(e))
        name = f"radix evict, per block, 100,000 leaves, {eviction}"
        _row(name, timing, 1e6, "µs", 10)
    print()
    for running in (1, 8, 64, 256):
        timing = measure(lambda n=running: _step(n))
        name = f"scheduled step, traced, {running} running"
        _row(name, timing, 1e6, "µs", 20 + 4 * running)
    for policy in ("fcfs", "priority"):
        timing = measure(lambda p=policy: _turnover(p))
        _row(f"step under preemption, traced, 256 running, {policy}", timing, 1e6, "µs", None)


def _row(name: str, timing: Timing, scale: float, unit: str, limit: float | None) -> None:
    line = f"{name:<60}{timing.show(scale, unit, 1):>22}"
    if limit is not None:
        line += f"         {_mark(timing.median * scale <= limit)} ≤ {limit:,} {unit}"
    print(line)


def _mark(met: bool) -> str:
    return "met   " if met else "missed"


def _build(config: EngineConfig) -> int:
    KVCacheManager(config)
    return 1


def _pool(size: int) -> dict[str, Timing]:
    return {
        "allocate 1 + free 1": measure(lambda: _allocate_free(size)),
        "bulk allocate + free, per block": measure(lambda: _bulk(size)),
        "touch + free, per block": measure(lambda: _touch_free(size)),
    }


def _allocate_free(size: int) -> Callable[[], int]:
    pool = BlockPool(size)

    def work() -> int:
        allocate, free = pool.allocate_one, pool.free_one
        for _ in range(OPERATIONS):
            free(allocate())
        return OPERATIONS

    return work


def _bulk(size: int) -> Callable[[], int]:
    pool = BlockPool(size)

    def work() -> int:
        for _ in range(OPERATIONS // BULK):
            pool.free(pool.allocate(BULK))
        return OPERATIONS // BULK * BULK

    return work


def _touch_free(size: int) -> Callable[[], int]:
    """Hits on idle cached blocks: half of the pool is cached and idle."""
    pool = BlockPool(size)
    cached = pool.allocate(size // 2)
    for block in cached:
        pool.matchable[block] = 1
    pool.free(cached)
    hits = [cached[i : i + BULK] for i in range(0, min(len(cached), 64 * BULK), BULK)]

    def work() -> int:
        rounds = OPERATIONS // (BULK * len(hits)) + 1
        for _ in range(rounds):
            for hit in hits:
                pool.touch(hit)
                pool.free(hit)
        return rounds * len(hits) * BULK

    return work


def _sequence(tokens: list[int]) -> Sequence:
    spec = RequestSpec(id="A", prompt_tokens=tuple(tokens))
    return Sequence(Request(spec, array("q", tokens), 0), 0, 1)


def _cache(manager: KVCacheManager, tokens: list[int]) -> Sequence:
    """Compute a prompt and make its full blocks matchable; the sequence holds them."""
    seq = _sequence(tokens)
    hit = manager.find_prefix(seq)
    manager.admit(seq, hit)
    manager.allocate_slots(seq, len(tokens) - seq.num_computed_tokens)
    manager.cache_blocks(seq, len(hit), len(tokens) // manager.block_size)
    return seq


def _match(prefix_cache: str, block_size: int) -> Callable[[], int]:
    """A chat-like tree: 8 users behind one system prompt; look one user's 1,000 tokens up."""
    config = EngineConfig(num_blocks=4096, block_size=block_size, prefix_cache=prefix_cache)
    manager = KVCacheManager(config)
    system = list(range(400))
    prompts = [system + [1000 * user + i for i in range(601)] for user in range(1, 9)]
    for prompt in prompts:
        _cache(manager, prompt)
    lookups = [_sequence(prompt) for prompt in prompts]
    for seq in lookups:
        manager.find_prefix(seq)  # the keys of a request are computed once, not per look-up

    def work() -> int:
        rounds = 200
        for _ in range(rounds):
            for seq in lookups:
                manager.find_prefix(seq)
        return rounds * len(lookups)

    return work


def _evict(eviction: str) -> Callable[[], int]:
    """100,000 idle leaves of two blocks each under one shared block; evict 50,000 blocks."""
    leaves = 100_000
    config = EngineConfig(
        num_blocks=2 * leaves + 1, block_size=1, prefix_cache="radix", eviction=eviction
    )
    manager = KVCacheManager(config)
    for i in range(leaves):
        manager.release(_cache(manager, [0, 2 * i + 1, 2 * i + 2]), "finished")

    def work() -> int:
        for _ in range(50_000):
            manager.cache.evict()
        return 50_000

    return work


def _step(running: int) -> Callable[[], int]:
    """Decode steps of `running` sequences, events recorded."""
    steps = 200
    config = EngineConfig(
        num_blocks=running * 64,
        block_size=16,
        max_num_seqs=running,
        max_num_batched_tokens=running * 32,
        max_model_len=1024,
    )
    requests = tuple(
        RequestSpec(id=str(i), prompt_tokens=tuple(range(100 * i, 100 * i + 32)), max_tokens=900)
        for i in range(running)
    )
    engine = Engine(Scenario(engine=config, requests=requests), ScriptedRunner())
    engine.step()

    def work() -> int:
        for _ in range(steps):
            engine.step()
        return steps

    return work


def _turnover(policy: str) -> Callable[[], int]:
    """Steps of a pool that is too small for those who run: preemptions, resumes, evictions."""
    config = EngineConfig(
        num_blocks=1024,
        block_size=4,
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        max_model_len=512,
        policy=policy,
    )
    requests = tuple(
        RequestSpec(
            id=str(i),
            prompt_tokens=tuple(range(100 * i, 100 * i + 12)),
            max_tokens=200,
            priority=i % 7,
        )
        for i in range(256)
    )
    engine = Engine(Scenario(engine=config, requests=requests), ScriptedRunner())
    engine.step()

    def work() -> int:
        for _ in range(100):
            engine.step()
        return 100

    return work
