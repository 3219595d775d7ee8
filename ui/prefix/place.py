"""What a link to the prefix cache page can say, and the safe way back from one.

    ?study=watch&work=one_system_prompt     a recorded run, or a workload with its knobs:
    &users=3&turns=3&block=4&pool=512&seed=1&evict=lru
    ?study=yours&own=…                      the reader's own prompts, packed
    ?study=evict&take=2                     how many cached blocks are taken away
    &step=8 &pick=node:2 &follow=B          where to stand, what is picked, whose prompt

Whatever cannot be read is left out and named in one sentence; the rest of the link counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.workloads_prefix import KINDS, LEAF_BLOCKS, Knobs
from ui import links
from ui.kit import address

STUDIES = ("watch", "yours", "evict", "time")
BLOCKS = (1, 2, 4, 8, 16)
POOLS = (128, 256, 512, 1024)
EVICTION = ("lru", "fifo", "lfu")
FIXED = ("edited", "hot")
"""Scenarios beside the generated ones, without knobs."""
KNOBS = ("users", "turns", "block", "pool", "seed", "evict")
CHOICES: dict[str, tuple[Any, ...]] = {"study": STUDIES, "block": BLOCKS, "pool": POOLS}
CHOICES |= {"evict": EVICTION}
LIMITS = {
    "users": (1, 8),
    "turns": (1, 6),
    "seed": (0, 9_999),
    "take": (0, LEAF_BLOCKS),
    "step": (0, 100_000),
}
DEFAULTS: dict[str, Any] = {
    "study": "watch",
    "work": "one_system_prompt",
    "users": Knobs().users,
    "turns": Knobs().turns,
    "block": Knobs().block_size,
    "pool": Knobs().pool_tokens,
    "seed": Knobs().seed,
    "evict": "lru",
    "take": 2,
    "own": None,
    "step": 0,
    "pick": None,
    "follow": None,
}
NAMES = tuple(DEFAULTS)
REST = ("step", "pick", "follow")
"""Where the reader rests in the instrument; another picture begins without them."""

OF_STUDY = {
    "watch": ("work", *KNOBS, *REST),
    "yours": ("own", "block", *REST),
    "evict": ("take", *REST),
    "time": (),
}
MAX_PROMPTS, MIN_PROMPTS, MAX_CHARS = 6, 2, 1_500


def pack_own(prompts: list[str]) -> str | None:
    """The prompts as the value of `own`; None if they are too long for a link."""
    return links.pack({"prompts": prompts})


def unpack_own(value: str) -> list[str]:
    """The prompts in the value of `own`. Raises LinkError."""
    damaged = links.LinkError("this link's prompts cannot be read")
    try:
        loaded = json.loads(links.unpack(value))
    except (ValueError, RecursionError):
        raise damaged from None
    found = loaded.get("prompts") if isinstance(loaded, dict) else None
    if (
        not isinstance(found, list)
        or not MIN_PROMPTS <= len(found) <= MAX_PROMPTS
        or not all(isinstance(one, str) and len(one) <= MAX_CHARS for one in found)
    ):
        raise damaged
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        raise damaged from None
    return found


def _value(name: str, raw: str) -> Any:
    """The value of one parameter, or None if it cannot be what the page can show."""
    if name in LIMITS or name in ("block", "pool"):
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 6):
            return None
        number = int(raw)
        if name in CHOICES:
            return number if number in CHOICES[name] else None
        low, high = LIMITS[name]
        return number if low <= number <= high else None
    if name in CHOICES:
        return raw if raw in CHOICES[name] else None
    if name == "own":
        try:
            unpack_own(raw)
        except links.LinkError:
            return None
        return raw
    if name == "pick":
        return raw if re.fullmatch(r"(chain|tree|node):\d{1,7}", raw) else None
    if name == "work" and raw in KINDS:
        return raw
    fits = re.fullmatch(r"[A-Za-z0-9][\w .#-]{0,79}", raw) is not None and ".." not in raw
    return raw if fits else None


def read(params: Mapping[str, str]) -> tuple[dict[str, Any], str | None]:
    """Where the address stands, all names filled, and a sentence about what it asks in vain."""
    found, notice = address.sort(params, NAMES, _value)
    return {**DEFAULTS, **found}, notice


def turns_at(work: str, knob: str) -> bool:
    """Whether a knob changes what this choice shows."""
    return work in KINDS or (knob == "evict" and work in FIXED)


def written(place: Mapping[str, Any]) -> dict[str, str]:
    """A place as parameters of the address: what its study uses and is not the default."""
    out = {}
    for name in ("study", *OF_STUDY[place["study"]]):
        value = place[name]
        if place["study"] == "watch" and name in KNOBS and not turns_at(place["work"], name):
            continue
        if value is not None and (value != DEFAULTS[name] or name == "work"):
            out[name] = str(value)
    return out


def rest(found: object) -> dict[str, Any]:
    """Where the instrument says that the reader rests; what does not belong there is dropped."""
    if not isinstance(found, dict):
        return {}
    given = {name: found.get(name) for name in REST}
    return {
        name: _value(name, str(value)) if value is not None else DEFAULTS[name]
        for name, value in given.items()
    }
