"""Money: what a token, a user and a day cost. Prices are inputs; none is built in.

A price per GPU hour buys 3,600 seconds of tokens at whatever rate was measured or modelled. Prompt
and output tokens cost differently and are priced apart: mixing them in one rate hides which grows.
"""

from __future__ import annotations

import math

from core.sizing import checks
from core.sizing.result import CONVENTION, Result, Step, symbols
from core.sizing.text import num

HOUR = 3600


def cost_per_million_tokens(
    price_per_gpu_hour: float, tokens_per_s: float, n_gpu: int = 1, utilization: float = 1.0
) -> Result:
    """The price of 10⁶ tokens of one kind, at tokens_per_s on n_gpu GPUs together.

    utilization: the share of the hour with such load; hardware waits at full price.
    """
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    rate = checks.positive(tokens_per_s, "tokens_per_s")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    busy = checks.number(utilization, "utilization", 0.0, 1.0, above=True)
    hourly = price * n_gpu
    value = hourly * 1e6 / (HOUR * rate * busy)
    return Result(
        value,
        "$/Mtok",
        symbols(
            ("p", "price of a GPU hour", price, "$/h"),
            ("n", "GPUs", n_gpu),
            ("r", "rate of all of them", rate, "tok/s"),
            ("u", "utilization", busy, "fraction"),
        ),
        (
            Step("p · n", f"{num(price)} · {n_gpu}", hourly, "$/h"),
            Step(
                "p · n · 10⁶ / (3600 · r · u)",
                f"{num(hourly)} · 1e6 / (3600 · {num(rate)} · {num(busy)})",
                value,
                "$/Mtok",
            ),
        ),
        notes=("in the currency of the price",),
    )


def cost_per_request(
    price_per_gpu_hour: float,
    n_gpu: int,
    prefill_s: float,
    output_tokens: int,
    step_s: float,
    batch: int,
) -> Result:
    """The price of one request: its prefill alone, then its share of output_tokens decode steps.

    A decode step of step_s serves `batch` sequences and each pays its share of it. The first output
    token comes from the prefill, so there is one step fewer than tokens.
    """
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    prefill = checks.number(prefill_s, "prefill_s")
    tokens = checks.whole(output_tokens, "output_tokens", 1)
    step = checks.number(step_s, "step_s")
    batch = checks.whole(batch, "batch", 1)
    per_second = price * n_gpu / HOUR
    seconds = prefill + (tokens - 1) * step / batch
    value = per_second * seconds
    return Result(
        value,
        "$",
        symbols(
            ("p", "price of a GPU hour", price, "$/h"),
            ("n", "GPUs", n_gpu),
            ("t_p", "prefill", prefill, "s"),
            ("N_out", "output tokens", tokens, "tokens"),
            ("t_d", "decode step", step, "s"),
            ("B", "sequences in a step", batch),
        ),
        (
            Step(
                "seconds = t_p + (N_out − 1) · t_d / B",
                f"{num(prefill)} + {tokens - 1} · {num(step)} / {batch}",
                seconds,
                "s",
            ),
            Step("p · n / 3600 · seconds", f"{num(per_second)} · {num(seconds)}", value, "$"),
        ),
        notes=("prefill is charged whole: nothing else is taken to run beside it",),
    )


def cost_per_user(price_per_gpu_hour: float, n_gpu: int, users: int) -> Result:
    """The price of one concurrent user for an hour, when n_gpu GPUs hold `users` of them."""
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    users = checks.whole(users, "users")
    shown = symbols(
        ("p", "price of a GPU hour", price, "$/h"), ("n", "GPUs", n_gpu), ("N", "users", users)
    )
    if users == 0:
        return Result(None, "$/h", shown, notes=("not one user fits: there is no price for one",))
    value = price * n_gpu / users
    step = Step("p · n / N", f"{num(price)} · {n_gpu} / {num(users)}", value, "$/h")
    return Result(value, "$/h", shown, (step,))


def cost_per_day(
    price_per_gpu_hour: float,
    tokens_per_day: float,
    tokens_per_s_per_gpu: float,
    utilization: float = 1.0,
) -> Result:
    """The price of a day's tokens of one kind. utilization: as in cost_per_million_tokens."""
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    tokens = checks.number(tokens_per_day, "tokens_per_day")
    rate = checks.positive(tokens_per_s_per_gpu, "tokens_per_s_per_gpu")
    busy = checks.number(utilization, "utilization", 0.0, 1.0, above=True)
    hours = tokens / rate / busy / HOUR
    value = hours * price
    return Result(
        value,
        "$/day",
        symbols(
            ("p", "price of a GPU hour", price, "$/h"),
            ("T", "tokens per day", tokens, "tokens/day"),
            ("r", "rate of one GPU", rate, "tok/s"),
            ("u", "utilization", busy, "fraction"),
        ),
        (
            Step(
                "T / r / u / 3600",
                f"{num(tokens)} / {num(rate)} / {num(busy)} / 3600",
                hours,
                "GPU h/day",
            ),
            Step("hours · p", f"{num(hours)} · {num(price)}", value, "$/day"),
        ),
    )


def prefix_cache_saving_per_day(
    requests_per_day: float,
    tokens_per_request: float,
    reduction: float,
    tokens_per_s_per_gpu: float,
    price_per_gpu_hour: float,
) -> Result:
    """What prefill tokens that a prefix cache saves are worth in a day.

    reduction: the share of prompt tokens saved (prefill_reduction). tokens_per_s_per_gpu: the rate
    at which a GPU would prefill them.
    """
    requests = checks.number(requests_per_day, "requests_per_day")
    each = checks.number(tokens_per_request, "tokens_per_request")
    saved_share = checks.share(reduction, "reduction")
    tokens = requests * each * saved_share
    found = cost_per_day(price_per_gpu_hour, tokens, tokens_per_s_per_gpu)
    return Result(
        found.value,
        "$/day",
        (
            *symbols(
                ("R", "requests per day", requests, "1/day"),
                ("N", "prompt tokens of each", each, "tokens"),
                ("h_s", "share of them saved", saved_share, "fraction"),
            ),
            *found.symbols,
        ),
        (
            Step(
                "T = R · N · h_s",
                f"{num(requests)} · {num(each)} · {num(saved_share)}",
                tokens,
                "tokens/day",
            ),
            *found.steps,
        ),
        notes=("saved only if the freed seconds are sold or the GPUs given back",),
    )


def gpus_for_load(
    requests_per_s: float,
    prefill_s: float,
    output_tokens: int,
    step_s: float,
    batch: int,
    n_gpu: int = 1,
    utilization: float = 0.8,
) -> Result:
    """GPUs that a steady load keeps busy, in whole replicas of n_gpu.

    Each request takes its prefill alone and its share of the decode steps, as in cost_per_request.
    utilization: how full a replica may run before queues grow (a convention, not a law).
    """
    load = checks.number(requests_per_s, "requests_per_s")
    prefill = checks.number(prefill_s, "prefill_s")
    tokens = checks.whole(output_tokens, "output_tokens", 1)
    step = checks.number(step_s, "step_s")
    batch = checks.whole(batch, "batch", 1)
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    busy = checks.number(utilization, "utilization", 0.0, 1.0, above=True)
    seconds = prefill + (tokens - 1) * step / batch
    replicas = math.ceil(load * seconds / busy - 1e-9)
    value = replicas * n_gpu
    return Result(
        value,
        "GPUs",
        symbols(
            ("λ", "requests", load, "1/s"),
            ("t_p", "prefill", prefill, "s"),
            ("N_out", "output tokens", tokens, "tokens"),
            ("t_d", "decode step", step, "s"),
            ("B", "sequences in a step", batch),
            ("n", "GPUs of a replica", n_gpu),
            ("u", "utilization", busy, "fraction"),
        ),
        (
            Step(
                "t = t_p + (N_out − 1) · t_d / B",
                f"{num(prefill)} + {tokens - 1} · {num(step)} / {batch}",
                seconds,
                "s",
            ),
            Step(
                "⌈λ · t / u⌉", f"⌈{num(load)} · {num(seconds)} / {num(busy)}⌉", replicas, "replicas"
            ),
            Step("replicas · n", f"{replicas} · {n_gpu}", value, "GPUs"),
        ),
        notes=("a mean: peaks, and the memory that their contexts need, come on top",),
        basis=CONVENTION,
    )
