"""Why: every reason code that an event may carry, and its sentence for the learner.

Nothing in a run happens without one of these, and nothing is guessed afterwards. A test makes sure
that the engine emits no code that is not listed here.
"""

from __future__ import annotations

REASONS: dict[str, dict[str, str]] = {
    "request_rejected": {
        "empty_prompt": "There is no token to compute, so nothing could be sampled.",
        "prompt_too_long": "The prompt leaves no room for an answer within max_model_len.",
        "exceeds_pool": "Even alone, it would need more blocks than the pool has.",
        "invalid": "It asks for more sequences than may run at once, or what it is to fork off "
        "does not run, or has as many tokens as this one may have.",
    },
    "waiting": {
        "no_free_blocks": "Too few blocks are free for all its tokens beyond what others lack.",
        "no_contiguous_run": "No free blocks lie side by side in a run that is long enough.",
        "max_num_seqs": "As many sequences run as are allowed.",
        "token_budget": "The tokens that a step may compute are spent.",
        "watermark": "It would fit, but only by taking blocks that are kept free while others run.",
        "behind_head": "The one before it in the queue waits, and nobody overtakes.",
        "preemption_in_step": "Blocks ran out in this step, so nobody new is let in.",
        "batch_not_finished": "A static batch lets nobody in until its last member has ended.",
    },
    "blocks_allocated": {
        "prompt": "Room for tokens that the sequence starts with.",
        "decode": "Its last block is full, and its next token needs a slot.",
        "copy_on_write": "It must write into a block that others read too, so it takes a copy.",
        "reserve": "One run for all that it may ever need, taken at admission.",
    },
    "block_copied": {
        "copy_on_write": "It must write into a block that others read too, so it takes a copy.",
    },
    "block_evicted": {
        "reused": "The block is needed, so what it held is forgotten first.",
        "cache_reset": "The prefix cache was emptied.",
    },
    "blocks_freed": {
        "finished": "The sequence has ended.",
        "preempted": "The sequence was sent back to the queue.",
        "cancelled": "The request was cancelled.",
        "pruned": "A better beam took its place.",
        "window": "The model's sliding window has passed it: no later token can see what it holds.",
        "duplicate": "The same prefix was cached already, so its own copy is not needed.",
    },
    "preempted": {
        "no_free_blocks": "A block is needed and none is free: the one admitted last gives way.",
        "priority": "A block is needed and none is free: the least urgent one gives way.",
    },
    "finished": {
        "stop_token": "It sampled a token that ends it.",
        "stop_string": "Its text contains a string that ends it.",
        "max_tokens": "It has as many output tokens as were asked for.",
        "max_model_len": "It is as long as the engine allows.",
        "script_end": "Its script has no more tokens.",
        "cancelled": "The request was cancelled.",
        "error": "The engine could not go on with it.",
    },
}
"""Sentences by event type and reason code."""
