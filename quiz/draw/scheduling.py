"""Who gets how much of a step: the token budget, chunks beside answers, places taken again, and
what a preempted request pays."""

from __future__ import annotations

from random import Random
from typing import Any

from quiz.draw import simulated
from quiz.draw.common import counted
from quiz.items import Answer, Drawn, Proof


def _beside(running: int, prompt: int, budget: int) -> dict[str, Any]:
    """Some decode from step 0 on; a long prompt comes in step 2."""
    requests = [simulated.request(f"R{i}", 3, 24, first=1 + 10 * i) for i in range(running)]
    requests.append(simulated.request("N", prompt, 3, 2, first=500))
    return simulated.content(
        f"{running} answers, a prompt of {prompt}, {budget} tokens a step",
        requests,
        max_num_batched_tokens=budget,
    )


def budget_left(rng: Random) -> Drawn:
    """Tokens of a new prompt that a step computes beside those who decode."""
    running, budget = rng.randrange(3, 8), rng.choice((24, 32, 48, 64))
    prompt = budget + rng.randrange(6, 90)
    made = _beside(running, prompt, budget)
    step = simulated.steps(made)[2]["scheduled"]
    answers = {
        "right": step["N"]["num_scheduled_tokens"],
        "budget": budget,
        "whole": prompt,
        "nothing": 0,
        "even_share": budget // (running + 1),
    }
    return Drawn(
        values={
            "running": running,
            "prompt": prompt,
            "budget": budget,
            "right": answers["right"],
            "sharers": running + 1,
        },
        answers={key: Answer(counted(value, "token")) for key, value in answers.items()},
        sign=f"{running} {prompt} {budget}",
        given=(f"decoding {running}", f"prompt {prompt}", f"max_num_batched_tokens {budget}"),
        proof=Proof({"own": made, "step": 2}),
    )


def chunks(rng: Random) -> Drawn:
    """Steps in which a long prompt is computed beside those who decode."""
    running, budget = rng.randrange(3, 8), rng.choice((16, 20, 24, 32))
    left = budget - running
    pieces = rng.randrange(3, 7)
    prompt = left * (pieces - 1) + rng.randrange(1, left)
    made = _beside(running, prompt, budget)
    ran = [step["scheduled"]["N"] for step in simulated.steps(made) if "N" in step["scheduled"]]
    parts = sum(one["num_computed_tokens"] < prompt for one in ran)
    answers = {
        "right": parts,
        "budget_alone": -(-prompt // budget),
        "rounded_down": prompt // left,
        "at_once": 1,
        "each_token": prompt,
        "one_more": parts + 1,
    }
    return Drawn(
        values={
            "running": running,
            "prompt": prompt,
            "budget": budget,
            "left": left,
            "right": parts,
            "full": pieces - 1,
            "rest": prompt - left * (pieces - 1),
        },
        answers={key: Answer(counted(value, "step")) for key, value in answers.items()},
        sign=f"{running} {prompt} {budget}",
        given=(f"decoding {running}", f"prompt {prompt}", f"max_num_batched_tokens {budget}"),
        proof=Proof({"own": made, "step": 2}),
    )


def refill(rng: Random) -> Drawn:
    """Steps that continuous batching takes for answers of several lengths."""
    places = rng.choice((2, 3))
    lengths = [rng.randrange(3, 16) for _ in range(places + 2)]
    requests = [
        simulated.request(name, 3, length, first=1 + 10 * i)
        for i, (name, length) in enumerate(zip("ABCDE", lengths, strict=False))
    ]

    def took(**engine: Any) -> int:
        return len(simulated.steps(_refill(requests, places, **engine)))

    answers = {
        "right": took(),
        "static": took(batching="static"),
        "one_by_one": sum(lengths),
        "longest": max(lengths),
        "packed": -(-sum(lengths) // places),
    }
    return Drawn(
        values={
            "places": places,
            "lengths": ", ".join(map(str, lengths)),
            "total": sum(lengths),
            "longest": max(lengths),
            "right": answers["right"],
        },
        answers={key: Answer(counted(value, "step")) for key, value in answers.items()},
        sign=f"{places} {lengths}",
        given=(f"places {places}", f"answers {', '.join(map(str, lengths))}"),
        proof=Proof({"own": _refill(requests, places)}),
    )


def _refill(requests: list[dict[str, Any]], places: int, **engine: Any) -> dict[str, Any]:
    return simulated.content("Places taken again", requests, max_num_seqs=places, **engine)


def preempted(rng: Random) -> Drawn:
    """Tokens that a preempted request computes again."""
    slots = 4
    first, second = 4 * rng.randrange(2, 5), 4 * rng.randrange(2, 5) + rng.randrange(1, 4)
    grows = rng.randrange(5, 14)
    blocks = -(-first // slots) + -(-second // slots) + grows // 2
    output = slots * blocks - max(first, second)  # so that either alone would fit to its end
    requests = [
        simulated.request("A", first, output),
        simulated.request("B", second, output, first=500),
    ]
    made = simulated.content(
        f"Two answers in {blocks} blocks", requests, num_blocks=blocks, max_model_len=64
    )
    run = simulated.steps(made)
    gone = next(
        step["step"]
        for step in run
        if any(event["type"] == "preempted" and event["request"] == "B" for event in step["events"])
    )
    again = next(
        step["scheduled"]["B"]
        for step in run[gone:]
        if "B" in step["scheduled"] and not step["scheduled"]["B"]["num_computed_tokens"]
    )
    answered = sum(
        event["type"] == "token_sampled" and event["request"] == "B"
        for step in run[:gone]
        for event in step["events"]
    )
    answers = {
        "right": again["num_scheduled_tokens"],
        "prompt_only": second,
        "answer_only": answered,
        "swapped": 1,
        "written_only": second + answered - 1,
    }
    return Drawn(
        values={
            "prompt": second,
            "answered": answered,
            "right": answers["right"],
            "written": second + answered - 1,
        },
        answers={key: Answer(counted(value, "token")) for key, value in answers.items()},
        sign=f"{first} {second} {blocks}",
        given=(f"prompt {second}", f"answered so far {answered}", "no prefix cache"),
        proof=Proof({"own": made, "step": gone}),
    )
