"""Numbers to know: units, weights, links, and tokens in a gibibyte."""

from __future__ import annotations

from random import Random

from core.sizing import catalog
from quiz.draw.common import (
    FORMATS,
    calc,
    gb,
    geometry,
    grouped_models,
    misread,
    three,
    title,
    whole,
)
from quiz.items import Answer, Drawn, Proof


def _sheet(group: str) -> Proof:
    return Proof({"group": group}, page="numbers")


def gib(rng: Random) -> Drawn:
    """A binary size in decimal units."""
    size = rng.choice((6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 120, 141))
    amounts = {
        "right": float(calc("convert", value=size, from_="GiB", to="GB")),
        "same": float(size),
        "turned_round": float(calc("convert", value=size, from_="GB", to="GiB")),
        "one_kilo": size * 1.024,
        "bits": size * 8.0,
    }
    return Drawn(
        values={
            "size": size,
            "right": f"{amounts['right']:,.1f}",
            "apart": f"{amounts['right'] - size:,.1f}",
        },
        answers={key: Answer(f"{value:,.1f} GB") for key, value in amounts.items()},
        sign=f"{size}",
        given=(f"{size} GiB",),
        proof=_sheet("pool"),
    )


def weights(rng: Random) -> Drawn:
    """Bytes of a model's weights."""
    model = rng.choice(grouped_models())
    dtype, width = rng.choice((("bf16", 2.0), ("fp8", 1.0), ("int4", 0.5)))
    right = float(calc("weight_bytes", model=model, dtype=dtype))
    spec = catalog.get(model)
    params = spec.params or 0
    amounts = {
        "right": right,
        "four_bytes": 4.0 * params,
        "bits_as_bytes": 8 * width * params,
        "halved": right / 2,
        "cache": float(calc("kv_bytes_sequence", model=model, tokens=4096)),
    }
    names = {"bf16": "BF16", "fp8": "FP8", "int4": "INT4, without scales"}
    each = {"bf16": "two bytes", "fp8": "one byte", "int4": "half a byte"}
    return Drawn(
        values={
            "model": title(model),
            "format": names[dtype],
            "each": each[dtype],
            "params": f"{three(params / 1e9)} billion",
            "right": gb(right),
        },
        answers={key: Answer(gb(value)) for key, value in amounts.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(f"parameters {params:,}",),
        proof=_sheet("weights"),
    )


def link_rate(rng: Random) -> Drawn:
    """Bytes a second of a network port that is sold in bits."""
    bits = rng.choice((100, 200, 400, 800))
    ports = rng.randrange(2, 9)
    right = ports * float(calc("convert", value=bits, from_="Gbit/s", to="GB/s"))
    rates = {
        "right": right,
        "as_bytes": float(ports * bits),
        "multiplied": float(ports * bits * 8),
        "by_ten": ports * bits / 10,
        "both_ways": 2 * right,
    }
    return Drawn(
        values={"bits": bits, "ports": ports, "right": f"{right:,.1f}"},
        answers={key: Answer(f"{value:,.1f} GB/s") for key, value in rates.items()},
        sign=f"{bits} {ports}",
        given=(f"ports {ports}", f"{bits} Gb/s each, one way"),
        proof=_sheet("transfer"),
    )


def pcie(rng: Random) -> Drawn:
    """Bytes a second of a PCIe link, one way."""
    gen, lanes = rng.choice((3, 4, 5, 6)), rng.choice((4, 8, 16))
    right = float(calc("pcie_bandwidth", gen=gen, lanes=lanes))
    rates = {
        "right": right,
        "both_ways": 2 * right,
        "bits": 8 * right,
        "before": right / 2,
        "one_lane": right / lanes,
    }
    return Drawn(
        values={"gen": gen, "lanes": lanes, "right": f"{three(right / 1e9)} GB/s"},
        answers={key: Answer(f"{three(value / 1e9)} GB/s") for key, value in rates.items()},
        sign=f"{gen} {lanes}",
        given=(f"generation {gen}", f"lanes {lanes}"),
        proof=_sheet("transfer"),
    )


def per_gib(rng: Random) -> Drawn:
    """Tokens whose keys and values fit into one GiB."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    shape = geometry(model)
    each = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    every = int(calc("kv_bytes_per_token", config=misread(model, shape["n_heads"]), dtype=dtype))
    counts = {
        "right": 2**30 // each,
        "query_heads": 2**30 // every,
        "decimal": 10**9 // each,
        "keys_only": 2**31 // each,
        "one_layer": 2**30 * shape["n_layers"] // each,
    }
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "dtype": FORMATS[dtype],
            "each": whole(each),
            "right": whole(counts["right"]),
        },
        answers={key: Answer(f"{value:,} tokens") for key, value in counts.items()},
        sign=f"{model} {dtype}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
        ),
        proof=Proof({"model": model, "kv": dtype, "ctx": 4096, "n": 1}, page="kv_sizing"),
    )
