"""Small modules with the signatures of FlashInfer and FlashAttention, computed by plain torch.

They take what those libraries take, refuse what those refuse, and give the same results: so that
what is handed to them here would have meant the same there. Signatures as in FlashInfer 0.7.4 and
FlashAttention 2.8.3.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """query [m, n_q, d], the last of K's and V's [L, n_kv, d] tokens → [m, n_q, d]."""
    m, length, group = len(query), len(key), query.shape[1] // key.shape[1]
    key, value = (side.float().repeat_interleave(group, 1) for side in (key, value))
    scores = torch.einsum("mhd,lhd->hml", query.float(), key) * scale
    last = torch.arange(length - m, length)[:, None]
    hidden = torch.arange(length)[None, :] > last
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
    return torch.einsum("hml,lhd->mhd", weights, value).to(query.dtype)


class _Paged:
    def __init__(
        self, float_workspace_buffer: torch.Tensor, kv_layout: str = "NHD", **options: Any
    ) -> None:
        assert float_workspace_buffer.dtype == torch.uint8
        assert kv_layout == "HND" and options.keys() <= {"use_tensor_cores"}
        self.planned: Any = None

    def _read(self, cache: tuple, i: int, k_scale: float, v_scale: float) -> list[torch.Tensor]:
        indptr, indices, last, page_size, n_kv, d = self.planned[:6]
        pages = indices[int(indptr[i]) : int(indptr[i + 1])].long()
        length = (len(pages) - 1) * page_size + int(last[i])
        sides = []
        for side, scale in zip(cache, (k_scale, v_scale), strict=True):
            assert side.shape[1:] == (n_kv, page_size, d)
            own = torch.stack([side[page].float() for page in pages.tolist()])
            sides.append((own * scale).transpose(1, 2).flatten(0, 1)[:length])
        return sides


class Decode(_Paged):
    def plan(
        self, indptr: torch.Tensor, indices: torch.Tensor, last_page_len: torch.Tensor,
        num_qo_heads: int, num_kv_heads: int, head_dim: int, page_size: int, *,
        q_data_type: torch.dtype, kv_data_type: torch.dtype,
        sm_scale: float,
    ) -> None:  # fmt: skip
        for one in (indptr, indices, last_page_len):
            assert one.dtype == torch.int32 and one.ndim == 1
        assert int(indptr[-1]) == len(indices) and len(indptr) == len(last_page_len) + 1
        assert ((last_page_len >= 1) & (last_page_len <= page_size)).all()
        self.planned = (indptr, indices, last_page_len, page_size, num_kv_heads, head_dim,
                        num_qo_heads, sm_scale, kv_data_type)  # fmt: skip

    def run(
        self, q: torch.Tensor, paged_kv_cache: tuple, *, k_scale: float = 1, v_scale: float = 1
    ) -> torch.Tensor:
        assert q.shape[1] == self.planned[6] and paged_kv_cache[0].dtype == self.planned[8]
        return torch.cat(
            [
                _attend(q[i : i + 1], *self._read(paged_kv_cache, i, k_scale, v_scale),
                        self.planned[7])
                for i in range(len(q))
            ]
        )  # fmt: skip


class Prefill(_Paged):
    def plan(
        self, qo_indptr: torch.Tensor, paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor, paged_kv_last_page_len: torch.Tensor, num_qo_heads: int,
        num_kv_heads: int, head_dim_qk: int, page_size: int, *, causal: bool, sm_scale: float,
        q_data_type: torch.dtype, kv_data_type: torch.dtype,
    ) -> None:  # fmt: skip
        assert causal and qo_indptr.dtype == torch.int32
        self.starts = qo_indptr.tolist()
        self.planned = (paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len, page_size,
                        num_kv_heads, head_dim_qk)  # fmt: skip
        self.scale = sm_scale

    def run(
        self, q: torch.Tensor, paged_kv_cache: tuple, *, k_scale: float = 1, v_scale: float = 1
    ) -> torch.Tensor:
        return torch.cat(
            [
                _attend(q[a:b], *self._read(paged_kv_cache, i, k_scale, v_scale), self.scale)
                for i, (a, b) in enumerate(zip(self.starts, self.starts[1:], strict=False))
            ]
        )


def _of_pages(cache: torch.Tensor, row: torch.Tensor, length: int) -> torch.Tensor:
    assert cache.shape[1] % 256 == 0, "page_block_size must be a multiple of 256"
    return cache[row.long()].flatten(0, 1)[:length]


def flash_attn_with_kvcache(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, *, cache_seqlens: torch.Tensor,
    block_table: torch.Tensor, softmax_scale: float, causal: bool,
) -> torch.Tensor:  # fmt: skip
    assert cache_seqlens.dtype == block_table.dtype == torch.int32 and causal
    out = []
    for i, length in enumerate(cache_seqlens.tolist()):
        sides = (_of_pages(side, block_table[i], length) for side in (k_cache, v_cache))
        out.append(_attend(q[i], *sides, softmax_scale))
    return torch.stack(out)


def flash_attn_varlen_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor, max_seqlen_q: int, max_seqlen_k: int, softmax_scale: float,
    causal: bool, block_table: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == block_table.dtype == torch.int32 and causal
    assert int(cu_seqlens_q.diff().max()) == max_seqlen_q
    assert int(cu_seqlens_k.diff().max()) == max_seqlen_k
    out = []
    for i, length in enumerate(cu_seqlens_k.diff().tolist()):
        own = q[int(cu_seqlens_q[i]) : int(cu_seqlens_q[i + 1])]
        sides = (_of_pages(side, block_table[i], length) for side in (k, v))
        out.append(_attend(own, *sides, softmax_scale))
    return torch.cat(out)


def modules() -> dict[str, ModuleType]:
    """To be put into `sys.modules`."""
    flashinfer, flash_attn = ModuleType("flashinfer"), ModuleType("flash_attn")
    flashinfer.__version__, flash_attn.__version__ = "0.7.4", "2.8.3"
    flashinfer.BatchDecodeWithPagedKVCacheWrapper = Decode
    flashinfer.BatchPrefillWithPagedKVCacheWrapper = Prefill
    flash_attn.flash_attn_with_kvcache = flash_attn_with_kvcache
    flash_attn.flash_attn_varlen_func = flash_attn_varlen_func
    return {"flashinfer": flashinfer, "flash_attn": flash_attn}
