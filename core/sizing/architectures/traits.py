"""How decoders of one `model_type` differ from others: the words of the table in `families`.

A trait is a constant where the architecture's code has one, and the name of a field where the
config decides.
"""

from __future__ import annotations

from dataclasses import dataclass

Trait = bool | str
"""True or False for all models of a kind; or the name of the field that says so."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: field names, and what lies beside the experts' matrices.

    which: the rule that says which layers have experts (`feedforward.sparse_layers`).
    shared: the field with the number of shared experts, each as wide as the others; shared_width:
    the field with the shared expert's own width. gate: a sigmoid gate on the shared expert.
    router_bias: one learned number per expert, which only the choice of experts sees. dense_width:
    the field with the width of the layers that have no experts.
    """

    count: str = "num_experts"
    visited: str = "num_experts_per_tok"
    width: str = "moe_intermediate_size"
    which: str = "all"
    shared: str = ""
    shared_width: str = ""
    shared_default: int = 0
    gate: bool = False
    router: bool = True
    router_bias: Trait = False
    expert_bias: bool = False
    gated: bool = True
    dense_width: str = "intermediate_size"


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of decoder. What `config.json` does not say of it, or says in a way of its own.

    norm: "rms" (one vector), "layer" (weight and bias), "none" (no parameters).
    norms: norms as wide as the model, per layer; the final one comes on top.
    qkv_bias, o_bias, mlp_bias, head_bias: which maps add a bias.
    gated: three matrices in an MLP (gate, up, down) instead of two.
    qk_norm: norms of queries and keys: "head" (one per head dimension, shared by all heads),
        "layer_head" (the same with a bias), "heads" (each head its own), "width" (over all heads
        at once). qk_norm_if: the field that switches them on.
    attention: "heads", or "latent" (MLA).
    kv: how KV heads are told, if not by num_key_value_heads: "falcon", "multi_query", "all" (as
        many as query heads).
    output_gate: attention's output is gated by a matrix as wide as the values ("width"), by one
        with a number per head ("heads"), or by the second half of a query projection twice as wide
        ("query").
    sinks: one learned logit per query head.
    window: which layers slide or have no KV cache, if `layer_types` does not say (`windows.kinds`).
        every: its pattern's default length.
    cross_layer: `use_cla` and `cla_share_factor` say which layers share another's KV cache.
    mixer: what layers without a KV cache are (`mixers.MIXERS`).
    experts: the mixture of experts that takes the MLP's place.
    width_times: the MLP's width in widths of the model, if no field says it. width_rule: another
        way that it follows from the fields ("lfm2", "half").
    positions: learned position embeddings, max_position_embeddings + this many rows.
    embedding_norm: a norm above the embeddings.
    scalars: learned numbers of the activation function, per layer.
    ignored: fields that such files hold and that change nothing.
    """

    norm: str = "rms"
    norms: int = 2
    qkv_bias: Trait = False
    o_bias: Trait = False
    mlp_bias: Trait = False
    head_bias: Trait = False
    gated: bool = True
    qk_norm: str = ""
    qk_norm_if: str = ""
    attention: str = "heads"
    kv: str = ""
    output_gate: str = ""
    sinks: bool = False
    window: str = "none"
    every: int = 0
    cross_layer: bool = False
    mixer: str = ""
    experts: Experts | None = None
    width_times: int = 0
    width_rule: str = ""
    positions: int | None = None
    embedding_norm: bool = False
    scalars: int = 0
    ignored: tuple[str, ...] = ()
