"""The commands that load the real model; skipped where it has not been fetched."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from core.trace.run import Run, read_run
from tests.core.drive import assert_one_error, cli, scenario


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "scenario.json"


pytestmark = pytest.mark.model


def test_generate_json_has_the_keys_of_the_contract() -> None:
    done = cli("generate", "The sky is", "--max-tokens", "4", "--dtype", "float32", "--json")
    answer = json.loads(ok(done))
    assert list(answer) == [
        "text",
        "token_ids",
        "num_prompt_tokens",
        "num_cached_tokens",
        "ttft_s",
        "itl_s",
        "finish_reason",
        "source",
    ]
    assert isinstance(answer["text"], str) and len(answer["token_ids"]) == 4
    assert answer["num_prompt_tokens"] == 3 and answer["num_cached_tokens"] == 0
    assert isinstance(answer["ttft_s"], float) and len(answer["itl_s"]) == 3
    assert answer["finish_reason"] == "max_tokens"
    assert {"device", "dtype", "model", "model_sha256"} <= set(answer["source"])
    assert answer["source"]["dtype"] == "float32"


def test_generate_takes_the_settings_of_sampling_and_names_likely_tokens() -> None:
    done = cli(
        *("generate", "1, 2, 3, 4, 5,", "--dtype", "float32", "--max-tokens", "20", "--json"),
        *("--temperature", "0.7", "--top-k", "9", "--top-p", "0.9", "--min-p", "0.01"),
        *("--repetition-penalty", "1.01", "--seed", "5", "--stop", "8", "--stop", " 9"),
        *("--logprobs", "2"),
    )
    answer = json.loads(ok(done))
    assert answer["text"] == " 6, 7, " and answer["finish_reason"] == "stop_string"
    assert [entry["token"] for entry in answer["logprobs"]] == answer["token_ids"]
    assert all(len(entry["top"]) == 2 for entry in answer["logprobs"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--top-k", "-1"], "top_k"),
        (["--top-p", "0"], "top_p"),
        (["--min-p", "2"], "min_p"),
        (["--repetition-penalty", "0"], "repetition_penalty"),
        (["--stop", ""], "stop"),
        (["--logprobs", "-1", "--json"], "logprobs"),
        (["--logprobs", "1"], "--json"),
        (["--max-tokens", "0"], "--max-tokens"),
        (["--temperature", "nan"], "temperature"),
        (["--temperature", "-1"], "temperature"),
        (["--seed", "-1"], "seed"),
        (["--threads", "0"], "threads"),
        (["--model", "no-such-model"], "no-such-model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_generate_refuses_impossible_settings_in_one_line(arguments: list[str], word: str) -> None:
    assert_one_error(cli("generate", "hi", *arguments), word)


@pytest.mark.slow
def test_an_empty_or_overlong_prompt_is_one_line() -> None:
    assert_one_error(cli("generate", ""), "empty")
    assert_one_error(cli("generate", "-", input="word " * 20_000, stdin=None), "too long")


@pytest.mark.slow
def test_record_writes_a_run_whose_tokens_can_be_verified(source: Path, tmp_path: Path) -> None:
    source.write_text(
        json.dumps(
            scenario({"id": "A", "prompt": "The sky is", "max_tokens": 4, "n": 2})
            | {"model": "smollm2-135m-instruct"}
        )
    )
    path = tmp_path / "x.run.json.gz"
    ok(cli("record", source, "-o", path, "--dtype", "float32", "--device", "cpu"))
    run: Run = read_run(path)
    assert run.header["label"] == "RECORDED" and set(run.results) == {"A#0", "A#1"}
    assert all(isinstance(result["text"], str) for result in run.results.values())
    done = cli("replay", path, "--verify", "--tokens", "--json")
    assert json.loads(ok(done)) == {"verified": True, "steps": 4, "tokens": True}
