"""A run's steps on a roofline: what each computed and moved, how long it took, and which share of
the machine's ceilings that is.

Pure functions of a run (dict, run/1). Work is the engine's count (`work` of a step), times are its
own, and the ceilings those that were measured on the same machine (`source.ceilings` of the
header). A step's matrices and its attention are timed apart where the run says so:

    intensity   FLOPs / bytes                          rate   FLOPs / time
    MFU         FLOPs / time / ceiling of FLOP/s       MBU    bytes / time / ceiling of bytes/s
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_WORK: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "step": (("flops",), ("bytes",), "forward_us"),
    "matrices": (("linear_flops", "logits_flops"), ("weight_bytes", "logits_bytes"), "linear_us"),
    "attention": (("attention_flops",), ("kv_read_bytes", "kv_write_bytes"), "attention_us"),
}
"""Part → what counts as its FLOPs, as its bytes, and which time is its own."""


def ceilings(run: Json) -> Json | None:
    """{read_bytes_per_s, flops_per_s, dtype, date} as measured on the run's machine, or None."""
    found: Json | None = run["header"]["source"].get("ceilings")
    return found


def steps(run: Json) -> list[Json]:
    """Every step that computed something and was timed, in order: {step, kind, tokens, sequences,
    step_us, parts: {"step", "matrices", "attention"}}.

    step: its index in the run. kind: "prefill", "decode" or "both", by whose tokens it computed.
    step_us: with deciding and sampling. A part is {flops, bytes, us, intensity, rate, mfu, mbu};
    it is absent where it did nothing or was not timed, and its shares are None without ceilings.
    """
    top, prompts, out = ceilings(run), _prompts(run), []
    for index, step in enumerate(run["steps"]):
        parts = {name: part for name in _WORK if (part := _part(step, name, top)) is not None}
        if "step" not in parts:
            continue
        timing = step["timing"]
        shares = step["scheduled"]
        out.append(
            {
                "step": index,
                "kind": _kind(shares, prompts),
                "tokens": sum(share["num_scheduled_tokens"] for share in shares.values()),
                "sequences": len(shares),
                "step_us": sum(
                    timing.get(name, 0.0) for name in ("schedule_us", "forward_us", "sample_us")
                ),
                "parts": parts,
            }
        )
    return out


def _part(step: Json, name: str, top: Json | None) -> Json | None:
    work, timing = step.get("work"), step.get("timing")
    if not work or not timing:
        return None
    flop_names, byte_names, clock = _WORK[name]
    flops = sum(work[one] for one in flop_names)
    moved = sum(work[one] for one in byte_names)
    us = timing.get(clock, 0.0)
    return _rates(flops, moved, us, top) if flops and moved and us > 0 else None


def _rates(flops: int, moved: int, us: float, top: Json | None) -> Json:
    seconds = us / 1e6
    return {
        "flops": flops,
        "bytes": moved,
        "us": us,
        "intensity": flops / moved,
        "rate": flops / seconds,
        "mfu": None if top is None else flops / seconds / top["flops_per_s"],
        "mbu": None if top is None else moved / seconds / top["read_bytes_per_s"],
    }


def _prompts(run: Json) -> dict[str, int]:
    """Sequence → tokens of its prompt."""
    return {
        sequence: event["num_prompt_tokens"]
        for step in run["steps"]
        for event in step["events"]
        if event["type"] == "request_arrived"
        for sequence in event["sequences"]
    }


def _kind(shares: Json, prompts: dict[str, int]) -> str:
    kinds = {
        "prefill" if _before(share) < prompts.get(_parent(name, prompts), 0) else "decode"
        for name, share in shares.items()
    }
    return kinds.pop() if len(kinds) == 1 else "both"


def _before(share: Json) -> int:
    return int(share["num_computed_tokens"] + share["num_cached_tokens"])


def _parent(name: str, prompts: dict[str, int]) -> str:
    """The sequence itself, or the request of one that was forked later."""
    return name if name in prompts else name.partition("#")[0]
