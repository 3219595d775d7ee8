"""What the block manager costs: the pool, the prefix caches, a scheduled step.

Targets are for one quiet core of a current server; on a shared machine compare the ratios.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

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


def main() -> None:
    """Print all figures with their targets."""
    print(f"{host()['cpu']}, {host()['cores']} cores; median of 5 (range)")
    results = {size: _pool(size) for size in SIZES}
    print(f"\n{'per operation, untraced':<38}{'10 k blocks':>22}{'1 M blocks':>22}  ratio  target")
    for name, target in (
        ("allocate 1 + free 1", "≤ 150 ns"),
        ("bulk allocate + free, per block", "≤ 60 ns"),
        ("touch + free, per block", "≤ 120 ns"),
    ):
        small, large = (results[size][name] for size in SIZES)
        ratio = large.median / small.median
        line = f"{name:<38}{small.show(1e9, 'ns'):>22}{large.show(1e9, 'ns'):>22}"
        print(f"{line}  {ratio:5.2f}  {target}, ratio ≤ 1.3")
    build = measure(lambda: lambda: BlockPool(SIZES[1]) and 1)
    print(f"{'build 1 M blocks':<60}{build.show(1e3, 'ms'):>22}         ≤ 50 ms")
    print()
    for blocks in (16, 4):
        for prefix_cache in ("radix", "hash"):
            timing = measure(lambda b=blocks, p=prefix_cache: _match(p, b))
            name = f"{prefix_cache} match, 1,000 tokens, block size {blocks}"
            target = "≤ 20 µs" if prefix_cache == "radix" else ""
            print(f"{name:<60}{timing.show(1e6, 'µs', 1):>22}         {target}")
    for eviction in ("lru", "fifo", "lfu"):
        timing = measure(lambda e=eviction: _evict(e))
        name = f"radix evict, per block, 100,000 leaves, {eviction}"
        print(f"{name:<60}{timing.show(1e6, 'µs', 2):>22}         ≤ 10 µs")
    print()
    for running in (1, 8, 64, 256):
        timing = measure(lambda n=running: _step(n))
        name = f"scheduled step, traced, {running} running"
        limit = 20 + 4 * running
        print(f"{name:<60}{timing.show(1e6, 'µs', 1):>22}         ≤ {limit:,} µs")


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
