"""Paged attention: decode against the memory's bandwidth, prefill against the tensor cores' rate,
and both against attention over keys and values that lie in one piece."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from bench.gpu.bench import COPY, MATMUL, Bench
from bench.gpu.peers import Peer
from bench.gpu.pools import (
    Pool,
    decode_bytes,
    draw,
    make_pool,
    prefill_flops,
    starts,
    unbroken,
)
from bench.gpu.shapes import DecodeCase, PrefillCase
from bench.gpu.timer import Work
from kernels.paged_decode import paged_decode
from kernels.paged_prefill import paged_prefill

AGREE = 3e-2
"""Most that another library's bfloat16 result may differ from ours, absolute and relative: both
round twice, in different places. Without agreement nothing is compared."""

Candidate = tuple[str, Callable[[], Work | None]]
"""A name, and what prepares the work that is timed."""


def decode(bench: Bench, peers: list[Peer]) -> None:
    """The grid. A share is of the bandwidth of a copy, measured in turn with each row."""
    for case in bench.sizes.decode:
        _decode(bench, case, peers)


def prefill(bench: Bench, peers: list[Peer]) -> None:
    """Whole prompts, and chunks after a prefix. A share is of a large product's rate."""
    for case in bench.sizes.prefill:
        _prefill(bench, case, peers)


def paging(bench: Bench) -> None:
    """What pages cost. "one piece" is our own kernel over blocks as long as a sequence: the same
    arithmetic, without a table to follow. "torch, one piece" is scaled_dot_product_attention over
    contiguous K and V, whatever implementation torch takes."""
    for case in bench.sizes.paging:
        _paged_decode_beside_whole(bench, case)
    for case in bench.sizes.paging_prefill:
        _paged_prefill_beside_whole(bench, case)


# One function for a case: its tensors are gone before those of the next are made.


def _decode(bench: Bench, case: DecodeCase, peers: list[Peer]) -> None:
    pool, query = _decode_inputs(bench, case)
    works = {bench.ours: _decode_work(bench, pool, query)}
    scale = query.shape[-1] ** -0.5
    prepared = [(peer.name, partial(peer.decode, pool, query, scale)) for peer in peers]
    _add_peers(bench, str(case), works, prepared)
    bench.measure("decode", str(case), works, decode_bytes(case, bench.dtype), COPY)


def _prefill(bench: Bench, case: PrefillCase, peers: list[Peer]) -> None:
    pool, query = _prefill_inputs(bench, case)
    works = {bench.ours: _prefill_work(bench, case, pool, query)}
    scale = query.shape[-1] ** -0.5
    prepared = [
        (peer.name, partial(peer.prefill, pool, query, case.queries, scale)) for peer in peers
    ]
    _add_peers(bench, str(case), works, prepared)
    bench.measure("prefill", str(case), works, prefill_flops(case), MATMUL)


def _paged_decode_beside_whole(bench: Bench, case: DecodeCase) -> None:
    pool, query = _decode_inputs(bench, case)
    whole = unbroken(pool)
    works = {
        bench.ours: _decode_work(bench, pool, query),
        "one piece": _decode_work(bench, whole, query),
    }
    _add_peers(bench, str(case), works, [_torch(query, whole, causal=False)])
    name = f"{case}, blocks of {case.block_size}"
    bench.measure("paging", name, works, decode_bytes(case, bench.dtype), COPY)


def _paged_prefill_beside_whole(bench: Bench, case: PrefillCase) -> None:
    """Without a prefix: torch's causal mask begins at the first key."""
    pool, query = _prefill_inputs(bench, case)
    whole = unbroken(pool)
    works = {
        bench.ours: _prefill_work(bench, case, pool, query),
        "one piece": _prefill_work(bench, case, whole, query),
    }
    _add_peers(bench, str(case), works, [_torch(query, whole, causal=True)])
    name = f"{case}, blocks of {case.block_size}"
    bench.measure("paging", name, works, prefill_flops(case), MATMUL)


def agrees(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two results of the same attention are near enough to be timed side by side."""
    return ours.shape == theirs.shape and torch.allclose(
        ours.float(), theirs.float(), rtol=AGREE, atol=AGREE
    )


def _add_peers(
    bench: Bench,
    name: str,
    works: dict[str, Work],
    peers: list[Candidate],
) -> None:
    """Those that run and agree with ours join `works`; of the others one line says why not."""
    ours = works[bench.ours]()
    for who, prepare in peers:
        try:
            work = prepare()
            if work is None:
                continue
            theirs = work()
        except Exception as error:  # whatever another library raises is its own affair
            why = " ".join(str(error).split())[:200] or type(error).__name__
            bench.report.say(f"{name}: {who} not compared: {why}")
            continue
        if not agrees(ours, theirs.reshape(ours.shape)):
            bench.report.say(f"{name}: {who} not compared: its result differs from ours")
            continue
        works[who] = work


def _decode_inputs(bench: Bench, case: DecodeCase) -> tuple[Pool, torch.Tensor]:
    pool = make_pool(case.batch, case.context, case.heads, case.form, case.block_size, bench.dtype,
                     bench.device)  # fmt: skip
    query = draw((case.batch, case.heads.n_q, case.heads.d), bench.dtype, bench.device)
    return pool, query


def _decode_work(bench: Bench, pool: Pool, query: torch.Tensor) -> Work:
    return partial(
        paged_decode,
        query,
        pool.blocks,
        pool.block_table,
        pool.seq_lens,
        query.shape[-1] ** -0.5,
        backend=bench.backend,
    )


def _prefill_inputs(bench: Bench, case: PrefillCase) -> tuple[Pool, torch.Tensor]:
    length = case.prefix + case.queries
    pool = make_pool(case.batch, length, case.heads, case.form, case.block_size, bench.dtype,
                     bench.device)  # fmt: skip
    rows = case.batch * case.queries
    return pool, draw((rows, case.heads.n_q, case.heads.d), bench.dtype, bench.device)


def _prefill_work(bench: Bench, case: PrefillCase, pool: Pool, query: torch.Tensor) -> Work:
    return partial(
        paged_prefill,
        query,
        pool.blocks,
        pool.block_table,
        starts(case.batch, case.queries, bench.device),
        pool.seq_lens,
        case.queries,
        query.shape[-1] ** -0.5,
        backend=bench.backend,
    )


def _torch(query: torch.Tensor, whole: Pool, *, causal: bool) -> Candidate:
    """query [T, n_q, d] of B sequences of one length, over unbroken K and V [B, n_kv, L, d]."""
    key, value = whole.blocks.key, whole.blocks.value
    rows = query.view(len(key), -1, *query.shape[1:]).transpose(1, 2).contiguous()

    def work() -> torch.Tensor:
        out = scaled_dot_product_attention(rows, key, value, is_causal=causal, enable_gqa=True)
        return out.transpose(1, 2)  # a view: [B, m, n_q, d]

    return "torch, one piece", lambda: work
