"""Storing keys and values, and the formats in which they are stored."""

from __future__ import annotations

import pytest
import torch

from kernels.kv_blocks import KVBlocks, decode, dynamic_scale, encode
from kernels.store_kv import store_kv, store_kv_torch
from tests.kernels.interpreter import interpreted
from tests.kernels.pairs import named, pairwise
from tests.kernels.pools import empty_blocks

CASES = pairwise(
    {
        "n_kv": [1, 3, 8, 71],
        "head_dim": [64, 80, 96, 128, 256],
        "block_size": [1, 16, 32, 64],
        "form": ["native", "int8", "fp8_e4m3", "int4"],
        "dtype": ["float32", "float16", "bfloat16"],
    }
)


def same_bytes(ours: torch.Tensor, twin: torch.Tensor) -> None:
    assert torch.equal(ours.contiguous().view(torch.uint8), twin.contiguous().view(torch.uint8))


def same_blocks(ours: KVBlocks, twin: KVBlocks) -> None:
    same_bytes(ours.key, twin.key)
    same_bytes(ours.value, twin.value)
    if ours.key_scale is not None:
        same_bytes(ours.key_scale, twin.key_scale)
        same_bytes(ours.value_scale, twin.value_scale)


def check_store(case: dict, device: str = "cpu") -> None:
    """Every byte is the twin's, those that are not written too. Rows of one qkv, as they come."""
    n_kv, d = case["n_kv"], case["head_dim"]
    dtype = getattr(torch, case["dtype"])
    generator = torch.Generator().manual_seed(1)
    qkv = (20 * torch.randn(4, 1 + 2 * n_kv, d, generator=generator)).to(dtype).to(device)
    key, value = qkv[:, 1 : 1 + n_kv], qkv[:, 1 + n_kv :]
    key[1, 0] = 0
    slots = torch.tensor([case["block_size"], -1, 0, 3 * case["block_size"] - 1], device=device)
    ours, twin = (
        empty_blocks(case["form"], dtype, 3, n_kv, case["block_size"], d, device) for _ in range(2)
    )
    store_kv(key, value, ours, slots, backend="triton")
    store_kv_torch(key, value, twin, slots)
    same_blocks(ours, twin)


@pytest.mark.parametrize("case", CASES, ids=named)
@interpreted
def test_store_is_its_twin(case):
    check_store(case)


@pytest.mark.parametrize("form", ["int8", "fp8_e4m3", "int4"])
@interpreted
def test_given_scales_are_used_and_what_is_too_large_is_clamped(form):
    """A scale a head for K, one in all for V; numbers up to 50 times what fits."""
    generator = torch.Generator().manual_seed(1)
    key, value = (1000 * torch.randn(3, 2, 64, generator=generator) for _ in "kv")
    slots = torch.tensor([0, 1, 2])

    def blocks() -> KVBlocks:
        new = empty_blocks(form, torch.float32, 1, 2, 4, 64)
        per_head = torch.tensor([0.1, 0.7])[None, :, None].expand(1, 2, 4)
        return KVBlocks(new.key, new.value, per_head, torch.tensor(0.05).expand(1, 2, 4))

    ours, twin = blocks(), blocks()
    store_kv(key, value, ours, slots, dynamic=False, backend="triton")
    store_kv_torch(key, value, twin, slots, dynamic=False)
    same_blocks(ours, twin)
    stored, _ = ours.read(torch.tensor([0]))
    assert stored[:3].isfinite().all()


@interpreted
def test_fp8_is_encoded_to_the_bit():
    """Every finite code, what lies halfway between two, and a little beside it."""
    codes = torch.arange(256, dtype=torch.uint8)
    exact = codes.view(torch.float8_e4m3fn).float()
    finite = exact[exact.isfinite()].unique()
    middle = (finite[1:] + finite[:-1]) / 2
    numbers = torch.cat([finite, middle, middle * (1 + 2**-20), middle * (1 - 2**-20),
                         torch.tensor([-0.0, 1e-30, -1e-42, 1e30])])  # fmt: skip
    numbers = torch.nn.functional.pad(numbers, (0, -len(numbers) % 64)).view(-1, 1, 64)
    slots = torch.arange(len(numbers))
    ours, twin = (empty_blocks("fp8_e4m3", torch.float32, len(slots), 1, 1, 64) for _ in range(2))
    one = torch.ones(()).expand(len(slots), 1, 1)
    ours, twin = (KVBlocks(b.key, b.value, one, one) for b in (ours, twin))
    store_kv(numbers, numbers, ours, slots, dynamic=False, backend="triton")
    store_kv_torch(numbers, numbers, twin, slots, dynamic=False)
    same_blocks(ours, twin)


@interpreted
def test_a_slot_beyond_two_to_the_31_is_written_where_it_lies():
    num_blocks, block_size, d = (1 << 31) // (64 * 256) + 2, 64, 256
    pool = torch.empty(num_blocks, 1, block_size, d, dtype=torch.int8)
    pool[0] = pool[-1] = 0
    scale = torch.full((1, 1, 1), 1.0).expand(num_blocks, 1, block_size)
    blocks = KVBlocks(pool, pool, scale, scale)
    new = torch.full((1, 1, d), 5.0)
    slot = torch.tensor([(num_blocks - 1) * block_size + 7])
    store_kv(new, new, blocks, slot, dynamic=False, backend="triton")
    assert (pool[-1, 0, 7] == 5).all()
    assert pool[-1].sum() == 5 * d and not pool[0].any()


def test_a_number_and_its_code_differ_by_half_a_step():
    x = torch.randn(50, 3, 64, generator=torch.Generator().manual_seed(1))
    for form, step in (("int8", 1.0), ("int4", 1.0), ("fp8_e4m3", 32.0)):  # at the largest code
        scale = dynamic_scale(x, form)
        error = (decode(encode(x, form, scale), scale) - x).abs().amax(-1)
        assert (error <= scale * step * 0.5001).all()
        assert (error > scale * step * 0.2).any()


def test_int4_puts_even_numbers_in_the_low_half():
    byte = encode(torch.tensor([[1.0, -2.0]]), "int4", torch.ones(1))
    assert byte.tolist() == [[9 | 6 << 4]]
    assert decode(byte, torch.ones(1)).tolist() == [[1, -2]]


def test_what_does_not_fit_is_refused():
    blocks = empty_blocks("int8", torch.float32, 1, 2, 4, 64)
    new, slots = torch.zeros(1, 2, 64), torch.tensor([0])
    with pytest.raises(ValueError, match="expected K and V"):
        store_kv(new[..., :32], new, blocks, slots)
    shared = KVBlocks(blocks.key, blocks.value, *(torch.ones(()).expand(1, 2, 4) for _ in "kv"))
    with pytest.raises(ValueError, match="memory of their own"):
        store_kv(new, new, shared, slots)
    with pytest.raises(ValueError, match="need scales"):
        KVBlocks(blocks.key, blocks.value)
    with pytest.raises(ValueError, match="scales must be float32"):
        KVBlocks(blocks.key, blocks.value, torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="head_dim 64, V has 32"):
        KVBlocks(torch.zeros(1, 2, 4, 64), torch.zeros(1, 2, 4, 32))
