"""Runs and a measurement as an engine with a quantised cache writes them, made by hand."""

from __future__ import annotations

import copy
from typing import Any

Json = dict[str, Any]

LAYERS, HEADS = 30, 3
PROMPT = "Explain in a few sentences why the sky is blue at noon and red in the evening."
OWN_BYTES = 23_040
TOKENS = [10, 11, 12, 13, 14, 15]
TEXT = {
    "10": "The",
    "11": " sky",
    "12": " is",
    "13": " blue",
    "14": ".",
    "15": " Red",
    "16": " bright",
}


def table(value: float) -> list[list[float]]:
    """The same number for every head of every layer."""
    return [[value] * HEADS for _ in range(LAYERS)]


def errors(scale: float = 1.0) -> Json:
    """One step's errors: 1 % of keys, 2 % of values, times `scale`; layer 4's head 1 is worse."""
    key = table(1e-4 * scale**2)
    key[4][1] = 25e-4 * scale**2
    return {
        "key": key,
        "value": table(4e-4 * scale**2),
        "key_squares": table(1.0),
        "value_squares": table(1.0),
    }


def run(
    kv_dtype: str | Json = "model",
    tokens: list[int] | None = None,
    *,
    token_bytes: int = OWN_BYTES,
    fixed: int = 0,
    scale: float = 1.0,
    label: str = "RECORDED",
    prompt: str = PROMPT,
) -> Json:
    """An answer of so many tokens in a pool of 48 blocks of 16."""
    said = TOKENS if tokens is None else tokens
    steps = []
    for i, token in enumerate(said):
        step: Json = {
            "step": i,
            "scheduled": {},
            "events": [{"type": "token_sampled", "request": "A", "sequence": "A", "token": token}],
        }
        if kv_dtype != "model":
            step["kv_error"] = errors(scale)
        steps.append(step)
    # Its own token first, then two that are always offered.
    logprobs = [
        {"token": t, "logprob": -0.5, "rank": 1, "top": [[t, -0.5], [13 if t == 16 else 16, -0.6]]}
        for t in said
    ]
    header: Json = {
        "label": label,
        "source": {"device": "CPU", "dtype": "bfloat16", "model": "smollm2-135m-instruct"},
        "recorded_at": "2026-11-30T12:00:00Z",
        "revision": "abcdef0",
        "scenario": {
            "name": "made by hand",
            "engine": {"num_blocks": 48, "block_size": 16, "kv_dtype": kv_dtype},
            "requests": [
                {
                    "id": "A",
                    "prompt": f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n",
                }
            ],
        },
        "token_text": dict(TEXT),
        "eos_token_ids": [2],
        "kv_bytes_per_token": token_bytes,
        "kv_cache_bytes": token_bytes * 768,
    }
    if kv_dtype != "model":
        header["kv_format"] = {"layers": ["int8"] * LAYERS, "scale": "per_token_head"}
        header["kv_format"] |= {"calibration": None, "scale_bytes": fixed}
    return {
        "schema": "run/1",
        "header": header,
        "steps": steps,
        "results": {"A": {"finish_reason": "max_tokens", "text": "", "logprobs": logprobs}},
    }


_ROWS: list[tuple[str, str | Json, int, float, float, float, int | None]] = [
    ("bf16, as computed", "model", 23_040, 21.4, 0.0, 1.0, None),
    ("fp8, one scale", "fp8", 11_520, 21.52, 0.0021, 0.973, 31),
    ("int8, per token and head", "int8_per_token_head", 12_240, 21.41, 0.00011, 0.994, None),
    (
        "int4, per token and head",
        {"format": "int4", "scale": "per_token_head"},
        6_480,
        23.9,
        0.081,
        0.86,
        9,
    ),
    ("int4, one scale", {"format": "int4", "scale": "per_tensor"}, 5_760, 1_310.0, 3.4, 0.21, 0),
    (
        "int8, int4 in the inner layers",
        {"format": "int8", "layers": {"10-19": "int4"}},
        10_320,
        22.3,
        0.034,
        0.91,
        14,
    ),
]
_QUALITY: Json = {
    "schema": "kv-quality/1",
    "source": {"device": "CPU", "dtype": "bfloat16", "model": "smollm2-135m-instruct"},
    "recorded_at": "2026-11-30T12:00:00Z",
    "revision": "abcdef0",
    "text": {"file": "quality.txt", "tokens": 1_024, "sha256": "0" * 64},
    "rows": [
        {
            "name": name,
            "kv_dtype": dtype,
            "kv_bytes_per_token": size,
            "perplexity": perplexity,
            "nll_change": kl / 2,
            "nll_change_se": 0.001,
            "kl": kl,
            "kl_max": 10 * kl,
            "top1": top1,
            "diverges": {"sky": at, "sum": at},
        }
        for name, dtype, size, perplexity, kl, top1, at in _ROWS
    ],
    "prompts": [
        {"id": "sky", "text": PROMPT, "max_tokens": 64},
        {"id": "sum", "text": "What is 17 and 25?", "max_tokens": 64},
    ],
    "by_layer": [{"layer": layer, "kl": 0.001 * (layer + 1)} for layer in range(LAYERS)],
    "outlier": {
        "layer": 12,
        "head": 1,
        "rows": [
            {
                "factor": factor,
                "format": "int8",
                "scale": scale,
                "key_error_outlier": 0.006,
                "key_error_others": 0.006 * (factor if scale == "per_tensor" else 1),
                "perplexity": 21.4,
                "kl": 0.0002 * (factor if scale == "per_tensor" else 1),
            }
            for scale in ("per_tensor", "per_head_static", "per_token_head")
            for factor in (1, 4, 16, 64)
        ],
    },
}


def quality() -> Json:
    """A whole measurement; to be changed as one likes."""
    return copy.deepcopy(_QUALITY)
