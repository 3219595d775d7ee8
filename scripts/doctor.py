"""What is missing on this machine, and how to get it. Standard library only: it runs before any
install, and on a Python that may be too old for the course.

    python scripts/doctor.py            everything that `make run` needs
    python scripts/doctor.py --dev      what `make test` needs as well
    python scripts/doctor.py --gpu      what the engine needs to run on an NVIDIA GPU, and only that
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
NEEDED_BYTES = 3 * 10**9
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Finding:
    """One check. fix: how to get what is missing, in one or two lines."""

    name: str
    ok: bool
    said: str
    fix: str = ""

    def lines(self) -> str:
        mark = "ok     " if self.ok else "MISSING"
        text = f"{mark}  {self.name}: {self.said}"
        return text if self.ok or not self.fix else f"{text}\n         {self.fix}"


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    said = ".".join(map(str, version))
    ok = OLDEST <= tuple(version[:2]) <= NEWEST
    fix = "Install Python 3.11, 3.12 or 3.13, then name it: PYTHON=/path/to/python make run"
    return Finding("Python 3.11 to 3.13", ok, f"this is {said}", fix)


def check_venv() -> Finding:
    missing = [m for m in ("venv", "ensurepip") if importlib.util.find_spec(m) is None]
    said = f"no module {' and '.join(missing)}" if missing else "present"
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    fix = f"Debian and Ubuntu keep it apart: sudo apt-get install python{minor}-venv"
    return Finding("the venv module", not missing, said, fix)


def check_disk(path: Path = ROOT, needed: int = NEEDED_BYTES) -> Finding:
    free = shutil.disk_usage(path).free
    said = f"{free / 1e9:.1f} GB free, about {needed / 1e9:.0f} GB needed"
    fix = "Free some space, or put the project on another disk."
    if platform.system() == "Linux":
        fix += " With torch's CUDA build it needs about 9 GB."
    return Finding("disk space", free >= needed, said, fix)


def check_writable(path: Path = ROOT) -> Finding:
    ok = os.access(path, os.W_OK)
    said = "yes" if ok else "no"
    return Finding(
        "project folder is writable", ok, said, "Copy the project to a folder of your own."
    )


def find_chromium() -> str | None:
    """The browser that the tests drive; ``CHROMIUM`` names another."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named if os.access(named, os.X_OK) else None
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def check_chromium() -> Finding:
    found = find_chromium()
    fix = "sudo apt-get install chromium, or name one: CHROMIUM=/path/to/chrome make test"
    return Finding("Chromium, for the browser tests", found is not None, found or "not found", fix)


def check_node() -> Finding:
    found = shutil.which("node")
    fix = "sudo apt-get install nodejs, or brew install node"
    return Finding("node, for the JavaScript tests", found is not None, found or "not found", fix)


def find_compiler() -> str | None:
    """A C++ compiler, as `kernels.cpu.build` looks for it."""
    names = (os.environ.get("CXX"), "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def check_compiler() -> Finding:
    found = find_compiler()
    fix = "sudo apt-get install g++; without it all is right, and slower on a CPU"
    return Finding("a C++ compiler, for the CPU kernels", found is not None, found or "none", fix)


OLDEST_GPU = (8, 0)
"""Compute capability of an A100: older GPUs have no bfloat16 tensor cores."""

_ASK_TORCH = (
    "import json, torch, importlib.metadata as metadata\n"
    "try: triton = metadata.version('triton')\n"
    "except metadata.PackageNotFoundError: triton = None\n"
    "there = torch.cuda.is_available()\n"
    "print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda, 'there': there,\n"
    "    'triton': triton, 'name': torch.cuda.get_device_name() if there else None,\n"
    "    'capability': torch.cuda.get_device_capability() if there else None}))\n"
)


def driver() -> str | None:
    """GPUs and driver as nvidia-smi says them, "NVIDIA H100 …, driver 580.65, 81559 MiB"; None
    where it is not here or finds none."""
    found = shutil.which("nvidia-smi")
    if found is None:
        return None
    query = [found, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    gpus = [f"{row[0]}, driver {row[1]}, {row[2]}" for row in rows if len(row) == 3]
    return "; ".join(gpus) if done.returncode == 0 and gpus else None


def ask_torch() -> dict | None:
    """What the project's torch (.venv's, else this Python's) says of CUDA; None without torch."""
    ours = ROOT / ".venv" / "bin" / "python"
    python = str(ours) if ours.exists() else sys.executable
    try:
        done = subprocess.run(
            [python, "-c", _ASK_TORCH], capture_output=True, text=True, timeout=180, check=False
        )
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def check_driver(said: str | None) -> Finding:
    fix = "Install NVIDIA's driver; in a container start it with the GPU (docker run --gpus all)"
    return Finding("an NVIDIA GPU and its driver", said is not None, said or "none found", fix)


def check_cuda_torch(said: dict | None) -> Finding:
    """Whether torch reaches a GPU that is new enough."""
    name = "torch with CUDA"
    if said is None:
        return Finding(name, False, "torch is not installed", "make env, or make run")
    build = f"torch {said['torch']}, " + (f"CUDA {said['cuda']}" if said["cuda"] else "no CUDA")
    if not said["cuda"]:
        fix = (
            "This is the CPU's build. pip takes CUDA's where it is offered no other, and "
            "PyTorch's CUDA indexes have it: see the README, On a GPU"
        )
        return Finding(name, False, build, fix)
    if not said["there"]:
        fix = f"The driver may be too old for CUDA {said['cuda']}, or CUDA_VISIBLE_DEVICES hides it"
        return Finding(name, False, f"{build}, finds no device", fix)
    capability = tuple(said["capability"])
    seen = f"{build}, sees {said['name']}, compute capability {capability[0]}.{capability[1]}"
    fix = "The kernels need 8.0 (A100) or later; an older GPU runs plain torch, slowly"
    return Finding(name, capability >= OLDEST_GPU, seen, fix)


def check_triton(said: dict | None) -> Finding:
    found = said and said["triton"]
    fix = "make env installs it on Linux; without it a GPU runs plain torch, slowly"
    return Finding("triton, for the GPU's kernels", bool(found), found or "not installed", fix)


def check_c_compiler() -> Finding:
    """triton builds its launchers with it, at run time."""
    names = (os.environ.get("CC"), "gcc", "clang")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    fix = "sudo apt-get install gcc; triton compiles its launchers with it"
    return Finding("a C compiler, for triton", found is not None, found or "none", fix)


def gpu_findings() -> list[Finding]:
    """What a GPU needs; all must be there for the engine to run on it."""
    torch = ask_torch()
    return [check_driver(driver()), check_cuda_torch(torch), check_triton(torch),
            check_c_compiler()]  # fmt: skip


def note_gpu() -> Finding:
    """One line for those who did not ask: a GPU is used where there is one, and needed nowhere."""
    said = driver()
    if said is None:
        said = "none found, none needed: everything runs on the CPU"
    else:
        missing = [finding.name for finding in gpu_findings() if not finding.ok]
        said += f"; not usable: {', '.join(missing)} (doctor.py --gpu)" if missing else "; usable"
    return Finding("a GPU", True, said)


def findings(dev: bool) -> list[Finding]:
    """Everything checked, in the order a person would mend it."""
    out = [check_python(), check_venv(), check_writable(), check_disk()]
    return [*out, check_chromium(), check_node(), check_compiler()] if dev else out


SIGNS = (
    (
        ("no space left on device", "errno 28"),
        "The disk is full. About 3 GB are needed; free some and run the same command again.",
    ),
    (
        ("temporary failure in name resolution", "failed to resolve", "network is unreachable",
         "connection refused", "connection timed out", "read timed out", "max retries exceeded",
         "name or service not known", "connection reset"),
        "The package index cannot be reached. Check the network (behind a proxy set HTTPS_PROXY), "
        "then run the same command again; what was downloaded is kept.",
    ),
    (
        ("certificate verify failed",),
        "The package index's certificate is not trusted here. Behind a company proxy, point pip at "
        "its certificate: PIP_CERT=/path/to/ca.pem",
    ),
    (
        ("permission denied", "errno 13"),
        "A file cannot be written. Run this in a folder of your own, and not with another user's "
        ".venv in it.",
    ),
    (
        ("no matching distribution found", "could not find a version"),
        "The index has no build of a package for this Python and machine. Python 3.11 on x86-64 or "
        "arm64 has all of them: PYTHON=/path/to/python3.11 make run",
    ),
)  # fmt: skip


def explain(output: str) -> str:
    """What a failed install means, in plain words."""
    low = output.lower()
    for signs, meaning in SIGNS:
        if any(sign in low for sign in signs):
            return meaning
    return "The install failed for a reason not known here; the last lines above say which."


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what is missing and how to get it.")
    parser.add_argument("--dev", action="store_true", help="what the tests need, too")
    parser.add_argument(
        "--gpu", action="store_true", help="what an NVIDIA GPU needs, and only that"
    )
    args = parser.parse_args(argv)
    found = gpu_findings() if args.gpu else [*findings(args.dev), note_gpu()]
    for finding in found:
        print(finding.lines())
    return 0 if all(finding.ok for finding in found) else 1


if __name__ == "__main__":
    sys.exit(main())
