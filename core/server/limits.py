"""How much one process takes on. All of it can be exceeded by asking, none by waiting."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import ScenarioError
from core.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Limits:
    """Counts, bytes and seconds.

    max_live, max_queued: live requests that have not ended, and scenarios that wait. max_behind:
    steps that a reader may be behind the engine before its request is ended. stall_s: seconds
    after which a step counts as hung. max_waiting: requests of `/v1` that may wait for their turn.
    max_prompts: of one of them. drain_s: how long what runs may go on after SIGTERM.
    """

    max_body_bytes: int = 1 << 20
    max_live: int = 64
    max_queued: int = 8
    max_behind: int = 1024
    max_scenario_s: float = 120.0
    max_scenario_requests: int = 128
    max_scenario_tokens: int = 200_000
    max_scenario_blocks: int = 65_536
    body_s: float = 10.0
    send_s: float = 20.0
    keepalive_s: float = 5.0
    stall_s: float = 60.0
    max_waiting: int = 512
    max_prompts: int = 1024
    drain_s: float = 30.0


class Busy(Exception):
    """Not now. status: 429 when it is full, 503 when it cannot serve anybody.

    retry_after_s: when it is worth asking again.
    """

    def __init__(self, message: str, retry_after_s: int, status: int = 429) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.status = status


def check_scenario(scenario: Scenario, limits: Limits) -> None:
    """Refuse what would keep everybody else waiting. Raises ScenarioError with the numbers."""
    if scenario.engine.num_blocks > limits.max_scenario_blocks:
        raise ScenarioError(
            "engine.num_blocks",
            f"{scenario.engine.num_blocks:,}; this server runs {limits.max_scenario_blocks:,}",
        )
    if len(scenario.requests) > limits.max_scenario_requests:
        raise ScenarioError(
            "requests",
            f"{len(scenario.requests):,}; this server runs {limits.max_scenario_requests:,}",
        )
    tokens = 0
    for request in scenario.requests:
        prompt = len(request.prompt_tokens or ()) or len((request.prompt or "").encode())
        outputs = min(request.max_tokens, scenario.engine.max_model_len)
        tokens += prompt + outputs * max(request.n, request.beam_width)
    if tokens > limits.max_scenario_tokens:
        raise ScenarioError(
            "requests",
            f"up to {tokens:,} tokens in all; this server runs {limits.max_scenario_tokens:,}",
        )
