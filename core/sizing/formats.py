"""How many bytes a number takes: element formats of weights and of the KV cache.

Sub-byte and block formats are exact rationals, so bytes stay integers: a row (a head's vector, or a
whole set of weights) fills whole blocks, and what it does not fill is counted as padding. Scales
that lie apart from the numbers are not here but in `scales`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from core.sizing.errors import SizingError


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """An element format. A block of `block_elements` numbers takes `block_bytes` bytes, its own
    scales included (GGUF q8_0: 32 numbers in 34 bytes); plain formats are blocks of one, int4 of
    two numbers in one byte. Each is there once, in the table below, and equals itself alone.

    compute: the dtype whose matrix peak applies when weights of this format are multiplied
    ("bf16", "fp8" …), unless the caller says otherwise. 4-bit and block formats are turned into 16
    bits first, so theirs is "bf16" (an engine with kernels of its own may do better).
    quantised: whether the numbers need a scale to mean anything.
    """

    name: str
    block_elements: int
    block_bytes: int
    compute: str
    source: str = ""
    quantised: bool = False

    @property
    def own_scales(self) -> bool:
        """Whether the scales lie inside the blocks already."""
        return self.block_elements > 2

    @property
    def bytes_per_element(self) -> int | float:
        whole, rest = divmod(self.block_bytes, self.block_elements)
        return self.block_bytes / self.block_elements if rest else whole

    @property
    def b(self) -> str:
        """Bytes per number as a formula shows it: "2", "0.5", "34/32"."""
        if self.own_scales:
            return f"{self.block_bytes}/{self.block_elements}"
        return f"{self.bytes_per_element:g}"


_IEEE, _OCP8 = "IEEE 754 (2019)", "OCP 8-bit floating point (OFP8), rev. 1.0 (2023)"
_GGUF = "ggml: ggml-common.h, the sizes asserted for its blocks (2026)"

_TABLE = (
    Format("fp32", 1, 4, "tf32", _IEEE),
    Format("bf16", 1, 2, "bf16", "bfloat16: fp32's sign, exponent and first 7 bits"),
    Format("fp16", 1, 2, "fp16", _IEEE),
    Format("fp8", 1, 1, "fp8", _OCP8, quantised=True),
    Format("fp8_e4m3", 1, 1, "fp8", _OCP8, quantised=True),
    Format("fp8_e5m2", 1, 1, "fp8", _OCP8, quantised=True),
    Format("int8", 1, 1, "int8", "two's complement", quantised=True),
    Format("int4", 2, 1, "bf16", "two numbers to a byte", quantised=True),
    # 128 numbers in fp8 and their fp32 scale: DeepSeek-V3.2's indexer keys, as vLLM stores them.
    Format("fp8_g128", 128, 132, "fp8", "vLLM: DeepseekV32IndexerCache (2026)", quantised=True),
    Format("mxfp4", 32, 17, "fp4", "OCP Microscaling formats (MX) 1.0 (2023)", quantised=True),
    Format("nvfp4", 16, 9, "fp4", "NVIDIA: fp4 with an fp8 scale to 16 numbers", quantised=True),
    *(
        Format(name, elements, size, "bf16", _GGUF, quantised=True)
        for name, elements, size in (
            ("q4_0", 32, 18),
            ("q4_1", 32, 20),
            ("q5_0", 32, 22),
            ("q5_1", 32, 24),
            ("q8_0", 32, 34),
            ("q2_k", 256, 84),
            ("q3_k", 256, 110),
            ("q4_k", 256, 144),
            ("q5_k", 256, 176),
            ("q6_k", 256, 210),
            ("iq1_s", 256, 50),
            ("iq1_m", 256, 56),
            ("iq2_xxs", 256, 66),
            ("iq2_xs", 256, 74),
            ("iq2_s", 256, 82),
            ("iq3_xxs", 256, 98),
            ("iq3_s", 256, 110),
            ("iq4_nl", 32, 18),
            ("iq4_xs", 256, 136),
        )
    ),
)
FORMATS = {fmt.name: fmt for fmt in _TABLE}

_ALIASES = {
    "float32": "fp32",
    "f32": "fp32",
    "float": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "f16": "fp16",
    "half": "fp16",
    "e4m3": "fp8_e4m3",
    "float8_e4m3fn": "fp8_e4m3",
    "fp8_e4m3fn": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
}


def get(name: str, path: str = "dtype", also: Iterable[str] = ()) -> Format:
    """A format by its name (any case) or a common spelling of it.

    also: other names that would do where this is asked, for the hint. Raises SizingError at `path`.
    """
    if not isinstance(name, str):
        raise SizingError(path, f"must be the name of a format, not {type(name).__name__}")
    found = FORMATS.get(name)
    if found is None:
        key = name.strip().lower()
        found = FORMATS.get(_ALIASES.get(key, key))
    if found is None:
        near = difflib.get_close_matches(name.lower(), [*FORMATS, *also, *_ALIASES], 3)
        known = ", ".join((*FORMATS, *also))
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {known}"
        raise SizingError(path, f"there is no format {name[:40]!r}; {hint}")
    return found


def bytes_of(count: int, fmt: Format) -> int:
    """Bytes of `count` numbers laid out as one row: whole blocks, the last one padded."""
    return -(-count // fmt.block_elements) * fmt.block_bytes
