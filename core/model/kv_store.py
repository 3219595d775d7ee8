"""Where keys and values lie: a pool of blocks per layer, written by slot, read by block table.

A block holds `block_size` consecutive tokens of one sequence. Which blocks, and in which order, is
the block table's matter: neighbours in a sequence need not be neighbours in memory (PagedAttention,
Kwon et al. 2023). The store knows nothing of sequences; a slot is an address.

Inside a block the tokens of one head lie together ("HND" order: heads, tokens, numbers), K apart
from V. So one gather gives every head's context as one matrix, which attention multiplies as it is.
What is gathered are *rows*: [block, head] of K or V is one row of block_size · head_dim numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from core.errors import ScenarioError
from core.kv_spec import MODEL, KVSpec
from core.model.config import ModelConfig
from core.model.errors import MemoryBudgetError
from core.model.kv_error import KVError
from core.model.kv_scales import STORED, LayerScales
from core.model.memory import MARGIN, available_memory_bytes
from kernels.kv_blocks import KVBlocks, decode

_PLAIN = KVSpec()


@dataclass(frozen=True, slots=True)
class KVLayout:
    """From slots and block tables to addresses in a layer's pool: worked out once per step."""

    num_blocks: int
    block_size: int
    n_kv_heads: int

    def slot_index(self, slots: torch.Tensor) -> torch.Tensor:
        """slots [W] int64 → [W · 2 · n_kv_heads] int64: for each token its K heads, then its V
        heads, as indices of head_dim numbers."""
        block, offset = slots // self.block_size, slots % self.block_size
        index = self._rows(block) * self.block_size + offset[:, None, None]  # [W, 2, n_kv]
        return index.flatten()

    def block_index(self, block_table: torch.Tensor) -> torch.Tensor:
        """block_table [B, n] int64 → [2 · B · n_kv_heads · n] int64: indices of rows, K before V,
        each head's n blocks in the table's order."""
        return self._rows(block_table).permute(2, 0, 3, 1).flatten()

    def _rows(self, block: torch.Tensor) -> torch.Tensor:
        """block [...] → [..., 2, n_kv_heads]: the rows of its heads, K's and V's."""
        side = torch.arange(2, device=block.device)[:, None] * self.num_blocks
        head = torch.arange(self.n_kv_heads, device=block.device)
        return (block[..., None, None] + side) * self.n_kv_heads + head


class KVStore:
    """The KV pool of all layers.

    blocks: one tensor per layer, [2, num_blocks, n_kv_heads, block_size, head_dim]; index 0 is K,
    1 is V. Slot s is token s mod block_size of block s // block_size. A quantised layer's hold
    codes, int8 or float8_e4m3fn, or uint8 [..., head_dim / 2] for int4: see `core.model.kv_scales`
    for their scales, and `kernels.kv_blocks` for what codes mean.

    spec: what is stored, the dtype by default. amax: [layers, 2, n_kv_heads] float32, the largest
    magnitudes of K and V in a calibration; needed for scales that are calibrated by a text.
    measure_error: compare what was stored with what was to be (see `take_error`).

    Raises MemoryBudgetError if the pool does not fit the memory that is available, ScenarioError
    for a spec that names layers which the model has not.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        spec: KVSpec = _PLAIN,
        amax: torch.Tensor | None = None,
        measure_error: bool = False,
    ) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"a pool needs blocks: num_blocks {num_blocks}, size {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.dtype = dtype
        self.spec = spec
        self.forms = spec.of_layers(config.num_hidden_layers)
        self.n_kv_heads, self.head_dim = config.num_key_value_heads, config.head_dim
        if "int4" in self.forms and self.head_dim % 2:
            raise ScenarioError(
                "engine.kv_dtype", f"int4 packs two numbers in a byte: head_dim {self.head_dim} "
                "is odd"
            )  # fmt: skip
        self.layout = KVLayout(num_blocks, block_size, self.n_kv_heads)
        _check_fits(self._planned_bytes(), num_blocks, block_size, device)
        # Zeros, not uninitialised memory: padded reads meet slots that were never written, and a
        # masked probability of 0 times a stray NaN would be NaN.
        shape = (2, num_blocks, self.n_kv_heads, block_size, self.head_dim)
        self.scales = [
            None
            if form == MODEL
            else LayerScales(spec, form, shape[:-1], device, None if amax is None else amax[layer])
            for layer, form in enumerate(self.forms)
        ]
        try:
            self.blocks = [
                torch.zeros(
                    (*shape[:-1], shape[-1] // 2) if form == "int4" else shape,
                    dtype=STORED.get(form, dtype),
                    device=device,
                )
                for form in self.forms
            ]
        except torch.OutOfMemoryError as error:  # a GPU's free memory lies in pieces
            raise MemoryBudgetError(
                f"a pool of {num_blocks:,} blocks of {block_size} tokens does not fit the memory "
                f"of {device.type}: choose fewer blocks"
            ) from error
        # The same memory, seen as the vectors that are written and as the rows that are read. torch
        # cannot index fp8; its bytes are bytes.
        movable = [_movable(layer) for layer in self.blocks]
        self._vectors = [layer.view(-1, layer.shape[-1]) for layer in movable]
        self._rows = [layer.view(-1, block_size * layer.shape[-1]) for layer in movable]
        self._gathered: dict[tuple[torch.dtype, int], torch.Tensor] = {}
        self._error = KVError(shape) if measure_error else None
        self._views = [
            KVBlocks(*layer, *(() if scales is None else scales.by_slot()))
            for layer, scales in zip(self.blocks, self.scales, strict=True)
        ]

    @property
    def num_bytes(self) -> int:
        """Bytes of the pool, all layers, K and V, and all scales; without what a read gathers for
        one layer."""
        scales = sum(0 if one is None else one.num_bytes for one in self.scales)
        return sum(layer.nbytes for layer in self.blocks) + scales

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's K and V, all layers, the scales that it brings along included."""
        return sum(self.token_bytes(layer) for layer in range(len(self.forms)))

    def token_bytes(self, layer: int) -> int:
        """The same of one layer."""
        return self.spec.token_bytes(
            self.forms[layer], self.n_kv_heads, self.head_dim, self.dtype.itemsize
        )

    def _planned_bytes(self) -> int:
        fixed = self.spec.fixed_bytes(self.forms, self.n_kv_heads)
        return self.num_blocks * self.block_size * self.bytes_per_token + fixed

    @property
    def reads_back(self) -> bool:
        """Whether a prompt's own keys are read from the blocks too, instead of at hand: where they
        are rounded, a token must see the same keys however its prompt was cut."""
        return self.spec.quantised

    def quantised(self, layer: int) -> bool:
        """Whether a layer stores codes."""
        return self.scales[layer] is not None

    @property
    def measures_error(self) -> bool:
        """Whether what is stored is compared with what was to be."""
        return self._error is not None

    def dynamic(self, layer: int) -> bool:
        """Whether a layer's scales are written with each token."""
        scales = self.scales[layer]
        return scales is not None and scales.dynamic

    def kv_blocks(self, layer: int) -> KVBlocks:
        """A layer's K and V, and their scales, as the kernels take them: views."""
        return self._views[layer]

    def write(self, layer: int, key_value: torch.Tensor, slot_index: torch.Tensor) -> None:
        """Store K and V of W tokens, [W, 2 · n_kv_heads, head_dim]: K heads, then V heads.

        slot_index: `KVLayout.slot_index` of their slots.
        """
        scales = self.scales[layer]
        if scales is None:
            stored = key_value.reshape(-1, self.head_dim)
        else:
            stored = _movable(scales.encode(key_value, slot_index)).flatten(0, 1)
        self._vectors[layer].index_copy_(0, slot_index, stored)
        self.measure(layer, key_value, slot_index)

    def measure(self, layer: int, key_value: torch.Tensor, slot_index: torch.Tensor) -> None:
        """Compare what lies in the slots with what was to be stored, if errors are measured.

        `write` does it; a kernel that writes by itself is to be followed by it.
        """
        if self._error is None:
            return
        vectors = self._vectors[layer].index_select(0, slot_index)
        scales = self.scales[layer]
        if scales is not None:
            stored = vectors.view(self.blocks[layer].dtype).view(*key_value.shape[:2], -1)
            vectors = decode(stored, scales.of_slots(slot_index, len(key_value)))
        self._error.add(layer, vectors.view(key_value.shape), key_value)

    def take_error(self) -> dict[str, list[list[float]]] | None:
        """What was measured since the last call (`KVError`); None if nothing is."""
        return None if self._error is None else self._error.take()

    def read(self, layer: int, block_index: torch.Tensor, num_sequences: int) -> torch.Tensor:
        """K and V of whole blocks in the order of the tables, as numbers in the store's dtype.

        block_index: `KVLayout.block_index` of the tables of that many sequences. Returns
        [2, B, n_kv_heads, n · block_size, head_dim], in one piece, which the next read overwrites.
        """
        # index_select of whole rows: 4 to 8 times as fast on a CPU as indexing with a tensor. Into
        # the same memory every time: it is in the cache already, 1.7 times as fast again.
        out = self._room(self._rows[layer], len(block_index))
        rows = torch.index_select(self._rows[layer], 0, block_index, out=out)
        shape = (2, num_sequences, self.n_kv_heads, -1)
        scales = self.scales[layer]
        if scales is None:
            return rows.view(*shape, self.head_dim)
        stored = rows.view(self.blocks[layer].dtype).view(len(rows), self.block_size, -1)
        numbers = decode(stored, scales.of_blocks(block_index, num_sequences))
        return numbers.to(self.dtype).view(*shape, self.head_dim)

    def _room(self, rows: torch.Tensor, count: int) -> torch.Tensor:
        """Memory for `count` gathered rows, kept for the next read."""
        kind = rows.dtype, rows.shape[1]
        room = self._gathered.get(kind)
        if room is None or len(room) < count:
            room = self._gathered[kind] = rows.new_empty(count, rows.shape[1])
        return room[:count]

    def copy(self, copies: Iterable[tuple[int, int]]) -> None:
        """Copy whole blocks, source to destination, in the given order, scales with their codes.

        The order matters: one copy's destination may be the next one's source.
        """
        for src, dst in copies:
            for layer, scales in zip(self.blocks, self.scales, strict=True):
                layer[:, dst].copy_(layer[:, src])
                if scales is not None:
                    scales.copy(src, dst)


def _movable(stored: torch.Tensor) -> torch.Tensor:
    """Codes as bytes, other numbers as they are."""
    return stored.view(torch.uint8) if stored.itemsize == 1 else stored


def _check_fits(num_bytes: int, num_blocks: int, block_size: int, device: torch.device) -> None:
    available = available_memory_bytes(device)
    if available is not None and num_bytes + MARGIN > available:
        raise MemoryBudgetError(
            f"a pool of {num_blocks:,} blocks of {block_size} tokens needs {num_bytes:,} bytes "
            f"({num_bytes / 1e9:.2f} GB) beside {MARGIN / 1e9:.2f} GB of working memory, but "
            f"only {available:,} bytes ({available / 1e9:.2f} GB) are available on "
            f"{device.type}: choose fewer blocks"
        )
