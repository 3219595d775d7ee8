"""Blocks copied, gathered and scattered, byte for byte."""

from __future__ import annotations

import pytest
import torch

from kernels.copy_blocks import copy_blocks, copy_blocks_torch
from kernels.gather_blocks import gather_blocks, gather_blocks_torch
from kernels.scatter_blocks import scatter_blocks, scatter_blocks_torch
from tests.kernels.interpreter import interpreted

SHAPES = {
    "bfloat16": ((2, 5, 2, 16, 64), torch.bfloat16),
    "int8": ((2, 5, 1, 1, 80), torch.int8),
    "fp8, words of 2 bytes": ((2, 5, 1, 3, 6), torch.float8_e4m3fn),
    "int4, words of 1": ((2, 5, 1, 1, 5), torch.uint8),
    "scales": ((2, 5, 3, 16), torch.float32),
    "more words than a program has": ((2, 5, 3, 16, 128), torch.float32),
}
shapes = pytest.mark.parametrize("kind", SHAPES)


def pool_of(kind: str, device: str = "cpu") -> torch.Tensor:
    shape, dtype = SHAPES[kind]
    generator = torch.Generator().manual_seed(1)
    count = torch.Size(shape).numel() * dtype.itemsize
    data = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator)
    return data.view(dtype).view(shape).to(device)


def same(ours: torch.Tensor, twin: torch.Tensor) -> bool:
    return torch.equal(ours.view(torch.uint8), twin.view(torch.uint8))


def check_copy(kind: str, device: str = "cpu") -> None:
    """Block 0 goes to 1, then 1 to 2, then 4 to 0: all by way of the order."""
    pool = pool_of(kind, device)
    first, last = pool[:, 0].clone(), pool[:, 4].clone()
    twin = pool.clone()
    sources, destinations = (torch.tensor(ids, device=device) for ids in ([0, 1, 4], [1, 2, 0]))
    copy_blocks(pool, sources, destinations, backend="triton")
    copy_blocks_torch(twin, sources, destinations)
    assert same(pool, twin)
    assert same(pool[:, 2].contiguous(), first)
    assert same(pool[:, 0].contiguous(), last)


def check_gather(kind: str, device: str = "cpu") -> None:
    pool, ids = pool_of(kind, device), torch.tensor([3, -1, 0], device=device)
    ours = gather_blocks(pool, ids, backend="triton")
    assert same(ours, gather_blocks_torch(pool, ids))
    assert same(ours[:, 0].contiguous(), pool[:, 3].contiguous())
    assert not ours[:, 1].contiguous().view(torch.uint8).any()


def check_scatter(kind: str, device: str = "cpu") -> None:
    pool, ids = pool_of(kind, device), torch.tensor([3, -1, 0], device=device)
    blocks = gather_blocks_torch(pool, torch.tensor([1, 2, 4], device=device))
    expected = pool.clone()
    expected[:, 3], expected[:, 0] = pool[:, 1], pool[:, 4]
    twin = pool.clone()
    scatter_blocks(pool, ids, blocks, backend="triton")
    scatter_blocks_torch(twin, ids, blocks)
    assert same(pool, twin)
    assert same(pool, expected)


@shapes
@interpreted
def test_copies_are_made_in_order(kind):
    check_copy(kind)


@shapes
@interpreted
def test_gather_is_its_twin(kind):
    check_gather(kind)


@shapes
@interpreted
def test_scatter_is_its_twin(kind):
    check_scatter(kind)


@interpreted
def test_a_block_beyond_two_to_the_31_is_moved_from_where_it_lies():
    """2³¹ bytes of pool, of which four blocks are touched; in bytes, since a block has an odd
    number of them."""
    block_bytes = (1 << 19) + 1
    num_blocks = (1 << 31) // block_bytes + 2
    pool = torch.empty(2, num_blocks, block_bytes, dtype=torch.uint8)
    pool[:, -1], pool[:, 0] = 7, 1
    last = torch.tensor([num_blocks - 1])
    assert (gather_blocks(pool, last, backend="triton") == 7).all()
    copy_blocks(pool, torch.tensor([0]), last, backend="triton")
    assert (pool[:, -1] == 1).all()


@interpreted
def test_nothing_to_move_moves_nothing():
    pool, none = pool_of("scales"), torch.tensor([], dtype=torch.int64)
    before = pool.clone()
    copy_blocks(pool, none, none, backend="triton")
    assert gather_blocks(pool, none, backend="triton").shape == (2, 0, 3, 16)
    scatter_blocks(pool, none, pool[:, :0].contiguous(), backend="triton")
    assert same(pool, before)


def test_what_does_not_fit_is_refused():
    pool = pool_of("scales")
    with pytest.raises(ValueError, match="1\\] sources, but \\[2\\]"):
        copy_blocks(pool, torch.tensor([0]), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="contiguous pool"):
        gather_blocks(pool.transpose(2, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"expected torch\.float32"):
        scatter_blocks(pool, torch.tensor([0, 1]), pool[:, :1].contiguous())
