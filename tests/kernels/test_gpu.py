"""The cases of the interpreter on a GPU, compiled. Skipped where there is none."""

from __future__ import annotations

import os

import pytest
import torch

from tests.kernels import (
    test_blocks,
    test_float64,
    test_norm_and_rotate,
    test_paged_decode,
    test_paged_prefill,
    test_store_kv,
)
from tests.kernels.pairs import named

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
        reason="no CUDA device here",
    ),
]


@pytest.mark.parametrize("case", test_paged_decode.CASES, ids=named)
def test_decode_is_its_twin(case):
    test_paged_decode.check_decode(case, "cuda")


@pytest.mark.parametrize("case", test_paged_prefill.CASES, ids=named)
def test_prefill_is_its_twin(case):
    test_paged_prefill.check_prefill(case, "cuda")


@pytest.mark.parametrize("attend", [test_float64.decoded, test_float64.prefilled])
@pytest.mark.parametrize("case", test_float64.CASES, ids=named)
def test_attention_is_near_float64(case, attend):
    test_float64.check(attend(case, "triton", "cuda"))


@pytest.mark.parametrize("case", test_store_kv.CASES, ids=named)
def test_store_is_its_twin(case):
    test_store_kv.check_store(case, "cuda")


@pytest.mark.parametrize("kind", test_blocks.SHAPES)
def test_blocks_are_moved(kind):
    test_blocks.check_copy(kind, "cuda")
    test_blocks.check_gather(kind, "cuda")
    test_blocks.check_scatter(kind, "cuda")


@pytest.mark.parametrize("case", test_norm_and_rotate.NORMS, ids=named)
def test_norm_is_its_twin(case):
    test_norm_and_rotate.check_norm(case, "cuda")


@pytest.mark.parametrize("case", test_norm_and_rotate.TURNS, ids=named)
def test_rotation_is_its_twin(case):
    test_norm_and_rotate.check_turn(case, "cuda")
