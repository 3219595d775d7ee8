"""How many bytes a number takes: element formats, and the scales that quantised ones need.

Sub-byte and block formats are exact rationals, so bytes stay integers: elements · bits must fill
whole bytes per row or group, else the group's padding is counted.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """An element format. A block of `block_elements` numbers takes `block_bytes` bytes, its own
    scales included (GGUF q8_0: 32 numbers in 34 bytes); plain formats are blocks of one, int4 of
    two numbers in one byte.

    compute: the dtype whose matrix peak applies when weights of this format are multiplied
    ("bf16", "fp8" …), unless the caller says otherwise.
    """

    name: str
    block_elements: int
    block_bytes: int
    compute: str
    source: str = ""
