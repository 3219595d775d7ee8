"""Prefix caching in numbers: what it saves, when it pays, how large it must be.

A request is a shared prefix of S tokens and U tokens of its own; a share h of the requests find
their prefix cached. Only identical tokens from position 0 count, in whole blocks, and at least one
token is always computed, since the last position's logits are needed.
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.compute import Work, prefill_work
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.result import CONVENTION, Number, Result, Step, Symbol, symbols
from core.sizing.text import num, short


def reusable_tokens(S: int, U: int, block_size: int = 1) -> int:
    """How many of a prompt's S shared tokens a hit can skip: whole blocks, never the last token."""
    return min(S, S + U - 1) // block_size * block_size


def prefill_reduction(S: int, U: int, h: float, block_size: int = 1) -> Result:
    """The share of prompt tokens that need no prefill: h · S / (S + U).

    It is prefill that is saved, and duplicate KV; a decode step costs what it did.
    """
    S, U, h, reused = _prompt(S, U, h, block_size)
    value = h * reused / (S + U)
    return Result(
        value,
        "fraction",
        _prompt_symbols(S, U, h, block_size),
        (
            _reuse_step(S, U, block_size, reused),
            Step("h · S' / (S + U)", f"{num(h)} · {reused} / ({S} + {U})", value, "fraction"),
        ),
        notes=("tokens, not FLOPs: prefill_flop_reduction counts attention's quadratic part too",),
    )


def prefill_token_ratio(S: int, U: int, h: float, block_size: int = 1) -> Result:
    """Prompt tokens over prefilled tokens: the mean gain for h < 1, a hit's own gain for h = 1."""
    S, U, h, reused = _prompt(S, U, h, block_size)
    computed = S + U - h * reused
    value = (S + U) / computed
    return Result(
        value,
        "x",
        _prompt_symbols(S, U, h, block_size),
        (
            _reuse_step(S, U, block_size, reused),
            Step("N' = S + U − h · S'", f"{S} + {U} − {num(h)} · {reused}", computed, "tokens"),
            Step("(S + U) / N'", f"{S + U} / {num(computed)}", value, "x"),
        ),
        notes=("the mean over hits and misses: a hit gains more, a miss nothing",)
        if 0 < h < 1
        else (),
    )


def prefill_flop_reduction(
    model: ModelSpec, S: int, U: int, h: float, block_size: int = 1
) -> Result:
    """The share of prefill FLOPs that hits save. Below the share of tokens: the U tokens that
    remain still attend to all S."""
    S, U, h, reused = _prompt(S, U, h, block_size)
    whole, rest = prefill_work(model, S + U), prefill_work(model, S + U - reused, reused)
    value = h * (whole.total - rest.total) / whole.total
    return Result(
        value,
        "fraction",
        _prompt_symbols(S, U, h, block_size),
        (
            _reuse_step(S, U, block_size, reused),
            *_work_steps(whole, rest),
            Step(
                "h · (F − F') / F",
                f"{num(h)} · ({whole.total} − {rest.total}) / {whole.total}",
                value,
                "fraction",
            ),
        ),
        notes=whole.notes,
    )


def prefix_cache_bytes(
    prompts: int, tokens: int, bytes_per_token: Number, block_size: int = 1, headroom: float = 1.0
) -> Result:
    """Bytes that keep `prompts` distinct prefixes of `tokens` each resident, the working set.

    headroom: a factor on top, as requests in flight need blocks as well (2 doubles it).
    """
    prompts = checks.whole(prompts, "prompts")
    tokens = checks.whole(tokens, "tokens")
    per_token = checks.amount(bytes_per_token, "bytes_per_token")
    block_size = checks.whole(block_size, "block_size", 1)
    factor = checks.amount(headroom, "headroom", 1.0)
    each = tokens // block_size * block_size
    value = prompts * each * per_token * factor
    notes = ("a prefix's last, partial block is never shared and not counted",)
    return Result(
        value,
        "B",
        symbols(
            ("n", "distinct prefixes", prompts),
            ("S", "tokens of each", tokens, "tokens"),
            ("bs", "block size", block_size, "tokens"),
            ("M_tok", "KV per token", per_token, "B"),
            ("f", "headroom", factor, "x"),
        ),
        (
            Step("S' = ⌊S / bs⌋ · bs", f"⌊{tokens} / {block_size}⌋ · {block_size}", each, "tokens"),
            Step(
                "n · S' · M_tok · f",
                f"{num(prompts)} · {num(each)} · {num(per_token)} · {num(factor)}",
                value,
                "B",
            ),
        ),
        notes=notes if each != tokens else (),
        basis=CONVENTION if factor != 1 else "arithmetic",
    )


def prefix_cache_capacity(
    pool_bytes: Number, tokens: int, bytes_per_token: Number, block_size: int = 1
) -> Result:
    """How many distinct prefixes of `tokens` each a pool of pool_bytes holds."""
    pool = checks.amount(pool_bytes, "pool_bytes")
    tokens = checks.whole(tokens, "tokens", 1)
    per_token = checks.amount(bytes_per_token, "bytes_per_token", above=True)
    block_size = checks.whole(block_size, "block_size", 1)
    each = tokens // block_size * block_size * per_token
    if each == 0:
        return Result(None, "prefixes", notes=("a prefix shorter than one block is never cached",))
    value = int(pool // each)
    return Result(
        value,
        "prefixes",
        symbols(
            ("C", "pool", pool, "B"),
            ("S", "tokens of each prefix", tokens, "tokens"),
            ("bs", "block size", block_size, "tokens"),
            ("M_tok", "KV per token", per_token, "B"),
        ),
        (
            Step(
                "⌊S / bs⌋ · bs · M_tok",
                f"{tokens // block_size * block_size} · {num(per_token)}",
                each,
                "B",
            ),
            Step("⌊C / each⌋", f"⌊{num(pool)} / {num(each)}⌋", value, "prefixes"),
        ),
    )


def break_even_hit_rate(
    model: ModelSpec, S: int, U: int, flops: float, overhead_s: float, block_size: int = 1
) -> Result:
    """The hit rate above which the cache saves more time than it costs.

    overhead_s: seconds that hashing and looking up cost each request, hit or miss. flops: FLOP/s
    that prefill reaches on all GPUs together (peak · MFU · GPUs). There is no such rate if even a
    hit on every request would not repay the overhead.
    """
    S, U, _, reused = _prompt(S, U, 0.0, block_size)
    rate = checks.positive(flops, "flops")
    overhead = checks.number(overhead_s, "overhead_s")
    whole, rest = prefill_work(model, S + U), prefill_work(model, S + U - reused, reused)
    saved = (whole.total - rest.total) / rate
    shown = symbols(
        ("S", "shared prefix", S, "tokens"),
        ("U", "own tokens", U, "tokens"),
        ("bs", "block size", block_size, "tokens"),
        ("C", "FLOP/s reached", rate, "FLOP/s"),
        ("t_o", "overhead per request", overhead, "s"),
    )
    steps = (
        _reuse_step(S, U, block_size, reused),
        *_work_steps(whole, rest),
        Step("t_hit = (F − F') / C", f"({whole.total} − {rest.total}) / {num(rate)}", saved, "s"),
    )
    if overhead > saved or saved == 0:
        why = f"a hit saves {short(saved)} s and the overhead is {short(overhead)} s: it never pays"
        return Result(None, "fraction", shown, steps, notes=(why,))
    value = overhead / saved
    return Result(
        value,
        "fraction",
        shown,
        (*steps, Step("h* = t_o / t_hit", f"{num(overhead)} / {num(saved)}", value, "fraction")),
        notes=("blocks that nobody else needs cost nothing to keep: idle ones are evicted first",),
    )


def _prompt(S: int, U: int, h: float, block_size: int) -> tuple[int, int, float, int]:
    S, U = checks.whole(S, "S"), checks.whole(U, "U")
    h = checks.share(h, "h")
    block_size = checks.whole(block_size, "block_size", 1)
    if S + U == 0:
        raise SizingError("U", "S + U must be at least 1: an empty prompt has no prefill")
    return S, U, h, reusable_tokens(S, U, block_size)


def _prompt_symbols(S: int, U: int, h: float, block_size: int) -> tuple[Symbol, ...]:
    return symbols(
        ("S", "shared prefix", S, "tokens"),
        ("U", "own tokens", U, "tokens"),
        ("h", "hit rate", h, "fraction"),
        ("bs", "block size", block_size, "tokens"),
    )


def _work_steps(whole: Work, rest: Work) -> tuple[Step, ...]:
    """F: the prompt's FLOPs with nothing cached. F': those left behind a hit."""
    return (
        Step(
            "F = linear + attention of S + U tokens",
            f"{whole.linear} + {whole.pairs}",
            whole.total,
            "FLOP",
        ),
        Step(
            "F' = linear + attention behind the hit",
            f"{rest.linear} + {rest.pairs}",
            rest.total,
            "FLOP",
        ),
    )


def _reuse_step(S: int, U: int, block_size: int, reused: int) -> Step:
    return Step(
        "S' = ⌊min(S, S + U − 1) / bs⌋ · bs",
        f"⌊min({S}, {S + U - 1}) / {block_size}⌋ · {block_size}",
        reused,
        "tokens",
    )
