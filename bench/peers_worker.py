"""One block manager's operations, timed on request: `python bench/peers_worker.py NAME`.

Runs under the interpreter in which the manager is installed, and imports nothing else of this
repository unless NAME is "ours". It says what it is in one JSON line, then reads the name of an
operation from each line of standard input and answers with the seconds per unit.

Blocks and pages have 16 tokens. In a pool a look-up has its keys at hand, as both engines compute
a request's keys once. A tree is asked by token ids in an array, as both engines hold
them: 32 prompts of 1,024 tokens, of which the first 512 are shared by all. Both evict 512
tokens at a time, for SGLang frees whole leaves.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
from array import array
from collections.abc import Callable
from hashlib import sha256
from time import process_time
from types import SimpleNamespace
from typing import Any

NUM_BLOCKS, BLOCK_SIZE, BULK = 10_000, 16, 64
ROUNDS = 1_000
SHARED, LENGTH, NUM_PROMPTS = 512, 1024, 32
PROMPTS = [
    [*range(SHARED), *(10_000 * (i + 1) + j for j in range(LENGTH - SHARED))]
    for i in range(NUM_PROMPTS)
]
Work = Callable[[], int]
"""Does something, and returns how many units of it."""


def ours() -> dict[str, Callable[[], Work]]:
    from core.config import EngineConfig
    from core.kv.block_pool import BlockPool
    from core.kv.manager import KVCacheManager
    from core.request import Request, Sequence
    from core.scenario import RequestSpec

    def sequence(tokens: list[int]) -> Sequence:
        spec = RequestSpec(id="A", prompt_tokens=tuple(tokens))
        return Sequence(Request(spec, array("q", tokens), 0), 0, 1)

    def computed(kv: KVCacheManager, tokens: list[int]) -> Sequence:
        """A sequence whose prompt has its blocks, but is not cached yet."""
        seq = sequence(tokens)
        kv.admit(seq, kv.find_prefix(seq))
        kv.allocate_slots(seq, len(tokens) - seq.num_computed_tokens)
        return seq

    def insert(kv: KVCacheManager, seq: Sequence) -> None:
        first = seq.num_cached_blocks
        kv.cache_blocks(seq, first, len(seq.tokens) // BLOCK_SIZE)

    def manager(cache: str) -> KVCacheManager:
        size = NUM_PROMPTS * LENGTH // BLOCK_SIZE
        return KVCacheManager(
            EngineConfig(num_blocks=size, block_size=BLOCK_SIZE, prefix_cache=cache)
        )

    def allocate(n: int) -> Work:
        pool = BlockPool(NUM_BLOCKS)

        def work() -> int:
            for _ in range(ROUNDS):
                pool.free(pool.allocate(n))
            return ROUNDS * n

        return work

    def hit() -> Work:
        kv = manager("hash")
        seq = computed(kv, PROMPTS[0])
        insert(kv, seq)
        kv.release(seq, "finished")
        again = sequence([*PROMPTS[0], 1])
        kv.find_prefix(again)

        def work() -> int:
            for _ in range(ROUNDS):
                blocks = kv.find_prefix(again)
                kv.cache.lock(again, blocks)
                kv.cache.unlock(blocks)
            return ROUNDS * BULK

        return work

    def tree_insert() -> Work:
        kv = manager("radix")
        ready = [computed(kv, prompt) for prompt in PROMPTS[:16]]

        def work() -> int:
            for seq in ready:
                insert(kv, seq)
            return len(ready)

        return work

    def full_tree() -> KVCacheManager:
        kv = manager("radix")
        for prompt in PROMPTS:
            seq = computed(kv, prompt)
            insert(kv, seq)
            kv.release(seq, "finished")
        return kv

    def tree_match() -> Work:
        kv = full_tree()
        asked = [sequence([*prompt, 1]) for prompt in PROMPTS]

        def work() -> int:
            for _ in range(20):
                for seq in asked:
                    kv.find_prefix(seq)
            return 20 * len(asked)

        return work

    def tree_evict() -> Work:
        kv = full_tree()
        count = (LENGTH - SHARED) // BLOCK_SIZE * NUM_PROMPTS // 2

        def work() -> int:
            for _ in range(count):
                kv.cache.evict()
            return NUM_PROMPTS // 2

        return work

    return {
        "allocate and free one block": lambda: allocate(1),
        "allocate and free 64, per block": lambda: allocate(BULK),
        "find, take and free 64 cached, per block": hit,
        "insert 1,024 tokens into the tree": tree_insert,
        "match 1,024 tokens in the tree": tree_match,
        "evict 512 tokens from the tree": tree_evict,
    }


def vllm() -> dict[str, Callable[[], Work]]:
    from vllm.v1.core.block_pool import BlockPool

    def pool(caching: bool) -> Any:
        return BlockPool(NUM_BLOCKS, caching, BLOCK_SIZE)

    def allocate(n: int) -> Work:
        blocks = pool(False)

        def work() -> int:
            for _ in range(ROUNDS):
                blocks.free_blocks(blocks.get_new_blocks(n))
            return ROUNDS * n

        return work

    def hit() -> Work:
        blocks = pool(True)
        keys = [sha256(bytes([i])).digest() for i in range(BULK)]
        taken = blocks.get_new_blocks(BULK)
        request = SimpleNamespace(request_id="A", block_hashes=keys)
        blocks.cache_full_blocks(
            request=request,
            blocks=taken,
            num_cached_blocks=0,
            num_full_blocks=BULK,
            block_size=BLOCK_SIZE,
            kv_cache_group_id=0,
        )
        blocks.free_blocks(reversed(taken))
        assert blocks.get_cached_block(keys[-1], [0]), "the blocks are cached"

        def work() -> int:
            for _ in range(ROUNDS):
                found = [blocks.get_cached_block(key, [0])[0] for key in keys]
                blocks.touch(found)
                blocks.free_blocks(reversed(found))
            return ROUNDS * BULK

        return work

    return {
        "allocate and free one block": lambda: allocate(1),
        "allocate and free 64, per block": lambda: allocate(BULK),
        "find, take and free 64 cached, per block": hit,
    }


def sglang() -> dict[str, Callable[[], Work]]:
    import torch
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
    from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

    torch.set_num_threads(1)

    def ignore(*_: Any, **__: Any) -> None:
        """Slots that come back need no place: only the tree is measured."""

    allocator = SimpleNamespace(device=torch.device("cpu"), free=ignore, free_segment=ignore)
    slots = torch.arange(LENGTH)
    keys = [RadixKey(array("q", prompt)) for prompt in PROMPTS]

    def tree(num_prompts: int) -> Any:
        cache = RadixCache.create_simulated(mock_allocator=allocator, page_size=BLOCK_SIZE)
        for key in keys[:num_prompts]:
            cache.insert(InsertParams(key=key, value=slots))
        return cache

    def tree_insert() -> Work:
        cache = tree(0)

        def work() -> int:
            for key in keys[:16]:
                cache.insert(InsertParams(key=key, value=slots))
            return 16

        return work

    def tree_match() -> Work:
        cache = tree(NUM_PROMPTS)
        found = cache.match_prefix(MatchPrefixParams(key=keys[3]))
        assert found.device_prefix_len == LENGTH, "the prompts are cached"

        def work() -> int:
            for _ in range(20):
                for key in keys:
                    cache.match_prefix(MatchPrefixParams(key=key))
            return 20 * NUM_PROMPTS

        return work

    def tree_evict() -> Work:
        cache = tree(NUM_PROMPTS)

        def work() -> int:
            for _ in range(NUM_PROMPTS // 2):
                cache.evict(EvictParams(num_tokens=LENGTH - SHARED))
            assert cache.total_size() == SHARED + NUM_PROMPTS // 2 * (LENGTH - SHARED)
            return NUM_PROMPTS // 2

        return work

    return {
        "insert 1,024 tokens into the tree": tree_insert,
        "match 1,024 tokens in the tree": tree_match,
        "evict 512 tokens from the tree": tree_evict,
    }


def seconds_per_unit(setup: Callable[[], Work]) -> float:
    """Processor time of one pass, after the setup; the garbage collector is off meanwhile."""
    work = setup()
    gc.collect()
    gc.disable()
    try:
        started = process_time()
        units = work()
        return (process_time() - started) / units
    finally:
        gc.enable()


def main(name: str) -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever the peer prints while it loads is no answer
    try:
        operations = {"ours": ours, "vllm": vllm, "sglang": sglang}[name]()
        version = "this checkout" if name == "ours" else importlib.metadata.version(name)
    except Exception as exc:
        print(json.dumps({"error": f"{type(exc).__name__}: {exc}"}), file=answers)
        return 1
    print(json.dumps({"version": version, "operations": list(operations)}), file=answers)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"seconds": seconds_per_unit(operations[json.loads(line)])}
        except Exception as exc:
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
