"""Decoders whose layers differ in their heads or widths, or that are put together differently."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.sizing.architectures import attention, decoder, feedforward, windows
from core.sizing.architectures.attention import Heads
from core.sizing.architectures.decoder import Model
from core.sizing.architectures.families import DEEPSEEK, FAMILIES
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Family
from core.sizing.errors import SizingError
from core.sizing.geometry import Layer
from core.sizing.parameters import Count, experts, linear, vector


def mimo(fields: Fields) -> Model:
    """MiMo-V2-Flash: values narrower than keys; sliding layers have KV heads and sinks of their
    own. hybrid_layer_pattern marks them with 1."""
    family = Family(qkv_bias="attention_bias", experts=DEEPSEEK)
    model = decoder.start(fields)
    layers, hidden = decoder.layer_count(fields), model.hidden
    kinds = _mimo_kinds(fields, layers)
    full = attention.read_heads(fields, family, hidden)
    num = fields.whole("swa_num_attention_heads", default=full.num_heads)
    kv = fields.whole("swa_num_key_value_heads", default=2 * full.num_kv_heads)
    attention.check_groups(fields, num, kv, "swa_num_key_value_heads")
    key, value = fields.whole("swa_head_dim", default=full.key_dim), full.value_dim
    local = Heads(num, kv, key, fields.whole("swa_v_head_dim", default=value))
    sinks = {
        windows.SLIDING: fields.flag("add_swa_attention_sink_bias", default=True),
        windows.FULL: fields.flag("add_full_attention_sink_bias"),
    }
    heads = {windows.FULL: full, windows.SLIDING: local}
    window = _mimo_window(fields)
    for i, kind in enumerate(kinds):
        model.layers.append(heads[kind].layer(window if kind == windows.SLIDING else None))
        one = replace(family, sinks=sinks[kind])
        model.add("attention", attention.heads_count(fields, one, hidden, heads[kind]), (i,))
    decoder.add_feedforward(fields, family, model, layers)
    _two_norms(model, layers)
    fields.skip("hybrid_block_size", "attention_chunk_size")
    return model


def _mimo_kinds(fields: Fields, layers: int) -> list[str]:
    given = windows.listed(fields, layers)
    marks = fields.wholes("hybrid_layer_pattern", layers)
    if given is not None:
        return given
    if marks is not None:
        return [windows.SLIDING if mark else windows.FULL for mark in marks]
    return [windows.FULL if i == 0 or not (i + 1) % 6 else windows.SLIDING for i in range(layers)]


def _mimo_window(fields: Fields) -> int:
    """sliding_window_size counts the tokens before the query; sliding_window the query too."""
    before = fields.whole_or_none("sliding_window_size")
    stated = fields.whole("sliding_window", default=0, minimum=0)
    return before + 1 if before is not None else stated


def longcat(fields: Fields) -> Model:
    """LongCat-Flash: each layer attends twice (MLA) and has two MLPs beside its experts, some of
    which do nothing."""
    family = Family(attention="latent", qkv_bias="attention_bias", o_bias="attention_bias")
    model = decoder.start(fields)
    hidden = model.hidden
    layers = fields.whole("num_layers")
    stated = fields.whole_or_none("num_hidden_layers")
    if stated not in (None, layers, 2 * layers):
        raise SizingError(
            fields.at("num_hidden_layers"), f"is {stated}, but num_layers is {layers}"
        )
    layer, count, _ = attention.read_latent(fields, family, hidden)
    model.layers = [layer] * (2 * layers)
    halves = range(2 * layers)  # each with attention, an MLP and two norms
    model.add("attention", count, halves)
    width = fields.whole("ffn_hidden_size", "intermediate_size")
    model.add("MLP", feedforward.mlp(hidden, width, True), halves)
    number = fields.whole("n_routed_experts")
    idle = fields.whole("zero_expert_num", default=0, minimum=0)
    visited = fields.whole("moe_topk", "num_experts_per_tok")
    if visited > number + idle:
        raise SizingError(fields.at("moe_topk"), f"is {visited}, of {number + idle} experts")
    width = fields.whole("expert_ffn_hidden_size", "moe_intermediate_size")
    one = experts(number, min(visited, number), feedforward.mlp(hidden, width, True))
    model.facts.update(feedforward.facts(width, number, min(visited, number)))
    router = linear(hidden, number + idle, fields.flag("router_bias")) + vector(number + idle)
    model.add("experts", one, halves[::2])
    model.add("router", router, halves[::2])
    if idle:
        model.notes.append(
            f"{idle} of {number + idle} experts do nothing: active parameters are an upper bound"
        )
    _two_norms(model, 2 * layers)
    return model


def dbrx(fields: Fields) -> Model:
    """DBRX: shapes in two nested objects; norms without biases."""
    model = decoder.start(fields)
    hidden, layers = model.hidden, decoder.layer_count(fields)
    attn, ffn = _nested(fields, "attn_config"), _nested(fields, "ffn_config")
    num = fields.whole("n_heads", "num_attention_heads")
    kv = attn.whole("kv_n_heads")
    stated = fields.whole_or_none("num_key_value_heads")
    if stated not in (None, kv):
        raise SizingError(attn.at("kv_n_heads"), f"is {kv}, but num_key_value_heads is {stated}")
    attention.check_groups(attn, num, kv, "kv_n_heads")
    dim = attention.even_share(fields, hidden, num)
    heads = Heads(num, kv, dim, dim)
    model.layers = [heads.layer(None)] * layers
    family = Family()
    every = range(layers)
    model.add("attention", attention.heads_count(fields, family, hidden, heads), every)
    number, visited = ffn.whole("moe_num_experts"), ffn.whole("moe_top_k")
    if visited > number:
        raise SizingError(ffn.at("moe_top_k"), f"is {visited}, of {number} experts")
    width = ffn.whole("ffn_hidden_size")
    mixture = experts(number, visited, feedforward.mlp(hidden, width, True))
    model.facts.update(feedforward.facts(width, number, visited))
    model.add("experts", mixture, every)
    model.add("router", linear(hidden, number), every)
    _two_norms(model, layers)
    return model


def _nested(fields: Fields, name: str) -> Fields:
    inner = fields.inner(name)
    if inner is None:
        raise SizingError(fields.at(name), "is missing, and the size depends on it")
    return inner


def opt(fields: Fields) -> Model:
    """OPT: embeddings may be narrower than the layers (350M: 512 in 1,024), with a matrix in and
    one out; and in that size norms come after, so that there is no final one."""
    hidden, vocab = fields.whole("hidden_size"), fields.whole("vocab_size")
    narrow = fields.whole("word_embed_proj_dim", default=hidden)
    model = Model(hidden, vocab, tied=fields.flag("tie_word_embeddings", default=True))
    decoder.embed(model, narrow)
    if narrow != hidden:
        model.add("projections of embeddings", linear(narrow, hidden), decoder.FIRST)
        model.add("projections of embeddings", linear(hidden, narrow), decoder.LAST)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    decoder.fill(fields, replace(FAMILIES["opt"], norm="layer" if affine else "none"), model)
    final = fields.flag("do_layer_norm_before", default=True)
    if affine and (not final or fields.flag("_remove_final_layer_norm")):
        model.add("norms", vector(-2 * hidden), decoder.LAST)
    return model


def mpt(fields: Fields) -> Model:
    """MPT: the MLP's width as a ratio, attention in a nested object."""
    attn = fields.inner("attn_config")
    if attn is not None:
        if attn.word("attn_type", "multihead_attention") != "multihead_attention":
            raise SizingError(
                attn.at("attn_type"), "only multihead_attention is known for this architecture"
            )
        num, kv = fields.whole("n_heads"), attn.whole_or_none("kv_n_heads")
        if kv not in (None, num):
            raise SizingError(
                attn.at("kv_n_heads"),
                f"is {kv}, but attn_type, multihead_attention if it is not given, has a KV head "
                f"for each of {num} heads",
            )
    ratio = fields.whole("expansion_ratio", default=4)
    return decoder.build(fields, replace(FAMILIES["mpt"], width_times=ratio))


def chatglm(fields: Fields) -> Model:
    """ChatGLM 2 and 3, GLM-4-9B: groups of heads share keys and values if multi_query_attention."""
    if fields.has("position_encoding_2d") or fields.has("inner_hidden_size"):
        raise SizingError(
            fields.at("model_type"), "of the first ChatGLM, whose layers are others, is not known"
        )
    hidden, layers = fields.whole("hidden_size"), fields.whole("num_layers", "num_hidden_layers")
    vocab = fields.whole("padded_vocab_size", "vocab_size")
    model = Model(hidden, vocab, tied=fields.flag("tie_word_embeddings"))
    decoder.embed(model, hidden)
    num = fields.whole("num_attention_heads")
    grouped, groups = fields.flag("multi_query_attention"), fields.raw("multi_query_group_num")
    kv = fields.whole("multi_query_group_num") if grouped and groups is not None else num
    attention.check_groups(fields, num, kv, "multi_query_group_num")
    dim = fields.whole("kv_channels", default=attention.even_share(fields, hidden, num))
    bias = fields.flag("add_bias_linear")
    family = Family(qkv_bias=bias or fields.flag("add_qkv_bias"), o_bias=bias, mlp_bias=bias)
    heads = Heads(num, kv, dim, dim)
    model.layers = [heads.layer(None)] * layers
    every = range(layers)
    model.add("attention", attention.heads_count(fields, family, hidden, heads), every)
    width = fields.whole("ffn_hidden_size")
    model.facts["d_ff"] = width
    model.add("MLP", feedforward.mlp(hidden, width, True, bias), every)
    fields.skip("apply_query_key_layer_scaling", "bias_dropout_fusion", "original_rope")
    kind = "rms" if fields.flag("rmsnorm", default=True) else "layer"
    final = fields.flag("post_layer_norm", default=True)
    model.add("norms", decoder.norm(kind, hidden) * 2, every)
    model.add("norms", decoder.norm(kind, hidden) * final, decoder.LAST)
    return model


def openelm(fields: Fields) -> Model:
    """OpenELM: query heads, KV heads and MLP widths of every layer in lists."""
    hidden = fields.whole("model_dim", "hidden_size")
    vocab = fields.whole("vocab_size")
    layers = fields.whole("num_transformer_layers", "num_hidden_layers")
    model = Model(hidden, vocab, tied=fields.flag("share_input_output_layers", default=True))
    decoder.embed(model, hidden)
    dim = fields.whole("head_dim")
    queries = fields.wholes("num_query_heads", layers, minimum=1)
    kvs = fields.wholes("num_kv_heads", layers, minimum=1)
    factors = fields.items("ffn_multipliers", layers)
    for name, value in (("num_query_heads", queries), ("num_kv_heads", kvs)):
        if value is None:
            raise SizingError(fields.at(name), "is missing, and the size depends on it")
    assert queries is not None and kvs is not None
    family = Family(qk_norm="head" if fields.flag("normalize_qk_projections") else "")
    for i in range(layers):
        attention.check_groups(fields, queries[i], kvs[i], f"num_kv_heads[{i}]")
        heads = Heads(queries[i], kvs[i], dim, dim)
        model.layers.append(heads.layer(None))
        model.add("attention", attention.heads_count(fields, family, hidden, heads), (i,))
        model.add("MLP", _openelm_mlp(fields, hidden, factors, i), (i,))
    fields.skip("qkv_multipliers", "num_gqa_groups", "ffn_dim_divisor", "normalization_layer_name")
    fields.skip("activation_fn_name", "ffn_with_glu", "max_context_length", "rope_max_length")
    fields.skip("rope_freq_constant")
    _two_norms(model, layers)
    return model


def _openelm_mlp(fields: Fields, hidden: int, factors: list[Any] | None, i: int) -> Count:
    factor = (factors or [4.0] * (i + 1))[i]
    divisor = fields.whole("ffn_dim_divisor", default=256)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 64:
        raise SizingError(f"{fields.at('ffn_multipliers')}[{i}]", "must be a number from 0 to 64")
    return feedforward.mlp(hidden, _rounded(factor * hidden, divisor), True)


def _rounded(value: float, divisor: int) -> int:
    """To the nearest multiple, but not more than a tenth below."""
    out = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return out + divisor if out < 0.9 * value else out


def nas(fields: Fields) -> Model:
    """Nemotron-NAS (DeciLM): block_configs says for each layer how many query heads share a KV
    head, or that attention or MLP is a plain matrix or is left out."""
    family = Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
    model = decoder.start(fields, tied=False)
    layers, hidden = decoder.layer_count(fields), model.hidden
    num = fields.whole("num_attention_heads")
    dim = fields.whole("head_dim", default=attention.even_share(fields, hidden, num))
    blocks = fields.items("block_configs", layers)
    if blocks is None:
        raise SizingError(fields.at("block_configs"), "is missing, and the size depends on it")
    fields.skip("num_key_value_heads", "intermediate_size", "num_key_value_heads_per_layer")
    for i, block in enumerate(blocks):
        where = f"{fields.at('block_configs')}[{i}]"
        attn, ffn = _half(block, "attention", where), _half(block, "ffn", where)
        if attn.flag("no_op"):
            model.layers.append(Layer(None))
        elif attn.flag("replace_with_linear"):
            model.layers.append(Layer(None))
            model.add("linear maps", linear(hidden, hidden), (i,))
        else:
            group = attn.whole("n_heads_in_group")
            if num % group:
                raise SizingError(
                    attn.at("n_heads_in_group"), f"{group} does not divide {num} heads"
                )
            heads = Heads(num, num // group, dim, dim)
            window = attn.whole_or_none("window_length")
            model.layers.append(heads.layer(window))
            model.add("attention", attention.heads_count(fields, family, hidden, heads), (i,))
        halves = [attn, ffn]
        model.add("norms", vector(hidden), [i for half in halves if not half.flag("no_op")])
        model.add("MLP", _nas_mlp(ffn, hidden), (i,))
    model.add("norms", vector(hidden), decoder.LAST)
    return model


def _two_norms(model: Model, layers: int) -> None:
    """Before and after the first half of each layer, and a final one."""
    model.add("norms", vector(2 * model.hidden), range(layers))
    model.add("norms", vector(model.hidden), decoder.LAST)


def _half(block: object, name: str, where: str) -> Fields:
    if not isinstance(block, dict) or not isinstance(block.get(name), dict):
        raise SizingError(f"{where}.{name}", "must be an object")
    return Fields(block[name], f"{where}.{name}", {}, True)


def _nas_mlp(ffn: Fields, hidden: int) -> Count:
    if ffn.flag("no_op"):
        return Count()
    if ffn.flag("replace_with_linear"):
        return linear(hidden, hidden)
    factor = ffn.raw("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 64:
        raise SizingError(ffn.at("ffn_mult"), "must be a number from 0 to 64")
    width = -(-int(2 * factor * hidden / 3) // 256) * 256
    return feedforward.mlp(hidden, width, True)
