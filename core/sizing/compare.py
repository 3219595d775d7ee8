"""Two caches side by side: grouped heads against a latent, or any model against any other.

A side is {"model": name, "dtype": of its KV, "weights": of its weights} or, for a cache alone, its
geometry: {"attention": "mha", "n_layers": 61, "n_kv_heads": 128, "d_head": 128, "dtype": "bf16"},
with d_head_k and d_head_v where they differ, or d_latent and d_rope with "attention": "mla".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from core.sizing import checks, fields, inputs, kv_format, kv_layers
from core.sizing.compute import MLA_PATHS, attention_terms, expansion_flops
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, Layer, LayerCache, ModelSpec
from core.sizing.kv import kv_bytes_per_token
from core.sizing.kv_format import KVDtype
from core.sizing.result import Result, Step, symbols
from core.sizing.text import num
from core.sizing.traffic import kv_read, weight_size

SCOPES = ("layer", "model")
_WHOLE = {"model", "config", "dtype", "weights"}
_HEADS = {"attention", "n_layers", "n_kv_heads", "d_head", "d_head_k", "d_head_v", "dtype"}
_LATENT = {"attention", "n_layers", "d_latent", "d_rope", "dtype"}
ATTENTION = ("mha", "gqa", "mqa", "mla")


@dataclass(frozen=True)
class Side:
    """One of the two: its model, the format of its KV, and of its weights if that matters."""

    model: ModelSpec
    dtype: KVDtype = "bf16"
    weights: str = "bf16"


def side(given: object, path: str) -> Side:
    """A checked side. Raises SizingError at its field."""
    if isinstance(given, Side):
        return given
    if not isinstance(given, Mapping):
        raise SizingError(path, 'must be an object such as {"model": …, "dtype": "bf16"}')
    whole = "model" in given or "config" in given
    mla = given.get("attention") == "mla"
    allowed = _WHOLE | set(fields.NAMES) if whole else _LATENT if mla else _HEADS
    for name in given:
        if name not in allowed:
            known = ", ".join(sorted(allowed))
            raise SizingError(f"{path}.{name}", f"is not a field of this side; known: {known}")
    dtype = given.get("dtype", "bf16")
    kv_format.of(dtype, f"{path}.dtype")
    model = _model(given, path) if whole else _geometry(given, path)
    return Side(model, dtype, given.get("weights", "bf16"))


def kv_ratio(
    a: Mapping[str, Any] | Side, b: Mapping[str, Any] | Side, scope: str = "model"
) -> Result:
    """KV bytes per token of a over those of b.

    scope "layer" compares one layer with one layer, which says nothing of models of different
    depth; "model" compares what a token takes.
    """
    left, right = side(a, "a"), side(b, "b")
    checks.choice(scope, "scope", SCOPES)
    top = kv_bytes_per_token(left.model, left.dtype, scope).value
    bottom = kv_bytes_per_token(right.model, right.dtype, scope).value
    assert top is not None and bottom is not None
    if bottom == 0:
        return Result(None, "x", notes=(f"{right.model.name} keeps nothing per token",))
    value = top / bottom
    notes = (
        ("layer against layer: models of different depth compare by scope model",)
        if scope == "layer" and left.model.num_layers != right.model.num_layers
        else ()
    )
    return Result(
        value,
        "x",
        symbols(
            ("M_a", f"{left.model.name}, {_name(left)}", top, "B"),
            ("M_b", f"{right.model.name}, {_name(right)}", bottom, "B"),
        ),
        (Step("M_a / M_b", f"{num(top)} / {num(bottom)}", value, "x"),),
        scope=scope,
        notes=notes,
    )


def mla_equivalent_gqa_heads(d_latent: int, d_rope: int, d_head: int) -> Result:
    """How many KV heads of a GQA layer keep as much per token: (d_c + d_r) / (2 · d_head)."""
    d_latent = checks.whole(d_latent, "d_latent", 1)
    d_rope = checks.whole(d_rope, "d_rope")
    d_head = checks.whole(d_head, "d_head", 1)
    value = (d_latent + d_rope) / (2 * d_head)
    return Result(
        value,
        "heads",
        symbols(
            ("d_c", "latent", d_latent), ("d_r", "rotary key", d_rope), ("d_head", "head", d_head)
        ),
        (
            Step(
                "(d_c + d_r) / (2 · d_head)",
                f"({d_latent} + {d_rope}) / (2 · {d_head})",
                value,
                "heads",
            ),
        ),
        scope="layer",
        source="DeepSeek-V2 (2024), section 2.1.4",
    )


def token_capacity_tie_bytes(a: Mapping[str, Any] | Side, b: Mapping[str, Any] | Side) -> Result:
    """The memory, weights and KV together, in which both models hold as many tokens.

    Each side loads its weights first and fills the rest with KV. Above the tie the side with fewer
    bytes per token holds more, and towards M_a / M_b times as many; below it the lighter one does.
    None if one side holds more at any size. KV must be spread without copies (MLA: data-parallel
    attention).
    """
    left, right = side(a, "a"), side(b, "b")
    w_a, w_b = _weights(left, "a"), _weights(right, "b")
    k_a, k_b = _per_token(left, "a"), _per_token(right, "b")
    shown = symbols(
        ("W_a", f"weights of {left.model.name}, {left.weights}", w_a, "B"),
        ("M_a", f"its KV per token, {_name(left)}", k_a, "B"),
        ("W_b", f"weights of {right.model.name}, {right.weights}", w_b, "B"),
        ("M_b", f"its KV per token, {_name(right)}", k_b, "B"),
    )
    lighter, denser = (w_a < w_b), (k_a < k_b)
    if k_a == k_b or w_a == w_b or lighter == denser:
        better = left if w_a <= w_b and k_a <= k_b else right
        why = f"no tie: {better.model.name} needs no more bytes for weights nor for a token"
        return Result(None, "B", shown, notes=(why,))
    tie = (Fraction(w_b, k_b) - Fraction(w_a, k_a)) / (Fraction(1, k_b) - Fraction(1, k_a))
    value = -(-tie.numerator // tie.denominator)
    winner, ratio = (left, k_b / k_a) if denser else (right, k_a / k_b)
    return Result(
        value,
        "B",
        shown,
        (
            Step(
                "⌈(W_b / M_b − W_a / M_a) / (1 / M_b − 1 / M_a)⌉",
                f"⌈({w_b} / {k_b} − {w_a} / {k_a}) / (1 / {k_b} − 1 / {k_a})⌉",
                value,
                "B",
            ),
        ),
        notes=(f"above it {winner.model.name} holds more tokens, up to {ratio:.3g} times as many",),
    )


def kv_read_ratio(a: Mapping[str, Any] | Side, b: Mapping[str, Any] | Side, context: int) -> Result:
    """Bytes of cache that a decode step reads per sequence: those of a over those of b."""
    left, right = side(a, "a"), side(b, "b")
    context = checks.whole(context, "context", 1)
    top = kv_read(left.model, context, left.dtype)
    bottom = kv_read(right.model, context, right.dtype)
    if bottom == 0:
        return Result(None, "x", notes=(f"{right.model.name} reads no cache",))
    value = top / bottom
    return Result(
        value,
        "x",
        symbols(
            ("K_a", f"{left.model.name}, {_name(left)}", top, "B"),
            ("K_b", f"{right.model.name}, {_name(right)}", bottom, "B"),
            ("S", "context", context, "tokens"),
        ),
        (Step("K_a / K_b", f"{num(top)} / {num(bottom)}", value, "x"),),
        scope="model",
    )


def attention_flops_ratio(
    a: Mapping[str, Any] | Side,
    b: Mapping[str, Any] | Side,
    context: int,
    mla_a: str = "absorbed",
    mla_b: str = "absorbed",
) -> Result:
    """FLOPs of a decode step's attention over the cache: those of a over those of b.

    The same model on both sides with mla_a "absorbed" and mla_b "expanded" shows what attending to
    the latent costs against attending to expanded heads (the expanding itself apart).
    """
    left, right = side(a, "a"), side(b, "b")
    context = checks.whole(context, "context", 1)
    checks.choice(mla_a, "mla_a", MLA_PATHS)
    checks.choice(mla_b, "mla_b", MLA_PATHS)
    top, bottom = _attention(left.model, context, mla_a), _attention(right.model, context, mla_b)
    if bottom == 0:
        return Result(
            None, "x", notes=(f"{right.model.name} has no softmax attention with known heads",)
        )
    value = top / bottom
    return Result(
        value,
        "x",
        symbols(
            ("A_a", f"{left.model.name}, one token", top, "FLOP"),
            ("A_b", f"{right.model.name}, one token", bottom, "FLOP"),
            ("S", "context", context, "tokens"),
        ),
        (Step("A_a / A_b", f"{num(top)} / {num(bottom)}", value, "x"),),
        scope="model",
    )


def mla_expansion_flops(model: ModelSpec, context: int) -> Result:
    """FLOPs to expand a whole cache of latents into keys and values: what a decode step would pay
    anew each time if the up-projections were not absorbed."""
    context = checks.whole(context, "context")
    each = expansion_flops(model)
    if each == 0:
        return Result(None, "FLOP", notes=(f"{model.name} has no latents to expand",))
    value = each * context
    return Result(
        value,
        "FLOP",
        symbols(
            (
                "u",
                "per cached token: Σ over layers of 2 · d_c · n_q · (d_nope + d_v)",
                each,
                "FLOP",
            ),
            ("S", "context", context, "tokens"),
        ),
        (Step("u · S", f"{each} · {context}", value, "FLOP"),),
        scope="model",
    )


def _attention(model: ModelSpec, context: int, mla: str) -> int:
    terms = attention_terms(model, mla).items()
    return sum(a * (context if w is None else min(context, w)) for w, a in terms)


def _model(given: Mapping[str, Any], path: str) -> ModelSpec:
    """The model that is named or described; geometry beside it must agree."""
    if "model" in given and "config" in given:
        raise SizingError(f"{path}.config", "stands beside model: give one of the two")
    if "config" in given:
        model = inputs.model_described(given["config"], f"{path}.config")
    else:
        model = inputs.model_named(given["model"], f"{path}.model")
    fields.check_agreement(model, {k: v for k, v in given.items() if k not in _WHOLE}, path)
    return model


def _geometry(given: Mapping[str, Any], path: str) -> ModelSpec:
    kind = checks.choice(given.get("attention", "gqa"), f"{path}.attention", ATTENTION)

    def whole(field: str, minimum: int = 1) -> int:
        if field not in given:
            raise SizingError(f"{path}.{field}", "is missing")
        return checks.whole(given[field], f"{path}.{field}", minimum, 1 << 24)

    layers = checks.whole(given.get("n_layers"), f"{path}.n_layers", 1, 4096)
    cache: LayerCache
    if kind == "mla":
        cache = Latent(whole("d_latent"), whole("d_rope", 0))
    else:
        key = whole("d_head_k") if "d_head_k" in given else whole("d_head")
        value = whole("d_head_v") if "d_head_v" in given else whole("d_head")
        cache = KVHeads(whole("n_kv_heads"), key, value)
        if kind == "mqa" and cache.num_kv_heads != 1:
            raise SizingError(f"{path}.n_kv_heads", f"is {cache.num_kv_heads}, but MQA has 1")
    return ModelSpec(
        name=f"{layers} layers of {kind.upper()}",
        architecture="given",
        layers=(Layer(cache),) * layers,
        hidden_size=0,
        vocab_size=0,
        max_position=None,
        tied_embeddings=False,
        params=None,
        active_params=None,
        matmul_params=None,
        params_note="only the cache's geometry was given",
    )


def _name(one: Side) -> str:
    return one.dtype if isinstance(one.dtype, str) else kv_format.of(one.dtype).name


def _weights(one: Side, path: str) -> int:
    count = one.model.params
    if count is None and one.model.nominal_params is not None:
        count = round(one.model.nominal_params)
    if count is None:
        raise SizingError(
            f"{path}.model", f"the number of parameters of {one.model.name} is not known"
        )
    return weight_size(count, one.weights, f"{path}.weights")


def _per_token(one: Side, path: str) -> int:
    rows = kv_layers.of_model(one.model, kv_format.of(one.dtype))
    if any(row.window is not None for row in rows):
        raise SizingError(
            f"{path}.model", "has layers with a window: its tokens per byte depend on the context"
        )
    value = kv_layers.per_token(rows)
    if value == 0:
        raise SizingError(f"{path}.model", f"{one.model.name} keeps nothing per token")
    return value
