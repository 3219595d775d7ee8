"""Weights in 8 bits: the product, its fallback, and that nobody takes the result for bfloat16's."""

from __future__ import annotations

import pytest
import torch
from model_driver import generate
from torch.nn.functional import linear

from core.errors import KVScopeError
from core.llm import LLM
from core.model import int8
from core.model.errors import ModelError
from core.model.int8 import Int8Linear, int8_linear, int8_works, quantize
from core.model.layers import Linear
from core.model.model_runner import ModelRunner
from core.outputs import SamplingParams

PROMPTS = [[5, 6, 7], list(range(9, 40)), [200, 100, 50, 25]]


@pytest.fixture(scope="module")
def eight(tiny_dir):
    return ModelRunner(tiny_dir, "float32", "cpu", 64, 4, weights="int8")


def test_quantized_numbers_are_within_half_a_step():
    weight = torch.randn(12, 40, generator=torch.Generator().manual_seed(1))
    weight[3] = 0
    numbers, scale = quantize(weight)
    assert numbers.dtype == torch.int8
    assert numbers.abs().amax() == 127
    error = (numbers * scale[:, None] - weight).abs()
    assert (error <= scale[:, None] / 2 * 1.001).all()
    assert numbers[3].eq(0).all()


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_the_product_is_near_the_exact_one(rows):
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(96, 64, generator=generator), torch.randn(96, generator=generator)
    x = torch.randn(rows, 64, generator=generator)
    exact = linear(x, weight, bias)
    out = Int8Linear(weight, bias)(x)
    assert (out - exact).abs().max() < 0.02 * exact.abs().max()


def test_an_outlier_token_does_not_blur_the_others():
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(96, 64, generator=generator), torch.randn(4, 64, generator=generator)
    outlier = torch.cat((x, 1000 * x[:1]))
    exact = linear(x, weight)
    product = Int8Linear(weight)
    assert (product(outlier)[:4] - exact).abs().max() < 0.02 * exact.abs().max()
    one_scale = torch.ops.quantized.linear_dynamic(outlier, product.packed, False)
    assert (one_scale[:4] - exact).abs().max() > 0.2 * exact.abs().max()


def test_a_token_of_zeros_stays_zero():
    assert Int8Linear(torch.randn(8, 16))(torch.zeros(2, 16)).eq(0).all()


def test_logits_are_near_float32_s(eight, tiny):
    """Weights of a tiny random model are coarse; the same model all the same."""
    _, exact = generate(tiny, PROMPTS, 1)
    _, logits = generate(eight, PROMPTS, 1)
    for ours, theirs in zip(logits, exact, strict=True):
        assert torch.nn.functional.cosine_similarity(ours, theirs).min() > 0.99
        assert not torch.equal(ours, theirs)


def test_without_the_operator_the_same_numbers_are_used(eight, tiny_dir, monkeypatch):
    monkeypatch.setattr(int8, "int8_works", lambda: False)
    plain = ModelRunner(tiny_dir, "float32", "cpu", 64, 4, weights="int8")
    _, fast = generate(eight, PROMPTS, 1)
    _, slow = generate(plain, PROMPTS, 1)
    for ours, theirs in zip(fast, slow, strict=True):
        assert torch.nn.functional.cosine_similarity(ours, theirs).min() > 0.99


def test_a_wrong_operator_is_noticed(monkeypatch):
    monkeypatch.setattr(Int8Linear, "__call__", lambda self, x: torch.zeros(len(x), self.shape[0]))
    assert not int8_works.__wrapped__()


def test_the_source_says_so(eight, tiny, tiny_dir):
    assert eight.source["weights"] == "int8"
    assert eight.source["dtype"] == "float32"
    assert tiny.source["weights"] == "float32"
    llm = LLM(str(tiny_dir), dtype="bfloat16", weights="int8", device="cpu", num_blocks=16)
    llm.generate([5, 6, 7], SamplingParams(temperature=0, max_tokens=2))
    assert llm.last_run.header["source"]["weights"] == "int8"


def test_embeddings_and_logits_keep_their_dtype(eight):
    assert isinstance(eight.model.lm_head, Linear)
    assert eight.model.embed_tokens.dtype == torch.float32


def test_refusals(tiny_dir):
    with pytest.raises(ModelError, match="int4"):
        ModelRunner(tiny_dir, "float32", "cpu", weights="int4")
    with pytest.raises(KVScopeError, match="CPU only"):
        int8_linear(torch.empty(4, 4, device="meta"), None)
