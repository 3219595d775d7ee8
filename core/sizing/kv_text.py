"""The derivations of KV bytes in words: symbols and steps, from what each layer keeps."""

from __future__ import annotations

from collections.abc import Sequence

from core.sizing import formats, scales
from core.sizing.formats import Format
from core.sizing.geometry import FixedState, KVHeads, Latent, LayerCache, ModelSpec
from core.sizing.kv_format import KVFormat
from core.sizing.kv_layers import LayerBytes
from core.sizing.result import Step, Symbol


class Letters:
    """The letters of the formulas: of the first kind of layer plain (L, n_kv), of a later kind with
    its number (L_1) where its value is another."""

    def __init__(self, rows: Sequence[LayerBytes], fmt: KVFormat) -> None:
        self._first: dict[str, Symbol] = {}
        self._out: list[Symbol] = []
        self._names: list[dict[str, str]] = [
            self._of_row(index, _letters(row)) for index, row in enumerate(rows)
        ]
        self._out += _shared_letters(fmt)

    def _of_row(self, index: int, letters: list[Symbol]) -> dict[str, str]:
        names = {}
        for letter in letters:
            first = self._first.setdefault(letter.symbol, letter)
            name = letter.symbol
            if first is letter:
                self._out.append(letter)
            elif first.value != letter.value:
                name = f"{letter.symbol}_{index}"
                self._out.append(Symbol(name, letter.meaning, letter.value, letter.unit))
            names[letter.symbol] = name
        return names

    def of(self, index: int) -> dict[str, str]:
        """symbol → its name in the formulas of the row."""
        return self._names[index]

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(self._out)


def token_steps(rows: Sequence[LayerBytes], fmt: KVFormat, letters: Letters) -> list[Step]:
    """Bytes per token, kind of layer by kind of layer: numbers, scales, indexer keys."""
    return [
        step
        for index, row in enumerate(rows)
        for step in row_steps(row, fmt, letters.of(index))
        if step.value
    ]


def row_steps(row: LayerBytes, fmt: KVFormat, names: dict[str, str]) -> list[Step]:
    """Bytes per token of one kind of layer."""
    steps = []
    if row.payload:
        steps.append(_payload_step(row, fmt, names))
    if row.scale:
        steps.append(_scale_step(row, row.scale, fmt, names))
    if row.indexer:
        total = row.count * row.indexer
        steps.append(
            Step(f"{names['L']} · indexer keys", f"{row.count} · {row.indexer}", total, "B")
        )
    return steps


def static_steps(rows: Sequence[LayerBytes], fmt: KVFormat, letters: Letters) -> list[Step]:
    """Scales that are kept once."""
    return [
        _scale_step(row, row.static, fmt, letters.of(index))
        for index, row in enumerate(rows)
        if row.static
    ]


def sequence_steps(
    rows: Sequence[LayerBytes], length: int, fmt: KVFormat, letters: Letters
) -> tuple[list[Step], list[Symbol]]:
    """Bytes of one sequence, and the symbols M, M_1 … (bytes per token) that the steps name."""
    steps: list[Step] = []
    totals: list[Step] = []
    named: list[Symbol] = []
    for index, row in enumerate(rows):
        if not row.per_token:
            continue
        own = row_steps(row, fmt, letters.of(index))
        per_token = row.count * row.per_token
        name = f"M_{len(named)}" if named else "M"
        steps += own
        if len(own) > 1:
            steps.append(Step(name, " + ".join(str(s.value) for s in own), per_token, "B"))
        named.append(Symbol(name, f"bytes per token of {row.count} layers", per_token, "B"))
        window = letters.of(index).get("W")
        formula = f"{name} · min(S, {window})" if window else f"{name} · S"
        kept = row.tokens(length)
        totals.append(Step(formula, f"{per_token} · {kept}", per_token * kept, "B"))
    return [*steps, *with_sum(totals, "B")], named


def with_sum(steps: Sequence[Step], unit: str) -> tuple[Step, ...]:
    """The steps, and their sum if there are several."""
    if len(steps) < 2:
        return tuple(steps)
    values = [step.value for step in steps]
    return (*steps, Step("sum", " + ".join(map(str, values)), sum(values), unit))


def length_symbol(length: int) -> Symbol:
    return Symbol("S", "length of the sequence", length, "tokens")


def state_steps(
    model: ModelSpec, fmt: KVFormat, split: int
) -> tuple[tuple[Step, ...], tuple[Symbol, ...]]:
    """Fixed state on one of `split` GPUs: a step and a symbol for each part."""
    steps: list[Step] = []
    letters: dict[str, Symbol] = {}
    for layer, count in model.layer_groups:
        for fixed in (layer.cache, layer.state):
            if not isinstance(fixed, FixedState):
                continue
            for part, elements, width in fixed.parts:
                number, kept = elements // split, fmt.state_format
                size = number * width if width else formats.bytes_of(number, kept)
                b = f"{width}" if width else kept.b
                shown = f"{number} · {b}"
                if not width and number % kept.block_elements:
                    shown = f"⌈{shown}⌉"
                name = part if part not in letters else f"{part}_{len(letters)}"
                meaning = f"numbers in each of {count} {fixed.kind} layers"
                letters[name] = Symbol(name, meaning, number, "numbers")
                total = count * size
                steps.append(Step(f"layers · {name} · bytes", f"{count} · {shown}", total, "B"))
    return with_sum(steps, "B"), tuple(letters.values())


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


def _letters(row: LayerBytes) -> list[Symbol]:
    cache = row.cache
    out = [Symbol("L", "layers that keep this", row.count, "layers")]
    if isinstance(cache, Latent):
        out.append(Symbol("d_latent", "numbers of the latent", cache.latent_dim, "numbers"))
        out.append(Symbol("d_rope", "numbers of the rotary key", cache.rope_dim, "numbers"))
    elif isinstance(cache, KVHeads):
        out.append(Symbol("n_kv", "KV heads kept", row.heads, "heads"))
        if cache.key_dim == cache.value_dim:
            out.append(Symbol("d_head", "numbers per head", cache.key_dim, "numbers"))
        else:
            out.append(Symbol("d_k", "numbers per key", cache.key_dim, "numbers"))
            out.append(Symbol("d_v", "numbers per value", cache.value_dim, "numbers"))
    if cache is not None:
        if row.key is row.value:
            out.append(_b(row.key, "b"))
        else:
            out += [_b(row.key, "b_k"), _b(row.value, "b_v")]
    if row.window is not None:
        out.append(Symbol("W", "window", row.window, "tokens"))
    return out


def _shared_letters(fmt: KVFormat) -> list[Symbol]:
    what, out = fmt.scales, []
    if fmt.rope is not None and fmt.rope is not fmt.key:
        out.append(_b(fmt.rope, "b_rope"))
    if what.kind != scales.NONE:
        out.append(Symbol("s", scales.MEANING[what.kind], what.scale_bytes, "B"))
        if what.zero_bytes:
            out.append(Symbol("z", "zero point beside each scale", what.zero_bytes, "B"))
        if what.group_size:
            out.append(Symbol("g", "numbers to a scale", what.group_size, "numbers"))
    return out


def _b(fmt: Format, letter: str) -> Symbol:
    return Symbol(letter, f"bytes per number in {fmt.name}", fmt.bytes_per_element, "B")


def _scale_step(row: LayerBytes, size: int, fmt: KVFormat, names: dict[str, str]) -> Step:
    """size: bytes of the scales of one of these layers."""
    each = "(s + z)" if fmt.scales.zero_bytes else "s"
    return Step(
        f"{names['L']} · scales per layer · {each}",
        f"{row.count} · {size // fmt.scales.each} · {fmt.scales.each}",
        row.count * size,
        "B",
    )


def _payload_step(row: LayerBytes, fmt: KVFormat, names: dict[str, str]) -> Step:
    cache, key, value, n = row.cache, row.key, row.value, names
    if isinstance(cache, Latent):
        return _latent_step(row, cache, fmt, names)
    assert isinstance(cache, KVHeads)  # only these two have a payload
    lead, heads = n["L"], n["n_kv"]
    same_dim = cache.key_dim == cache.value_dim
    d_k, d_v = (n["d_head"], n["d_head"]) if same_dim else (n["d_k"], n["d_v"])
    b_k, b_v = (n["b"], n["b"]) if key is value else (n["b_k"], n["b_v"])
    if cache.key_dim % key.block_elements or cache.value_dim % value.block_elements:
        formula = f"{lead} · {heads} · (⌈{d_k} · {b_k}⌉ + ⌈{d_v} · {b_v}⌉)"
        numbers = (
            f"{row.count} · {row.heads} · (⌈{cache.key_dim} · {key.b}⌉ + "
            f"⌈{cache.value_dim} · {value.b}⌉)"
        )
    elif key is not value:
        formula = f"{lead} · {heads} · ({d_k} · {b_k} + {d_v} · {b_v})"
        numbers = (
            f"{row.count} · {row.heads} · ({cache.key_dim} · {key.b} + "
            f"{cache.value_dim} · {value.b})"
        )
    elif same_dim:
        formula = f"2 · {lead} · {heads} · {d_k} · {b_k}"
        numbers = f"2 · {row.count} · {row.heads} · {cache.key_dim} · {key.b}"
    else:
        formula = f"{lead} · {heads} · ({d_k} + {d_v}) · {b_k}"
        numbers = f"{row.count} · {row.heads} · ({cache.key_dim} + {cache.value_dim}) · {key.b}"
    return Step(formula, numbers, row.count * row.payload, "B")


def _latent_step(row: LayerBytes, cache: Latent, fmt: KVFormat, names: dict[str, str]) -> Step:
    latent, rope = cache.latent_dim, cache.rope_dim
    together = latent + rope, f"({names['d_latent']} + {names['d_rope']})", f"({latent} + {rope})"
    terms = [(*together, row.key, names["b"])]
    if fmt.rope is not None and fmt.rope is not row.key:
        terms = [
            (latent, names["d_latent"], f"{latent}", row.key, names["b"]),
            (rope, names["d_rope"], f"{rope}", fmt.rope, "b_rope"),
        ]
    formulas, numbers = [], []
    for dim, letter, number, kept, b in terms:
        padded = dim % kept.block_elements
        formulas.append(f"⌈{letter} · {b}⌉" if padded else f"{letter} · {b}")
        numbers.append(f"⌈{number} · {kept.b}⌉" if padded else f"{number} · {kept.b}")
    formula, shown = " + ".join(formulas), " + ".join(numbers)
    if len(terms) > 1:
        formula, shown = f"({formula})", f"({shown})"
    total = row.count * row.payload
    return Step(f"{names['L']} · {formula}", f"{row.count} · {shown}", total, "B")
