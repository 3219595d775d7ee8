"""The comparison with other engines' block managers, where none of them is installed."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from bench import peers_blocks
from bench.peers_blocks import Worker, compare
from bench.peers_worker import ours, seconds_per_unit


def test_what_is_not_there_is_not_compared_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    compare({"vllm": None, "sglang": "/no/such/python"})
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(lines) == 2
    assert lines[0].startswith("vLLM's BlockPool: not compared; --vllm-python")
    assert (
        lines[1] == "SGLang's RadixCache: not compared: /no/such/python: No such file or directory"
    )


def test_an_interpreter_without_the_peer_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compare({"vllm": sys.executable, "sglang": None})
    first = capsys.readouterr().out.splitlines()[1]
    assert first == "vLLM's BlockPool: not compared: ModuleNotFoundError: No module named 'vllm'"


def test_a_worker_times_every_operation_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Worker("ours", sys.executable)) as worker:
        assert worker.operations == list(ours())
        assert all(0 < worker.seconds(operation) < 1 for operation in worker.operations)
        with pytest.raises(peers_blocks.PeerError, match="KeyError"):
            worker.seconds("something else")


@pytest.mark.parametrize("operation", ours())
def test_an_operation_counts_what_it_does(operation: str) -> None:
    setup = ours()[operation]
    assert setup()() > 0 and seconds_per_unit(setup) > 0
