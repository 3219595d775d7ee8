"""The scales of one quantised layer's K and V: kept beside the codes, or fixed.

    per_token_head     [2, num_blocks, n_kv, block_size]   a token's own, in its block; they go
                                                           wherever the block goes
    per_head_static    [2, n_kv]                           fixed before the first read
    per_tensor         [2, 1]

K and V never share one: keys have outlier channels that values have not (KIVI, Liu et al. 2024).
Codes and their meaning are `kernels.kv_blocks`'.
"""

from __future__ import annotations

import torch

from core.kv_spec import PER_TENSOR, KVSpec
from kernels.kv_blocks import FORMATS, LARGEST, dynamic_scale, encode

STORED = {form: dtype for dtype, form in FORMATS.items()}
"""Quantised format → dtype of what is stored."""


class LayerScales:
    """The scales of one layer. shape: of its pool without head_dim, [2, num_blocks, n_kv,
    block_size]. amax: [2, n_kv] float32, largest magnitudes, for calibration "text".
    """

    def __init__(
        self,
        spec: KVSpec,
        form: str,
        shape: tuple[int, ...],
        device: torch.device,
        amax: torch.Tensor | None,
    ) -> None:
        self.form = form
        self.dynamic = spec.dynamic
        self._shape = shape
        self._per_tensor = spec.scale == PER_TENSOR
        self.pending = spec.calibration == "first_step"
        """Whether the scales are still to be taken from the first tokens (`take_from`)."""
        num_heads = 1 if self._per_tensor else shape[2]
        # 1, not 0: what was never written is decoded too, behind a mask.
        own = shape if self.dynamic else (2, num_heads)
        self.scale = torch.ones(own, dtype=torch.float32, device=device)
        if spec.calibration == "text":
            if amax is None:
                raise ValueError("scales that a text calibrates need its largest magnitudes")
            self._fix(amax)

    @property
    def num_bytes(self) -> int:
        return self.scale.nbytes

    def encode(self, key_value: torch.Tensor, slot_index: torch.Tensor) -> torch.Tensor:
        """Codes of W tokens, [W, 2 · n_kv, d or d / 2]; dynamic scales are written on the way.

        key_value: [W, 2 · n_kv, d]. slot_index: [W · 2 · n_kv], see `KVLayout.slot_index`.
        """
        if self.dynamic:
            scale = dynamic_scale(key_value, self.form)
            self.scale.view(-1).index_copy_(0, slot_index, scale.flatten())
        else:
            if self.pending:
                self.take_from(key_value)
            scale = self.of_slots(slot_index, len(key_value))
        return encode(key_value, self.form, scale)

    def take_from(self, key_value: torch.Tensor) -> None:
        """Fix the scales for good by the largest magnitudes of these tokens, [W, 2 · n_kv, d]."""
        self._fix(key_value.abs().amax((0, 2)).float().view(2, -1))
        self.pending = False

    def of_slots(self, slot_index: torch.Tensor, num_tokens: int) -> torch.Tensor:
        """[W, 2 · n_kv], the scales of W tokens in their slots."""
        if self.dynamic:
            return self.scale.view(-1).index_select(0, slot_index).view(num_tokens, -1)
        return self._by_head().reshape(1, -1).expand(num_tokens, -1)

    def of_blocks(self, block_index: torch.Tensor, num_sequences: int) -> torch.Tensor:
        """[rows, block_size], the scales of the rows that `KVStore.read` gathers."""
        block_size = self._shape[-1]
        if self.dynamic:
            return self.scale.view(-1, block_size).index_select(0, block_index)
        # Rows are K's then V's, then by sequence, then by head.
        per_head = len(block_index) // (2 * num_sequences * self._shape[2])
        of_row = self._by_head()[:, None, :, None].expand(-1, num_sequences, -1, per_head)
        return of_row.reshape(-1, 1).expand(-1, block_size)

    def by_slot(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K's and V's scales, [num_blocks, n_kv, block_size] each: views, whatever shares one."""
        if not self.dynamic:
            key, value = self._by_head()[:, None, :, None].expand(self._shape)
        else:
            key, value = self.scale
        return key, value

    def copy(self, src: int, dst: int) -> None:
        """The scales of a block, to another block."""
        if self.dynamic:
            self.scale[:, dst].copy_(self.scale[:, src])

    def _by_head(self) -> torch.Tensor:
        return self.scale.expand(2, self._shape[2])

    def _fix(self, amax: torch.Tensor) -> None:
        """Scales that make the largest magnitudes [2, n_kv] the largest codes."""
        if self._per_tensor:
            amax = amax.amax(1, keepdim=True)
        self.scale.copy_(torch.where(amax > 0, amax / LARGEST[self.form], 1.0))
