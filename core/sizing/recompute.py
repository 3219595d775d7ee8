"""A preempted sequence: bring its KV back over a link, or compute it again?

Swapping moves K(S) bytes at a rate. Recomputing costs 2 · P · S FLOPs and attention's square. Both
start out linear in S, so short sequences decide nothing: if a token's KV comes back sooner than its
2 · P FLOPs are computed, swapping wins at every length and there is no crossover at all. Only where
it comes back later does recomputing win at first, until attention's square overtakes it.
"""

from __future__ import annotations

from core.sizing import checks, kv_format, kv_layers
from core.sizing.compute import COUNTED, attention_terms, params_per_token, prefill_work
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.links import rate as rate_of
from core.sizing.piecewise import crossing
from core.sizing.result import Result, Step, symbols
from core.sizing.text import num, short
from core.sizing.transfer import sequence_bytes


def swap_recompute_crossover_tokens(
    model: ModelSpec,
    dtype: KVDtype,
    bandwidth: float | str,
    flops: float,
    links: int = 1,
    clamp_at_zero: bool = False,
) -> Result:
    """The length at which bringing KV back takes as long as computing it again.

    Recomputing wins below, swapping above. bandwidth: of one link, one way, or a link's name.
    flops: FLOP/s that prefill reaches on all GPUs together. None where one side always wins; notes
    say which. clamp_at_zero: then 0 instead of None if swapping wins at every length.
    """
    link = rate_of(bandwidth)
    flops = checks.positive(flops, "flops")
    links = checks.whole(links, "links", 1)
    params, notes = params_per_token(model)
    rows = kv_layers.of_model(model, kv_format.of(dtype))
    speed = link.bytes_per_s * links
    terms = attention_terms(model, "expanded")
    kept: dict[int | None, float] = {}
    for row in rows:
        kept[row.window] = kept.get(row.window, 0.0) - row.count * row.per_token / speed
    fixed = kv_layers.state(rows) / speed
    per_token = kv_layers.per_token(rows)
    swap, again = per_token / speed, 2 * params / flops
    value = crossing({w: a / flops for w, a in terms.items()}, kept, slope=again, constant=-fixed)
    shown = symbols(
        ("M_tok", "KV per token", per_token, "B"),
        ("r", "rate of one link, one way", link.bytes_per_s, "B/s"),
        ("n", "links", links),
        ("P", COUNTED["active"], params),
        ("C", "FLOP/s reached", flops, "FLOP/s"),
        ("a", "attention per pair of tokens, all layers", sum(terms.values()), "FLOP"),
    )
    steps: tuple[Step, ...] = (
        Step(
            "swap, per token = M_tok / (n · r)",
            f"{num(per_token)} / ({links} · {num(link.bytes_per_s)})",
            swap,
            "s",
        ),
        Step(
            "recompute, per token at first = 2 · P / C",
            f"2 · {num(params)} / {num(flops)}",
            again,
            "s",
        ),
    )
    plain = fixed == 0 and set(terms) == set(kept) == {None}
    if value is not None:
        why = "recompute below, swap above"
        last = Step("the length at which both take as long", "", value, "tokens")
        if plain:
            last = Step(
                "(M_tok / (n · r) − 2 · P / C) · 2 · C / a",
                f"({num(swap)} − {num(again)}) · 2 · {num(flops)} / {terms[None]}",
                value,
                "tokens",
            )
        steps += (last,)
    elif fixed == 0 and swap <= again:
        value = 0 if clamp_at_zero else None
        why = "no crossover: a token comes back sooner than it is computed, so swap at every length"
        if plain:
            root = (swap - again) * 2 * flops / terms[None]
            why += f" (the formula's root is {short(root)} tokens)"
    else:
        why = "no crossover: recomputing is the quicker at every length"
    return Result(
        value,
        "tokens",
        shown,
        steps,
        notes=(why, *notes, *link.notes),
        basis=link.basis,
        source=link.source,
    )


def swap_over_recompute(
    model: ModelSpec,
    tokens: int,
    dtype: KVDtype,
    bandwidth: float | str,
    flops: float,
    links: int = 1,
    latency_s: float = 0.0,
) -> Result:
    """The time to swap a sequence in over the time to compute it again; below 1 swap.

    Only the way back is counted: the way out runs beside other work. latency_s: before the first
    byte.
    """
    tokens = checks.whole(tokens, "tokens", 1)
    link = rate_of(bandwidth)
    flops = checks.positive(flops, "flops")
    links = checks.whole(links, "links", 1)
    latency = checks.number(latency_s, "latency_s")
    size = sequence_bytes(model, tokens, dtype)
    work = prefill_work(model, tokens)
    swap = latency + size / (link.bytes_per_s * links)
    again = work.total / flops
    value = swap / again
    return Result(
        value,
        "x",
        symbols(
            ("K", "KV of the sequence", size, "B"),
            ("r", "rate of one link, one way", link.bytes_per_s, "B/s"),
            ("n", "links", links),
            ("F", "FLOPs to compute it again", work.total, "FLOP"),
            ("C", "FLOP/s reached", flops, "FLOP/s"),
        ),
        (
            Step(
                "swap = t₀ + K / (n · r)",
                f"{num(latency)} + {num(size)} / ({links} · {num(link.bytes_per_s)})",
                swap,
                "s",
            ),
            Step("recompute = F / C", f"{num(work.total)} / {num(flops)}", again, "s"),
            Step("swap / recompute", f"{num(swap)} / {num(again)}", value, "x"),
        ),
        notes=("swap" if value < 1 else "recompute", *work.notes, *link.notes),
        basis=link.basis,
        source=link.source,
    )
