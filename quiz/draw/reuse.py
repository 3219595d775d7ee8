"""What a prefix cache saves, what it has to hold, and what of equal prompts it finds."""

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
    percent,
    size,
    three,
    times,
    title,
    whole,
)
from quiz.items import Answer, Drawn, Proof

ECONOMICS = Proof({"study": "time"}, page="prefix_cache")
"""Where the saving is drawn over hit rate and lengths."""


def _lengths(rng: Random) -> tuple[int, int, float]:
    """Shared and own tokens of a request, and the share of requests that hit."""
    shared, own = 256 * rng.randrange(2, 13), 64 * rng.randrange(1, 9)
    return shared, own, rng.randrange(8, 20) / 20


def saving(rng: Random) -> Drawn:
    """The share of prompt tokens that need no prefill."""
    shared, own, hits = _lengths(rng)
    right = float(calc("prefill_reduction", S=shared, U=own, h=hits))
    answers = {
        "right": right,
        "hit_rate": hits,
        "each_hits": shared / (shared + own),
        "the_rest": 1 - right,
        "by_own": 1 - own / shared if own < shared else own / (shared + own),
    }
    return Drawn(
        values={
            "shared": whole(shared),
            "own": whole(own),
            "all": whole(shared + own),
            "hits": f"{100 * hits:.0f}\u2009%",
            "right": percent(right),
        },
        answers={key: Answer(percent(value)) for key, value in answers.items()},
        sign=f"{shared} {own} {hits}",
        given=(f"shared {shared:,}", f"own {own:,}", f"hit rate {100 * hits:.0f}\u2009%"),
        proof=ECONOMICS,
    )


def gain(rng: Random) -> Drawn:
    """Prompt tokens by prefilled tokens, over all requests."""
    shared, own, hits = _lengths(rng)
    hit = float(calc("prefill_token_ratio", S=shared, U=own, h=1.0))
    answers = {
        "right": float(calc("prefill_token_ratio", S=shared, U=own, h=hits)),
        "of_a_hit": hit,
        "averaged": hits * hit + (1 - hits),
        "rate_alone": 1 / (1 - hits),
        "added": 1 + float(calc("prefill_reduction", S=shared, U=own, h=hits)),
    }
    return Drawn(
        values={
            "shared": whole(shared),
            "own": whole(own),
            "all": whole(shared + own),
            "hits": f"{100 * hits:.0f}\u2009%",
            "left": f"{shared + own - hits * shared:,g}",
            "hit": f"{hit:,.2f}",
        },
        answers={key: times(value) for key, value in answers.items()},
        sign=f"{shared} {own} {hits}",
        given=(f"shared {shared:,}", f"own {own:,}", f"hit rate {100 * hits:.0f}\u2009%"),
        proof=ECONOMICS,
    )


def same_again(rng: Random) -> Drawn:
    """Tokens that are computed when a prompt of whole blocks comes a second time."""
    slots = rng.choice((4, 8, 16))
    blocks = rng.randrange(3, 10)
    prompt = slots * blocks
    made = simulated.content(
        f"The same {prompt} tokens twice",
        [simulated.request("A", prompt, 2), simulated.request("B", prompt, 2, 3)],
        block_size=slots,
        prefix_cache="radix",
    )
    found = simulated.events(made, "admitted", "B")[0]["num_cached_tokens"]
    answers = {
        "right": prompt - found,
        "none": 0,
        "last_token": 1,
        "all": prompt,
        "one_less": slots - 1,
    }
    return Drawn(
        values={
            "prompt": prompt,
            "slots": slots,
            "blocks": blocks,
            "before": blocks - 1,
            "found": found,
        },
        answers={key: Answer(counted(value, "token")) for key, value in answers.items()},
        sign=f"{prompt} {slots}",
        given=(f"prompt {prompt} tokens", f"block_size {slots}"),
        proof=Proof({"own": made, "step": 3}),
    )


def shared_blocks(rng: Random) -> Drawn:
    """Blocks in use when several sequences begin with one prefix."""
    slots = rng.choice((4, 8))
    prefix, own = slots * rng.randrange(4, 9), slots * rng.randrange(1, 3) + 1
    number = rng.randrange(3, 7)
    start = list(range(1, prefix + 1))
    requests = [
        {
            "id": f"R{i}",
            "prompt_tokens": [*start, *range(500 + 50 * i, 500 + 50 * i + own)],
            "max_tokens": 3,
            "arrive_step": min(i, 1),
        }
        for i in range(number)
    ]
    made = simulated.content(
        f"{number} prompts with {prefix} tokens in common",
        requests,
        block_size=slots,
        prefix_cache="radix",
    )
    used = simulated.steps(made)[1]["usage"]["in_use"]
    start_blocks = int(calc("blocks_for_tokens", tokens=prefix, block_size=slots))
    own_blocks = int(calc("blocks_for_tokens", tokens=own, block_size=slots))
    answers = {
        "right": used,
        "none_shared": number * (start_blocks + own_blocks),
        "own_once": start_blocks + own_blocks,
        "prefix_free": number * own_blocks,
        "in_one": int(calc("blocks_for_tokens", tokens=prefix + number * own, block_size=slots)),
    }
    return Drawn(
        values={
            "number": number,
            "prefix": prefix,
            "own": own,
            "slots": slots,
            "start": start_blocks,
            "each": own_blocks,
            "right": used,
        },
        answers={key: Answer(counted(value, "block")) for key, value in answers.items()},
        sign=f"{number} {prefix} {own} {slots}",
        given=(f"sequences {number}", f"shared {prefix}", f"own {own}", f"block_size {slots}"),
        proof=Proof({"own": made, "step": 1}),
    )


def working_set(rng: Random) -> Drawn:
    """Bytes that keep a set of prefixes resident."""
    model, dtype = rng.choice(grouped_models()), rng.choice(tuple(FORMATS))
    prompts, tokens = rng.choice((20, 50, 100, 200)), 512 * rng.choice((1, 2, 4))
    shape = geometry(model)
    per_token = int(calc("kv_bytes_per_token", model=model, dtype=dtype))
    every = misread(model, shape["n_heads"])

    def of(per_token: int, number: int = prompts) -> int:
        inputs = {"prompts": number, "tokens": tokens, "bytes_per_token": per_token}
        return int(calc("prefix_cache_bytes", **inputs))

    amounts = {
        "right": of(per_token),
        "one_prompt": of(per_token, 1),
        "query_heads": of(int(calc("kv_bytes_per_token", config=every, dtype=dtype))),
        "one_layer": of(per_token // shape["n_layers"]),
        "text": 4 * tokens * prompts,
    }
    return Drawn(
        values={
            "model": title(model),
            "dtype": FORMATS[dtype],
            "prompts": prompts,
            "tokens": whole(tokens),
            "per_token": whole(per_token),
            "layers": shape["n_layers"],
            "kv": shape["n_kv_heads"],
            "query": shape["n_heads"],
            "one": f"{three(per_token * tokens / 1e6)} MB",
        },
        answers={key: size(value) for key, value in amounts.items()},
        sign=f"{model} {dtype} {prompts} {tokens}",
        drawn=title(model),
        given=(
            f"layers {shape['n_layers']}",
            f"query heads {shape['n_heads']}",
            f"KV heads {shape['n_kv_heads']}",
            f"head_dim {shape['d_head']}",
        ),
        proof=Proof({"model": model, "kv": dtype, "ctx": tokens, "n": prompts}, page="kv_sizing"),
    )


def evicted(rng: Random) -> Drawn:
    """The hit rate of LRU when not all documents fit."""
    documents = rng.choice((100, 200, 250, 400, 500))
    fit = documents * rng.randrange(4, 19) // 20
    ceiling = rng.randrange(10, 19) / 20
    right = float(
        calc("lru_hit_rate", documents=documents, capacity=fit, access="uniform", ceiling=ceiling)
    )
    answers = {
        "right": right,
        "unchanged": ceiling,
        "share_alone": fit / documents,
        "nothing": 0.0,
        "taken_off": max(0.0, ceiling - (1 - fit / documents)),
    }
    return Drawn(
        values={
            "documents": documents,
            "fit": fit,
            "ceiling": f"{100 * ceiling:.0f}\u2009%",
            "share": percent(fit / documents),
            "right": percent(right),
        },
        answers={key: Answer(percent(value)) for key, value in answers.items()},
        sign=f"{documents} {fit} {ceiling}",
        given=(
            f"documents {documents}",
            f"fit {fit}",
            f"hit rate if all fit {100 * ceiling:.0f}\u2009%",
        ),
        proof=Proof({"study": "evict"}, page="prefix_cache"),
    )
