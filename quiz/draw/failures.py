"""What goes wrong under load. Where the scheduler can be asked, its run gives the answer."""

from __future__ import annotations

from math import ceil, floor
from random import Random
from typing import Any

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import gpus
from quiz.draw.common import GPUS, calc, counted, scenario, title, whole
from quiz.draw.figures import three
from quiz.items import Answer, Drawn, Proof

Request = dict[str, Any]


def _request(name: str, first: int, tokens: int, answer: int, arrive: int = 0) -> Request:
    prompt = list(range(first, first + tokens))
    return {"id": name, "prompt_tokens": prompt, "max_tokens": answer, "arrive_step": arrive}


def _engine(**settings: Any) -> dict[str, Any]:
    base = {"block_size": 4, "max_num_batched_tokens": 256, "max_model_len": 512}
    return {**base, "prefix_cache": "off", **settings}


def resumed(rng: Random) -> Drawn:
    """Tokens that a preempted request computes in the step in which it comes back."""
    prompt = rng.randrange(5, 20)
    blocks = 2 * (ceil(prompt / 4) + rng.randrange(1, 4))
    room = 4 * blocks // 2
    answer = room - prompt + rng.randrange(4, 9)
    own = scenario(
        f"Two prompts of {prompt} tokens, {blocks} blocks",
        _engine(num_blocks=blocks, max_num_seqs=2),
        [_request("A", 1, prompt, answer), _request("B", 501, prompt, answer)],
    )
    steps = simulate(Scenario.from_dict(own)).steps
    back = next(s for s in steps if any(e["type"] == "resumed" for e in s["events"]))
    right = int(back["scheduled"]["B"]["num_scheduled_tokens"])
    tokens = {
        "right": right,
        "prompt_alone": prompt,
        "answer_alone": right - prompt,
        "next_alone": 1,
        "what_is_left": answer - (right - prompt),
        "whole_request": prompt + answer,
    }
    return Drawn(
        values={
            "prompt": prompt,
            "written": counted(right - prompt, "token"),
            "right": right,
            "step": back["step"],
        },
        answers={key: Answer(counted(value, "token")) for key, value in tokens.items()},
        sign=f"{prompt} {blocks} {answer}",
        given=(
            f"prompt {prompt} tokens",
            f"written so far {counted(right - prompt, 'token')}",
            f"max_tokens {answer}",
            "max_num_batched_tokens 256",
            "no prefix cache",
        ),
        proof=Proof({"own": own, "step": back["step"]}),
    )


def full_pool(rng: Random) -> Drawn:
    """The step in which a pool that all running sequences grow into is first too small."""
    running, prompt = rng.choice((2, 3, 4)), rng.randrange(6, 15)
    each = ceil(prompt / 4) + rng.randrange(2, 6)
    blocks = running * each + rng.randrange(1, running)
    own = scenario(
        f"{running} prompts of {prompt} tokens, {blocks} blocks",
        _engine(num_blocks=blocks, max_num_seqs=running),
        [_request("ABCD"[i], 1 + 100 * i, prompt, 4 * each) for i in range(running)],
    )
    run = simulate(Scenario.from_dict(own))
    right = next(s["step"] for s in run.steps if any(e["type"] == "preempted" for e in s["events"]))
    steps = {
        "right": right,
        "tokens": floor(4 * blocks / running) - prompt + 1,
        "one_grows": 4 * blocks - running * prompt + 1,
        "block_a_step": each - ceil(prompt / 4) + 1,
        "no_prompt": 4 * each + 1,
    }
    return Drawn(
        values={
            "running": running,
            "prompt": prompt,
            "blocks": blocks,
            "each": each,
            "left": counted(blocks - running * each, "block"),
            "room": 4 * each,
            "right": right,
        },
        answers={key: Answer(f"step {value}") for key, value in steps.items()},
        sign=f"{running} {prompt} {blocks}",
        given=(
            f"pool {blocks} blocks of 4",
            f"{running} running, prompts of {prompt} tokens, computed in step 0",
            "one token a step for each",
        ),
        proof=Proof({"own": own, "step": right}),
    )


def pieces(rng: Random) -> Drawn:
    """Steps that a long prompt takes beside sequences that decode."""
    others, budget = rng.choice((3, 4, 6, 8)), rng.choice((16, 24, 32))
    prompt = rng.randrange(100, 361)
    long_enough = ceil(prompt / (budget - others)) + 5
    own = scenario(
        f"A prompt of {prompt} tokens beside {others} answers, {budget} tokens a step",
        _engine(
            num_blocks=256,
            max_num_seqs=others + 1,
            max_num_batched_tokens=budget,
            chunked_prefill=True,
        ),
        [
            *(_request("ABCDEFGH"[i], 1 + 10 * i, 2, long_enough) for i in range(others)),
            _request("L", 1001, prompt, 1, arrive=2),
        ],
    )
    taken = [s["step"] for s in simulate(Scenario.from_dict(own)).steps if "L" in s["scheduled"]]
    steps = {
        "right": len(taken),
        "budget_alone": ceil(prompt / budget),
        "at_once": 1,
        "even_shares": ceil(prompt * (others + 1) / budget),
        "rounded_down": floor(prompt / (budget - others)),
    }
    return Drawn(
        values={
            "prompt": prompt,
            "budget": budget,
            "others": others,
            "left": budget - others,
            "right": counted(len(taken), "step"),
            "down": floor(prompt / (budget - others)),
        },
        answers={key: Answer(counted(value, "step")) for key, value in steps.items()},
        sign=f"{others} {budget} {prompt}",
        given=(
            f"prompt {prompt} tokens",
            f"max_num_batched_tokens {budget}",
            f"{others} sequences decode",
        ),
        proof=Proof({"own": own, "step": taken[0]}),
    )


def stalled(rng: Random) -> Drawn:
    """Seconds that one long prompt takes when it is computed in a single step."""
    model, gpu = rng.choice(
        (
            ("llama-3.1-8b", "h100-sxm5"),
            ("llama-3.1-8b", "a100-sxm4-80"),
            ("qwen3-32b", "h200-sxm"),
            ("qwen3-32b", "h100-sxm5"),
            ("llama-3.1-70b", "h100-sxm5"),
            ("llama-3.1-70b", "h200-sxm"),
        )
    )
    number = {"llama-3.1-8b": 2, "qwen3-32b": 4, "llama-3.1-70b": 8}[model]
    tokens = 1024 * rng.choice((24, 32, 40))
    inputs: dict[str, Any] = {"model": model, "tokens": tokens, "gpu": gpu}
    right = float(calc("prefill_time", n_gpu=number, mfu=0.5, **inputs))
    share = float(calc("attention_flop_share", model=model, tokens=tokens))
    seconds = {
        "right": right,
        "full_peak": calc("prefill_time", n_gpu=number, **inputs),
        "one_gpu": calc("prefill_time", mfu=0.5, **inputs),
        "no_square": right * (1 - share),
        "like_decode": calc("decode_step_time", model=model, gpu=gpu, n_gpu=number),
    }
    flops = float(calc("prefill_flops", model=model, tokens=tokens))
    peak = gpus.get(gpu).peaks["bf16"]
    return Drawn(
        values={
            "model": title(model),
            "gpu": GPUS[gpu],
            "number": number,
            "tokens": whole(tokens),
            "flops": three(flops / 1e12),
            "reached": three(number * peak / 2e12),
            "right": f"{three(right)} s",
            "step": f"{three(seconds['like_decode'])} s",
            "share": f"{100 * share:.0f}",
        },
        answers={key: Answer(f"{three(value)} s") for key, value in seconds.items()},
        sign=f"{model} {gpu} {tokens}",
        drawn=f"{title(model)} on {number} {GPUS[gpu]}",
        given=(
            f"prompt {tokens:,} tokens: {three(flops / 1e12)} TFLOP, {100 * share:.0f} % attention",
            f"{number} GPUs of {peak / 1e12:,.4g} TFLOP/s in BF16",
            "half of the peak reached",
        ),
        proof=Proof({"claim": "L077"}, page="claims_ledger"),
    )


def held_back(rng: Random) -> Drawn:
    """Tokens of the longest prompt that is let in past a watermark."""
    blocks, percent = rng.choice((40, 50, 60, 80)), rng.choice((10, 20, 25))
    kept = ceil(blocks * percent / 100)
    free = kept + rng.randrange(4, blocks - kept - 8)
    right = 4 * (free - kept)
    own = scenario(
        f"{free} of {blocks} blocks free, {percent} percent held back",
        _engine(num_blocks=blocks, max_num_seqs=4, watermark=percent / 100),
        [
            _request("A", 1, 4 * (blocks - free) - 2, 12),
            _request("B", 501, right + 1, 1, arrive=1),
        ],
    )
    tokens = {
        "right": right,
        "no_watermark": 4 * free,
        "of_free": 4 * (free - ceil(free * percent / 100)),
        "what_is_kept": 4 * kept,
        "blocks": free - kept,
    }
    return Drawn(
        values={
            "blocks": blocks,
            "percent": percent,
            "free": free,
            "kept": kept,
            "room": free - kept,
            "right": right,
            "more": right + 1,
        },
        answers={key: Answer(counted(value, "token")) for key, value in tokens.items()},
        sign=f"{blocks} {percent} {free}",
        given=(
            f"pool {blocks} blocks of 4",
            f"free {free} blocks",
            f"watermark {percent} % of the pool",
            "other requests are running",
        ),
        proof=Proof({"own": own, "step": 1}),
    )
