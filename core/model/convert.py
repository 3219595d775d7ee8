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
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.model.config import ModelConfig
from core.model.errors import ModelFileError
from core.model.gguf_config import hf_config, shortest
from core.model.gguf_reader import GGUFFile
from core.model.safetensors_writer import Rows, write_bfloat16
from core.model.tensor_shapes import tensor_shapes

Progress = Callable[[str, int, int], None]

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FREQS = "rope_freqs.weight"  # goes into config.json


def convert(source: Path, target: Path, progress: Progress) -> str:
    """Convert the GGUF file `source` into the existing directory `target`.

    Returns the sha256 of `model.safetensors`. progress: called with ("convert", done, total) in
    bytes. Raises ModelFileError for a damaged or foreign file, OSError for a full disk.
    """
    # Imported here: only a conversion needs it, and it is a native library.
    from core.model.gguf_tokenizer import write_tokenizer

    with GGUFFile(source) as gguf:
        embeddings = gguf.tensors.get("token_embd.weight")
        if embeddings is None:
            raise ModelFileError(f"{source.name} has no tensor token_embd.weight")
        config = hf_config(gguf.metadata, gguf.tensors, embeddings.shape[0], _rope_factors(gguf))
        tensors = _tensors(gguf, config)
        _write_json(target / "config.json", config)
        _write_json(
            target / "generation_config.json",
            {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")},
        )
        write_tokenizer(gguf.metadata, target)
        total = 2 * sum(math.prod(shape) for _, shape, _ in tensors)
        sha256 = ""
        for _, done, digest in write_bfloat16(target / "model.safetensors", tensors):
            progress("convert", min(done, total), total)
            sha256 = digest or sha256
    return sha256


def converted_bytes(source: Path) -> int:
    """Bytes of `model.safetensors` once `source` is converted. Raises ModelFileError."""
    with GGUFFile(source) as gguf:
        return 2 * sum(tensor.num_values for tensor in gguf.tensors.values())


def _rope_factors(gguf: GGUFFile) -> list[float] | None:
    """Llama 3.1's: what each rotary frequency is divided by."""
    if _ROPE_FREQS not in gguf.tensors:
        return None
    if len(gguf.tensors[_ROPE_FREQS].shape) > 1 or gguf.tensors[_ROPE_FREQS].shape[0] > 4096:
        raise ModelFileError(f"the GGUF file's {_ROPE_FREQS} is no list of factors")
    values = np.concatenate(list(gguf.rows(_ROPE_FREQS)))
    return [shortest(float(value)) for value in values.flatten()]


def unpermute(rows: npt.NDArray[np.float32], num_heads: int) -> npt.NDArray[np.float32]:
    """Undo GGUF's reordering of q and k rows. [num_heads · head_dim, n_in] → the same shape.

    llama.cpp rotates neighbouring pairs (0,1), (2,3) …; Hugging Face rotates (i, i + head_dim/2).
    GGUF stores the rows of Llamas interleaved for the former. With the wrong order a model still
    runs, and ends at once or babbles.
    """
    n_out, n_in = rows.shape
    half = n_out // num_heads // 2
    return rows.reshape(num_heads, half, 2, n_in).swapaxes(1, 2).reshape(n_out, n_in)


def hf_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`. Raises ModelFileError."""
    if name in _TOP:
        return _TOP[name]
    block, _, rest = name.removeprefix("blk.").partition(".")
    part, _, kind = rest.partition(".")
    known = part in _LAYER and kind in ("weight", "bias")
    if not name.startswith("blk.") or not (block.isascii() and block.isdecimal()) or not known:
        raise ModelFileError(f"the GGUF file holds a tensor {name!r:.80} that a Llama has not")
    return f"model.layers.{int(block)}.{_LAYER[part]}.{kind}"


def _tensors(gguf: GGUFFile, config: dict[str, Any]) -> list[tuple[str, tuple[int, ...], Rows]]:
    """Name, shape and rows of every tensor, in transformers' names and order of rows.

    Raises ModelFileError unless they are those of the configuration.
    """
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    # Qwen's rows are stored as they are: llama.cpp turns (i, i + head_dim/2) there.
    permuted = gguf.metadata["general.architecture"] == "llama"
    expected = tensor_shapes(ModelConfig.from_dict(config))
    tensors: list[tuple[str, tuple[int, ...], Rows]] = []
    for name, tensor in gguf.tensors.items():
        if name == _ROPE_FREQS:
            continue
        ours = hf_name(name)
        shape = expected.pop(ours, None)
        if tensor.shape != shape:
            wanted = "none" if shape is None else f"{list(shape)}"
            raise ModelFileError(
                f"the GGUF file's {name!r:.80} has shape {list(tensor.shape)}, where its metadata "
                f"wants {wanted}"
            )
        part = name.split(".")[-2]
        if permuted and part in heads:
            rows: Rows = _unpermuted_rows(gguf, name, heads[part])
        else:
            rows = gguf.rows(name)
        tensors.append((ours, tensor.shape, rows))
    if expected:
        raise ModelFileError(f"the GGUF file has no tensor for {next(iter(expected))}")
    return sorted(tensors, key=lambda item: item[0])


def _unpermuted_rows(
    gguf: GGUFFile, name: str, num_heads: int
) -> Iterator[npt.NDArray[np.float32]]:
    """q and k whole: a layer's matrix is small, and its rows change places. A bias: one column."""
    whole = np.concatenate(list(gguf.rows(name)))
    if name.endswith(".bias"):
        whole = whole.reshape(-1, 1)
    yield unpermute(whole, num_heads)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
