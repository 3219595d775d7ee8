"""A prediction that locks, and what to say about it. The grading is plain functions: no widgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Packing:
    """How `tokens` tokens lie in blocks of `block_size` slots."""

    tokens: int
    block_size: int

    @property
    def blocks(self) -> int:
        return -(-self.tokens // self.block_size)

    @property
    def slots(self) -> int:
        return self.blocks * self.block_size

    @property
    def waste(self) -> int:
        return self.slots - self.tokens

    def values(self) -> dict[str, int]:
        """The numbers that the lesson's sentences may name."""
        return {
            "tokens": self.tokens,
            "block_size": self.block_size,
            "blocks": self.blocks,
            "slots": self.slots,
            "waste": self.waste,
            "full": self.tokens // self.block_size,
            "full_slots": self.tokens // self.block_size * self.block_size,
            "most": self.block_size - 1,
        }


def feedback(packing: Packing, blocks: int | None, waste: int) -> str:
    """The section of the lesson that answers this prediction: the misconception it shows, if any.

    blocks: None where only the waste was asked for.
    """
    if blocks in (None, packing.blocks) and waste == packing.waste:
        return "right"
    if blocks is not None and blocks != packing.blocks:
        if blocks == packing.tokens // packing.block_size:
            return "wrong-rounded-down"
        if blocks == packing.tokens:
            return "wrong-per-token"
        if blocks > packing.blocks:
            return "wrong-reserve"
        return "wrong"
    if waste >= packing.block_size:
        return "wrong-waste"
    return "wrong"


def from_run(run: dict[str, Any], request: str = "A") -> Packing:
    """The packing that the engine itself chose for a request's prompt, counted from its events.

    Raises AssertionError when the engine and the formula disagree: then one of them is wrong, and
    the page must not show either as the answer.
    """
    header = run["header"]
    block_size = header["scenario"]["engine"]["block_size"]
    packing = Packing(len(header["prompts"][request]), block_size)
    taken = sum(
        len(event["blocks"])
        for event in run["steps"][0]["events"]
        if event["type"] == "blocks_allocated" and event["request"] == request
    )
    if taken != packing.blocks:
        raise AssertionError(f"the engine took {taken} blocks, the formula says {packing.blocks}")
    return packing
