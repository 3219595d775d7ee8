"""A design: a deployment with as many replicas as its users need, and what it does under that load.

A plan says what one deployment holds when it is full. A design starts from the users: it counts
replicas, spreads the users over them, and takes the time of a step at that load. Designs can then
be held against each other: one that costs no less and waits no shorter than another is dominated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.sizing import fleet, step_time
from core.sizing.deployment import Deployment
from core.sizing.errors import SizingError
from core.sizing.plan import Plan, plan
from core.sizing.plan_parts import through_stages
from core.sizing.result import Number, Result

MOST_REPLICAS = 1024


@dataclass(frozen=True)
class Design:
    """plan: of one replica. replicas: how many there are, 0 if not one sequence fits. gpus: those
    that the users need, with the arithmetic. load: sequences of the fullest replica when all users
    are there, at most what it runs. step: a decode step at that load; None without a load. price:
    of all its GPUs for an hour."""

    plan: Plan
    users: int
    replicas: int
    gpus: Result
    load: int
    step: Result | None
    price: Result | None

    @property
    def streams(self) -> int:
        """Sequences that all replicas run at once."""
        return self.plan.batch * self.replicas

    @property
    def holds(self) -> bool:
        """Whether all users run at once."""
        return self.streams >= self.users

    @property
    def num_gpus(self) -> int:
        return self.replicas * self.plan.deployment.gpus

    @property
    def first_token(self) -> Result:
        """Prefill on an idle replica, of what the prefix cache does not have where it is used."""
        return self.plan.prefill if self.plan.prefill_hit is None else self.plan.prefill_hit

    def meets(self, ttft_s: float | None, itl_s: float | None) -> bool:
        """Whether all users run at once and both limits are kept, as far as these floors say."""
        first = self.first_token.value
        soon = ttft_s is None or (first is not None and first <= ttft_s)
        step = None if self.step is None else self.step.value
        smooth = itl_s is None or (step is not None and step <= itl_s)
        return self.holds and soon and smooth


def design(deployment: Deployment, replicas: int | None = None, one: Plan | None = None) -> Design:
    """The design of a deployment with users. replicas: how many, instead of as many as they need;
    the deployment's dp is not looked at. one: the plan of one replica, where it is known: neither
    users nor prices change it. Raises SizingError."""
    d = deployment
    if d.users is None:
        raise SizingError("users", "is missing: a design starts from them")
    if one is None:
        one = plan(replace(d, dp=1))
    gpus = fleet.gpus_for_users(d.users, one.batch, d.gpus)
    needed = 0 if gpus.value is None else int(gpus.value) // d.gpus
    count = needed if replicas is None else replicas if one.batch else 0
    if count > MOST_REPLICAS:
        raise SizingError("users", f"need {count:,} replicas; the most here is {MOST_REPLICAS:,}")
    load = min(one.batch, -(-d.users // count)) if count else 0
    price = d.price_per_gpu_hour
    return Design(
        one,
        d.users,
        count,
        gpus,
        load,
        _decode_at(one, load) if load else None,
        None if price is None or not count else fleet.cost_per_hour(price, count * d.gpus),
    )


def full_plan(made: Design, deployment: Deployment) -> Plan:
    """The plan of all replicas of a design, with its users: what the advice looks at."""
    return plan(replace(deployment, dp=max(1, made.replicas), users=made.users))


def _decode_at(of: Plan, batch: int) -> Result:
    """A decode step of one replica with `batch` sequences of the planned context."""
    d = of.deployment
    step = step_time.decode_step_time(
        of.model,
        d.gpu,
        d.tp,
        -(-batch // d.pp),
        d.context,
        d.stored(),
        d.kv_dtype,
        d.mbu,
        d.mfu,
        attention_dp=d.attention_dp,
    )
    return through_stages(step, d.pp)


def dominated(points: Sequence[tuple[Number, Number]]) -> list[bool]:
    """Which of (cost, latency) another one beats: as low in both, and lower in one."""
    return [
        any(other[0] <= one[0] and other[1] <= one[1] and other != one for other in points)
        for one in points
    ]
