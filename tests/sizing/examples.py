"""One good value for every input of every sizing function, by its name: calls to start from."""

from __future__ import annotations

from typing import Any

from core.sizing import calls, inputs

Json = dict[str, Any]

_SIDE = {"model": "llama-3-8b", "dtype": "bf16", "weights": "bf16"}
_BY_NAME: Json = {
    "model": "llama-3-8b",
    "gpu": "h100-sxm5",
    "a": _SIDE,
    "b": {"model": "deepseek-v3", "dtype": "fp8", "weights": "fp8"},
    "dtype": "fp8",
    "tokens": 1000,
    "context": 2000,
    "batch": 8,
    "n_gpu": 2,
    "bandwidth": 25e9,
    "flops": 4e14,
    "links": 1,
    "S": 1024,
    "U": 128,
    "h": 0.8,
    "price_per_gpu_hour": 2.0,
    "per_gpu_pool_bytes": 40e9,
    "params": None,
    "peaks": {"bf16": 1e14},
}
_REQUIRED: Json = {
    "max_num_batched_tokens": 2048,
    "prefix": 512,
    "suffix": 100,
    "n": 4,
    "bytes_per_token": 163840,
    "prompts": 50,
    "used": 800,
    "reserved": 4096,
    "prompt": 512,
    "generated": 100,
    "beam_width": 4,
    "documents": 200,
    "capacity": 100,
    "target": 0.5,
    "seconds": 10.0,
    "pool_bytes": 2**30,
    "d_in": 4096,
    "d_out": 4096,
    "d_latent": 512,
    "d_rope": 64,
    "d_head": 128,
    "n_layers": 32,
    "intensity": 10.0,
    "gen": 5,
    "rps": 10.0,
    "acceptance": 0.8,
    "k": 4,
    "draft_cost": 0.1,
    "link_bytes_per_s": 50e9,
    "transfer_s": 0.01,
    "prefill_s": 0.2,
    "overhead_s": 0.001,
    "tier": "dram-pcie5",
    "reload_s": 0.1,
    "step_s": 0.02,
    "price_per_gb_hour": 0.01,
    "tokens_per_s": 1000.0,
    "output_tokens": 200,
    "users": 100,
    "streams_per_replica": 158,
    "tokens_per_day": 1e9,
    "tokens_per_s_per_gpu": 2000.0,
    "requests_per_day": 1e6,
    "tokens_per_request": 1000.0,
    "reduction": 0.7,
    "requests_per_s": 20.0,
    "value": 1024,
    "from_": "B",
    "to": "KiB",
}
_APART: dict[str, Json] = {
    "kv_weights_balance": {"batch": None},
    "attention_equals_linear_tokens": {},
    "full_step_time": {"budget": 8192},
}


def example(name: str) -> Json:
    """Inputs with which the function of that name gives a number."""
    out: Json = {}
    for parameter in inputs.parameters(calls.functions()[name].call):
        known = {**_BY_NAME, **(_REQUIRED if parameter.required else {})}
        if parameter.name in known and (parameter.required or parameter.name in _BY_NAME):
            out[parameter.name] = known[parameter.name]
    out.update(_APART.get(name, {}))
    return {key: value for key, value in out.items() if value is not None}
