from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from tests.kernels.interpreter import end_process


@pytest.fixture(scope="session", autouse=True)
def _end_process() -> Iterator[None]:
    yield
    end_process()
