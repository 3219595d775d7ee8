"""RMSNorm, and RoPE with the store of K and V, beside their twins and beside other hands' code."""

from __future__ import annotations

import pytest
import torch

from kernels.kv_blocks import KVBlocks
from kernels.rms_norm import rms_norm, rms_norm_torch
from kernels.rotate_and_store import rotate_and_store, rotate_and_store_torch
from kernels.store_kv import store_kv_torch
from tests.kernels.interpreter import interpreted
from tests.kernels.pairs import named, pairwise
from tests.kernels.pools import assert_near, empty_blocks
from tests.kernels.test_store_kv import same_blocks

NORMS = pairwise({"width": [1, 64, 576, 1000], "dtype": ["float32", "float16", "bfloat16"],
                  "added": [None, "float32", "bfloat16"]})  # fmt: skip
TURNS = pairwise(
    {
        "heads": [(1, 1), (9, 3), (8, 1), (71, 1), (4, 4)],
        "head_dim": [64, 80, 96, 128, 256],
        "block_size": [1, 16],
        "form": ["native", "int8", "fp8_e4m3", "int4"],
        "dtype": ["float32", "float16", "bfloat16"],
        "norm": [False, True],
    }
)


def check_norm(case: dict, device: str = "cpu") -> None:
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    x, weight = numbers(3, case["width"]), numbers(case["width"])
    weight = weight.to(getattr(torch, case["dtype"]))
    added = case["added"] and numbers(3, case["width"]).to(getattr(torch, case["added"]))
    ours, twin = x.clone(), x.clone()
    assert_near(
        rms_norm(ours, weight, 1e-5, added, backend="triton"),
        rms_norm_torch(twin, weight, 1e-5, added),
    )
    assert torch.equal(ours, twin)
    assert torch.equal(ours, x) == (added is None)


def check_turn(case: dict, device: str = "cpu") -> None:
    (n_q, n_kv), d = case["heads"], case["head_dim"]
    dtype = getattr(torch, case["dtype"])
    generator = torch.Generator().manual_seed(1)
    qkv = torch.randn(3, n_q + 2 * n_kv, d, generator=generator).to(dtype).to(device)
    angles = (10 * torch.randn(3, d // 2, generator=generator)).to(device)
    weight = torch.randn(n_q + n_kv, d, generator=generator).to(device) if case["norm"] else None
    slots = torch.tensor([2 * case["block_size"] - 1, -1, 0], device=device)
    ours, twin = (
        empty_blocks(case["form"], dtype, 2, n_kv, case["block_size"], d, device) for _ in range(2)
    )
    mine, other = qkv.clone(), qkv.clone()
    rest = (slots, weight, 1e-6)
    rotate_and_store(mine, angles.cos(), angles.sin(), ours, *rest, backend="triton")
    rotate_and_store_torch(other, angles.cos(), angles.sin(), twin, *rest)
    assert_near(mine, other)
    assert torch.equal(mine[:, -n_kv:], qkv[:, -n_kv:])
    if case["form"] != "native":
        # A number beside the middle of two codes may fall to either: ours are those of our own qkv.
        store_kv_torch(mine[:, -2 * n_kv : -n_kv], mine[:, -n_kv:], twin, slots)
        return same_blocks(ours, twin)
    written = [2 * case["block_size"] - 1, 0]
    for row, slot in zip((0, 2), written, strict=True):
        block, token = divmod(slot, case["block_size"])
        assert torch.equal(ours.key[block, :, token], mine[row, -2 * n_kv : -n_kv])
        assert torch.equal(ours.value[block, :, token], mine[row, -n_kv:])
    kept = torch.ones(2, case["block_size"], dtype=torch.bool)
    kept.view(-1)[written] = False
    assert ours.key.transpose(1, 2)[kept.to(device)].isnan().all()
    return None


@pytest.mark.parametrize("case", NORMS, ids=named)
@interpreted
def test_norm_is_its_twin(case):
    check_norm(case)


@pytest.mark.parametrize("case", TURNS, ids=named)
@interpreted
def test_rotation_is_its_twin(case):
    check_turn(case)


def test_the_twin_of_the_norm_is_torchs_own():
    x, weight = torch.randn(3, 64), torch.randn(64)
    ours = rms_norm(x.clone(), weight, 1e-5)
    assert_near(ours, torch.nn.functional.rms_norm(x, (64,), weight, 1e-5))


def test_the_twin_of_the_rotation_turns_pairs_as_complex_numbers():
    qkv, angles = torch.randn(2, 4, 8), torch.randn(2, 4)
    blocks = empty_blocks("native", torch.float32, 1, 1, 2, 8)
    turned = qkv.clone()
    rotate_and_store(turned, angles.cos(), angles.sin(), blocks, torch.tensor([0, 1]))
    pairs = torch.complex(qkv[:, :3, :4], qkv[:, :3, 4:]) * torch.exp(1j * angles)[:, None]
    assert_near(turned[:, :3], torch.cat((pairs.real, pairs.imag), -1))
    assert torch.equal(blocks.key[0, 0], turned[:, 2])
    assert torch.equal(blocks.value[0, 0], qkv[:, 3])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="expected float32"):
        rms_norm(torch.zeros(2, 4), torch.zeros(5), 0.0)
    with pytest.raises(ValueError, match="cannot be added"):
        rms_norm(torch.zeros(2, 4), torch.zeros(4), 0.0, torch.zeros(1, 4))
    blocks = KVBlocks(torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 2, 8))
    angles, slots = torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="does not fit 1 KV heads of 8"):
        rotate_and_store(torch.zeros(2, 2, 8), angles, angles, blocks, slots)
    with pytest.raises(ValueError, match="2 rows of 4 angles"):
        rotate_and_store(torch.zeros(2, 3, 8), angles[:1], angles, blocks, slots)
