"""Several continuations of one prompt: what copy-on-write keeps once instead of n times.

n samples or beams over a prompt of p tokens, each s tokens further. Without sharing each holds
everything; with it they hold the prompt's full blocks together, and a copy each of the prompt's
last, partial block, because that is where each writes its own first token (PagedAttention,
Kwon et al. 2023, section 4.4). Pure counting: all values are exact.
"""

from __future__ import annotations

from core.sizing import checks
from core.sizing.result import Number, Result, Step, symbols
from core.sizing.text import num

MODES = ("naive", "shared")
SOURCE = "Kwon et al. 2023, Efficient Memory Management for LLM Serving with PagedAttention"


def slots(prefix: int, suffix: int, n: int, block_size: int, mode: str) -> int:
    """Token slots taken, whole blocks of block_size. The arithmetic of this file, unchecked."""
    bs = block_size
    if mode == "naive":
        return n * -(-(prefix + suffix) // bs) * bs
    if suffix == 0:  # nobody has written: the partial block is still shared
        return -(-prefix // bs) * bs
    full = prefix // bs * bs
    return full + n * -(-(prefix - full + suffix) // bs) * bs


def cow_bytes(
    prefix: int,
    suffix: int,
    n: int,
    bytes_per_token: Number,
    mode: str = "shared",
    block_size: int = 1,
) -> Result:
    """Bytes of KV that n continuations hold.

    prefix, suffix: tokens of the common prompt, and of each continuation. bytes_per_token: of the
    whole model or of one GPU, as the answer is wanted. block_size 1 counts tokens, a real block
    size counts slots. mode: "naive" (each its own copy) or "shared" (copy-on-write).
    """
    prefix, suffix, n, block_size = _counts(prefix, suffix, n, block_size)
    per_token = checks.amount(bytes_per_token, "bytes_per_token")
    checks.choice(mode, "mode", MODES)
    taken = slots(prefix, suffix, n, block_size, mode)
    value: Number = taken * per_token
    return Result(
        value,
        "B",
        symbols(
            ("p", "prompt, common", prefix, "tokens"),
            ("s", "own tokens of each", suffix, "tokens"),
            ("n", "continuations", n),
            ("bs", "block size", block_size, "tokens"),
            ("M_tok", "KV per token", per_token, "B"),
        ),
        (
            _slots_step(prefix, suffix, n, block_size, mode, taken),
            Step("slots · M_tok", f"{num(taken)} · {num(per_token)}", value, "B"),
        ),
        source=SOURCE,
    )


def cow_saving(prefix: int, suffix: int, n: int, block_size: int = 1) -> Result:
    """The share of the naive KV that copy-on-write saves, in slots of whole blocks."""
    prefix, suffix, n, block_size = _counts(prefix, suffix, n, block_size)
    naive = slots(prefix, suffix, n, block_size, "naive")
    shared = slots(prefix, suffix, n, block_size, "shared")
    if naive == 0:
        return Result(None, "fraction", notes=("there is nothing to store, so nothing to save",))
    saving = 1 - shared / naive
    return Result(
        saving,
        "fraction",
        symbols(
            ("p", "prompt, common", prefix, "tokens"),
            ("s", "own tokens of each", suffix, "tokens"),
            ("n", "continuations", n),
            ("bs", "block size", block_size, "tokens"),
        ),
        (
            _slots_step(prefix, suffix, n, block_size, "naive", naive),
            _slots_step(prefix, suffix, n, block_size, "shared", shared),
            Step("1 − shared / naive", f"1 − {num(shared)} / {num(naive)}", saving, "fraction"),
        ),
        source=SOURCE,
    )


def beam_saving(
    prompt: int, generated: int, beam_width: int, common: int = 0, block_size: int = 16
) -> Result:
    """The share that sharing saves in a beam search.

    Beams that descend from one winner share more than the prompt: common is how many generated
    tokens all of them still have in common. 0 is the worst case, beams that part at once.
    """
    prompt = checks.whole(prompt, "prompt")
    generated = checks.whole(generated, "generated")
    common = checks.whole(common, "common", 0, generated)
    width = checks.whole(beam_width, "beam_width", 1)
    found = cow_saving(prompt + common, generated - common, width, block_size)
    note = (
        f"{common:,} of {generated:,} generated tokens are common to all beams: prompt and "
        f"common part count as p = {prompt + common:,}"
    )
    return Result(
        found.value,
        "fraction",
        found.symbols,
        found.steps,
        notes=(*found.notes, note),
        source=SOURCE,
    )


def cow_copied_bytes(prefix: int, n: int, bytes_per_token: Number, block_size: int = 16) -> Result:
    """Bytes copied when n continuations start to write: the partial block, once for all but one.

    The last holder of a block writes in place, so n continuations need n − 1 copies; a prompt that
    ends on a block boundary needs none.
    """
    prefix, _, n, block_size = _counts(prefix, 0, n, block_size)
    per_token = checks.amount(bytes_per_token, "bytes_per_token")
    copies = n - 1 if prefix % block_size else 0
    value: Number = copies * block_size * per_token
    return Result(
        value,
        "B",
        symbols(
            ("p", "prompt, common", prefix, "tokens"),
            ("n", "continuations", n),
            ("bs", "block size", block_size, "tokens"),
            ("M_tok", "KV per token", per_token, "B"),
        ),
        (
            Step(
                "copies = n − 1 where p is no multiple of bs, else 0",
                f"{n} − 1" if copies else "0",
                copies,
                "blocks",
            ),
            Step("copies · bs · M_tok", f"{copies} · {block_size} · {num(per_token)}", value, "B"),
        ),
        notes=("whole blocks are copied, unwritten slots included",),
        source=SOURCE,
    )


def _counts(prefix: int, suffix: int, n: int, block_size: int) -> tuple[int, int, int, int]:
    return (
        checks.whole(prefix, "prefix"),
        checks.whole(suffix, "suffix"),
        checks.whole(n, "n", 1),
        checks.whole(block_size, "block_size", 1),
    )


def _slots_step(p: int, s: int, n: int, bs: int, mode: str, taken: int) -> Step:
    if mode == "naive":
        return Step(
            "naive = n · ⌈(p + s) / bs⌉ · bs", f"{n} · ⌈{p + s} / {bs}⌉ · {bs}", taken, "slots"
        )
    if s == 0:
        return Step("shared = ⌈p / bs⌉ · bs", f"⌈{p} / {bs}⌉ · {bs}", taken, "slots")
    full = p // bs * bs
    return Step(
        "shared = ⌊p / bs⌋ · bs + n · ⌈(p mod bs + s) / bs⌉ · bs",
        f"{full} + {n} · ⌈({p - full} + {s}) / {bs}⌉ · {bs}",
        taken,
        "slots",
    )
