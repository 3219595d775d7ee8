"""Compile the kernels with the machine's own compiler, once, and load them.

The result lies in the cache directory under a name made of the sources, the flags and the compiler:
whatever changes makes another file. Nothing here is needed for right results: without a processor
that has AVX512-BF16, without a C++ compiler, or with `KV_SCOPE_NATIVE=0`, `load` gives None and the
engine multiplies with torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

_HERE = Path(__file__).parent
_SOURCES = ("kernels.cpp", "attention.h", "formats.h", "layer.h", "linear.h", "simd.h", "store.h")
_NEEDED = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "avx512_vnni")
_FLAGS = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fno-exceptions", "-fno-rtti", "-w"]
_FLAGS += ["-m" + name.replace("_", "") for name in _NEEDED] + ["-mfma", "-fopenmp"]
_TIMEOUT_S = 120


@cache
def load(cache_dir: Path) -> ctypes.CDLL | None:
    """The compiled kernels, or None where they cannot be had; `reason` says why."""
    return None if reason(cache_dir) else _loaded(cache_dir)


@cache
def reason(cache_dir: Path) -> str:
    """Why there are no compiled kernels here, in a few words; "" if there are."""
    if os.environ.get("KV_SCOPE_NATIVE") == "0":
        return "KV_SCOPE_NATIVE=0"
    if not _processor_has(_NEEDED):
        return "the processor has no AVX-512 with BF16 and VNNI"
    if compiler() is None:
        return "no C++ compiler (g++ or clang++)"
    try:
        _loaded(cache_dir)
    except subprocess.CalledProcessError as error:
        return f"the compiler failed: {_last_line(error.stderr)}"
    except subprocess.TimeoutExpired:
        return f"the compiler took longer than {_TIMEOUT_S} s"
    except OSError as error:
        return f"cannot build or load: {error}"
    return ""


def compiler() -> str | None:
    """`$CXX`, g++ or clang++."""
    names = (os.environ.get("CXX"), "g++", "clang++")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@cache
def _loaded(cache_dir: Path) -> ctypes.CDLL:
    path = _built(cache_dir)
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # cut short, or from another system: make it anew, once
        path.unlink()
        return ctypes.CDLL(str(_built(cache_dir)))


def _built(cache_dir: Path) -> Path:
    """The shared library, compiled now if it is not there. Moved into place whole, so that two
    processes that compile at once do no harm."""
    command = [str(compiler()), *_FLAGS]
    runtime = _openmp_runtime()
    digest = hashlib.sha256("\0".join([*command, str(runtime), platform.machine()]).encode())
    for name in _SOURCES:
        digest.update((_HERE / name).read_bytes())
    target = cache_dir / "kernels" / f"cpu-{digest.hexdigest()[:24]}.so"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        libraries = ["-nodefaultlibs", str(runtime), "-lm", "-lc"] if runtime else []
        subprocess.run(
            [*command, str(_HERE / "kernels.cpp"), "-o", str(made), *libraries],
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
        made.replace(target)
    return target


def _openmp_runtime() -> Path | None:
    """torch's own OpenMP library. A second one would have threads of its own, which then wait for
    work on the same cores as torch's."""
    found = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    return found[0] if found else None


def _processor_has(names: tuple[str, ...]) -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(names) <= set(flags.split())


def _last_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[-1][:200] if lines else "no message"
