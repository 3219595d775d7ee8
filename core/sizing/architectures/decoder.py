"""A decoder put together: embeddings, layers of attention and MLP or experts, final norm, head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from core.sizing.architectures import attention, feedforward, windows
from core.sizing.architectures.attention import trait
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.mixers import MIXERS
from core.sizing.architectures.traits import Family
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, Layer, SharedKV
from core.sizing.parameters import NOTHING, Count, linear, matrix, vector

FIRST, LAST = (0,), (-1,)
"""Where embeddings are, and the head: with the first and with the last layer."""


@dataclass(frozen=True)
class Share:
    """Parameters of a part in some layers: so many in each, or once in all of them together."""

    count: Count
    layers: tuple[int, ...]
    once: bool

    @property
    def total(self) -> Count:
        return self.count if self.once else self.count * len(self.layers)


@dataclass
class Model:
    """What is known of a model so far. parts: parameters by what they are, in order. facts: short
    names for `ModelSpec.fields` that its layers do not tell (d_ff). params_note: why parameters
    are not counted, if they are not."""

    hidden: int
    vocab: int
    layers: list[Layer] = field(default_factory=list)
    parts: dict[str, list[Share]] = field(default_factory=dict)
    tied: bool = False
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    params_note: str = ""

    def add(self, part: str, count: Count, at: Iterable[int], once: bool = False) -> None:
        """Adds `count` to a part in each of these layers; once: the same parameters in all."""
        layers = tuple(at)
        if count.total != 0 and layers:
            self.parts.setdefault(part, []).append(Share(count, layers, once))


def norm(kind: str, width: int) -> Count:
    """rms: a weight. layer: weight and bias. none: neither."""
    return {"rms": vector(width), "layer": vector(2 * width), "none": NOTHING}[kind]


def start(fields: Fields, tied: bool = True) -> Model:
    """Width and vocabulary; the embedding table and, if it is not the same matrix, the head.

    tied: what holds if neither the file nor the architecture says it.
    """
    hidden = fields.whole("hidden_size", "n_embd", "d_model", "n_embed")
    vocab = fields.whole("vocab_size")
    model = Model(hidden, vocab, tied=fields.flag("tie_word_embeddings", default=tied))
    embed(model, hidden)
    return model


def embed(model: Model, width: int) -> None:
    """A tied table is looked up at the bottom and multiplied at the top: counted once, and used."""
    size = model.vocab * width
    if model.tied:
        model.add("embedding and output head (tied)", matrix(size), (*FIRST, *LAST), once=True)
    else:
        model.add("embedding", vector(size), FIRST)
        model.add("output head", matrix(size), LAST)


def layer_count(fields: Fields) -> int:
    return fields.whole("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def build(fields: Fields, family: Family) -> Model:
    """A decoder of one of the families."""
    return fill(fields, family, start(fields))


def fill(fields: Fields, family: Family, model: Model) -> Model:
    """All that lies between the embedding and the head, which the model has."""
    layers = layer_count(fields)
    hidden = model.hidden
    fields.skip(*family.ignored)
    made: dict[str, Layer] = {}
    kinds = windows.kinds(fields, family, layers)
    for kind in dict.fromkeys(kinds):
        layer, count = mixing(fields, family, kind, hidden)
        made[kind] = layer
        model.add(part_of(layer), count, (i for i, one in enumerate(kinds) if one == kind))
    model.layers = [made[kind] for kind in kinds]
    if any(layer.indexer_dim for layer in made.values()):
        _share_indexers(fields, family, model)
    if family.cross_layer:
        _share_keys_and_values(fields, family, model)
    if not any(layer.num_query_heads for layer in made.values()):
        fields.skip("num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window")
    add_feedforward(fields, family, model, layers)
    each = norm(family.norm, hidden)
    model.add("norms", each * _norms(fields, family), range(layers))
    model.add("norms", each, LAST)
    model.add("activation functions", vector(family.scalars), range(layers))
    _rest(fields, family, model)
    return model


def mixing(fields: Fields, family: Family, kind: str, hidden: int) -> tuple[Layer, Count]:
    """What mixes tokens in a layer of this kind: attention of a sort, or a fixed state."""
    _check_kind(fields, family, kind)
    if kind in (windows.LINEAR, windows.CONV):
        state, count = MIXERS[family.mixer](fields, hidden)
        return Layer(state), count
    window = windows.window(fields, kind)
    if family.attention == "latent":
        layer, count, indexer = attention.read_latent(fields, family, hidden, window)
        return layer, count + indexer
    heads = attention.read_heads(fields, family, hidden)
    return heads.layer(window), attention.heads_count(fields, family, hidden, heads)


def _check_kind(fields: Fields, family: Family, kind: str) -> None:
    """A kind of layer that this architecture does not have would be sized as something else."""
    own = "" if not family.mixer else "conv" if family.mixer == "short_conv" else "linear_attention"
    foreign = {
        windows.LINEAR: own != windows.LINEAR,
        windows.CONV: own != windows.CONV,
        windows.HYBRID: True,
        windows.INDEXED: family.attention != "latent",
    }
    if foreign.get(kind, False):
        raise SizingError(
            fields.at("layer_types"), f"holds {kind!r}, which this architecture does not have"
        )


def _share_keys_and_values(fields: Fields, family: Family, model: Model) -> None:
    """Cross-layer attention (Brandon et al. 2024): of every `cla_share_factor` layers the first has
    keys and values, and the others attend over them (Hunyuan-Large: two)."""
    factor = fields.whole("cla_share_factor", default=1)
    if not fields.flag("use_cla") or factor == 1:
        return
    heads = attention.read_heads(fields, family, model.hidden)
    bias = trait(fields, family.qkv_bias)
    width = heads.num_kv_heads * (heads.key_dim + heads.value_dim)
    spared = linear(model.hidden, width, bias)
    for i, layer in enumerate(model.layers):
        if i % factor:
            model.layers[i] = replace(layer, cache=SharedKV(i - i % factor))
            model.add("attention", spared * -1, (i,))


def _share_indexers(fields: Fields, family: Family, model: Model) -> None:
    """Takes the indexer from layers that go by another's choice (GLM-5)."""
    own = attention.indexed_layers(fields, len(model.layers))
    _, _, indexer = attention.read_latent(fields, family, model.hidden)
    model.layers = [
        layer if mine else replace(layer, indexer_dim=0, indexer_heads=0)
        for layer, mine in zip(model.layers, own, strict=True)
    ]
    model.add("attention", indexer * -1, (i for i, mine in enumerate(own) if not mine))


def part_of(layer: Layer) -> str:
    """What the parameters of such a layer's mixing are called."""
    cache = layer.cache
    return cache.kind.replace("_", " ") if isinstance(cache, FixedState) else "attention"


def add_feedforward(fields: Fields, family: Family, model: Model, layers: int) -> None:
    """Each layer's MLP or experts."""
    marks = [False] * layers
    if family.experts is not None:
        marks = feedforward.sparse_layers(fields, family.experts, layers)
    sparse = [i for i, mark in enumerate(marks) if mark]
    if sparse:
        mixture, router, facts = feedforward.mixture(fields, family, model.hidden)
        model.add("experts", mixture, sparse)
        model.add("router", router, sparse)
        model.facts.update(facts)
    elif family.experts is not None:
        feedforward.skip_experts(fields, family.experts)
    fields.skip("intermediate_size")
    if len(sparse) < layers:
        bias = trait(fields, family.mlp_bias)
        width = feedforward.dense_width(fields, family, model.hidden)
        one = feedforward.mlp(model.hidden, width, family.gated, bias)
        model.facts["d_ff"] = width
        model.add("MLP", one, (i for i, mark in enumerate(marks) if not mark))


def _norms(fields: Fields, family: Family) -> int:
    """Norms per layer. Falcon: two, if attention and MLP are one after the other, or side by side
    with a norm each; one if they share it."""
    if family.kv != "falcon":
        return family.norms
    both = 2 if fields.flag("new_decoder_architecture") else 1
    own = fields.whole("num_ln_in_parallel_attn", default=both)
    return own if fields.flag("parallel_attn") else 2


def _rest(fields: Fields, family: Family, model: Model) -> None:
    if family.positions is not None:
        rows = fields.whole("max_position_embeddings", "n_positions") + family.positions
        model.add("position embedding", vector(rows * model.hidden), FIRST)
    if family.embedding_norm:
        model.add("norms", norm(family.norm, model.hidden), FIRST)
    if trait(fields, family.head_bias):
        model.add("output head", vector(model.vocab), LAST)
