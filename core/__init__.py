"""KV Scope's engine: `from core import LLM, SamplingParams`.

`LLM` loads torch, so both are imported only when they are asked for: simulations never need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.llm import LLM
    from core.outputs import SamplingParams

__all__ = ["LLM", "SamplingParams"]

_WHERE = {"LLM": "core.llm", "SamplingParams": "core.outputs"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
