"""Without torch: the command line and every module that the app imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.serving import FENCE
from ui import catalogue


def _behind_fence(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PYTHONPATH": f"{FENCE}{os.pathsep}{root}",
        "KV_SCOPE_BLOCK": "torch,triton,transformers,safetensors,tokenizers,gguf,streamlit",
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_fence_holds(root: Path) -> None:
    done = _behind_fence(root, "-c", "import torch")
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr


def test_simulate_needs_no_torch(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(catalogue.entries()["fork"].text, encoding="utf-8")
    done = _behind_fence(root, "-m", "core", "simulate", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["header"]["label"] == "SIMULATED"


def test_importing_the_app_loads_no_torch(root: Path) -> None:
    code = (
        "import sys, ui.runs, ui.preview, ui.status, ui.choice, ui.landing, ui.own;"
        "ui.status.engine_state();"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
