"""What rounding keys and values costs, measured where it happens: head by head, as they are stored.

The relative error of a head over a run is √(Σ(x̂ − x)² / Σx²), both sums over all its tokens, with x
what the layer computed and x̂ what a read will give back.
"""

from __future__ import annotations

import torch

_NAMES = ("key", "value")


class KVError:
    """Sums of squares by layer, side and head, since they were last taken.

    shape: of a layer's pool, [2, num_blocks, n_kv, block_size, d].
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._n_kv = shape[2]
        self._sums: dict[int, torch.Tensor] = {}

    def add(self, layer: int, stored: torch.Tensor, wanted: torch.Tensor) -> None:
        """stored, wanted: [W, 2 · n_kv, d], what is read back and what was to be written."""
        x = wanted.float()
        sums = torch.stack(((stored.float() - x).square().sum((0, 2)), x.square().sum((0, 2))))
        before = self._sums.get(layer)
        self._sums[layer] = sums if before is None else before + sums

    def take(self) -> dict[str, list[list[float]]]:
        """`key`, `value`: [layers][n_kv] Σ(x̂ − x)²; `key_squares`, `value_squares`: Σx²; to 5
        digits. Empty where nothing was written."""
        if not self._sums:
            return {}
        sums = torch.stack([self._sums[layer] for layer in sorted(self._sums)])
        self._sums = {}
        halves = sums.view(len(sums), 2, 2, self._n_kv).cpu()  # layer, kind, side, head
        return {
            f"{name}{suffix}": [[float(f"{x:.5g}") for x in row] for row in halves[:, kind, side]]
            for kind, suffix in enumerate(("", "_squares"))
            for side, name in enumerate(_NAMES)
        }
