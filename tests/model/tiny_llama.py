"""A Llama of a few thousand random weights, as a checkpoint directory: made in milliseconds."""

import json
from pathlib import Path

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "bos_token_id": 1,
    "dtype": "float32",
    "eos_token_id": 2,
    "head_dim": 16,  # not hidden_size / num_attention_heads, which is 8
    "hidden_act": "silu",
    "hidden_size": 48,
    "intermediate_size": 80,
    "max_position_embeddings": 512,
    "mlp_bias": False,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
    "tie_word_embeddings": False,
    "vocab_size": 320,
}

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_CORPUS = ["the block table maps the tokens", "naïve café 日本語 👩‍👩‍👧 é", "12 34 the the"]


def weights(config, seed=0):
    """name → float32 array, large enough that attention is far from uniform."""
    rng = np.random.default_rng(seed)
    h, m, d = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], h), "model.norm.weight": (h,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], h)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes |= {
            f"{layer}.input_layernorm.weight": (h,),
            f"{layer}.post_attention_layernorm.weight": (h,),
            f"{layer}.self_attn.q_proj.weight": (q, h),
            f"{layer}.self_attn.k_proj.weight": (kv, h),
            f"{layer}.self_attn.v_proj.weight": (kv, h),
            f"{layer}.self_attn.o_proj.weight": (h, q),
            f"{layer}.mlp.gate_proj.weight": (m, h),
            f"{layer}.mlp.up_proj.weight": (m, h),
            f"{layer}.mlp.down_proj.weight": (h, m),
        }
    out = {}
    for name, shape in shapes.items():
        scale = 0.2 if len(shape) == 2 else 0.1
        offset = 1.0 if len(shape) == 1 else 0.0
        out[name] = (offset + scale * rng.standard_normal(shape)).astype(np.float32)
    return out


def byte_level_tokenizer(vocab_size=320):
    """A byte-level BPE trained on three lines, with three control tokens."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def byte_fallback_tokenizer():
    """SentencePiece style: words with ▁, and <0xNN> for every byte."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += ["▁", "a", "b", "▁a", "▁b", "é", "日"]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(
            vocab={p: i for i, p in enumerate(pieces)},
            merges=[("▁", "a"), ("▁", "b")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<unk>", "<s>", "</s>")])
    return tokenizer


def write_checkpoint(directory: Path, seed=0, **changes) -> Path:
    """A whole checkpoint directory. changes: fields of `config.json`."""
    config = {**CONFIG, **changes}
    return write_files(directory, config, weights(config, seed))


def write_files(directory: Path, config, tensors) -> Path:
    """A checkpoint directory of a configuration and its tensors, with a tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    byte_level_tokenizer(config["vocab_size"]).save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "chat_template": CHAT_TEMPLATE,
                "eos_token": "<|im_end|>",
                "tokenizer_class": "PreTrainedTokenizerFast",
            }
        )
    )
    return directory
