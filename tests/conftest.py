"""What every test may rely on, and what happens when it is not there.

On a person's machine a test that needs Chromium, node or the model is skipped where that is
missing. Under CI=true it fails instead: there, a skip would hide a hole.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts an absolute time: machines are shared, and a slow moment is no fault. The rest
# stays as it is here or, under CI, as hypothesis sets it there.
settings.register_profile("kv-scope", deadline=None)
settings.load_profile("kv-scope")

ROOT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

sys.path.insert(0, str(ROOT / "scripts"))


def absent(what: str, how: str) -> None:
    """Skip, or fail under CI."""
    text = f"{what} is missing here: {how}"
    if IN_CI:
        pytest.fail(text)
    pytest.skip(text)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("model") is None:
        return
    if importlib.util.find_spec("torch") is None:
        absent("torch", "pip install -r requirements.txt")
    from ui.status import DEFAULT_MODEL, model_fetched

    if not model_fetched():
        absent(DEFAULT_MODEL, "python -m core models fetch")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium."""
    import doctor

    found = doctor.find_chromium()
    if found is None:
        absent("Chromium", doctor.check_chromium().fix)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def node() -> str:
    """Path of node."""
    found = shutil.which("node")
    if found is None:
        absent("node", "apt-get install nodejs")
    assert found is not None
    return found
