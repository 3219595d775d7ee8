"""GGUF → a Hugging Face style directory, once; loading is fast afterwards.

Writes `model.safetensors`, `config.json`, `generation_config.json`, `tokenizer.json` and
`tokenizer_config.json`.

**The canonical weights are the bfloat16 file written here.** The source holds 4-bit numbers with
16-bit scales, whose dequantised values need more than bfloat16's 8 significant bits; they are
rounded once, to nearest even. A float32 run loads the same rounded numbers (bfloat16 → float32 is
exact), so our engine, the `transformers` oracle and a bfloat16 run all have one set of weights,
whose sha256 goes into every recorded run.

No torch here, and memory stays bounded: rows are read, dequantised, rounded and written in pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.model.config import ModelConfig
from core.model.errors import ModelConfigError, ModelFileError
from core.model.gguf_reader import GGUFFile
from core.model.safetensors_writer import Rows, write_bfloat16

Progress = Callable[[str, int, int], None]

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_SPECIAL = 3  # tokenizer.ggml.token_type of control tokens


def convert(source: Path, target: Path, progress: Progress) -> str:
    """Convert the GGUF file `source` into the existing directory `target`.

    Returns the sha256 of `model.safetensors`. progress: called with ("convert", done, total) in
    bytes. Raises ModelFileError for a damaged or foreign file, OSError for a full disk.
    """
    with GGUFFile(source) as gguf:
        config = hf_config(gguf.metadata, tied="output.weight" not in gguf.tensors)
        _write_json(target / "config.json", config)
        _write_json(
            target / "generation_config.json",
            {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")},
        )
        _write_tokenizer(gguf.metadata, target)
        tensors = _tensors(gguf, config)
        total = sum(2 * int(np.prod(shape, dtype=np.int64)) for _, shape, _ in tensors)
        sha256 = ""
        for _, done, digest in write_bfloat16(target / "model.safetensors", tensors):
            progress("convert", min(done, total), total)
            sha256 = digest or sha256
    return sha256


def hf_config(metadata: dict[str, Any], tied: bool) -> dict[str, Any]:
    """The `config.json` that GGUF metadata describes. Raises ModelFileError for another family."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ModelFileError(f"GGUF architecture {architecture!r} is not supported, only 'llama'")

    def get(key: str, default: Any = None) -> Any:
        value = metadata.get(f"llama.{key}", default)
        if value is None:
            raise ModelFileError(f"the GGUF file has no llama.{key}")
        return value

    heads = get("attention.head_count")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "dtype": "bfloat16",
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
        "head_dim": metadata.get("llama.rope.dimension_count"),
        "hidden_act": "silu",
        "hidden_size": get("embedding_length"),
        "intermediate_size": get("feed_forward_length"),
        "max_position_embeddings": get("context_length"),
        "mlp_bias": False,
        "num_attention_heads": heads,
        "num_hidden_layers": get("block_count"),
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": _shortest(get("attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(get("rope.freq_base", 10_000.0)),
        "tie_word_embeddings": tied,
        "vocab_size": get("vocab_size"),
    }
    try:
        config["head_dim"] = ModelConfig.from_dict(config).head_dim
    except ModelConfigError as error:
        raise ModelFileError(f"the GGUF file's metadata is not usable: {error}") from error
    return config


def _shortest(value: Any) -> Any:
    """The shortest decimal that is this float32: 1e-05, where the file gives 9.999999747e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def unpermute(rows: npt.NDArray[np.float32], num_heads: int) -> npt.NDArray[np.float32]:
    """Undo GGUF's reordering of q and k rows. [num_heads · head_dim, n_in] → the same shape.

    llama.cpp rotates neighbouring pairs (0,1), (2,3) …; Hugging Face rotates (i, i + head_dim/2).
    GGUF stores the rows interleaved for the former. With the wrong order a model still runs, and
    ends at once or babbles.
    """
    n_out, n_in = rows.shape
    half = n_out // num_heads // 2
    return rows.reshape(num_heads, half, 2, n_in).swapaxes(1, 2).reshape(n_out, n_in)


def hf_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`. Raises ModelFileError."""
    if name in _TOP:
        return _TOP[name]
    block, _, rest = name.removeprefix("blk.").partition(".")
    if not name.startswith("blk.") or not block.isdecimal() or rest not in _LAYER:
        raise ModelFileError(f"the GGUF file holds a tensor {name!r:.80} that a Llama has not")
    return f"model.layers.{int(block)}.{_LAYER[rest]}"


def _tensors(gguf: GGUFFile, config: dict[str, Any]) -> list[tuple[str, tuple[int, ...], Rows]]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors: list[tuple[str, tuple[int, ...], Rows]] = []
    for name, tensor in gguf.tensors.items():
        part = name.split(".")[-2]
        if part in heads:
            rows: Rows = _unpermuted_rows(gguf, name, heads[part])
        else:
            rows = gguf.rows(name)
        tensors.append((hf_name(name), tensor.shape, rows))
    return sorted(tensors, key=lambda item: item[0])


def _unpermuted_rows(
    gguf: GGUFFile, name: str, num_heads: int
) -> Iterator[npt.NDArray[np.float32]]:
    """q and k whole: one layer's matrix is small, and its rows change places."""
    whole = np.concatenate(list(gguf.rows(name)))
    if whole.shape[0] % (2 * num_heads):
        raise ModelFileError(f"{name}: {whole.shape[0]} rows are not {num_heads} heads")
    yield unpermute(whole, num_heads)


def _write_tokenizer(metadata: dict[str, Any], target: Path) -> None:
    """`tokenizer.json` and `tokenizer_config.json` from the metadata of a SmolLM-style BPE."""
    # Imported here: only a conversion needs it, and it is a native library.
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ModelFileError(f"the GGUF file's tokenizer {kind} is not supported")
    tokens, merges = _texts(metadata, "tokens"), _texts(metadata, "merges")
    types = metadata.get("tokenizer.ggml.token_type")
    if not isinstance(types, list) or len(types) != len(tokens):
        raise ModelFileError("the GGUF file's tokenizer has no type for each token")
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        bpe = models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=pairs)
    except Exception as error:  # the native library raises plain Exception
        raise ModelFileError(f"the GGUF file's tokenizer cannot be built: {error}") from error
    tokenizer = Tokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, k in zip(tokens, types, strict=True) if k == _SPECIAL]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.save(str(target / "tokenizer.json"))

    def text(key: str) -> str | None:
        index = metadata.get(f"tokenizer.ggml.{key}")
        return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None

    _write_json(
        target / "tokenizer_config.json",
        {
            "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", False)),
            "bos_token": text("bos_token_id"),
            "chat_template": metadata.get("tokenizer.chat_template"),
            "clean_up_tokenization_spaces": False,
            "eos_token": text("eos_token_id"),
            "model_max_length": metadata.get("llama.context_length"),
            "pad_token": text("padding_token_id"),
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": text("unknown_token_id"),
        },
    )


def _texts(metadata: dict[str, Any], key: str) -> list[str]:
    """A list of texts of the tokenizer, not empty. Raises ModelFileError."""
    value = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise ModelFileError(f"the GGUF file's tokenizer has no {key}")
    return value


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
