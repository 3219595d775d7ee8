"""Whole blocks copied within a pool, gathered from it and scattered into it, as machine words."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from kernels.gpu.launch import Launch

_WORDS = 1024


@triton.jit
def copy_kernel(pool, sources, destinations, num_copies, side_words, block_words,
                WORDS: tl.constexpr):  # fmt: skip
    """Program (side, j): words WORDS · j … of every copy, one copy after the other.

    So the order holds without any program waiting for another: what one copy writes and a later one
    reads is the same words of two blocks, so the same program's. The barrier makes it hold between
    the threads of a program, and the launch has one stage: no load runs ahead of a store.
    """
    words = tl.program_id(1).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    within = words < block_words
    base = pool + tl.program_id(0).to(tl.int64) * side_words + words
    for i in range(num_copies):
        source = tl.load(sources + i).to(tl.int64)
        destination = tl.load(destinations + i).to(tl.int64)
        data = tl.load(base + source * block_words, mask=within)
        tl.store(base + destination * block_words, data, mask=within)
        tl.debug_barrier()


@triton.jit
def gather_kernel(pool, block_ids, outside, num_ids, side_words, block_words,
                  WORDS: tl.constexpr):  # fmt: skip
    """Program (i, j): words WORDS · j … of block block_ids[i], on both sides."""
    row = tl.program_id(0).to(tl.int64)
    words = tl.program_id(1).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    within = words < block_words
    block = tl.load(block_ids + row).to(tl.int64)
    in_pool = tl.where(within, block, -1) >= 0
    for side in range(2):
        inside = pool + side * side_words + block * block_words + words
        beside = outside + (side * num_ids + row) * block_words + words
        tl.store(beside, tl.load(inside, mask=in_pool, other=0), mask=within)


@triton.jit
def scatter_kernel(pool, block_ids, outside, num_ids, side_words, block_words,
                   WORDS: tl.constexpr):  # fmt: skip
    """The other way."""
    row = tl.program_id(0).to(tl.int64)
    words = tl.program_id(1).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    block = tl.load(block_ids + row).to(tl.int64)
    in_pool = tl.where(words < block_words, block, -1) >= 0
    for side in range(2):
        inside = pool + side * side_words + block * block_words + words
        beside = outside + (side * num_ids + row) * block_words + words
        tl.store(inside, tl.load(beside, mask=in_pool), mask=in_pool)


def copy(pool: torch.Tensor, sources: torch.Tensor, destinations: torch.Tensor) -> None:
    """See `kernels.copy_blocks`."""
    copy_launch(pool, sources, destinations)()


def gather(pool: torch.Tensor, block_ids: torch.Tensor) -> torch.Tensor:
    """See `kernels.gather_blocks`."""
    out = torch.empty(
        (pool.shape[0], len(block_ids), *pool.shape[2:]), dtype=pool.dtype, device=pool.device
    )
    move_launch(pool, block_ids, out, gather=True)()
    return out


def scatter(pool: torch.Tensor, block_ids: torch.Tensor, blocks: torch.Tensor) -> None:
    """See `kernels.scatter_blocks`."""
    move_launch(pool, block_ids, blocks, gather=False)()


def copy_launch(pool: torch.Tensor, sources: torch.Tensor, destinations: torch.Tensor) -> Launch:
    words = as_words(pool)
    sides, _, block_words = words.shape
    return Launch(
        copy_kernel,
        (sides, -(-block_words // _WORDS)),
        {
            "pool": words,
            "sources": sources,
            "destinations": destinations,
            "num_copies": len(sources),
            "side_words": words.stride(0),
            "block_words": block_words,
            "WORDS": _WORDS,
        },
        num_stages=1,
    )


def move_launch(
    pool: torch.Tensor, block_ids: torch.Tensor, outside: torch.Tensor, gather: bool
) -> Launch:
    words = as_words(pool)
    _, _, block_words = words.shape
    return Launch(
        gather_kernel if gather else scatter_kernel,
        (len(block_ids), -(-block_words // _WORDS)),
        {
            "pool": words,
            "block_ids": block_ids,
            "outside": as_words(outside),
            "num_ids": len(block_ids),
            "side_words": words.stride(0),
            "block_words": block_words,
            "WORDS": _WORDS,
        },
    )


def as_words(pool: torch.Tensor) -> torch.Tensor:
    """[2, n, …] of anything → [2, n, words of a block] of the widest integers that fit a block."""
    sides, count = pool.shape[:2]
    block_bytes = pool.shape[2:].numel() * pool.itemsize
    flat = pool.view(torch.uint8).view(sides, count, block_bytes)
    if count == 0:
        return flat
    for word in (torch.int64, torch.int32, torch.int16):
        if block_bytes % word.itemsize == 0 and pool.data_ptr() % word.itemsize == 0:
            return flat.view(word)
    return flat
