"""Speculative decoding: how many tokens a pass brings, what it costs, and when it stops paying."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from random import Random

from quiz.draw.common import calc, counted, title, whole
from quiz.draw.figures import exact, share3, three, times
from quiz.items import Answer, Drawn, Proof

PAIRS = (
    ("llama-3.1-70b", "llama-3.2-1b"),
    ("llama-3.1-70b", "llama-3.1-8b"),
    ("llama-3.1-405b", "llama-3.1-8b"),
    ("llama-3.1-405b", "llama-3.1-70b"),
    ("llama-3.1-405b", "llama-3.2-1b"),
    ("qwen3-32b", "qwen3-0.6b"),
    ("qwen3-32b", "qwen3-8b"),
    ("qwen3-8b", "qwen3-0.6b"),
)
"""A target and a draft with the same tokens."""
GPUS = {
    "h100-sxm5": "H100 SXM5",
    "h200-sxm": "H200 SXM",
    "a100-sxm4-80": "A100 SXM4 80 GB",
    "l40s": "L40S",
    "rtx-4090": "RTX 4090",
    "b200-sxm": "B200",
}


def _expected(accept: Fraction, drafts: int) -> Fraction:
    """Tokens of a pass when each draft is accepted with the same chance, up to the first that is
    not: the accepted ones, and one that the target gives itself (Leviathan 2023, equation 1)."""
    return sum((accept**i for i in range(drafts + 1)), Fraction(0))


def tokens_a_pass(rng: Random) -> Drawn:
    """Tokens that one pass of the target brings on average."""
    drafts, accept = rng.randrange(2, 9), Fraction(rng.randrange(10, 19), 20)
    tokens = {
        "right": _expected(accept, drafts),
        "no_own": _expected(accept, drafts) - 1,
        "all_count": drafts * accept + 1,
        "all_or_none": 1 + drafts * accept**drafts,
        "none_lost": drafts + 1,
    }
    return Drawn(
        values={
            "drafts": drafts,
            "accept": f"{float(accept):.2f}",
            "right": three(float(tokens["right"])),
            "all": drafts + 1,
        },
        answers={key: Answer(f"{three(float(value))} tokens") for key, value in tokens.items()},
        sign=f"{drafts} {accept}",
        given=(f"drafts {drafts} a pass", f"each accepted with chance {float(accept):.2f}"),
        proof=Proof({}, page="speculation"),
    )


def one_pass(rng: Random) -> Drawn:
    """Tokens that a given pass brings: up to the first draft that is not accepted, and one more."""
    drafts = rng.randrange(4, 9)
    first = rng.randrange(1, drafts - 1)
    later = [rng.random() < 0.7 for _ in range(drafts - first - 1)]
    later[rng.randrange(len(later))] = True
    marks = [True] * first + [False, *later]
    matching = sum(marks)
    tokens = {
        "right": first + 1,
        "no_own": first,
        "all_matching": matching,
        "all_and_own": matching + 1,
        "every_draft": drafts + 1,
    }
    return Drawn(
        values={
            "drafts": drafts,
            "marks": ", ".join("agrees" if one else "differs" for one in marks),
            "first": first,
            "place": first + 1,
            "right": first + 1,
        },
        answers={key: Answer(counted(value, "token")) for key, value in tokens.items()},
        sign=" ".join("y" if one else "n" for one in marks),
        given=(f"drafts {drafts}", "greedy decoding"),
        proof=Proof({"run": "one_question", "step": 1}, page="prefill_decode"),
    )


def gain(rng: Random) -> Drawn:
    """The gain of a small batch: tokens of a pass over the time of the pass and its drafts."""
    drafts, accept = rng.randrange(2, 8), Fraction(rng.randrange(10, 19), 20)
    cost = Fraction(rng.choice((2, 4, 5, 8, 10, 15)), 100)
    tokens = _expected(accept, drafts)
    ratios = {
        "right": tokens / (1 + drafts * cost),
        "free_drafts": tokens,
        "one_draft": tokens / (1 + cost),
        "none_lost": (drafts + 1) / (1 + drafts * cost),
        "no_own": (tokens - 1) / (1 + drafts * cost),
    }
    return Drawn(
        values={
            "drafts": drafts,
            "accept": f"{float(accept):.2f}",
            "cost": f"{float(cost):.2f}",
            "tokens": three(float(tokens)),
            "time": three(float(1 + drafts * cost)),
            "all": drafts + 1,
        },
        answers={key: Answer(times(float(value))) for key, value in ratios.items()},
        sign=f"{drafts} {accept} {cost}",
        given=(
            f"drafts {drafts} a pass",
            f"each accepted with chance {float(accept):.2f}",
            f"a draft takes {float(cost):.2f} of a pass of the target",
        ),
        proof=Proof({"run": "batch_1_to_32", "step": 28}, page="prefill_decode"),
    )


def verified(rng: Random) -> Drawn:
    """Sequences from which on the matrices of a verifying pass are bound by compute."""
    gpu, drafts = rng.choice(tuple(GPUS)), rng.randrange(2, 9)
    tokens = int(calc("min_compute_bound_batch", gpu=gpu))
    sequences = {
        "right": ceil(tokens / (drafts + 1)),
        "no_drafts": tokens,
        "drafts_alone": ceil(tokens / drafts),
        "more": tokens * (drafts + 1),
        "one_byte": ceil(calc("min_compute_bound_batch", gpu=gpu, weight_bytes=1) / (drafts + 1)),
        "less_drafts": tokens - drafts,
    }
    return Drawn(
        values={
            "gpu": GPUS[gpu],
            "drafts": drafts,
            "each": drafts + 1,
            "ridge": f"{calc('ridge_point', gpu=gpu):.0f}",
            "need": whole(tokens),
            "right": whole(sequences["right"]),
        },
        answers={key: Answer(counted(value, "sequence")) for key, value in sequences.items()},
        sign=f"{gpu} {drafts}",
        drawn=GPUS[gpu],
        given=(
            f"drafts {drafts} a sequence",
            "weights in BF16",
            f"ridge {calc('ridge_point', gpu=gpu):.0f} FLOP/B",
        ),
        proof=Proof(
            {"roofs": f"{gpu}:bf16", "b": sequences["right"] * (drafts + 1)}, page="roofline"
        ),
    )


def two_caches(rng: Random) -> Drawn:
    """Bytes that a token keeps when a draft model runs beside the target."""
    target, draft = rng.choice(PAIRS)
    drafts = rng.randrange(3, 7)
    large, small = (int(calc("kv_bytes_per_token", model=name)) for name in (target, draft))
    params = [float(calc("weight_bytes", model=name)) for name in (target, draft)]
    amounts = {
        "right": large + small,
        "shared": large,
        "each_draft": large + drafts * small,
        "by_weights": round(large * (1 + params[1] / params[0])),
        "replaced": small,
    }
    return Drawn(
        values={
            "target": title(target),
            "draft": title(draft),
            "drafts": drafts,
            "large": whole(large),
            "small": whole(small),
            "share": f"{100 * params[1] / params[0]:.2g}",
            "part": f"{100 * small / large:.3g}",
        },
        answers={key: exact(value) for key, value in amounts.items()},
        sign=f"{target} {draft} {drafts}",
        drawn=f"{title(target)} with {title(draft)}",
        given=(
            f"{title(target)}: {large:,} B a token",
            f"{title(draft)}: {small:,} B a token",
            f"drafts {drafts} a pass",
        ),
        proof=Proof({"model": target, "n": 1, "vs": draft}, page="kv_sizing"),
    )


def accepted(rng: Random) -> Drawn:
    """The chance that a drafted token is accepted: the overlap of the two distributions."""
    while True:
        target = [rng.randrange(2, 15) for _ in range(2)]
        draft = [rng.randrange(2, 15) for _ in range(2)]
        if sum(target) < 19 and sum(draft) < 19 and target != draft:
            break
    p = [Fraction(one, 20) for one in (*target, 20 - sum(target))]
    q = [Fraction(one, 20) for one in (*draft, 20 - sum(draft))]
    likeliest = p[q.index(max(q))]
    chances: dict[str, Fraction] = {
        "right": sum((min(a, b) for a, b in zip(p, q, strict=True)), Fraction(0)),
        "both_pick": sum((a * b for a, b in zip(p, q, strict=True)), Fraction(0)),
        "likeliest": likeliest,
        "ratio": sum((min(Fraction(1), a / b) for a, b in zip(p, q, strict=True)), Fraction(0)) / 3,
    }
    apart = sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0))
    if apart < 1:
        chances["difference"] = 1 - apart
    return Drawn(
        values={
            **{f"p{i}": f"{float(one):.2f}" for i, one in enumerate(p)},
            **{f"q{i}": f"{float(one):.2f}" for i, one in enumerate(q)},
            "least": " + ".join(f"{float(min(a, b)):.2f}" for a, b in zip(p, q, strict=True)),
        },
        answers={key: Answer(share3(float(value))) for key, value in chances.items()},
        sign=" ".join(str(one) for one in (*target, *draft)),
        given=(
            "target " + ", ".join(f"{float(one):.2f}" for one in p),
            "draft " + ", ".join(f"{float(one):.2f}" for one in q),
        ),
        proof=Proof({"claim": "L072"}, page="claims_ledger"),
    )
