"""Each compiled kernel against plain torch in float32, over the shapes that have edges."""

from __future__ import annotations

import ctypes
import os
import subprocess

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.model.cache import cache_dir
from core.model.int8 import quantize
from kernels.cpu import CpuKernels, build, cpu_kernels, pack, pack_int8, reason

BF16 = 2**-8  # relative rounding of bfloat16


@pytest.fixture(scope="module")
def kernels() -> CpuKernels:
    found = cpu_kernels(cache_dir())
    if found is None:
        why = reason(cache_dir())
        # Where a processor can run them, they must be tested: .ci/run installs the compiler.
        if "processor" in why or not os.environ.get("CI"):
            pytest.skip(why)
        pytest.fail(why)
    return found


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def near(ours: torch.Tensor, exact: torch.Tensor, tolerance: float) -> None:
    assert ours.shape == exact.shape
    assert (ours.float() - exact).abs().max() <= tolerance * exact.abs().max().clamp(min=1e-3)


shapes = given(
    rows=st.integers(1, 40),
    n_out=st.integers(1, 100),
    n_in=st.integers(1, 40).map(lambda n: 4 * n),
    with_bias=st.booleans(),
    seed=st.integers(0, 1000),
)
few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@few
@shapes
def test_products_are_those_of_float32(kernels, rows, n_out, n_in, with_bias, seed):
    weight, x = (
        randn(n_out, n_in, seed=seed).bfloat16(),
        randn(rows, n_in, seed=seed + 1).bfloat16(),
    )
    bias = randn(n_out, seed=seed + 2) if with_bias else None
    exact = torch.nn.functional.linear(x.float(), weight.float(), bias)
    packed = pack(weight, bias)
    near(kernels.linear_float32(x, packed), exact, 1e-5)
    near(kernels.linear(x, packed), exact, BF16)
    total = randn(rows, n_out, seed=seed + 3)
    summed = total + exact
    kernels.add_linear(total, x, packed)
    near(total, summed, 1e-5)


def rounded_to_int8(x: torch.Tensor) -> torch.Tensor:
    """x [T, n_in] as an int8 product sees it, in 127ths of each row's largest number."""
    largest = x.float().abs().amax(1, keepdim=True)
    # Divided, not multiplied by a reciprocal: at a tie the last bit decides.
    return (x.float() * torch.full_like(largest, 127).div(largest)).round() * (largest / 127)


@few
@shapes
def test_int8_products_are_those_of_the_rounded_numbers(
    kernels, rows, n_out, n_in, with_bias, seed
):
    """Exactly what the 8-bit numbers say: only the last multiplications round."""
    numbers, scale = quantize(randn(n_out, n_in, seed=seed))
    x = randn(rows, n_in, seed=seed + 1).bfloat16()
    bias = randn(n_out, seed=seed + 2) if with_bias else None
    exact = (rounded_to_int8(x).double() @ numbers.double().T) * scale
    exact = (exact if bias is None else exact + bias).float()
    near(kernels.linear_float32(x, pack_int8(numbers, scale, bias)), exact, 1e-5)


@few
@given(
    rows=st.integers(1, 30),
    width=st.integers(1, 70),
    n_in=st.integers(1, 20).map(lambda n: 4 * n),
    with_bias=st.booleans(),
    int8=st.booleans(),
)
def test_swiglu(kernels, rows, width, n_in, with_bias, int8):
    weight, x = 3 * randn(2 * width, n_in), randn(rows, n_in, seed=1).bfloat16()
    bias = randn(2 * width, seed=2) if with_bias else None
    read = x.float()
    if int8:
        numbers, scale = quantize(weight)
        packed, held = pack_int8(numbers, scale, bias, True), numbers * scale[:, None]
        read = rounded_to_int8(x)
    else:
        packed, held = pack(weight.bfloat16(), bias, True), weight.bfloat16().float()
    both = torch.nn.functional.linear(read, held, bias)
    gate, up = both.chunk(2, -1)
    near(kernels.swiglu(x, packed), torch.nn.functional.silu(gate) * up, 2 * BF16)


def test_large_gates_neither_overflow_nor_become_nan(kernels):
    packed = pack(torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]).bfloat16(), None, True)
    x = torch.tensor([[-500.0, 2, 0, 0], [500.0, 2, 0, 0], [0.0, 2, 0, 0]]).bfloat16()
    assert kernels.swiglu(x, packed).tolist() == [[0], [1000], [0]]


@pytest.mark.parametrize("int8", [False, True])
def test_a_row_s_sums_do_not_depend_on_its_company(kernels, int8):
    weight, x = randn(96, 64), randn(40, 64, seed=1).bfloat16()
    packed = pack_int8(*quantize(weight)) if int8 else pack(weight.bfloat16())
    alone = torch.cat([kernels.linear_float32(row[None], packed) for row in x])
    for rows in (2, 7, 12, 13, 25, 40):
        assert torch.equal(kernels.linear_float32(x[:rows].contiguous(), packed), alone[:rows])


def test_int8_keeps_zeros_and_outliers_apart(kernels):
    weight, x = randn(32, 64), randn(3, 64, seed=1).bfloat16()
    x[1], x[2] = 0, 1000 * x[0]
    packed = pack_int8(*quantize(weight))
    out = kernels.linear_float32(x, packed)
    assert out[1].eq(0).all()
    near(out[:1], x[:1].float() @ weight.T, 0.03)


@few
@given(rows=st.integers(1, 40), h=st.integers(1, 200), seed=st.integers(0, 100))
def test_rms_norm(kernels, rows, h, seed):
    x, weight = 5 * randn(rows, h, seed=seed), randn(h, seed=seed + 1)
    exact = torch.nn.functional.rms_norm(x, (h,), weight, 1e-5)
    near(kernels.rms_norm(x, weight, 1e-5), exact, BF16)


def _pool(num_blocks: int, n_kv: int, block_size: int, d: int) -> torch.Tensor:
    return randn(2, num_blocks, n_kv, block_size, d, seed=9).bfloat16()


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    ("t", "n_q", "n_kv", "d", "block_size"),
    [(1, 9, 3, 64, 16), (33, 4, 4, 32, 1), (5, 8, 1, 128, 7)],
)
def test_rotate_and_store(kernels, norm, t, n_q, n_kv, d, block_size):
    qkv = randn(t, n_q + 2 * n_kv, d).bfloat16()
    pool = _pool(40, n_kv, block_size, d)
    slots = torch.randperm(40 * block_size, generator=torch.Generator().manual_seed(1))[:t]
    slots[t // 2] = -1  # a padded token is computed, and stored nowhere
    angles = randn(t, d // 2, seed=2)
    weight = randn(n_q + n_kv, d, seed=3) if norm else None

    own = qkv[:, : n_q + n_kv].float()
    if weight is not None:
        own = torch.nn.functional.rms_norm(own, (d,), None, 1e-6) * weight
    first, second = own.chunk(2, -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    before, value = pool.clone(), qkv[:, n_q + n_kv :].clone()

    kernels.rotate_and_store(qkv, angles.cos(), angles.sin(), slots, pool, weight, 1e-6)
    near(qkv[:, : n_q + n_kv], turned, BF16)
    assert torch.equal(qkv[:, n_q + n_kv :], value)
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            stored = pool[:, slot // block_size, :, slot % block_size]
            assert torch.equal(stored[0], qkv[token, n_q : n_q + n_kv])
            assert torch.equal(stored[1], value[token])
            before[:, slot // block_size, :, slot % block_size] = stored
    assert torch.equal(pool, before)  # and nothing else was touched


@few
@given(
    n_kv=st.integers(1, 3),
    group=st.sampled_from([1, 3, 8, 9]),
    d=st.sampled_from([32, 64, 128]),
    block_size=st.sampled_from([1, 4, 16, 64]),
    lengths=st.lists(st.integers(1, 600), min_size=1, max_size=5),
    window=st.none() | st.integers(1, 300),
    seed=st.integers(0, 100),
)
def test_paged_decode(kernels, n_kv, group, d, block_size, lengths, window, seed):
    """Against a softmax over the keys in view, laid end to end."""
    views = [(0 if window is None else max(0, n - window), n) for n in lengths]
    first = [begin // block_size for begin, _ in views]
    begins = [begin - block * block_size for (begin, _), block in zip(views, first, strict=True)]
    ends = [n - block * block_size for n, block in zip(lengths, first, strict=True)]
    width = max(-(-end // block_size) for end in ends)
    pool = _pool(width * len(lengths) + 2, n_kv, block_size, d)
    order = torch.randperm(len(pool[0]), generator=torch.Generator().manual_seed(seed))
    table = order[: width * len(lengths)].view(len(lengths), width).contiguous()
    t, n_q = len(lengths) + 2, n_kv * group
    rows = torch.randperm(t, generator=torch.Generator().manual_seed(seed))[: len(lengths)]
    qkv = (2 * randn(t, n_q + 2 * n_kv, d, seed=seed)).bfloat16()
    out = torch.full((t, n_q, d), 7.0).bfloat16()
    kernels.paged_decode(
        qkv,
        pool,
        rows,
        table,
        torch.tensor(begins),
        torch.tensor(ends),
        d**-0.5,
        width * block_size,
        out,
    )
    for i, row in enumerate(rows.tolist()):
        keys, values = pool[:, table[i]].float().transpose(1, 2).flatten(2, 3)  # [n_kv, L, d]
        seen = slice(begins[i], ends[i])
        query = qkv[row, :n_q].float().view(n_kv, group, d)
        weights = (query @ keys[:, seen].transpose(1, 2) * d**-0.5).softmax(-1)
        near(out[row], (weights @ values[:, seen]).flatten(0, 1), 2 * BF16)
    others = [row for row in range(t) if row not in rows.tolist()]
    assert out[others].eq(7).all()


def test_a_sequence_s_attention_does_not_depend_on_its_company(kernels):
    pool, d = _pool(200, 2, 16, 64), 64
    qkv = randn(4, 8, d).bfloat16()
    table = torch.arange(200).view(4, 50)
    ends = torch.tensor([1, 257, 512, 799])
    arguments = (torch.zeros(4, dtype=torch.int64), ends, 0.125, 800)
    together = torch.empty(4, 4, d).bfloat16()
    kernels.paged_decode(qkv, pool, torch.arange(4), table, *arguments, together)
    for i in range(4):
        alone = torch.empty(4, 4, d).bfloat16()
        one = slice(i, i + 1)
        kernels.paged_decode(
            qkv,
            pool,
            torch.tensor([i]),
            table[one].contiguous(),
            torch.zeros(1, dtype=torch.int64),
            ends[one],
            0.125,
            int(ends[i]),
            alone,
        )
        assert torch.equal(alone[i], together[i])


def test_what_does_not_fit_is_refused(kernels):
    packed = pack(randn(32, 64).bfloat16())
    x = randn(2, 64).bfloat16()
    wrong = [x.float(), x[:, :32].contiguous(), randn(64, 2).bfloat16().T]
    for operand in wrong:
        with pytest.raises(ValueError, match="expected contiguous"):
            kernels.linear(operand, packed)
    with pytest.raises(ValueError, match="expected contiguous"):
        kernels.add_linear(torch.zeros(3, 32), x, packed)
    with pytest.raises(ValueError, match="gated"):
        kernels.swiglu(x, packed)
    with pytest.raises(ValueError, match="gated"):
        kernels.linear(x, pack(randn(32, 64).bfloat16(), None, True))
    with pytest.raises(ValueError, match="multiple of 32"):
        kernels.rotate_and_store(
            randn(1, 3, 16).bfloat16(),
            torch.ones(1, 8),
            torch.ones(1, 8),
            torch.zeros(1, dtype=torch.int64),
            _pool(1, 1, 4, 16),
        )
    for bad in (randn(4, 3).bfloat16(), randn(4, 4)):
        with pytest.raises(ValueError):
            pack(bad)
    with pytest.raises(ValueError, match="multiple of 4"):
        pack_int8(torch.ones(4, 6, dtype=torch.int8), torch.ones(4))
    with pytest.raises(ValueError, match="as many rows"):
        pack(randn(5, 4).bfloat16(), None, True)


@pytest.fixture
def unbuilt():
    """`build` with nothing remembered, before and after."""

    def forget():
        for remembered in (build.load, build.reason, build._loaded):
            remembered.cache_clear()

    forget()
    yield build
    forget()


def test_switched_off(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setenv("KV_SCOPE_NATIVE", "0")
    assert cpu_kernels(tmp_path) is None
    assert reason(tmp_path) == "KV_SCOPE_NATIVE=0"


def test_an_old_processor(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_processor_has", lambda names: False)
    assert cpu_kernels(tmp_path) is None
    assert "processor" in reason(tmp_path)


def test_no_compiler(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_processor_has", lambda names: True)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cpu_kernels(tmp_path) is None
    assert "no C++ compiler" in reason(tmp_path)


def test_a_compiler_that_fails(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_processor_has", lambda names: True)
    monkeypatch.setenv("CXX", "false")
    assert cpu_kernels(tmp_path) is None
    assert "the compiler failed" in reason(tmp_path)
    assert not list((tmp_path / "kernels").iterdir())


def test_a_compiler_that_hangs(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_processor_has", lambda names: True)
    monkeypatch.setattr(build, "_TIMEOUT_S", 0.2)
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    assert cpu_kernels(tmp_path) is None
    assert "longer than" in reason(tmp_path)


def test_a_cache_that_cannot_be_written(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_processor_has", lambda names: True)
    (tmp_path / "kernels").write_text("a file where a directory should be")
    assert cpu_kernels(tmp_path) is None
    assert "cannot build or load" in reason(tmp_path)


def test_built_once_and_again_when_broken(unbuilt, kernels, tmp_path, monkeypatch):
    assert cpu_kernels(tmp_path) is not None
    [library] = (tmp_path / "kernels").iterdir()
    for remembered in (build.load, build.reason, build._loaded):
        remembered.cache_clear()
    monkeypatch.setattr(subprocess, "run", None)  # nothing is compiled a second time
    assert cpu_kernels(tmp_path) is not None
    monkeypatch.undo()
    for remembered in (build.load, build.reason, build._loaded):
        remembered.cache_clear()
    library.unlink()
    library.write_bytes(b"\x7fELF cut short")
    assert cpu_kernels(tmp_path) is not None
    assert isinstance(ctypes.CDLL(str(library)), ctypes.CDLL)
