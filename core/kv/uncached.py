"""No KV cache at all: every step computes every token of a sequence again.

For the lesson on what the cache saves. No keys or values outlive a step, so there are no blocks to
give out, nothing to share and nothing to preempt for.
"""

from __future__ import annotations

from typing import Any

from core.config import EngineConfig
from core.prefix.base import Emit
from core.request import Sequence


class NoKVManager:
    """The same interface as `KVCacheManager`, without blocks. The whole pool stays free."""

    sliding_window: int | None = None

    def __init__(self, config: EngineConfig, emit: Emit | None = None) -> None:
        self.block_size = config.block_size
        self.step = 0
        self.copies: list[tuple[int, int]] = []
        self.num_free = config.num_blocks
        self._emit = emit if config.batching == "static" else None

    def find_prefix(self, seq: Sequence) -> list[int]:
        return []

    def admit(self, seq: Sequence, hit: list[int]) -> None:
        assert not hit

    def blocks_wanted(self, seq: Sequence, num_new_tokens: int) -> int:
        return 0

    def allocate_slots(self, seq: Sequence, num_new_tokens: int) -> int:
        return 0

    def fork(self, seq: Sequence, twins: list[Sequence]) -> None:
        """Twins share nothing: there is nothing."""

    def cache_blocks(self, seq: Sequence, start: int, stop: int) -> None:
        raise AssertionError("no block is ever full")

    def release_before_window(self, seq: Sequence) -> None:
        raise AssertionError("there is nothing to give back")

    def release(self, seq: Sequence, reason: str) -> None:
        """There is nothing to give up; but this event ends a static batch's hold on its members."""
        if self._emit is not None and reason == "finished":
            self._emit(("blocks_freed", seq.request.id, seq.id, reason, [], "front"))

    def usage(self) -> dict[str, int]:
        """Blocks free, cached and in use: all are free."""
        return {"free": self.num_free, "cached": 0, "in_use": 0}

    def state(self, step: int) -> dict[str, Any]:
        """Reference counts, free order, cached blocks and tree, as `--state` shows them."""
        return {
            "ref_counts": {},
            "free_order": list(range(self.num_free)),
            "cached": {},
            "tree": [],
        }

    def check(self) -> None:
        """Nothing can be wrong."""
