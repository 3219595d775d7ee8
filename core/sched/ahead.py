"""Asynchronous scheduling: step k + 1 is decided and launched while the device computes step k.

Deciding a step takes the host a while, in which a device that waits for it computes nothing. With
`async_scheduling` it does not wait. The next step needs *how many* tokens each sequence has, not
which; so the engine goes on with a placeholder for the token that step k samples, and the device
puts it in, for it has it first:

    synchronous     host    │schedule k│          │take in k│schedule k+1│            │take in k+1│
                    device             │ compute k│                      │ compute k+1│

    asynchronous    host    │schedule k│schedule k+1│take in k│schedule k+2│take in k+1│
                    device             │      compute k       │      compute k+1       │ …

A step of the engine: cancels and arrivals, schedule k, launch k, and only then wait for step k − 1
and take its tokens in. At most one step is in flight while the next is decided, so a sequence has
at most one token that nobody knows yet (its `num_output_placeholders`, counted as a token in all
that the scheduler decides).

A run looks like any other, but a step's tokens stand in the record of the step after it, behind
that step's schedule: record k has `scheduled` of step k, and `token_sampled`, `block_cached`,
`finished` … of step k − 1. Its timing, work and candidates are those of what was waited for in it;
its `kv_error` is of all that was stored by then, step k included.
If nobody is left who could go on, the last step in flight is waited for at once. A prompt of 3
tokens whose second answer token ends it, beside others:

    record   scheduled                 and then
    0        A computes 3
    1        A computes 1, unknown     its first token is known
    2        A computes 1, unknown     its second one is known, and ends it
    3                                  its third one is dropped, its blocks are freed

What is known ahead costs nothing: a sequence whose unknown token is its last one (`max_tokens`,
`max_model_len`, the end of a script) is not scheduled again. A stop token, a stop string and a
cancel are learnt one step late, when the sequence may be in flight again. Its late token is dropped
then: no output, no random number and no block's content depends on it. Its blocks are still read
and written by the device, so they are freed, once, when that step has been taken in. Until then
they are in use: a sequence that has ended, no longer in `running`, with a table.

Only known tokens are ever hashed, in the step that takes their computation in; a share that was
computed behind a sequence's end is not cached at all. What every request gets (tokens, finish
reasons, log-probabilities) is what the synchronous engine gives it. Which step does what may
differ: an ended sequence's place and blocks come free one step later, and a cancelled one has one
token less.

Whoever cannot go on without knowing sits out one step (`leaves_placeholder`, `sits_out`), and the
others go on. A few things need a device that has nothing in flight (`must_drain`): then the step
is taken in first, and its outcome stands before the schedule in the record.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.config import EngineConfig
from core.kv.choose import KVManager
from core.kv.manager import KVCacheManager
from core.request import Request, Sequence, Status
from core.runner import ScheduledSequence, StepBatch


def leaves_placeholder(item: ScheduledSequence, config: EngineConfig) -> bool:
    """Whether a sequence can be scheduled again before the token that this share samples is known.

    Not where
    - nothing is sampled: the next chunk of a prompt needs no token;
    - n > 1: what is sampled are n tokens, of sequences that exist only after the fork;
    - it is a beam: which beams there are is known only when all candidates are;
    - a repetition penalty weighs all earlier tokens, on the host;
    - the token is the last one, whatever it is.
    """
    seq, spec = item.seq, item.seq.request.spec
    return (
        item.num_samples == 1
        and spec.repetition_penalty == 1.0
        and item.stop + 1 < min(seq.max_num_tokens, config.max_model_len)
    )


def sits_out(batch: StepBatch, kv: KVManager) -> set[str]:
    """Of the step in flight, the sequences that must not be scheduled before it is taken in.

    - Beams: they go together or not at all, and whether they go on is known afterwards.
    - Who fills a block whose tokens the radix tree holds already, or will by then: its table is
      going to be rewritten to the tree's block, and its own block freed. A step launched before
      would still read that one.
    """
    out: set[str] = set()
    filled: list[tuple[Sequence, int, int]] = []
    size = kv.block_size
    for item in batch.scheduled:
        seq, start = item.seq, item.start
        first, stop = start // size, (start + item.num_scheduled_tokens) // size
        if seq.request.beams is not None and seq.num_places == 1:
            out.add(seq.id)
        elif stop > first and seq.status is Status.RUNNING:
            filled.append((seq, first, stop))
    if filled and isinstance(kv, KVCacheManager):
        out |= kv.cache.rewrites(filled)
    return out


def must_drain(arriving: Iterable[Request], ran_short: bool, config: EngineConfig) -> bool:
    """Whether the step in flight has to be taken in before anything else is decided.

    - A request arrives that forks off a running sequence: it takes the tokens there are, and its
      first write copies a block, which nobody may be writing.
    - The step before ran out of blocks (ran_short). It granted no more then and preempted nobody:
      who is in flight still writes the blocks that would be taken from it, and may be about to end.
    - Nothing is kept (`kv_cache` false): each step computes every token anew, so a known one is
      needed.
    """
    return (
        ran_short or not config.kv_cache or any(request.parent is not None for request in arriving)
    )
