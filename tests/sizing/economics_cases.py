"""One call or more of every function on time, sharing and money: what several tests go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.sizing import catalog, gpus
from core.sizing.chunks import full_step_time
from core.sizing.compare import (
    attention_flops_ratio,
    kv_ratio,
    kv_read_ratio,
    mla_equivalent_gqa_heads,
    mla_expansion_flops,
    token_capacity_tie_bytes,
)
from core.sizing.compute import (
    attention_equals_linear_tokens,
    attention_flop_share,
    decode_flops,
    prefill_flops,
)
from core.sizing.cost import (
    cost_per_day,
    cost_per_million_tokens,
    cost_per_request,
    cost_per_user,
    gpus_for_load,
    prefix_cache_saving_per_day,
)
from core.sizing.fleet import cost_per_hour, gpus_for_users
from core.sizing.intensity import (
    arithmetic_intensity_attention_prefill,
    arithmetic_intensity_matrices,
)
from core.sizing.lru import documents_for_hit_rate, lru_hit_rate
from core.sizing.prefix import (
    break_even_hit_rate,
    prefill_flop_reduction,
    prefill_reduction,
    prefill_token_ratio,
    prefix_cache_bytes,
    prefix_cache_capacity,
)
from core.sizing.recompute import swap_over_recompute, swap_recompute_crossover_tokens
from core.sizing.result import Result
from core.sizing.roofline import (
    arithmetic_intensity_linear,
    arithmetic_intensity_weights,
    attainable_flops,
    min_compute_bound_batch,
    ridge_point,
    roofline_utilization,
)
from core.sizing.saturation import batch_to_saturate
from core.sizing.sharing import beam_saving, cow_bytes, cow_copied_bytes, cow_saving
from core.sizing.speculation import expected_tokens_per_verify, speculative_speedup
from core.sizing.step_time import decode_step_time, decode_tokens_per_s, prefill_time
from core.sizing.tiers import (
    break_even_interval,
    prefetch_steps,
    reload_over_recompute,
    tier_price,
    tier_reload_time,
)
from core.sizing.traffic import (
    arithmetic_intensity_attention_decode,
    decode_kv_bytes,
    decode_weight_bytes,
)
from core.sizing.transfer import (
    disagg_bandwidth,
    disagg_links,
    disagg_observable_latency,
    disagg_rps_per_link,
    kv_transfer_time,
    pcie_bandwidth,
    pipelined_transfer_time,
    transfer_share_of_prefill,
)
from core.sizing.utilization import achieved_mbu, achieved_mfu

Case = tuple[Callable[..., Result], dict[str, Any]]

LLAMA, GEMMA = catalog.get("llama-3-70b"), catalog.get("gemma-2-27b")
SMALL, V3, MIXTRAL = (
    catalog.get("llama-2-7b"),
    catalog.get("deepseek-v3"),
    catalog.get("mixtral-8x7b"),
)
GPT_OSS, V32 = catalog.get("gpt-oss-120b"), catalog.get("deepseek-v3.2")
_SCORED = {"gpu": gpus.get("h100-sxm5"), "n_gpu": 8}
H100, A100 = gpus.get("h100-sxm5"), gpus.get("a100-sxm4-80")
_PROMPT = {"S": 1000, "U": 129, "h": 0.8, "block_size": 16}
_FORK = {"prefix": 500, "n": 4, "block_size": 16}
_MOVE = {"model": LLAMA, "tokens": 4096, "dtype": "int8"}
_BACK = {"dtype": "bf16", "bandwidth": 16e9, "flops": 494.7e12}
_TWO = {"a": {"model": "llama-3.1-70b", "dtype": "fp8"}, "b": {"model": "deepseek-v3"}}
_LOAD = {"prefill_s": 0.3, "output_tokens": 200, "step_s": 0.02, "batch": 48, "n_gpu": 2}

CASES: list[Case] = [
    (cow_bytes, {**_FORK, "suffix": 100, "bytes_per_token": 163840, "mode": "naive"}),
    (cow_bytes, {**_FORK, "suffix": 100, "bytes_per_token": 163840}),
    (cow_bytes, {**_FORK, "suffix": 0, "bytes_per_token": 163840}),
    (cow_saving, {**_FORK, "suffix": 100}),
    (cow_copied_bytes, {**_FORK, "bytes_per_token": 163840}),
    (beam_saving, {"prompt": 500, "generated": 100, "beam_width": 4, "common": 60}),
    (prefill_reduction, _PROMPT),
    (prefill_token_ratio, _PROMPT),
    (prefill_flop_reduction, {"model": LLAMA, **_PROMPT}),
    (prefill_flop_reduction, {"model": GEMMA, **_PROMPT, "S": 8000}),
    (prefix_cache_bytes, {"prompts": 50, "tokens": 1000, "bytes_per_token": 163840, "headroom": 2}),
    (prefix_cache_bytes, {"prompts": 5, "tokens": 99, "bytes_per_token": 7, "block_size": 16}),
    (prefix_cache_capacity, {"pool_bytes": 40e9, "tokens": 1000, "bytes_per_token": 163840}),
    (break_even_hit_rate, {"model": LLAMA, "S": 1024, "U": 9, "flops": 2e15, "overhead_s": 1e-4}),
    (expected_tokens_per_verify, {"acceptance": 0.7, "k": 5}),
    (expected_tokens_per_verify, {"acceptance": 0.7, "k": 0}),
    (speculative_speedup, {"acceptance": 0.83, "k": 7, "draft_cost": 0.05}),
    (speculative_speedup, {"acceptance": 0.5, "k": 3, "draft_cost": 0, "verify_cost": 1.6}),
    (lru_hit_rate, {"documents": 250, "capacity": 200, "ceiling": 0.65}),
    (lru_hit_rate, {"documents": 250, "capacity": 20, "access": "zipf", "ceiling": 0.65}),
    (lru_hit_rate, {"documents": 250, "capacity": 200, "access": "cyclic"}),
    (documents_for_hit_rate, {"documents": 250, "target": 0.52, "ceiling": 0.65}),
    (documents_for_hit_rate, {"documents": 250, "target": 0.52, "access": "zipf"}),
    (ridge_point, {"gpu": H100}),
    (attainable_flops, {"gpu": H100, "intensity": 64}),
    (arithmetic_intensity_weights, {"batch": 64, "weight_bytes": 1}),
    (arithmetic_intensity_linear, {"batch": 64, "d_in": 8192, "d_out": 28672}),
    (min_compute_bound_batch, {"gpu": H100}),
    (min_compute_bound_batch, {"gpu": H100, "d": 8192}),
    (min_compute_bound_batch, {"gpu": A100, "experts": 8, "experts_per_token": 2}),
    (roofline_utilization, {"gpu": H100, "batch": 64}),
    (prefill_flops, {"model": LLAMA, "tokens": 4096, "computed": 1024}),
    (prefill_flops, {"model": GEMMA, "tokens": 8192}),
    (prefill_flops, {"model": V3, "tokens": 8192, "causal": False, "count": "matmul"}),
    (decode_flops, {"model": GEMMA, "context": 8192, "batch": 3}),
    (decode_flops, {"model": V3, "context": 8192, "batch": 3, "mla": "expanded"}),
    (attention_flop_share, {"model": LLAMA, "tokens": 4096}),
    (attention_equals_linear_tokens, {"model": LLAMA}),
    (attention_equals_linear_tokens, {"model": LLAMA, "causal": False}),
    (attention_equals_linear_tokens, {"model": GEMMA}),
    (decode_weight_bytes, {"model": LLAMA, "dtype": "q4_0", "batch": 8}),
    (decode_weight_bytes, {"model": V3, "dtype": "fp8", "batch": 64}),
    (decode_kv_bytes, {"model": GEMMA, "context": 8192, "batch": 5, "tp": 2}),
    (decode_kv_bytes, {"model": V3, "context": 8192, "batch": 5, "tp": 4, "attention_dp": 4}),
    (arithmetic_intensity_attention_decode, {"model": LLAMA}),
    (arithmetic_intensity_attention_decode, {"model": V3, "dtype": "fp8"}),
    (arithmetic_intensity_matrices, {"model": LLAMA, "batch": 64}),
    (arithmetic_intensity_matrices, {"model": V3, "batch": 64, "dtype": "fp8"}),
    (arithmetic_intensity_matrices, {"model": GPT_OSS, "batch": 8, "dtype": "checkpoint"}),
    (arithmetic_intensity_attention_prefill, {"model": LLAMA, "tokens": 4096}),
    (arithmetic_intensity_attention_prefill, {"model": GEMMA, "tokens": 8192, "computed": 99}),
    (prefill_time, {"model": LLAMA, "tokens": 4096, "gpu": H100, "n_gpu": 2, "mfu": 0.5}),
    (prefill_time, {"model": LLAMA, "tokens": 8, "gpu": H100, "weights": "fp8", "mbu": 0.7}),
    (decode_step_time, {"model": LLAMA, "gpu": H100, "n_gpu": 8, "batch": 64, "context": 4096}),
    (decode_step_time, {"model": V3, "gpu": H100, "n_gpu": 8, "batch": 64, "weights": "fp8",
                        "context": 4096, "mbu": 0.7, "mfu": 0.4, "overhead_s": 0.001}),
    (decode_step_time, {"model": V3, "gpu": H100, "n_gpu": 8, "batch": 20, "weights": "checkpoint",
                        "context": 4096, "attention_dp": 4, "mfu": 0.4}),
    (decode_step_time, {"model": LLAMA, "gpu": H100, "n_gpu": 16, "batch": 64, "context": 4096}),
    (prefill_time, {"model": V3, "tokens": 4096, "gpu": H100, "n_gpu": 8, "dtype": "checkpoint",
                    "attention_dp": 8, "weights": "checkpoint", "mfu": 0.5}),
    (full_step_time, {"model": LLAMA, "budget": 8192, "tokens": 1000, "gpu": H100, "n_gpu": 4}),
    (full_step_time, {"model": V3, "budget": 8192, "tokens": 1000, "gpu": H100, "n_gpu": 8,
                      "weights": "checkpoint", "prompts": 3, "attention_dp": 4}),
    (decode_step_time, {"model": V32, **_SCORED, "batch": 20, "context": 99999}),
    (decode_step_time, {"model": V32, **_SCORED, "batch": 20, "context": 9, "attention_dp": 2}),
    (prefill_time, {"model": V32, "tokens": 4096, **_SCORED}),
    (prefill_time, {"model": V32, "tokens": 4096, "computed": 8, **_SCORED, "attention_dp": 2}),
    (full_step_time, {"model": V32, "budget": 8192, "tokens": 3000, **_SCORED}),
    (arithmetic_intensity_attention_decode, {"model": V32, "context": 9999, "tp": 8}),
    (decode_weight_bytes, {"model": GPT_OSS, "dtype": "checkpoint", "batch": 8}),
    (decode_tokens_per_s, {"model": LLAMA, "gpu": H100, "n_gpu": 8, "batch": 64, "context": 4096}),
    (batch_to_saturate, {"model": LLAMA, "gpu": H100}),
    (batch_to_saturate, {"model": MIXTRAL, "gpu": H100, "weights": "fp8", "compute": "bf16"}),
    (achieved_mfu, {"model": LLAMA, "tokens": 4096, "gpu": H100, "n_gpu": 8, "seconds": 0.15}),
    (achieved_mbu, {"model": LLAMA, "gpu": H100, "n_gpu": 8, "seconds": 0.012, "batch": 64}),
    (achieved_mbu, {"model": V3, "gpu": H100, "n_gpu": 8, "seconds": 0.05, "attention_dp": 8}),
    (kv_transfer_time, {**_MOVE, "bandwidth": 50e9, "links": 2, "latency_s": 1e-5}),
    (pcie_bandwidth, {"gen": 5}),
    (pcie_bandwidth, {"gen": 6}),
    (pcie_bandwidth, {"gen": 2, "kind": "theoretical_both_ways"}),
    (disagg_bandwidth, {**_MOVE, "rps": 12.5}),
    (disagg_rps_per_link, {**_MOVE, "link_bytes_per_s": 50e9}),
    (disagg_links, {**_MOVE, "rps": 100, "margin": 2, "link_bytes_per_s": 50e9}),
    (disagg_observable_latency, {**_MOVE, "bandwidth": 40e9, "hidden_fraction": 0.7}),
    (pipelined_transfer_time, {"transfer_s": 0.0134, "prefill_s": 0.303, "n_layers": 80}),
    (pipelined_transfer_time, {"transfer_s": 1.0, "prefill_s": 0.1, "n_layers": 80}),
    (transfer_share_of_prefill, {**_MOVE, "bandwidth": 50e9, "flops": 2e15}),
    (swap_recompute_crossover_tokens, {"model": SMALL, **_BACK}),
    (swap_recompute_crossover_tokens, {"model": GEMMA, **_BACK, "bandwidth": 2e9}),
    (swap_over_recompute, {"model": SMALL, "tokens": 2000, **_BACK, "latency_s": 1e-5}),
    (tier_reload_time, {**_MOVE, "tier": "nvme-gen5", "links": 4}),
    (tier_price, {**_MOVE, "tier": "nvme-gen5"}),
    (reload_over_recompute, {**_MOVE, "tier": "dram-pcie5", "flops": 2e15}),
    (prefetch_steps, {"reload_s": 0.0205, "step_s": 0.02}),
    (break_even_interval, {**_MOVE, "flops": 2e15, "price_per_gpu_hour": 2.5, "n_gpu": 2,
                           "price_per_gb_hour": 0.005}),
    (kv_ratio, _TWO),
    (kv_read_ratio, {**_TWO, "context": 4096}),
    (attention_flops_ratio, {**_TWO, "context": 4096}),
    (mla_equivalent_gqa_heads, {"d_latent": 512, "d_rope": 64, "d_head": 128}),
    (mla_expansion_flops, {"model": V3, "context": 131072}),
    (token_capacity_tie_bytes, {name: {**_TWO[name], "weights": "fp8"} for name in "ab"}),
    (cost_per_million_tokens, {"price_per_gpu_hour": 2.5, "tokens_per_s": 2400, "n_gpu": 2}),
    (cost_per_request, {"price_per_gpu_hour": 2.5, **_LOAD}),
    (cost_per_user, {"price_per_gpu_hour": 2.5, "n_gpu": 2, "users": 114}),
    (cost_per_day, {"price_per_gpu_hour": 2, "tokens_per_day": 1e10, "tokens_per_s_per_gpu": 7000}),
    (prefix_cache_saving_per_day, {"requests_per_day": 1e7, "tokens_per_request": 1152,
                                   "reduction": 0.7, "tokens_per_s_per_gpu": 7000,
                                   "price_per_gpu_hour": 2}),
    (gpus_for_load, {"requests_per_s": 50, **_LOAD}),
    (gpus_for_users, {"users": 200, "streams_per_replica": 158, "gpus_per_replica": 2}),
    (cost_per_hour, {"price_per_gpu_hour": 2.5, "n_gpu": 4}),
]  # fmt: skip


def label(case: Case) -> str:
    return case[0].__name__
