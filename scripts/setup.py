"""Make the environment: `.venv`, the packages, the model. Quick when there is nothing to do.

    python scripts/setup.py             what the app needs
    python scripts/setup.py --dev       the test tools as well
    python scripts/setup.py --model     fetch the default model, and say so when it cannot be had

Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import doctor

ROOT = doctor.ROOT
VENV = ROOT / ".venv"


def venv_python(venv: Path = VENV) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def fingerprint(files: list[Path], python: str) -> str:
    """Changes when a requirement, a pin or the Python changes, and only then."""
    digest = hashlib.sha256(python.encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def requirement_files(dev: bool) -> list[Path]:
    names = ["requirements.txt", "constraints.txt"] + (["requirements-dev.txt"] if dev else [])
    return [ROOT / name for name in names]


def run_install(command: list[str]) -> tuple[int, str]:
    """Run pip, show what it says as it says it, and keep its last lines to explain a failure."""
    tail: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line)
            if line.startswith(
                ("Collecting", "Downloading", "Installing", "Successfully", "ERROR")
            ):
                print("  " + line.rstrip()[:110], flush=True)
    return process.returncode, "".join(tail)


def ensure_environment(dev: bool) -> int:
    """Create `.venv` and install, unless the stamp says that it is all there."""
    stamp = VENV / (".installed-dev" if dev else ".installed")
    mark = fingerprint(requirement_files(dev), sys.version)
    if venv_python().exists() and stamp.exists() and stamp.read_text() == mark:
        return 0
    problems = [f for f in doctor.findings(dev=False) if not f.ok]
    if problems:
        for problem in problems:
            print(problem.lines(), file=sys.stderr)
        return 1
    if not venv_python().exists():
        print(f"Creating .venv with Python {sys.version.split()[0]}", flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
        if made.returncode:
            print(doctor.check_venv().fix, file=sys.stderr)
            return made.returncode
    name = "requirements-dev.txt" if dev else "requirements.txt"
    print(f"Installing {name}; the first time this takes a few minutes", flush=True)
    pip = [str(venv_python()), "-m", "pip", "install", "--disable-pip-version-check"]
    code, tail = run_install([*pip, "-r", str(ROOT / name)])
    if code:
        print(tail, file=sys.stderr)
        print(doctor.explain(tail), file=sys.stderr)
        return code
    stamp.write_text(mark)
    if dev:  # the test tools include all that the app needs
        app = fingerprint(requirement_files(dev=False), sys.version)
        (VENV / ".installed").write_text(app)
    return 0


def fetch_model() -> int:
    """The default model, with progress. Without it the app still plays recorded runs."""
    done = subprocess.run(
        [str(venv_python()), "-m", "core", "models", "fetch"], cwd=ROOT, check=False
    )
    if done.returncode:
        print(
            "The model was not fetched, so nothing is generated here. The app opens all the same\n"
            "and plays recorded and simulated runs. Try again later:\n"
            "    .venv/bin/python -m core models fetch",
            file=sys.stderr,
        )
    return done.returncode


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dev", action="store_true", help="install the test tools too")
    parser.add_argument("--model", action="store_true", help="fetch the default model")
    args = parser.parse_args(argv)
    code = ensure_environment(args.dev)
    if code == 0 and args.model:
        fetch_model()  # its absence is said, and is no reason to stop
    return code


if __name__ == "__main__":
    sys.exit(main())
