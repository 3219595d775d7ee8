"""What a guess of the prediction shows: the right product, or the misconception that it equals.

Every candidate is a product of the config's own fields; the right ones come from the library.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from core.sizing import catalog, kv
from core.sizing.units import both

MODEL = "qwen3-32b"
"""A config whose head_dim is not hidden size over heads: every usual slip gives another number."""

GPUS = 16
FIELDS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "torch_dtype",
)


def config() -> dict[str, Any]:
    """The fields of the config that are shown."""
    whole = catalog.entries()[MODEL].config
    return {name: whole[name] for name in FIELDS if name in whole}


@cache
def right() -> int:
    """Bytes of a token, of the library."""
    return int(kv.kv_bytes_per_token(catalog.get(MODEL)).value or 0)


@cache
def slips() -> dict[str, tuple[int, ...]]:
    """Section of the lesson → the numbers that lead to it, the likeliest slip first."""
    c = config()
    layers, query, heads = (
        c["num_hidden_layers"],
        c["num_attention_heads"],
        c["num_key_value_heads"],
    )
    dim, hidden = c["head_dim"], c["hidden_size"]
    width = {
        "wrong-hidden": hidden,
        "wrong-query-heads": query * dim,
        "wrong-head-dim": heads * (hidden // query),
        "wrong-one-head": dim,
    }
    whole = {name: 2 * layers * numbers * 2 for name, numbers in width.items()}
    return {
        "wrong-half": (right() // 2, right() // 4),
        "wrong-one-layer": (right() // layers,),
        # Whoever forgets a factor of two besides has the same first slip.
        **{name: (full, full // 2, full // 4) for name, full in whole.items()},
    }


def feedback(guess: int) -> str:
    """The section that answers a guess."""
    if guess == right():
        return "right"
    return next((name for name, values in slips().items() if guess in values), "wrong")


@cache
def values() -> dict[str, str]:
    """What the lesson's sentences name."""
    c = config()
    heads = c["num_key_value_heads"]
    out = {
        "n_layers": c["num_hidden_layers"],
        "n_heads": c["num_attention_heads"],
        "n_kv": heads,
        "d_head": c["head_dim"],
        "d_model": c["hidden_size"],
        "width": heads * c["head_dim"],
        "derived": c["hidden_size"] // c["num_attention_heads"],
        "group": c["num_attention_heads"] // heads,
        "copies": GPUS // heads,
        "right": right(),
        "again": on_each(),
    }
    return {**{name: f"{value:,}" for name, value in out.items()}, "both": both(right())}


@cache
def on_each() -> int:
    """Bytes of a token on each of GPUS GPUs."""
    return int(kv.kv_bytes_per_token(catalog.get(MODEL), scope="gpu", tp=GPUS).value or 0)


def feedback_again(guess: int) -> str:
    """The section that answers the second guess."""
    if guess == on_each():
        return "again-right"
    if guess == right() // GPUS:
        return "again-wrong-divided"
    return "again-wrong-whole" if guess == right() else "again-wrong"
