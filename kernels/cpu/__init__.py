"""The kernels for processors with AVX512-BF16: products, norms, decode attention, storing codes.

torch's own operators do the same in three to five times as many passes over memory. With few tokens
a step lasts as long as the weights take to read, and these read them at the memory's full speed.
`tests/model/test_cpu_kernels.py` and `test_cpu_quantised_kv.py` hold the plain torch of each.

Shapes: T tokens, h hidden size, n_q query heads, n_kv KV heads, d head_dim, B decoding sequences.
All tensors are contiguous and on the CPU; a kernel that is given anything else would read beside
it, so each function checks what it is given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch

from kernels.cpu.build import load, reason
from kernels.cpu.packed import PackedWeight, pack, pack_int8
from kernels.kv_blocks import KVBlocks, kv_format

__all__ = ["CpuKernels", "PackedWeight", "cpu_kernels", "pack", "pack_int8", "reason"]

_PIECE = 256  # keys that attention handles at once; see attention.h
_BF16, _FLOAT32, _ADD, _SWIGLU = 0, 1, 2, 3
_FORMATS = {"native": 0, "int8": 1, "fp8_e4m3": 2, "int4": 3}  # as in formats.h


class CpuKernels:
    """The compiled functions, on tensors. threads: as many as torch uses at each call."""

    def __init__(self, library: ctypes.CDLL) -> None:
        p, i, f, c = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int

        def function(name: str, *types: type) -> Callable[..., None]:
            found: Any = getattr(library, name)
            found.argtypes, found.restype = types, None
            return cast(Callable[..., None], found)

        self._linear = function("kvs_linear", p, i, i, p, i, p, p, c, c)
        self._linear_int8 = function("kvs_linear_int8", p, i, i, p, i, p, p, c, p, p, p, p, c)
        self._rms_norm = function("kvs_rms_norm", p, i, i, p, f, p, c)
        self._rotate = function("kvs_rotate_and_store", p, i, i, p, p, p, f, p, p, i, i, i, i, c)
        self._decode = function(
            "kvs_decode",
            *(p, i, p, i, i, p, i, p, p, f, p, p, i, p, p, c, i, i, i, p, p, p, p, c),
        )
        self._store = function("kvs_store", p, i, i, p, c, p, p, c, i, i, i, p, p, p, p, c)

    def linear(self, x: torch.Tensor, weight: PackedWeight) -> torch.Tensor:
        """x [T, n_in] bfloat16 → x Wᵀ + b, [T, n_out] bfloat16."""
        out = torch.empty(len(x), weight.n_out, dtype=torch.bfloat16)
        self._multiply(x, weight, out, _BF16)
        return out

    def linear_float32(self, x: torch.Tensor, weight: PackedWeight) -> torch.Tensor:
        """The same, [T, n_out] float32: the sums as they are."""
        out = torch.empty(len(x), weight.n_out)
        self._multiply(x, weight, out, _FLOAT32)
        return out

    def add_linear(self, total: torch.Tensor, x: torch.Tensor, weight: PackedWeight) -> None:
        """total [T, n_out] float32 += x Wᵀ + b, unrounded."""
        _check(total, torch.float32, len(x), weight.n_out)
        self._multiply(x, weight, total, _ADD)

    def swiglu(self, x: torch.Tensor, weight: PackedWeight) -> torch.Tensor:
        """x [T, n_in] bfloat16 → silu(x Gateᵀ) · x Upᵀ, [T, n_out / 2] bfloat16."""
        if not weight.gated:
            raise ValueError("swiglu needs a matrix packed with gated=True")
        out = torch.empty(len(x), weight.n_out // 2, dtype=torch.bfloat16)
        self._multiply(x, weight, out, _SWIGLU)
        return out

    def _multiply(
        self, x: torch.Tensor, weight: PackedWeight, out: torch.Tensor, output: int
    ) -> None:
        _check(x, torch.bfloat16, len(x), weight.n_in)
        if weight.gated != (output == _SWIGLU):
            raise ValueError("a gated matrix is for swiglu only")
        arguments = (
            x.data_ptr(),
            len(x),
            weight.n_in,
            weight.panels.data_ptr(),
            weight.n_out,
            None if weight.bias is None else weight.bias.data_ptr(),
            out.data_ptr(),
            output,
        )
        if weight.scale is None or weight.offset is None:
            self._linear(*arguments, torch.get_num_threads())
            return
        quantized = torch.empty(x.shape, dtype=torch.uint8)
        x_scale = torch.empty(len(x))
        self._linear_int8(
            *arguments,
            weight.scale.data_ptr(),
            weight.offset.data_ptr(),
            quantized.data_ptr(),
            x_scale.data_ptr(),
            torch.get_num_threads(),
        )

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """x [T, h] float32 → x / √(mean(x²) + eps) · weight [h] float32, [T, h] bfloat16."""
        _check(x, torch.float32, len(x), len(weight))
        _check(weight, torch.float32, len(weight))
        out = torch.empty(x.shape, dtype=torch.bfloat16)
        self._rms_norm(
            x.data_ptr(),
            *x.shape,
            weight.data_ptr(),
            eps,
            out.data_ptr(),
            torch.get_num_threads(),
        )
        return out

    def rotate_and_store(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        slots: torch.Tensor,
        pool: torch.Tensor,
        norm_weight: torch.Tensor | None = None,
        eps: float = 0.0,
    ) -> None:
        """Normalise (where there are weights) and turn queries and keys in place; store K and V.

        qkv: [T, n_q + 2 · n_kv, d] bfloat16. cos, sin: [T, d / 2] float32, pair (i, i + d / 2)
        turns by angle i. slots: [T] int64, where each token's K and V go, −1 for nowhere. pool: one
        layer's, [2, num_blocks, n_kv, block_size, d] bfloat16. norm_weight: [n_q + n_kv, d]
        float32.
        """
        num_blocks, n_kv, block_size, d = _pool_shape(pool)
        _check(slots, torch.int64, len(qkv))
        where = (slots.data_ptr(), pool.data_ptr(), num_blocks, n_kv, block_size, d)
        self._turn(qkv, cos, sin, norm_weight, eps, where)

    def rotate(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        n_kv: int,
        norm_weight: torch.Tensor | None = None,
        eps: float = 0.0,
    ) -> None:
        """The same without the store, for K and V that are stored in another format."""
        _check_head_dim(qkv.shape[2])
        self._turn(qkv, cos, sin, norm_weight, eps, (None, None, 0, n_kv, 1, qkv.shape[2]))

    def _turn(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        norm_weight: torch.Tensor | None,
        eps: float,
        where: tuple[int | None, int | None, int, int, int, int],
    ) -> None:
        """where: addresses of slots and pool or None, num_blocks, n_kv, block_size, d."""
        n_kv, d = where[3], where[5]
        t, n_q = len(qkv), qkv.shape[1] - 2 * n_kv
        _check(qkv, torch.bfloat16, t, n_q + 2 * n_kv, d)
        _check(cos, torch.float32, t, d // 2)
        _check(sin, torch.float32, t, d // 2)
        if norm_weight is not None:
            _check(norm_weight, torch.float32, n_q + n_kv, d)
        self._rotate(
            qkv.data_ptr(),
            t,
            n_q,
            cos.data_ptr(),
            sin.data_ptr(),
            None if norm_weight is None else norm_weight.data_ptr(),
            eps,
            *where,
            torch.get_num_threads(),
        )

    def paged_decode(
        self,
        qkv: torch.Tensor,
        pool: torch.Tensor,
        rows: torch.Tensor,
        block_table: torch.Tensor,
        begins: torch.Tensor,
        ends: torch.Tensor,
        scale: float,
        most_keys: int,
        out: torch.Tensor,
    ) -> None:
        """Attention of the tokens in `rows` to their sequences' keys, read through the block table.

        qkv: [T, n_q + 2 · n_kv, d] bfloat16, of which the queries are read. pool: as above. rows:
        [B] int64. block_table: [B, width] int64. begins, ends: [B] int64, the keys in view, counted
        from the table's first block; most_keys: at least the largest of ends − begins. out:
        [T, n_q, d] bfloat16, of which the rows are written.
        """
        _, n_kv, block_size, d = _pool_shape(pool)
        key, value = pool.data_ptr(), pool.data_ptr() + pool.nbytes // 2
        self._attend(
            qkv, rows, block_table, begins, ends, scale, most_keys, out,
            (key, value, _FORMATS["native"], n_kv, block_size, d),
            (None, None, None, None),
        )  # fmt: skip

    def paged_decode_quantised(
        self,
        qkv: torch.Tensor,
        blocks: KVBlocks,
        rows: torch.Tensor,
        block_table: torch.Tensor,
        begins: torch.Tensor,
        ends: torch.Tensor,
        scale: float,
        most_keys: int,
        out: torch.Tensor,
    ) -> None:
        """The same over codes of 8 and 4 bits, which become numbers in registers.

        blocks: one layer's, K and V in the same format and each contiguous; scales with any
        strides, so of each token and head, or one number expanded. All else as in `paged_decode`.
        """
        self._attend(
            qkv, rows, block_table, begins, ends, scale, most_keys, out, *_codes(blocks)
        )  # fmt: skip

    def store_quantised(
        self, qkv: torch.Tensor, blocks: KVBlocks, slots: torch.Tensor, dynamic: bool
    ) -> None:
        """K and V of each token, rounded to the format of the blocks: `kernels.store_kv`, to
        the bit.

        qkv: [T, n_q + 2 · n_kv, d] bfloat16. blocks: as in `paged_decode_quantised`. slots: [T]
        int64, −1 for nowhere. dynamic: write a scale of each token and head too, which must then
        have memory of its own; otherwise the scales that are there are used.
        """
        t, n_q = len(qkv), qkv.shape[1] - 2 * blocks.n_kv
        where, scales = _codes(blocks)
        _check(qkv, torch.bfloat16, t, n_q + 2 * blocks.n_kv, blocks.head_dim)
        _check(slots, torch.int64, t)
        if dynamic and any(0 in s.stride() for s in (blocks.key_scale, blocks.value_scale) if
                           s is not None):  # fmt: skip
            raise ValueError("scales of each token and head need memory of their own")
        self._store(
            qkv.data_ptr(), t, n_q, slots.data_ptr(), dynamic, *where, *scales,
            torch.get_num_threads(),
        )  # fmt: skip

    def _attend(
        self,
        qkv: torch.Tensor,
        rows: torch.Tensor,
        block_table: torch.Tensor,
        begins: torch.Tensor,
        ends: torch.Tensor,
        scale: float,
        most_keys: int,
        out: torch.Tensor,
        blocks: tuple[int, int, int, int, int, int],
        scales: tuple[Any, ...],
    ) -> None:
        """blocks: addresses of K and V, format, n_kv, block_size, d. scales: theirs and steps."""
        _, _, _, n_kv, _, d = blocks
        t, n_q, b = len(qkv), qkv.shape[1] - 2 * n_kv, len(rows)
        _check(qkv, torch.bfloat16, t, n_q + 2 * n_kv, d)
        _check(block_table, torch.int64, b, block_table.shape[1])
        for name in (rows, begins, ends):
            _check(name, torch.int64, b)
        _check(out, torch.bfloat16, t, n_q, d)
        pieces = -(-most_keys // _PIECE)
        partial = torch.empty(b * pieces * n_q * (d + 2))
        self._decode(
            qkv.data_ptr(),
            qkv.shape[1] * d,
            rows.data_ptr(),
            b,
            n_q,
            block_table.data_ptr(),
            block_table.shape[1],
            begins.data_ptr(),
            ends.data_ptr(),
            scale,
            out.data_ptr(),
            partial.data_ptr(),
            pieces,
            *blocks,
            *scales,
            torch.get_num_threads(),
        )


def cpu_kernels(cache_dir: Path) -> CpuKernels | None:
    """The kernels, compiled below cache_dir if need be; None where they cannot be had."""
    library = load(cache_dir)
    return None if library is None else CpuKernels(library)


def _pool_shape(pool: torch.Tensor) -> tuple[int, int, int, int]:
    """num_blocks, n_kv, block_size, d of one layer's pool."""
    _, num_blocks, n_kv, block_size, d = pool.shape
    _check(pool, torch.bfloat16, 2, num_blocks, n_kv, block_size, d)
    _check_head_dim(d)
    return num_blocks, n_kv, block_size, d


def _codes(blocks: KVBlocks) -> tuple[tuple[int, int, int, int, int, int], tuple[Any, ...]]:
    """Addresses of K and V, format, n_kv, block_size, d; addresses of the scales, their steps."""
    key, value = blocks.key, blocks.value
    key_scale, value_scale = blocks.key_scale, blocks.value_scale
    if key_scale is None or value_scale is None or key.dtype != value.dtype:
        raise ValueError(
            f"expected codes with scales, K and V alike, got {key.dtype} and {value.dtype}"
        )
    _check(key, key.dtype, *key.shape)
    _check(value, key.dtype, *key.shape)
    _check_head_dim(blocks.head_dim)
    steps = [(ctypes.c_int64 * 3)(*scale.stride()) for scale in (key_scale, value_scale)]
    where = (key.data_ptr(), value.data_ptr(), _FORMATS[kv_format(key)], blocks.n_kv,
             blocks.block_size, blocks.head_dim)  # fmt: skip
    return where, (key_scale.data_ptr(), value_scale.data_ptr(), *steps)


def _check_head_dim(d: int) -> None:
    if d % 32:
        raise ValueError(f"head_dim must be a multiple of 32, not {d}")


def _check(tensor: torch.Tensor, dtype: torch.dtype, *shape: int) -> None:
    if tensor.dtype != dtype or tensor.shape != shape or not tensor.is_contiguous():
        raise ValueError(
            f"expected contiguous {dtype} {list(shape)}, got {tensor.dtype} {list(tensor.shape)}"
        )
