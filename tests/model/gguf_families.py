"""A checkpoint of `families` as the GGUF file that llama.cpp's converter would write of it."""

import json

import gguf
import numpy as np
from families import CONFIGS, random_tensors
from gguf import GGMLQuantizationType as Kind
from tiny_gguf import permute
from tiny_llama import byte_level_tokenizer

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
# Files say nothing of which layers slide, nor have they mscale and the like.
WRITABLE = [
    *("llama2-mha", "llama-mqa-tied", "llama-biases", "llama3.1", "llama-linear", "mistral"),
    *("mistral-window", "qwen2", "qwen2.5-yarn", "qwen3"),
]


def gguf_name(name):
    part, _, kind = name.rpartition(".")
    if part.startswith("model.layers."):
        _, _, block, rest = part.split(".", 3)
        return f"blk.{block}.{_NAMES[rest]}.{kind}"
    return f"{_NAMES[part]}.{kind}"


def llama3_factors(config):
    """What each frequency is divided by."""
    rope, d = config["rope_scaling"], config["head_dim"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    out = []
    for i in range(0, d, 2):
        wavelength = 2 * np.pi * config["rope_theta"] ** (i / d)
        turns = rope["original_max_position_embeddings"] / wavelength
        share = min(1, max(0, (turns - low) / (high - low)))
        out.append(1 / ((1 - share) / rope["factor"] + share))
    return np.array(out, dtype=np.float32)


def write(name, path, kinds=(Kind.F32, Kind.F16, Kind.BF16), seed=0, change=lambda writer: None):
    """Write it. Returns transformers' name → the values that are in the file.

    kinds: of the matrices, in turn. change: more keys.
    """
    config = CONFIGS[name]
    arch = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(str(path), arch)
    head_dim = config["head_dim"] or config["hidden_size"] // config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_rope_dimension_count(head_dim)
        writer.add_vocab_size(config["vocab_size"])
    if config["model_type"] == "mistral" and config["sliding_window"]:
        writer.add_sliding_window(config["sliding_window"])
    rope = config.get("rope_scaling", {})
    kind = rope.get("rope_type", rope.get("type"))
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    _add_tokenizer(writer, config["vocab_size"])
    change(writer)
    values = {}
    for number, (ours, plain) in enumerate(random_tensors(config, seed).items()):
        stored = plain
        if arch == "llama" and ("q_proj" in ours or "k_proj" in ours):
            heads = "num_attention_heads" if "q_proj" in ours else "num_key_value_heads"
            stored = permute(plain, config[heads])
        packed = kinds[number % len(kinds)] if plain.ndim > 1 else Kind.F32
        writer.add_tensor(
            gguf_name(ours),
            gguf.quants.quantize(stored, packed),
            raw_dtype=packed,
        )
        values[ours] = gguf.quants.dequantize(gguf.quants.quantize(plain, packed), packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def _add_tokenizer(writer, vocab_size):
    raw = json.loads(byte_level_tokenizer(vocab_size).to_str())
    vocabulary = sorted(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
    padding = [f"[PAD{i}]" for i in range(len(vocabulary), vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary + padding)
    writer.add_token_types([3] * 3 + [1] * (len(vocabulary) - 3) + [5] * len(padding))
    writer.add_token_merges([" ".join(pair) for pair in raw["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
