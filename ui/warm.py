"""Slow imports, done once and early, and then kept out of the garbage collector's way.

A full collection walks every object that the imports left behind, with the interpreter held, while
every visitor waits. `gc.freeze()` moves those objects where the collector does not look.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import threading

from core.errors import KVScopeError

# What a first visit would otherwise import. Never torch.
MODULES = (
    "pandas",
    "streamlit.dataframe_util",
    "core.simulate",
    "core.trace.run",
    "ui.runs",
    "ui.quiz_view",
)

COMPUTED = ("ui.claims.ledger:judged", "ui.numbers.sheet:data", "ui.course.index:body")
"""What is the same for every visitor, kept once computed, and takes longer than a click may."""

SWITCH_INTERVAL_S = 0.0005
"""How long one thread may hold the interpreter. Shorter than Python's 5 ms: with many visitors the
answer to a click is short work that should not queue behind another's long work."""

_started = threading.Lock()
_done = threading.Event()


def start() -> None:
    """Begin in the background, once per process."""
    if _started.acquire(blocking=False):
        threading.Thread(target=_warm, name="warm-imports", daemon=True).start()


def _warm() -> None:
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # the page that needs it says so
    for target in COMPUTED:
        module, _, name = target.partition(":")
        with contextlib.suppress(ImportError, KVScopeError):  # as above
            getattr(importlib.import_module(module), name)()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _done.set()


def done() -> bool:
    """Whether that is over: until then pages answer, but slowly to many visitors at once."""
    return _done.is_set()
