"""Geometry from the fields of config.json: what each layer caches, however the file says it."""

from __future__ import annotations

import copy

import pytest

from core.sizing import catalog
from core.sizing.architectures import model_from_config
from core.sizing.geometry import FixedState, KVHeads, Latent, SharedKV
from core.sizing.kv import kv_bytes_per_token, kv_bytes_sequence

LLAMA = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}


def spec_of(**changes):
    return model_from_config({**LLAMA, **changes})


def windows(spec):
    return [layer.cache.window for layer in spec.layers]


# The name decides nothing; the fields do.


def test_renaming_changes_nothing():
    a, b = model_from_config(LLAMA, name="a"), model_from_config(LLAMA, name="qwen3-moe-70b")
    assert (a.layers, a.params, a.fields) == (b.layers, b.params, b.fields)


def test_order_of_fields_changes_nothing():
    assert model_from_config(dict(reversed(LLAMA.items()))) == model_from_config(LLAMA)


def test_whole_numbers_may_be_written_with_a_point():
    assert spec_of(hidden_size=4096.0, num_hidden_layers=32.0) == spec_of()


def test_kv_heads_tell_mha_gqa_mqa():
    assert spec_of().fields["attention"] == "GQA"
    assert spec_of(num_key_value_heads=32).fields["attention"] == "MHA"
    assert spec_of(num_key_value_heads=1).fields["attention"] == "MQA"
    assert spec_of(num_key_value_heads=None).layers == spec_of(num_key_value_heads=32).layers


def test_fewer_kv_heads_keep_less_in_proportion():
    whole = kv_bytes_per_token(spec_of(num_key_value_heads=32)).value
    for heads in (1, 2, 4, 8, 16):
        part = kv_bytes_per_token(spec_of(num_key_value_heads=heads)).value
        assert part * 32 == whole * heads


def test_twice_the_layers_keep_twice():
    once, twice = kv_bytes_per_token(spec_of()), kv_bytes_per_token(spec_of(num_hidden_layers=64))
    assert twice.value == 2 * once.value


def test_head_dim_counts_where_it_is_given():
    assert spec_of().layers[0].cache == KVHeads(8, 128, 128)
    assert spec_of(head_dim=64).layers[0].cache == KVHeads(8, 64, 64)
    assert spec_of(head_dim=64).fields["d_head"] == 64
    assert catalog.get("qwen3-0.6b").fields["d_head"] == 128  # not 1024 / 16


def test_experts_change_what_is_stored_not_what_is_cached():
    mixtral, mistral = catalog.get("mixtral-8x7b"), catalog.get("mistral-7b")
    assert mixtral.layers == mistral.layers
    assert mixtral.params > 3 * mixtral.active_params


# Windows


def test_gemma_2_slides_in_every_second_layer():
    assert windows(catalog.get("gemma-2-9b")) == [4096, None] * 21


def test_gemma_3_slides_five_times_in_six():
    assert windows(catalog.get("gemma-3-27b")) == ([1024] * 5 + [None]) * 10 + [1024] * 2


def test_gpt_oss_says_each_layer():
    assert windows(catalog.get("gpt-oss-20b")) == [128, None] * 12


def test_llama_4_attends_in_chunks_where_it_has_positions():
    assert windows(catalog.get("llama-4-scout")) == [8192, 8192, 8192, None] * 12


def test_mistral_slides_in_all_layers_or_none():
    assert windows(catalog.get("mistral-7b-v0.1")) == [4096] * 32
    assert windows(catalog.get("mistral-7b")) == [None] * 32


def test_qwen_slides_above_a_layer_only_if_switched_on():
    qwen = copy.deepcopy(catalog.entries()["qwen2.5-7b"].config)
    assert windows(model_from_config(qwen)) == [None] * 28
    qwen.update(use_sliding_window=True, max_window_layers=20, sliding_window=512)
    assert windows(model_from_config(qwen)) == [None] * 20 + [512] * 8


@pytest.mark.parametrize(
    ("pattern", "expected"), [("LLLG", [99, 99, 99, None]), ("LG", [99, None]), (2, [99, None])]
)
def test_patterns_as_letters_or_as_a_number(pattern, expected):
    spec = spec_of(model_type="exaone4", sliding_window=99, sliding_window_pattern=pattern)
    assert windows(spec) == expected * (32 // len(expected))


def test_a_window_as_long_as_the_context_keeps_as_much_as_none():
    full = spec_of(model_type="mistral", sliding_window=None)
    for window, same in ((8192, True), (9000, True), (8191, False)):
        spec = spec_of(model_type="mistral", sliding_window=window)
        kept = kv_bytes_sequence(spec, 8192).value
        assert (kept == kv_bytes_sequence(full, 8192).value) is same


def test_attention_both_ways_halves_the_window():
    gemma = catalog.entries()["gemma-3-4b"].config
    text = {**gemma["text_config"], "use_bidirectional_attention": True}
    spec = model_from_config({**gemma, "text_config": text})
    assert windows(spec)[:6] == [513] * 5 + [None]


# Kinds of cache


def test_mla_keeps_one_latent_and_one_rotary_key():
    spec = catalog.get("deepseek-v3")
    assert {layer.cache for layer in spec.layers} == {Latent(512, 64)}
    assert (spec.layers[0].num_query_heads, spec.layers[0].query_dim) == (128, 192)


def test_mla_is_told_by_its_fields_not_by_its_kv_heads():
    config = catalog.entries()["deepseek-v3"].config
    assert model_from_config({**config, "num_key_value_heads": 4}).layers == (
        catalog.get("deepseek-v3").layers
    )


def test_an_indexer_keeps_one_more_key():
    spec = catalog.get("deepseek-v3.2")
    assert {layer.indexer_dim for layer in spec.layers} == {128}
    assert {layer.cache for layer in spec.layers} == {Latent(512, 64)}


def test_indexers_that_are_shared_are_counted_once():
    config = {**catalog.entries()["deepseek-v3.2"].config, "model_type": "glm_moe_dsa"}
    shared = model_from_config({**config, "index_topk_freq": 4, "index_skip_topk_offset": 2})
    own = [layer.indexer_dim for layer in shared.layers]
    assert own[:10] == [128, 128, 0, 0, 0, 128, 0, 0, 0, 128]
    letters = "".join("F" if dim else "S" for dim in own)
    by_letters = model_from_config({**config, "index_topk_pattern": letters})
    assert (by_letters.layers, by_letters.params) == (shared.layers, shared.params)
    assert shared.params < model_from_config(config).params


def test_falcon_tells_its_kv_heads_in_its_own_way():
    assert catalog.get("falcon-7b").fields["n_kv_heads"] == 1
    assert catalog.get("falcon-40b").fields["n_kv_heads"] == 8  # though multi_query is true
    old = {**catalog.entries()["falcon-7b"].config, "num_kv_heads": 71}
    assert model_from_config(old).fields["n_kv_heads"] == 1


def test_keys_and_values_of_different_width_and_heads_by_kind_of_layer():
    spec = catalog.get("mimo-v2-flash")
    kinds = {layer.cache: layer.num_query_heads for layer in spec.layers}
    assert kinds == {KVHeads(4, 192, 128): 64, KVHeads(8, 192, 128, 128): 64}
    assert sum(layer.cache.window is None for layer in spec.layers) == 9
    assert (spec.fields["d_head_k"], spec.fields["d_head_v"]) == (192, 128)
    assert "n_kv_heads" not in spec.fields  # it is not the same in all layers


def test_gemma_4_has_wider_heads_where_it_sees_everything():
    spec = catalog.get("gemma-4-31b")
    assert {layer.cache for layer in spec.layers} == {
        KVHeads(16, 256, 256, 1024),
        KVHeads(4, 512, 512),
    }


def test_layers_that_share_keys_and_values_keep_none():
    spec = catalog.get("gemma-3n-e4b")
    assert [isinstance(layer.cache, SharedKV) for layer in spec.layers] == [False] * 20 + [
        True
    ] * 15
    # The last owner of each kind: layer 18 slides, layer 19 sees everything.
    assert [layer.cache.layer for layer in spec.layers[20:25]] == [18, 18, 18, 18, 19]


def test_cross_layer_attention_keeps_one_of_two():
    spec = catalog.get("hunyuan-large")
    shared = [getattr(layer.cache, "layer", None) for layer in spec.layers]
    assert shared == [i if odd else None for i in range(0, 64, 2) for odd in (0, 1)]
    alone = model_from_config({**catalog.entries()["hunyuan-large"].config, "use_cla": False})
    assert kv_bytes_per_token(alone).value == 2 * kv_bytes_per_token(spec).value
    assert alone.params - spec.params == 32 * 6400 * 2 * 8 * 80  # keys' and values' matrices


def test_experts_in_lists_that_agree():
    config = catalog.entries()["hunyuan-large"].config
    lists = {name: [config[name]] * 64 for name in ("moe_topk", "num_shared_expert")}
    assert model_from_config({**config, **lists}).params == catalog.get("hunyuan-large").params


def test_linear_attention_keeps_a_state_instead():
    spec = catalog.get("qwen3-next-80b-a3b")
    kinds = [type(layer.cache) for layer in spec.layers]
    assert kinds == [FixedState, FixedState, FixedState, KVHeads] * 12
    parts = {name: (count, width) for name, count, width in spec.layers[0].cache.parts}
    assert parts == {"convolution": (8192 * 4, None), "recurrent": (32 * 128 * 128, 4)}


def test_layers_listed_from_one_are_understood():
    spec = catalog.get("kimi-linear-48b-a3b")
    attends = [i for i, layer in enumerate(spec.layers) if isinstance(layer.cache, Latent)]
    assert attends == [3, 7, 11, 15, 19, 23, 26]


def test_blocks_of_one_kind_each():
    spec = catalog.get("nemotron-3-nano-30b-a3b")
    kinds = [type(layer.cache).__name__ for layer in spec.layers]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "FixedState": 23,
        "NoneType": 23,
        "KVHeads": 6,
    }


def test_a_list_of_blocks_says_what_the_letters_say():
    config = dict(catalog.entries()["nemotron-3-nano-30b-a3b"].config)
    words = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
    config["layers_block_type"] = [words[c] for c in config.pop("hybrid_override_pattern")]
    assert model_from_config(config).layers == catalog.get("nemotron-3-nano-30b-a3b").layers


def test_attention_and_state_side_by_side():
    layer = catalog.get("falcon-h1-7b").layers[0]
    assert layer.cache == KVHeads(2, 128, 128)
    assert layer.state is not None and layer.state.kind == "state_space"


def test_nothing_grows_without_attention():
    spec = catalog.get("mamba-2.8b")
    assert kv_bytes_per_token(spec).value == 0
    assert spec.fields["attention"] == "fixed state"


def test_heads_in_a_list_per_layer():
    spec = catalog.get("openelm-1.1b")
    assert [layer.cache.num_kv_heads for layer in spec.layers] == (
        [4] * 3 + [5] * 7 + [6] * 8 + [7] * 6 + [8] * 4
    )
    assert spec.layers[-1].num_query_heads == 32


def test_blocks_that_a_search_has_thinned():
    def block(group=None, factor=1.0, **attention):
        return {
            "attention": {"n_heads_in_group": group, **attention},
            "ffn": {"ffn_mult": factor, "no_op": factor is None},
        }

    blocks = [block(8, 2.625), block(no_op=True), block(16, None), block(replace_with_linear=True)]
    llama = {**LLAMA, "model_type": "nemotron-nas", "num_hidden_layers": 4}
    spec = model_from_config({**llama, "block_configs": blocks})
    heads = [getattr(layer.cache, "num_kv_heads", None) for layer in spec.layers]
    assert heads == [4, None, 2, None]
    attention = (2 * 4096 + 2 * 128 * 4) * 4096 + (2 * 4096 + 2 * 128 * 2) * 4096
    mlp = 3 * 4096 * (7168 + 2 * 2816)  # ⅔ · factor · width, in steps of 256
    norms = (2 + 1 + 1 + 2 + 1) * 4096
    rest = 2 * 128256 * 4096 + 4096 * 4096
    assert spec.params == attention + mlp + norms + rest


# Where the language model lies


def test_a_language_model_inside_another_is_found():
    inner = {**LLAMA, "tie_word_embeddings": True}
    outer = {
        "model_type": "llava",
        "text_config": inner,
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24},
        "torch_dtype": "bfloat16",
    }
    nested, flat = model_from_config(outer), model_from_config(inner)
    assert (nested.layers, nested.params) == (flat.layers, flat.params)
    assert nested.checkpoint_dtype == "bf16"
    assert any("vision_config is set aside" in note for note in nested.notes)


def test_what_a_nested_file_leaves_out_is_the_architectures_own_and_noted():
    spec = catalog.get("gemma-3-4b")
    assert spec.fields["n_heads"] == 8 and spec.fields["n_kv_heads"] == 4
    assert any("num_attention_heads is not given: 8" in note for note in spec.notes)


def test_a_tie_said_outside_holds_inside():
    outer = {"model_type": "qwen3_5", "tie_word_embeddings": True}
    text = dict(catalog.entries()["qwen3.5-27b"].config["text_config"])
    spec = model_from_config({**outer, "text_config": text})
    assert spec.tied_embeddings
    untied = catalog.get("qwen3.5-27b")
    assert untied.params - spec.params == spec.vocab_size * spec.hidden_size


def test_what_lies_beside_is_noted():
    notes = " ".join(catalog.get("deepseek-v3").notes)
    assert "num_nextn_predict_layers" in notes
    assert "quantised (fp8)" in notes


# The catalogue


SPECS = {
    # name: layers, query heads, KV heads, head_dim, width, exact parameters if known
    "llama-3-70b": (80, 64, 8, 128, 8192, 70553706496),
    "llama-3.1-70b": (80, 64, 8, 128, 8192, 70553706496),
    "llama-3-8b": (32, 32, 8, 128, 4096, 8030261248),
    "llama-3.2-1b": (16, 32, 8, 64, 2048, 1235814400),
    "llama-2-70b": (80, 64, 8, 128, 8192, 68976648192),
    "llama-2-13b": (40, 40, 40, 128, 5120, 13015864320),
    "llama-2-7b": (32, 32, 32, 128, 4096, 6738415616),
    "hypothetical-70b-mha": (80, 64, 64, 128, 8192, None),
    "hypothetical-70b-mqa": (80, 64, 1, 128, 8192, None),
    "mistral-7b": (32, 32, 8, 128, 4096, 7241732096),
    "mixtral-8x7b": (32, 32, 8, 128, 4096, 46702792704),
    "falcon-7b": (32, 71, 1, 64, 4544, 6921720704),
    "falcon-40b": (60, 128, 8, 64, 8192, 41303293952),
    "gpt-3-175b": (96, 96, 96, 128, 12288, 174604259328),
    "qwen2.5-7b": (28, 28, 4, 128, 3584, 7615616512),
    "qwen2.5-72b": (80, 64, 8, 128, 8192, 72706203648),
    "qwen3-0.6b": (28, 16, 8, 128, 1024, 596049920),
    "qwen3-8b": (36, 32, 8, 128, 4096, 8190735360),
    "qwen3-32b": (64, 64, 8, 128, 5120, 32762123264),
    "smollm2-135m": (30, 9, 3, 64, 576, 134515008),
    "gemma-2-9b": (42, 16, 8, 256, 3584, 9241705984),
    "gemma-2-27b": (46, 32, 16, 128, 4608, 27227128320),
    "gemma-3-12b": (48, 16, 8, 256, 3840, 11766034176),
    "gemma-3-27b": (62, 32, 16, 128, 5376, 27009346304),
    "gpt-oss-120b": (36, 64, 8, 64, 2880, 116829156672),
    "gpt-oss-20b": (24, 64, 8, 64, 2880, 20914757184),
    "deepseek-v2": (60, 128, None, None, 5120, 235741434880),
    "deepseek-v3": (61, 128, None, None, 7168, 671026419200),
    "custom-40b": (56, 40, 8, 128, 5120, None),
}


@pytest.mark.parametrize("name", SPECS)
def test_catalogue_against_the_specifications(name):
    layers, heads, kv_heads, head_dim, width, params = SPECS[name]
    spec = catalog.get(name)
    short = ("n_layers", "n_heads", "n_kv_heads", "d_head", "d_model")
    assert tuple(spec.fields.get(key) for key in short) == (
        layers,
        heads,
        kv_heads,
        head_dim,
        width,
    )
    assert spec.params == params


@pytest.mark.parametrize("name", catalog.names())
def test_every_entry_is_understood_whole(name):
    spec, entry = catalog.get(name), catalog.entries()[name]
    assert spec.name == name
    assert spec.warnings == ()
    assert spec.source and entry.title and entry.date
    assert spec.num_layers == len(spec.layers) > 0
    assert spec.params is not None or spec.params_note
    assert all(not isinstance(value, float) for value in spec.fields.values())


def test_a_name_that_is_not_there_is_answered_with_near_ones():
    with pytest.raises(ValueError, match=r"model: 'llama-3-70B' is not .*near it: llama-3-70b"):
        catalog.get("llama-3-70B")
    with pytest.raises(ValueError, match="model: must be the name"):
        catalog.get(None)
    with pytest.raises(ValueError, match=r"'zzzz' is not in the catalogue$"):
        catalog.get("zzzz")
