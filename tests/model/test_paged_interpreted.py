"""Whole models by the Triton kernels themselves, in Triton's interpreter, in float32."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels.interpreter import end_process, interpreted


@pytest.fixture(scope="module", autouse=True)
def _end_process() -> Iterator[None]:
    yield
    end_process()


@pytest.fixture
def directory(tmp_path) -> str:
    return str(tmp_path)


@pytest.mark.parametrize("name", ["qwen3-layer-types", "llama-biases"])
@interpreted
def test_tokens_are_those_of_torch_s_path(name: str, directory: str) -> None:
    from pathlib import Path

    from paged_checks import ReRun, compare, journeys, paged_runner, plain_runner, tiny_model

    model = tiny_model(name, Path(directory))
    graphs = ReRun() if name == "qwen3-layer-types" else None
    runner = paged_runner(model, "triton", capture=graphs, max_num_seqs=3)
    compare(journeys(runner, short=True), journeys(plain_runner(model), short=True))
    assert graphs is None or sum(graphs.replays) >= 3
