"""Whatever the functions of bytes and capacity are given: a result, or the field and a sentence."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import (
    balance,
    blocks,
    capacity,
    gpus,
    kv,
    parallel,
    pool,
    units,
    weight_shares,
    weights,
)
from core.sizing.errors import SizingError
from core.sizing.result import Result
from tests.sizing import specs

H100 = gpus.get("h100-sxm5")
GOOD: dict[str, tuple[object, dict[str, object]]] = {
    "kv_bytes_per_token": (
        kv.kv_bytes_per_token,
        {"model": specs.GPT_OSS_20B, "dtype": "fp8", "scope": "gpu", "layer": None, "tp": 2},
    ),
    "kv_bytes_per_token_quantized": (
        kv.kv_bytes_per_token_quantized,
        {
            "model": specs.LLAMA_70B,
            "dtype": "int4",
            "scale": "per_group",
            "scale_bytes": 2,
            "zero_bytes": 1,
            "group_size": 32,
        },
    ),
    "kv_static_scale_bytes": (
        kv.kv_static_scale_bytes,
        {"model": specs.LLAMA_70B, "scale": "per_tensor", "scale_bytes": 4, "zero_bytes": 0},
    ),
    "kv_growth_bytes_per_token": (
        kv.kv_growth_bytes_per_token,
        {"model": specs.GPT_OSS_20B, "tokens": 100, "scope": "gpu", "tp": 2},
    ),
    "fixed_state_bytes": (kv.fixed_state_bytes, {"model": specs.LLAMA_70B, "tp": 1}),
    "kv_replication_factor": (
        parallel.kv_replication_factor,
        {"model": specs.DEEPSEEK_V3, "tp": 8, "attention_dp": 2},
    ),
    "weight_bytes": (
        weights.weight_bytes,
        {
            "model": specs.LLAMA_70B,
            "dtype": "int4",
            "count": "exact",
            "params": None,
            "out": "GB",
            "embedding_dtype": "bf16",
            "part_dtypes": None,
            "group_size": 128,
            "scale_bytes": 2,
            "zero_bytes": 0.5,
        },
    ),
    "weight_bytes_per_gpu": (
        weight_shares.weight_bytes_per_gpu,
        {
            "model": specs.LLAMA_70B,
            "dtype": "fp8",
            "tp": 4,
            "pp": 2,
            "attention_dp": 2,
            "stages": [41, 39],
            "replicated_params": 1000,
        },
    ),
    "kv_pool_bytes_per_gpu": (
        pool.kv_pool_bytes_per_gpu,
        {
            "gpu": H100,
            "model": specs.LLAMA_70B,
            "weight_dtype": "fp8",
            "gpu_memory_utilization": 0.9,
            "gpu_total_mib": 80_000,
            "overhead_bytes": 1e9,
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 128,
            "activation_dtype": "bf16",
            "tp": 2,
        },
    ),
    "block_bytes": (
        blocks.block_bytes,
        {"model": specs.LLAMA_70B, "dtype": "q8_0", "block_size": 16, "scope": "gpu", "tp": 2},
    ),
    "num_blocks": (
        blocks.num_blocks,
        {"pool_bytes": 1e10, "model": specs.LLAMA_70B, "block_size": 16, "tp": 2},
    ),
    "blocks_for_tokens": (blocks.blocks_for_tokens, {"tokens": 100, "block_size": 16}),
    "expected_last_block_waste": (
        blocks.expected_last_block_waste,
        {"model": specs.LLAMA_70B, "block_size": 16, "tokens": 100},
    ),
    "contiguous_waste_fraction": (
        blocks.contiguous_waste_fraction,
        {"used": 12.5, "reserved": 100},
    ),
    "max_streams": (
        capacity.max_streams,
        {
            "model": specs.GPT_OSS_20B,
            "tokens": 500,
            "policy": "paged",
            "block_size": 16,
            "pool_gib": 10,
            "prefix_tokens": 100,
            "max_model_len": 1000,
            "max_num_seqs": 100,
            "max_num_batched_tokens": 4096,
            "tp": 2,
            "dp": 2,
        },
    ),
    "max_streams_of_a_budget": (
        capacity.max_streams,
        {
            "model": specs.LLAMA_70B,
            "tokens": 500,
            "total_gib": 80,
            "weights_gib": 35.5,
            "overhead_gib": 2,
            "window": 100,
            "n_local_layers": 40,
        },
    ),
    "kv_weights_balance": (
        balance.kv_weights_balance,
        {"model": specs.GPT_OSS_20B, "batch": 4, "params": 20e9, "weight_dtype": "q4_0"},
    ),
    "convert": (units.convert, {"value": 3, "from_": "GiB", "to": "GB"}),
}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-(10**400), 10**400, 2**63, -1, 0, 1, 1e308, 5e-324, 1e-300])
    | st.floats()
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=25)
@given(data=st.data())
def test_one_field_of_nonsense(name: str, data: st.DataObject) -> None:
    function, good = GOOD[name]
    field = data.draw(st.sampled_from([key for key in good if key not in ("model", "gpu")]))
    try:
        result = function(**{**good, field: data.draw(anything)})  # type: ignore[operator]
    except SizingError as error:
        assert error.path
        assert len(error.message) < 400
        assert error.message[-1] not in ".\n"
    else:
        assert isinstance(result, Result)
        assert result.value is None or math.isfinite(result.value)


@pytest.mark.parametrize("name", GOOD)
def test_without_nonsense_there_is_a_number(name: str) -> None:
    function, good = GOOD[name]
    result = function(**good)  # type: ignore[operator]
    assert result.value is not None
    assert result.unit
