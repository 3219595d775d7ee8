"""One step's work for kernels that read everything through block tables, in one copy to the device.

Sequences that compute one token come first, then those that compute several, whatever their order
in the batch: each kind is one kernel call. All numbers of a step lie in one buffer, in pinned
memory on a GPU's host, so that one copy brings them over and nothing waits for it::

    int64  token_ids [T]  positions [T]  slot_mapping [T]  logits_rows [L]
    int32  of the D decodes:  block_table [D, W]  seq_lens [D]
           of the C chunks:   block_table [C, W]  seq_lens [C]  query_start_loc [C + 1]

Every part begins at a multiple of 16 bytes, and W is a multiple of 16: Triton compiles a kernel
anew for pointers and strides that are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import NamedTuple

import torch

from core.kv.block_table import slot_mapping
from core.model.kv_store import KVLayout
from core.model.step_inputs import PrefillChunk, build_step_inputs, first_key_in_view, known_tokens
from core.runner import ScheduledSequence

_WIDTH = 16
"""Blocks that a table's width is a multiple of."""

_LEAST_KEYS, _SPLITS = 256, 64


class PagedBatch(NamedTuple):
    """block_table [n, W] int32, seq_lens [n] int32: keys of each sequence, this step's included."""

    block_table: torch.Tensor
    seq_lens: torch.Tensor


@dataclass(frozen=True, slots=True)
class PagedInputs:
    """A step's tensors, on the model's device. T tokens: those of the decodes, then the chunks'.

    token_ids, positions, slot_mapping (−1: written nowhere): [T] int64.
    logits_rows: [L] int64, the last token of each sequence that samples, in the batch's order.
    starts: of each sequence of the batch the row of its first token.
    decodes: one token each, the first rows. keys_per_split: of `kernels.paged_decode`.
    chunks: the rows after them; query_start_loc [C + 1] int32, counted from there; max_query_len.
    at_hand: window → sequences whose keys and values are kept nowhere (`kv_cache` false); then
    there are neither decodes nor chunks.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slot_mapping: torch.Tensor
    logits_rows: torch.Tensor
    starts: list[int]
    decodes: PagedBatch | None
    keys_per_split: int
    chunks: PagedBatch | None = None
    query_start_loc: torch.Tensor | None = None
    max_query_len: int = 0
    at_hand: dict[int | None, list[PrefillChunk]] | None = None


class StepShape(NamedTuple):
    """T, L, D, C and W of a step: what its buffer looks like."""

    tokens: int
    logits: int
    decodes: int
    chunks: int
    width: int

    @property
    def size(self) -> int:
        """int64 numbers of the buffer."""
        wide, narrow = self._parts()
        return sum(map(_even, wide)) + sum(map(_fourfold, narrow)) // 2

    def parts(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        """The buffer's parts, in the order of the module's drawing."""
        wide, narrow = self._parts()
        out, at = [], 0
        for count in wide:
            out.append(buffer[at : at + count])
            at += _even(count)
        rest, at = buffer[at:].view(torch.int32), 0
        for count in narrow:
            out.append(rest[at : at + count])
            at += _fourfold(count)
        out[4] = out[4].view(self.decodes, self.width)
        out[6] = out[6].view(self.chunks, self.width)
        return out

    def _parts(self) -> tuple[list[int], list[int]]:
        t, logits, d, c, w = self
        return [t, t, t, logits], [d * w, d, c * w, c, c + 1]


@dataclass(frozen=True, slots=True)
class PagedStep:
    """A step, sorted: what is needed to choose how to compute it, and to fill its buffer.

    order: places in the batch, by row. starts: as `PagedInputs`. num_decodes: so many come first.
    longest_table: blocks of the longest context. kept: whether there are block tables.
    """

    scheduled: Seq[ScheduledSequence]
    order: list[int]
    starts: list[int]
    num_decodes: int
    num_tokens: int
    longest_table: int
    block_size: int
    kept: bool

    @classmethod
    def of(cls, scheduled: Seq[ScheduledSequence], block_size: int) -> PagedStep:
        counts = [item.num_scheduled_tokens for item in scheduled]
        kept = all(item.seq.block_table for item in scheduled)
        decodes = [i for i, count in enumerate(counts) if count == 1 and kept]
        order = decodes + [i for i, count in enumerate(counts) if count > 1 or not kept]
        starts, row = [0] * len(counts), 0
        for i in order:
            starts[i] = row
            row += counts[i]
        longest = max(item.stop for item in scheduled)
        return cls(
            scheduled, order, starts, len(decodes), row, -(-longest // block_size), block_size, kept
        )

    @property
    def logits_rows(self) -> list[int]:
        return [
            start + item.num_scheduled_tokens - 1
            for item, start in zip(self.scheduled, self.starts, strict=True)
            if item.num_samples or item.num_candidates
        ]

    def shape(self) -> StepShape:
        """Of a buffer that just holds the step."""
        num_chunks = len(self.order) - self.num_decodes if self.kept else 0
        width = padded_width(self.longest_table) if self.kept else 0
        return StepShape(
            self.num_tokens, len(self.logits_rows), self.num_decodes, num_chunks, width
        )

    def stage(self, shape: StepShape, windows: Iterable[int | None], pinned: bool) -> torch.Tensor:
        """The filled buffer, [shape.size] int64 in main memory.

        shape: the step's own, or a larger one: what is too much are rows of slot −1 and sequences
        of length 0. windows: those of the model's layers. IndexError if a block table is too short,
        or names a block that was given back where it is read or written.
        """
        buffer = torch.empty(shape.size, dtype=torch.int64, pin_memory=pinned)
        buffer.numpy().fill(0)  # torch would wake its threads for it
        parts = [part.numpy() for part in shape.parts(buffer)]
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        lengths: list[int] = []
        bounds = [0]
        for i in self.order:
            item = self.scheduled[i]
            seq, first, end = item.seq, item.start, item.stop
            token_ids.extend(known_tokens(item))
            positions.extend(range(first, end))
            own = slot_mapping(seq.block_table, first, end, self.block_size)
            if seq.block_table and min(own) < 0:
                raise IndexError(f"sequence {seq.id}: a token's block was given back before its "
                                 "write")  # fmt: skip
            slots.extend(own)
            lengths.append(end)
        parts[0][: len(token_ids)] = token_ids
        parts[1][: len(positions)] = positions
        parts[2][: len(slots)], parts[2][len(slots) :] = slots, -1
        rows = self.logits_rows
        parts[3][: len(rows)] = rows
        if not self.kept:
            return buffer
        everything = list(windows)
        for place, i in enumerate(self.order):
            # A table may be longer than the context (a block taken ahead): cut to what is read.
            blocks = self._read_blocks(self.scheduled[i], everything)
            d = self.num_decodes
            table, row = (parts[4], place) if place < d else (parts[6], place - d)
            table[row, : len(blocks)] = blocks
            if place >= d:
                bounds.append(bounds[-1] + self.scheduled[i].num_scheduled_tokens)
        parts[5][: self.num_decodes] = lengths[: self.num_decodes]
        parts[7][: len(bounds) - 1] = lengths[self.num_decodes :]
        parts[8][:] = bounds
        return buffer

    def _read_blocks(self, item: ScheduledSequence, windows: list[int | None]) -> list[int]:
        """A sequence's table, up to its last token. Those in view of the widest window are there;
        the kernels do not look at the others."""
        blocks = item.seq.block_table[: -(-item.stop // self.block_size)]
        widest = None if None in windows else max(w for w in windows if w is not None)
        if min(blocks[first_key_in_view(item.start, widest) // self.block_size :]) < 0:
            raise IndexError(f"sequence {item.seq.id}: a block in view was given back")
        return blocks


def inputs_in(
    buffer: torch.Tensor, shape: StepShape, keys_per_split: int, step: PagedStep | None = None
) -> PagedInputs:
    """The tensors in a buffer of that shape, which lies on the model's device.

    step: what the buffer holds; None for one that is to be filled with decodes later.
    """
    tokens, positions, slots, rows, table, lens, chunk_table, chunk_lens, bounds = shape.parts(
        buffer
    )
    longest = 1 if step is None else max(item.num_scheduled_tokens for item in step.scheduled)
    return PagedInputs(
        token_ids=tokens,
        positions=positions,
        slot_mapping=slots,
        logits_rows=rows if step is None else rows[: len(step.logits_rows)],
        starts=[] if step is None else step.starts,
        decodes=PagedBatch(table, lens) if shape.decodes else None,
        keys_per_split=keys_per_split,
        chunks=PagedBatch(chunk_table, chunk_lens) if shape.chunks else None,
        query_start_loc=bounds,
        max_query_len=longest,
    )


def eager_inputs(
    step: PagedStep, windows: Iterable[int | None], device: torch.device, keys_per_split: int
) -> PagedInputs:
    """A step's tensors in a buffer of their own, on its way to the device."""
    shape = step.shape()
    staged = step.stage(shape, windows, device.type == "cuda")
    return inputs_in(staged.to(device, non_blocking=True), shape, keys_per_split, step)


def inputs_at_hand(
    step: PagedStep,
    layout: KVLayout,
    dtype: torch.dtype,
    device: torch.device,
    windows: Iterable[int | None],
) -> PagedInputs:
    """Of a step that keeps nothing: every sequence is whole, and reads what it has just made."""
    plain = build_step_inputs(step.scheduled, layout, dtype, device, windows)
    return PagedInputs(
        plain.token_ids,
        plain.positions,
        plain.slot_mapping,
        plain.logits_rows,
        plain.starts,
        decodes=None,
        keys_per_split=_LEAST_KEYS,
        at_hand={window: view.prefills for window, view in plain.attention.items()},
    )


def padded_width(num_blocks: int) -> int:
    """Columns of a table that holds so many blocks."""
    return -(-num_blocks // _WIDTH) * _WIDTH


def keys_per_split(max_model_len: int) -> int:
    """Into which pieces decode attention cuts its keys: a power of two, so long that the longest
    context has about 64. It does not follow from the batch: a sequence's numbers then do not
    depend, to the bit, on which others run beside it."""
    return max(_LEAST_KEYS, 1 << (-(-max_model_len // _SPLITS) - 1).bit_length())


def _even(count: int) -> int:
    return count + count % 2


def _fourfold(count: int) -> int:
    return -(-count // 4) * 4
