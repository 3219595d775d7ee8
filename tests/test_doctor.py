"""The doctor and the setup say what is missing and how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import doctor
import pytest
import setup


@pytest.mark.parametrize(
    ("version", "ok"),
    [((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 4), True), ((3, 14, 0), False)],
)
def test_python_version(version: tuple[int, int, int], ok: bool) -> None:
    found = doctor.check_python(version)
    assert found.ok is ok
    assert ("PYTHON=" in found.lines()) is not ok


def test_too_little_disk_names_both_numbers(tmp_path: Path) -> None:
    found = doctor.check_disk(tmp_path, needed=10**18)
    assert not found.ok
    assert "GB free" in found.said
    assert "needed" in found.said
    assert found.fix


def test_enough_disk(tmp_path: Path) -> None:
    assert doctor.check_disk(tmp_path, needed=1).ok


def test_a_missing_venv_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = doctor.check_venv()
    assert not found.ok
    assert "ensurepip" in found.said
    assert "-venv" in found.fix


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    lines = [
        doctor.check_chromium().lines(),
        doctor.check_node().lines(),
        doctor.check_compiler().lines(),
    ]
    assert all(line.startswith("MISSING") and "install" in line for line in lines)


def test_a_named_chromium_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    assert doctor.find_chromium() is None


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Temporary failure in name resolution", "network"),
        ("HTTPSConnectionPool: Max retries exceeded with url", "network"),
        ("SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "certificate"),
        ("ERROR: Could not find a version that satisfies the requirement torch", "no build"),
        ("PermissionError: [Errno 13] Permission denied", "written"),
        ("something new", "last lines"),
    ],
)
def test_a_failed_install_is_explained(output: str, word: str) -> None:
    assert word in doctor.explain(output)


H100 = {"torch": "2.13.0+cu130", "cuda": "13.0", "there": True, "triton": "3.7.0",
        "name": "NVIDIA H100 80GB HBM3", "capability": [9, 0]}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "ok", "words"),
    [
        (H100, True, "sees NVIDIA H100 80GB HBM3, compute capability 9.0"),
        ({**H100, "capability": [7, 5]}, False, "8.0 (A100) or later"),
        ({**H100, "there": False}, False, "finds no device"),
        ({**H100, "torch": "2.13.0+cpu", "cuda": None, "there": False}, False, "the CPU's build"),
        (None, False, "not installed"),
    ],
)
def test_torch_and_the_gpu(said: dict | None, ok: bool, words: str) -> None:
    found = doctor.check_cuda_torch(said)
    assert found.ok is ok
    assert words in found.lines()


def test_triton_and_its_compiler_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_triton(H100).ok
    assert not doctor.check_triton({**H100, "triton": None}).ok
    assert not doctor.check_triton(None).ok
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert "apt-get install gcc" in doctor.check_c_compiler().lines()


def nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name, first in the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_driver_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, "echo 'NVIDIA A100-SXM4-80GB, 580.65.06, 81920 MiB'", monkeypatch)
    assert doctor.driver() == "NVIDIA A100-SXM4-80GB, driver 580.65.06, 81920 MiB"
    monkeypatch.setattr(doctor, "ask_torch", lambda: {**H100, "cuda": None})
    note = doctor.note_gpu()
    assert note.ok and "not usable: torch with CUDA" in note.said
    nvidia_smi(tmp_path, "echo 'No devices were found'; exit 6", monkeypatch)
    assert doctor.driver() is None
    assert "none needed" in doctor.note_gpu().said
    assert not doctor.check_driver(doctor.driver()).ok


def test_without_a_gpu_the_doctor_says_so_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "driver", lambda: None)
    monkeypatch.setattr(doctor, "ask_torch", lambda: None)
    assert doctor.main(["--gpu"]) == 1
    assert "MISSING  an NVIDIA GPU" in capsys.readouterr().out


def test_doctor_runs_as_a_script(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(root / "scripts" / "doctor.py"), "--dev"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Python 3.11 to 3.13" in done.stdout
    assert "a GPU: " in done.stdout
    assert "Traceback" not in done.stderr


def test_scripts_use_the_standard_library_only(root: Path) -> None:
    for script in (root / "scripts").glob("*.py"):
        for line in script.read_text(encoding="utf-8").splitlines():
            if line.startswith(("import ", "from ")):
                module = line.split()[1].split(".")[0]
                assert module in sys.stdlib_module_names or module == "doctor", (script, line)


def test_fingerprint_follows_the_pins_and_the_python(tmp_path: Path) -> None:
    pins = tmp_path / "constraints.txt"
    pins.write_text("torch==2.13.0\n")
    first = setup.fingerprint([pins], "3.11")
    assert setup.fingerprint([pins], "3.11") == first
    assert setup.fingerprint([pins], "3.12") != first
    pins.write_text("torch==2.13.1\n")
    assert setup.fingerprint([pins], "3.11") != first


def test_setup_does_nothing_when_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "VENV", tmp_path)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    monkeypatch.setattr(setup, "venv_python", lambda: python)
    mark = setup.fingerprint(setup.requirement_files(dev=False), sys.version)
    (tmp_path / ".installed").write_text(mark)

    def never(command: list[str]) -> tuple[int, str]:
        raise AssertionError(f"ran {command}")

    monkeypatch.setattr(setup, "run_install", never)
    assert setup.ensure_environment(dev=False) == 0


def test_setup_explains_a_failed_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "VENV", tmp_path)
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setattr(setup, "venv_python", lambda: python)
    monkeypatch.setattr(setup, "run_install", lambda command: (1, "No space left on device\n"))
    assert setup.ensure_environment(dev=True) == 1
    assert "disk is full" in capsys.readouterr().err
    assert not list(tmp_path.glob(".installed*"))


def test_a_model_that_cannot_be_fetched_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "ensure_environment", lambda dev: 0)
    monkeypatch.setattr(setup, "venv_python", lambda: Path(sys.executable))
    real = subprocess.run
    monkeypatch.setattr(
        setup.subprocess,
        "run",
        lambda command, **kwargs: real([sys.executable, "-c", "raise SystemExit(2)"], check=False),
    )
    assert setup.main(["--model"]) == 0
    assert "plays recorded" in capsys.readouterr().err


def test_find_python_says_what_is_missing(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", str(root / "scripts" / "find_python.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "3.11, 3.12 or 3.13" in done.stdout + done.stderr
