"""What an engine says of its requests: results, and its state as `--state` shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.request import Request, Sequence
from core.sched.scheduler import Scheduler


def snapshot(
    requests: Iterable[Request], scheduler: Scheduler, blocks: dict[str, Any]
) -> dict[str, Any]:
    """Tables and outputs by sequence, the two queues, and the state of the blocks as given."""
    tables: dict[str, list[int]] = {}
    outputs: dict[str, list[int]] = {}
    for request in requests:
        for name, seq in request.named_sequences():
            outputs[name] = seq.output_tokens
        for seq in request.sequences:
            if seq.block_table:
                tables[seq.id] = list(seq.block_table)
    return {
        "block_tables": tables,
        **blocks,
        "waiting": _names(scheduler.waiting.entries()),
        "running": _names(scheduler.running),
        "outputs": outputs,
    }


def unfinished_sequences(requests: Iterable[Request]) -> dict[str, Any]:
    """By id of each entry of a queue what its state leaves open: the request, the tokens that are
    computed, and the sequences that it stands for. Also of those that have `ended` and still hold
    blocks."""
    out: dict[str, Any] = {}
    for request in requests:
        for seq in request.sequences:
            if seq.finished and not seq.block_table:
                continue
            out[seq.id] = {
                "request": request.id,
                "num_computed_tokens": seq.num_computed_tokens + seq.num_in_flight_tokens,
                "stands_for": [name for name, _ in request.stands_for(seq)],
            }
            if seq.finished:
                out[seq.id]["ended"] = True
    return out


def result_of(request: Request, name: str, seq: Sequence) -> dict[str, Any]:
    result: dict[str, Any] = {
        "finish_reason": seq.finish_reason,
        "num_cached_tokens": request.num_cached_tokens or 0,
        "num_preemptions": seq.num_preemptions,
    }
    if seq.logprobs:
        result["logprobs"] = [entry.to_dict() for entry in seq.logprobs]
    if name == request.sequence_id(0) and request.prompt_logprobs:
        result["prompt_logprobs"] = [entry.to_dict() for entry in request.prompt_logprobs]
    if request.beams is not None:
        hypotheses = request.beams.hypotheses
        result["cumulative_logprob"] = seq.cumulative_logprob
        result["score"] = seq.beam_score
        result["rank"] = hypotheses.index(seq) if seq in hypotheses else None
    return result


def _names(sequences: list[Sequence]) -> list[str]:
    return [
        seq.request.sequence_id(index)
        for seq in sequences
        for index in range(seq.index, seq.index + seq.num_places)
    ]
