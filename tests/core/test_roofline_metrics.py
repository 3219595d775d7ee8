"""A run's steps on a roofline, from counts and times that can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from core.trace import roofline_metrics

Json = dict[str, Any]
TOP = {"flops_per_s": 1e9, "read_bytes_per_s": 1e8, "dtype": "bfloat16", "date": "2026-01-01"}


def share(tokens: int, computed: int = 0, cached: int = 0) -> Json:
    return {
        "num_scheduled_tokens": tokens,
        "num_computed_tokens": computed,
        "num_cached_tokens": cached,
    }


def step(scheduled: Json, *, arrived: Json | None = None, **timing: float) -> Json:
    work = {
        "linear_flops": 600, "logits_flops": 100, "attention_flops": 300,
        "weight_bytes": 350, "logits_bytes": 50, "kv_read_bytes": 80, "kv_write_bytes": 20,
        "flops": 1000, "bytes": 500,
    }  # fmt: skip
    events = []
    for request, (prompt, sequences) in (arrived or {}).items():
        events.append(
            {
                "type": "request_arrived",
                "request": request,
                "num_prompt_tokens": prompt,
                "sequences": sequences,
            }
        )
    times = {"forward_us": 10.0, "linear_us": 5.0, "attention_us": 2.0, "other_us": 3.0}
    return {"scheduled": scheduled, "events": events, "work": work, "timing": {**times, **timing}}


def run(*steps: Json, ceilings: Json | None = TOP) -> Json:
    source: Json = {"model": "m"}
    if ceilings is not None:
        source["ceilings"] = ceilings
    return {"header": {"source": source}, "steps": list(steps)}


def test_a_part_is_its_work_over_its_own_time() -> None:
    found = run(step({"A": share(4)}, arrived={"A": (4, ["A"])}, schedule_us=1.0, sample_us=2.0))
    (row,) = roofline_metrics.steps(found)
    assert (row["step"], row["tokens"], row["sequences"], row["step_us"]) == (0, 4, 1, 13.0)
    whole, matrices, attention = (row["parts"][n] for n in ("step", "matrices", "attention"))
    assert (matrices["flops"], matrices["bytes"], matrices["us"]) == (700, 400, 5.0)
    assert (attention["flops"], attention["bytes"], attention["us"]) == (300, 100, 2.0)
    assert (whole["intensity"], whole["rate"]) == (2.0, pytest.approx(1e8))
    assert whole["mfu"] == pytest.approx(0.1) and whole["mbu"] == pytest.approx(0.5)
    assert attention["mbu"] == pytest.approx(100 / 2e-6 / 1e8)


def test_without_ceilings_there_are_points_and_no_shares() -> None:
    found = run(step({"A": share(1, 4)}, arrived={"A": (4, ["A"])}), ceilings=None)
    (row,) = roofline_metrics.steps(found)
    assert roofline_metrics.ceilings(found) is None
    assert row["parts"]["step"]["mfu"] is None and row["parts"]["step"]["rate"] > 0


def test_a_step_is_known_by_whose_tokens_it_computes() -> None:
    arrivals = {"A": (4, ["A"]), "B": (6, ["B#0", "B#1"])}
    found = run(
        step({"A": share(4)}, arrived=arrivals),
        step({"A": share(1, 4), "B#0": share(2, 0, 4)}),
        step({"A": share(1, 5), "B#1": share(1, 6)}),
        step({"A#2": share(1, 3)}),  # forked off later: its prompt is that of its request
    )
    assert [row["kind"] for row in roofline_metrics.steps(found)] == [
        "prefill",
        "both",
        "decode",
        "prefill",
    ]


def test_steps_without_work_or_time_have_no_point() -> None:
    idle = step({})
    idle["work"] = dict.fromkeys(idle["work"], 0)
    untimed = step({"A": share(1)})
    del untimed["timing"]
    no_attention = step({"A": share(1)}, attention_us=0.0)
    found = run(idle, untimed, no_attention)
    (row,) = roofline_metrics.steps(found)
    assert row["step"] == 2 and set(row["parts"]) == {"step", "matrices"}
