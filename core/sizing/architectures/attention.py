"""Softmax attention: what a layer of it caches, and how many parameters it has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Family, Trait
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, Layer
from core.sizing.parameters import NOTHING, Count, linear, vector


@dataclass(frozen=True, slots=True)
class Heads:
    """n_q query heads over n_kv KV heads; keys (and queries) of key_dim, values of value_dim."""

    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int

    def layer(self, window: int | None) -> Layer:
        cache = KVHeads(self.num_kv_heads, self.key_dim, self.value_dim, window)
        return Layer(cache, self.num_heads, self.key_dim, self.value_dim)

    @property
    def query_width(self) -> int:
        return self.num_heads * self.key_dim


def read_heads(fields: Fields, family: Family, hidden: int) -> Heads:
    """The head counts and widths of a model whose layers are all alike.

    head_dim counts where it is given: hidden_size / num_attention_heads is only what an absent one
    means (Qwen3-0.6B has 16 heads of 128 in a model 1,024 wide).
    """
    heads = fields.whole("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
    kv = _KV_RULES[family.kv](fields, heads)
    check_groups(fields, heads, kv)
    given = fields.whole_or_none("head_dim", "kv_channels", "attention_head_dim")
    dim = even_share(fields, hidden, heads) if given is None else given
    return Heads(heads, kv, dim, fields.whole("v_head_dim", default=dim))


def _stated(fields: Fields, heads: int) -> int:
    return fields.whole("num_key_value_heads", "num_kv_heads", default=heads)


def _multi_query(fields: Fields, heads: int) -> int:
    fields.skip("num_key_value_heads")
    return 1 if fields.flag("multi_query") else heads


def _falcon(fields: Fields, heads: int) -> int:
    """num_kv_heads counts in the newer decoder only (40B: 8); in the older one multi_query decides,
    and the 7B's one KV head is not what its num_kv_heads (71) says."""
    stated = fields.whole_or_none("num_kv_heads", "n_head_kv", "num_key_value_heads")
    newer = fields.flag("new_decoder_architecture")
    single = fields.flag("multi_query") and not newer
    return 1 if single else stated or heads


def _all(fields: Fields, heads: int) -> int:
    stated = fields.whole("num_key_value_heads", default=heads)
    if stated != heads:
        raise SizingError(
            fields.at("num_key_value_heads"), f"is {stated}, but this architecture has no groups"
        )
    return heads


_KV_RULES = {"": _stated, "multi_query": _multi_query, "falcon": _falcon, "all": _all}


def even_share(fields: Fields, hidden: int, heads: int) -> int:
    if hidden % heads:
        raise SizingError(
            fields.at("head_dim"),
            f"is missing, and hidden_size {hidden:,} is not a multiple of "
            f"num_attention_heads {heads:,}",
        )
    return hidden // heads


def check_groups(fields: Fields, heads: int, kv: int, *names: str) -> None:
    """names: of the field with the KV heads, if it has another."""
    if heads % kv:
        raise SizingError(
            fields.where(*(names or ("num_key_value_heads", "num_kv_heads"))),
            f"{kv:,} KV heads cannot be shared evenly by {heads:,} attention heads",
        )


def heads_count(fields: Fields, family: Family, hidden: int, heads: Heads) -> Count:
    """Projections of queries, keys, values and output, with their biases and norms."""
    bias = trait(fields, family.qkv_bias)
    out = linear(hidden, heads.query_width, bias)
    out += linear(hidden, heads.num_kv_heads * heads.key_dim, bias)
    out += linear(hidden, heads.num_kv_heads * heads.value_dim, bias)
    out += linear(heads.num_heads * heads.value_dim, hidden, trait(fields, family.o_bias))
    out += _output_gate(fields, family, hidden, heads)
    if family.sinks:
        out += vector(heads.num_heads)
    return out + _qk_norm(fields, family, heads)


def _output_gate(fields: Fields, family: Family, hidden: int, heads: Heads) -> Count:
    fields.skip("attn_output_gate")
    if family.output_gate == "query":
        return linear(hidden, heads.query_width, trait(fields, family.qkv_bias))
    if family.output_gate == "width":
        return linear(hidden, heads.num_heads * heads.value_dim)
    return NOTHING


def _qk_norm(fields: Fields, family: Family, heads: Heads) -> Count:
    if not family.qk_norm or not (not family.qk_norm_if or fields.flag(family.qk_norm_if)):
        return NOTHING
    queries, keys = heads.num_heads, heads.num_kv_heads
    return {
        "head": vector(2 * heads.key_dim),
        "layer_head": vector(4 * heads.key_dim),
        "heads": vector((queries + keys) * heads.key_dim),
        "width": vector((queries + keys) * heads.key_dim),
    }[family.qk_norm]


def read_latent(
    fields: Fields, family: Family, hidden: int, window: int | None = None
) -> tuple[Layer, Count, Count]:
    """MLA (DeepSeek-V2, 2024): one latent per token, shared by all heads, and one rotary key.

    Counted as served, with the latent in the cache: what is cached is kv_lora_rank +
    qk_rope_head_dim numbers, whatever the heads. The number of KV heads in the config is of the
    keys and values after expansion, and takes no memory. Returns the layer, the parameters of its
    attention, and those of its indexer.
    """
    heads = fields.whole("num_attention_heads")
    latent = fields.whole("kv_lora_rank")
    rope = fields.whole("qk_rope_head_dim")
    nope = fields.whole("qk_nope_head_dim")
    value = fields.whole("v_head_dim")
    fields.skip("num_key_value_heads", "head_dim")
    stated = fields.whole_or_none("qk_head_dim")
    if stated is not None and stated != nope + rope:
        raise SizingError(
            fields.at("qk_head_dim"),
            f"is {stated}, but qk_nope_head_dim + qk_rope_head_dim is {nope + rope}",
        )
    bias = trait(fields, family.qkv_bias)
    rank = fields.whole_or_none("q_lora_rank")
    if rank is None:
        count = linear(hidden, heads * (nope + rope))
    else:
        count = linear(hidden, rank, bias) + vector(rank) + linear(rank, heads * (nope + rope))
    count += linear(hidden, latent + rope, bias) + vector(latent)
    count += linear(latent, heads * (nope + value))
    count += linear(heads * value, hidden, trait(fields, family.o_bias))
    if family.output_gate == "heads":
        count += linear(hidden, heads)
    layer = Layer(Latent(latent, rope, window), heads, nope + rope, value)
    indexed, indexer_count = _indexer(fields, hidden, rank, layer)
    return indexed, count, indexer_count


def _indexer(fields: Fields, hidden: int, rank: int | None, layer: Layer) -> tuple[Layer, Count]:
    """DeepSeek-V3.2's lightning indexer: one more key per token, which picks what is attended."""
    if not fields.has("index_head_dim") and not fields.defaults.get("index_head_dim"):
        return layer, NOTHING
    dim, heads = fields.whole("index_head_dim"), fields.whole("index_n_heads")
    count = linear(rank or hidden, heads * dim) + linear(hidden, dim) + vector(2 * dim)
    top_k = fields.whole_or_none("index_topk")
    indexed = replace(layer, indexer_dim=dim, indexer_heads=heads, top_k=top_k)
    return indexed, count + linear(hidden, heads)


def indexed_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have an indexer of their own; the others use the choice of the one before."""
    words = fields.items("indexer_types", layers)
    pattern = fields.raw("index_topk_pattern")
    if words is None and pattern is not None:
        if not isinstance(pattern, str) or set(pattern) - {"F", "S"} or len(pattern) != layers:
            raise SizingError(
                fields.at("index_topk_pattern"), f"must be {layers} letters F or S, one per layer"
            )
        return [letter == "F" for letter in pattern]
    if words is not None:
        if set(map(str, words)) - {"full", "shared"}:
            raise SizingError(fields.at("indexer_types"), "must hold full and shared only")
        return [word == "full" for word in words]
    step = fields.whole("index_topk_freq", default=1)
    offset = fields.whole("index_skip_topk_offset", default=2, minimum=0)
    return [max(i - offset + 1, 0) % step == 0 for i in range(layers)]


def trait(fields: Fields, value: Trait) -> bool:
    """A constant of the architecture, or what the field of that name says."""
    return fields.flag(value) if isinstance(value, str) else value
