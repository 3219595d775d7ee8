"""What is run: token ids from a fixed seed, the same for every engine."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """Sizes in tokens.

    batches: of the decode rows; each decodes decode_steps tokens per sequence after a prompt of
    decode_prompt and one token more. serve_*: requests that are there at once, end to end. shared:
    tokens of the first_token prompt that an earlier request had too.
    """

    prefill: int = 512
    batches: tuple[int, ...] = (1, 8, 32)
    decode_prompt: int = 128
    decode_steps: int = 62
    serve_requests: int = 32
    serve_prompt: int = 128
    serve_outputs: int = 64
    first_token: int = 928
    shared: int = 896
    repeats: int = 5


FULL = Workload()
QUICK = Workload(decode_steps=16, serve_outputs=16, repeats=3)


def prompts(count: int, length: int, vocab_size: int, seed: int = 0) -> list[list[int]]:
    """Random token ids: what a token is does not change what computing it costs."""
    generator = random.Random(seed)
    low = min(16, vocab_size // 2)  # below it lie most models' control tokens
    return [[generator.randrange(low, vocab_size) for _ in range(length)] for _ in range(count)]
