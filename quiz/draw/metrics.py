"""What to measure: the times of a request, and what they come to over many."""

from __future__ import annotations

from random import Random
from statistics import mean, median

from quiz.draw.common import alike
from quiz.items import Answer, Drawn, Proof

GANTT = Proof({"study": "arrivals"}, page="batching")
"""Where each request's wait, prefill and answer are bars over time."""


def _log(rng: Random) -> tuple[int, int, int, int]:
    """When it was let in, when its first and last token came, and how many tokens, in ms."""
    wait, prefill = 10 * rng.randrange(3, 40), 10 * rng.randrange(8, 60)
    tokens, gap = rng.randrange(11, 90), rng.randrange(12, 70)
    return wait, wait + prefill, wait + prefill + (tokens - 1) * gap, tokens


def _given(wait: int, first: int, last: int, tokens: int) -> tuple[str, ...]:
    return (
        "arrives 0 ms",
        f"let in {wait:,} ms",
        f"first token {first:,} ms",
        f"last token {last:,} ms",
        f"answer {tokens} tokens",
    )


def ttft(rng: Random) -> Drawn:
    """The time to the first token, from the log of one request."""
    wait, first, last, tokens = _log(rng)
    answers = {
        "right": first,
        "from_admission": first - wait,
        "wait_only": wait,
        "whole": last,
        "gap": (last - first) / (tokens - 1),
    }
    return Drawn(
        values={"wait": f"{wait:,}", "first": f"{first:,}", "last": f"{last:,}"},
        answers=alike(answers, "ms"),
        sign=f"{wait} {first} {last} {tokens}",
        given=_given(wait, first, last, tokens),
        proof=GANTT,
    )


def tpot(rng: Random) -> Drawn:
    """The mean time for each token after the first."""
    wait, first, last, tokens = _log(rng)
    answers = {
        "right": (last - first) / (tokens - 1),
        "per_token": last / tokens,
        "first_too": (last - first) / tokens,
        "from_arrival": last / (tokens - 1),
    }
    return Drawn(
        values={
            "first": f"{first:,}",
            "span": f"{last - first:,}",
            "gaps": tokens - 1,
            "tokens": tokens,
            "right": f"{answers['right']:,.1f} ms",
        },
        answers=alike(answers, "ms"),
        sign=f"{wait} {first} {last} {tokens}",
        given=_given(wait, first, last, tokens),
        proof=GANTT,
    )


def latency(rng: Random) -> Drawn:
    """The whole time of a request from its time to the first token and the gaps."""
    first, gap, tokens = 10 * rng.randrange(10, 90), rng.randrange(12, 70), rng.randrange(20, 200)
    answers = {
        "right": first + (tokens - 1) * gap,
        "one_more": first + tokens * gap,
        "gaps_only": (tokens - 1) * gap,
        "first_each": tokens * first,
    }
    return Drawn(
        values={"first": f"{first:,}", "gap": gap, "gaps": tokens - 1, "tokens": tokens},
        answers=alike(answers, "ms"),
        sign=f"{first} {gap} {tokens}",
        given=(f"TTFT {first:,} ms", f"TPOT {gap} ms", f"answer {tokens} tokens"),
        proof=GANTT,
    )


def goodput(rng: Random) -> Drawn:
    """Requests that keep both limits, out of eight."""
    limit, pace = rng.choice((200, 300, 400, 500)), rng.choice((30, 40, 50))
    kinds = [(True, True)] * rng.randrange(2, 5) + [(True, False), (False, True)]
    kinds += rng.choices(((True, False), (False, True), (False, False)), k=8 - len(kinds))
    rng.shuffle(kinds)
    log = [
        (
            rng.randrange(limit // 3, limit) if first else rng.randrange(limit + 10, 3 * limit),
            rng.randrange(pace // 2, pace) if gap else rng.randrange(pace + 3, 2 * pace),
        )
        for first, gap in kinds
    ]
    good = [(first <= limit, gap <= pace) for first, gap in log]
    answers = {
        "right": sum(all(one) for one in good),
        "first_only": sum(first for first, _ in good),
        "gap_only": sum(gap for _, gap in good),
        "either": sum(any(one) for one in good),
        "finished": len(log),
    }
    return Drawn(
        values={"limit": limit, "pace": pace, "right": answers["right"]},
        answers={key: Answer(f"{value} of {len(log)}") for key, value in answers.items()},
        sign=f"{limit} {pace} {log}",
        given=tuple(
            f"{name} {first} ms, {gap} ms"
            for name, (first, gap) in zip("ABCDEFGH", log, strict=True)
        ),
        proof=Proof({"study": "arrivals", "ttft": 8, "gap": 2}, page="batching"),
    )


def percentile(rng: Random) -> Drawn:
    """The 90th percentile of ten gaps by the nearest rank."""
    gaps = [rng.randrange(18, 40) for _ in range(8)]
    gaps += [rng.randrange(60, 120), rng.randrange(200, 600)]
    rng.shuffle(gaps)
    answers = {
        "right": sorted(gaps)[8],
        "mean": mean(gaps),
        "median": median(gaps),
        "most": max(gaps),
        "share": 0.9 * max(gaps),
    }
    return Drawn(
        values={"right": answers["right"], "most": answers["most"]},
        answers=alike(answers, "ms"),
        sign=" ".join(map(str, gaps)),
        given=tuple(f"{gap} ms" for gap in gaps),
        proof=Proof({"study": "landing"}, page="batching"),
    )


def output_rate(rng: Random) -> Drawn:
    """Output tokens a second of a whole batch."""
    step = rng.choice((8, 10, 16, 20, 25, 40, 50))
    batch = rng.randrange(6, 65)
    answers = {
        "right": batch * 1000 / step,
        "one_user": 1000 / step,
        "per_step": batch,
        "multiplied": batch * step,
    }
    return Drawn(
        values={
            "batch": batch,
            "step": step,
            "steps": 1000 / step,
            "right": f"{answers['right']:,g}",
        },
        answers=alike(answers, "tok/s"),
        sign=f"{batch} {step}",
        given=(f"batch {batch} sequences", f"step {step} ms"),
        proof=Proof({"run": "batch_1_to_32", "step": 40}, page="prefill_decode"),
    )
