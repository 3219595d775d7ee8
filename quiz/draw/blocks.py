"""Blocks as an answer grows, where a token lies, and what is lost at the edges."""

from __future__ import annotations

from random import Random

from quiz.draw import simulated
from quiz.draw.common import alike, calc, counted
from quiz.items import Answer, Drawn, Proof


def grown(rng: Random) -> Drawn:
    """Blocks that a sequence holds when its last token has been sampled, at a block's edge."""
    slots = rng.choice((4, 8, 16))
    held = slots * rng.randrange(4, 8)
    output = rng.randrange(slots + 1, 2 * slots + 3)
    prompt = held - output + 1  # the token that is sampled last would need one block more
    made = simulated.content(
        f"{prompt} and {output} tokens in blocks of {slots}",
        [simulated.request("A", prompt, output)],
        block_size=slots,
    )
    run = simulated.steps(made)
    taken = sum(len(event["blocks"]) for event in simulated.events(made, "blocks_allocated"))
    answers = {
        "right": taken,
        "last_too": taken + 1,
        "prompt_only": int(calc("blocks_for_tokens", tokens=prompt, block_size=slots)),
        "reserved": int(calc("blocks_for_tokens", tokens=256, block_size=slots)),
        "each_token": int(calc("blocks_for_tokens", tokens=prompt, block_size=slots)) + output,
    }
    return Drawn(
        values={
            "prompt": prompt,
            "output": output,
            "slots": slots,
            "written": held,
            "right": taken,
            "longest": 256,
        },
        answers={key: Answer(counted(value, "block")) for key, value in answers.items()},
        sign=f"{prompt} {output} {slots}",
        given=(f"prompt {prompt}", f"answer {output}", f"block_size {slots}", "max_model_len 256"),
        proof=Proof({"own": made, "step": len(run) - 1}),
    )


def slot(rng: Random) -> Drawn:
    """The slot of the pool in which a token's keys and values lie."""
    slots = rng.choice((4, 8))
    first, second = rng.randrange(slots + 1, 3 * slots), rng.randrange(slots + 1, 3 * slots)
    output = rng.randrange(2 * slots, 4 * slots)
    requests = [
        simulated.request("A", first, output),
        simulated.request("B", second, output, first=500),
    ]
    made = simulated.content(
        f"Two answers grow side by side, blocks of {slots}",
        requests,
        block_size=slots,
        num_blocks=32,
    )
    table = [
        block
        for event in simulated.events(made, "blocks_allocated", "B")
        for block in event["blocks"]
    ]
    # A token of the answer: behind the prompt's blocks the table is out of order.
    position = rng.randrange(second + 1, second + output - 1)
    index, offset = divmod(position, slots)
    answers = {
        "right": table[index] * slots + offset,
        "as_written": position,
        "next_entry": table[min(index + 1, len(table) - 1)] * slots + offset,
        "block_alone": table[index],
        "no_offset": table[index] * slots,
        "from_first": table[0] * slots + position,
    }
    last = simulated.steps(made)[-1]["step"]
    return Drawn(
        values={
            "slots": slots,
            "position": position,
            "index": index,
            "offset": offset,
            "block": table[index],
            "first": table[0],
            "right": answers["right"],
        },
        answers={key: Answer(f"slot {value}") for key, value in answers.items()},
        sign=f"{slots} {table} {position}"[:150],
        given=(f"block table {', '.join(map(str, table))}", f"block_size {slots}"),
        proof=Proof({"own": made, "step": last, "block": table[index]}),
    )


def half_blocks(rng: Random) -> Drawn:
    """Slots that many sequences of any length leave empty, on average."""
    slots, number = rng.choice((8, 16, 32, 64)), rng.choice((20, 40, 60, 100, 200))
    answers = {
        "right": number * (slots - 1) / 2,
        "worst": number * (slots - 1),
        "one_sequence": (slots - 1) / 2,
        "whole_block": number * slots,
        "none": 0,
    }
    return Drawn(
        values={
            "slots": slots,
            "number": number,
            "most": slots - 1,
            "mean": f"{(slots - 1) / 2:g}",
            "right": f"{answers['right']:,g}",
        },
        answers=alike(answers, "slots"),
        sign=f"{slots} {number}",
        given=(f"block_size {slots}", f"sequences {number}"),
        proof=Proof({"scenario": "block-sizes"}),
    )


def reservations(rng: Random) -> Drawn:
    """Sequences that a contiguous pool takes in at once, each reserving for the longest."""
    longest = rng.choice((32, 48, 64))
    places = rng.randrange(3, 6)
    used = longest // rng.choice((4, 8))
    blocks = places * longest // 4 + rng.randrange(1, longest // 4)
    requests = [
        simulated.request(f"R{i}", used - 3, 4, first=1 + 100 * i) for i in range(places + 2)
    ]
    made = simulated.content(
        f"{blocks} blocks, {longest} tokens reserved for each",
        requests,
        num_blocks=blocks,
        max_model_len=longest,
        allocator="contiguous",
    )
    pool = 4 * blocks
    answers = {
        "right": len(simulated.steps(made)[0]["scheduled"]),
        "paged": blocks // int(calc("blocks_for_tokens", tokens=used - 1, block_size=4)),
        "one_more": -(-pool // longest),
        "slots": pool // used // 4,
        "alone": 1,
    }
    return Drawn(
        values={
            "pool": pool,
            "longest": longest,
            "used": used,
            "right": answers["right"],
            "left": pool - answers["right"] * longest,
        },
        answers={key: Answer(counted(value, "sequence")) for key, value in answers.items()},
        sign=f"{pool} {longest} {used}",
        given=(f"pool {pool} slots", f"reserved {longest}", f"used {used}"),
        proof=Proof({"own": made}),
    )
