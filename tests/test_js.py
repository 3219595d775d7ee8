"""The JavaScript tests run under pytest too, so that one command runs everything."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_node_tests_pass(node: str, root: Path) -> None:
    files = sorted((root / "tests" / "js").glob("*.test.mjs"))
    assert files, "tests/js holds no *.test.mjs"
    done = subprocess.run(
        [node, "--test", *map(str, files)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
