"""Where keys and values lie: a pool of blocks per layer, written by slot, read by block table.

A block holds `block_size` consecutive tokens of one sequence. Which blocks, and in which order, is
the block table's matter: neighbours in a sequence need not be neighbours in memory (PagedAttention,
Kwon et al. 2023). The store knows nothing of sequences; a slot is an address.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from core.model.config import ModelConfig
from core.model.errors import MemoryBudgetError
from core.model.memory import available_memory_bytes

_MARGIN = 256 << 20
"""Bytes left free beside the pool, for activations and the rest of the process."""


class KVStore:
    """The KV pool of all layers.

    blocks: one tensor per layer, [2, num_blocks, block_size, n_kv_heads, head_dim]; index 0 is K,
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
        self.n_kv_heads, self.head_dim = config.num_key_value_heads, config.head_dim
        shape = (2, num_blocks, block_size, config.num_key_value_heads, config.head_dim)
        token_bytes = 2 * config.num_key_value_heads * config.head_dim * dtype.itemsize
        num_bytes = config.num_hidden_layers * num_blocks * block_size * token_bytes
        _check_fits(num_bytes, num_blocks, block_size, device)
        # Zeros, not uninitialised memory: padded reads meet slots that were never written, and a
        # masked probability of 0 times a stray NaN would be NaN.
        self.blocks = [
            torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)
        ]

    @property
    def num_bytes(self) -> int:
        """Bytes allocated, all layers, K and V."""
        return sum(layer.nbytes for layer in self.blocks)

    def write(
        self, layer: int, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor
    ) -> None:
        """Store K and V of W tokens, [W, n_kv_heads, head_dim] each, in slots [W] (int64)."""
        by_slot = self.blocks[layer].flatten(1, 2)  # [2, num_slots, n_kv_heads, head_dim]
        by_slot[0].index_copy_(0, slot_mapping, key)
        by_slot[1].index_copy_(0, slot_mapping, value)

    def read(self, layer: int, block_table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of whole blocks in the order of the tables.

        block_table: [B, n] int64. Returns two of [B, n · block_size, n_kv_heads, head_dim].
        """
        num_sequences, n = block_table.shape
        shape = (num_sequences, n * self.block_size, self.n_kv_heads, self.head_dim)
        # One index_select of whole blocks: 4 to 8 times as fast on a CPU as indexing with a tensor.
        by_block = self.blocks[layer].flatten(2)  # [2, num_blocks, numbers per block]
        index = block_table.flatten()
        key = by_block[0].index_select(0, index).view(shape)
        value = by_block[1].index_select(0, index).view(shape)
        return key, value

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
