"""Steps that nobody asked for: to see what memory steps take, and to have kernels compiled."""

from __future__ import annotations

from array import array

from core.config import EngineConfig
from core.request import Request, Sequence
from core.runner import ScheduledSequence, StepBatch
from core.scenario import RequestSpec


def prompt_step(config: EngineConfig, max_model_len: int) -> StepBatch:
    """A step of `max_num_batched_tokens` prompt tokens of as many sequences as may run, each of
    which samples. All blocks are block 0: what is computed means nothing."""
    num = min(config.max_num_seqs, config.max_num_batched_tokens)
    share, more = divmod(config.max_num_batched_tokens, num)
    lengths = [min(max_model_len, share + (i < more)) for i in range(num)]
    return made_up_step([(0, length) for length in lengths], config.block_size)


def decode_step(config: EngineConfig, max_model_len: int) -> StepBatch:
    """A step of `max_num_seqs` decodes of the longest contexts, each of which samples."""
    num = min(config.max_num_seqs, config.max_num_batched_tokens)
    return made_up_step([(max_model_len - 1, max_model_len)] * num, config.block_size)


def made_up_step(spans: list[tuple[int, int]], block_size: int) -> StepBatch:
    """Sequences that compute positions start … stop − 1 each and sample, of tokens and blocks 0."""
    longest = max(stop for _, stop in spans)
    tokens, blocks = array("q", bytes(8 * longest)), [0] * -(-longest // block_size)
    # top_p: of all ways to choose a token the one that takes the most memory.
    spec = RequestSpec(id="made-up", prompt_tokens=(0,), temperature=1.0, top_p=0.9)
    scheduled = []
    for order, (start, stop) in enumerate(spans):
        seq = Sequence(Request(spec, array("q", [0]), order), 0, 1)
        seq.tokens, seq.block_table = tokens, blocks  # nobody changes them
        scheduled.append(ScheduledSequence(seq, stop - start, 1, start=start))
    return StepBatch(0, scheduled, [])
