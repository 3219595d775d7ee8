"""What the generators share: calls into core.sizing, models to draw from, numbers as text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import floor, log10
from typing import Any

from core.sizing import calls, catalog, gpus
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
    layer = model.layers[0]
    if not isinstance(layer.cache, KVHeads) or layer.cache.window is not None:
        return False
    if layer.state is not None or layer.indexer_dim:  # the product would not be the whole of it
        return False
    return 1 < layer.cache.num_kv_heads < layer.num_query_heads


def title(model: str) -> str:
    return catalog.entries()[model].title


def gpu_title(gpu: str) -> str:
    """As people call it: without its maker and what stands in brackets."""
    return gpus.get(gpu).title.split(" (")[0].split(" ", 1)[1]


def geometry(model: str) -> dict[str, int]:
    """Layers, heads, KV heads, head dimension and hidden size of a model whose layers are alike."""
    fields = catalog.get(model).fields
    wanted = ("n_layers", "n_heads", "n_kv_heads", "d_head", "d_model")
    return {name: int(str(fields[name])) for name in wanted}


def misread(model: str, kv_heads: int) -> dict[str, Any]:
    """A config of the model's geometry, as somebody misreads it: with other KV heads. The model's
    own config would not do: families name their KV heads differently, some of them twice."""
    shape = geometry(model)
    return {
        "model_type": "llama",
        "num_hidden_layers": shape["n_layers"],
        "num_attention_heads": shape["n_heads"],
        "num_key_value_heads": kv_heads,
        "head_dim": shape["d_head"],
        "hidden_size": shape["d_model"],
        "intermediate_size": 4 * shape["d_model"],
        "vocab_size": catalog.get(model).vocab_size,
    }


def whole(value: Number) -> str:
    return f"{value:,}"


def binary(value: Number) -> str:
    """A size in KiB, MiB or GiB, to three digits."""
    scaled, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if scaled < 1024 or unit == "TiB":
            break
        scaled /= 1024
    return f"{scaled:.0f} B" if unit == "B" else f"{three(scaled)} {unit}"


def size(value: Number) -> Answer:
    """Bytes exactly, and the same in a binary unit."""
    return Answer(f"{whole(value)} B", binary(value))


def three(value: Number) -> str:
    """A number with three digits: 0.00681, 4.87, 98.6; from 100 on whole."""
    number = float(value)
    if number == 0 or number >= 999.5:
        return f"{number:,.0f}"
    rounded = float(f"{number:.2e}")
    return f"{rounded:.{max(0, 2 - floor(log10(rounded)))}f}"


def ms(seconds: Number) -> str:
    """A time with three digits: 0.00681 ms, 4.87 ms, 98.6 ms."""
    return f"{three(1000 * float(seconds))} ms"


def gb(value: Number) -> str:
    """Bytes in decimal units with three digits."""
    return f"{three(float(value) / 1e9)} GB"


def alike(values: Mapping[str, Number], unit: str = "") -> dict[str, Answer]:
    """Answers to as many decimals each: none where all are whole, else one. unit: behind each."""
    places = 0 if all(float(value).is_integer() for value in values.values()) else 1
    tail = f" {unit}" if unit else ""
    return {key: Answer(f"{float(value):,.{places}f}{tail}") for key, value in values.items()}


def times(value: Number) -> Answer:
    """How many times as much, to two places."""
    return Answer(f"{float(value):,.2f} ×")


def percent(share: Number) -> str:
    return f"{100 * float(share):,.1f}\u2009%"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def scenario(name: str, engine: dict[str, Any], requests: list[dict[str, Any]]) -> dict[str, Any]:
    """A scenario of the numbers just drawn, to be run by the engine."""
    return {"schema": "scenario/1", "name": name, "engine": engine, "requests": requests}
