"""Decode and prefill against float64: over the numbers as stored, and as they were before.

The first says how exactly a kernel computes, the second what a format costs; README.md has both
tolerances. `float64.py` is the reference, and shares no code with what is tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise as neighbours

import numpy as np
import pytest
import torch

from kernels.kv_blocks import KVBlocks
from kernels.paged_decode import paged_decode
from kernels.paged_prefill import paged_prefill
from kernels.store_kv import store_kv
from tests.kernels import float64
from tests.kernels.interpreter import interpreted
from tests.kernels.pairs import named, pairwise
from tests.kernels.pools import empty_blocks

FORMS = ["native", "int8", "fp8_e4m3", "int4"]
SCALES = ["per_tensor", "per_head", "per_token_head"]
PARAMETERS = {
    "group": [1, 3],
    "head_dim": [64, 80],
    "block_size": [1, 16, 32],
    "form": FORMS,
    "scales": SCALES,
    "dtype": ["float32", "float16", "bfloat16"],
    "window": [None, 1, 20],
}
CASES = pairwise(PARAMETERS)
MOVED = [{"form": form, "scales": scales} for form in FORMS[1:] for scales in SCALES]
N_KV = 2


@dataclass(frozen=True, slots=True)
class Stored:
    """Sequences in blocks, and what was written. key, value: of each sequence, [L, n_kv, d]
    float64. scales: of key and value, [L, n_kv] for each sequence, by `float64`'s own reckoning."""

    blocks: KVBlocks
    table: torch.Tensor
    lengths: list[int]
    key: list[np.ndarray]
    value: list[np.ndarray]
    scales: tuple[list[np.ndarray], list[np.ndarray]]


def store(case: dict, lengths: list[int], backend: str, device: str, seed: int = 0) -> Stored:
    """Keys and values of uneven heads and tokens, written by `store_kv`; keys above, so that K's
    scales are not V's."""
    d, size, form = case["head_dim"], case["block_size"], case["form"]
    dtype = getattr(torch, case["dtype"])
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    token = 2 ** torch.randn(total, 1, 1, generator=generator).mul(0.5)
    head = torch.tensor([0.5, 1.5])[None, :, None]
    key, value = (
        (torch.randn(total, N_KV, d, generator=generator) * token * head * size_of).to(dtype)
        for size_of in (1.0, 0.3)
    )
    counts = [-(-length // size) for length in lengths]
    order = torch.randperm(sum(counts) + 1, generator=generator).tolist()
    blocks = empty_blocks(form, dtype, sum(counts) + 1, N_KV, size, d, device)
    table = torch.full((len(lengths), max(counts) + 1), 1 << 30, dtype=torch.int32)
    slots: list[int] = []
    for i, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        own = [order.pop() for _ in range(count)]
        table[i, :count] = torch.tensor(own, dtype=torch.int32)
        slots += [own[p // size] * size + p % size for p in range(length)]
    given = [scales_of(side.double().numpy(), case) for side in (key, value)]
    dynamic = case["scales"] == "per_token_head"
    if form != "native" and not dynamic:
        # One number under many indices, as the engine's fixed scales are.
        fixed = [
            torch.tensor(side[0], dtype=torch.float32, device=device)[None, :, None].expand(
                blocks.key.shape[:3]
            )
            for side in given
        ]
        blocks = KVBlocks(blocks.key, blocks.value, *fixed)
    store_kv(
        key.to(device), value.to(device), blocks, torch.tensor(slots, device=device), dynamic,
        backend,
    )  # fmt: skip
    ends = [0, *np.cumsum(lengths)]

    def split(x: np.ndarray) -> list[np.ndarray]:
        return [x[a:b] for a, b in neighbours(ends)]

    return Stored(
        blocks, table.to(device), lengths, split(key.double().numpy()),
        split(value.double().numpy()), (split(given[0]), split(given[1])),
    )  # fmt: skip


def scales_of(x: np.ndarray, case: dict) -> np.ndarray:
    """x [T, n_kv, d] → [T, n_kv]: what makes the largest number that shares a scale the largest
    code, as float32 holds it."""
    axes = {"per_tensor": (0, 1, 2), "per_head": (0, 2), "per_token_head": (2,)}[case["scales"]]
    top = np.abs(x).max(axes, keepdims=True) / float64.LARGEST.get(case["form"], 1)
    return np.broadcast_to(top, (*x.shape[:2], 1))[..., 0].astype(np.float32).astype(np.float64)


def queries(rows: int, case: dict, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (rows, N_KV * case["group"], case["head_dim"])
    return torch.randn(shape, generator=generator).to(getattr(torch, case["dtype"])).to(device)


def weights_dtype(case: dict, backend: str) -> torch.dtype:
    """The twins keep them in float32; a kernel rounds them for the tensor cores."""
    return torch.float32 if backend == "torch" else getattr(torch, case["dtype"])


@dataclass(frozen=True, slots=True)
class Reach:
    """Errors as shares of what is allowed: over the stored numbers, and over the original ones.
    spread: root mean square of errors over the original ones, over the deviation expected."""

    stored: float
    original: float
    spread: float


def share(result: np.ndarray, exact: np.ndarray, allowed: np.ndarray) -> float:
    """The largest error as a share of what is allowed; of nothing, if nothing is."""
    error = np.abs(result - exact)
    assert np.isfinite(error).all()
    return float(np.where(error == 0, 0, error / np.maximum(allowed, 1e-300)).max())


def compare(
    ours: torch.Tensor, query: torch.Tensor, kv: Stored, seen: list[tuple[int, int, int]],
    case: dict, backend: str,
) -> Reach:  # fmt: skip
    """seen: of each row of ours its sequence, first and last + 1 key; the latter 0: gives 0."""
    dtype, scale = getattr(torch, case["dtype"]), case["head_dim"] ** -0.5
    pools = [float64.numbers(kv.blocks.key, kv.blocks.key_scale),
             float64.numbers(kv.blocks.value, kv.blocks.value_scale)]  # fmt: skip
    tables = kv.table.cpu().numpy()
    result, q = ours.cpu().double().numpy(), query.cpu().double().numpy()
    reach, errors, expected = [0.0, 0.0], 0.0, 0.0
    for row, (i, first, last) in enumerate(seen):
        if last == 0:
            assert not result[row].any()
            continue
        stored = [float64.in_order(pool, tables[i], first, last) for pool in pools]
        exact = float64.attention(q[row], *stored, scale)
        truncates = backend == "triton" and query.device.type == "cpu"
        allowed = float64.arithmetic(exact, dtype, weights_dtype(case, backend), truncates)
        reach[0] = max(reach[0], share(result[row], exact.out, allowed))
        original = [kv.key[i][first:last], kv.value[i][first:last]]
        rounded = [
            float64.rounding(side, case["form"], scales[i][first:last])
            for side, scales in zip(original, kv.scales, strict=True)
        ]
        before = float64.attention(q[row], *original, scale)
        most, spread = float64.quantisation(
            before, q[row], *original, scale, (rounded[0][0], rounded[1][0]),
            (rounded[0][1], rounded[1][1]),
        )  # fmt: skip
        reach[1] = max(reach[1], share(result[row], before.out, allowed + most))
        errors += float(((result[row] - before.out) ** 2).sum())
        expected += float((spread**2).sum())
    return Reach(*reach, (errors / expected) ** 0.5 if expected else 0.0)


def decoded(
    case: dict, backend: str, device: str = "cpu", lengths: list[int] | None = None
) -> Reach:
    """Lengths 0, 1, edges of blocks, more than a split; the row of length 0 is a padded one."""
    edge = 2 * case["block_size"]
    lengths = lengths or [0, 1, edge - 1, edge, edge + 1, 70]
    kv = store(case, lengths, backend, device)
    query = queries(len(lengths), case, device)
    ours = paged_decode(
        query, kv.blocks, kv.table, torch.tensor(lengths, device=device), case["head_dim"] ** -0.5,
        case["window"], 64, backend,
    )  # fmt: skip
    window = case["window"] or 1 << 30
    seen = [(i, max(0, length - window), length) for i, length in enumerate(lengths)]
    return compare(ours, query, kv, seen, case, backend)


def prefilled(case: dict, backend: str, device: str = "cpu") -> Reach:
    """A whole prompt, a suffix that begins inside a block, an empty sequence, one token at an edge;
    a padded row at the end."""
    edge = 2 * case["block_size"]
    lengths, counts = [19, edge + 5, 0, edge], [19, 4, 0, 1]
    kv = store(case, lengths, backend, device)
    starts = np.cumsum([0, *counts])
    query = queries(int(starts[-1]) + 1, case, device)
    ours = paged_prefill(
        query, kv.blocks, kv.table, torch.tensor(starts, device=device),
        torch.tensor(lengths, device=device), max(counts), case["head_dim"] ** -0.5,
        case["window"], backend,
    )  # fmt: skip
    window = case["window"] or 1 << 30
    seen = []
    for i, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        for last in range(length - count + 1, length + 1):
            seen.append((i, max(0, last - window), last))
    return compare(ours, query, kv, [*seen, (0, 0, 0)], case, backend)


def check(reach: Reach) -> None:
    assert reach.stored <= 1, reach
    assert reach.original <= 1, reach


@pytest.mark.parametrize("case", CASES, ids=named)
@interpreted
def test_decode(case):
    check(decoded(case, "triton"))


@pytest.mark.parametrize("case", CASES, ids=named)
@interpreted
def test_prefill(case):
    check(prefilled(case, "triton"))


@pytest.mark.parametrize("attend", [decoded, prefilled])
@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_twins(case, attend):
    check(attend(case, "torch"))


@pytest.mark.parametrize("case", MOVED, ids=named)
def test_a_format_costs_what_its_steps_say(case):
    """Not less either: where nothing is rounded, nothing is saved. In float32, so that other
    roundings are small beside it, and over many keys, so that chance is."""
    rest = {"group": 3, "head_dim": 64, "block_size": 16, "dtype": "float32", "window": None}
    assert 0.7 < decoded(case | rest, "torch", lengths=[150, 250, 200, 300]).spread < 1.4


FAULTS = {
    "a scale of its neighbour's": ("numbers", lambda codes, scale: (codes, scale.roll(1, 2))),
    "a key left out": ("in_order", lambda pool, table, first, last: (pool, table, first + 1, last)),
    "another head's scale": ("numbers", lambda codes, scale: (codes, scale.flip(1))),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS[1:])
def test_the_tolerance_is_passed_by_what_is_wrong(fault, form, monkeypatch):
    """In bfloat16, where it is widest; the reference is given the fault."""
    name, wrong = FAULTS[fault]
    right = getattr(float64, name)
    monkeypatch.setattr(float64, name, lambda *arguments: right(*wrong(*arguments)))
    case = {"group": 3, "head_dim": 64, "block_size": 4, "form": form, "window": None,
            "scales": "per_token_head", "dtype": "bfloat16"}  # fmt: skip
    assert decoded(case, "torch", lengths=[8, 12]).stored > 2


def test_the_reference_is_torchs_own_attention():
    generator = torch.Generator().manual_seed(1)
    query, key, value = (
        torch.randn(n, heads, 64, generator=generator).double()
        for n, heads in ((1, 6), (37, 2), (37, 2))
    )
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1)[None] for x in (query, key, value)), scale=0.3, enable_gqa=True
    )
    ours = float64.attention(query[0].numpy(), key.numpy(), value.numpy(), 0.3)
    np.testing.assert_allclose(ours.out, expected[0, :, 0].numpy(), rtol=1e-9)


def test_the_reference_reads_every_code_as_torch_does():
    byte = torch.arange(256, dtype=torch.uint8)
    expected = byte.view(torch.float8_e4m3fn).double().numpy()
    np.testing.assert_array_equal(float64.e4m3(byte.numpy()), expected)
