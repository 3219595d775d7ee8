"""Where the course keeps its files. Nothing here depends on the directory the app is started in."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "pages"
LESSONS = ROOT / "lessons"
SCENARIOS = LESSONS / "scenarios"


def runs_dir() -> Path:
    """The folder of recorded runs; ``KV_SCOPE_RUNS`` names another. It need not exist."""
    return Path(os.environ.get("KV_SCOPE_RUNS") or ROOT / "runs")
