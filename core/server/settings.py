"""What an engine process loads, and the live engine's shape."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from core.errors import ScenarioError
from core.model.load_runner import NO_GPU_SETTINGS, GpuSettings, load_runner
from core.model.model_runner import ModelRunner
from core.scenario import Scenario

DEFAULTS: dict[str, Any] = {
    "num_blocks": 512,
    "block_size": 16,
    "max_num_seqs": 32,
    "max_num_batched_tokens": 256,
    "max_model_len": 2048,
}


@dataclass(slots=True)
class ServeSettings:
    """scenario: the live engine's settings, without requests. debug: check every step."""

    scenario: Scenario
    dtype: str | None = None
    weights: str | None = None
    device: str | None = None
    threads: int | None = None
    kv_cache_memory_bytes: int | None = None
    debug: bool = False
    gpu: GpuSettings = NO_GPU_SETTINGS

    @classmethod
    def make(
        cls, model: str, engine: dict[str, Any], *, seed: int = 0, **fields: Any
    ) -> ServeSettings:
        """Defaults filled in and checked. Raises ScenarioError."""
        scenario = Scenario.from_dict(
            {
                "schema": "scenario/1",
                "name": "live",
                "model": model,
                "seed": seed,
                "engine": {**DEFAULTS, **engine},
            }
        )
        return cls(scenario, **fields)

    def load(self) -> ModelRunner:
        """Load the weights and make the pool. Raises ModelError, ScenarioError."""
        engine = self.scenario.engine
        runner, engine = load_runner(
            self.scenario.model,
            engine,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            seed=self.scenario.seed,
            weights=self.weights,
            kv_cache_memory_bytes=self.kv_cache_memory_bytes,
            gpu=self.gpu,
            max_model_len=engine.max_model_len,
        )
        longest = min(engine.max_model_len, runner.max_model_len)
        if longest < 2:
            raise ScenarioError("engine.max_model_len", f"{longest} is too short for any prompt")
        engine = dataclasses.replace(engine, max_model_len=longest)
        self.scenario = dataclasses.replace(self.scenario, engine=engine)
        return runner
