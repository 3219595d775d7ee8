"""Scenarios too large for the process that all visitors share: run in one of their own.

The worker is the command line's `simulate`, with limits on time and memory, so that one visitor's
million blocks keep nobody else waiting.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from core.errors import ScenarioError
from core.scenario import Scenario
from core.trace.run import Run, read_run
from ui.forms import pretty
from ui.paths import ROOT

MAX_SECONDS = 30
MAX_MEMORY_BYTES = 4 * 1024**3


def simulate(scenario: Scenario) -> Run:
    """Run a scenario without a model in a process of its own. Raises ScenarioError."""
    with tempfile.TemporaryDirectory(prefix="kv-scope-") as folder:
        source, target = Path(folder, "scenario.json"), Path(folder, "out.run.json.gz")
        source.write_text(pretty(scenario), "utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "core", "simulate", str(source), "-o", str(target)],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=MAX_SECONDS,
                check=False,
                preexec_fn=_limit_memory if os.name == "posix" else None,
            )
        except subprocess.TimeoutExpired:
            raise ScenarioError(
                "engine.num_blocks", f"not done after {MAX_SECONDS} s, and given up"
            ) from None
        if done.returncode != 0:
            said = done.stderr.strip().removeprefix("error: ")
            raise ScenarioError("", said[:300] or "the worker ended without a word")
        return read_run(target)


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
