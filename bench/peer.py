"""The same workloads on `transformers`, as fast as its documented settings make it.

bfloat16 or float32 as asked, SDPA attention, inference mode, logits of the last position only, the
same weights and token ids. What is decided by trying, once per kind of work: the key-value cache
(DynamicCache grows by concatenation, StaticCache is preallocated) and, for the end-to-end row,
`generate` against a decode loop by hand. `compiled` decides with torch.compile among the choices,
which costs minutes of compilation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from bench.workload import Workload, prompts

CACHES = ("DynamicCache", "StaticCache")


class Peer:
    """Methods return wall seconds. Raises ImportError where transformers is not installed."""

    def __init__(
        self, directory: Path, dtype: str, workload: Workload, compiled: bool = False
    ) -> None:
        import transformers

        warnings.filterwarnings("ignore", "`past_key_values` is deprecated", FutureWarning)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.version = transformers.__version__
        self.workload = workload
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        ).eval()
        self.vocab_size = int(self.model.config.vocab_size)
        self._caches = (transformers.DynamicCache, transformers.StaticCache)
        self._compiled = torch.compile(self.model.forward) if compiled else None
        self.chosen: dict[str, str] = {}

    @torch.inference_mode()
    def prefill(self) -> float:
        """A whole prompt, and its first token."""
        ids = self._ids(1, self.workload.prefill)
        started = perf_counter()
        self._forward(self.model, ids, None)
        return perf_counter() - started

    def decode(self, batch: int) -> float:
        """`decode_steps` steps of `batch` sequences, by the fastest way."""
        way = self._choose(f"decode {batch}", lambda name: self._decode(batch, name, short=True))
        return self._decode(batch, way)

    def serve(self) -> float:
        """All requests at once, from the first forward pass to their last token."""
        way = self._choose("end to end", self._serve, with_generate=True)
        return self._serve(way)

    @torch.inference_mode()
    def first_token(self) -> float:
        """The long prompt, nothing cached."""
        ids = self._ids(1, self.workload.first_token)
        started = perf_counter()
        self._forward(self.model, ids, None)
        return perf_counter() - started

    def _choose(
        self, work: str, run: Callable[[str], float], *, with_generate: bool = False
    ) -> str:
        """The fastest way of doing a kind of work, tried once and remembered."""
        if work not in self.chosen:
            ways = list(CACHES)
            if with_generate:
                ways += [f"generate, {name}" for name in CACHES]
            elif self._compiled is not None:
                ways.append("StaticCache, torch.compile")
            for way in ways:
                run(way)
            self.chosen[work] = min(ways, key=run)
        return self.chosen[work]

    @torch.inference_mode()
    def _decode(self, batch: int, way: str, short: bool = False) -> float:
        load = self.workload
        steps = min(8, load.decode_steps) if short else load.decode_steps
        forward = self._compiled if way.endswith("torch.compile") else self.model
        cache = self._cache(way, load.decode_prompt + load.decode_steps + 1)
        tokens = self._forward(self.model, self._ids(batch, load.decode_prompt), cache)
        tokens = self._forward(forward, tokens, cache)
        started = perf_counter()
        for _ in range(steps):
            tokens = self._forward(forward, tokens, cache)
        return perf_counter() - started

    @torch.inference_mode()
    def _serve(self, way: str) -> float:
        load = self.workload
        ids = self._ids(load.serve_requests, load.serve_prompt)
        started = perf_counter()
        if way.startswith("generate"):
            self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                min_new_tokens=load.serve_outputs,
                max_new_tokens=load.serve_outputs,
                cache_implementation="static" if way.endswith("StaticCache") else None,
                disable_compile=True,
                pad_token_id=0,
            )
            return perf_counter() - started
        cache = self._cache(way, load.serve_prompt + load.serve_outputs)
        tokens = self._forward(self.model, ids, cache)
        for _ in range(load.serve_outputs - 1):
            tokens = self._forward(self.model, tokens, cache)
        return perf_counter() - started

    def _ids(self, batch: int, length: int) -> torch.Tensor:
        return torch.tensor(prompts(batch, length, self.vocab_size))

    def _cache(self, way: str, length: int) -> Any:
        dynamic, static = self._caches
        if "StaticCache" in way:
            return static(config=self.model.config, max_cache_len=length)
        return dynamic(config=self.model.config)

    def _forward(self, forward: Any, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        """One pass; the greedy tokens [B, 1], read as numbers as a server would have to."""
        out = forward(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        tokens = out.logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens.tolist()
        return tokens
