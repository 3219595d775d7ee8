"""Paged decode in the interpreter beside its twin."""

from __future__ import annotations

import pytest
import torch

from kernels.kv_blocks import KVBlocks
from kernels.paged_decode import paged_decode, paged_decode_torch
from tests.kernels.interpreter import interpreted
from tests.kernels.pairs import named, pairwise
from tests.kernels.pools import assert_near, filled

CASES = pairwise(
    {
        "group": [1, 3, 4, 7, 8, 71],
        "head_dim": [64, 80, 96, 128, 256],
        "block_size": [1, 16, 32, 64],
        "length": ["0", "1", "edge − 1", "edge", "edge + 1", "two tiles"],
        "form": ["native", "int8", "fp8_e4m3", "int4"],
        "dtype": ["float32", "float16", "bfloat16"],
        "window": [None, 1, 20],
    }
)


def length_of(name: str, block_size: int) -> int:
    edge = 2 * block_size
    return {"0": 0, "1": 1, "edge − 1": edge - 1, "edge": edge, "edge + 1": edge + 1,
            "two tiles": 67}[name]  # fmt: skip


def check_decode(case: dict, device: str = "cpu") -> None:
    dtype = getattr(torch, case["dtype"])
    n_kv, d = (1 if case["group"] == 71 else 2), case["head_dim"]
    lengths = [length_of(case["length"], case["block_size"]), 5]
    blocks, table = filled(lengths, case["form"], dtype, n_kv, case["block_size"], d, device=device)
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(2, n_kv * case["group"], d, generator=generator).to(dtype).to(device)
    seq_lens = torch.tensor(lengths, dtype=torch.int32, device=device)
    arguments = (query, blocks, table, seq_lens, d**-0.5, case["window"])
    ours = paged_decode(*arguments, keys_per_split=64, backend="triton")
    assert_near(ours, paged_decode_torch(*arguments))
    if lengths[0] == 0:
        assert not ours[0].any()


@pytest.mark.parametrize("case", CASES, ids=named)
@interpreted
def test_decode_is_its_twin(case):
    check_decode(case)


@interpreted
def test_splits_do_not_change_the_result_and_neighbours_not_a_bit_of_it():
    """400 keys in one split and in seven; alone and beside others."""
    lengths = [400, 130, 0, 1]
    blocks, table = filled(lengths, "native", torch.float32, 1, 16, 64)
    query = torch.randn(4, 3, 64, generator=torch.Generator().manual_seed(1))
    seq_lens = torch.tensor(lengths)
    whole = paged_decode(query, blocks, table, seq_lens, 0.2, keys_per_split=512, backend="triton")
    split = paged_decode(query, blocks, table, seq_lens, 0.2, keys_per_split=64, backend="triton")
    assert_near(split, whole)
    alone = paged_decode(
        query[:1], blocks, table[:1], seq_lens[:1], 0.2, keys_per_split=64, backend="triton"
    )
    assert torch.equal(alone, split[:1])


@interpreted
def test_a_table_that_begins_at_the_window_gives_the_same():
    """Blocks before the window are given back: their entries are −1, or cut off."""
    blocks, table = filled([50], "native", torch.float32, 2, 4, 64)
    query = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(1))
    expected = paged_decode_torch(query, blocks, table, torch.tensor([50]), 0.2, 10)
    given_back = table.clone()
    given_back[:, :10] = -1
    ours = paged_decode(query, blocks, given_back, torch.tensor([50]), 0.2, 10, backend="triton")
    assert_near(ours, expected)
    cut = table[:, 10:].contiguous()
    ours = paged_decode(query, blocks, cut, torch.tensor([10]), 0.2, 10, backend="triton")
    assert_near(ours, expected)


@interpreted
def test_a_slot_beyond_two_to_the_31_is_read_where_it_lies():
    """Slot · head_dim passes int32: 2³¹ + bytes of int8 pool, of which two blocks are touched."""
    num_blocks, block_size, d = (1 << 31) // (64 * 256) + 2, 64, 256
    pool = torch.empty(num_blocks, 1, block_size, d, dtype=torch.int8)
    scale = torch.full((1, 1, 1), 0.02).expand(num_blocks, 1, block_size)
    pool[0], pool[-1] = 1, torch.randint(-127, 128, (1, block_size, d), dtype=torch.int8)
    blocks = KVBlocks(pool, pool, scale, scale)
    query = torch.randn(1, 2, d)
    arguments = (query, blocks, torch.tensor([[num_blocks - 1]]), torch.tensor([3]), d**-0.5)
    assert_near(paged_decode(*arguments, backend="triton"), paged_decode_torch(*arguments))


@interpreted
def test_key_and_value_have_formats_and_scales_of_their_own():
    """int8 keys, one scale a head; fp8 values, one scale in all."""
    lengths = [33]
    keys, table = filled(lengths, "int8", torch.float32, 2, 16, 64)
    values, _ = filled(lengths, "fp8_e4m3", torch.float32, 2, 16, 64)
    shape = keys.key.shape[:3]
    per_head = torch.tensor([0.01, 0.03])[None, :, None].expand(shape)
    blocks = KVBlocks(keys.key, values.value, per_head, torch.tensor(0.05).expand(shape))
    query = torch.randn(1, 4, 64, generator=torch.Generator().manual_seed(1))
    arguments = (query, blocks, table, torch.tensor(lengths), 0.1)
    assert_near(paged_decode(*arguments, backend="triton"), paged_decode_torch(*arguments))


def test_the_twin_is_torchs_own_attention():
    """The reference of all the others, beside an implementation that is not ours."""
    blocks, table = filled([37], "native", torch.float32, 2, 16, 64)
    query = torch.randn(1, 6, 64, generator=torch.Generator().manual_seed(1))
    key, value = (side[:37].transpose(0, 1)[None] for side in blocks.read(table[0, :3].long()))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query[:, :, None], key, value, scale=0.3, enable_gqa=True
    )
    ours = paged_decode(query, blocks, table, torch.tensor([37]), 0.3)
    torch.testing.assert_close(ours, expected[:, :, 0], rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_is_refused():
    blocks, table = filled([5], "native", torch.float32, 2, 16, 64)
    with pytest.raises(ValueError, match="do not fit 2 KV heads of 64"):
        paged_decode(torch.zeros(1, 3, 64), blocks, table, torch.tensor([5]), 1.0)
    with pytest.raises(ValueError, match="a block table and a length each"):
        paged_decode(torch.zeros(2, 2, 64), blocks, table, torch.tensor([5]), 1.0)
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
        paged_decode(torch.zeros(1, 2, 64), blocks, table, torch.tensor([5]), 1.0, backend="triton")
