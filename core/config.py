"""Engine settings: what a scenario may choose. Defaults are those of the scenario schema."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Any, Literal

from core.kv_spec import KVDtype, KVSpec


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The engine half of a scenario.

    Sizes are in blocks (`num_blocks`), tokens (`block_size`, `max_num_batched_tokens`,
    `max_model_len`, `long_prefill_token_threshold`) and sequences (`max_num_seqs`).
    `watermark` is a share of the pool, 0 … 1, that admission leaves free while anything runs.
    `kv_dtype` is what the cache stores (`core.kv_spec`); `measure_kv_error` compares what was
    stored with what was to be, and tells it in every step's record.
    `async_scheduling`: decide a step while the one before it is computed (`core.sched.ahead`).
    """

    num_blocks: int = 16
    block_size: int = 4
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 64
    max_model_len: int = 64
    allocator: Literal["paged", "contiguous"] = "paged"
    reserve: Literal["max_model_len", "request"] = "max_model_len"
    prefix_cache: Literal["radix", "hash", "off"] = "radix"
    eviction: Literal["lru", "fifo", "lfu"] = "lru"
    batching: Literal["continuous", "static"] = "continuous"
    policy: Literal["fcfs", "priority"] = "fcfs"
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    preemption: Literal["recompute"] = "recompute"
    watermark: float = 0.0
    kv_cache: bool = True
    kv_dtype: KVDtype = "model"
    measure_kv_error: bool = False
    async_scheduling: bool = False

    @property
    def watermark_blocks(self) -> int:
        """⌈watermark · num_blocks⌉, with the watermark as the exact decimal that was written."""
        return ceil(Decimal(repr(float(self.watermark))) * self.num_blocks)

    @property
    def num_kv_blocks(self) -> int:
        """Blocks that a KV store needs: one that nobody uses, where nothing is kept."""
        return self.num_blocks if self.kv_cache else 1

    @property
    def kv_pool(self) -> dict[str, Any]:
        """What a runner's `bind` needs to make the pool."""
        return {
            "num_blocks": self.num_kv_blocks,
            "block_size": self.block_size,
            "kv_dtype": self.kv_dtype,
            "measure_kv_error": self.measure_kv_error,
        }

    @property
    def kv_spec(self) -> KVSpec:
        """What the cache stores, read. Raises ScenarioError."""
        return KVSpec.of(self.kv_dtype)

    def tokens_at_most(self, num_prompt_tokens: int, max_tokens: int) -> int:
        """min(P + max_tokens, max_model_len): tokens of a sequence when it must end."""
        return min(num_prompt_tokens + max_tokens, self.max_model_len)

    def blocks_for(self, num_tokens: int) -> int:
        """⌈num_tokens / block_size⌉."""
        return -(-num_tokens // self.block_size)
