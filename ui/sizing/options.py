"""What the page's controls offer, by name and title."""

from __future__ import annotations

from functools import cache

from core.sizing import catalog, gpus
from ui.sizing.place import EXAMPLES, GPU_COUNTS, KV_FORMATS, WEIGHT_FORMATS
from ui.sizing.shown import Json


@cache
def options() -> Json:
    """{models, gpus, counts, kv, w}: [[value, title]] each."""
    return {
        "models": [[name, one.title] for name, one in catalog.entries().items()],
        "gpus": [[name, gpus.get(name).title] for name in gpus.names()],
        "counts": [[str(count), str(count)] for count in GPU_COUNTS],
        "kv": [[name, title] for name, title in KV_FORMATS.items()],
        "examples": [[name, title] for name, (title, _) in EXAMPLES.items()],
        "w": [[name, title] for name, title in WEIGHT_FORMATS.items()],
    }
