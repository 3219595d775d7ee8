"""vLLM beside our engine, in a process and an interpreter of its own: it pins a torch of its own.

Written after vLLM 0.33 (`vllm.LLM`, `LLM.generate` with prompts of token ids, `SamplingParams`).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.gpu.shapes import Load
from bench.workload import prompts

WORKER = Path(__file__).with_name("vllm_worker.py")
MEMORY_SHARE = 0.5
"""Of the GPU; the pool's own size is given in bytes, as large as ours."""


class VllmError(Exception):
    """vLLM cannot be measured; one line says why."""


class Vllm:
    """A process that holds a `vllm.LLM`. Methods return wall seconds. Raises VllmError."""

    PYTHONPATH = ""
    """Of the process: ours would hide packages of its interpreter."""

    def __init__(
        self,
        python: str,
        model: Path,
        load: Load,
        common: dict[str, Any],
        pool_bytes: int,
    ) -> None:
        self._load = load
        vocab_size = json.loads((model / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        self._ids = prompts(load.requests, load.prompt, vocab_size)
        self.settings = {
            "model": str(model),
            "dtype": "bfloat16",
            "block_size": common["block_size"],
            "max_model_len": common["max_model_len"],
            "max_num_seqs": common["max_num_seqs"],
            "max_num_batched_tokens": common["max_num_batched_tokens"],
            "enable_prefix_caching": False,
            "gpu_memory_utilization": MEMORY_SHARE,
            "kv_cache_memory_bytes": pool_bytes,
            "seed": 0,
        }
        self._said = tempfile.TemporaryFile(  # noqa: SIM115 (closed with the process)
            "w+", encoding="utf-8", errors="replace"
        )
        try:
            self._process = subprocess.Popen(
                [python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                env={**os.environ, "PYTHONPATH": self.PYTHONPATH},
            )
        except OSError as error:
            self._said.close()
            raise VllmError(f"{python}: {error.strerror or error}") from None
        try:
            self.version: str = self._ask({"settings": self.settings})["version"]
        except VllmError:
            self.close()
            raise

    def serve(self) -> float:
        return self._generate(self._ids, self._load.outputs)

    def gap(self) -> float:
        from bench.gpu.engine import gap

        return gap(self._load, lambda count: self._generate(self._ids[:1], count))

    def _generate(self, ids: list[list[int]], count: int) -> float:
        return float(self._ask({"prompts": ids, "max_tokens": count})["seconds"])

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise VllmError(f"its process ended{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise VllmError(" ".join(answer["error"].split())[:300])
        return answer

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().splitlines() if line.strip()]
        return f": {lines[-1][:300]}" if lines else ""

    def close(self) -> None:
        """End the process. Its own children, vLLM's engine, end when its pipes close."""
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._said.close()
