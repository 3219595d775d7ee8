"""Size the pool of a loaded model by the memory of its GPU."""

from __future__ import annotations

import dataclasses
import logging

from core.config import EngineConfig
from core.model.errors import ModelError
from core.model.gpu_memory import CudaMemory, DeviceMemory, decode_step, measure, prompt_step
from core.model.model_runner import ModelRunner
from core.runner import StepBatch

_log = logging.getLogger("kv_scope.engine")


def fit_pool(
    runner: ModelRunner,
    engine: EngineConfig,
    utilization: float,
    seed: int = 0,
    memory: DeviceMemory | None = None,
) -> EngineConfig:
    """Give a runner the largest pool that a share of its GPU's memory allows.

    engine: its `num_blocks` is replaced by what fits, its `block_size`, `max_num_seqs`,
    `max_num_batched_tokens` and `max_model_len` are what is made room for. memory: what to ask,
    None: CUDA. Returns the settings with the pool that was made.

    Raises ModelError on a CPU, MemoryBudgetError where not even one longest context fits.
    """
    if memory is None:
        if runner.device.type != "cuda":
            raise ModelError(
                "gpu_memory_utilization is for a GPU, and the device is the CPU: give num_blocks"
            )
        memory = CudaMemory(runner.device)
    if not engine.kv_cache:
        raise ModelError("gpu_memory_utilization sizes a KV pool, and kv_cache is false: leave one")
    longest = min(engine.max_model_len, runner.max_model_len)
    # One block, which stands for all: nothing is written anywhere else.
    runner.bind(**{**engine.kv_pool, "num_blocks": 1}, seed=seed)
    bytes_per_block = runner.kv_bytes_per_token * engine.block_size
    prompts, decodes = prompt_step(engine, longest), decode_step(engine, longest)

    def run(batch: StepBatch) -> None:
        runner.execute(batch)

    plan = measure(
        memory,
        utilization,
        lambda: run(prompts),
        lambda: run(decodes),
        len(runner.graph_sizes),
    )
    num_blocks = plan.num_blocks(bytes_per_block, engine.blocks_for(longest))
    _log.info("a pool of %s blocks of %s bytes: %s", num_blocks, bytes_per_block, plan)
    engine = dataclasses.replace(engine, num_blocks=num_blocks)
    runner.bind(**engine.kv_pool, seed=seed)
    return engine
