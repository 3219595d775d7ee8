"""The golden cases, through the door that `calc` uses: names, inputs, values and units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.sizing import calls, catalog
from core.sizing.errors import SizingError

Json = dict[str, Any]

FILE = Path(__file__).parents[1] / "fixtures" / "sizing_golden.json"
CASES: list[Json] = json.loads(FILE.read_text("utf-8"))["cases"]


def close_enough(value: Any, case: Json) -> bool:
    kind, size = case["tolerance"]["kind"], case["tolerance"]["value"]
    expected = case["expected"]
    return abs(value - expected) <= (size if kind == "absolute" else size * abs(expected))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: Json) -> None:
    result = calls.call(case["function"], case["inputs"]).result
    assert close_enough(result.value, case), (result.value, case["expected"])
    assert result.unit == case["unit"]
    if case["tolerance"] == {"kind": "absolute", "value": 0}:
        assert type(result.value) is int
    assert result.steps or case["function"] == "param_count"


def test_there_are_as_many_as_there_were() -> None:
    assert len(CASES) == 115 and len({case["id"] for case in CASES}) == 115


def test_as_a_batch_they_are_the_same() -> None:
    """The file itself is a batch: what it says beside id, function and inputs is left alone."""
    answers = calls.batch(json.loads(FILE.read_text("utf-8")))
    assert list(answers) == [case["id"] for case in CASES]
    for case in CASES:
        answer = answers[case["id"]]
        assert not isinstance(answer, SizingError) and close_enough(answer.value, case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "model" in case["inputs"]], ids=lambda case: case["id"]
)
def test_the_config_gives_what_the_name_gives(case: Json) -> None:
    """No number comes from a model's name."""
    inputs = dict(case["inputs"])
    inputs["config"] = catalog.entries()[inputs.pop("model")].config
    result = calls.call(case["function"], inputs).result
    assert close_enough(result.value, case) and result.unit == case["unit"]


STATED = ("n_layers", "n_kv_heads", "d_head", "d_latent", "d_rope", "window", "n_local_layers")


@pytest.mark.parametrize(
    ("case", "field"),
    [
        (case, field)
        for case in CASES
        if "model" in case["inputs"]
        for field in STATED
        if case["inputs"].get(field) is not None
    ],
    ids=lambda value: value if isinstance(value, str) else value["id"],
)
def test_geometry_that_contradicts_the_model_is_refused(case: Json, field: str) -> None:
    inputs = {**case["inputs"], field: case["inputs"][field] + 1}
    with pytest.raises(SizingError, match=f"^inputs.{field}: says {inputs[field]}, but "):
        calls.call(case["function"], inputs)
