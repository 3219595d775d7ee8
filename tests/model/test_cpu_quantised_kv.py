"""int8, fp8 and int4 blocks by the compiled kernels: what is stored, and attention over it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_cpu_kernels import few, kernels, randn  # noqa: F401 (a fixture: skips where there are none)

from kernels.cpu import CpuKernels
from kernels.kv_blocks import KVBlocks, decode
from kernels.store_kv import store_kv_torch
from tests.kernels.pools import DTYPES, empty_blocks
from tests.kernels.test_float64 import FORMS, N_KV, SCALES, Stored, check, compare, store

QUANTISED = FORMS[1:]


def attend(
    kernels: CpuKernels,  # noqa: F811
    query: torch.Tensor,
    kv: Stored,
    views: list[tuple[int, int]],
) -> torch.Tensor:
    """query [B, n_q, d] bfloat16; views: the first key in view and one after the last, of each
    sequence. The tables given begin at the blocks of the first keys. Returns [B, n_q, d]."""
    size = kv.blocks.block_size
    skipped = [begin // size for begin, _ in views]
    width = max(-(-end // size) - first for (_, end), first in zip(views, skipped, strict=True))
    table = torch.full((len(views), max(1, width)), 1 << 40)
    for i, ((_, end), first) in enumerate(zip(views, skipped, strict=True)):
        own = kv.table[i, first : -(-end // size)]
        table[i, : len(own)] = own
    begins = torch.tensor([begin % size for begin, _ in views])
    ends = torch.tensor(
        [end - first * size for (_, end), first in zip(views, skipped, strict=True)]
    )
    b, n_q, d = query.shape
    rows = torch.arange(b).flip(0).contiguous()
    qkv = torch.zeros(b + 1, n_q + 2 * N_KV, d, dtype=torch.bfloat16)
    qkv[rows, :n_q] = query
    out = torch.full((b + 1, n_q, d), 7.0).bfloat16()
    kernels.paged_decode_quantised(
        qkv, kv.blocks, rows, table, begins, ends, d**-0.5, int((ends - begins).max()), out
    )
    assert out[b].eq(7).all()
    return out[rows]


@few
@given(
    form=st.sampled_from(QUANTISED),
    scales=st.sampled_from(SCALES),
    group=st.sampled_from([1, 3, 8, 9]),
    d=st.sampled_from([32, 64, 128]),
    block_size=st.sampled_from([1, 4, 16, 64]),
    lengths=st.lists(st.integers(0, 600), min_size=1, max_size=4).filter(any),
    window=st.none() | st.integers(1, 300),
    seed=st.integers(0, 100),
)
def test_decode_is_near_float64(
    kernels,  # noqa: F811
    form,
    scales,
    group,
    d,
    block_size,
    lengths,
    window,
    seed,
):
    """A sequence without keys gives 0."""
    case = {"form": form, "scales": scales, "group": group, "head_dim": d, "dtype": "bfloat16",
            "block_size": block_size}  # fmt: skip
    kv = store(case, lengths, "torch", "cpu", seed)
    query = randn(len(lengths), N_KV * group, d, seed=seed).bfloat16()
    views = [(0 if window is None else max(0, n - window), n) for n in lengths]
    out = attend(kernels, query, kv, views)
    seen = [(i, *view) for i, view in enumerate(views)]
    check(compare(out, query, kv, seen, case, "torch"))


@pytest.mark.parametrize("form", QUANTISED)
def test_every_code_is_read_as_torch_reads_it(kernels, form):  # noqa: F811
    """One key in view: its value is the result, and bfloat16 holds every code."""
    d = 32
    byte = torch.arange(256, dtype=torch.uint8)
    if form == "fp8_e4m3":
        byte[127], byte[255] = 0, 0  # not numbers
    width = d // 2 if form == "int4" else d
    stored = byte.view(-1, 1, 1, width).view(DTYPES[form])
    blocks = len(stored)
    one = torch.ones(()).expand(blocks, 1, 1)
    numbers = decode(stored, one)[:, 0, 0]
    qkv = torch.zeros(blocks, 3, d).bfloat16()
    out = torch.empty(blocks, 1, d).bfloat16()
    rows, table = torch.arange(blocks), torch.arange(blocks)[:, None].contiguous()
    begins, ends = torch.zeros(2, blocks, dtype=torch.int64)
    kernels.paged_decode_quantised(
        qkv, KVBlocks(stored, stored, one, one), rows, table, begins, ends + 1, 1.0, 1, out
    )
    assert torch.equal(out[:, 0].float(), numbers)


def test_a_sequence_s_attention_does_not_depend_on_its_company(kernels):  # noqa: F811
    case = {"form": "int8", "scales": "per_token_head", "group": 3, "head_dim": 64,
            "dtype": "bfloat16", "block_size": 16}  # fmt: skip
    lengths = [1, 257, 512, 799]
    kv = store(case, lengths, "torch", "cpu")
    query = randn(4, 3 * N_KV, 64).bfloat16()
    together = attend(kernels, query, kv, [(0, n) for n in lengths])
    for i, length in enumerate(lengths):
        own = Stored(kv.blocks, kv.table[i : i + 1], [length], kv.key, kv.value, kv.scales)
        alone = attend(kernels, query[i : i + 1], own, [(0, length)])
        assert torch.equal(alone[0], together[i])


@pytest.mark.parametrize("norm", [False, True])
def test_rotate_is_rotate_and_store_without_a_slot(kernels, norm):  # noqa: F811
    n_q, n_kv, d, t = 6, 2, 64, 20
    qkv, angles = randn(t, n_q + 2 * n_kv, d).bfloat16(), randn(t, d // 2, seed=1)
    weight = randn(n_q + n_kv, d, seed=2) if norm else None
    expected, pool = qkv.clone(), torch.zeros(2, 1, n_kv, 4, d).bfloat16()
    slots = torch.full((t,), -1)
    kernels.rotate_and_store(expected, angles.cos(), angles.sin(), slots, pool, weight, 1e-6)
    kernels.rotate(qkv, angles.cos(), angles.sin(), n_kv, weight, 1e-6)
    assert torch.equal(qkv, expected)
    assert not pool.any()


def test_what_does_not_fit_is_refused(kernels):  # noqa: F811
    def blocks(dtype: torch.dtype, d: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(2, 1, 4, d).to(dtype), torch.ones(()).expand(2, 1, 4)

    (int8, scale), (fp8, _) = blocks(torch.int8), blocks(torch.float8_e4m3fn)
    native, _ = blocks(torch.bfloat16)
    odd, odd_scale = blocks(torch.int8, 16)
    spread = torch.zeros(2, 4, 2, 32, dtype=torch.int8).transpose(1, 2)
    of_two = torch.ones(()).expand(2, 2, 4)
    one = torch.zeros(1, dtype=torch.int64)
    for wrong, message in (
        (KVBlocks(int8, fp8, scale, scale), "K and V alike"),
        (KVBlocks(native, native), "codes with scales"),
        (KVBlocks(odd, odd, odd_scale, odd_scale), "multiple of 32"),
        (KVBlocks(spread, spread, of_two, of_two), "expected contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            kernels.paged_decode_quantised(
                torch.zeros(1, 3, 32).bfloat16(), wrong, one, one[None], one, one + 1, 1.0, 1,
                torch.zeros(1, 1, 32).bfloat16(),
            )  # fmt: skip
    with pytest.raises(ValueError, match="memory of their own"):
        kernels.store_quantised(
            torch.zeros(1, 3, 32).bfloat16(), KVBlocks(int8, int8, scale, scale), one, True
        )
    with pytest.raises(ValueError, match="multiple of 32"):
        kernels.rotate(torch.zeros(1, 3, 16).bfloat16(), torch.ones(1, 8), torch.ones(1, 8), 1)


def stored_twice(
    kernels: CpuKernels,  # noqa: F811
    qkv: torch.Tensor,
    slots: torch.Tensor,
    form: str,
    scale: torch.Tensor | None,
    block_size: int = 4,
) -> None:
    """By the kernel and by torch: the same bytes everywhere. scale: what all share, or None."""
    d, n_kv = qkv.shape[2], (qkv.shape[1] - 1) // 2
    both = []
    for _ in range(2):
        blocks = empty_blocks(form, torch.bfloat16, 40, n_kv, block_size, d)
        if scale is not None:
            shared = scale.expand(blocks.key.shape[:3])
            blocks = KVBlocks(blocks.key, blocks.value, shared, shared)
        both.append(blocks)
    ours, twin = both
    kernels.store_quantised(qkv, ours, slots, scale is None)
    store_kv_torch(qkv[:, 1 : 1 + n_kv], qkv[:, 1 + n_kv :], twin, slots, scale is None)
    for side in ("key", "value", "key_scale", "value_scale"):
        one, other = (getattr(blocks, side).contiguous() for blocks in both)
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), side


@pytest.mark.parametrize("scale", [None, torch.tensor(0.05), torch.tensor([[[0.1], [0.7]]])])
@pytest.mark.parametrize("t", [1, 33])
@pytest.mark.parametrize("form", QUANTISED)
def test_what_is_stored_is_what_torch_stores(kernels, form, t, scale):  # noqa: F811
    """Zeros, numbers too large for a fixed scale, an infinity, a token that goes nowhere."""
    qkv = (20 * randn(t, 5, 64)).bfloat16()
    qkv[0, 1], qkv[0, 4] = 0, 1000 * qkv[0, 4]
    qkv[-1, 2, 5] = float("inf")
    slots = torch.randperm(160, generator=torch.Generator().manual_seed(1))[:t]
    slots[t // 2 + 1 :: 7] = -1
    stored_twice(kernels, qkv, slots, form, scale)


@pytest.mark.parametrize("scale", [1.0, 0.37])
@pytest.mark.parametrize("form", QUANTISED)
def test_every_number_of_bfloat16_has_torchs_code(kernels, form, scale):  # noqa: F811
    """Infinities too: they are clamped."""
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(torch.bfloat16)
    numbers = numbers[~numbers.isnan()]
    numbers = torch.nn.functional.pad(numbers, (0, -len(numbers) % 1024)).view(-1, 1024)
    qkv = torch.stack((numbers, numbers, numbers), 1)
    stored_twice(kernels, qkv, torch.arange(len(qkv)), form, torch.tensor(scale))
