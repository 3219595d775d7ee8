"""Our pool and our tree beside vLLM's `BlockPool` and SGLang's `RadixCache`.

Each runs in a process of its own, under the interpreter in which it is installed, and is asked for
one operation at a time: they take turns, every other round in reverse order, so that what else the
machine does falls on all of them alike. What is not installed is not compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.timing import REPEATS, Timing, alternate, ratio

ROOT = Path(__file__).resolve().parent.parent
PEERS = {"vllm": "vLLM's BlockPool", "sglang": "SGLang's RadixCache"}


class PeerError(Exception):
    """The peer cannot be measured; one line says why."""


class Worker:
    """A process that times operations of one block manager. Raises PeerError."""

    def __init__(self, name: str, python: str) -> None:
        try:
            self._process = subprocess.Popen(
                [python, str(Path(__file__).with_name("peers_worker.py")), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT) if name == "ours" else ""},
            )
        except OSError as exc:
            raise PeerError(f"{python}: {exc.strerror or exc}") from None
        try:
            first = self._answer()
        except PeerError:
            self.close()
            raise
        self.version: str = first["version"]
        self.operations: list[str] = first["operations"]

    def seconds(self, operation: str) -> float:
        """Of one unit of an operation."""
        assert self._process.stdin is not None, "it was opened with one"
        try:
            self._process.stdin.write(json.dumps(operation) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise PeerError("the process has ended") from None
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "it was opened with one"
        line = self._process.stdout.readline()
        if not line:
            raise PeerError("the process ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(" ".join(answer["error"].split())[:200])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def compare(pythons: dict[str, str | None]) -> None:
    """Print a table for each peer; one line for a peer that is not there.

    pythons: for each of `PEERS` the interpreter in which it is installed, or None.
    """
    for name, title in PEERS.items():
        python = pythons[name]
        if python is None:
            print(f"\n{title}: not compared; --{name}-python names an interpreter that has it")
            continue
        try:
            with (
                closing(Worker("ours", sys.executable)) as ours,
                closing(Worker(name, python)) as peer,
            ):
                _compare(title, ours, peer)
        except PeerError as exc:
            print(f"\n{title}: not compared: {exc}")


def _compare(title: str, ours: Worker, peer: Worker) -> None:
    print(f"\n{title}, version {peer.version}; median of {REPEATS} (range), taking turns")
    print(f"{'':<42}{'ours':>26}{'theirs':>26}   theirs / ours")
    for operation in peer.operations:
        samples = alternate(
            {
                "ours": lambda name=operation: ours.seconds(name),  # type: ignore[misc]
                "theirs": lambda name=operation: peer.seconds(name),  # type: ignore[misc]
            }
        )
        own, their = (Timing.of(samples[who]) for who in ("ours", "theirs"))
        scale, unit = (1e9, "ns") if own.median < 1e-5 else (1e6, "µs")
        times = ratio(samples["theirs"], samples["ours"]).show(1, "×", 2)
        print(f"{operation:<42}{own.show(scale, unit):>26}{their.show(scale, unit):>26}   {times}")
