"""The derivations of KV bytes in words: symbols and steps, from what each layer keeps."""

from __future__ import annotations

from collections.abc import Sequence

from core.sizing import scales
from core.sizing.formats import Format
from core.sizing.geometry import FixedState, KVHeads, Latent, LayerCache, ModelSpec
from core.sizing.kv_format import KVFormat
from core.sizing.kv_layers import LayerBytes
from core.sizing.result import Step, Symbol


def symbols_of(rows: Sequence[LayerBytes], fmt: KVFormat) -> tuple[Symbol, ...]:
    """The letters of `token_steps`: of the first kind of layer, and of the others where they
    differ, numbered."""
    out, seen = [], set()
    for index, row in enumerate(row for row in rows if row.cache is not None):
        cache, tail = row.cache, f"_{index}" if index else ""
        letters = [Symbol("L", "layers that keep this", row.count, "layers")]
        if isinstance(cache, Latent):
            letters.append(Symbol("d_latent", "latent", cache.latent_dim, "numbers"))
            letters.append(Symbol("d_rope", "rotary key", cache.rope_dim, "numbers"))
        elif isinstance(cache, KVHeads):
            letters.append(Symbol("n_kv", "KV heads kept", row.heads, "heads"))
            if cache.key_dim == cache.value_dim:
                letters.append(Symbol("d_head", "numbers per head", cache.key_dim, "numbers"))
            else:
                letters.append(Symbol("d_k", "numbers per key", cache.key_dim, "numbers"))
                letters.append(Symbol("d_v", "numbers per value", cache.value_dim, "numbers"))
        letters.append(_b(row.key, "b" if row.key == row.value else "b_k"))
        if row.key != row.value:
            letters.append(_b(row.value, "b_v"))
        if row.window is not None:
            letters.append(Symbol("W", "window", row.window, "tokens"))
        for letter in letters:
            if (letter.symbol, letter.value) not in seen:
                seen.add((letter.symbol, letter.value))
                out.append(
                    Symbol(letter.symbol + tail, letter.meaning, letter.value, letter.unit)
                    if tail
                    else letter
                )
    what = fmt.scales
    if what.kind != scales.NONE:
        out.append(Symbol("s", scales.MEANING[what.kind], what.scale_bytes, "B"))
        if what.zero_bytes:
            out.append(Symbol("z", "zero point beside each scale", what.zero_bytes, "B"))
        if what.group_size:
            out.append(Symbol("g", "numbers to a scale", what.group_size, "numbers"))
    return tuple(out)


def token_steps(rows: Sequence[LayerBytes], fmt: KVFormat) -> list[Step]:
    """One step for the numbers of each kind of layer, then one for its scales and its indexer."""
    steps = [_payload_step(row, fmt) for row in rows if row.payload]
    steps += scale_steps([row for row in rows if row.scale], fmt)
    steps += [
        Step(
            "L · indexer keys",
            f"{row.count} · {row.indexer}",
            row.count * row.indexer,
            "B",
        )
        for row in rows
        if row.indexer
    ]
    return steps


def scale_steps(rows: Sequence[LayerBytes], fmt: KVFormat, *, fixed: bool = False) -> list[Step]:
    """One step for the scales of each kind of layer: per token, or once if fixed."""
    each = "(s + z)" if fmt.scales.zero_bytes else "s"
    out = []
    for row in rows:
        size = row.static if fixed else row.scale
        number = size // fmt.scales.each
        out.append(
            Step(
                f"L · scales per layer · {each}",
                f"{row.count} · {number} · {fmt.scales.each}",
                row.count * size,
                "B",
            )
        )
    return out


def with_sum(steps: Sequence[Step], unit: str) -> tuple[Step, ...]:
    """The steps, and their sum if there are several."""
    if len(steps) < 2:
        return tuple(steps)
    values = [step.value for step in steps]
    return (*steps, Step("sum", " + ".join(map(str, values)), sum(values), unit))


def length_symbol(length: int) -> Symbol:
    return Symbol("S", "length of the sequence", length, "tokens")


def state_symbols(model: ModelSpec, fmt: KVFormat) -> tuple[Symbol, ...]:
    """The parts of the fixed states, each kind of layer once."""
    out = []
    for layer, count in model.layer_groups:
        for fixed in (layer.cache, layer.state):
            if isinstance(fixed, FixedState):
                for name, elements, width in fixed.parts:
                    kept = f"{width} B each" if width else fmt.state_format.name
                    meaning = f"{name} of {count} {fixed.kind} layers, {kept}"
                    out.append(Symbol("state", meaning, elements, "numbers"))
    return tuple(out)


def copies(cache: LayerCache, split: int) -> str:
    """What is said of a cache that `split` GPUs keep more than once; "" if they do not."""
    if split > 1 and isinstance(cache, Latent):
        return f"the latent is one vector for all heads: each of the {split} GPUs keeps it whole"
    if isinstance(cache, KVHeads) and split > cache.num_kv_heads:
        return (
            f"{cache.num_kv_heads} KV heads over {split} GPUs: each head is kept "
            f"{split // cache.num_kv_heads} times"
        )
    return ""


def _b(fmt: Format, letter: str) -> Symbol:
    return Symbol(letter, f"bytes per number in {fmt.name}", fmt.bytes_per_element, "B")


def _payload_step(row: LayerBytes, fmt: KVFormat) -> Step:
    cache, key, value = row.cache, row.key, row.value
    total = row.count * row.payload
    if isinstance(cache, Latent):
        if fmt.rope and fmt.rope is not key:
            return Step(
                "L · (d_latent · b + d_rope · b_rope)",
                f"{row.count} · ({cache.latent_dim} · {key.b} + {cache.rope_dim} · {fmt.rope.b})",
                total,
                "B",
            )
        return Step(
            "L · (d_latent + d_rope) · b",
            f"{row.count} · ({cache.latent_dim} + {cache.rope_dim}) · {key.b}",
            total,
            "B",
        )
    assert isinstance(cache, KVHeads)  # only these two have a payload
    if any(
        dim % fmt.block_elements for dim, fmt in ((cache.key_dim, key), (cache.value_dim, value))
    ):
        return Step(
            "L · n_kv · (⌈d_k · b⌉ + ⌈d_v · b⌉)",
            f"{row.count} · {row.heads} · (⌈{cache.key_dim} · {key.b}⌉ + "
            f"⌈{cache.value_dim} · {value.b}⌉)",
            total,
            "B",
        )
    if key == value and cache.key_dim == cache.value_dim:
        return Step(
            "2 · L · n_kv · d_head · b",
            f"2 · {row.count} · {row.heads} · {cache.key_dim} · {key.b}",
            total,
            "B",
        )
    if key == value:
        return Step(
            "L · n_kv · (d_k + d_v) · b",
            f"{row.count} · {row.heads} · ({cache.key_dim} + {cache.value_dim}) · {key.b}",
            total,
            "B",
        )
    return Step(
        "L · n_kv · (d_k · b_k + d_v · b_v)",
        f"{row.count} · {row.heads} · ({cache.key_dim} · {key.b} + {cache.value_dim} · {value.b})",
        total,
        "B",
    )
