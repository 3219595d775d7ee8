"""`quantization_config`: the format of the published weights, and which parts keep 16 bits.

Methods name modules, we name parts. Norms, biases and embedding tables that are looked up are never
quantised; a router and the head hardly ever. What is not understood is said, not guessed: then the
bytes are those of 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from core.sizing.geometry import ParameterPart, Quantised

_WIDE = ("embedding", "position embedding", "per-layer embedding", "output head", "router")
"""Parts in 16 bits even if no list says so; a tied table is one with the head."""


def read(
    data: dict[str, Any], outer: dict[str, Any], parts: tuple[ParameterPart, ...]
) -> Quantised | None:
    """What the config says; None if the weights are not quantised."""
    given = data.get("quantization_config") or outer.get("quantization_config")
    given = given or data.get("compression_config") or outer.get("compression_config")
    if not isinstance(given, dict) or not given:
        return None
    method = str(given.get("quant_method", "?"))[:30]
    found = _METHODS.get(method, _unknown)(given)
    if found is None:
        found = _unknown(given)
    found = replace(found, method=method)
    if found.dtype is None:
        return found
    wide, notes = _excluded(given, parts)
    names = [part.name for part in parts if part.matmul and not part.name.startswith(_WIDE)]
    only = ("experts",) if method == "mxfp4" else names
    kept = tuple(name for name in names if name in only and name not in wide)
    return replace(found, parts=kept, notes=(*found.notes, *notes))


def _fp8(given: dict[str, Any]) -> Quantised | None:
    """Scales in fp32, one to a block of the matrix (DeepSeek-V3: 128 × 128) or to all of it."""
    block = given.get("weight_block_size")
    if block is None:
        return Quantised("", "fp8")
    if not (isinstance(block, list) and len(block) == 2 and all(map(_group, block))):
        return None
    return Quantised("", "fp8", group_size=block[0] * block[1], scale_bytes=4)


def _integer(given: dict[str, Any]) -> Quantised | None:
    """AWQ and GPTQ: 16-bit scales; zero points packed like the numbers. GPTQ's files hold them even
    if they are all alike."""
    bits, group = given.get("bits", given.get("w_bit")), given.get("group_size", 128)
    if type(bits) is not int or bits not in (4, 8) or not (_group(group) or group in (-1, None)):
        return None
    with_zero = given.get("quant_method") == "gptq" or given.get("zero_point", True) is not False
    return _grouped(f"int{bits}", group if _group(group) else None, 2, bits / 8 * with_zero)


def _grouped(dtype: str, group: int | None, scale: float, zero: float) -> Quantised:
    return Quantised("", dtype, (), group, scale, zero if group else 0)


def _bitsandbytes(given: dict[str, Any]) -> Quantised | None:
    """4 bits: blocks of 64 with an fp32 scale, which may be quantised again to 8 bits, 256 of them
    to one in fp32 (QLoRA, Dettmers et al. 2023). 8 bits: a scale per row."""
    if given.get("load_in_4bit") is True:
        twice = given.get("bnb_4bit_use_double_quant") is True
        return _grouped("int4", 64, 1 + 4 / 256 if twice else 4, 0)
    return Quantised("", "int8") if given.get("load_in_8bit") is True else None


def _compressed(given: dict[str, Any]) -> Quantised | None:
    """compressed-tensors: one group of layers, all quantised alike."""
    groups = given.get("config_groups")
    if not isinstance(groups, dict) or len(groups) != 1:
        return None
    (group,) = groups.values()
    weights = group.get("weights") if isinstance(group, dict) else None
    if not isinstance(weights, dict) or group.get("targets", ["Linear"]) != ["Linear"]:
        return None
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if type(bits) is not int or not isinstance(kind, str):
        return None
    if (bits, kind, size) == (4, "float", 16):
        return Quantised("", "nvfp4")
    if (bits, kind, size) == (4, "float", 32):
        return Quantised("", "mxfp4")
    dtype = {(4, "int"): "int4", (8, "int"): "int8", (8, "float"): "fp8"}.get((bits, kind))
    if dtype is None or not (_group(size) or size in (-1, None)):
        return None
    zero = 0 if weights.get("symmetric", True) else bits / 8
    return _grouped(dtype, size if _group(size) else None, 2, zero)


def _modelopt(given: dict[str, Any]) -> Quantised | None:
    dtype = {"FP8": "fp8", "NVFP4": "nvfp4"}.get(str(given.get("quant_algo")))
    return None if dtype is None else Quantised("", dtype)


def _unknown(given: dict[str, Any]) -> Quantised:
    method = str(given.get("quant_method", "?"))[:30]
    why = f"the published weights are quantised ({method}) in a way that is not understood here"
    return Quantised("", None, notes=(f"{why}: name their format",))


_METHODS: dict[str, Callable[[dict[str, Any]], Quantised | None]] = {
    "mxfp4": lambda _: Quantised("", "mxfp4"),
    "fp8": _fp8,
    "fbgemm_fp8": lambda _: Quantised("", "fp8"),
    "awq": _integer,
    "gptq": _integer,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
}

_LISTS = (
    "modules_to_not_convert",
    "ignored_layers",
    "ignore",
    "exclude_modules",
    "llm_int8_skip_modules",
)
_PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"lm_head|output_layer", ("output head", "embedding and output head (tied)")),
    (r"embed_tokens|wte|word_embeddings", ()),
    (r"(self_)?attn|(self_)?attention", ("attention",)),
    (r"linear_attn|mamba|mixer|ssm", ("linear attention", "state space", "convolution")),
    (r"(mlp|block_sparse_moe|ffn|feed_forward)\.(gate|router)|router|gate", ("router",)),
    (r"(mlp|block_sparse_moe|ffn|feed_forward)\.experts|experts", ("experts",)),
    (r"mlp|mlp\.\((gate|up|gate_up|down|\|)+\)_proj", ("MLP",)),
)
"""How a module is called, without what it lies in, and the parts that it is."""


def _excluded(
    given: dict[str, Any], parts: tuple[ParameterPart, ...]
) -> tuple[set[str], tuple[str, ...]]:
    """Parts that the lists keep in 16 bits as a whole, and a note on entries that name less."""
    listed: dict[str, set[int] | None] = {}
    for key in _LISTS:
        entries = given.get(key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, str) and not _OUTSIDE.search(entry):
                module, layer = _module(entry)
                known = listed.setdefault(module, set())
                if layer is None or known is None:
                    listed[module] = None
                else:
                    known.add(layer)
    wide: set[str] = set()
    less = 0
    for module, layers in listed.items():
        names = next((names for name, names in _PARTS if re.fullmatch(name, module)), None)
        within = [part for part in parts if names and part.name in names]
        if names is None or (layers is not None and not all(_covers(layers, p) for p in within)):
            less += 1
        else:
            wide |= {part.name for part in within}
    if not less:
        return wide, ()
    return wide, (
        f"{less} kinds of modules in quantization_config's exceptions are less than a part of the "
        "model, or not known: they are counted as quantised",
    )


_OUTSIDE = re.compile("vision|visual|audio|projector|mtp|nextn|eh_proj|norm|conv1d")
"""What is set aside anyway, or is in no matrix."""
_INSIDE = re.compile(r"^(re:)?[\^.*]*((model|language_model|transformer|backbone)\.)*")
_LAYER = re.compile(r"^(layers|h|blocks)\\?\.(\*|\d+|\.\*|\\d\+)\\?\.")


def _module(entry: str) -> tuple[str, int | None]:
    """`model.layers.3.mlp.gate` → (`mlp.gate`, 3); with a star or none, the layer is None."""
    name = _INSIDE.sub("", entry.replace("\\.", ".")[:200])
    found = _LAYER.search(name)
    layer = found[2] if found else ""
    module = name[found.end() :] if found else name
    return module.rstrip(".*$"), int(layer) if layer.isdigit() and len(layer) < 6 else None


def _covers(layers: Iterable[int], part: ParameterPart) -> bool:
    inside = {layer for placed in part.placed for layer in placed.layers}
    return inside <= set(layers)


def _group(value: object) -> bool:
    return type(value) is int and 0 < value <= 1 << 20
