"""Rules that every file of the project keeps."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

TEXT = {
    ".py", ".js", ".mjs", ".css", ".html", ".md", ".toml", ".txt", ".json", ".sh", ".svg", "",
}  # fmt: skip
# A home or a work folder of one machine; /path/to is how examples are written.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|Users|root|work|opt|tmp)/\w")
SELF = "tests/test_repository.py"


def _files(root: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = [n for n in listed.stdout.decode().split("\0") if n]
    return [root / n for n in names if Path(n).suffix in TEXT and (root / n).is_file()]


def test_no_file_names_a_machine(root: Path) -> None:
    found = []
    for file in _files(root):
        name = file.relative_to(root).as_posix()
        if name == SELF:
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_sources_stay_short(root: Path) -> None:
    limits = {"pages": 200, "core": 400, "ui": 400, "kernels": 400, "scripts": 400}
    found = []
    for file in _files(root):
        name = file.relative_to(root)
        limit = limits.get(name.parts[0])
        if limit and name.suffix in (".py", ".js"):
            lines = len(file.read_text(encoding="utf-8").splitlines())
            if lines > limit:
                found.append(f"{name}: {lines} lines, at most {limit}")
    assert not found, "\n".join(found)


def test_versions_agree(root: Path) -> None:
    from core.version import VERSION

    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{VERSION}"' in text


def test_constraints_pin_torch_and_not_triton(root: Path) -> None:
    pins = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert "torch==2.13.0" in pins
    assert not [p for p in pins if p.startswith("triton")]
    assert (root / "requirements.txt").read_text(encoding="utf-8").startswith("-c constraints.txt")


def test_scenarios_are_listed_and_listed_ones_exist(root: Path) -> None:
    lessons = root / "lessons"
    listed = json.loads((lessons / "catalogue.json").read_text(encoding="utf-8"))
    files = {p.stem for p in (lessons / "scenarios").glob("*.json")}
    # Pools by number of blocks are made, not stored.
    assert {item["slug"] for item in listed if "blocks" not in item} == files
