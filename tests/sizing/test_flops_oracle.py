"""FLOPs against what torch counts when `transformers` runs the model, and against our own engine.

Tiny models of each kind of architecture that we have a formula for. `transformers` computes the
whole square of scores, masked or not, so it is asked for without a causal mask; it projects every
position to the vocabulary; and it multiplies each token by the experts that the router picked.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from core.model.config import ModelConfig  # noqa: E402
from core.model.work import SequenceWork, WorkCounter  # noqa: E402
from core.sizing import compute, traffic  # noqa: E402
from core.sizing.architectures import model_from_config  # noqa: E402

BASE = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
EXPERTS = {"num_local_experts": 6, "num_experts_per_tok": 2}
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 24,
    "q_lora_rank": 20,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "first_k_dense_replace": 1,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 16,
    "n_group": 1,
    "topk_group": 1,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama tied, head_dim": {"tie_word_embeddings": True, "head_dim": 20},
    "qwen2": {"num_key_value_heads": 1},
    "qwen3": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 64},
    "mixtral": EXPERTS,
    "qwen3_moe": {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gpt_oss": {**EXPERTS, "head_dim": 8, "sliding_window": 64},
    "falcon": {"multi_query": True, "new_decoder_architecture": False, "ffn_hidden_size": 48},
    "deepseek_v3": LATENT,
}
TOKENS = 16


def config_of(kind: str) -> dict[str, Any]:
    return {"model_type": kind.split()[0], **BASE, **KINDS[kind]}


def counted(config: dict[str, Any], tokens: int) -> int:
    """FLOPs of one forward pass of `transformers`."""
    fields = dict(config)
    made = AutoConfig.for_model(fields.pop("model_type"), **fields)
    made._experts_implementation = "eager"  # one matrix product per expert, which torch can count
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(made, attn_implementation="eager").eval()
    ids = torch.arange(tokens).reshape(1, tokens)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(ids, use_cache=False)
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", KINDS)
def test_torch_counts_the_same_flops(kind: str) -> None:
    config = config_of(kind)
    model = model_from_config(config)
    ours = compute.prefill_work(model, TOKENS, causal=False, count="matmul")
    assert counted(config, TOKENS) == ours.total


ENGINE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    **BASE,
}


@pytest.mark.parametrize(
    "changes", [{}, {"num_key_value_heads": 1}, {"head_dim": 20}, {"tie_word_embeddings": False}]
)
def test_our_engine_counts_the_same_work(changes: dict[str, Any]) -> None:
    """A decode step over c cached tokens attends to c + 1; it reads what is cached already."""
    config = {**ENGINE, **changes}
    model = model_from_config(config)
    engine = WorkCounter(ModelConfig.from_dict(config), "bfloat16")
    for batch, context in ((1, 0), (1, 100), (7, 33)):
        step = engine.count([SequenceWork(1, context)] * batch)
        ours = compute.decode_work(model, context + 1, batch, "matmul")
        assert step.linear_flops + step.logits_flops == ours.linear
        assert step.attention_flops == ours.attention
        assert step.kv_read_bytes == batch * traffic.kv_read(model, context, "bf16")
    prompt = engine.count([SequenceWork(50, 30)])
    ours = compute.prefill_work(model, 50, 30, count="matmul")
    per_pair = sum(compute.attention_terms(model, "expanded").values())
    # The convention of N² / 2 pairs leaves out half a pair per token.
    assert prompt.attention_flops - ours.attention == per_pair * 50 // 2
