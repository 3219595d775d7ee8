"""Blocks of the paged cache: their bytes, their number, and what the last one wastes.

A block holds block_size tokens of one sequence in every layer (PagedAttention, Kwon et al. 2023).
All blocks of a pool are alike, so nothing is lost between them: what is lost is the unfilled part
of each sequence's last block.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from core.sizing import checks, kv, kv_format, kv_layers, layout, units
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.kv_format import KVDtype
from core.sizing.kv_layers import LayerBytes
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols

MAX_BLOCK_SIZE = 1 << 20


def block_bytes(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    block_size: int = 16,
    scope: str = "model",
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
    stage: int | None = None,
) -> Result:
    """Bytes of one block: block_size tokens in all layers ("model"), in one ("layer"), or on one
    GPU ("gpu"; stage: of which pipeline stage, the one that keeps most if it is not said). What a
    sequence keeps in fixed states is in no block."""
    size = checks.whole(block_size, "block_size", 1, MAX_BLOCK_SIZE)
    token = kv.kv_bytes_per_token(model, dtype, scope, None, tp, pp, attention_dp, stages, stage)
    assert isinstance(token.value, int)
    value = size * token.value
    return Result(
        value,
        "B",
        (*token.symbols, *_letters(size, token.value)),
        (*token.steps, Step("bs · M_tok", f"{size} · {token.value}", value, "B")),
        scope=scope,
        notes=token.notes,
    )


def num_blocks(
    pool_bytes: float | tuple[float, ...],
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    block_size: int = 16,
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Result:
    """Whole blocks in the pool of one GPU. pool_bytes: of that GPU, not of all; or of a GPU of each
    pipeline stage. All stages have as many blocks, so the one with room for fewest decides."""
    size = checks.whole(block_size, "block_size", 1, MAX_BLOCK_SIZE)
    where, fmt = layout.of(tp, pp, 1, attention_dp, stages), kv_format.of(dtype)
    pools = layout.of_each_stage(pool_bytes, where, "pool_bytes")
    each = [size * kv_layers.per_token(rows) for rows in kv_layers.of_stages(model, fmt, where)]
    rooms = [(pools[stage] // one, stage) for stage, one in enumerate(each) if one]
    if not rooms:
        raise SizingError("model", "caches nothing per token: there are no blocks to count")
    value, stage = min(rooms)
    pool = pools[stage]
    scope = "model" if where is layout.ONE_GPU else "gpu"
    which = stage if where.pp > 1 else None
    block = block_bytes(model, dtype, size, scope, tp, pp, attention_dp, stages, which)
    assert isinstance(block.value, int)
    left = pool - value * block.value
    return Result(
        value,
        "blocks",
        (*block.symbols, *symbols(("pool", "KV pool of one GPU", pool, "B"))),
        (
            *block.steps,
            Step("⌊pool / block⌋", f"⌊{pool} / {block.value}⌋", value, "blocks"),
        ),
        scope="gpu",
        notes=(*block.notes, f"{left:,} B of the pool are less than a block"),
    )


def blocks_for_tokens(tokens: int, block_size: int = 16, model: ModelSpec | None = None) -> Result:
    """Blocks that a sequence of that many tokens takes in a layer that keeps all of them.

    model: whose windows count. The value is then that of the layers that take most blocks, and a
    note tells the others'.
    """
    length = checks.whole(tokens, "tokens")
    size = checks.whole(block_size, "block_size", 1, MAX_BLOCK_SIZE)
    all_of_it = -(-length // size)
    value, notes = all_of_it, [f"{all_of_it * size - length} slots of the last block are empty"]
    letters = [("S", "tokens", length, "tokens"), ("bs", "tokens per block", size, "tokens")]
    steps = [Step("⌈S / bs⌉", f"⌈{length} / {size}⌉", all_of_it, "blocks")]
    rows = [row for row in kv_layers.of_model(model, _ANY) if row.per_token] if model else []
    if model and not rows:
        return Result(0, "blocks", notes=("no layer caches anything per token",))
    if rows:
        most = max(rows, key=lambda row: row.blocks(length, size))
        value = most.blocks(length, size)
        notes = [*_fewer(rows, length, size, value), *notes]
        if most.window is not None:
            letters.append(("W", "window", most.window, "tokens"))
            formula = "min(⌈S / bs⌉, ⌈(W − 1) / bs⌉ + 1)"
            numbers = f"min({all_of_it}, ⌈({most.window} − 1) / {size}⌉ + 1)"
            steps.append(Step(formula, numbers, value, "blocks"))
    return Result(value, "blocks", symbols(*letters), tuple(steps), notes=tuple(notes))


_ANY = kv_format.of("bf16")
"""For counts of blocks, which do not depend on the format."""


def _fewer(rows: list[LayerBytes], length: int, size: int, most: int) -> tuple[str, ...]:
    """The layers that keep fewer blocks, by their window."""
    layers = sum(row.count for row in rows)
    fewer: dict[tuple[int, int], int] = {}
    for row in rows:
        kept = row.blocks(length, size)
        if row.window is not None and kept < most:
            fewer[kept, row.window] = fewer.get((kept, row.window), 0) + row.count
    return tuple(
        f"{kept:,} in {count} of {layers} layers: those with a window of {window:,}"
        for (kept, window), count in fewer.items()
    )


def expected_last_block_waste(
    model: ModelSpec,
    dtype: KVDtype = "bf16",
    block_size: int = 16,
    tokens: int | None = None,
    scope: str = "model",
    tp: int = 1,
) -> Result:
    """Bytes of the unfilled part of a sequence's last block, on average.

    If lengths are spread evenly over the residues of the block size, (bs − 1) / 2 tokens of it are
    empty, in layers with a window as in the others. tokens: a length, for the share that this is of
    the keys and values of such a sequence, windows counted.
    """
    size = checks.whole(block_size, "block_size", 1, MAX_BLOCK_SIZE)
    token = kv.kv_bytes_per_token(model, dtype, scope, None, tp)
    assert isinstance(token.value, int)
    empty = Fraction(size - 1, 2)
    value = units.plain(empty * token.value)
    steps = (
        *token.steps,
        Step("(bs − 1) / 2", f"({size} − 1) / 2", units.plain(empty), "tokens"),
        Step("(bs − 1) / 2 · M_tok", f"{units.plain(empty)} · {token.value}", value, "B"),
    )
    notes = ["lengths are taken as uniform modulo the block size"]
    if tokens is not None:
        notes.append(_share(model, dtype, empty, checks.whole(tokens, "tokens", 1), tp))
    return Result(
        value,
        "B",
        (*token.symbols, *_letters(size, token.value)),
        steps,
        scope=scope,
        basis=CONVENTION,
        notes=tuple(notes),
        source="Kwon et al. 2023, section 4.3",
    )


def _share(model: ModelSpec, dtype: KVDtype, empty: Fraction, length: int, tp: int) -> str:
    """How much of a sequence's keys and values the empty slots are worth."""
    rows = kv_layers.of_stages(model, kv_format.of(dtype), layout.of(tp))[0]
    kept = kv_layers.per_sequence(rows, length)
    if not kept:
        return "no layer caches anything per token: there is no block to fill"
    share = float(empty * kv_layers.per_token(rows) / kept)
    return f"{share:.3%} of the {kept:,} B that {length:,} tokens take"


def contiguous_waste_fraction(used: float, reserved: int) -> Result:
    """Share of a contiguous reservation that holds nothing. used: tokens, or their mean."""
    room = checks.whole(reserved, "reserved", 1)
    filled = units.exact(used, "used")
    if filled > room:
        raise SizingError("used", f"{used} tokens are more than the {room:,} that are reserved")
    value = float(1 - filled / room)
    return Result(
        value,
        "fraction",
        symbols(("used", "tokens used", used, "tokens"), ("reserved", "tokens", room, "tokens")),
        (Step("1 − used / reserved", f"1 − {used} / {room}", value, "fraction"),),
        notes=("what is lost between reservations (external fragmentation) is not in it",),
    )


def _letters(block_size: int, per_token: int) -> tuple[Symbol, ...]:
    return symbols(
        ("bs", "tokens per block", block_size, "tokens"),
        ("M_tok", "bytes per token", per_token, "B"),
    )
