"""Scales of a quantised KV cache: small numbers beside the numbers, and easily forgotten.

A quantised value is q · scale, or (q − zero) · scale. How many scales there are is a choice: one
for a whole layer's K and one for its V, one per head, one per token, one per token and head, or one
per group of numbers in a head's vector. The first two are fixed when the model is loaded; the rest
grow with every token. Formats that carry their scales in their blocks (GGUF, mxfp4) have none here.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.sizing import checks
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent

NONE, PER_TENSOR, PER_HEAD_STATIC = "none", "per_tensor", "per_head_static"
PER_TOKEN, PER_TOKEN_HEAD, PER_GROUP = "per_token", "per_token_head", "per_group"
KINDS = (NONE, PER_TENSOR, PER_HEAD_STATIC, PER_TOKEN, PER_TOKEN_HEAD, PER_GROUP)
STATIC = (PER_TENSOR, PER_HEAD_STATIC)

MEANING = {
    PER_TENSOR: "one scale for a layer's K and one for its V, fixed",
    PER_HEAD_STATIC: "one scale for each KV head's K and V, fixed",
    PER_TOKEN: "one scale for each token's K and V in a layer",
    PER_TOKEN_HEAD: "one scale for each token and head, K and V apart",
    PER_GROUP: "one scale for each group of numbers of a head's vector",
}


@dataclass(frozen=True, slots=True)
class Scales:
    """kind: one of KINDS. scale_bytes, zero_bytes: of one scale and of its zero point (0: a
    symmetric format has none). group_size: numbers to a scale, for PER_GROUP."""

    kind: str = NONE
    scale_bytes: int = 0
    zero_bytes: int = 0
    group_size: int = 0

    @property
    def each(self) -> int:
        """Bytes of one scale with its zero point."""
        return self.scale_bytes + self.zero_bytes

    def count(self, cache: KVHeads | Latent, heads: int, *, rope_apart: bool = False) -> int:
        """Scales of one layer: per token for the growing kinds, in all for the fixed ones.

        heads: KV heads that are kept (on one GPU), 1 for a latent: that is one vector, with its
        rotary key unless the latter is kept in a format of its own.
        """
        if self.kind == NONE:
            return 0
        if isinstance(cache, Latent):
            dims: tuple[int, ...] = (cache.latent_dim + (0 if rope_apart else cache.rope_dim),)
        else:
            dims = (cache.key_dim, cache.value_dim) if cache.value_dim else (cache.key_dim,)
        if self.kind == PER_GROUP:
            return heads * sum(-(-dim // self.group_size) for dim in dims)
        return len(dims) * (heads if self.kind in (PER_HEAD_STATIC, PER_TOKEN_HEAD) else 1)


NO_SCALES = Scales()


def of(
    kind: object,
    scale_bytes: object = 2,
    zero_bytes: object = 0,
    group_size: object = None,
    path: str = "",
) -> Scales:
    """Checked scales. path: what the fields' names are prefixed with in an error."""
    name = checks.choice(kind, f"{path}scale", KINDS)
    if name == NONE:
        return NO_SCALES
    if name == PER_GROUP:
        if group_size is None:
            raise SizingError(f"{path}group_size", "per_group needs it: how many numbers share one")
        group = checks.whole(group_size, f"{path}group_size", 1, 2**20)
    else:
        if group_size is not None:
            raise SizingError(f"{path}group_size", f"has no meaning for {name} scales")
        group = 0
    return Scales(
        name,
        checks.whole(scale_bytes, f"{path}scale_bytes", 1, 8),
        checks.whole(zero_bytes, f"{path}zero_bytes", 0, 8),
        group,
    )
