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

from core.model.config import ModelConfig
from core.model.errors import MemoryBudgetError
from core.model.memory import available_memory_bytes

_MARGIN = 256 << 20
"""Bytes left free beside the pool, for activations and the rest of the process."""


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
    1 is V. Slot s is token s mod block_size of block s // block_size.

    Raises MemoryBudgetError if the pool does not fit the memory that is available.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"a pool needs blocks: num_blocks {num_blocks}, size {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.dtype = dtype
        self.n_kv_heads, self.head_dim = config.num_key_value_heads, config.head_dim
        self.layout = KVLayout(num_blocks, block_size, self.n_kv_heads)
        shape = (2, num_blocks, config.num_key_value_heads, block_size, config.head_dim)
        token_bytes = 2 * config.num_key_value_heads * config.head_dim * dtype.itemsize
        num_bytes = config.num_hidden_layers * num_blocks * block_size * token_bytes
        _check_fits(num_bytes, num_blocks, block_size, device)
        # Zeros, not uninitialised memory: padded reads meet slots that were never written, and a
        # masked probability of 0 times a stray NaN would be NaN.
        self.blocks = [
            torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)
        ]
        # The same memory, seen as the vectors that are written and as the rows that are read.
        self._vectors = [layer.view(-1, self.head_dim) for layer in self.blocks]
        self._rows = [layer.view(-1, block_size * self.head_dim) for layer in self.blocks]
        self._gathered = self._rows[0].new_empty(0, block_size * self.head_dim)

    @property
    def num_bytes(self) -> int:
        """Bytes of the pool, all layers, K and V; without what a read gathers for one layer."""
        return sum(layer.nbytes for layer in self.blocks)

    def write(self, layer: int, key_value: torch.Tensor, slot_index: torch.Tensor) -> None:
        """Store K and V of W tokens, [W, 2 · n_kv_heads, head_dim]: K heads, then V heads.

        slot_index: `KVLayout.slot_index` of their slots.
        """
        self._vectors[layer].index_copy_(0, slot_index, key_value.reshape(-1, self.head_dim))

    def read(self, layer: int, block_index: torch.Tensor, num_sequences: int) -> torch.Tensor:
        """K and V of whole blocks in the order of the tables.

        block_index: `KVLayout.block_index` of the tables of that many sequences. Returns
        [2, B, n_kv_heads, n · block_size, head_dim], in one piece, which the next read overwrites.
        """
        count = len(block_index)
        if self._gathered.shape[0] < count:
            self._gathered = self._rows[layer].new_empty(count, self._rows[layer].shape[1])
        # index_select of whole rows: 4 to 8 times as fast on a CPU as indexing with a tensor. Into
        # the same memory every time: it is in the cache already, 1.7 times as fast again.
        rows = torch.index_select(self._rows[layer], 0, block_index, out=self._gathered[:count])
        return rows.view(2, num_sequences, self.n_kv_heads, -1, self.head_dim)

    def copy(self, copies: Iterable[tuple[int, int]]) -> None:
        """Copy whole blocks, source to destination, in the given order.

        The order matters: one copy's destination may be the next one's source.
        """
        for src, dst in copies:
            for layer in self.blocks:
                layer[:, dst].copy_(layer[:, src])


def _check_fits(num_bytes: int, num_blocks: int, block_size: int, device: torch.device) -> None:
    available = available_memory_bytes(device)
    if available is not None and num_bytes + _MARGIN > available:
        raise MemoryBudgetError(
            f"a pool of {num_blocks:,} blocks of {block_size} tokens needs {num_bytes:,} bytes "
            f"({num_bytes / 1e9:.2f} GB) beside {_MARGIN / 1e9:.2f} GB of working memory, but "
            f"only {available:,} bytes ({available / 1e9:.2f} GB) are available on "
            f"{device.type}: choose fewer blocks"
        )
