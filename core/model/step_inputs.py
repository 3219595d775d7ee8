"""One step's work as flat tensors: what every layer of the model needs to know.

All tokens of a step, of all its sequences, are laid end to end in one row of T tokens, whatever
they are (a whole prompt, a chunk of one, a single new token). Two sequences, 3 and 1 tokens, blocks
of 4::

    sequence          A  A  A  B
    positions         4  5  6  9            A then has 7 tokens with K and V, B has 10
    block_table       A: [5, 2]  B: [0, 7, 3]
    slot_mapping      8  9 10 13            block · block_size + position mod block_size
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cached_property

import torch

from core.kv.block_table import slot_mapping
from core.model.kv_store import KVLayout
from core.runner import ScheduledSequence


@dataclass(frozen=True, slots=True)
class SequenceSpan:
    """One sequence's tokens of this step: rows start … end − 1 of the flat row of tokens.

    num_computed_tokens: how many tokens before them have K and V already. block_table: its blocks,
    empty if nothing is kept (`kv_cache` false).
    """

    start: int
    end: int
    num_computed_tokens: int
    block_table: list[int]

    @property
    def seq_len(self) -> int:
        """Tokens with K and V once this step's are written."""
        return self.num_computed_tokens + self.end - self.start


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """A sequence that computes several tokens, m of them, or its very first: rows start … end − 1.

    It reads L keys, the last of them its own m. block_index: where they lie (see `KVLayout`); None
    if nothing was computed before: they are at hand then, unless the cache rounds them. mask [m,
    L], in the model's dtype, added to the scores: 0 for a key that the query sees, −∞ for any
    other; None if each query sees all keys up to its own position.
    """

    start: int
    end: int
    num_keys: int
    block_index: torch.Tensor | None
    mask: torch.Tensor | None


@dataclass(frozen=True)
class DecodeBatch:
    """The sequences that compute one token each and read the cache: handled together.

    rows [B] int64: where their tokens stand among the T. block_table [B, max_blocks] int64: the
    blocks that each reads, padded with block 0. begins, ends [B] int64: the keys in view, counted
    from the table's first. num_keys: L, of whole blocks, max_blocks of them.

    What follows is for a read in one piece: whole blocks, because a product with a cut-out part of
    a matrix costs far more than one with the few keys too many. Made when first asked for.
    """

    rows: torch.Tensor
    block_table: torch.Tensor
    begins: torch.Tensor
    ends: torch.Tensor
    num_keys: int
    all_in_view: bool
    layout: KVLayout
    dtype: torch.dtype

    @cached_property
    def block_index(self) -> torch.Tensor:
        """The block table as addresses (see `KVLayout`)."""
        return self.layout.block_index(self.block_table)

    @cached_property
    def mask(self) -> torch.Tensor | None:
        """[B, 1, 1, L] in the model's dtype, added to the scores: 0 where there is a key in view,
        −∞ elsewhere; None if all are."""
        if self.all_in_view:
            return None
        keys = torch.arange(self.num_keys, device=self.ends.device)[None, :]
        hidden = (keys >= self.ends[:, None]) | (keys < self.begins[:, None])
        return _additive(hidden, self.dtype)[:, None, None, :]


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """What the layers of one window read.

    decodes: sequences of one token, together. prefills: all others, one by one.
    """

    decodes: DecodeBatch | None
    prefills: list[PrefillChunk]


@dataclass(frozen=True)
class StepInputs:
    """A step's tensors. T tokens, all int64 on the model's device.

    Slots are int64 because slot · stride passes 2³¹ on a large pool.

    token_ids, positions: [T].
    slot_mapping: [T], where to write K and V of each token; −1: nowhere. all_written: no −1 there.
    logits_rows: [L], the last token of each sequence that samples.
    starts: of each sequence the row of its first token.
    attention: window of a layer → what it reads; None is the window of a layer that sees all.
    layout: of the pool that the slots are in.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    all_written: bool
    logits_rows: torch.Tensor
    starts: list[int]
    attention: dict[int | None, AttentionInputs]
    layout: KVLayout

    @cached_property
    def write_rows(self) -> torch.Tensor | None:
        """[W], the tokens that are written; None if all T are (W = T)."""
        return None if self.all_written else torch.nonzero(self.slot_mapping >= 0)[:, 0]

    @cached_property
    def slot_index(self) -> torch.Tensor:
        """The slots of the W tokens as addresses (see `KVLayout`)."""
        rows = self.write_rows
        slots = self.slot_mapping if rows is None else self.slot_mapping[rows]
        return self.layout.slot_index(slots)


def build_step_inputs(
    scheduled: Seq[ScheduledSequence],
    layout: KVLayout,
    dtype: torch.dtype,
    device: torch.device,
    windows: Iterable[int | None] = (None,),
    reads_back: bool = False,
) -> StepInputs:
    """Lay the scheduled tokens of a step end to end.

    layout: of the KV pool. windows: those that the model's layers have. reads_back: read a prompt's
    own keys from the blocks too (`KVStore.reads_back`). IndexError if a block table is too short,
    or if a token is to be written where the block was given back.
    """
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    spans: list[SequenceSpan] = []
    logits_rows: list[int] = []
    for item in scheduled:
        seq, first, end = item.seq, item.start, item.stop
        token_ids.extend(known_tokens(item))
        positions.extend(range(first, end))
        own = slot_mapping(seq.block_table, first, end, layout.block_size)
        if seq.block_table and min(own) < 0:
            raise IndexError(f"sequence {seq.id}: a token's block was given back before its write")
        slots.extend(own)
        start = len(token_ids) - item.num_scheduled_tokens
        spans.append(SequenceSpan(start, len(token_ids), first, seq.block_table))
        if item.num_samples or item.num_candidates:
            logits_rows.append(len(token_ids) - 1)
    # One token that reads what earlier steps wrote is a decode; a first token reads only itself.
    decoding = [s for s in spans if s.end - s.start == 1 and s.num_computed_tokens > 0]
    others = [s for s in spans if s.end - s.start > 1 or s.num_computed_tokens == 0]

    def tensor(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return StepInputs(
        token_ids=tensor(token_ids),
        positions=tensor(positions),
        slot_mapping=tensor(slots),
        all_written=min(slots) >= 0,
        logits_rows=tensor(logits_rows),
        starts=[span.start for span in spans],
        attention={
            window: AttentionInputs(
                _decode_batch(decoding, window, layout, dtype, device) if decoding else None,
                [_prefill_chunk(s, window, layout, dtype, device, reads_back) for s in others],
            )
            for window in set(windows)
        },
        layout=layout,
    )


def known_tokens(item: ScheduledSequence) -> list[int]:
    """The tokens that a sequence computes; 0 for the last if the step before is still to sample it:
    it is put in on the device then."""
    known = item.seq.tokens[item.start : item.stop].tolist()
    return known + [0] * (item.num_scheduled_tokens - len(known))


def late_rows(
    scheduled: Seq[ScheduledSequence], starts: Seq[int], sampled: Mapping[str, int]
) -> tuple[list[int], list[int]]:
    """Which rows hold tokens that are not known yet, and where the step before samples them.

    starts: of each sequence the row of its first token. sampled: sequence id → place among the
    tokens of the step before. KeyError if that step does not sample for a sequence.
    """
    rows, places = [], []
    for item, start in zip(scheduled, starts, strict=True):
        if len(item.seq.tokens) < item.stop:
            rows.append(start + item.num_scheduled_tokens - 1)
            places.append(sampled[item.seq.id])
    return rows, places


def first_key_in_view(position: int, window: int | None) -> int:
    """The first position that a query sees: W keys, its own the last."""
    return 0 if window is None else max(0, position + 1 - window)


def _in_view(span: SequenceSpan, first_block: int, seq_len: int, block_size: int) -> list[int]:
    """The blocks that hold positions first_block · block_size … seq_len − 1. IndexError if one was
    given back: an index of −1 would read another sequence's block without a word."""
    blocks = span.block_table[first_block : -(-seq_len // block_size)]
    if blocks and min(blocks) < 0:
        raise IndexError(f"rows {span.start} to {span.end}: a block in view was given back")
    return blocks


def _prefill_chunk(
    span: SequenceSpan,
    window: int | None,
    layout: KVLayout,
    dtype: torch.dtype,
    device: torch.device,
    reads_back: bool,
) -> PrefillChunk:
    """Query i of the chunk stands at num_computed_tokens + i, and sees the keys up to there."""
    start, end, first = span.start, span.end, span.num_computed_tokens
    block_size = layout.block_size
    # From the first block that the chunk's first query sees: those before may be given back (−1).
    first_block = first_key_in_view(first, window) // block_size
    first_key = first_block * block_size
    block_index = None
    if first > 0 or reads_back:
        blocks = _in_view(span, first_block, span.seq_len, block_size)
        table = torch.tensor([blocks], dtype=torch.int64, device=device)
        block_index = layout.block_index(table)
    mask = None
    if window is not None and span.seq_len - first_key > window:
        keys = torch.arange(first_key, span.seq_len, device=device)[None, :]
        queries = torch.arange(first, span.seq_len, device=device)[:, None]
        mask = _additive((keys > queries) | (keys <= queries - window), dtype)
    return PrefillChunk(start, end, span.seq_len - first_key, block_index, mask)


def _decode_batch(
    spans: list[SequenceSpan],
    window: int | None,
    layout: KVLayout,
    dtype: torch.dtype,
    device: torch.device,
) -> DecodeBatch:
    """Cut the block tables to what is in view, pad them to the longest, and mask the rest."""
    block_size = layout.block_size
    views = [first_key_in_view(s.seq_len - 1, window) for s in spans]
    first_blocks = [view // block_size for view in views]
    # Counted from the first block that is read: the keys in view are begin … end − 1.
    begins = [view % block_size for view in views]
    ends = [s.seq_len - block * block_size for s, block in zip(spans, first_blocks, strict=True)]
    width = -(-max(ends) // block_size)
    num_keys = width * block_size
    # A table may be longer than the context (a block taken ahead): cut it to what is read.
    table = [
        _in_view(s, block, s.seq_len, block_size)
        for s, block in zip(spans, first_blocks, strict=True)
    ]
    padded = [blocks + [0] * (width - len(blocks)) for blocks in table]
    return DecodeBatch(
        rows=torch.tensor([s.start for s in spans], dtype=torch.int64, device=device),
        block_table=torch.tensor(padded, dtype=torch.int64, device=device),
        begins=torch.tensor(begins, dtype=torch.int64, device=device),
        ends=torch.tensor(ends, dtype=torch.int64, device=device),
        num_keys=num_keys,
        all_in_view=min(ends) == num_keys and not any(begins),
        layout=layout,
        dtype=dtype,
    )


def _additive(hidden: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """0 where a key may be seen, −∞ where it is hidden. Made once per step, for all layers."""
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
    return mask.masked_fill_(hidden, float("-inf"))
