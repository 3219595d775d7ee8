"""The whole engine on the device: tokens a second, and the time between tokens of one request;
beside vLLM, where an interpreter is named that has it."""

from __future__ import annotations

import dataclasses
import gc
import inspect
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from bench.gpu.bench import Bench
from bench.gpu.report import Row
from bench.gpu.shapes import Load
from bench.gpu.vllm_peer import Vllm, VllmError
from bench.timing import Timing, alternate, ratio
from bench.workload import prompts
from core.config import EngineConfig
from core.errors import KVScopeError
from core.llm import LLM
from core.outputs import SamplingParams

PART = "engine"
BLOCK_SIZE = 16
BEST: dict[str, Any] = {"enforce_eager": False, "async_scheduling": True}
"""CUDA graphs, and steps decided ahead: how a GPU is served, and what vLLM does by itself."""

VARIANTS: dict[str, dict[str, Any]] = {
    "eager": {"enforce_eager": True},
    "synchronous": {"async_scheduling": False},
    "eager, synchronous": {"enforce_eager": True, "async_scheduling": False},
    "fp8 KV": {"kv_dtype": "fp8"},
    "int8 KV": {"kv_dtype": "int8_per_token_head"},
}
"""What is changed of `BEST`; each is measured in turn with it."""


class Ours:
    """Our engine, ready for the load. Raises KVScopeError.

    Methods return wall seconds; on a GPU tokens are read on the host each step, so that a call that
    has returned has computed everything.
    """

    def __init__(self, model: str, device: str, load: Load, settings: Mapping[str, Any]) -> None:
        self._load = load
        common = common_settings(load)
        self._llm = LLM(model, device=device, trace=False, **{**common, **settings})
        self._ids = prompts(load.requests, load.prompt, self._llm.runner.vocab_size)

    @property
    def pool_bytes(self) -> int:
        return self._llm.runner.kv_cache_bytes

    @property
    def directory(self) -> Path:
        """The model's files."""
        return self._llm.runner.directory

    def serve(self) -> float:
        """All requests at once, to their last token."""
        return self._generate(self._ids, self._load.outputs)

    def gap(self) -> float:
        """Mean time between two tokens of a request that is alone."""
        return gap(self._load, lambda count: self._generate(self._ids[:1], count))

    def _generate(self, ids: list[list[int]], count: int) -> float:
        started = perf_counter()
        answers = self._llm.generate(
            ids, SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
        )
        seconds = perf_counter() - started
        assert all(len(answer.outputs[0].token_ids) == count for answer in answers)
        return seconds


def gap(load: Load, generate: Callable[[int], float]) -> float:
    """(time of n tokens − time of one) / (n − 1): the same for every engine. At least 0: on a
    loaded machine the difference of two short times may be anything."""
    whole, first = generate(load.single), generate(1)
    return max(whole - first, 0.0) / (load.single - 1)


def common_settings(load: Load) -> dict[str, Any]:
    """What every engine is given: a pool in which nobody waits for blocks, no prefix cache."""
    longest = load.prompt + max(load.outputs, load.single)
    return {
        "block_size": BLOCK_SIZE,
        "num_blocks": (load.requests + 1) * -(-longest // BLOCK_SIZE),
        "max_num_seqs": load.requests,
        "max_num_batched_tokens": load.max_num_batched_tokens,
        "max_model_len": longest,
        "prefix_cache": "off",
    }


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Those that this version's engine does not have."""
    known = {field.name for field in dataclasses.fields(EngineConfig)}
    known |= set(inspect.signature(LLM.__init__).parameters)
    return [name for name in settings if name not in known]


def run(bench: Bench, model: str, vllm_python: str | None) -> None:
    """The engine at its best, each variant in turn with it, then vLLM."""
    load = bench.sizes.load
    unknown = unknown_settings(BEST)
    best = {name: value for name, value in BEST.items() if name not in unknown}
    bench.report.say(
        f"model {model}, bfloat16, greedy, {load.requests} requests × ({load.prompt} in, "
        f"{load.outputs} out), alone {load.single} out; {common_settings(load)}; ours: {best}"
    )
    ours = Ours(model, bench.device.type, load, best)
    _measure(bench, load, {"ours": ours})
    for name, changes in VARIANTS.items():
        missing = unknown_settings(changes)
        if missing:
            bench.report.say(f"{name}: not in this version ({', '.join(missing)})")
            continue
        settings = {**best, **changes}
        try:
            variant = Ours(model, bench.device.type, load, settings)
            _measure(bench, load, {"ours": ours, f"ours, {name}": variant})
        except KVScopeError as error:
            bench.report.say(f"{name}: not measured: {' '.join(str(error).split())}")
        variant = None
        _release(bench)
    if vllm_python is None:
        bench.report.say("vLLM: not compared; --vllm-python names an interpreter that has it")
        return
    try:
        peer = Vllm(vllm_python, ours.directory, load, common_settings(load), ours.pool_bytes)
        with closing(peer) as theirs:
            bench.report.say(f"vLLM {theirs.version}: {theirs.settings}")
            _measure(bench, load, {"ours": ours, f"vLLM {theirs.version}": theirs})
    except VllmError as error:
        bench.report.say(f"vLLM: not compared: {error}")


def _measure(bench: Bench, load: Load, engines: Mapping[str, Any]) -> None:
    """Throughput, then the gap, each in turn; the first is ours."""
    first = next(iter(engines))
    name = f"serve {load.requests} × ({load.prompt} in, {load.outputs} out)"
    units = load.requests * load.outputs
    for title, method, tokens in ((name, "serve", units), ("between tokens, alone", "gap", 1)):
        calls = {who: getattr(engine, method) for who, engine in engines.items()}
        samples = alternate(calls, bench.sizes.repeats)
        for who, values in samples.items():
            seconds = Timing.of(values)
            bench.report.add(
                Row(
                    part=PART,
                    name=title,
                    who=who,
                    seconds=seconds,
                    rate=seconds.per_second(tokens) if seconds.low > 0 else None,
                    unit="tok/s",
                    against=ratio(samples[first], values) if who != first and min(values) else None,
                    beside="" if who == first else "ours",
                )
            )


def _release(bench: Bench) -> None:
    """Give an engine's memory back before the next one is made."""
    gc.collect()
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
