"""Quantised caches over HTTP: scenarios with their own format, beside the live engine's pool."""

from __future__ import annotations

from typing import Any

import pytest

from core.client import EngineRefusedError
from core.simulate import verify
from tests.server.conftest import Served
from tests.server.test_engine_http import PROMPT, as_file, built, scenario

MIX = {"format": "int8", "scale": "per_head_static", "layers": {"1": "int4", "2": "model"}}


def asked(served: Served, kv_dtype: Any, **engine: Any) -> dict[str, Any]:
    request = {"id": "A", "prompt_tokens": PROMPT, "max_tokens": 5}
    return scenario(served, request, kv_dtype=kv_dtype, **engine)


def test_a_scenario_has_its_own_format_and_the_live_pool_keeps_its(engine: Served) -> None:
    before = engine.client().models()[0]
    builder, kinds, _ = built(engine.client().scenario(asked(engine, MIX, measure_kv_error=True)))
    run = as_file(builder)
    assert kinds[-1] == "end" and builder.end is not None and builder.end["end"] == "finished"
    assert run.header["kv_format"]["layers"] == ["int8", "int4", "model"]
    assert run.header["kv_format"]["calibration"] == "text"
    per_token = run.header["kv_bytes_per_token"]
    assert per_token < before["kv_bytes_per_token"]
    fixed = run.header["kv_format"]["scale_bytes"]
    assert run.header["kv_cache_bytes"] == 32 * 4 * per_token + fixed
    errors = [step["kv_error"] for step in run.steps]
    assert all(len(error["key"]) == 3 and not any(error["key"][2]) for error in errors)
    assert all(all(error["key"][1]) for error in errors)
    verify(run)
    after = engine.client().models()[0]
    assert after["kv_cache_bytes"] == before["kv_cache_bytes"]


@pytest.mark.parametrize(
    ("kv_dtype", "field"),
    [
        ("fp4", "engine.kv_dtype"),
        (None, "engine.kv_dtype"),
        ({}, "engine.kv_dtype"),
        ({"format": "int8", "scale": "per_channel"}, "engine.kv_dtype.scale"),
        ({"format": "model", "scale": "per_tensor"}, "engine.kv_dtype.scale"),
        ({"format": "int8", "calibration": "text"}, "engine.kv_dtype.calibration"),
        ({"format": "int8", "layers": {"3-1": "model"}}, "engine.kv_dtype.layers"),
        ({"format": "int8", "layers": {"0": "model", "0-1": "int4"}}, "engine.kv_dtype.layers"),
        ({"format": "int8", "layers": {"-1": "model"}}, "engine.kv_dtype.layers"),
        ({"format": "int8", "layers": {"0": "int2"}}, "engine.kv_dtype.layers.0"),
        ({"format": "int8", "group_size": 8}, "engine.kv_dtype.group_size"),
    ],
    ids=str,
)
def test_what_is_no_format_is_refused_with_the_field(
    engine: Served, kv_dtype: Any, field: str
) -> None:
    with pytest.raises(EngineRefusedError) as refused:
        built(engine.client().scenario(asked(engine, kv_dtype)))
    assert field in str(refused.value)


def test_a_layer_that_the_model_has_not_is_told_its_reader(engine: Served) -> None:
    builder, _, _ = built(
        engine.client().scenario(asked(engine, {"format": "int8", "layers": {"3": "model"}}))
    )
    assert builder.end is not None and builder.end["end"] == "error"
    assert "there is no layer 3: the model has 3" in builder.end["message"]
    assert engine.client().health()["status"] == "ready"
