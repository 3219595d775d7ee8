"""Engines compared: what their defaults and their settings come to in numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import gpus
from quiz.draw.common import GPUS, calc, counted, ms, scenario, title, whole
from quiz.draw.figures import gib
from quiz.items import Answer, Drawn, Proof

SLOTS = {"vLLM": 16, "TensorRT-LLM": 32, "SGLang": 1}
"""Tokens of a block by default: vLLM config/cache.py, TensorRT-LLM KvCacheConfig, SGLang page_size
(read 2026-11)."""


def empty_slots(rng: Random) -> Drawn:
    """Slots that stay empty behind a sequence in each engine's default block."""
    tokens = rng.randrange(200, 3000)
    sizes = tuple(SLOTS.values())

    def empty(size: int) -> int:
        return int(calc("blocks_for_tokens", tokens=tokens, block_size=size)) * size - tokens

    def shown(numbers: tuple[int, ...]) -> Answer:
        return Answer(" / ".join(map(str, numbers)))

    answers = {
        "right": shown(tuple(empty(size) for size in sizes)),
        "one_default": shown((empty(16),) * 3),
        "filled": shown(tuple(tokens % size for size in sizes)),
        "at_worst": shown(tuple(size - 1 for size in sizes)),
        "swapped": shown((empty(32), empty(16), empty(1))),
    }
    return Drawn(
        values={
            "tokens": whole(tokens),
            **{f"blocks{size}": whole((tokens + empty(size)) // size) for size in sizes},
            **{f"empty{size}": empty(size) for size in sizes},
        },
        answers=answers,
        sign=str(tokens),
        given=(
            f"tokens {tokens:,}",
            *(f"{name} {counted(size, 'slot')}" for name, size in SLOTS.items()),
        ),
        proof=Proof({"claim": "B057"}, page="claims_ledger"),
    )


def more_memory(rng: Random) -> Drawn:
    """By how much the pool grows when the engine may use more of a GPU."""
    gpu = rng.choice(("h100-sxm5", "h200-sxm", "a100-sxm4-80"))
    model = rng.choice(("llama-3.1-8b", "qwen3-8b", "qwen3-32b"))
    low, more = rng.choice((80, 85, 88, 90)), rng.choice((2, 3, 4, 5))

    def pool(util: int) -> float:
        share = util / 100
        return float(
            calc("kv_pool_bytes_per_gpu", gpu=gpu, model=model, gpu_memory_utilization=share)
        )

    memory = gpus.get(gpu).visible_bytes
    before = pool(low)
    amounts = {
        "right": pool(low + more) - before,
        "of_the_pool": before * more / 100,
        "in_proportion": before * more / low,
        "of_the_rest": memory * (100 - low) / 100 * more / 100,
        "pool_itself": pool(low + more),
    }
    return Drawn(
        values={
            "gpu": GPUS[gpu],
            "model": title(model),
            "low": f"{low / 100:.2f}",
            "high": f"{(low + more) / 100:.2f}",
            "more": more,
            "memory": gib(memory),
            "before": gib(before),
            "after": gib(before + amounts["right"]),
        },
        answers={key: Answer(gib(value)) for key, value in amounts.items()},
        sign=f"{gpu} {model} {low} {more}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"the driver shows {gib(memory)}",
            f"gpu_memory_utilization {low / 100:.2f}, then {(low + more) / 100:.2f}",
            f"pool {gib(before)} before",
        ),
        proof=Proof(
            {"model": model, "gpu": gpu, "tp": 1, "w": "bf16", "util": low + more},
            page="capacity_planner",
        ),
    )


def shared_once(rng: Random) -> Drawn:
    """Blocks of several prompts behind one prefix, in an engine that finds blocks by hash."""
    users, size = rng.randrange(4, 9), 4
    shared, own = size * rng.randrange(5, 16), size * rng.randrange(2, 6)
    start = list(range(1, shared + 1))
    requests = [
        {
            "id": f"R{i}",
            "prompt_tokens": [*start, *range(1000 * (i + 1), 1000 * (i + 1) + own)],
            "max_tokens": 8 if i == 0 else 2,
            "arrive_step": 0 if i == 0 else 1,
        }
        for i in range(users)
    ]
    engine: dict[str, Any] = {
        "num_blocks": 512,
        "block_size": size,
        "max_num_seqs": users,
        "max_num_batched_tokens": 1024,
        "max_model_len": 256,
        "prefix_cache": "hash",
    }
    name = f"{users} prompts, {shared} tokens in common"
    content = scenario(name, engine, requests)
    held = sum(
        len(event["blocks"])
        for step in simulate(Scenario.from_dict(content)).steps
        for event in step["events"]
        if event["type"] == "blocks_allocated" and event["reason"] != "decode"
    )
    blocks = {
        "right": held,
        "each_its_own": users * (shared + own) // size,
        "prefix_alone": shared // size,
        "one_prompt": (shared + own) // size,
        "no_prefix": users * own // size,
    }
    return Drawn(
        values={
            "users": users,
            "shared": shared,
            "own": own,
            "common": shared // size,
            "rest": own // size,
            "right": held,
        },
        answers={key: Answer(counted(value, "block")) for key, value in blocks.items()},
        sign=f"{users} {shared} {own}",
        given=(
            f"prompts {users}, block_size {size}",
            f"first {shared} tokens alike",
            f"other {own} tokens of each its own",
        ),
        proof=Proof({"own": content, "step": 1}),
    )


def first_piece(rng: Random) -> Drawn:
    """Milliseconds of the step that computes the first piece of a long prompt."""
    model, gpu = rng.choice(
        (
            ("llama-3.1-8b", "h100-sxm5"),
            ("llama-3.1-8b", "a100-sxm4-80"),
            ("qwen3-8b", "h200-sxm"),
            ("qwen3-8b", "a100-sxm4-80"),
            ("mistral-7b", "h100-sxm5"),
        )
    )
    budget, tokens = rng.choice((1024, 2048, 4096)), 1024 * rng.choice((24, 28, 32))
    at: dict[str, Any] = {"model": model, "gpu": gpu, "mfu": 0.5}
    whole_prompt = float(calc("prefill_time", tokens=tokens, **at))
    seconds = {
        "right": calc("prefill_time", tokens=budget, **at),
        "all_of_it": whole_prompt,
        "even": whole_prompt * budget / tokens,
        "last_piece": calc("prefill_time", tokens=budget, computed=tokens - budget, **at),
        "like_decode": calc("decode_step_time", model=model, gpu=gpu),
    }
    flops = [
        float(calc("prefill_flops", model=model, tokens=one)) / 1e12 for one in (budget, tokens)
    ]
    peak = gpus.get(gpu).peaks["bf16"]
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "budget": whole(budget),
            "tokens": whole(tokens),
            "flops": f"{flops[0]:,.3g}",
            "reached": f"{peak / 2e12:,.4g}",
            "last": ms(seconds["last_piece"]),
            "step": ms(seconds["like_decode"]),
            "pieces": tokens // budget,
        },
        answers={key: Answer(ms(value)) for key, value in seconds.items()},
        sign=f"{model} {gpu} {budget} {tokens}",
        drawn=f"{title(model)} on an {GPUS[gpu]}",
        given=(
            f"prompt {tokens:,} tokens: {flops[1]:,.4g} TFLOP",
            f"its first {budget:,}: {flops[0]:,.3g} TFLOP",
            f"{peak / 1e12:,.4g} TFLOP/s in BF16, half of it reached",
        ),
        proof=Proof({"study": "landing", "chunk": 256}, page="batching"),
    )
