"""The event vocabulary of a run: every change of engine state, in the order it happened.

Inside the engine an event is a plain tuple ``(type, *values)``; in a run it is a JSON object
``{"type": type, field: value, …}`` with the fields named in `FIELDS`, absent where the value
is None. Tuples cost about 50 ns each, so a traced run stays close to an untraced one.

Events suffice: applied in order to an empty state they give the engine's state after every step
(see `core.trace.reducer`). They therefore carry ids and positions, never a rule: whoever applies
them does not sort, search or choose.

With asynchronous scheduling a step's outcome follows the schedule of the step after it, and the
blocks of a sequence may be freed one step after it has finished (`core.sched.ahead`).

How each one changes the state
------------------------------
=================  ============================================================================
request_arrived    `sequences` (all n ids) exist, with empty outputs. `position`: the place in the
                   waiting queue, counted in queue entries, of the new entry (the unit ``A#0`` for
                   n > 1); absent when the request is rejected, or forks off a sequence.
request_rejected   nothing else happens to it. `needed` and `available` are the numbers compared.
waiting            `sequence` (a queue entry) waits for a new `reason`.
admitted, resumed  the entry leaves the waiting queue and joins the end of `running`.
                   `num_cached_tokens` of its `num_tokens` were found in the prefix cache.
scheduled          the sequence computes `num_scheduled_tokens` in this step, starting at
                   `num_computed_tokens` + `num_cached_tokens`. Emitted when the schedule is final.
blocks_allocated   `blocks` leave the free order with one reference. They are appended to the
                   table, except under reason ``copy_on_write``, where `block_copied` places them.
block_shared       each of `blocks` gains one reference, leaves the free order if it lay there,
                   and stands in the table from entry `index` on; a shorter table is filled up to
                   it with −1 (a hit with a sliding window starts behind entries that nobody needs).
                   `cause` ``hit`` (one more hit for
                   each) or ``canonical`` (it replaces a duplicate, freed by the next event).
block_copied       table entry `index` now names `dst` instead of `src`; `src` loses one reference.
                   `num_slots` slots were worth copying.
block_cached       `blocks`, table entries `index` … of the sequence, are matchable under `keys`;
                   the first one's parent has `parent_key`. In a tree they are appended to `node`,
                   which is new if `parent` is present (`parent` −1: directly under the root).
block_uncached     `block` is matchable no more, because it is about to be written (or follows one
                   that is: then it is idle, and moves to the front of the free order). In a tree
                   it is the last one of its node.
block_evicted      the cached contents of `blocks` are forgotten. In a tree a block is the last one
                   of its node, and an empty node disappears.
blocks_freed       the sequence drops one reference to each of `blocks`, in this order. `to` says
                   where they go: ``front`` or ``back`` (one after another), ``before`` (each before
                   the block at the same place in `before`, −1: at the back), or ``held`` (others
                   still hold them). Under reason ``window`` the table's `entries`, one for each
                   block, become −1; under ``duplicate`` the event before has changed the table;
                   under all others the table is gone afterwards (`blocks` may be empty: if the
                   window had passed them all, or if there is no KV cache and a static batch ends).
forked             The first of `sequences` stands in `running`, as a unit or as a beam; the others
                   join right behind it, each with its table, all blocks shared. `copies_outputs`:
                   its outputs as well (beams); else they keep their own (none yet, but for beams
                   that were preempted and whose prompt has been computed again). With `position`,
                   `request` has just arrived as a fork of another's sequence: its own sequence, the
                   second one, joins `running` at that place, counted in entries, with the first
                   one's outputs and as many of its tokens computed.
node_split         the first `num_blocks` blocks of `node` move to `new_parent`, a new node between
                   it and its old parent.
preempted          the sequence leaves `running` for `position` in the waiting queue; nothing of it
                   is computed now, its outputs stay. `by` asked for the blocks. `sequences`: the
                   beams of a group, which leave together and wait as one entry.
token_sampled      `token` is appended to the sequence's outputs.
pruned             a beam leaves `running` because better ones took its place. Another may get its
                   id, by a fork in the same step; else it has ended.
cancelled          the request's unfinished sequences end (one `finished` each follows).
finished           the sequence leaves `waiting` or `running`; with `holds` true (a static batch) it
                   stays in `running` until its `blocks_freed`.
=================  ============================================================================
"""

from __future__ import annotations

from typing import Any

Event = tuple[Any, ...]

_WHO = ("request", "sequence")

FIELDS: dict[str, tuple[str, ...]] = {
    "request_arrived": ("request", "sequences", "num_prompt_tokens", "position"),
    "request_rejected": ("request", "reason", "needed", "available"),
    "waiting": (*_WHO, "reason", "needed", "available"),
    "admitted": (*_WHO, "num_tokens", "num_cached_tokens"),
    "resumed": (*_WHO, "num_tokens", "num_cached_tokens"),
    "scheduled": (
        *_WHO,
        "num_scheduled_tokens",
        "num_computed_tokens",
        "num_cached_tokens",
    ),
    "blocks_allocated": (*_WHO, "reason", "blocks"),
    "block_shared": (*_WHO, "cause", "blocks", "index"),
    "block_copied": (*_WHO, "reason", "src", "dst", "index", "num_slots"),
    "block_cached": (*_WHO, "blocks", "index", "keys", "parent_key", "node", "parent"),
    "block_uncached": (*_WHO, "block"),
    "block_evicted": ("reason", "blocks"),
    "blocks_freed": (*_WHO, "reason", "blocks", "to", "before", "entries"),
    "forked": (*_WHO, "sequences", "blocks", "copies_outputs", "position"),
    "node_split": ("node", "new_parent", "num_blocks"),
    "preempted": (*_WHO, "reason", "by", "num_output_tokens", "position", "sequences"),
    "token_sampled": (*_WHO, "token"),
    "pruned": (*_WHO,),
    "cancelled": ("request",),
    "finished": (*_WHO, "reason", "num_output_tokens", "holds"),
}


def to_dict(event: Event) -> dict[str, Any]:
    """The JSON object of an engine event; fields whose value is None are left out."""
    kind = event[0]
    out: dict[str, Any] = {"type": kind}
    for name, value in zip(FIELDS[kind], event[1:], strict=False):
        if value is not None:
            out[name] = value
    return out
