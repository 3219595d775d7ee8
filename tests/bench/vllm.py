"""A stand-in for vLLM 0.33 in a worker process: it answers, and prints beside its answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import SimpleNamespace

__version__ = "0.33.0"
KNOWN = {
    "model", "dtype", "block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "enable_prefix_caching", "gpu_memory_utilization", "kv_cache_memory_bytes", "seed",
}  # fmt: skip


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    ignore_eos: bool = False
    detokenize: bool = True


class LLM:
    def __init__(self, model: str, **settings: object) -> None:
        print("INFO loading", model)
        unknown = settings.keys() - KNOWN
        if unknown:
            raise TypeError(f"EngineArgs got unexpected arguments {sorted(unknown)}")
        if os.environ.get("STAND_IN") == "dies":
            os._exit(1)

    def generate(
        self, prompts: list[dict], params: SamplingParams, *, use_tqdm: bool = True
    ) -> list[SimpleNamespace]:
        assert params.temperature == 0 and params.ignore_eos and not use_tqdm
        count = params.max_tokens - (os.environ.get("STAND_IN") == "stops early")
        print("INFO", len(prompts), "prompts")
        return [
            SimpleNamespace(
                outputs=[SimpleNamespace(token_ids=one["prompt_token_ids"][:1] * count)]
            )
            for one in prompts
        ]
