"""What a step computes: prompts in pieces, answers beside them, and the arithmetic of a prompt."""

from __future__ import annotations

from random import Random

from core.sizing import catalog
from quiz.draw import simulated
from quiz.draw.common import alike, calc, counted, grouped_models, three, title
from quiz.items import Answer, Drawn, Proof


def prefill_flops(rng: Random) -> Drawn:
    """The arithmetic of a prompt's prefill."""
    model = rng.choice([one for one in grouped_models() if _dense(one)])
    tokens = 1024 * rng.choice((1, 2, 4))
    right = float(calc("prefill_flops", model=model, tokens=tokens))
    work = {
        "right": right,
        "one_flop": right / 2,
        "four_flop": 2 * right,
        "one_token": float(calc("decode_flops", model=model, context=tokens)),
    }
    params = catalog.get(model).params
    assert params is not None
    return Drawn(
        values={
            "model": title(model),
            "tokens": f"{tokens:,}",
            "params": f"{three(params / 1e9)} billion",
            "right": f"{three(right / 1e12)} TFLOP",
        },
        answers={key: Answer(f"{three(value / 1e12)} TFLOP") for key, value in work.items()},
        sign=f"{model} {tokens}",
        drawn=title(model),
        given=(f"parameters {params:,}", f"prompt {tokens:,} tokens"),
        proof=Proof({"model": model, "n": tokens}, page="roofline"),
    )


def _dense(model: str) -> bool:
    """Whether each token visits all of it, and it is large enough to be counted in TFLOP."""
    spec = catalog.get(model)
    return spec.params == spec.active_params and (spec.params or 0) > 5e9


def runs_to_first(rng: Random) -> Drawn:
    """Runs of the model up to the first token of a prompt that is longer than the budget."""
    budget = rng.choice((16, 24, 32, 48, 64))
    pieces = rng.randrange(3, 7)
    prompt = budget * (pieces - 1) + rng.randrange(2, budget)
    made = simulated.content(
        f"{prompt} tokens, {budget} a step",
        [simulated.request("A", prompt, 3)],
        max_num_batched_tokens=budget,
        max_model_len=512,
    )
    sampled = next(
        step["step"]
        for step in simulated.steps(made)
        if any(event["type"] == "token_sampled" for event in step["events"])
    )
    answers = {
        "right": sampled + 1,
        "rounded_down": prompt // budget,
        "at_once": 1,
        "one_more": sampled + 2,
        "each_token": prompt,
    }
    return Drawn(
        values={
            "prompt": prompt,
            "budget": budget,
            "full": pieces - 1,
            "left": prompt - budget * (pieces - 1),
            "right": answers["right"],
        },
        answers={key: Answer(counted(value, "run")) for key, value in answers.items()},
        sign=f"{prompt} {budget}",
        given=(f"prompt {prompt} tokens", f"max_num_batched_tokens {budget}", "chunked prefill"),
        proof=Proof({"own": made, "step": sampled}),
    )


def mixed_step(rng: Random) -> Drawn:
    """Tokens computed in a step in which some decode and one prompt comes in."""
    running, prompt = rng.randrange(3, 9), rng.randrange(20, 90)
    requests = [simulated.request(f"R{i}", 4, 8, first=1 + 10 * i) for i in range(running)]
    requests.append(simulated.request("N", prompt, 4, 2, first=500))
    made = simulated.content(f"{running} decode, {prompt} prompt tokens come in", requests)
    ran = simulated.steps(made)[2]["scheduled"]
    answers = {
        "right": sum(one["num_scheduled_tokens"] for one in ran.values()),
        "prompt_alone": prompt,
        "decode_alone": running,
        "one_each": running + 1,
        "padded": (running + 1) * prompt,
    }
    return Drawn(
        values={"running": running, "prompt": prompt, "all": running + 1},
        answers=alike(answers, "tokens"),
        sign=f"{running} {prompt}",
        given=(f"decoding {running}", f"prompt {prompt} tokens", "budget 512 tokens"),
        proof=Proof({"own": made, "step": 2}),
    )
