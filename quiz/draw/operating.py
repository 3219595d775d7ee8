"""Reading a server's metrics: counters and gauges, windows, percentiles, requests in flight."""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from random import Random
from statistics import mean, median

from quiz.draw.common import counted, percent, whole
from quiz.draw.figures import three
from quiz.items import Answer, Drawn, Proof

THRASH = {"study": "pressure"}


def counter_rate(rng: Random) -> Drawn:
    """Preemptions a minute, from two readings of a counter."""
    before, window = rng.randrange(200, 2000), rng.choice((4, 5, 8, 10, 15))
    grown, up = rng.randrange(2, 9) * window // 2 + rng.randrange(1, window), rng.randrange(20, 70)
    after = before + grown
    rates = {
        "right": grown / window,
        "reading": after,
        "since_start": after / (60 * up),
        "undivided": grown,
        "middle": (before + after) / 2,
    }
    return Drawn(
        values={
            "before": whole(before),
            "after": whole(after),
            "window": window,
            "grown": grown,
            "up": up,
            "right": three(grown / window),
        },
        answers={key: Answer(f"{three(value)} a minute") for key, value in rates.items()},
        sign=f"{before} {after} {window} {up}",
        given=(
            f"vllm:num_preemptions_total {before:,}",
            f"{window} minutes later {after:,}",
            f"server up for {up} hours",
        ),
        proof=Proof(THRASH, page="batching"),
    )


def window_hits(rng: Random) -> Drawn:
    """The hit rate of a window, from two readings of two counters."""
    queries = [100_000 * rng.randrange(20, 60)]
    hits = [int(queries[0] * rng.choice((0.62, 0.68, 0.71, 0.77)))]
    asked = 10_000 * rng.randrange(8, 40)
    found = int(asked * rng.choice((0.12, 0.18, 0.23, 0.31, 0.36)))
    queries.append(queries[0] + asked)
    hits.append(hits[0] + found)
    rates = {
        "right": found / asked,
        "since_start": hits[1] / queries[1],
        "upside_down": 1 - found / asked,
        "middle": (hits[0] / queries[0] + hits[1] / queries[1]) / 2,
        "of_all": found / queries[1],
    }
    return Drawn(
        values={
            "asked": whole(asked),
            "found": whole(found),
            "start": percent(rates["since_start"]),
            "right": percent(rates["right"]),
        },
        answers={key: Answer(percent(value)) for key, value in rates.items()},
        sign=" ".join(map(str, (*hits, *queries))),
        given=(
            f"prefix_cache_hits_total {hits[0]:,}, then {hits[1]:,}",
            f"prefix_cache_queries_total {queries[0]:,}, then {queries[1]:,}",
        ),
        proof=Proof({"claim": "B135"}, page="claims_ledger"),
    )


def tail(rng: Random) -> Drawn:
    """A percentile of twenty gaps, by nearest rank."""
    share = rng.choice((80, 85, 90))
    gaps = sorted(rng.randrange(18, 30) for _ in range(15))
    gaps += sorted(rng.randrange(40, 400, 5) for _ in range(5))
    rank = ceil(share / 100 * len(gaps))
    shown = gaps[:]
    rng.shuffle(shown)
    values = {
        "right": gaps[rank - 1],
        "mean": mean(gaps),
        "middle": median(gaps),
        "longest": gaps[-1],
        "share_of_longest": share / 100 * gaps[-1],
    }
    return Drawn(
        values={
            "share": share,
            "gaps": ", ".join(map(str, shown)),
            "rank": rank,
            "above": len(gaps) - rank,
            "right": gaps[rank - 1],
            "longest": gaps[-1],
        },
        answers={key: Answer(f"{three(value)} ms") for key, value in values.items()},
        sign=f"{share} {' '.join(map(str, gaps))}",
        given=(f"gaps {len(gaps)}", f"P{share} by nearest rank"),
        proof=Proof({"study": "landing", "axis": "ms"}, page="batching"),
    )


BOUNDS = ("100", "250", "500", "1,000", "2,500", "5,000")
LEAST, MOST = (100, 60, 40, 20, 8, 2), (500, 600, 400, 150, 60, 20)


def _reaches(sums: list[int], needed: float) -> int:
    return next(i for i, one in enumerate(sums) if one >= needed)


def bucket(rng: Random) -> Drawn:
    """The bucket of a histogram in which a percentile lies."""
    share = rng.choice((80, 85, 90, 95))
    while True:
        counts = [rng.randrange(low, high) for low, high in zip(LEAST, MOST, strict=True)]
        sums = list(accumulate(counts))
        total = sums[-1]
        right = _reaches(sums, total * share / 100)
        again = list(accumulate(sums))
        places = {
            "right": right,
            "fullest": counts.index(max(counts)),
            "halfway": _reaches(sums, total / 2),
            "summed_twice": _reaches(again, again[-1] * share / 100),
            "next": right + 1,
        }
        if 1 <= right < len(BOUNDS) - 1 and len(set(places.values())) > 3:
            break
    lows = ("0", *BOUNDS)
    return Drawn(
        values={
            "share": share,
            "total": whole(total),
            "needed": whole(ceil(total * share / 100)),
            "below": whole(sums[right - 1]),
            "reached": whole(sums[right]),
            "bound": BOUNDS[right],
        },
        answers={
            key: Answer(f"{lows[place]} to {BOUNDS[place]} ms") for key, place in places.items()
        },
        sign=f"{share} {' '.join(map(str, counts))}",
        given=tuple(f"le {bound} ms: {one:,}" for bound, one in zip(BOUNDS, sums, strict=True)),
        proof=Proof({"study": "arrivals"}, page="batching"),
    )


def free_slots(rng: Random) -> Drawn:
    """Tokens that a pool still has room for, from the gauge of its use."""
    blocks, used = 1000 * rng.randrange(4, 41), rng.randrange(55, 97)
    size = 16
    tokens = {
        "right": blocks * (100 - used) // 100 * size,
        "in_use": blocks * used // 100 * size,
        "blocks": blocks * (100 - used) // 100,
        "of_percent": round(blocks * (1 - used / 10_000) * size),
        "all": blocks * size,
    }
    return Drawn(
        values={
            "blocks": whole(blocks),
            "used": f"{used / 100:.2f}",
            "percent": used,
            "left": whole(tokens["blocks"]),
        },
        answers={key: Answer(f"{value:,} tokens") for key, value in tokens.items()},
        sign=f"{blocks} {used}",
        given=(
            f"vllm:kv_cache_usage_perc {used / 100:.2f}",
            f"pool {blocks:,} blocks of {size}",
        ),
        proof=Proof(THRASH, page="batching"),
    )


def in_flight(rng: Random) -> Drawn:
    """Requests in flight on average: arrivals times the time that each stays (Little 1961)."""
    rate, tokens = rng.randrange(3, 25), 50 * rng.randrange(3, 13)
    first, gap = 100 * rng.randrange(3, 16), rng.randrange(15, 46)
    stay = first / 1000 + (tokens - 1) * gap / 1000
    requests = {
        "right": rate * stay,
        "first_alone": rate * first / 1000,
        "per_token": rate * gap / 1000,
        "one_after_other": stay,
        "finished": rate / stay,
        "tokens": rate * tokens,
    }
    return Drawn(
        values={
            "rate": rate,
            "tokens": tokens,
            "first": first,
            "gap": gap,
            "stay": f"{three(stay)} s",
            "right": three(rate * stay),
        },
        answers={key: Answer(f"{three(value)} requests") for key, value in requests.items()},
        sign=f"{rate} {tokens} {first} {gap}",
        given=(
            f"{counted(rate, 'request')} a second",
            f"first token after {first:,} ms",
            f"{tokens} tokens, {gap} ms apart",
        ),
        proof=Proof({"study": "arrivals"}, page="batching"),
    )
