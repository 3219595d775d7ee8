"""From users to whole replicas: how many GPUs hold them, and what an hour of those costs."""

from __future__ import annotations

from core.sizing import checks
from core.sizing.result import Result, Step, symbols
from core.sizing.text import num


def gpus_for_users(users: int, streams_per_replica: int, gpus_per_replica: int = 1) -> Result:
    """GPUs that hold `users` sequences at once, in whole replicas.

    streams_per_replica: sequences that one replica runs at once, as `max_streams` counts them. None
    if a replica holds not one.
    """
    users = checks.whole(users, "users", 1)
    streams = checks.whole(streams_per_replica, "streams_per_replica")
    each = checks.whole(gpus_per_replica, "gpus_per_replica", 1)
    letters = symbols(
        ("N", "users at once", users, "sequences"),
        ("B", "sequences of a replica", streams, "sequences"),
        ("n", "GPUs of a replica", each, "GPUs"),
    )
    if streams == 0:
        return Result(None, "GPUs", letters, notes=("a replica holds not one sequence",))
    replicas = -(-users // streams)
    return Result(
        replicas * each,
        "GPUs",
        letters,
        (
            Step("⌈N / B⌉", f"⌈{users} / {streams}⌉", replicas, "replicas"),
            Step("replicas · n", f"{replicas} · {each}", replicas * each, "GPUs"),
        ),
        scope="fleet",
        notes=("all users at once, each with the planned context: no spare replica is counted",),
    )


def cost_per_hour(price_per_gpu_hour: float, n_gpu: int) -> Result:
    """The price of an hour of n_gpu GPUs, busy or not."""
    price = checks.number(price_per_gpu_hour, "price_per_gpu_hour")
    n_gpu = checks.whole(n_gpu, "n_gpu", 1)
    value = price * n_gpu
    return Result(
        value,
        "$/h",
        symbols(("p", "price of a GPU hour", price, "$/h"), ("n", "GPUs", n_gpu)),
        (Step("p · n", f"{num(price)} · {n_gpu}", value, "$/h"),),
        scope="fleet",
        notes=("in the currency of the price",),
    )
