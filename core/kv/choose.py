"""Which manager a configuration asks for."""

from __future__ import annotations

from core.config import EngineConfig
from core.kv.contiguous import ContiguousKVManager
from core.kv.manager import KVCacheManager
from core.kv.uncached import NoKVManager
from core.prefix.base import Emit

KVManager = KVCacheManager | ContiguousKVManager | NoKVManager


def make_kv_manager(config: EngineConfig, emit: Emit | None) -> KVManager:
    """Paged blocks, contiguous reservations, or nothing kept at all."""
    if not config.kv_cache:
        return NoKVManager(config, emit)
    if config.allocator == "contiguous":
        return ContiguousKVManager(config, emit)
    return KVCacheManager(config, emit)
