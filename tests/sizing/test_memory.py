"""Where memory goes: the parts add up, and the longest context that fits is the longest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sizing import capacity, catalog, gpus, memory
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.plan import Plan, plan

COUNTED = [name for name in catalog.names() if catalog.get(name).params is not None]


def planned(model: str = "llama-3.1-70b", **fields: Any) -> Plan:
    given: dict[str, Any] = {"tp": 8, "context": 4096, "weight_dtype": "bf16", **fields}
    return plan(Deployment(catalog.get(model), gpus.get("h100-sxm5"), **given))


def test_the_parts_of_a_gpu_by_hand() -> None:
    parts = memory.split(planned(overhead_bytes=2 * 2**30), 64)
    values = {name: part.value for name, part in parts.items()}
    total = 81_559 * 2**20
    weights = -(-70_553_706_496 * 2 // 8)
    kv = 64 * 4096 * 2 * 80 * 1 * 128 * 2  # one of eight KV heads on each GPU
    usable = int(total * 92 // 100)
    assert values == {
        "weights": weights,
        "overhead": 2 * 2**30,
        "kv": kv,
        "free": usable - weights - 2 * 2**30 - kv,
        "held_back": total - usable,
        "total": total,
        "short": 0,
    }


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(COUNTED),
    context=st.integers(1, 200_000),
    sequences=st.integers(0, 4096),
    dtype=st.sampled_from(["bf16", "fp8", "int4_per_token_head"]),
    size=st.sampled_from([1, 16, 48]),
)
def test_parts_add_up_to_what_the_driver_shows(
    name: str, context: int, sequences: int, dtype: str, size: int
) -> None:
    of = planned(name, tp=1, context=context, kv_dtype=dtype, block_size=size)
    value = {part: int(one.value or 0) for part, one in memory.split(of, sequences).items()}
    fixed = value["weights"] + value["overhead"] + value["held_back"]
    room = max(0, value["total"] - fixed)
    assert value["kv"] == sequences * int(of.sequence_in_pool.value or 0)
    assert value["free"] == max(0, room - value["kv"])
    assert value["short"] == max(0, value["kv"] - room)
    fits = of.held_paged.value
    assert (value["short"] == 0) == (fits is None or sequences <= fits)


def test_all_gpus_are_so_many_times_one() -> None:
    one = memory.split(planned(), 100)
    every = memory.of_all(one, 8)
    assert {n: p.value for n, p in every.items()} == {
        n: 8 * int(p.value or 0) for n, p in one.items()
    }
    assert every["kv"].scope == "replica" and every["kv"].steps[-1].value == every["kv"].value


@pytest.mark.parametrize("sequences", [0, 1, 7, 8, 300])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_groups_share_the_sequences_out(groups: int, sequences: int) -> None:
    of = planned(attention_dp=groups)
    one, every = memory.split(of, sequences), memory.of_replica(of, sequences)
    each, pool = int(of.sequence_in_pool.value or 0), int(of.kv_pool_per_gpu.value or 0)
    assert one["kv"].value == -(-sequences // groups) * each
    assert every["kv"].value == sequences * each * 8 // groups
    locals_ = [len(range(group, sequences, groups)) * each for group in range(groups)]
    assert every["free"].value == sum(max(0, pool - kept) for kept in locals_) * 8 // groups
    assert every["short"].value == sum(max(0, kept - pool) for kept in locals_) * 8 // groups
    assert every["kv"].steps[-1].value == every["kv"].value
    longest = memory.longest_context(of, max(1, sequences)) or 0
    longer = planned(attention_dp=groups, context=longest + 1)
    assert memory.split(longer, max(1, sequences))["short"].value


@pytest.mark.parametrize("name", ["llama-3.1-70b", "deepseek-v2-lite", "gemma-3-27b"])
@pytest.mark.parametrize("sequences", [1, 7, 300])
def test_one_token_more_than_the_longest_context_does_not_fit(name: str, sequences: int) -> None:
    of = planned(name, tp=4)
    longest = memory.longest_context(of, sequences)
    assert longest

    def streams(tokens: int) -> int:
        found = capacity.max_streams(
            of.model, tokens, per_gpu_pool_bytes=float(of.kv_pool_per_gpu.value or 0), tp=4
        )
        return int(found.value or 0)

    assert streams(longest) >= sequences > streams(longest + 1)


def test_no_length_is_too_long_for_what_keeps_a_state_alone() -> None:
    assert memory.longest_context(planned("mamba-2.8b", tp=1), 4) is None


def test_not_one_token_fits_beside_weights_that_do_not() -> None:
    assert memory.longest_context(planned(tp=1), 1) == 0


def test_a_count_that_is_none_is_refused() -> None:
    with pytest.raises(SizingError, match="sequences"):
        memory.split(planned(), -1)
