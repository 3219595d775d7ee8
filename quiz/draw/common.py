"""What the generators share: calls into core.sizing, models to draw from, numbers as text."""

from __future__ import annotations

from functools import cache
from typing import Any

from core.sizing import calls, catalog
from core.sizing.geometry import KVHeads, ModelSpec
from core.sizing.result import Number
from quiz.items import Answer

FORMATS = {"bf16": "BF16", "fp8": "FP8"}
GPUS = {"h100-sxm5": "H100 SXM5", "h200-sxm": "H200 SXM", "a100-sxm4-80": "A100 SXM4 80 GB"}


def calc(function: str, **inputs: Any) -> Number:
    """A sizing function by its name. Raises SizingError; AssertionError where there is no value."""
    value = calls.call(function, inputs).value
    assert value is not None, function
    return value


@cache
def grouped_models() -> tuple[str, ...]:
    """Real models of the catalogue whose layers are all alike, with grouped-query attention."""
    return tuple(name for name in catalog.names() if _is_grouped(catalog.get(name)))


def _is_grouped(model: ModelSpec) -> bool:
    if model.params is None or model.warnings or len(model.layer_groups) != 1:
        return False
    cache_of = model.layers[0].cache
    if not isinstance(cache_of, KVHeads) or cache_of.window is not None:
        return False
    return 1 < cache_of.num_kv_heads < model.layers[0].num_query_heads


def title(model: str) -> str:
    return catalog.entries()[model].title


def misread(model: str, kv_heads: int) -> dict[str, Any]:
    """The model's config as somebody misreads it: with another number of KV heads."""
    config = catalog.entries()[model].config
    if "kv_n_heads" in config.get("attn_config", {}):  # DBRX
        return {**config, "attn_config": {**config["attn_config"], "kv_n_heads": kv_heads}}
    name = "num_kv_heads" if "num_kv_heads" in config else "num_key_value_heads"
    return {**config, name: kv_heads}


def whole(value: Number) -> str:
    return f"{value:,}"


def binary(value: Number) -> str:
    """A size in KiB, MiB or GiB: exact where it is, else to three digits."""
    scaled, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if scaled < 1024 or unit == "TiB":
            break
        scaled /= 1024
    if scaled == int(scaled):
        return f"{int(scaled):,} {unit}"
    return f"{scaled:,.2f} {unit}" if scaled < 100 else f"{scaled:,.1f} {unit}"


def size(value: Number) -> Answer:
    """Bytes exactly, and the same in a binary unit."""
    return Answer(f"{whole(value)} B", binary(value))


def ms(seconds: Number) -> str:
    """A time with three digits: 0.0162 ms, 4.87 ms, 98.6 ms."""
    value = 1000 * float(seconds)
    if value >= 100:
        return f"{value:,.0f} ms"
    places = 1 if value >= 10 else 2 if value >= 1 else 3 if value >= 0.1 else 4
    return f"{value:.{places}f} ms"


def percent(share: Number) -> str:
    return f"{100 * float(share):,.1f}\u2009%"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def scenario(name: str, engine: dict[str, Any], requests: list[dict[str, Any]]) -> dict[str, Any]:
    """A scenario of the numbers just drawn, to be run by the engine."""
    return {"schema": "scenario/1", "name": name, "engine": engine, "requests": requests}
