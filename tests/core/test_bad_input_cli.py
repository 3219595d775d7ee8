"""Bad input through the command line, in a process of its own: one line and exit code 2."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.scenario import Scenario
from core.simulate import simulate
from tests.core.drive import ROOT, assert_one_error, cli, req, scenario

GOOD = scenario(req("A", [1, 2, 3, 4, 5], max_tokens=3), req("B", [1, 2, 3, 4, 6], max_tokens=2))


def good_run() -> dict:
    return simulate(Scenario.from_dict(GOOD)).to_dict()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"[" * 100_000, "nested"),
        (json.dumps(GOOD | {"colour": "red\nblue"}).encode(), "colour"),
        (json.dumps(scenario(num_blocks=10**30)).encode(), "engine.num_blocks"),
        (
            json.dumps(scenario(kv_dtype={"format": "int8", "layers": {"0": 4}})).encode(),
            "engine.kv_dtype.layers.0",
        ),
        (json.dumps(scenario(req("A", [1]), req("A", [1]))).encode(), "requests[1].id"),
        (json.dumps(scenario({"id": "A", "prompt": "x" * 10_000_000})).encode(), "prompt"),
        (b'{"schema":"scenario/1","engine":{"watermark":NaN}}', "NaN"),
        (b'{"schema":"scenario/1","name":"\\ud800"}', "Unicode"),
        (json.dumps(GOOD | {"schema": "scenario/9"}).encode(), "schema"),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else "",
)
def test_simulate_refuses_a_bad_scenario_in_one_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(content)
    line = assert_one_error(cli("simulate", path, "--json"), words)
    assert len(line) < 600


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (gzip.compress(json.dumps(good_run()).encode())[:-9], "truncated"),
        (gzip.compress(json.dumps(good_run()).encode()) + b"x", "something follows"),
        (json.dumps({**good_run(), "schema": "run/9"}).encode(), "run/9"),
        (json.dumps(GOOD).encode(), "not a run"),
        (gzip.compress(b"[" * 1_000_000), "nested"),
        (json.dumps({**good_run(), "steps": good_run()["steps"][1:]}).encode(), "step 1"),
    ],
    ids=lambda value: "file" if isinstance(value, bytes) else None,
)
@pytest.mark.parametrize("option", [[], ["--verify"], ["--state", "--json"]], ids=str)
def test_replay_refuses_a_bad_run_in_one_line(
    tmp_path: Path, content: bytes, words: str, option: list[str]
) -> None:
    path = tmp_path / "x.run.json.gz"
    path.write_bytes(content)
    assert_one_error(cli("replay", path, *option), words, "x.run.json.gz")


def test_replay_of_events_that_do_not_fit_is_one_line(tmp_path: Path) -> None:
    content = good_run()
    freed = next(e for r in content["steps"] for e in r["events"] if e["type"] == "blocks_freed")
    freed["blocks"] = [*freed["blocks"], freed["blocks"][0]]
    path = tmp_path / "x.run.json.gz"
    path.write_bytes(json.dumps(content).encode())
    assert_one_error(cli("replay", path, "--state"), "step ", "blocks_freed")
    done = cli("replay", path, "--verify")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["simulate", "replay", "record"])
@pytest.mark.parametrize("name", ["missing.json", "folder"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "folder").mkdir()
    output = ["-o", tmp_path / "out"] if command == "record" else []
    assert_one_error(cli(command, tmp_path / name, *output), "cannot read")


def test_output_into_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(GOOD))
    assert_one_error(cli("simulate", path, "-o", tmp_path / "no" / "x.gz"), "cannot write")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("option", [[], ["--json"]], ids=str)
def test_standard_output_on_a_full_disk_is_one_line(tmp_path: Path, option: list[str]) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(GOOD))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "core", "simulate", str(path), *option],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ") and "No space left" in done.stderr


def test_a_closed_standard_output_gives_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(GOOD))
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m core simulate '{path}' >&-"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr


def test_a_file_name_that_is_not_utf_8_is_printed_all_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            os.fsencode(sys.executable),
            b"-m",
            b"core",
            b"simulate",
            os.fsencode(tmp_path) + b"/\xff",
        ],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert b"Traceback" not in done.stderr


# ---- with torch --------------------------------------------------------------------------------


@pytest.fixture
def tiny_llm(the_llm):
    """With a fresh engine, whatever an earlier test did to it."""
    the_llm.reset()
    return the_llm


@pytest.fixture(scope="module")
def the_llm(tmp_path_factory: pytest.TempPathFactory):
    """`LLM` on a tiny random checkpoint."""
    for module in ("torch", "tokenizers", "safetensors", "numpy"):
        pytest.importorskip(module)
    from core.llm import LLM
    from tests.model import tiny_llama

    folder = tiny_llama.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")
    return LLM(folder, dtype="float32", device="cpu", block_size=4, num_blocks=16, max_model_len=48)


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ([""], "empty"),
        ([[]], "empty"),
        ([[5], ""], "empty"),
        ([list(range(3, 51))], "too long"),
        ([list(range(3, 51)) * 100], "too long"),
        ("", "empty"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_llm_refuses_what_it_can_never_serve_before_anything_runs(
    tiny_llm, prompts: object, words: str
) -> None:
    """Trap 19: a ValueError that reaches the caller at once; the engine goes on afterwards."""
    steps, requests = tiny_llm.engine.num_steps, len(tiny_llm.engine.requests)
    with pytest.raises(ValueError, match=words):
        tiny_llm.generate(prompts)
    assert (tiny_llm.engine.num_steps, len(tiny_llm.engine.requests)) == (steps, requests)
    assert tiny_llm.engine.done


def test_llm_refuses_a_request_larger_than_its_pool_with_the_numbers(tiny_llm) -> None:
    """Trap 18: 40 prompt tokens share 10 blocks, and each of five answers needs two more."""
    from core.outputs import SamplingParams

    with pytest.raises(ValueError, match=r"20 needed, 16 available"):
        tiny_llm.generate([list(range(3, 43))], SamplingParams(n=5, max_tokens=8))
    assert tiny_llm.engine.done


@pytest.mark.parametrize(
    "params",
    [
        {"max_tokens": 0},
        {"max_tokens": -3},
        {"n": 0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"seed": -1},
        {"stop_token_ids": (-1,)},
    ],
    ids=str,
)
def test_llm_refuses_impossible_sampling_parameters(tiny_llm, params: dict) -> None:
    from core.errors import KVScopeError
    from core.outputs import SamplingParams

    with pytest.raises((KVScopeError, ValueError)):
        tiny_llm.generate([[3, 4]], SamplingParams(**params))
    assert tiny_llm.engine.done


@pytest.mark.parametrize(
    "prompt", ["a\ud800b", [320], [10**9], [-1], [2**70], ["x"], [1.5], [None]], ids=repr
)
def test_llm_refuses_a_prompt_that_the_model_cannot_read(tiny_llm, prompt: object) -> None:
    """A lone surrogate, ids outside the vocabulary of 320, or no ids at all: one clear error, and
    the same engine serves the next prompt."""
    from core.errors import KVScopeError

    with pytest.raises((KVScopeError, ValueError)):
        tiny_llm.generate([prompt])
    assert tiny_llm.engine.done
    (after,) = tiny_llm.generate([[3, 4, 5]])
    assert len(after.outputs[0].token_ids) >= 1


def test_a_cache_s_format_that_is_no_json_is_refused_in_one_line() -> None:
    line = assert_one_error(cli("generate", "hello", "--kv-dtype", '{"format"}'), "not JSON")
    assert "_kv_dtype" not in line
