"""Parameter counts equal what `transformers` builds, for every architecture, to the last one."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter

import pytest

from core.sizing import catalog
from core.sizing.architectures import locate, model_from_config
from core.sizing.kv import kv_bytes_per_token
from core.sizing.parameters import Count, experts, linear, vector

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.sizing import tiny_models  # noqa: E402

transformers.logging.set_verbosity_error()

KINDS = tiny_models.known()


LEARNED = ("e_score_correction_bias", "expert_bias", "layer_scalar")
"""Numbers of the checkpoint that are not trained by gradients, and so are buffers there."""


def total(model):
    return sum(tensor.numel() for _, tensor in learned(model))


def learned(model):
    yield from model.named_parameters()
    yield from (pair for pair in model.named_buffers() if pair[0].endswith(LEARNED))


def test_parts_add_up():
    layer = linear(8, 4, bias=True) + experts(6, 2, linear(4, 3)) + vector(5)
    assert layer == Count(32 + 4 + 72 + 5, 32 + 4 + 24 + 5, 32 + 24, 4 + 5)
    assert layer * 3 == layer + layer + layer


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_counted(kind):
    config = tiny_models.config_of(kind)
    spec = model_from_config(tiny_models.as_published(config))
    assert spec.params == total(tiny_models.empty_model(config))
    assert spec.params == sum(part.params for part in spec.parts)
    assert spec.active_params == sum(part.active for part in spec.parts)
    assert spec.matmul_params == sum(part.matmul for part in spec.parts)
    assert 0 < spec.matmul_params <= spec.active_params <= spec.params or kind.startswith("zamba")


SWITCHES = [
    ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    ("llama", {"num_key_value_heads": 12, "head_dim": None}),
    ("llama", {"num_key_value_heads": 1}),
    ("qwen3", {"attention_bias": True}),
    ("cohere", {"use_qk_norm": True}),
    ("stablelm", {"qk_layernorm": True, "use_qkv_bias": True}),
    ("phi", {"qk_layernorm": True}),
    ("starcoder2", {"use_bias": False}),
    ("phimoe", {"lm_head_bias": True, "attention_bias": True}),
    ("gpt_oss", {"attention_bias": False}),
    ("glm4_moe", {"use_qk_norm": True, "first_k_dense_replace": 0}),
    ("glm4_moe", {"first_k_dense_replace": 6}),
    ("qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [1]}),
    ("llama4_text", {"interleave_moe_layer_step": 1}),
    ("deepseek_v2", {"q_lora_rank": None, "attention_bias": True}),
    ("falcon", {"new_decoder_architecture": True}),
    ("falcon", {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("falcon", {"multi_query": False, "num_kv_heads": 12, "parallel_attn": False, "bias": True}),
    ("gpt_bigcode", {"multi_query": False}),
    ("opt", {"word_embed_proj_dim": 96, "do_layer_norm_before": True}),
    ("opt", {"enable_bias": False}),
    ("bloom", {"tie_word_embeddings": False}),
    ("mamba", {"use_bias": True, "time_step_rank": 9}),
    ("mamba2", {"use_conv_bias": False}),
    ("falcon_h1", {"mamba_rms_norm": True, "mamba_d_ssm": None, "mamba_d_head": "auto"}),
    ("nemotron_h", {"moe_latent_size": 24, "mlp_bias": True}),
    ("granitemoehybrid", {"num_local_experts": 0}),
    ("jamba", {"num_experts": 1, "num_experts_per_tok": 1}),
    ("lfm2", {"block_auto_adjust_ff_dim": False, "conv_bias": True}),
    ("gemma4_text", {"enable_moe_block": False, "attention_k_eq_v": False}),
    ("gemma4_text", {"num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}),
    ("gemma3n_text", {"num_kv_shared_layers": 0, "intermediate_size": [16, 24, 32, 40, 48, 56]}),
    ("zamba2", {"num_mem_blocks": 1, "use_shared_attention_adapter": False}),
    ("recurrent_gemma", {"lru_width": 72}),
    ("olmo_hybrid", {"linear_key_head_dim": None, "linear_value_head_dim": None}),
]


@pytest.mark.parametrize(("kind", "switch"), SWITCHES)
def test_switches_of_a_config_are_counted(kind, switch):
    config = tiny_models.config_of(kind, **switch)
    published = {**tiny_models.as_published(config), **switch}
    assert model_from_config(published).params == total(tiny_models.empty_model(config))


SHARED_WEIGHTS = {"zamba", "zamba2"}
TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 128,
}
NO_MATRIX = ("bias", "norm", "embed", "wte", "wpe", "word_embeddings", "altup", "position")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SHARED_WEIGHTS])
def test_matrices_are_told_from_vectors_and_tables(kind):
    """Told independently, by the shape of each tensor; an expert's by its share of visits."""
    config = tiny_models.config_of(kind, tie_word_embeddings=False)
    published = tiny_models.as_published(config)
    spec = model_from_config(published)
    share = 1.0
    if "n_experts" in spec.fields:
        share = spec.fields["n_active_experts"] / spec.fields["n_experts"]
    matmul = matrices = 0.0
    for name, tensor in tiny_models.empty_model(config).named_parameters():
        leaf = name.lower().replace("norm_attn_norm.", "")  # DBRX names a whole block so
        if tensor.dim() < 2 or any(word in leaf for word in NO_MATRIX):
            continue
        matmul += tensor.numel() * (share if "experts." in leaf and "shared" not in leaf else 1)
        matrices += tensor.numel()
    if kind == "gemma3n_text":  # AltUp's maps have its name, and are matrices all the same
        streams = published["altup_num_inputs"]
        more = 6 * (streams * (streams + streams**2) + 96 * streams)
        more += 2 * (streams - 1) * 96 * 96
        matmul, matrices = matmul + more, matrices + more
    if kind == "kimi_linear":  # one decay per head, stored with four dimensions
        decays = 3 * sum(not layer.num_query_heads for layer in spec.layers)
        matmul, matrices = matmul - decays, matrices - decays
    assert spec.matmul_params == round(matmul)
    assert spec.params - sum(part.vectors for part in spec.parts) == matrices
    assert sum(part.within(0, spec.num_layers)[1] for part in spec.parts) == sum(
        part.vectors for part in spec.parts
    )


LAYER = re.compile(r"\.(?:layers|h|blocks)\.(\d+)\.")
AT_THE_START = re.compile(
    "(?<!un)embed(?!_out|ding_norm)|per_layer|altup_projection|wte|wpe|project_in"
)


def layer_of(name, layers):
    """The layer that a tensor is in by its name, or the end that it is at."""
    found = LAYER.search(name)
    if found:
        return int(found[1])
    return 0 if AT_THE_START.search(name) else layers - 1


HALVES = {"longcat_flash"}
"""One of its layers is two of ours."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SHARED_WEIGHTS | HALVES])
def test_parameters_are_in_the_layers_where_they_are(kind):
    """A stage of any one layer holds what `transformers` builds for it."""
    config = tiny_models.config_of(kind, tie_word_embeddings=False)
    spec = model_from_config(tiny_models.as_published(config))
    expected = Counter()
    for name, tensor in learned(tiny_models.empty_model(config)):
        expected[layer_of(name, spec.num_layers)] += tensor.numel()
    for i in range(spec.num_layers):
        assert sum(sum(part.within(i, i + 1)) for part in spec.parts) == expected[i], i


def test_what_layers_share_is_held_once_by_each_stage():
    table = model_from_config({**TINY, "tie_word_embeddings": True}).parts[0]
    size = TINY["vocab_size"] * TINY["hidden_size"]
    assert [sum(table.within(*span)) for span in ((0, 4), (0, 1), (1, 3), (3, 4))] == [
        size,
        size,
        0,
        size,
    ]


def language_model(entry):
    """The `transformers` configuration of a catalogue entry's language model, at full size."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = copy.deepcopy(entry.config)
    inner = config.get("text_config", config)
    kind = locate.SAME_KIND.get(inner["model_type"], inner["model_type"])
    if kind not in CONFIG_MAPPING or inner.get("use_cla"):
        return None
    for name in ("model_type", "quantization_config", "vision_config", "rope_scaling"):
        inner.pop(name, None)
    inner.setdefault("tie_word_embeddings", config.get("tie_word_embeddings"))
    if inner["tie_word_embeddings"] is None:
        del inner["tie_word_embeddings"]
    marks = inner.pop("attn_type_list", None)
    if marks and not all(marks):
        inner["layer_types"] = ["full_attention" if m else "linear_attention" for m in marks]
    return CONFIG_MAPPING[kind](**inner)


UNBUILT = {"openelm-1.1b", "hunyuan-large"}
"""transformers does not have these; their authors' totals are below."""


@pytest.mark.parametrize("name", [n for n in catalog.names() if catalog.get(n).params is not None])
def test_catalogue_at_full_size(name):
    config = language_model(catalog.entries()[name])
    assert (config is None) == (name in UNBUILT)
    if config is not None:
        assert catalog.get(name).params == total(tiny_models.empty_model(config))


PUBLISHED = {
    "openelm-1.1b": 1_079_891_456,
    "gpt-3-175b": 174_604_259_328,
    "bloom-176b": 176_247_271_424,
    "mixtral-8x7b": 46_702_792_704,
    "llama-3.1-405b": 405_853_388_800,
}


CHATGLM3 = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "num_layers": 28,
    "hidden_size": 4096,
    "padded_vocab_size": 65024,
    "vocab_size": 65024,
    "num_attention_heads": 32,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "kv_channels": 128,
    "ffn_hidden_size": 13696,
    "add_qkv_bias": True,
    "add_bias_linear": False,
    "rmsnorm": True,
    "post_layer_norm": True,
    "seq_length": 8192,
    "apply_query_key_layer_scaling": True,
    "bias_dropout_fusion": True,
    "tie_word_embeddings": False,
}


def test_chatglm_is_as_large_as_its_checkpoint():
    """6,243,584,032 less the 32 frequencies of its rotary embedding; 28 KiB a token."""
    spec = model_from_config(CHATGLM3)
    assert (spec.params, spec.warnings) == (6_243_584_000, ())
    assert kv_bytes_per_token(spec).value == 2 * 28 * 2 * 128 * 2


def test_minimax_m1_is_minimax_text_01():
    config = {**catalog.entries()["minimax-text-01"].config, "model_type": "minimax_m1"}
    spec, old = model_from_config(config), catalog.get("minimax-text-01")
    assert (spec.layers, spec.params, spec.warnings) == (old.layers, old.params, ())


def test_biases_that_choose_experts_are_counted_where_a_checkpoint_has_them():
    v3 = catalog.get("deepseek-v3")
    assert v3.params == 671_026_404_352 + 58 * 256
    config = {**catalog.entries()["deepseek-v3"].config, "model_type": "deepseek_v2"}
    assert model_from_config(config).params == 671_026_404_352  # V2 chooses without


def test_hunyuan_large_is_as_large_as_its_authors_say():
    """389 B, 52 B of them active."""
    spec = catalog.get("hunyuan-large")
    assert round(spec.params / 1e9) == 389
    assert 50e9 < spec.active_params < 53e9


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_that_their_authors_give(name):
    assert catalog.get(name).params == PUBLISHED[name]


def test_nominal_sizes_are_near_the_exact_ones():
    for name in catalog.names():
        spec = catalog.get(name)
        if spec.nominal_params and spec.params:
            assert math.isclose(spec.nominal_params, spec.params, rel_tol=0.3), name
