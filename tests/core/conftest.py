"""The sample run that tests of reading and damaging runs share."""

from __future__ import annotations

import json

import pytest

from core.trace.run import Run
from tests.core.drive import Json, sample_run


@pytest.fixture(scope="module")
def run() -> Run:
    return sample_run()


@pytest.fixture(scope="module")
def data(run: Run) -> bytes:
    return run.to_bytes()


@pytest.fixture
def content(run: Run) -> Json:
    """The run's JSON, to be changed at will."""
    return json.loads(json.dumps(run.to_dict()))
