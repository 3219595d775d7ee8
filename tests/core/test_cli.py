"""The commands: arguments, output, exit codes, and what they never load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.scenario import Scenario
from core.simulate import simulate, verify
from core.trace.run import parse_run, read_run
from core.version import VERSION
from tests.core.drive import ROOT, Json, assert_one_error, cli, req, scenario

SCENARIO = scenario(
    req("A", [1, 2, 3, 4, 5], max_tokens=3),
    req("B", [1, 2, 3, 4, 9], n=2, max_tokens=2, arrive_step=1),
    num_blocks=8,
)
STATE = {
    "block_tables": dict,
    "ref_counts": dict,
    "free_order": list,
    "cached": dict,
    "tree": list,
    "waiting": list,
    "running": list,
    "outputs": dict,
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(SCENARIO))
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "x.run.json.gz"
    simulate(Scenario.from_dict(SCENARIO)).write(path)
    return path


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def without_times(content: Json) -> Json:
    """A run without what differs from one process to the next."""
    content = json.loads(json.dumps(content))
    for part in ("recorded_at", "versions", "revision", "host"):
        del content["header"][part]
    for record in content["steps"]:
        record.pop("timing")
    return content


def check_integers(value: Any) -> None:
    assert type(value) is int and value >= 0


def check_step(record: Json, index: int, with_state: bool) -> None:
    keys = ["step", "scheduled", "events", "timing", "usage"]
    assert list(record) == [*keys, *(["state"] if with_state else [])]
    assert record["step"] == index
    for share in record["scheduled"].values():
        assert list(share) == ["num_scheduled_tokens", "num_computed_tokens", "num_cached_tokens"]
        for number in share.values():
            check_integers(number)
    assert list(record["timing"]) == ["schedule_us", "forward_us", "sample_us"]
    assert all(isinstance(time, float) for time in record["timing"].values())
    assert list(record["usage"]) == ["free", "cached", "in_use"]
    assert sum(record["usage"].values()) == 8
    for event in record["events"]:
        assert isinstance(event["type"], str)
    if with_state:
        check_state(record["state"])


def check_state(state: Json) -> None:
    assert {part: type(value) for part, value in state.items()} == STATE
    for entry in state["cached"].values():
        assert set(entry) == {"tokens", "key", "parent_key", "last_used", "lock_ref", "hits"}
    for node in state["tree"]:
        assert set(node) == {"id", "parent", "tokens", "blocks", "lock_ref", "last_used"}
    for key in (*state["ref_counts"], *state["cached"]):
        assert key.isdecimal()
    assert sum(state["ref_counts"].values()) == sum(map(len, state["block_tables"].values()))


# ---- simulate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("with_state", [False, True])
def test_simulate_json_has_the_shape_of_the_contract(source: Path, with_state: bool) -> None:
    option = ["--state"] if with_state else []
    content = json.loads(good(cli("simulate", source, "--json", *option)))
    assert list(content) == ["schema", "header", "steps", "results"]
    assert content["schema"] == "run/1"
    header = content["header"]
    required = {"scenario", "label", "source", "versions", "revision", "recorded_at", "host"}
    assert required <= set(header)
    assert header["label"] == "SIMULATED"
    assert header["source"] == {
        "device": None,
        "dtype": None,
        "model": "none",
        "model_sha256": None,
    }
    assert header["scenario"] == Scenario.from_dict(SCENARIO).to_dict()
    assert len(content["steps"]) == 3
    for index, record in enumerate(content["steps"]):
        check_step(record, index, with_state)
    assert set(content["results"]) == {"A", "B#0", "B#1"}
    parse_run(json.dumps(content).encode())


def test_state_adds_the_state_and_changes_nothing_else(source: Path) -> None:
    plain = json.loads(good(cli("simulate", source, "--json")))
    full = json.loads(good(cli("simulate", source, "--json", "--state")))
    for record in full["steps"]:
        del record["state"]
    assert without_times(full) == without_times(plain)


def test_simulate_prints_every_step_with_reasons_in_words(source: Path) -> None:
    lines = good(cli("simulate", source)).splitlines()
    assert lines[1] == "SIMULATED: real scheduler and block manager, scripted tokens, no model"
    assert [line.split(":")[0] for line in lines if line.startswith("step ")] == [
        "step 0",
        "step 1",
        "step 2",
    ]
    assert any("[max_tokens] It has as many output tokens" in line for line in lines)
    assert "A ended: max_tokens" in lines
    with_state = good(cli("simulate", source, "--state")).splitlines()
    for part in STATE:
        assert sum(line.startswith(f"    {part}: ") for line in with_state) == 3


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_output_writes_a_run_that_can_be_read_and_verified(
    source: Path, tmp_path: Path, option: str
) -> None:
    path = tmp_path / "out.run.json.gz"
    printed = json.loads(good(cli("simulate", source, option, path, "--json")))
    run = read_run(path)
    verify(run)
    assert json.loads(json.dumps(run.to_dict())) == printed
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_simulate_runs_a_scenario_that_names_a_model_without_it(source: Path) -> None:
    source.write_text(json.dumps(SCENARIO | {"model": "/no/such/model"}))
    content = json.loads(good(cli("simulate", source, "--json")))
    assert content["header"]["scenario"]["model"] == "none"


def test_simulate_of_nothing_has_no_steps(source: Path) -> None:
    source.write_text('{"schema": "scenario/1"}')
    content = json.loads(good(cli("simulate", source, "--json")))
    assert content["steps"] == [] and content["results"] == {}


# ---- replay ------------------------------------------------------------------------------------


def test_replay_gives_back_what_was_recorded(recording: Path) -> None:
    run = read_run(recording)
    assert json.loads(good(cli("replay", recording, "--json"))) == run.to_dict()


def test_replay_state_comes_from_the_events_alone(recording: Path, source: Path) -> None:
    """The file holds no state; what replay adds is what the engine itself had."""
    assert all("state" not in record for record in read_run(recording).steps)
    replayed = json.loads(good(cli("replay", recording, "--json", "--state")))
    simulated = json.loads(good(cli("simulate", source, "--json", "--state")))
    assert without_times(replayed) == without_times(simulated)


def test_replay_without_state_leaves_a_recorded_state_out(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.run.json.gz"
    good(cli("simulate", source, "--state", "-o", path))
    assert all("state" in record for record in read_run(path).steps)
    assert "state" not in json.loads(good(cli("replay", path, "--json")))["steps"][0]


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("step", [0, 2])
def test_replay_of_one_step(recording: Path, step: int, with_state: bool) -> None:
    option = ["--state"] if with_state else []
    record = json.loads(good(cli("replay", recording, "--step", str(step), "--json", *option)))
    check_step(record, step, with_state)
    lines = good(cli("replay", recording, "--step", str(step), *option)).splitlines()
    assert lines[0].startswith(f"step {step}: ")
    assert sum(line.startswith("step ") for line in lines) == 1
    assert any(line.startswith("    free_order: ") for line in lines) == with_state


@pytest.mark.parametrize("step", ["3", "-1", "99999999999999999999"])
def test_a_step_outside_the_run_is_one_error(recording: Path, step: str) -> None:
    assert_one_error(cli("replay", recording, f"--step={step}"), "the run has 3 steps")


def test_verify_says_what_it_verified(recording: Path) -> None:
    said = good(cli("replay", recording, "--verify"))
    assert said.startswith("verified: 3 steps, scheduler and blocks agree (texts, times")
    answer = json.loads(good(cli("replay", recording, "--verify", "--json")))
    assert answer == {"verified": True, "steps": 3, "tokens": False}


def test_tokens_goes_with_verify(recording: Path) -> None:
    assert_one_error(cli("replay", recording, "--tokens"), "--verify")


# ---- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["simulate"],
        ["simulate", "a", "b"],
        ["simulate", "a", "--stat3"],
        ["simulate", "a", "--output"],
        ["replay"],
        ["replay", "a", "--step", "two"],
        ["replay", "a", "--step", "1.5"],
        ["record", "a"],
        ["record", "-o", "b"],
        ["generate"],
        ["generate", "x", "--max-tokens", "many"],
        ["generate", "x", "--dtype", "int3"],
        ["generate", "x", "--device", "abacus"],
        ["generate", "x", "--prefix-cache", "maybe"],
        ["models", "frobnicate"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_one_line_with_a_way_to_help(arguments: list[str]) -> None:
    assert_one_error(cli(*arguments), "--help")


@pytest.mark.parametrize(
    "command", ["simulate", "replay", "record", "generate", "models", "size", "calc", "gpus"]
)
def test_each_command_has_help(command: str) -> None:
    assert good(cli(command, "--help")).startswith(f"usage: python -m core {command}")
    assert command in good(cli("--help"))


def test_the_version_is_printed() -> None:
    assert good(cli("--version")) == f"{VERSION}\n"


def test_record_needs_a_model(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.run.json.gz"
    assert_one_error(cli("record", source, "-o", target), "none")
    assert not target.exists()


def test_record_of_an_unknown_model_is_one_line(source: Path, tmp_path: Path) -> None:
    source.write_text(json.dumps(SCENARIO | {"model": "no-such-model"}))
    assert_one_error(cli("record", source, "-o", tmp_path / "x.run.json.gz"), "no-such-model")


def test_models_lists_the_catalogue() -> None:
    rows = json.loads(good(cli("models", "--json")))
    shown = good(cli("models"))
    for row in rows:
        assert list(row)[:6] == ["name", "title", "license", "weights_bytes", "path", "engine"]
        assert row["name"] in shown
    assert "smollm2-135m-instruct" in [row["name"] for row in rows if row["engine"]]


def test_fetching_an_unknown_model_is_one_line() -> None:
    assert_one_error(cli("models", "fetch", "no-such-model"), "no-such-model")


def test_generate_refuses_bytes_that_are_not_utf_8() -> None:
    done = cli("generate", "-", input=b"\xff\xfe", text=False, stdin=None)
    assert (done.returncode, done.stdout) == (2, b"")
    assert len(done.stderr.splitlines()) == 1 and b"UTF-8" in done.stderr


# ---- pipes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["", "--json", "--state"])
def test_a_reader_that_goes_away_is_no_error(source: Path, option: str) -> None:
    """Much more is printed than a pipe holds, and the reader takes five bytes."""
    long = scenario(*(req(f"R{i}", [i] * 30, max_tokens=30) for i in range(60)), num_blocks=40)
    source.write_text(json.dumps(long))
    command = f"'{sys.executable}' -m core simulate '{source}' {option} | head -c 5"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.encode()) == 5


# ---- torch -------------------------------------------------------------------------------------

_LOADED = """
import sys
from core.__main__ import main
code = main(sys.argv[1:])
heavy = {"torch", "triton", "transformers", "tokenizers", "numpy", "streamlit", "plotly", "pandas"}
print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


def arguments_of(command: str, source: Path, recording: Path) -> list[str]:
    return {
        "simulate": ["simulate", str(source), "--state"],
        "replay": ["replay", str(recording), "--state"],
        "verify": ["replay", str(recording), "--verify"],
        "models": ["models"],
        "record none": ["record", str(source), "-o", str(source.parent / "x")],
    }[command]


@pytest.mark.parametrize("command", ["simulate", "replay", "verify", "models"])
def test_neither_torch_nor_a_web_framework_is_loaded(
    command: str, source: Path, recording: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *arguments_of(command, source, recording)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "0 []\n"


@pytest.fixture
def no_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which torch and its like are not installed."""
    folder = tmp_path / "shadow"
    for name in ("torch", "triton", "tokenizers", "safetensors", "gguf", "numpy"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(
            f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        )
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize("command", ["simulate", "replay", "verify", "models"])
def test_what_needs_no_model_works_without_torch(
    command: str, source: Path, recording: Path, no_torch: dict[str, str]
) -> None:
    assert good(cli(*arguments_of(command, source, recording), env=no_torch))


def test_what_needs_torch_says_so_in_one_line(
    source: Path, tmp_path: Path, no_torch: dict[str, str]
) -> None:
    source.write_text(json.dumps(SCENARIO | {"model": "smollm2-135m-instruct"}))
    for arguments in (["generate", "hi"], ["record", source, "-o", tmp_path / "x"]):
        assert_one_error(cli(*arguments, env=no_torch), "not installed", "pip install")
