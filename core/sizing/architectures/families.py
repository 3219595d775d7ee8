"""The table of decoders: one entry per `model_type`.

Read in the published code of each (transformers 5.24), and checked against it: the tests build
every one of them, small and at full size, and compare all parameters and the cache.
"""

from __future__ import annotations

from dataclasses import replace

from core.sizing.architectures.traits import Experts, Family

_LLAMA = Family(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
_QWEN2 = Family(qkv_bias=True, window="qwen")
_QWEN3 = Family(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head", window="qwen")
_GEMMA = Family(qkv_bias="attention_bias", o_bias="attention_bias")
_GEMMA2 = replace(_GEMMA, norms=4, window="every", every=2)
_COHERE = Family(
    norms=1,
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    qk_norm="heads",
    qk_norm_if="use_qk_norm",
)
_MIXTRAL = Family(
    window="all", experts=Experts(count="num_local_experts", width="intermediate_size")
)
_GRANITE_EXPERTS = Experts(count="num_local_experts", width="intermediate_size")
DEEPSEEK = Experts(
    count="n_routed_experts", shared="n_shared_experts", which="first_dense", router_bias=True
)
_MLA = Family(
    attention="latent", qkv_bias="attention_bias", o_bias="attention_bias", experts=DEEPSEEK
)
_QWEN_EXPERTS = Experts(which="qwen")

_GPT2 = Family(
    norm="layer",
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    gated=False,
    positions=0,
    width_times=4,
    kv="all",
)
_GPTJ = Family(
    norm="layer", norms=1, mlp_bias=True, gated=False, width_times=4, kv="all", head_bias=True
)

FAMILIES: dict[str, Family] = {
    # Grouped-query attention and a gated MLP
    "llama": _LLAMA,
    "mistral": Family(window="all"),
    "ministral": Family(window="all"),
    "ministral3": Family(window="all"),
    "qwen2": _QWEN2,
    "qwen3": _QWEN3,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": replace(_GEMMA2, qk_norm="head", every=6),
    "vaultgemma": replace(_GEMMA, window="every", every=2),
    "phi3": Family(window="all"),
    "phi": Family(
        norm="layer",
        norms=1,
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        qk_norm="layer_head",
        qk_norm_if="qk_layernorm",
        head_bias=True,
    ),
    "olmo": Family(norm="none", qkv_bias="attention_bias", o_bias="attention_bias"),
    "olmo2": Family(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="width"),
    "olmo3": Family(
        qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="width", window="every", every=4
    ),
    "granite": _LLAMA,
    "smollm3": replace(_LLAMA, window="qwen", ignored=("no_rope_layers", "no_rope_layer_interval")),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, qk_norm="", qk_norm_if="", window="every", every=4),
    "starcoder2": Family(
        norm="layer",
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        gated=False,
        window="all",
    ),
    "stablelm": Family(
        norm="layer", qkv_bias="use_qkv_bias", qk_norm="heads", qk_norm_if="qk_layernorm"
    ),
    "glm": Family(qkv_bias="attention_bias"),
    "glm4": Family(norms=4, qkv_bias="attention_bias"),
    "exaone4": Family(qk_norm="head", window="every", every=4),
    "seed_oss": Family(qkv_bias="attention_bias", o_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "helium": Family(qkv_bias="attention_bias", mlp_bias="mlp_bias"),
    "hunyuan_v1_dense": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        ignored=("use_qk_norm",),
        cross_layer=True,
    ),
    "ernie4_5": Family(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "arcee": replace(_LLAMA, gated=False),
    "apertus": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        gated=False,
        scalars=2,
    ),
    "nemotron": replace(_LLAMA, norm="layer", gated=False),
    "internlm3": Family(qkv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "cwm": Family(window="cwm", every=4),
    "exaone": _LLAMA,
    "jais2": Family(
        norm="layer",
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias="mlp_bias",
        gated=False,
    ),
    "persimmon": Family(
        norm="layer",
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        gated=False,
        qk_norm="layer_head",
        qk_norm_if="qk_layernorm",
    ),
    # Mixtures of experts
    "mixtral": _MIXTRAL,
    "qwen2_moe": replace(
        _QWEN2,
        qkv_bias="qkv_bias",
        experts=replace(_QWEN_EXPERTS, shared_width="shared_expert_intermediate_size", gate=True),
    ),
    "qwen3_moe": replace(_QWEN3, window="all_if", experts=_QWEN_EXPERTS),
    "olmoe": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="width",
        experts=Experts(width="intermediate_size"),
    ),
    "phimoe": replace(
        _MIXTRAL,
        norm="layer",
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        head_bias="lm_head_bias",
    ),
    "granitemoe": replace(_LLAMA, mlp_bias=False, experts=_GRANITE_EXPERTS),
    "granitemoeshared": replace(
        _LLAMA,
        mlp_bias=False,
        experts=replace(_GRANITE_EXPERTS, shared_width="shared_intermediate_size"),
    ),
    "glm4_moe": Family(
        qkv_bias="attention_bias",
        qk_norm="head",
        qk_norm_if="use_qk_norm",
        experts=DEEPSEEK,
    ),
    "dots1": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        window="qwen_plain",
        experts=DEEPSEEK,
    ),
    "gpt_oss": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        window="every",
        every=2,
        sinks=True,
        experts=Experts(
            count="num_local_experts",
            width="intermediate_size",
            router_bias=True,
            expert_bias=True,
        ),
    ),
    "llama4_text": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        window="chunked",
        ignored=("use_qk_norm", "intermediate_size_mlp"),
        experts=Experts(
            count="num_local_experts",
            width="intermediate_size",
            which="interleaved",
            shared_width="intermediate_size",
            dense_width="intermediate_size_mlp",
        ),
    ),
    "minimax_m2": Family(
        qk_norm="width",
        window="minimax",
        ignored=("use_qk_norm", "shared_intermediate_size"),
        experts=Experts(count="num_local_experts", width="intermediate_size", router_bias=True),
    ),
    "ernie4_5_moe": Family(
        qkv_bias="use_bias",
        o_bias="use_bias",
        mlp_bias="use_bias",
        experts=Experts(
            count="moe_num_experts",
            visited="moe_k",
            which="ernie",
            shared="moe_num_shared_experts",
            router_bias=True,
        ),
    ),
    "hunyuan_v1_moe": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        cross_layer=True,
        ignored=("use_qk_norm",),
        experts=Experts(
            visited="moe_topk",
            width="intermediate_size",
            shared="num_shared_expert",
            shared_default=1,
        ),
    ),
    "solar_open": Family(qkv_bias="attention_bias", experts=DEEPSEEK),
    "exaone_moe": Family(
        qk_norm="head",
        window="every",
        every=4,
        experts=Experts(shared="num_shared_experts", which="first_dense", router_bias=True),
    ),
    "afmoe": Family(
        norms=4,
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="head",
        window="every",
        every=4,
        output_gate="width",
        experts=Experts(shared="num_shared_experts", which="num_dense", router_bias=True),
    ),
    "flex_olmo": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="width",
        experts=Experts(width="intermediate_size"),
    ),
    # Some layers with a fixed state instead of a KV cache
    "qwen3_next": replace(
        _QWEN3,
        window="interval",
        every=4,
        mixer="gated_delta",
        output_gate="query",
        experts=replace(_QWEN_EXPERTS, shared_width="shared_expert_intermediate_size", gate=True),
    ),
    "qwen3_5_text": replace(
        _QWEN3, window="interval", every=4, mixer="gated_delta", output_gate="query"
    ),
    "qwen3_5_moe_text": replace(
        _QWEN3,
        window="interval",
        every=4,
        mixer="gated_delta",
        output_gate="query",
        experts=Experts(shared_width="shared_expert_intermediate_size", gate=True),
    ),
    "kimi_linear": replace(
        _MLA,
        window="kimi",
        every=4,
        mixer="kimi_delta",
        experts=Experts(shared="num_shared_experts", which="first_dense", router_bias=True),
    ),
    "bailing_hybrid": replace(
        _MLA,
        window="interval",
        every=6,
        mixer="ring_delta",
        output_gate="heads",
        experts=Experts(shared="num_shared_experts", which="first_dense", router_bias=True),
    ),
    "olmo_hybrid": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        qk_norm="width",
        window="olmo_hybrid",
        mixer="olmo_delta",
    ),
    "minimax": replace(
        _MIXTRAL, window="minimax", mixer="lightning", ignored=("shared_intermediate_size",)
    ),
    "jamba": Family(
        window="jamba",
        mixer="jamba",
        experts=Experts(width="intermediate_size", which="jamba"),
    ),
    "bamba": replace(_LLAMA, window="indices", mixer="mamba2"),
    "granitemoehybrid": Family(
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        window="linear",
        mixer="mamba2",
        experts=Experts(
            count="num_local_experts",
            width="intermediate_size",
            which="if_any",
            shared_width="shared_intermediate_size",
            dense_width="shared_intermediate_size",
        ),
    ),
    "lfm2": Family(
        qk_norm="head",
        window="indices",
        mixer="short_conv",
        width_rule="lfm2",
        ignored=("block_dim", "conv_dim", "conv_dim_out", "num_heads"),
    ),
    "lfm2_moe": Family(
        qk_norm="head",
        window="indices",
        mixer="short_conv",
        experts=Experts(which="num_dense", router_bias="use_expert_bias"),
    ),
    "recurrent_gemma": Family(
        qkv_bias="attention_bias",
        o_bias=True,
        mlp_bias=True,
        window="griffin",
        mixer="rg_lru",
        width_rule="half",
    ),
    # Before Llama: layer norms with biases, plain MLPs four times as wide, learned positions
    "gpt2": _GPT2,
    "gpt_bigcode": replace(_GPT2, kv="multi_query"),
    "gpt_neox": Family(
        norm="layer",
        qkv_bias="attention_bias",
        o_bias="attention_bias",
        mlp_bias=True,
        gated=False,
        kv="all",
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neo": Family(
        norm="layer",
        o_bias=True,
        mlp_bias=True,
        gated=False,
        positions=0,
        width_times=4,
        kv="all",
        window="gpt_neo",
    ),
    "bloom": replace(_GPT2, positions=None, embedding_norm=True),
    "mpt": Family(gated=False, width_times=4, kv="all"),
    "opt": Family(
        norm="layer",
        qkv_bias="enable_bias",
        o_bias="enable_bias",
        mlp_bias="enable_bias",
        gated=False,
        positions=2,
        kv="all",
    ),
    "biogpt": replace(_GPT2, positions=2),
    "xglm": replace(_GPT2, positions=None),
    "falcon": Family(
        norm="layer",
        qkv_bias="bias",
        o_bias="bias",
        mlp_bias="bias",
        gated=False,
        width_times=4,
        kv="falcon",
    ),
    # Multi-head latent attention
    "deepseek_v2": replace(_MLA, mlp_bias="mlp_bias", experts=replace(DEEPSEEK, router_bias=False)),
    "deepseek_v3": _MLA,
    "kimi_k2": _MLA,
    "deepseek_v32": _MLA,
    "glm4_moe_lite": _MLA,
    "glm_moe_dsa": _MLA,
    "youtu": replace(_MLA, experts=None),
    "minicpm3": replace(_MLA, experts=None, mlp_bias="mlp_bias"),
}
