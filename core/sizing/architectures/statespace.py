"""Models built around state spaces: Mamba alone, beside attention, or under shared attention."""

from __future__ import annotations

from core.sizing.architectures import attention, decoder, feedforward, mixers, windows
from core.sizing.architectures.decoder import Model
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Experts, Family
from core.sizing.errors import SizingError
from core.sizing.geometry import FixedState, Layer
from core.sizing.parameters import NOTHING, Count, experts, linear, vector

SPACE = "state space"


def mamba(fields: Fields) -> Model:
    """Mamba and Falcon Mamba: one norm and one mixer per layer, no MLP.

    intermediate_size counts where it is given: Falcon Mamba says expand 16 beside it, and means 2.
    """
    width = fields.whole_or_none("intermediate_size")
    fields.skip("expand")
    return _alone(fields, *mixers.mamba(fields, _hidden(fields), width=width))


def mamba2(fields: Fields) -> Model:
    """Mamba-2, where head_dim is that of the state space."""
    model = _alone(fields, *mixers.mamba2(fields, _hidden(fields)))
    width = fields.whole("num_heads") * fields.whole("head_dim")
    fields.skip("time_step_rank")
    if width != int(fields.number("expand", 2.0) * model.hidden):
        raise SizingError(
            fields.at("head_dim"), f"· num_heads is {width:,}, but not expand · hidden_size"
        )
    return model


def _alone(fields: Fields, state: FixedState, count: Count) -> Model:
    model = decoder.start(fields)
    layers = decoder.layer_count(fields)
    fields.skip("intermediate_size", "layer_types", "mixer_rms_eps", "d_inner")
    model.layers = [Layer(state)] * layers
    model.add(SPACE, count, range(layers))
    model.add("norms", vector(model.hidden), (*range(layers), *decoder.LAST))
    return model


def _hidden(fields: Fields) -> int:
    return fields.whole("hidden_size")


def falcon_h1(fields: Fields) -> Model:
    """Attention and a state space side by side in every layer."""
    family = Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    model = decoder.start(fields)
    layers, hidden = decoder.layer_count(fields), model.hidden
    heads = attention.read_heads(fields, family, hidden)
    state, count = mixers.mamba2(fields, hidden)
    fields.skip("layers_block_type", "layer_types")
    base = heads.layer(None)
    model.layers = [
        Layer(base.cache, base.num_query_heads, base.query_dim, base.output_dim, state)
    ] * layers
    every = range(layers)
    model.add("attention", attention.heads_count(fields, family, hidden, heads), every)
    model.add(SPACE, count, every)
    decoder.add_feedforward(fields, family, model, layers)
    model.add("norms", vector(hidden), (*every, *every, *decoder.LAST))
    return model


def nemotron_h(fields: Fields) -> Model:
    """One block per layer: a state space (M), attention (*), an MLP (-) or experts (E)."""
    model = decoder.start(fields)
    hidden = model.hidden
    family = Family(mlp_bias="mlp_bias", gated=False)
    letters = _pattern(fields)
    made: dict[str, tuple[Layer, dict[str, Count]]] = {}
    if "M" in letters:
        state, count = mixers.mamba2(fields, hidden)
        made["M"] = Layer(state), {SPACE: count}
    if "*" in letters:
        heads = attention.read_heads(fields, family, hidden)
        count = attention.heads_count(fields, family, hidden, heads)
        made["*"] = heads.layer(None), {"attention": count}
    if "-" in letters:
        width = fields.whole("intermediate_size")
        bias = fields.flag("mlp_bias")
        made["-"] = Layer(None), {"MLP": feedforward.mlp(hidden, width, False, bias)}
    if "E" in letters:
        made["E"] = Layer(None), _nemotron_experts(fields, model)
    model.layers = [made[letter][0] for letter in letters]
    for letter, (_, parts) in made.items():
        for part, count in parts.items():
            model.add(part, count, (i for i, one in enumerate(letters) if one == letter))
    _skip_unused(fields, set(letters))
    model.add("norms", vector(hidden), (*range(len(letters)), *decoder.LAST))
    return model


_LETTERS = {windows.LINEAR: "M", windows.FULL: "*", "mlp": "-", "moe": "E"}


def _pattern(fields: Fields) -> str:
    """The blocks in order: as letters, or as a list of words."""
    letters = fields.word("hybrid_override_pattern")
    given = fields.items("layers_block_type") or fields.items("layer_types")
    if given is not None:
        words = [windows.SPELLINGS.get(word, word) for word in given if isinstance(word, str)]
        spelled = "".join(_LETTERS.get(word, "?") for word in words)
        if len(words) != len(given) or "?" in spelled:
            raise SizingError(
                fields.at("layers_block_type"), "must hold mamba, attention, mlp and moe only"
            )
        if letters and letters != spelled:
            raise SizingError(
                fields.at("hybrid_override_pattern"), "does not say what layers_block_type says"
            )
        letters = spelled
    stated = fields.whole_or_none("num_hidden_layers")
    if not letters or set(letters) - set("M*-E") or len(letters) > 4096:
        raise SizingError(
            fields.at("hybrid_override_pattern"), "must name each layer's block by M, *, - or E"
        )
    if stated is not None and stated != len(letters):
        raise SizingError(
            fields.at("num_hidden_layers"),
            f"is {stated}, but the pattern has {len(letters)} blocks",
        )
    return letters


def _nemotron_experts(fields: Fields, model: Model) -> dict[str, Count]:
    hidden = model.hidden
    kind = Experts(count="n_routed_experts", gated=False)
    number, visited = feedforward.expert_numbers(fields, kind)
    width = fields.whole("moe_intermediate_size")
    model.facts.update(feedforward.facts(width, number, visited))
    latent = fields.whole_or_none("moe_latent_size")
    bias = fields.flag("mlp_bias")
    inner = latent or hidden
    count = experts(number, visited, linear(inner, width) + linear(width, inner))
    fields.skip("n_shared_experts", "moe_shared_expert_overlap")
    shared = fields.whole("moe_shared_expert_intermediate_size", default=0, minimum=0)
    if shared:
        count += feedforward.mlp(hidden, shared, False, bias)
    if latent:
        count += linear(hidden, latent, bias) + linear(latent, hidden, bias)
    return {"experts": count, "router": linear(hidden, number) + vector(number)}


_OF_BLOCK = {
    "M": "mamba_num_heads mamba_head_dim ssm_state_size n_groups conv_kernel expand use_conv_bias "
    "use_bias mamba_proj_bias mamba_n_groups mamba_d_conv mamba_expand mamba_conv_bias",
    "*": "num_attention_heads num_key_value_heads head_dim attention_head_dim attention_bias",
    "-": "intermediate_size",
    "E": "n_routed_experts num_experts_per_tok moe_intermediate_size moe_latent_size "
    "n_shared_experts moe_shared_expert_intermediate_size moe_shared_expert_overlap",
}


def _skip_unused(fields: Fields, letters: set[str]) -> None:
    """Fields of blocks that this model does not have; and those that no block reads."""
    for letter, names in _OF_BLOCK.items():
        if letter not in letters:
            fields.skip(*names.split())
    fields.skip("mtp_layers_block_type", "mtp_hybrid_override_pattern", "sliding_window")
    fields.skip("attention_bias", "mamba_proj_bias", "expand", "mamba_expand")


def zamba(fields: Fields) -> Model:
    """Mamba layers; before some of them one attention block whose weights are shared by all, on
    the hidden state beside the embedding: twice the width. Each use has its own KV cache."""
    layers = decoder.layer_count(fields)
    kinds = windows.listed(fields, layers, "layers_block_type")
    period = fields.whole("attn_layer_period", default=6)
    offset = fields.whole("attn_layer_offset", default=4, minimum=0)
    if kinds is None:
        tail = [windows.HYBRID if i % period == offset else windows.LINEAR for i in range(layers)]
        kinds = [windows.LINEAR, windows.LINEAR, windows.HYBRID, *tail][:layers]
    state, count = mixers.mamba(fields, _hidden(fields))
    return _zamba(fields, kinds, state, count, blocks=1)


def zamba2(fields: Fields) -> Model:
    """Zamba-2: Mamba-2 layers and several shared blocks in turn, with adapters of their own."""
    layers = decoder.layer_count(fields)
    kinds = windows.listed(fields, layers, "layers_block_type")
    if kinds is None:
        raise SizingError(fields.at("layers_block_type"), "is missing: which layers are hybrid?")
    state, count = mixers.mamba2(fields, _hidden(fields))
    fields.skip("hybrid_layer_ids", "kv_channels", "num_query_groups", "use_long_context")
    return _zamba(fields, kinds, state, count, fields.whole("num_mem_blocks", default=1))


def _zamba(fields: Fields, kinds: list[str], state: FixedState, count: Count, blocks: int) -> Model:
    model = decoder.start(fields)
    hidden, layers = model.hidden, len(kinds)
    if set(kinds) - {windows.LINEAR, windows.HYBRID}:
        raise SizingError(fields.at("layers_block_type"), "must hold mamba and hybrid only")
    wide = fields.whole("attention_hidden_size", default=2 * hidden)
    num = fields.whole("num_attention_heads")
    kv = fields.whole("num_key_value_heads", default=num)
    attention.check_groups(fields, num, kv)
    dim = fields.whole("attention_head_dim", default=wide // num)
    heads = attention.Heads(num, kv, dim, dim)
    base = heads.layer(None)
    hybrid = Layer(base.cache, num, dim, dim, state)
    model.layers = [hybrid if kind == windows.HYBRID else Layer(state) for kind in kinds]
    model.add(SPACE, count, range(layers))
    block = linear(wide, heads.query_width) + linear(wide, 2 * kv * dim)
    block += linear(heads.query_width, hidden)
    width = fields.whole("intermediate_size", default=4 * hidden)
    block += feedforward.mlp(hidden, width, True, fields.flag("add_bias_linear"))
    block += vector(wide + hidden)
    users = [i for i, kind in enumerate(kinds) if kind == windows.HYBRID]
    for first in range(min(blocks, len(users))):
        turns = users[first::blocks]
        model.add("shared attention and MLP", block.used_again(len(turns) - 1), turns, once=True)
    if users:
        model.add("projections into hybrid layers", linear(hidden, hidden), users)
        model.add("adapters", _adapters(fields, hidden, wide, width), users)
    model.facts["d_ff"] = width
    model.add("norms", vector(hidden), (*range(layers), *decoder.LAST))
    return model


def _adapters(fields: Fields, hidden: int, wide: int, width: int) -> Count:
    """What is not shared: low-rank additions to the shared matrices, one set per use."""
    if not fields.has("adapter_rank"):
        fields.skip("use_shared_attention_adapter")
        return NOTHING
    rank = fields.whole("adapter_rank")
    count = linear(hidden, rank) + linear(rank, 2 * width)
    if fields.flag("use_shared_attention_adapter"):
        count += (linear(wide, rank) + linear(rank, wide)) * 3
    return count
