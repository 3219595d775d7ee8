"""Which manager a configuration asks for."""

from __future__ import annotations

from core.config import EngineConfig
from core.kv.contiguous import ContiguousKVManager
from core.kv.manager import KVCacheManager
from core.kv.uncached import NoKVManager
from core.prefix.base import Emit

KVManager = KVCacheManager | ContiguousKVManager | NoKVManager


def make_kv_manager(
    config: EngineConfig, emit: Emit | None, sliding_window: int | None
) -> KVManager:
    """Paged blocks, contiguous reservations, or nothing kept at all.

    sliding_window: tokens that every layer of the model sees, None: all. Only paged blocks can be
    given back before the end.
    """
    if not config.kv_cache:
        return NoKVManager(config, emit)
    if config.allocator == "contiguous":
        return ContiguousKVManager(config, emit)
    return KVCacheManager(config, emit, sliding_window)
