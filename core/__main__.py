"""The command line: `python -m core COMMAND …`.

Every error that a person can mend is one line on standard error and exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from io import TextIOWrapper
from typing import NoReturn

try:
    from core.commands import (
        calc,
        calibrate,
        claims,
        generate,
        gpus,
        kv_quality,
        models,
        record,
        replay,
        serve,
        simulate,
        size,
    )
except ModuleNotFoundError as missing:
    print(
        f"error: {missing.name} is not installed for this Python; `make run` puts it into .venv "
        "(.venv/bin/python), or: pip install -r requirements.txt",
        file=sys.stderr,
    )
    sys.exit(2)

from core.errors import KVScopeError
from core.version import VERSION

_REQUIRED = ("torch", "tokenizers", "safetensors", "gguf", "jinja2", "starlette", "uvicorn")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = _Parser(prog="python -m core", description="KV Scope's engine, from a shell.")
    top.add_argument("--version", action="version", version=VERSION)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (
        *(generate, simulate, record, replay, serve),
        *(size, calc, claims, models, gpus, calibrate, kv_quality),
    ):
        command.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code."""
    args = parser().parse_args(arguments)
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (to the end of the process)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know less than Unicode
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has gone (… | head): no error, and nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as exc:  # files report their own errors: this is standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: cannot write the output: {exc.strerror or exc}", file=sys.stderr)
        return 2
    except KVScopeError as exc:
        line = " ".join(str(exc).split())
        print(f"error: {line}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as exc:
        if exc.name not in (
            "torch",
            "tokenizers",
            "safetensors",
            "gguf",
            "jinja2",
            "starlette",
            "uvicorn",
        ):
            raise
        print(
            f"error: {exc.name} is not installed; pip install -r requirements.txt brings it",
            file=sys.stderr,
        )
        return 2
    except (MemoryError, FloatingPointError) as exc:
        print(f"error: {str(exc) or 'out of memory'}", file=sys.stderr)
        return 2
    except RuntimeError as exc:
        if type(exc).__name__ != "OutOfMemoryError":  # torch's, which is not imported here
            raise
        print(
            "error: a step does not fit the device's memory: lower max_num_batched_tokens, "
            "num_blocks or gpu_memory_utilization",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
