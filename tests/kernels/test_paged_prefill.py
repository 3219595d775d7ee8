"""Paged prefill in the interpreter beside its twin."""

from __future__ import annotations

import pytest
import torch

from kernels.paged_decode import paged_decode_torch
from kernels.paged_prefill import paged_prefill, paged_prefill_torch
from tests.kernels.interpreter import interpreted
from tests.kernels.pairs import named, pairwise
from tests.kernels.pools import assert_near, filled

CASES = pairwise(
    {
        "group": [1, 3, 4, 7, 8, 71],
        "head_dim": [64, 80, 96, 128, 256],
        "block_size": [1, 16, 32, 64],
        "computed": ["0", "1", "edge − 1", "edge"],
        "queries": [1, 2, 17],
        "form": ["native", "int8", "fp8_e4m3", "int4"],
        "dtype": ["float32", "float16", "bfloat16"],
        "window": [None, 1, 20],
    }
)


def check_prefill(case: dict, device: str = "cpu") -> None:
    """A sequence with a prefix (computed before, or hit), an empty one, a new one; padding."""
    dtype = getattr(torch, case["dtype"])
    d, edge = case["head_dim"], 2 * case["block_size"]
    n_kv = 1 if case["group"] in (8, 71) else 2
    computed = {"0": 0, "1": 1, "edge − 1": edge - 1, "edge": edge}[case["computed"]]
    queries = [case["queries"], 0, 3 if case["group"] < 71 else 1]
    lengths = [computed + queries[0], 0, queries[2]]
    blocks, table = filled(lengths, case["form"], dtype, n_kv, case["block_size"], d, device=device)
    num_tokens = sum(queries) + 2
    starts = torch.tensor([0, queries[0], queries[0], sum(queries)], device=device)
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(num_tokens, n_kv * case["group"], d, generator=generator)
    query = query.to(dtype).to(device)
    seq_lens = torch.tensor(lengths, dtype=torch.int32, device=device)
    rest = (d**-0.5, case["window"])
    ours = paged_prefill(
        query, blocks, table, starts, seq_lens, max(queries), *rest, backend="triton"
    )
    assert_near(ours, paged_prefill_torch(query, blocks, table, starts, seq_lens, *rest))
    assert not ours[-2:].any()


@pytest.mark.parametrize("case", CASES, ids=named)
@interpreted
def test_prefill_is_its_twin(case):
    check_prefill(case)


@interpreted
def test_chunks_are_the_whole_prompt():
    """70 tokens at once, more than a tile of keys, and as 30, 1 and 39 with what came before."""
    blocks, table = filled([70], "native", torch.float32, 1, 16, 64)
    query = torch.randn(70, 2, 64, generator=torch.Generator().manual_seed(1))

    def attention(start: int, end: int) -> torch.Tensor:
        starts, lens = torch.tensor([0, end - start]), torch.tensor([end])
        return paged_prefill(
            query[start:end], blocks, table, starts, lens, end - start, 0.2, backend="triton"
        )

    whole = attention(0, 70)
    chunks = torch.cat([attention(0, 30), attention(30, 31), attention(31, 70)])
    assert_near(chunks, whole)
    twin = paged_prefill_torch(query, blocks, table, torch.tensor([0, 70]), torch.tensor([70]), 0.2)
    assert_near(whole, twin)


@interpreted
def test_a_padded_row_of_length_zero_gives_zero():
    blocks, table = filled([0, 4], "native", torch.float32, 1, 16, 64)
    query = torch.randn(2, 2, 64)
    starts, lens = torch.tensor([0, 1, 2]), torch.tensor([0, 4])
    ours = paged_prefill(query, blocks, table, starts, lens, 1, 0.2, backend="triton")
    assert not ours[0].any()
    assert ours[1].any()


def test_the_twin_of_one_query_is_the_twin_of_decode():
    blocks, table = filled([37, 5], "native", torch.float32, 2, 16, 64)
    query = torch.randn(2, 6, 64, generator=torch.Generator().manual_seed(1))
    lens = torch.tensor([37, 5])
    for window in (None, 10):
        ours = paged_prefill(query, blocks, table, torch.arange(3), lens, 1, 0.3, window)
        assert_near(ours, paged_decode_torch(query, blocks, table, lens, 0.3, window))


def test_the_twin_is_torchs_own_causal_attention():
    blocks, table = filled([37], "native", torch.float32, 2, 16, 64)
    query = torch.randn(37, 6, 64, generator=torch.Generator().manual_seed(1))
    key, value = (side[:37].transpose(0, 1)[None] for side in blocks.read(table[0, :3].long()))
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.transpose(0, 1)[None], key, value, scale=0.3, is_causal=True, enable_gqa=True
    )
    ours = paged_prefill(query, blocks, table, torch.tensor([0, 37]), torch.tensor([37]), 37, 0.3)
    assert_near(ours, expected[0].transpose(0, 1))


def test_what_does_not_fit_is_refused():
    blocks, table = filled([5], "native", torch.float32, 2, 16, 64)
    query, lens = torch.zeros(2, 2, 64), torch.tensor([5])
    with pytest.raises(ValueError, match="as many tables and 2 starts"):
        paged_prefill(query, blocks, table, torch.tensor([0]), lens, 2, 1.0)
    with pytest.raises(ValueError, match="do not fit 2 KV heads of 64"):
        paged_prefill(torch.zeros(2, 2, 32), blocks, table, torch.tensor([0, 2]), lens, 2, 1.0)
