"""Work in FLOPs: 2 per parameter and token in the matrices, plus attention over what is cached.

A token meets P parameters: 2 · P FLOPs (Kaplan et al. 2020). Attention adds, per layer
and pair of query and key, 2 · n_q · (d_query + d_output): 4 · n_q · d_head in the usual case. With
a causal mask N tokens make N² / 2 pairs (exactly N · (N + 1) / 2; the sources' convention is kept),
and in a layer with window W no query sees more than W keys, so past W the pairs grow linearly.

P is the number of active parameters: a mixture of experts multiplies a token by the few it visits.
As the sources count, the embedding is among them, of which a token takes one row; other tables that
are looked up (positions, Gemma-3n's per layer) are not. `count` "matmul" leaves out the embedding,
norms and biases too, and is exact.
"""

from __future__ import annotations

from typing import NamedTuple

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, Layer, LayerCache, ModelSpec, SharedKV
from core.sizing.piecewise import crossing
from core.sizing.result import Result, Step, Symbol, symbols
from core.sizing.text import num, short

COUNTS = ("active", "matmul")
"""Which parameters count as work: all active ones, the embedding with them, as the sources have it,
or only those in matrices (no embedding lookup, norms or biases), which is exact."""

COUNTED = {
    "active": "active parameters, the embedding counted",
    "matmul": "parameters in matrices that a token is multiplied by",
}
"""What P says of each."""

MLA_PATHS = ("expanded", "absorbed")
"""How MLA attends: over keys and values expanded per head, as in prefill, or over the latent
itself with the up-projections absorbed into query and output, as in decode."""


class Work(NamedTuple):
    """FLOPs of one pass. pairs: attention as "a · pairs + …", to be computed again by a reader.
    counted: which parameters `params` are (`COUNTED`). indexing: of the attention, the scores of
    indexers: engines copy these to every GPU of a tensor-parallel group (vLLM, 2026)."""

    linear: int
    attention: int
    params: int
    notes: tuple[str, ...]
    pairs: str
    counted: str
    indexing: int = 0

    @property
    def total(self) -> int:
        return self.linear + self.attention


def params_per_token(model: ModelSpec, count: str = "active") -> tuple[int, tuple[str, ...]]:
    """P, and a note if it is not the exact figure."""
    exact = model.matmul_params if count == "matmul" else model.active_params
    if exact is not None:
        return exact - (0 if count == "matmul" else model.looked_up), ()
    if model.nominal_params is not None and not model.fields.get("n_experts"):
        nominal = round(model.nominal_params)
        why = model.params_note or "no exact count"
        return nominal, (f"P is the nominal {short(nominal)}: {why}",)
    raise SizingError(
        "model",
        f"how many parameters of {model.name} a token is multiplied by is not known"
        + (f": {model.params_note}" if model.params_note else ""),
    )


def read_cache(model: ModelSpec, layer: Layer) -> LayerCache:
    """The cache that a layer's attention reads: its own, or the one of the layer that it shares."""
    cache = layer.cache
    return model.layers[cache.layer].cache if isinstance(cache, SharedKV) else cache


def read_window(model: ModelSpec, layer: Layer) -> int | None:
    """The most keys that one query attends to: the layer's window, or its indexer's top k."""
    cache = read_cache(model, layer)
    window = cache.window if isinstance(cache, KVHeads | Latent) else None
    if window is None or layer.top_k is None:
        return layer.top_k if window is None else window
    return min(window, layer.top_k)


def pair_flops(layer: Layer, cache: LayerCache, mla: str) -> int:
    """FLOPs of one layer for one query token and one key token, all heads: scores and values."""
    if not layer.num_query_heads or not isinstance(cache, KVHeads | Latent):
        return 0
    query, output = layer.query_dim, layer.output_dim
    if isinstance(cache, Latent) and mla == "absorbed":
        query, output = cache.latent_dim + cache.rope_dim, cache.latent_dim
    return 2 * layer.num_query_heads * (query + output)


def attention_terms(model: ModelSpec, mla: str) -> dict[int | None, int]:
    """FLOPs per pair of query and key, summed over the layers of each window."""
    terms: dict[int | None, int] = {}
    for layer, count in model.layer_groups:
        per_pair = count * pair_flops(layer, read_cache(model, layer), mla)
        if per_pair:
            window = read_window(model, layer)
            terms[window] = terms.get(window, 0) + per_pair
    scores = index_flops(model)
    if scores:  # an indexer scores every key before it chooses
        terms[None] = terms.get(None, 0) + scores
    return terms


def index_flops(model: ModelSpec) -> int:
    """FLOPs of all indexers per pair of query and key, which is in `attention_terms` too."""
    return sum(
        count * 2 * layer.indexer_heads * layer.indexer_dim for layer, count in model.layer_groups
    )


def prefill_work(
    model: ModelSpec,
    tokens: int,
    computed: int = 0,
    causal: bool = True,
    count: str = "active",
    mla: str = "expanded",
) -> Work:
    """The work of `tokens` more tokens on top of `computed` ones. Unchecked; see prefill_flops."""
    params, notes = params_per_token(model, count)
    attention, pairs = prompt_attention(model, tokens, computed, causal, mla)
    notes += _left_out(model)
    linear, index = 2 * params * tokens, index_flops(model)
    end = computed + tokens
    seen = _double_pairs(end, None) - _double_pairs(computed, None) if causal else 2 * tokens * end
    return Work(linear, attention, params, notes, pairs, COUNTED[count], index * seen // 2)


def prompt_attention(
    model: ModelSpec, tokens: int, computed: int, causal: bool = True, mla: str = "expanded"
) -> tuple[int, str]:
    """FLOPs of the attention alone, which no count of parameters is needed for, and the pairs of
    query and key as text. Unchecked."""
    end = computed + tokens
    attention, text = 0, []
    for window, per_pair in attention_terms(model, mla).items():
        if causal:
            double = _double_pairs(end, window) - _double_pairs(computed, window)
            attention += per_pair * double // 2
            text.append(f"{per_pair} · {double} / 2")
        else:
            seen = end if window is None else min(end, window)
            attention += per_pair * tokens * seen
            text.append(f"{per_pair} · {tokens} · {seen}")
    return attention, " + ".join(text) or "0"


def decode_work(
    model: ModelSpec, context: int, batch: int = 1, count: str = "active", mla: str = "absorbed"
) -> Work:
    """The work of `batch` tokens, each attending to `context` cached ones. Unchecked; see
    decode_flops."""
    params, notes = params_per_token(model, count)
    attention, text = 0, []
    for window, per_pair in attention_terms(model, mla).items():
        seen = context if window is None else min(context, window)
        attention += per_pair * seen
        text.append(f"{per_pair} · {seen}")
    expanding = expansion_flops(model) if mla == "expanded" else 0
    if expanding:
        attention += expanding * context
        text.append(f"{expanding} · {context}")
    whole = f"{batch} · ({' + '.join(text) or '0'})"
    notes += _left_out(model)
    linear, index = 2 * params * batch, index_flops(model) * context * batch
    return Work(linear, batch * attention, params, notes, whole, COUNTED[count], index)


def expansion_flops(model: ModelSpec) -> int:
    """FLOPs to expand one token's latents into keys and values of every head, all layers."""
    total = 0
    for layer, layers in model.layer_groups:
        cache = read_cache(model, layer)
        if isinstance(cache, Latent):
            width = layer.query_dim - cache.rope_dim + layer.output_dim
            total += layers * 2 * cache.latent_dim * layer.num_query_heads * width
    return total


def prefill_flops(
    model: ModelSpec,
    tokens: int,
    computed: int = 0,
    causal: bool = True,
    count: str = "active",
    mla: str = "expanded",
) -> Result:
    """FLOPs to compute `tokens` prompt tokens when `computed` ones are cached already.

    causal False: every query against every key of its window, as a kernel without a mask does.
    """
    tokens = checks.whole(tokens, "tokens")
    computed = checks.whole(computed, "computed")
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    work = prefill_work(model, tokens, computed, causal, count, mla)
    return Result(
        work.total,
        "FLOP",
        (
            *work_symbols(model, work, mla),
            *symbols(("N", "tokens", tokens), ("C", "cached", computed)),
        ),
        work_steps(work, f"2 · {num(work.params)} · {num(tokens)}", "linear = 2 · P · N"),
        scope="model",
        notes=work.notes,
        source="Kaplan et al. 2020, Scaling Laws for Neural Language Models, section 2.1",
    )


def decode_flops(
    model: ModelSpec,
    context: int,
    batch: int = 1,
    count: str = "active",
    mla: str = "absorbed",
) -> Result:
    """FLOPs of one decode step: `batch` sequences, one token each, over `context` cached tokens.

    mla "expanded" charges what the naive way costs: the cache is expanded anew in each step.
    """
    context = checks.whole(context, "context")
    batch = checks.whole(batch, "batch", 1)
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    work = decode_work(model, context, batch, count, mla)
    return Result(
        work.total,
        "FLOP",
        (
            *work_symbols(model, work, mla),
            *symbols(("B", "sequences", batch), ("S", "context", context)),
        ),
        work_steps(work, f"2 · {num(work.params)} · {batch}", "linear = 2 · P · B"),
        scope="model",
        notes=work.notes,
    )


def attention_flop_share(
    model: ModelSpec, tokens: int, causal: bool = True, count: str = "active", mla: str = "expanded"
) -> Result:
    """The part of prefill that is attention, the only part that grows with the square."""
    tokens = checks.whole(tokens, "tokens", 1)
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    work = prefill_work(model, tokens, 0, causal, count, mla)
    value = work.attention / work.total
    return Result(
        value,
        "fraction",
        (*work_symbols(model, work, mla), *symbols(("N", "tokens", tokens))),
        (
            *work_steps(work, f"2 · {num(work.params)} · {num(tokens)}", "linear = 2 · P · N"),
            Step(
                "attention / all", f"{num(work.attention)} / {num(work.total)}", value, "fraction"
            ),
        ),
        scope="model",
        notes=work.notes,
    )


def attention_equals_linear_tokens(
    model: ModelSpec, causal: bool = True, count: str = "active", mla: str = "expanded"
) -> Result:
    """The prompt length at which attention costs as much as all matrices; None if it never does."""
    checks.choice(count, "count", COUNTS)
    checks.choice(mla, "mla", MLA_PATHS)
    params, notes = params_per_token(model, count)
    terms = attention_terms(model, mla)
    shown = work_symbols(model, Work(0, 0, params, (), "", COUNTED[count]), mla)
    if causal:
        value = crossing(terms, {}, slope=-2 * params)
    else:  # Σ a_w · min(N, W) = 2 · P: the same sum, one power of N lower
        value = crossing({}, terms, constant=-2 * params)
    if value is None:
        why = (
            "attention never costs as much: every layer with a cache has a window, or none has one"
        )
        return Result(None, "tokens", shown, notes=(why, *notes))
    half = " / 2" if causal else ""
    step = Step("the length at which attention equals the matrices", "", value, "tokens")
    if set(terms) == {None}:
        step = Step(f"2 · P / (a{half})", f"2 · {params} / ({terms[None]}{half})", value, "tokens")
    return Result(value, "tokens", shown, (step,), scope="model", notes=notes)


def _double_pairs(tokens: int, window: int | None) -> int:
    """Twice the pairs of query and key among the first `tokens` tokens: an integer."""
    if window is None or tokens <= window:
        return tokens * tokens
    return window * (2 * tokens - window)


def _left_out(model: ModelSpec) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if any(_fixed(layer) for layer, _ in model.layer_groups):
        notes += (
            "the update of fixed states is left out: a few FLOPs per state element and token",
        )
    if any(layer.indexer_dim and layer.top_k is None for layer, _ in model.layer_groups):
        notes += ("attention is counted over all keys: how many the indexer picks is not known",)
    return notes


def _fixed(layer: Layer) -> bool:
    return layer.state is not None or (layer.cache is not None and hasattr(layer.cache, "parts"))


def work_symbols(model: ModelSpec, work: Work, mla: str) -> tuple[Symbol, ...]:
    return (Symbol("P", work.counted, work.params), *attention_symbols(model, mla))


def attention_symbols(model: ModelSpec, mla: str) -> tuple[Symbol, ...]:
    """What one pair of query and key takes, for each window of the model."""
    rows = []
    for window, per_pair in attention_terms(model, mla).items():
        which = "" if window is None else f", layers with a window of {window:,}"
        name = "a" if window is None else f"a_{window}"
        rows.append(Symbol(name, f"attention per pair of tokens{which}", per_pair, "FLOP"))
    return tuple(rows)


def work_steps(work: Work, substituted: str, formula: str) -> tuple[Step, ...]:
    return (
        Step(formula, substituted, work.linear, "FLOP"),
        Step("attention = Σ a · pairs of query and key", work.pairs, work.attention, "FLOP"),
        Step(
            "linear + attention", f"{num(work.linear)} + {num(work.attention)}", work.total, "FLOP"
        ),
    )
