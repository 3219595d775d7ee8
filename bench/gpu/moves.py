"""What an engine does beside attention: store, copy, gather, scatter, norm, rotation; each as a
share of the bandwidth of a copy."""

from __future__ import annotations

from functools import partial

import torch

from bench.gpu.bench import COPY, Bench
from bench.gpu.pools import draw, key_bytes, make_pool
from bench.gpu.shapes import FORMATS
from kernels.copy_blocks import copy_blocks
from kernels.gather_blocks import gather_blocks
from kernels.rms_norm import rms_norm
from kernels.rotate_and_store import rotate_and_store
from kernels.scatter_blocks import scatter_blocks
from kernels.store_kv import store_kv

_BLOCK = 16


def run(bench: Bench) -> None:
    for tokens in bench.sizes.tokens:
        _of_tokens(bench, tokens)
    for form in ("native", "int8"):
        _of_blocks(bench, form)


def _of_tokens(bench: Bench, tokens: int) -> None:
    heads, dtype, device = bench.sizes.heads, bench.dtype, bench.device
    width = heads.n_q + 2 * heads.n_kv
    qkv = draw((tokens, width, heads.d), dtype, device)
    key, value = qkv[:, heads.n_q : -heads.n_kv], qkv[:, -heads.n_kv :]
    angles = draw((tokens, heads.d // 2), torch.float32, device)
    cos, sin = angles.cos(), angles.sin()
    read = tokens * 2 * heads.n_kv * heads.d * dtype.itemsize
    for form in FORMATS:
        pool = make_pool(1, tokens, heads, form, _BLOCK, dtype, device)
        places = torch.randperm(pool.blocks.num_blocks * _BLOCK, device=device)[:tokens]
        dynamic = form != "fp8_e4m3"
        store = partial(store_kv, key, value, pool.blocks, places, dynamic, backend=bench.backend)
        written = tokens * key_bytes(heads, form, dtype)
        name = f"store {tokens:,} tokens, {heads}, {form}"
        bench.measure("moves", name, {bench.ours: store}, read + written, COPY)
        if form not in ("native", "int8"):
            continue
        rotate = partial(
            rotate_and_store, qkv, cos, sin, pool.blocks, places, None, 0.0, dynamic, bench.backend
        )
        # Queries and keys are read and written, values read; then what a store writes.
        turned = 2 * tokens * (heads.n_q + heads.n_kv) * heads.d * dtype.itemsize
        moved = turned + read // 2 + written + cos.nbytes + sin.nbytes
        name = f"rotate and store {tokens:,} tokens, {heads}, {form}"
        bench.measure("moves", name, {bench.ours: rotate}, moved, COPY)
    hidden = bench.sizes.hidden
    x = draw((tokens, hidden), torch.float32, device)
    weight = draw((hidden,), dtype, device)
    added = torch.zeros(tokens, hidden, dtype=dtype, device=device)
    norm = partial(rms_norm, x, weight, 1e-5, added, bench.backend)
    moved = 2 * x.nbytes + added.nbytes + tokens * hidden * dtype.itemsize
    name = f"sum and norm {tokens:,} × {hidden:,}"
    bench.measure("moves", name, {bench.ours: norm}, moved, COPY)


def _of_blocks(bench: Bench, form: str) -> None:
    """`moved` blocks each; bytes count twice, once read and once written."""
    heads, count = bench.sizes.heads, bench.sizes.moved
    pool = make_pool(2, count * _BLOCK, heads, form, _BLOCK, bench.dtype, bench.device)
    order = torch.randperm(2 * count, device=bench.device)
    sources, targets = order[:count], order[count:]
    held = gather_blocks(pool.pool, sources, bench.backend)
    moved = 2 * held.nbytes
    works = {
        "copy": partial(copy_blocks, pool.pool, sources, targets, bench.backend),
        "gather": partial(gather_blocks, pool.pool, sources, bench.backend),
        "scatter": partial(scatter_blocks, pool.pool, targets, held, bench.backend),
    }
    for name, work in works.items():
        row = f"{name} {count:,} blocks of {_BLOCK}, {heads}, {form}"
        bench.measure("moves", row, {bench.ours: work}, moved, COPY)
