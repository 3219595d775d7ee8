"""Scenario files: bytes that are no strict JSON, hostile nesting, and absurd sizes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputFileError, KVScopeError, ScenarioError
from core.scenario import MAX_BYTES, Scenario
from core.simulate import simulate
from tests.core.drive import events, req, run_of, scenario

MiB = 1024 * 1024


def error_of(data: Any) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(data)
    assert len(str(caught.value)) < 1000
    return caught.value


# ---- bytes -------------------------------------------------------------------------------------

MINIMAL = b'{"schema":"scenario/1","requests":[{"id":"A","prompt":"hi"}]}'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"   \n", "not JSON"),
        (b"{", "not JSON"),
        (MINIMAL[:-1], "not JSON"),
        (MINIMAL + b"x", "not JSON"),
        (MINIMAL + MINIMAL, "not JSON"),
        (b"\xff\xfe" + MINIMAL.decode().encode("utf-16-le"), "UTF-8"),
        (MINIMAL.replace(b"hi", b"h\xff"), "UTF-8"),
        (MINIMAL.replace(b"hi", b"\xed\xa0\x80"), "UTF-8"),
        (MINIMAL.replace(b"hi", b"\xc0\xaf"), "UTF-8"),
        (MINIMAL.replace(b"hi", b"\\ud83d"), "Unicode"),
        (MINIMAL.replace(b'"hi"', b"NaN"), "NaN"),
        (b'{"schema":"scenario/1","engine":{"watermark":NaN}}', "NaN"),
        (b'{"schema":"scenario/1","engine":{"watermark":Infinity}}', "Infinity"),
        (b'{"schema":"scenario/1","engine":{"watermark":-Infinity}}', "Infinity"),
        (b'{"schema":"scenario/1","engine":{"watermark":1e999}}', "too large"),
        (b'{"schema":"scenario/1","engine":{"num_blocks":1e999}}', "too large"),
        (b'{"schema":"scenario/1","engine":{"num_blocks":' + b"9" * 31 + b"}}", "num_blocks"),
        (b'{"schema":"scenario/1","engine":{"num_blocks":' + b"9" * 10_000 + b"}}", "too large"),
        (b'{"schema":"scenario/1","schema":"scenario/1"}', "twice"),
        (b'{"schema":"scenario/1","engine":{"num_blocks":4,"num_blocks":4}}', "twice"),
        (MINIMAL.replace(b'"prompt"', b'"id"'), "twice"),
        (MINIMAL.replace(b'"', b"'"), "not JSON"),
        (b"// a scenario\n" + MINIMAL, "not JSON"),
        (MINIMAL[:-1] + b",}", "not JSON"),
        (b"\x1f\x8b\x08\x00", "UTF-8"),
        (b"\x00" * 10, "not JSON"),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else "",
)
def test_a_file_that_is_not_strict_json_is_error_of(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_file(path)
    assert words in str(caught.value)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL)
    assert Scenario.from_file(path).requests[0].prompt == "hi"


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'], ids=repr)
def test_a_nesting_bomb_is_refused_without_recursion(opening: bytes) -> None:
    with pytest.raises(ScenarioError, match="nested"):
        Scenario.from_json(opening * 200_000)


def test_brackets_in_a_text_do_not_nest() -> None:
    text = "[{" * 500 + '\\"' * 3
    checked = Scenario.from_json(json.dumps(scenario({"id": "A", "prompt": text})))
    assert checked.requests[0].prompt == text


@pytest.mark.parametrize("missing", ["missing.json", "folder", "missing/scenario.json"])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path, missing: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputFileError, match="cannot read"):
        Scenario.from_file(tmp_path / missing)


# ---- sizes -------------------------------------------------------------------------------------


def test_a_prompt_of_10_mb_is_one_short_error() -> None:
    """Text and tokens beyond a million are refused, quickly, and the value is not repeated."""
    started = time.monotonic()
    for fields in ({"prompt": "x" * 10_000_000}, {"prompt_tokens": [1] * 2_000_000}):
        error = error_of(scenario({"id": "A", **fields}))
        assert error.path in ("requests[0].prompt", "requests[0].prompt_tokens")
    with pytest.raises(ScenarioError, match=r"requests\[0\].prompt"):
        Scenario.from_json(
            b'{"schema":"scenario/1","requests":[{"id":"A","prompt":"' + b"y" * 10_000_000 + b'"}]}'
        )
    assert time.monotonic() - started < 20


def test_a_prompt_of_a_million_characters_is_read_and_rejected_on_arrival() -> None:
    run = run_of({"id": "A", "prompt": "é" * 1_000_000}, req("B", [1], max_tokens=1))
    (rejected,) = events(run, "request_rejected")
    assert (rejected["reason"], rejected["needed"]) == ("prompt_too_long", 2_000_000)
    assert run.results["B"]["finish_reason"] == "max_tokens"


def test_more_than_100_000_requests_are_error_of() -> None:
    request = req("A", [1])
    assert error_of(scenario(*[request] * 100_001)).path == "requests"


def test_a_text_above_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ScenarioError, match="the limit is"):
        Scenario.from_json(b" " * (MAX_BYTES + 1))


def test_a_file_above_the_limit_is_error_of(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(200 * MiB)  # sparse: takes no disk
    with pytest.raises(ScenarioError, match="the limit is"):
        Scenario.from_file(path)


def test_every_error_is_one_of_the_projects_own() -> None:
    assert issubclass(ScenarioError, KVScopeError) and issubclass(InputFileError, KVScopeError)


def test_no_requests_no_steps() -> None:
    run = simulate(Scenario.from_dict({"schema": "scenario/1"}))
    assert run.steps == [] and run.results == {}
