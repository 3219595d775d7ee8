"""FlashInfer and FlashAttention beside our kernels, where they are installed.

Written after FlashInfer 0.7 (`BatchDecodeWithPagedKVCacheWrapper`, `BatchPrefillWithPagedKVCache-
Wrapper`; signatures read in 0.7.4) and FlashAttention 2.8 (`flash_attn_with_kvcache`,
`flash_attn_varlen_func`). Each does its planning before the clock runs, as an engine does it once
a step and not once a layer. FlashInfer reads the very memory that ours reads. FlashAttention's
pages are a multiple of 256 tokens in a layout of its own, so it has a copy in such pages.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import torch

from bench.gpu.pools import Pool, starts
from bench.gpu.timer import Work
from kernels.kv_blocks import kv_format

WORKSPACE_BYTES = 256 << 20
FLASH_PAGE = 256


class Peer(Protocol):
    """Another library's attention. Both methods prepare everything and return what is timed, whose
    result is [T, n_q, d] in some shape; None for a format that it does not have here."""

    name: str

    def decode(self, pool: Pool, query: torch.Tensor, scale: float) -> Work | None: ...

    def prefill(self, pool: Pool, query: torch.Tensor, queries: int, scale: float) -> Work | None:
        """queries: of each sequence, the last of its keys' tokens."""
        ...


class FlashInfer:
    """Raises ImportError where it is not installed."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = importlib.import_module("flashinfer")
        self.name = f"flashinfer {_version('flashinfer-python', self._module)}"
        self._workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)

    def decode(self, pool: Pool, query: torch.Tensor, scale: float) -> Work | None:
        blocks = pool.blocks
        if kv_format(blocks.key) not in ("native", "fp8_e4m3"):
            return None
        n_q = query.shape[1]
        # Tensor cores pay where several query heads share a KV head, as its documentation says.
        wrapper = self._module.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace, "HND", use_tensor_cores=n_q // blocks.n_kv >= 4
        )
        indptr, indices, last = _pages(pool)
        wrapper.plan(
            indptr,
            indices,
            last,
            n_q,
            blocks.n_kv,
            blocks.head_dim,
            blocks.block_size,
            q_data_type=query.dtype,
            kv_data_type=blocks.key.dtype,
            sm_scale=scale,
        )
        scales = _scales(pool)
        return lambda: wrapper.run(query, (blocks.key, blocks.value), **scales)

    def prefill(self, pool: Pool, query: torch.Tensor, queries: int, scale: float) -> Work | None:
        blocks = pool.blocks
        if kv_format(blocks.key) not in ("native", "fp8_e4m3"):
            return None
        wrapper = self._module.BatchPrefillWithPagedKVCacheWrapper(self._workspace, "HND")
        indptr, indices, last = _pages(pool)
        wrapper.plan(
            starts(len(pool.block_table), queries, query.device),
            indptr,
            indices,
            last,
            query.shape[1],
            blocks.n_kv,
            blocks.head_dim,
            blocks.block_size,
            causal=True,
            sm_scale=scale,
            q_data_type=query.dtype,
            kv_data_type=blocks.key.dtype,
        )
        scales = _scales(pool)
        return lambda: wrapper.run(query, (blocks.key, blocks.value), **scales)


class FlashAttention:
    """Raises ImportError where it is not installed."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = importlib.import_module("flash_attn")
        self.name = f"flash_attn {_version('flash-attn', self._module)}"

    def decode(self, pool: Pool, query: torch.Tensor, scale: float) -> Work | None:
        if kv_format(pool.blocks.key) != "native":
            return None
        key, value, table = _flash_pages(pool)
        rows = query[:, None]  # [B, 1, n_q, d]
        return lambda: self._module.flash_attn_with_kvcache(
            rows,
            key,
            value,
            cache_seqlens=pool.seq_lens,
            block_table=table,
            softmax_scale=scale,
            causal=True,
        )

    def prefill(self, pool: Pool, query: torch.Tensor, queries: int, scale: float) -> Work | None:
        if kv_format(pool.blocks.key) != "native":
            return None
        key, value, table = _flash_pages(pool)
        batch, length = len(table), int(pool.seq_lens[0])
        where = starts(batch, queries, query.device)
        keys_where = starts(batch, length, query.device)
        return lambda: self._module.flash_attn_varlen_func(
            query,
            key,
            value,
            cu_seqlens_q=where,
            cu_seqlens_k=keys_where,
            max_seqlen_q=queries,
            max_seqlen_k=length,
            softmax_scale=scale,
            causal=True,
            block_table=table,
        )


PEERS = {"FlashInfer": FlashInfer, "FlashAttention": FlashAttention}


def installed(device: torch.device) -> tuple[list[Peer], list[str]]:
    """The libraries that can be loaded, and a line for each that cannot."""
    found: list[Peer] = []
    absent = []
    for title, make in PEERS.items():
        try:
            found.append(make(device))
        except ModuleNotFoundError as error:
            absent.append(f"{title}: not installed ({error.name})")
        except Exception as error:  # e.g. built for another torch: an undefined symbol
            why = " ".join(str(error).split())[:200] or type(error).__name__
            absent.append(f"{title}: cannot be loaded: {why}")
    return found, absent


def _version(distribution: str, module: Any) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return str(getattr(module, "__version__", "of unknown version"))


def _pages(pool: Pool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """indptr [B + 1], indices [B · W], last_page_len [B], all int32, of sequences of one length."""
    batch, width = pool.block_table.shape
    device = pool.block_table.device
    last = (pool.seq_lens - 1) % pool.blocks.block_size + 1
    return starts(batch, width, device), pool.block_table.flatten(), last.to(torch.int32)


def _scales(pool: Pool) -> dict[str, float]:
    """The one scale of all K, and of all V; nothing for native blocks."""
    blocks = pool.blocks
    if blocks.key_scale is None or blocks.value_scale is None:
        return {}
    return {
        "k_scale": float(blocks.key_scale[0, 0, 0]),
        "v_scale": float(blocks.value_scale[0, 0, 0]),
    }


def _flash_pages(pool: Pool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """K and V [B · P, 256, n_kv, d], P pages for each sequence, and its table [B, P], int32."""
    sides = []
    for side in pool.contiguous():  # [B, n_kv, L, d]
        batch, n_kv, length, d = side.shape
        pages = -(-length // FLASH_PAGE)
        padded = side.new_zeros(batch, pages * FLASH_PAGE, n_kv, d)
        padded[:, :length] = side.transpose(1, 2)
        sides.append(padded.view(batch * pages, FLASH_PAGE, n_kv, d))
    device = pool.block_table.device
    order = torch.randperm(batch * pages, device=device)
    table = torch.empty_like(order)
    table[order] = torch.arange(len(order), device=device)  # page order[i] goes to place i
    return (
        sides[0][order],
        sides[1][order],
        table.view(batch, pages).to(torch.int32),
    )
