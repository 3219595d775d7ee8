"""Many scenarios recorded on one device: here the CPU, and a tiny model."""

from __future__ import annotations

import json

import pytest

import core.trace.run
from core import record_all as module
from core.__main__ import main
from core.errors import InputFileError
from core.record_all import device_slug, record_all, scenario_files
from core.simulate import verify
from core.trace.run import read_run


@pytest.fixture
def clean(monkeypatch):
    """Code that is committed, as far as a run can tell."""
    for place in (core.trace.run, module):
        monkeypatch.setattr(place, "revision", lambda: "abc1234")


@pytest.fixture
def scenarios(tmp_path, tiny_dir):
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for name, prompt in (("one", [5, 6, 7]), ("two", [8, 9])):
        content = {
            "schema": "scenario/1",
            "name": name,
            "model": str(tiny_dir),
            "engine": {"num_blocks": 8, "block_size": 4},
            "requests": [{"id": "A", "prompt_tokens": prompt, "max_tokens": 3}],
        }
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def outcomes(scenarios, folder, device="CPU", **more):
    found = record_all(
        scenario_files(scenarios), folder, device,
        device_kind="cpu", dtype="float32", threads=1, **more,
    )  # fmt: skip
    return {outcome.name: (outcome.what, outcome.said) for outcome in found}


def test_each_is_recorded_verified_and_kept_the_next_time(scenarios, tmp_path, clean):
    folder = tmp_path / "runs" / "cpu"
    first = outcomes(scenarios, folder)
    assert {name: what for name, (what, _) in first.items()} == dict.fromkeys(
        ("one", "two"), "recorded"
    )
    run = read_run(folder / "one.run.json.gz")
    verify(run)
    assert run.header["label"] == "RECORDED" and run.header["source"]["device"] == "CPU"
    said = first["one"][1]
    assert said.startswith("   3 steps,     3 tokens, ") and " ms a step, float32, " in said
    (folder / "two.run.json.gz").write_bytes(b"cut off")
    second = outcomes(scenarios, folder)
    assert (second["one"][0], second["two"][0]) == ("kept", "recorded")
    assert {what for what, _ in outcomes(scenarios, folder, again=True).values()} == {"recorded"}


def test_what_other_code_or_another_scenario_gave_is_recorded_anew(
    scenarios, tmp_path, clean, monkeypatch
):
    outcomes(scenarios, tmp_path)
    content = json.loads((scenarios / "one.json").read_text())
    content["requests"][0]["max_tokens"] = 2
    (scenarios / "one.json").write_text(json.dumps(content))
    assert [what for what, _ in outcomes(scenarios, tmp_path).values()] == ["recorded", "kept"]
    for now in ("def5678", "abc1234+", None):
        monkeypatch.setattr(module, "revision", lambda now=now: now)
        assert "kept" not in [what for what, _ in outcomes(scenarios, tmp_path).values()]


def test_a_run_of_another_device_is_never_replaced(scenarios, tmp_path, clean):
    outcomes(scenarios, tmp_path)
    run = read_run(tmp_path / "one.run.json.gz")
    run.header["source"]["device"] = "NVIDIA A100-SXM4-80GB"
    run.write(tmp_path / "one.run.json.gz")
    found = outcomes(scenarios, tmp_path, again=True)
    assert found["one"][0] == "failed" and "NVIDIA A100-SXM4-80GB" in found["one"][1]
    assert found["two"][0] == "recorded"
    kept = read_run(tmp_path / "one.run.json.gz")
    assert kept.header["source"]["device"] == "NVIDIA A100-SXM4-80GB"


def test_one_that_fails_does_not_stop_the_others(scenarios, tmp_path, clean):
    (scenarios / "a.json").write_text('{"schema": "scenario/1", "engine": {"num_blocks": -1}}')
    found = outcomes(scenarios, tmp_path)
    assert [what for what, _ in found.values()] == ["failed", "recorded", "recorded"]
    assert "num_blocks" in found["a"][1]


def test_a_run_that_does_not_verify_is_not_written(scenarios, tmp_path, clean, monkeypatch):
    def lying(scenario, **settings):
        run = record(scenario, **settings)
        run.steps[1]["events"].pop()
        return run

    record = module.record
    monkeypatch.setattr(module, "record", lying)
    found = outcomes(scenarios, tmp_path)
    assert [what for what, _ in found.values()] == ["failed", "failed"], found
    assert not list(tmp_path.glob("*.run.json.gz"))


def test_the_command(scenarios, tmp_path, capsys):
    (scenarios / "two.json").write_text("{}")
    arguments = ["record", "--all", str(scenarios), "--device", "cpu", "--dtype", "float32"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("2 scenarios on CPU, into ")
    assert shown.endswith("1 recorded, 0 kept, 1 failed\n")
    assert main(arguments) == 2
    assert "name the folder to write to with -o" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a scenario and its -o FILE, or --all"),
        (["x.json"], "name a scenario and its -o FILE, or --all"),
        (["x.json", "-o", "y", "--again"], "--again goes with --all"),
        (["x.json", "--all"], "not both"),
        (["--all", "nowhere", "-o", "y"], "has no scenario"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["record", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "y").exists()


def test_a_folder_has_a_devices_name():
    assert device_slug("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    assert device_slug("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb"
    assert device_slug("  ") == "unnamed"


def test_a_folder_without_scenarios_is_refused(tmp_path):
    with pytest.raises(InputFileError, match="has no scenario"):
        scenario_files(tmp_path)
