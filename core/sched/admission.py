"""May a request come in? Rejected for good on arrival, or made to wait for a reason.

A fork never waits: it starts in the step in which it arrives, or is rejected.

Rejection asks whether the request could ever be served, even alone. Waiting asks whether it fits
now: blocks for *all* its tokens must be free, not only for its first chunk, or the pool would fill
with half-prefilled prompts that preempt each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.config import EngineConfig
from core.kv.choose import KVManager
from core.kv.contiguous import ContiguousKVManager, reserve_blocks
from core.kv.uncached import NoKVManager
from core.request import Request, Sequence, Status


@dataclass(frozen=True, slots=True)
class Rejection:
    """reason, and the two numbers compared, where there are any: `needed` exceeds `available`."""

    reason: str
    needed: int | None = None
    available: int | None = None

    def __str__(self) -> str:
        if self.needed is None:
            return "the sequence that it forks off cannot be forked now"
        numbers = f"{self.needed:,} needed, {self.available:,} available"
        return {
            "empty_prompt": "the prompt is empty",
            "prompt_too_long": f"the prompt is too long for max_model_len: {numbers} (tokens)",
            "exceeds_pool": f"the request can never fit the pool: {numbers} (blocks)",
            "invalid": f"more sequences at once than max_num_seqs: {numbers} (sequences)",
        }[self.reason]


@dataclass(frozen=True, slots=True)
class Wait:
    """Why the head of the queue is not admitted in this step; the numbers where there are any."""

    reason: str
    needed: int | None = None
    available: int | None = None


def lacks_blocks(
    kv: KVManager,
    seq: Sequence,
    hit: list[int],
    owed: int,
    watermark: int,
) -> Wait | None:
    """Why a waiting sequence's blocks are not there, or None if they are.

    It must find free: blocks for *all* its tokens, minus those of its hit; beyond the blocks `owed`
    to running sequences, and beyond the `watermark` (0 if nothing runs: the only request is never
    held back). Blocks of the hit that lie in the free list are about to leave it. An entry of the
    hit that a sliding window does not reach needs no block and takes none. This is a check, not a
    reservation.
    """
    if isinstance(kv, NoKVManager):
        return None
    if isinstance(kv, ContiguousKVManager):
        if kv.fits(seq):
            return None
        return Wait("no_contiguous_run", kv.reserve_blocks(seq), kv.longest_run)
    needed = blocks_needed(seq, kv.block_size) - len(hit)
    available = kv.num_free - kv.num_idle(hit) - owed
    if needed > available:
        return Wait("no_free_blocks", needed, max(available, 0))
    if needed + watermark > available:
        return Wait("watermark", needed, max(available - watermark, 0))
    return None


def blocks_needed(seq: Sequence, block_size: int) -> int:
    """Blocks for all the tokens that a sequence has, placeholders included.

    ⌈num_tokens / block_size⌉; if it is the unit of beams that were preempted, the full blocks of
    the prompt once and the rest for each beam.
    """
    group = seq.request.beams
    if group is None or seq.num_places == 1 or not group.beams:
        return -(-(len(seq.tokens) + seq.num_output_placeholders) // block_size)
    shared = len(seq.tokens) // block_size
    of_each = -(-len(group.beams[0].tokens) // block_size) - shared
    return shared + len(group.beams) * of_each


def blocks_at_most(config: EngineConfig, request: Request) -> int:
    """Blocks that a request holds at most, alone in the engine.

    The last token sampled is never computed and needs no slot. For n > 1, and for beams, the full
    blocks of the prompt are shared, the rest is needed n times. Without a KV cache there are none.
    What a sliding window gives back on the way does not count: if the sequence is preempted, its
    resume asks for blocks for all its tokens again.
    """
    if not config.kv_cache:
        return 0
    num_prompt_tokens = len(request.prompt_tokens)
    max_tokens = request.spec.max_tokens
    if config.allocator == "contiguous":
        return reserve_blocks(config, num_prompt_tokens, max_tokens)
    total = config.blocks_for(config.tokens_at_most(num_prompt_tokens, max_tokens) - 1)
    shared = num_prompt_tokens // config.block_size
    return shared + request.num_places * (total - shared)


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
    if request.num_places > config.max_num_seqs:
        return Rejection("invalid", request.num_places, config.max_num_seqs)
    return None


def reject_fork(
    request: Request, origin: Sequence | None, num_places_left: int
) -> Rejection | None:
    """Why the request cannot fork off now, or None.

    origin: the sequence it names, None if that does not exist. It must run, hold blocks and have a
    token of its own (its prompt is computed then, or was once), and must leave at least one token
    to the fork: the inherited ones count. Blocks are no condition: a fork takes none.
    """
    spec = request.spec
    if origin is None or origin.status is not Status.RUNNING or not origin.block_table:
        return Rejection("invalid")
    scripts = spec.output_tokens
    most = spec.max_tokens if scripts is None else min(spec.max_tokens, len(scripts[0]))
    if not 0 < origin.num_output_tokens < most:
        return Rejection("invalid")
    if num_places_left < 1:
        return Rejection("invalid", 1, num_places_left)
    return None
