"""May a request come in? Rejected for good on arrival, or made to wait for a reason.

Rejection asks whether the request could ever be served, even alone. Waiting asks whether it fits
now: blocks for *all* its tokens must be free, not only for its first chunk, or the pool would fill
with half-prefilled prompts that preempt each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.config import EngineConfig
from core.kv.contiguous import reserve_blocks
from core.request import Request


@dataclass(frozen=True, slots=True)
class Rejection:
    """reason, and the two numbers compared: `needed` is more than `available`."""

    reason: str
    needed: int
    available: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Why the head of the queue is not admitted in this step; the numbers where there are any."""

    reason: str
    needed: int | None = None
    available: int | None = None


def blocks_at_most(config: EngineConfig, request: Request) -> int:
    """Blocks that a request holds at most, alone in the engine.

    The last token sampled is never computed and needs no slot. For n > 1 the full blocks of the
    prompt are shared, the rest is needed n times.
    """
    num_prompt_tokens = len(request.prompt_tokens)
    max_tokens = request.spec.max_tokens
    if config.allocator == "contiguous":
        return reserve_blocks(config, num_prompt_tokens, max_tokens)
    total = config.blocks_for(config.tokens_at_most(num_prompt_tokens, max_tokens) - 1)
    shared = num_prompt_tokens // config.block_size
    return shared + request.spec.n * (total - shared)


def reject(config: EngineConfig, request: Request) -> Rejection | None:
    """Why the request can never be served, or None."""
    num_prompt_tokens = len(request.prompt_tokens)
    if num_prompt_tokens == 0:
        return Rejection("empty_prompt", 1, 0)
    if num_prompt_tokens >= config.max_model_len:
        return Rejection("prompt_too_long", num_prompt_tokens, config.max_model_len - 1)
    blocks = blocks_at_most(config, request)
    if blocks > config.num_blocks:
        return Rejection("exceeds_pool", blocks, config.num_blocks)
    if request.spec.n > config.max_num_seqs:
        return Rejection("invalid", request.spec.n, config.max_num_seqs)
    return None
