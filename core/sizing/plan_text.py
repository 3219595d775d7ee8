"""A plan as a person reads it in a terminal: every number with its unit and what it is of."""

from __future__ import annotations

from core.sizing.plan import Plan
from core.sizing.result import CONVENTION, LITERATURE, Result
from core.sizing.rules import NOTICE, PASS, PROBLEM, UNKNOWN, Finding
from core.sizing.units import both

_SCOPES = {
    "layer": "a layer",
    "gpu": "a GPU",
    "replica": "a replica",
    "fleet": "all replicas",
    "model": "the whole model",
}
_ROWS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "WEIGHTS",
        (
            ("params", "parameters"),
            ("active_params", "of them active for a token"),
            ("weights", "weights"),
            ("weights_nominal", "weights by the model's nominal size"),
            ("weights_per_gpu", "weights on the fullest GPU"),
        ),
    ),
    (
        "MEMORY",
        (
            ("overhead", "neither weights nor cache"),
            ("kv_pool_per_gpu", "left for the KV cache"),
        ),
    ),
    (
        "KV CACHE",
        (
            ("kv_per_token_per_layer", "a token, one layer"),
            ("kv_per_token", "a token, all layers"),
            ("kv_per_token_per_gpu", "a token, on one GPU"),
            ("kv_replication", "copies of each key and value"),
            ("fixed_state", "fixed state of a sequence"),
            ("kv_per_sequence", "a sequence, keys and values"),
            ("sequence_total", "a sequence, with its fixed state"),
            ("sequence_in_pool", "a sequence, as the pool holds it"),
            ("block", "a block, in every layer"),
            ("num_blocks", "blocks, in every layer"),
            ("blocks_per_sequence", "blocks of a sequence, in a layer"),
            ("last_block_waste", "empty slots of a last block, on average"),
        ),
    ),
    (
        "SEQUENCES AT ONCE",
        (
            ("held_paged", "memory holds, in blocks"),
            ("held_fractional", "memory holds, to the token"),
            ("held_contiguous", "memory holds, contiguous"),
            ("streams", "run at once"),
            ("balance_batch", "cache as large as the weights at"),
        ),
    ),
    (
        "TIME",
        (
            ("ridge", "ridge of the roofline"),
            ("attention_intensity", "intensity of decode's attention"),
            ("saturating_batch", "batch that saturates the matrices"),
            ("prefill", "prefill of a prompt, alone"),
            ("prefill_hit", "the same, its prefix cached"),
            ("decode_alone", "decode step, one sequence"),
            ("decode_full", "decode step, all sequences"),
            ("output_rate", "output, decoding alone"),
            ("cost", "output tokens"),
        ),
    ),
)


def render(plan: Plan, findings: list[Finding], explain: bool = False) -> str:
    """The plan as text. explain: with each number's steps, and the rules that pass."""
    lines = [*_head(plan, explain), ""]
    results = plan.results()
    for title, rows in _ROWS:
        lines.append(title)
        for name, label in rows:
            if name in results and not _idle(plan, name):
                said = _said(name, results[name], explain)
                lines += _row(plan, label, results[name], said, explain)
        lines.append("")
    lines += _bounds(plan)
    lines += ["", *_advice(findings, explain)]
    return "\n".join(lines)


def _head(plan: Plan, explain: bool) -> list[str]:
    d = plan.deployment
    parts = {"tp": d.tp, "pp": d.pp, "dp": d.dp, "attention dp": d.attention_dp}
    split = ", ".join(f"{name} {value}" for name, value in parts.items() if value > 1)
    gpus = f"{d.gpus} × {d.gpu.title}" + (f" ({split})" if split else "")
    lines = [
        f"{d.model.name} on {gpus}",
        f"weights {d.stored().name}, KV cache {d.kv_format.name}, {d.context:,} tokens a sequence, "
        f"blocks of {d.block_size}, {d.gpu_memory_utilization:.0%} of memory",
        f"MFU {d.mfu:g}, MBU {d.mbu:g}; GB = 10⁹ bytes, GiB = 2³⁰",
    ]
    if explain:
        lines.append(f"model: {d.model.source}; GPU: {'; '.join(d.gpu.sources)} ({d.gpu.date})")
    lines += [f"warning: {text}" for text in plan.warnings]
    lines += [f"note: {text}" for text in plan.notes]
    return lines


_OF_BLOCKS = ("block", "num_blocks", "blocks_per_sequence", "last_block_waste")


def _idle(plan: Plan, name: str) -> bool:
    """Whether a row would say nothing: no state, no copies, no blocks."""
    if name in ("fixed_state", "sequence_total"):
        return not plan.fixed_state.value
    if name in _OF_BLOCKS:
        return plan.deployment.allocator == "contiguous" or not plan.kv_per_token.value
    return name == "kv_replication" and plan.kv_replication.value == 1.0


_PLAIN = {
    "kv_per_token": "indexer keys",
    "blocks_per_sequence": " with a window",
    "held_contiguous": "each reserves",
}
"""Rows that are misread without one of their notes, and words that tell it."""


def _said(name: str, result: Result, explain: bool) -> tuple[str, ...]:
    """The notes that are shown below a row."""
    if explain or not result.value or name == "weights":
        return result.notes
    return tuple(note for note in result.notes if name in _PLAIN and _PLAIN[name] in note)


def _row(
    plan: Plan, label: str, result: Result, notes: tuple[str, ...], explain: bool
) -> list[str]:
    scope = _SCOPES.get(result.scope, "")
    basis = {CONVENTION: "by convention", LITERATURE: "as reported"}.get(result.basis, "")
    remark = ", ".join(part for part in (scope, basis) if part)
    lines = [f"  {label:<42}{quantity(result):<44}{remark}".rstrip()]
    elsewhere = {*plan.notes, both(result.value or 0)}
    lines += [f"      {note}" for note in notes if note not in elsewhere]
    if explain:
        for one in result.symbols:
            value = f"{one.value:,}" if isinstance(one.value, int) else f"{one.value}"
            lines.append(f"      {one.symbol}: {one.meaning} = {value} {one.unit}".rstrip())
        for step in result.steps:
            value = f"{step.value:,}" if isinstance(step.value, int) else f"{step.value:.6g}"
            put_in = f" = {step.substituted}" if step.substituted else ""
            lines.append(f"      {step.formula}{put_in} = {value} {step.unit}")
        if result.source and result.source not in (
            plan.deployment.model.source,
            "; ".join(plan.deployment.gpu.sources),
        ):
            lines.append(f"      source: {result.source}")
    return lines


def quantity(result: Result) -> str:
    """A value with its unit; bytes in full and in both GB and GiB."""
    value, unit = result.value, result.unit
    if value is None:
        return "none"
    if unit == "B":
        exact = f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"
        return f"{exact} B" if value < 1000 else f"{exact} B = {both(value)}"
    if unit == "s":
        return f"{value * 1000:,.4g} ms" if value < 1 else f"{value:,.4g} s"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f"{shown} {unit}"


def _bounds(plan: Plan) -> list[str]:
    bounds = ", ".join(f"{name} {value:,}" for name, value in plan.bounds.items())
    if not plan.binding:
        return ["BOUNDS  none: a sequence keeps nothing"]
    return [f"BOUNDS  of one scheduler: {bounds}; {plan.binding} binds"]


def _advice(findings: list[Finding], explain: bool) -> list[str]:
    counts = {s: sum(one.status == s for one in findings) for s in (PROBLEM, NOTICE, UNKNOWN, PASS)}
    shown = "; ".join(f"{count} {status}" for status, count in counts.items() if count)
    lines = [f"ADVICE  {shown}"]
    for one in sorted(findings, key=lambda f: (PROBLEM, NOTICE, UNKNOWN, PASS).index(f.status)):
        if one.status == PASS and not explain:
            continue
        rule = one.rule
        lines.append(f"  {one.status}: {rule.title}. {one.saw}")
        lines.append(f"      rule ({rule.basis}; {rule.source}): {rule.rule}")
        if explain and rule.threshold:
            numbers = ", ".join(f"{name} {value:g}" for name, value in rule.threshold.items())
            lines.append(f"      thresholds: {numbers}")
        if one.status != PASS:
            lines.append(f"      {rule.mend}")
    return lines
