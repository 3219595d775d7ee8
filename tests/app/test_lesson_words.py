"""What a lesson says in words of a number ("nearly forty times") is held against the number.

Figures in digits are computed where they are shown; a rounding in words is not, so each stands
here with what makes it true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core.sizing import calls, catalog, gpus
from core.trace import pool_metrics
from ui import lesson, runs


def calc(function: str, **inputs: Any) -> Any:
    return calls.call(function, inputs).value


def _computed(run: str) -> int:
    return pool_metrics.pool_summary(runs.recorded(run).data()).computed_tokens


def _token(model: str, **inputs: Any) -> Any:
    return calc("kv_bytes_per_token", model=model, **inputs)


def _on_gpu(model: str, **inputs: Any) -> Any:
    return calc("kv_bytes_per_token_per_gpu", model=model, **inputs)


def _intensity(model: str, **inputs: Any) -> Any:
    return calc("arithmetic_intensity_attention_decode", model=model, **inputs)


def _floor() -> Any:
    return calc("decode_step_time", model="llama-3-70b", gpu="h100-sxm5", n_gpu=8)


def _gemma_share() -> float:
    kept = calc("kv_bytes_sequence", model="gemma-3-27b", tokens=131_072)
    return float(131_072 * _token("gemma-3-27b") / kept)


def _scales(dtype: str) -> float:
    whole = calc("kv_bytes_per_token_quantized", model="llama-3-70b", dtype=dtype)
    return float(_token("llama-3-70b", dtype=dtype) / (whole - _token("llama-3-70b", dtype=dtype)))


def _expansion() -> float:
    at = {"model": "deepseek-v3", "context": 131_072}
    return float(calc("mla_expansion_flops", **at) / calc("decode_flops", **at))


def _eight_h100() -> float:
    return 8 * gpus.get("h100-sxm5").visible_bytes


def _tie(latents: str) -> Any:
    llama = {"model": "llama-3.1-70b", "dtype": "fp8", "weights": "fp8"}
    other = {"model": "deepseek-v3", "dtype": latents, "weights": "fp8"}
    return calc("token_capacity_tie_bytes", a=llama, b=other)


def _weights(model: str, dtype: str = "bf16") -> Any:
    return calc("weight_bytes", model=model, dtype=dtype)


CLAIMS: list[tuple[str, str, str, Callable[[], bool]]] = [
    ("serving", "difference", "less than two and a half seconds", lambda: 499 * _floor() > 2.5),
    ("serving", "difference.full", "two and a half seconds", lambda: 499 * _floor() > 2.5),
    ("metrics", "percentiles.full", r"that is $0.7\,\%$", lambda: round(0.99**499, 3) == 0.007),
    (
        "attention",
        "cache.full",
        "nearly forty times as many",
        lambda: 37 < _computed("kv_cache_off") / _computed("kv_cache_on") < 40,
    ),
    ("attention", "cache.full", "$125{,}250$", lambda: 500 * 501 // 2 == 125_250),
    (
        "attention",
        "heads",
        "Llama 2 7B, a tenth of its size, keeps more for each token",
        lambda: (
            _token("llama-2-7b") > _token("llama-3-70b")
            and 9 < catalog.get("llama-3-70b").params / catalog.get("llama-2-7b").params < 11
        ),
    ),
    (
        "attention",
        "heads.full",
        "it stores eight times as much",
        lambda: _token("llama-3-70b") == 8 * _token("hypothetical-70b-mqa"),
    ),
    (
        "attention",
        "heads.full",
        "On one GPU of eight the two are equal",
        lambda: _on_gpu("llama-3-70b", tp=8) == _on_gpu("hypothetical-70b-mqa", tp=8),
    ),
    (
        "attention",
        "heads.full",
        "one FLOP per byte for MHA in BF16",
        lambda: _intensity("hypothetical-70b-mha") == 1,
    ),
    ("attention", "window", "about six times as much", lambda: round(_gemma_share()) == 6),
    (
        "attention",
        "window.full",
        "The first Mistral 7B had a window in every layer; later versions dropped it.",
        lambda: (
            all(one.cache.window for one in catalog.get("mistral-7b-v0.1").layers)
            and not any(one.cache.window for one in catalog.get("mistral-7b").layers)
        ),
    ),
    (
        "quantisation",
        "scales.full",
        "one part in sixty-four of an eight-bit cache and one in thirty-two of a four-bit one",
        lambda: (_scales("fp8"), _scales("int4")) == (64, 32),
    ),
    ("quantisation", "error.full", "is three problems", lambda: round(0.02 * 164) == 3),
    ("mla", "latent", "four would have room", lambda: 40e9 // (131_072 * 70_272) == 4),
    (
        "mla",
        "latent",
        "nearly ten times the weights",
        lambda: 9 < _weights("deepseek-v3") / _weights("llama-3-70b") < 10,
    ),
    (
        "mla",
        "parallel",
        "split over eight, the larger cache takes less room on each",
        lambda: (
            _token("llama-3-70b") > _token("deepseek-v3")
            and _on_gpu("llama-3-70b", tp=8) < _on_gpu("deepseek-v3", tp=8)
        ),
    ),
    ("mla", "absorbed", "more than a hundred times the arithmetic", lambda: _expansion() > 100),
    (
        "mla",
        "absorbed.full",
        "crosses the ridge of BF16 arithmetic",
        lambda: (
            _intensity("deepseek-v3")
            < calc("ridge_point", gpu="h100-sxm5")
            < _intensity("deepseek-v3", dtype="fp8")
        ),
    ),
    (
        "mla",
        "compare",
        "Eight H100 have well under that",
        lambda: (
            1.2 * _eight_h100() < min(_tie("bf16"), _tie("fp8"))
            and _weights("deepseek-v3", "fp8") > 0.92 * _eight_h100()
        ),
    ),
    (
        "mla",
        "compare",
        "with plain tensor parallelism over eight GPUs DeepSeek loses it at any size",
        lambda: (
            _on_gpu("deepseek-v3", tp=8) > _on_gpu("llama-3.1-70b", dtype="fp8", tp=8)
            and _weights("deepseek-v3", "fp8") > _weights("llama-3.1-70b", "fp8")
        ),
    ),
    (
        "speculation",
        "yield",
        "it is, no more than five",
        lambda: (
            4.9 < calc("expected_tokens_per_verify", acceptance=0.8, k=64) < 5.0000001  # its limit
        ),
    ),
    (
        "speculation",
        "yield.full",
        "less than a fiftieth",
        lambda: 50 * _weights("llama-3.2-1b") < _weights("llama-3-70b"),
    ),
    (
        "speculation",
        "limits",
        "some sixty sequences",
        lambda: round(calc("min_compute_bound_batch", gpu="h100-sxm5") / 5, -1) == 60,
    ),
    (
        "speculation",
        "limits",
        "which is a tenth more",
        lambda: 10 * _token("llama-3.2-1b") == _token("llama-3-70b"),
    ),
]


@pytest.mark.parametrize(
    ("name", "part", "phrase", "holds"), CLAIMS, ids=[f"{one[0]}: {one[2][:40]}" for one in CLAIMS]
)
def test_a_number_in_words_is_so(
    name: str, part: str, phrase: str, holds: Callable[[], bool]
) -> None:
    assert phrase in lesson.load(name)[part]
    assert holds()
