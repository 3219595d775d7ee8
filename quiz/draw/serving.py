"""Why serving is different: what a request holds, for how long, and beside how many others."""

from __future__ import annotations

from random import Random

from quiz.draw import simulated
from quiz.draw.common import (
    FORMATS,
    calc,
    counted,
    geometry,
    grouped_models,
    misread,
    three,
    times,
    title,
)
from quiz.items import Answer, Drawn, Proof


def held_tokens(rng: Random) -> Drawn:
    """Tokens whose keys and values a request holds when its last token has been sampled."""
    prompt, output = rng.randrange(20, 91), rng.randrange(6, 41)
    made = simulated.content(
        f"{prompt} prompt tokens, {output} answer tokens",
        [simulated.request("A", prompt, output)],
    )
    last = simulated.steps(made)[-1]
    ran = last["scheduled"]["A"]
    answers = {
        "right": ran["num_computed_tokens"] + ran["num_scheduled_tokens"],
        "last_too": prompt + output,
        "prompt_only": prompt,
        "answer_only": output,
    }
    return Drawn(
        values={"prompt": prompt, "output": output, "right": answers["right"]},
        answers={key: Answer(counted(value, "token")) for key, value in answers.items()},
        sign=f"{prompt}+{output}",
        given=(f"prompt {prompt} tokens", f"answer {output} tokens"),
        proof=Proof({"own": made, "step": last["step"]}),
    )


def in_flight(rng: Random) -> Drawn:
    """Requests that run at once when they come evenly and each stays as long."""
    gap, right = rng.randrange(2, 7), rng.randrange(3, 10)
    length = gap * right
    requests = [
        simulated.request(f"R{i}", 3, length, gap * i, first=1 + 10 * i) for i in range(right + 3)
    ]
    made = simulated.content(f"A request every {gap} steps, {length} tokens each", requests)
    answers = {
        "right": right,
        "gap": gap,
        "length": length,
        "product": gap * length,
        "one": 1,
    }
    return Drawn(
        values={"gap": gap, "length": length, "right": right},
        answers={key: Answer(counted(value, "request")) for key, value in answers.items()},
        sign=f"{gap} {length}",
        given=(f"one request every {gap} steps", f"answers {length} tokens", "nobody waits"),
        proof=Proof({"own": made, "step": length}),
    )


def held_steps(rng: Random) -> Drawn:
    """How much longer an answer holds a place than a prompt of the same length."""
    few, ratio = rng.randrange(5, 13), rng.randrange(2, 10)
    many = few * ratio
    made = simulated.content(
        f"{many} in and {few} out, {few} in and {many} out",
        [
            simulated.request("A", many, few),
            simulated.request("B", few, many, first=500),
        ],
    )
    ran = [[name in step["scheduled"] for step in simulated.steps(made)] for name in "AB"]
    answers = {
        "right": sum(ran[1]) / sum(ran[0]),
        "alike": 1,
        "prompts": few / many,
        "all_of_b": (few + many) / few,
    }
    return Drawn(
        values={"few": few, "many": many, "sum": few + many},
        answers={key: times(value) for key, value in answers.items()},
        sign=f"{few} {many}",
        given=(f"A {many} in, {few} out", f"B {few} in, {many} out"),
        proof=Proof({"own": made, "step": few}),
    )


def balance(rng: Random) -> Drawn:
    """Sequences whose cache weighs as much as the weights."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    tokens = 1024 * rng.choice((2, 4, 8, 16))
    shape = geometry(model)
    right = float(calc("kv_weights_balance", model=model, dtype=dtype, tokens=tokens))
    group = shape["n_heads"] / shape["n_kv_heads"]
    answers = {
        "right": right,
        "query_heads": right * float(calc("kv_bytes_per_token", model=model))
        / float(calc("kv_bytes_per_token", config=misread(model, shape["n_heads"]))),
        "keys_only": 2 * right,
        "one_layer": right * shape["n_layers"],
        "one_byte": right / 2,
    }  # fmt: skip
    per_token = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    return Drawn(
        values={
            **shape,
            "model": title(model),
            "dtype": FORMATS[dtype],
            "tokens": f"{tokens:,}",
            "group": f"{group:g}",
            "weights": f"{three(float(calc('weight_bytes', model=model)) / 1e9)} GB",
            "per_token": f"{per_token:,}",
            "each": f"{three(per_token * tokens / 1e9)} GB",
        },
        answers={key: Answer(f"{three(value)} sequences") for key, value in answers.items()},
        sign=f"{model} {dtype} {tokens}",
        drawn=title(model),
        given=(
            f"weights {three(float(calc('weight_bytes', model=model)) / 1e9)} GB",
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
        ),
        proof=Proof(
            {"model": model, "kv": dtype, "w": "bf16", "ctx": tokens, "n": _sequences(right)},
            page="kv_sizing",
        ),
    )


def _sequences(number: float) -> int:
    """As many as the page on KV sizing takes."""
    return max(1, min(4096, round(number)))
