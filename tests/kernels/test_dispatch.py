"""Which backend a call takes, and how a run's header names it."""

from __future__ import annotations

import sys

import pytest
import torch

from kernels import dispatch
from kernels.dispatch import Backend, choose, uses_triton

CUDA, BF16 = torch.device("cuda"), torch.bfloat16


@pytest.fixture
def hopper(monkeypatch):
    """A machine that says it has an H100."""
    monkeypatch.delenv("KV_SCOPE_TRITON", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(dispatch, "_triton_version", lambda: "triton 3.9.0")
    monkeypatch.setattr(dispatch, "_installed", lambda: True)
    return monkeypatch


def test_a_gpu_takes_triton(hopper):
    assert str(choose(CUDA, BF16, 128)) == "triton (triton 3.9.0, sm_90)"
    assert uses_triton(None, CUDA, BF16, 128)


def test_a_cpu_takes_torch(hopper):
    assert choose(torch.device("cpu"), BF16, 128) == Backend("torch", "device cpu")


@pytest.mark.parametrize(
    ("dtype", "head_dim", "reason"),
    [(torch.float64, 64, "torch.float64 is not a dtype of the kernels"),
     (BF16, 288, "head_dim 288 is above 256")],
)  # fmt: skip
def test_what_the_kernels_are_not_made_for_takes_torch(hopper, dtype, head_dim, reason):
    assert choose(CUDA, dtype, head_dim) == Backend("torch", reason)


def test_an_old_gpu_takes_torch(hopper):
    hopper.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert choose(CUDA, BF16, 64) == Backend("torch", "compute capability 7.5 is below 8.0")


def test_without_triton_and_by_wish_it_is_torch(hopper):
    hopper.setattr(dispatch, "_installed", lambda: False)
    assert choose(CUDA, BF16, 64) == Backend("torch", "triton is not installed")
    hopper.setenv("KV_SCOPE_TRITON", "0")
    assert choose(CUDA, BF16, 64) == Backend("torch", "KV_SCOPE_TRITON=0")


def test_a_named_backend_is_taken_or_refused(hopper):
    assert uses_triton("triton", CUDA, BF16, 64)
    assert not uses_triton("torch", CUDA, BF16, 64)
    with pytest.raises(ValueError, match="choose triton or torch"):
        uses_triton("cuda", CUDA, BF16, 64)
    hopper.setattr(dispatch, "_installed", lambda: False)
    with pytest.raises(ValueError, match="triton is not installed"):
        uses_triton("triton", CUDA, BF16, 64)


def test_the_twins_need_no_triton(root):
    """Where it cannot be installed the functions still work."""
    import subprocess

    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import kernels.copy_blocks, kernels.gather_blocks, kernels.paged_decode\n"
        "import kernels.paged_prefill, kernels.rms_norm, kernels.rotate_and_store\n"
        "import kernels.scatter_blocks, kernels.store_kv\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)
