"""A plan as the command that starts a server: options of vLLM and of SGLang.

Only options that both projects document are written, and only what the plan decides. What an engine
has no option for is a note, never a guess: it is a comment above the command.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import Final

from core.sizing.errors import SizingError
from core.sizing.plan import Plan
from core.sizing.stored import CHECKPOINT

ENGINES: Final = ("vllm", "sglang")
_KV: Final = {
    "bf16": "auto",
    "fp16": "auto",
    "fp8": "fp8",
    "fp8_per_token_head": "fp8_per_token_head",
    "int8_per_token_head": "int8_per_token_head",
    "int4_per_token_head": "int4_per_token_head",
}
_SGLANG_KV: Final = {"bf16": "auto", "fp16": "auto", "fp8": "fp8_e4m3"}
_ON_LOADING: Final = ("fp8",)
"""Formats that both engines make themselves from a checkpoint in 16 bits. Any other is read from
the checkpoint, which says how it is quantised: naming it here can only choose a slower kernel."""
MACHINE_GPUS: Final = 8
"""GPUs that one machine usually has: a command starts the processes of one machine."""


@dataclass(frozen=True, slots=True)
class Command:
    """words: the command as a shell splits it. notes: what it leaves to the reader."""

    engine: str
    words: tuple[str, ...]
    notes: tuple[str, ...]

    def text(self) -> str:
        """As a shell script: notes as comments, one option a line."""
        head, rows = [], []
        for word in self.words:
            if word.startswith("--"):
                rows.append([word])
            elif rows:
                rows[-1].append(word)
            else:
                head.append(word)
        lines = [shlex.join(head), *(f"  {shlex.join(row)}" for row in rows)]
        comments = [f"# {' '.join(note.split())}" for note in self.notes]
        return "\n".join([*comments, " \\\n".join(lines)]) + "\n"


def command(plan: Plan, engine: str, model: str) -> Command:
    """The command for a plan. model: a repository's name or a path. Raises SizingError for an
    engine that is not one of ENGINES, and for a plan that holds not one sequence."""
    if engine not in ENGINES:
        raise SizingError("engine", f"{engine[:60]!r} is not one of {', '.join(ENGINES)}")
    if not plan.fits:
        raise SizingError("engine", "the plan holds not one sequence: there is nothing to start")
    words, notes = _vllm(plan, model) if engine == "vllm" else _sglang(plan, model)
    return Command(engine, tuple(words), (*_common(plan), *notes))


def _common(plan: Plan) -> list[str]:
    d, notes = plan.deployment, []
    gpus = "1 GPU" if d.gpus == 1 else f"{d.gpus:,} GPUs"
    notes.append(f"{plan.streams.value:,} sequences of {d.context:,} tokens on {gpus}")
    limit = plan.model.max_position
    if limit is not None and d.context > limit:
        notes.append(
            f"the model was made for {limit:,} tokens: both engines refuse {d.context:,} unless "
            "told how its positions are to be scaled"
        )
    if d.allocator == "contiguous":
        notes.append("both engines page: no option reserves contiguously, as the plan does")
    if d.block_size % 16:
        notes.append(
            f"blocks of {d.block_size} tokens: most attention kernels take multiples of 16 alone"
        )
    if d.gpus > MACHINE_GPUS:
        one = d.tp * d.pp
        notes.append(
            f"more GPUs than a machine of {MACHINE_GPUS} has: "
            + (
                "a replica over several machines needs their addresses besides"
                if one > MACHINE_GPUS
                else f"start {d.dp:,} replicas of {one} each, without the option for data "
                "parallelism, behind a router"
            )
        )
    main = d.stored().main.name
    if d.weight_dtype != CHECKPOINT and main not in ("bf16", "fp16", *_ON_LOADING):
        notes.append(f"weights in {main}: put the name of a checkpoint that is stored so")
    return notes


def _default_cache(plan: Plan) -> str:
    return (
        f"no --kv-cache-dtype for {_cache(plan)}: the engine keeps its own format, of another "
        "size, and so not the planned number of sequences"
    )


def _seqs(plan: Plan) -> int:
    """Sequences of a step. Each takes a token of it, and vLLM refuses more of them than tokens."""
    return min(plan.deployment.max_num_seqs, plan.deployment.max_num_batched_tokens)


def _vllm(plan: Plan, model: str) -> tuple[list[str], list[str]]:
    d, notes = plan.deployment, []
    groups = d.dp * d.attention_dp  # each with a scheduler of its own; its GPUs split the heads
    words = ["vllm", "serve", model, "--tensor-parallel-size", str(d.layout.head_split)]
    if d.pp > 1:
        words += ["--pipeline-parallel-size", str(d.pp)]
    if groups > 1:
        words += ["--data-parallel-size", str(groups)]
    if d.attention_dp > 1:
        words.append("--enable-expert-parallel")
        notes.append(
            f"{d.attention_dp} groups attend apart and share the experts; what is not an expert "
            "every group holds whole, where the plan splits it over all"
        )
    words += ["--max-model-len", str(d.context)]
    words += ["--gpu-memory-utilization", _share(d.gpu_memory_utilization)]
    words += ["--max-num-seqs", str(_seqs(plan))]
    words += ["--max-num-batched-tokens", str(d.max_num_batched_tokens)]
    words += ["--block-size", str(d.block_size)]
    kv = _KV.get(_cache(plan))
    if kv is None:
        notes.append(_default_cache(plan))
    elif kv.endswith("_per_token_head"):
        notes.append(f"--kv-cache-dtype {kv}: since 2026, with the Triton attention backend")
    words += ["--kv-cache-dtype", kv or "auto"]
    words.append("--enable-prefix-caching" if d.prefix_cache else "--no-enable-prefix-caching")
    return words + _quantization(plan), notes


def _sglang(plan: Plan, model: str) -> tuple[list[str], list[str]]:
    d, notes = plan.deployment, []
    words = ["python", "-m", "sglang.launch_server", "--model-path", model, "--tp", str(d.tp)]
    if d.pp > 1:
        words += ["--pp-size", str(d.pp)]
    groups = d.attention_dp
    if groups > 1:
        words += ["--dp", str(groups), "--enable-dp-attention"]
        if d.dp > 1:
            notes.append(f"one of {d.dp:,} replicas: start as many, behind a router")
    elif d.dp > 1:
        words += ["--dp", str(d.dp)]
    words += ["--context-length", str(d.context)]
    words += ["--mem-fraction-static", _share(static_share(plan))]
    # With attention apart both are of all groups together, and SGLang divides them.
    words += ["--max-running-requests", str(groups * _seqs(plan))]
    words += ["--chunked-prefill-size", str(groups * d.max_num_batched_tokens)]
    words += ["--page-size", str(d.block_size)]
    kv = _SGLANG_KV.get(_cache(plan))
    if kv is None:
        notes.append(_default_cache(plan))
    words += ["--kv-cache-dtype", kv or "auto"]
    if not d.prefix_cache:
        words.append("--disable-radix-cache")
    notes.append("--mem-fraction-static is the share of weights and KV pool together")
    return words + _quantization(plan), notes


def _cache(plan: Plan) -> str:
    """The format of the cache, scales and all, as it was asked for."""
    d = plan.deployment
    return d.kv_dtype if isinstance(d.kv_dtype, str) else f"{d.kv_format.name} as described"


def static_share(plan: Plan) -> float:
    """Weights and KV pool of a GPU as a share of its memory."""
    held = (plan.weights_per_gpu.value or 0) + (plan.kv_pool_per_gpu.value or 0)
    return held / plan.deployment.gpu.visible_bytes


def _quantization(plan: Plan) -> list[str]:
    d = plan.deployment
    name = d.stored().main.name
    made = d.weight_dtype != CHECKPOINT and name in _ON_LOADING
    return ["--quantization", name] if made else []


def _share(value: float) -> str:
    """Three decimals, rounded down: rounded up it might ask for more than there is."""
    return f"{math.floor(value * 1000 + 1e-9) / 1000:g}"
