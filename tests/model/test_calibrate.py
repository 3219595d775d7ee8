"""The machine's ceilings: measured small here, kept, and not used under other conditions."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from core.__main__ import main
from core.model import calibrate
from core.model.calibrate import load, measure, store
from core.model.errors import ModelError
from core.model.model_runner import ModelRunner
from tests.model.tiny_llama import write_checkpoint

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def measured():
    return measure(CPU, array_bytes=16 << 20, size=192, repeats=3)


def test_rates_are_in_order_and_plausible(measured):
    assert measured.device == "CPU"
    assert measured.threads == torch.get_num_threads()
    rates = [measured.read_bytes_per_s, *measured.matmul_flops_per_s.values()]
    for rate in rates:
        assert 0 < rate.low <= rate.median <= rate.high
    # Wider than any machine that runs this: a mistake in the units is off by a thousand.
    assert 1e8 < measured.read_bytes_per_s.median < 1e13
    for rate in measured.matmul_flops_per_s.values():
        assert 1e8 < rate.median < 1e14
    assert {"float32", "bfloat16"} <= set(measured.matmul_flops_per_s)


def test_a_rate_is_units_by_time(monkeypatch):
    seconds = iter([0.5, 0.25, 1.0])
    monkeypatch.setattr(calibrate, "_cpu_seconds", lambda work: next(seconds))
    rate = calibrate._rate(lambda: None, 10, CPU, 3)
    assert (rate.low, rate.median, rate.high) == (10, 20, 40)


def test_the_better_product_counts(measured):
    rate = measured.matmul_flops_per_s["float32"]
    faster = dataclasses.replace(rate, median=rate.median * 2)
    both = dataclasses.replace(
        measured, matmul_flops_per_s={"float32": rate, "float32 packed": faster}
    )
    assert both.best_flops_per_s("float32") == faster.median


def test_what_is_stored_is_loaded(measured, cache):
    assert load(CPU) is None
    path = store(measured)
    assert path == cache / "calibration.json"
    assert load(CPU) == measured
    raw = json.loads(path.read_text())
    assert raw["schema"] == "calibration/1"
    assert set(raw["devices"]) == {"CPU"}


def test_another_device_s_stays(measured):
    store(dataclasses.replace(measured, device="some GPU"))
    path = store(measured)
    assert set(json.loads(path.read_text())["devices"]) == {"CPU", "some GPU"}


@pytest.mark.parametrize(
    "changes",
    [
        {"processor": "another"},
        {"threads": 99},
        {"torch": "1.0"},
        {"kernels": "x"},
        {"device": "x"},
    ],
)
def test_a_stale_one_is_not_used(measured, changes):
    store(dataclasses.replace(measured, **changes))
    assert load(CPU) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": "calibration/2", "devices": {}}', '{"schema": 1}']
)
def test_a_damaged_file_is_as_good_as_none(cache, measured, text):
    cache.mkdir()
    (cache / "calibration.json").write_text(text)
    assert load(CPU) is None
    store(measured)
    assert load(CPU) == measured


def test_damaged_rates_are_not_used(measured):
    path = store(measured)
    for broken in (None, {}, {"median": 1, "low": 2, "high": 3}, {"median": "x"}):
        raw = json.loads(path.read_text())
        raw["devices"]["CPU"]["read_bytes_per_s"] = broken
        path.write_text(json.dumps(raw))
        assert load(CPU) is None


def test_a_cache_that_cannot_be_written_is_one_sentence(measured, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="KV_SCOPE_CACHE"):
        store(measured)


def test_the_command(measured, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(calibrate, "measure", lambda device: measured)
    assert main(["calibrate"]) == 0
    shown = capsys.readouterr().out
    assert "GB/s" in shown and "GFLOP/s" in shown and "FLOP/byte" in shown
    assert main(["calibrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "CPU"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path / "file"))
    assert main(["calibrate"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_a_run_of_a_calibrated_machine_carries_its_ceilings(measured, tmp_path):
    checkpoint = write_checkpoint(tmp_path / "tiny")
    assert "ceilings" not in ModelRunner(checkpoint, "float32").source
    store(measured)
    ceilings = ModelRunner(checkpoint, "float32").source["ceilings"]
    assert ceilings["read_bytes_per_s"] == round(measured.read_bytes_per_s.median)
    assert ceilings["flops_per_s"] == round(measured.best_flops_per_s("float32"))
    assert measured.ceilings("float8") is None
