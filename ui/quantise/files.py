"""What can be taken away: bytes, errors and texts of where the controls stand, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from ui.kit import page
from ui.kit.page import Export
from ui.quantise import bench, live, measured, memory

NAME = "kv-quantisation"


def as_json() -> str:
    """The format, its bytes with their derivation, and what was measured of it."""
    here = bench.now()
    found = live.part(here) or measured.recorded(here)
    done = memory.of_place(here, found["dtype"] if found else "bfloat16")
    out = {
        "schema": "kv-quantisation/1",
        "inputs": {**asdict(here), "prompt": live.asked(here)},
        "kv_dtype": here.kv_dtype(),
        "bytes_per_token": done.token.value,
        "bytes_per_token_own": done.own.value,
        "derivation": done.token.derivation(),
        "fixed_scale_bytes": done.fixed,
        "measured": found,
    }
    return json.dumps(out, ensure_ascii=False, indent=1) + "\n"


def menu() -> None:
    """The menu of files; made when they are asked for, of the place as it then is."""
    page.exports(
        [Export("Bytes, errors and texts, as JSON", f"{NAME}.json", "application/json", as_json)]
    )
