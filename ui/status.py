"""What this machine can do, found out without importing torch or touching the network."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import time
from dataclasses import dataclass
from functools import cache, lru_cache

DEFAULT_MODEL = "smollm2-135m-instruct"
MODEL_NAME = "SmolLM2-135M-Instruct"
LOOK_AGAIN_S = 5
"""How old an answer about the disk may be: every run of every page asks, and most ask in vain."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """torch_version: None where torch is absent. model_fetched: the default model lies on disk."""

    torch_version: str | None
    model_fetched: bool
    cores: int

    @property
    def can_run_model(self) -> bool:
        return self.torch_version is not None and self.model_fetched


def version() -> str:
    """The product's version."""
    from core.version import VERSION

    return VERSION


@cache
def torch_version() -> str | None:
    """The installed torch, from its metadata: importing it costs 200 MiB and more than a second.

    Looked up once a process: reading the metadata costs as much as drawing a small page.
    """
    try:
        if importlib.util.find_spec("torch") is None:
            return None
        return importlib.metadata.version("torch")
    except (ImportError, ValueError):
        return None


def model_fetched() -> bool:
    """Whether the default model lies whole in the user's cache: sizes compared, nothing loaded."""
    try:
        from core.errors import KVScopeError
        from core.model.cache import load_path
    except ImportError:
        return False
    try:
        load_path(DEFAULT_MODEL)
    except (KVScopeError, OSError):
        return False
    return True


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        return os.cpu_count() or 1


def engine_is_off() -> bool:
    """Whether the operator wants no engine here."""
    return os.environ.get("KV_SCOPE_ENGINE", "").lower() in ("off", "0", "no")


def engine_state() -> EngineState:
    return EngineState(torch_version(), _fetched(int(time.monotonic() / LOOK_AGAIN_S)), cores())


@lru_cache(maxsize=1)
def _fetched(tick: int) -> bool:
    """`model_fetched`, at most once a tick."""
    return model_fetched()
