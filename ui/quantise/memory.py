"""Bytes of a cache in a format: by the library's formula, and as an engine allocated them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.kv_spec import KVSpec
from core.sizing import catalog, kv, kv_format, kv_layers
from core.sizing.geometry import KVHeads, ModelSpec
from core.sizing.result import Result
from ui.quantise import formats
from ui.quantise.place import Place
from ui.sizing.shown import figure
from ui.status import DEFAULT_MODEL

Json = dict[str, Any]

BLOCK, BLOCKS = 16, 48
"""The pool of every run on the page."""
POOL = BLOCK * BLOCKS
"""Its tokens."""


@dataclass(frozen=True)
class Sized:
    """A format beside the model's own. own, token: bytes of a token. numbers: of the token's
    numbers alone. fixed: bytes of all fixed scales, beside the pool. pool, pool_own: of all blocks,
    with the fixed scales."""

    own: Result
    token: Result
    numbers: int
    fixed: int
    pool: int
    pool_own: int

    @property
    def ratio(self) -> float:
        """A token's bytes over those in the model's own format."""
        return float(self.token.value or 0) / float(self.own.value or 1)

    @property
    def held(self) -> int:
        """Tokens that the bytes of the model's own pool hold in this format."""
        return int((self.pool_own - self.fixed) // (self.token.value or 1))


def spec() -> ModelSpec:
    """The model that the page runs."""
    return catalog.get(DEFAULT_MODEL)


@lru_cache(maxsize=256)
def sized(found: KVSpec, own: str = "bfloat16", blocks: int = BLOCKS, block: int = BLOCK) -> Sized:
    """A format's bytes. own: the model's dtype, as a run's header names it. Raises KVScopeError
    where the format cannot be."""
    model, tokens = spec(), blocks * block
    fmt = kv_format.of(found.sizing_dtype(own, model.num_layers))
    rows = kv_layers.of_model(model, fmt)
    numbers = sum(row.count * row.payload for row in rows)
    fixed = kv_layers.static(rows)
    mine, theirs = kv.kv_bytes_per_token(model, own), kv.kv_bytes_per_token(model, fmt)
    whole = kv.kv_bytes_sequence(model, tokens, fmt)
    return Sized(
        mine,
        theirs,
        numbers,
        fixed,
        int(whole.value or 0) + fixed,
        int(kv.kv_bytes_sequence(model, tokens, own).value or 0),
    )


def of_place(place: Place, own: str = "bfloat16") -> Sized:
    """As `sized`, of where the controls stand."""
    return sized(place.spec, own)


def allocated(header: Json) -> Json | None:
    """What a run's engine allocated, beside the formula; None where its header does not say.

    {token, token_formula, pool, pool_formula, fixed, fixed_formula, blocks, block}, in bytes.
    """
    own = str(header["source"].get("dtype"))
    if own not in formats.OWN or header.get("kv_cache_bytes") is None:
        return None
    engine = header["scenario"]["engine"]
    blocks, block = engine["num_blocks"], engine["block_size"]
    by_formula = sized(formats.spec(engine["kv_dtype"]), own, blocks, block)
    return {
        "blocks": blocks,
        "block": block,
        "token": header["kv_bytes_per_token"],
        "token_formula": by_formula.token.value,
        "pool": header["kv_cache_bytes"],
        "pool_formula": by_formula.pool,
        "fixed": (header.get("kv_format") or {}).get("scale_bytes", 0),
        "fixed_formula": by_formula.fixed,
    }


def part(place: Place, own: str) -> Json:
    """For the instrument. own: the model's own dtype, as the runs that are shown have it."""
    done, name = of_place(place, own), formats.own_name(own)
    model = spec()
    shape = model.layers[0].cache
    assert isinstance(shape, KVHeads)  # the page runs one model, and that is its kind
    heads = f"{shape.num_kv_heads} KV heads, head_dim {shape.key_dim}"
    return {
        "own": name,
        "name": formats.short(place.spec),
        "title": formats.title(place.spec, name),
        "shape": f"{model.num_layers} layers, {heads}",
        "own_token": figure(done.own, f"a token in {name}"),
        "token": figure(done.token, "a token in this format"),
        "numbers": done.numbers,
        "scales": int(done.token.value or 0) - done.numbers,
        "fixed": done.fixed,
        "bare": done.numbers / float(done.own.value or 1),
        "ratio": done.ratio,
        "pool_tokens": POOL,
        "pool_bytes": done.pool_own,
        "held": done.held,
    }
