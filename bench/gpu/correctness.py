"""Every kernel beside its twin on the device, and decode over quantised blocks beside float64.

Tolerances are those of the tests: the twin computes in float32 and rounds once, a kernel rounds its
weights once more before the second product. What only moves or rounds numbers agrees to the byte.
"""

from __future__ import annotations

import torch

from bench.gpu.bench import Bench
from bench.gpu.pools import Pool, draw, make_pool
from bench.gpu.report import Check
from bench.gpu.shapes import FORMATS, Heads
from kernels.copy_blocks import copy_blocks, copy_blocks_torch
from kernels.gather_blocks import gather_blocks, gather_blocks_torch
from kernels.kv_blocks import KVBlocks
from kernels.paged_decode import paged_decode, paged_decode_torch
from kernels.paged_prefill import paged_prefill, paged_prefill_torch
from kernels.rms_norm import rms_norm, rms_norm_torch
from kernels.rotate_and_store import rotate_and_store, rotate_and_store_torch
from kernels.scatter_blocks import scatter_blocks, scatter_blocks_torch
from kernels.store_kv import store_kv, store_kv_torch

PART = "correctness"
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
LOSS = {"fp8_e4m3": 0.05, "int8": 0.012, "int4": 0.2}
"""Most that stored numbers may differ from what was to be stored, as a relative root mean square:
about twice what rounding normally distributed numbers costs."""

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_BLOCK = 16


def run(bench: Bench) -> None:
    """All checks, one line each."""
    for heads in bench.sizes.checked:
        for dtype in DTYPES:
            _attention(bench, heads, dtype)
        _rotation(bench, heads)
        _moves(bench, heads)
    for form in FORMATS[1:]:
        _quantised(bench, form)
    _norm(bench)
    bench.report.summarise_checks()


def distance(ours: torch.Tensor, reference: torch.Tensor, tolerance: float) -> float:
    """Largest |ours − reference| / (tolerance · (1 + |reference|)): near at most 1, else NaN or
    more. Infinite where the shapes differ."""
    if ours.shape != reference.shape:
        return float("inf")
    a, b = ours.double(), reference.double()
    if not a.numel():
        return 0.0
    # amax passes NaN on, as it must.
    return float(((a - b).abs() / (tolerance * (1 + b.abs()))).amax())


def relative_rms(ours: torch.Tensor, reference: torch.Tensor) -> float:
    a, b = ours.double(), reference.double()
    return float((a - b).square().mean().sqrt() / b.square().mean().sqrt())


def _near(bench: Bench, name: str, ours: torch.Tensor, twin: torch.Tensor) -> None:
    tolerance = TOLERANCE[twin.dtype]
    worst = distance(ours, twin, tolerance)
    measure = f"error in units of {tolerance:g} · (1 + |x|)"
    bench.report.check(Check(name, "its twin", worst, 1.0, measure))


def _same(bench: Bench, name: str, ours: list[torch.Tensor], twin: list[torch.Tensor]) -> None:
    differ = sum(
        int((a.contiguous().view(torch.uint8) != b.contiguous().view(torch.uint8)).sum())
        for a, b in zip(ours, twin, strict=True)
    )
    bench.report.check(Check(name, "its twin", differ, 0.0, "bytes that differ"))


def _lengths(bench: Bench, pool: Pool) -> torch.Tensor:
    """The first sequence whole, the second with one key more than a block, the third with none."""
    lengths = torch.tensor([bench.sizes.checked_length, _BLOCK + 1, 0], dtype=torch.int32)
    return lengths.to(pool.seq_lens.device)


def _attention(bench: Bench, heads: Heads, dtype: torch.dtype) -> None:
    """bfloat16 with every format and a window; of the other dtypes less, since each combination is
    a kernel to be compiled."""
    length = bench.sizes.checked_length
    short = str(dtype).removeprefix("torch.")
    usual = dtype == bench.dtype
    for form in FORMATS if usual else ("native", "int8"):
        pool = make_pool(3, length, heads, form, _BLOCK, dtype, bench.device)
        lengths, scale = _lengths(bench, pool), heads.d**-0.5
        for window in (None, length // 3) if usual else (None,):
            seen = "" if window is None else f", window {window}"
            name = f"{heads}, {form}, {short}{seen}"
            query = draw((3, heads.n_q, heads.d), dtype, bench.device)
            some = (query, pool.blocks, pool.block_table, lengths, scale, window)
            ours = paged_decode(*some, backend=bench.backend)
            _near(bench, f"paged_decode {name}", ours, paged_decode_torch(*some))
            # A prompt of nearly all keys, a chunk of two behind a prefix, a sequence without any.
            counts = (length - 3, 2, 0)
            where = torch.tensor([0, counts[0], sum(counts), sum(counts)], dtype=torch.int32)
            rows = draw((sum(counts) + 1, heads.n_q, heads.d), dtype, bench.device)
            many = (rows, pool.blocks, pool.block_table, where.to(bench.device), lengths)
            ours = paged_prefill(*many, counts[0], scale, window, backend=bench.backend)
            twin = paged_prefill_torch(*many, scale, window)
            _near(bench, f"paged_prefill {name}", ours, twin)


def _rotation(bench: Bench, heads: Heads) -> None:
    tokens, slots = 5, torch.tensor([3, -1, 17, 0, 40], device=bench.device)
    dtype, d = bench.dtype, heads.d
    qkv = draw((tokens, heads.n_q + 2 * heads.n_kv, d), dtype, bench.device)
    angles = draw((tokens, d // 2), torch.float32, bench.device, seed=2)
    weight = draw((heads.n_q + heads.n_kv, d), torch.float32, bench.device, seed=3)
    for form in FORMATS:
        ours, twin, kept = (
            make_pool(1, 3 * _BLOCK, heads, form, _BLOCK, dtype, bench.device).blocks
            for _ in range(3)
        )
        dynamic = form != "fp8_e4m3"
        mine, other = qkv.clone(), qkv.clone()
        rest = (slots, weight, 1e-6, dynamic)
        turned = (angles.cos(), angles.sin())
        rotate_and_store(mine, *turned, ours, *rest, backend=bench.backend)
        rotate_and_store_torch(other, *turned, twin, *rest)
        _near(bench, f"rotate_and_store {heads}, {form}", mine, other)
        # A number in the middle of two codes may fall to either: compared are the codes of ours.
        key, value = mine[:, heads.n_q : -heads.n_kv], mine[:, -heads.n_kv :]
        store_kv_torch(key, value, kept, slots, dynamic)
        _same(bench, f"rotate_and_store {heads}, {form}: stored", _tensors(ours), _tensors(kept))
        ours, twin = (
            make_pool(1, 3 * _BLOCK, heads, form, _BLOCK, dtype, bench.device).blocks
            for _ in range(2)
        )
        store_kv(key, value, ours, slots, dynamic, backend=bench.backend)
        store_kv_torch(key, value, twin, slots, dynamic)
        _same(bench, f"store_kv {heads}, {form}", _tensors(ours), _tensors(twin))


def _tensors(blocks: KVBlocks) -> list[torch.Tensor]:
    every = (blocks.key, blocks.value, blocks.key_scale, blocks.value_scale)
    return [one for one in every if one is not None]


def _moves(bench: Bench, heads: Heads) -> None:
    """One copy's destination is the next one's source; −1 is skipped, and gives zeros."""
    for form in FORMATS:
        pool = make_pool(1, 5 * _BLOCK, heads, form, _BLOCK, bench.dtype, bench.device).pool
        sources, targets = (torch.tensor(x, device=bench.device) for x in ([0, 1, 4], [1, 2, 0]))
        ours, twin = pool.clone(), pool.clone()
        copy_blocks(ours, sources, targets, backend=bench.backend)
        copy_blocks_torch(twin, sources, targets)
        _same(bench, f"copy_blocks {heads}, {form}", [ours], [twin])
        ids = torch.tensor([3, -1, 0], device=bench.device)
        out, expected = gather_blocks(pool, ids, bench.backend), gather_blocks_torch(pool, ids)
        _same(bench, f"gather_blocks {heads}, {form}", [out], [expected])
        ours, twin = pool.clone(), pool.clone()
        scatter_blocks(ours, ids, out, bench.backend)
        scatter_blocks_torch(twin, ids, expected)
        _same(bench, f"scatter_blocks {heads}, {form}", [ours], [twin])


def _norm(bench: Bench) -> None:
    width = bench.sizes.hidden
    for dtype in DTYPES:
        for added in (False, True):
            x = draw((7, width), torch.float32, bench.device)
            weight = draw((width,), dtype, bench.device, seed=2)
            more = draw((7, width), dtype, bench.device, seed=3) if added else None
            ours, twin = x.clone(), x.clone()
            name = f"rms_norm {width}, {str(dtype).removeprefix('torch.')}"
            name += ", sum before" if added else ""
            _near(
                bench,
                name,
                rms_norm(ours, weight, 1e-5, more, bench.backend),
                rms_norm_torch(twin, weight, 1e-5, more),
            )
            _near(bench, f"{name}: the stream", ours, twin)


def _quantised(bench: Bench, form: str) -> None:
    """Stored by our kernel, read by our kernel; beside float64 over what the codes stand for, and
    over the numbers that were stored."""
    heads, length = bench.sizes.heads, bench.sizes.checked_length
    device, dtype = bench.device, bench.dtype
    pool = make_pool(1, length, heads, form, _BLOCK, dtype, device)
    exact = [draw((length, heads.n_kv, heads.d), dtype, device, seed) for seed in (4, 5)]
    table = pool.block_table[0].long()
    positions = torch.arange(length, device=device)
    slots = table[positions // _BLOCK] * _BLOCK + positions % _BLOCK
    store_kv(*exact, pool.blocks, slots, form != "fp8_e4m3", backend=bench.backend)
    query, scale = draw((1, heads.n_q, heads.d), dtype, device), heads.d**-0.5
    some = (query, pool.blocks, pool.block_table, pool.seq_lens, scale)
    ours = paged_decode(*some, backend=bench.backend)[0]
    codes = [side[:length] for side in pool.blocks.read(table)]
    tolerance = TOLERANCE[dtype]
    name = f"store_kv, then paged_decode {heads}, {form}"
    worst = distance(ours, _float64(query[0], *codes, scale), tolerance)
    measure = f"error in units of {tolerance:g} · (1 + |x|)"
    bench.report.check(Check(name, "float64, same codes", worst, 1.0, measure))
    # Of the numbers themselves: attention over many random values is near 0, and says little.
    rounded = torch.cat([side.flatten() for side in codes])
    meant = torch.cat([side.flatten() for side in exact])
    loss = relative_rms(rounded, meant)
    bench.report.check(Check(name, "what was stored", loss, LOSS[form], "relative RMS of K and V"))


def _float64(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """Attention of one query [n_q, d] to K and V [L, n_kv, d], all in float64."""
    rows = query.double().view(key.shape[1], -1, key.shape[2])
    weights = torch.softmax(torch.einsum("hgd,lhd->hgl", rows, key.double()) * scale, -1)
    return torch.einsum("hgl,lhd->hgd", weights, value.double()).reshape(query.shape)
