"""What goes wrong quietly in paged, quantised attention, and the tests of the kernels that hold it.

=======================================  ===========================================================
what goes wrong                          held by
=======================================  ===========================================================
K and V share a format or a scale        test_paged_decode: …formats_and_scales_of_their_own
a block is copied without its scales     here; test_blocks moves scales as it moves codes
a number beyond the largest code is NaN  here; test_store_kv: …what_is_too_large_is_clamped
a token of zeros is NaN (0 / 0)          here; test_store_kv stores one in every case
blocks before a window are still read    here; test_paged_decode: …table_that_begins_at_the_window
heads are cut as tensor parallelism cuts test_paged_decode and _prefill, one KV head in some cases;
                                         heads that do not divide: …does_not_fit_is_refused
slot −1 is written                       test_store_kv, test_norm_and_rotate, test_blocks (id −1)
a sequence of length 0 is NaN            test_paged_decode, test_paged_prefill, test_float64
slot · stride passes int32               here; test_paged_decode, test_store_kv, test_blocks
=======================================  ===========================================================
"""

from __future__ import annotations

import pytest
import torch

from kernels.copy_blocks import copy_blocks
from kernels.gather_blocks import gather_blocks
from kernels.kv_blocks import LARGEST, KVBlocks
from kernels.paged_decode import paged_decode, paged_decode_torch
from kernels.paged_prefill import paged_prefill, paged_prefill_torch
from kernels.rotate_and_store import rotate_and_store
from kernels.scatter_blocks import scatter_blocks
from kernels.store_kv import store_kv, store_kv_torch
from tests.kernels.interpreter import interpreted
from tests.kernels.pools import DTYPES, assert_near, empty_blocks, filled
from tests.kernels.test_store_kv import same_blocks

QUANTISED = ["int8", "fp8_e4m3", "int4"]
FAR = 1 << 30
"""Numbers from one block to the next: the third begins 2³¹ further on."""


def randn(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", QUANTISED)
@interpreted
def test_a_block_moved_with_its_scales_says_the_same_numbers_and_without_them_others(form):
    """Copied within the pool, and by way of memory outside."""
    pool = torch.zeros(2, 4, 2, 16, 32 if form == "int4" else 64, dtype=torch.uint8)
    pool = pool.view(DTYPES[form])
    scales = torch.ones(2, 4, 2, 16)
    blocks = KVBlocks(pool[0], pool[1], scales[0], scales[1])
    size = torch.arange(1, 17)[:, None, None]
    store_kv_torch(size * randn(16, 2, 64), randn(16, 2, 64, seed=2), blocks, torch.arange(16))
    source, copied, received = torch.tensor([0]), torch.tensor([1]), torch.tensor([3])
    expected = blocks.read(source)
    for moved in (pool, scales):
        assert not torch.equal(blocks.read(copied)[0], expected[0])
        copy_blocks(moved, source, copied, backend="triton")
        outside = gather_blocks(moved, source, backend="triton")
        scatter_blocks(moved, received, outside, backend="triton")
    for block in (copied, received):
        for ours, theirs in zip(blocks.read(block), expected, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("form", QUANTISED)
@interpreted
def test_infinities_zeros_and_the_smallest_numbers_are_stored_as_numbers(form, dynamic):
    """Also 10⁻⁴⁴, of which the largest code is no float32 any more."""
    new = randn(4, 1, 64)
    new[0, 0, 3], new[0, 0, 4] = float("inf"), float("-inf")
    new[1], new[2] = 0, 1e-44
    new[2, 0, ::2] = 0
    pair = []
    for store in (lambda *a: store_kv(*a, backend="triton"), store_kv_torch):
        blocks = empty_blocks(form, torch.float32, 1, 1, 4, 64)
        if not dynamic:
            scale = torch.tensor(0.5).expand(1, 1, 4)
            blocks = KVBlocks(blocks.key, blocks.value, scale, scale)
        store(new, new, blocks, torch.arange(4), dynamic)
        pair.append(blocks)
    same_blocks(*pair)
    stored, _ = pair[0].read(torch.tensor([0]))
    assert stored.isfinite().all()
    assert not stored[1].any()
    if not dynamic:
        assert stored[0, 0, 3] == 0.5 * LARGEST[form] == -stored[0, 0, 4]
    query = randn(1, 1, 64)
    rest = (torch.tensor([[0]]), torch.tensor([4]), 0.125)
    assert paged_decode(query, pair[0], *rest, backend="triton").isfinite().all()
    assert paged_decode_torch(query, pair[0], *rest).isfinite().all()
    assert not store_and_read_zeros(form).any()


def store_and_read_zeros(form: str) -> torch.Tensor:
    blocks = empty_blocks(form, torch.float32, 1, 1, 4, 64)
    zeros = torch.zeros(4, 1, 64)
    store_kv(zeros, zeros, blocks, torch.arange(4), backend="triton")
    return paged_decode(randn(1, 1, 64), blocks, torch.tensor([[0]]), torch.tensor([4]), 0.125,
                        backend="triton")  # fmt: skip


@interpreted
def test_a_prompt_s_chunk_reads_no_block_before_its_window():
    """Those are given back: their entries name a block whose scales are NaN, or are −1."""
    blocks, table = filled([50], "int8", torch.float32, 2, 4, 64)
    query, starts, lens = randn(6, 4, 64), torch.tensor([0, 6]), torch.tensor([50])
    expected = paged_prefill_torch(query, blocks, table, starts, lens, 0.2, 10)
    [spare] = set(range(blocks.num_blocks)) - set(table[0].tolist())
    for entry in (spare, -1):
        given_back = table.clone()
        given_back[:, : (50 - 6 + 1 - 10) // 4] = entry
        for backend in ("triton", "torch"):
            ours = paged_prefill(query, blocks, given_back, starts, lens, 6, 0.2, 10, backend)
            assert_near(ours, expected)


def far_blocks(form: str) -> KVBlocks:
    """Three blocks of a head and four tokens, 2³⁰ numbers and scales from one to the next, in
    memory of which a few pages are touched."""
    d = 32 if form == "int4" else 64
    stored = DTYPES.get(form, torch.bfloat16)
    memory = torch.empty(2 * FAR + 1024, dtype=stored)
    key, value = (memory.as_strided((3, 1, 4, d), (FAR, 4 * d, d, 1), at) for at in (0, 4 * d))
    if form == "native":
        return KVBlocks(key, value)
    memory = torch.empty(2 * FAR + 8)
    scales = [memory.as_strided((3, 1, 4), (FAR, 4, 1), at) for at in (0, 4)]
    return KVBlocks(key, value, scales[0], scales[1])


@pytest.mark.parametrize("form", ["native", "int8", "int4"])
@interpreted
def test_codes_and_scales_beyond_two_to_the_31_are_where_they_are(form):
    """Rotated and stored in the third block, and read from there by decode and prefill."""
    near = empty_blocks(form, torch.bfloat16, 3, 1, 4, 64)
    far = far_blocks(form)
    for blocks in (far, near):
        qkv, angles = randn(4, 3, 64).bfloat16(), randn(4, 32, seed=2)
        slots = torch.arange(8, 12, dtype=torch.int32)
        rotate_and_store(qkv, angles.cos(), angles.sin(), blocks, slots, backend="triton")
    same_blocks(*(third(blocks) for blocks in (far, near)))
    query, table, lens = randn(1, 2, 64).bfloat16(), torch.tensor([[2]]).int(), torch.tensor([4])
    expected = paged_decode_torch(query, near, table, lens, 0.125)
    assert_near(paged_decode(query, far, table, lens, 0.125, backend="triton"), expected)
    starts = torch.tensor([0, 1])
    ours = paged_prefill(query, far, table, starts, lens, 1, 0.125, backend="triton")
    assert_near(ours, expected)


def third(blocks: KVBlocks) -> KVBlocks:
    scales = (blocks.key_scale, blocks.value_scale)
    return KVBlocks(blocks.key[2:], blocks.value[2:], *(s if s is None else s[2:] for s in scales))
