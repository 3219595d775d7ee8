"""What the page's controls offer, by name and title."""

from __future__ import annotations

from functools import cache

from core.sizing import catalog, gpus
from core.sizing.errors import SizingError
from ui.roofline import figures, measured
from ui.roofline.place import DTYPES, EXAMPLES, LONGEST_STEPS, roof_names
from ui.sizing.place import KV_FORMATS, WEIGHT_FORMATS
from ui.sizing.shown import Json


@cache
def models() -> list[list[str]]:
    """[[name, title]] of the models whose parameters are known: others have no matrices."""
    return [[name, one.title] for name, one in catalog.entries().items() if _is_known(name)]


def _is_known(name: str) -> bool:
    try:
        figures.trail(name, "bf16", "h100-sxm5:bf16")
    except SizingError:
        return False
    return True


def options() -> Json:
    """{models, w, kv, examples, runs}: [[value, title]]; roofs: [[GPU, [[value, title]]]]; longest:
    characters of a selection that a link takes."""
    return {
        "models": models(),
        "w": [[name, title] for name, title in WEIGHT_FORMATS.items()],
        "kv": [[name, title] for name, title in KV_FORMATS.items()],
        "roofs": _roofs(),
        "examples": [[name, title] for name, (title, _) in EXAMPLES.items()],
        "runs": [[one.name, one.title] for one in measured.listed()],
        "longest": LONGEST_STEPS,
    }


@cache
def _roofs() -> list[list[object]]:
    out: list[list[object]] = []
    for name in gpus.names():
        gpu = gpus.get(name)
        entries = [
            [one, f"{figures.short_title(gpu)}, {DTYPES[one.partition(':')[2]]}"]
            for one in roof_names()
            if one.startswith(f"{name}:")
        ]
        out.append([gpu.title, entries])
    return out
