"""A model, loaded and given the pool that an engine's settings ask for."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

from core.config import EngineConfig
from core.model.errors import MemoryBudgetError, ModelError
from core.model.gpu_memory import CudaMemory, DeviceMemory, measure
from core.model.made_up_steps import decode_step, prompt_step
from core.model.model_runner import ModelRunner
from core.model.paged_steps import PagedOptions
from core.runner import StepBatch

_log = logging.getLogger("kv_scope.engine")


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """What only a GPU asks for.

    gpu_memory_utilization: the share of its memory that weights, a step and the pool may take
    together; the pool then has as many blocks as fit, whatever the settings say. enforce_eager: no
    CUDA graphs; steps are slower, and their parts are timed. Both are vLLM's names.
    """

    gpu_memory_utilization: float | None = None
    enforce_eager: bool = False


NO_GPU_SETTINGS = GpuSettings()


def load_runner(
    model: str | Path,
    engine: EngineConfig,
    *,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    seed: int = 0,
    weights: str | None = None,
    gpu: GpuSettings = NO_GPU_SETTINGS,
    max_model_len: int | None = None,
    kv_cache_memory_bytes: int | None = None,
) -> tuple[ModelRunner, EngineConfig]:
    """Load a model for these settings, and give the settings with the pool that it got.

    max_model_len: of the longest context in tokens; None: what the model was made for.
    kv_cache_memory_bytes: of the pool; it then has as many blocks as they hold in the format of the
    cache, on any device. Graphs are not captured yet (`ModelRunner.capture_graphs`).

    Raises what `ModelRunner` and `fit_pool` raise.
    """
    utilization = gpu.gpu_memory_utilization
    if utilization is not None and kv_cache_memory_bytes is not None:
        raise ModelError(
            "gpu_memory_utilization and kv_cache_memory_bytes both size the pool: give one of them"
        )
    if kv_cache_memory_bytes is not None and not engine.kv_cache:
        raise ModelError("kv_cache_memory_bytes sizes a KV pool, and kv_cache is false: leave one")
    given = utilization is None and kv_cache_memory_bytes is None
    pool = engine.kv_pool if given else {**engine.kv_pool, "num_blocks": 1}
    options = PagedOptions(
        max_num_seqs=engine.max_num_seqs,
        max_model_len=max_model_len,
        enforce_eager=gpu.enforce_eager,
    )
    runner = ModelRunner(
        model,
        dtype,
        device,
        threads=threads,
        seed=seed,
        weights=weights,
        paged=options,
        **pool,
    )
    if utilization is not None:
        engine = fit_pool(runner, engine, utilization, seed, max_model_len)
    if kv_cache_memory_bytes is not None:
        engine = fill_bytes(runner, engine, kv_cache_memory_bytes, seed)
    return runner, engine


def fill_bytes(
    runner: ModelRunner, engine: EngineConfig, num_bytes: int, seed: int = 0
) -> EngineConfig:
    """Give a runner that is bound to a pool of these settings as many blocks as `num_bytes` hold,
    fixed scales counted. Returns the settings with them. Raises MemoryBudgetError for none."""
    block = runner.kv_bytes_per_token * engine.block_size
    fixed = 0 if runner.kv_format is None else runner.kv_format["scale_bytes"]
    num_blocks = (num_bytes - fixed) // block
    if num_blocks < 1:
        raise MemoryBudgetError(
            f"kv_cache_memory_bytes {num_bytes:,} hold no block: one takes {block:,} bytes"
            + (f", and the scales {fixed:,}" if fixed else "")
        )
    engine = dataclasses.replace(engine, num_blocks=num_blocks)
    runner.bind(**engine.kv_pool, seed=seed)
    return engine


def fit_pool(
    runner: ModelRunner,
    engine: EngineConfig,
    utilization: float,
    seed: int = 0,
    max_model_len: int | None = None,
    memory: DeviceMemory | None = None,
) -> EngineConfig:
    """Give a runner the largest pool that a share of its GPU's memory allows.

    engine: room is made for steps of its `max_num_seqs` and `max_num_batched_tokens`.
    max_model_len: as in `load_runner`; where it is given, a context of that length must fit.
    memory: what to ask, None: CUDA. Returns the settings with the `num_blocks` that were made.

    Raises ModelError on a CPU, MemoryBudgetError where no pool fits.
    """
    if memory is None:
        if runner.device.type != "cuda":
            raise ModelError(
                "gpu_memory_utilization is for a GPU, and the device is the CPU: give num_blocks"
            )
        memory = CudaMemory(runner.device)
    if not engine.kv_cache:
        raise ModelError("gpu_memory_utilization sizes a KV pool, and kv_cache is false: leave one")
    longest = min(max_model_len or runner.max_model_len, runner.max_model_len)
    # One block, which stands for all: nothing is written anywhere else.
    runner.bind(**{**engine.kv_pool, "num_blocks": 1}, seed=seed)
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
    least = 1 if max_model_len is None else engine.blocks_for(longest)
    num_blocks = plan.num_blocks(runner.kv_bytes_per_token * engine.block_size, least)
    _log.info("a pool of %s blocks: %s", num_blocks, plan)
    engine = dataclasses.replace(engine, num_blocks=num_blocks)
    runner.bind(**engine.kv_pool, seed=seed)
    return engine
