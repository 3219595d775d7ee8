"""Keys of full blocks: each chains its parent's key, so equal keys mean equal prefixes.

key = sha256(parent key ‖ the block's tokens as 64-bit integers). The first block's parent is the
namespace: adapter and salt, each tagged by its kind, so that an adapter "x" and a salt "x" differ.
A cryptographic hash makes a false hit infeasible; caches compare the tokens all the same.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from core.request import Namespace, Sequence

KEY_CHARS = 16
"""Hex digits of a key that traces show (the first 64 of 256 bits)."""


@lru_cache(maxsize=1024)
def root_key(namespace: Namespace) -> bytes:
    """What the first block of a prefix chains on, 32 bytes."""
    parts = b"".join(
        b"%d:%s=%d:%s;" % (len(kind), kind, len(name), name)
        for tag in namespace
        if tag is not None
        for kind, name in [(tag[0].encode(), tag[1].encode())]
    )
    return sha256(b"root;" + parts).digest()


def chain_key(parent: bytes, tokens: bytes) -> bytes:
    """The key of a block after `parent` with these tokens (int64, native order), 32 bytes."""
    return sha256(parent + tokens).digest()


def block_keys(seq: Sequence, num_blocks: int, block_size: int) -> list[bytes]:
    """The keys of a sequence's first `num_blocks` full blocks, kept with the sequence."""
    keys = seq.block_keys
    while len(keys) < num_blocks:
        i = len(keys)
        parent = keys[-1] if keys else root_key(seq.request.namespace)
        keys.append(chain_key(parent, seq.tokens[i * block_size : (i + 1) * block_size].tobytes()))
    return keys


def short(key: bytes) -> str:
    """A key as traces show it."""
    return key.hex()[:KEY_CHARS]
