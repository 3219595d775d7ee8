"""Speculative decoding in numbers: how many tokens a pass of the large model yields, and when that
is faster.

A draft proposes k tokens, one pass of the target scores all of them, and they are kept from the
first on until one is refused. With each accepted at the same rate α, independently of the others,
the pass keeps i of them with probability α^i · (1 − α), and adds one token of its own in any case:
the correction of the one refused, or the token after the last (Leviathan, Kalman, Matias 2023,
section 3.1).
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols
from core.sizing.text import num

LONGEST_DRAFT = 64
SOURCE = "Leviathan, Kalman, Matias 2023, Fast Inference from Transformers via Speculative Decoding"
_ALIKE = "every proposed token is taken to be accepted at the same rate, whatever came before it"


def expected_tokens_per_verify(acceptance: float, k: int) -> Result:
    """Tokens that one verifying pass yields on average: 1 + α + … + α^k.

    acceptance: the share of proposed tokens that the target keeps, of those that it comes to. k:
    tokens proposed for a pass, 0 to 64; with 0 it is plain decoding, one token a pass.
    """
    acceptance, k = checks.share(acceptance, "acceptance"), checks.whole(k, "k", 0, LONGEST_DRAFT)
    step = _yield_step(acceptance, k)
    return Result(
        step.value,
        "tokens/pass",
        _draft_symbols(acceptance, k),
        (step,),
        notes=(_ALIKE,),
        basis=CONVENTION,
        source=SOURCE,
    )


def speculative_speedup(
    acceptance: float, k: int, draft_cost: float, verify_cost: float = 1.0
) -> Result:
    """Times as many tokens a second as plain decoding: E / (k · c + v).

    draft_cost: one step of the draft over one decode step of the target, 0 where proposing is free.
    verify_cost: the pass over k + 1 tokens over a decode step: 1 while memory sets its time, up to
    k + 1 where arithmetic does. Below 1 the whole value says that drafting slows the answer.
    """
    acceptance, k = checks.share(acceptance, "acceptance"), checks.whole(k, "k", 0, LONGEST_DRAFT)
    draft_cost = checks.number(draft_cost, "draft_cost")
    verify_cost = checks.positive(verify_cost, "verify_cost")
    kept = _yield_step(acceptance, k)
    time = k * draft_cost + verify_cost
    value = kept.value / time
    return Result(
        value,
        "x",
        (
            *_draft_symbols(acceptance, k),
            Symbol("c", "draft step over a decode step of the target", draft_cost),
            Symbol("v", "verifying pass over a decode step of the target", verify_cost),
        ),
        (
            Step(f"E = {kept.formula}", kept.substituted, kept.value, kept.unit),
            Step("T = k · c + v", f"{k} · {num(draft_cost)} + {num(verify_cost)}", time, "steps"),
            Step("E / T", f"{num(kept.value)} / {num(time)}", value, "x"),
        ),
        notes=(_ALIKE,),
        basis=CONVENTION,
        source=SOURCE,
    )


def _draft_symbols(acceptance: float, k: int) -> tuple[Symbol, ...]:
    return symbols(
        ("α", "acceptance", acceptance),
        ("k", "tokens proposed for a pass", k, "tokens"),
    )


def _yield_step(acceptance: float, k: int) -> Step:
    """The sum by Horner's rule, so that its text is short and gives the same digits."""
    value, shown = 1.0, "1"
    for _ in range(k):
        value = 1 + acceptance * value
        shown = f"1 + {num(acceptance)} · {shown if shown == '1' else f'({shown})'}"
    return Step("1 + α + … + α^k", shown, value, "tokens/pass")
