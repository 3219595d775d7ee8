"""Everything a link can say, and the safe way back from a link that anyone may have written.

    ?scenario=fork            a built-in scenario
    ?run=two-answers          a recorded run
    ?own=eJyr…                a scenario of one's own, compressed into the link
    &step=3 &block=6          where to stand, and the block to look at
    &view=hand                by hand; `size`: block sizes, `paged`: two allocators
    &size=32 &reserve=request what those two are set to
    &base=two-answers         the recorded run that `own` was changed from
    &present=1                the large type

A link that is damaged, oversized or hostile gives one sentence and the default picture; a
parameter that cannot be is left out and named, and the rest counts. What somebody wrote into a link
is never said again: the sentence may be drawn as Markdown.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ui.kit import address

MAX_LINK_CHARS = 6_000
"""Longest `own` written: browsers and proxies cut addresses from about 8,000 characters on."""
MAX_SCENARIO_BYTES = 256 * 1024
"""Most text that an `own` may expand to. A link of 6,000 characters could claim 4 MB."""


VIEWS = ("play", "hand", "size", "paged")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
RESERVES = ("request", "max_model_len")
_WORDS = {"view": VIEWS, "reserve": RESERVES}


class LinkError(Exception):
    """The link cannot be read; the message is for the person who followed it."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a link asks for: at most one of scenario, run and own_text."""

    scenario: str | None = None
    run: str | None = None
    own_text: str | None = None
    step: int | None = None
    block: int | None = None
    view: str = "play"
    size: int | None = None
    reserve: str | None = None
    base: str | None = None


def pack(scenario: Mapping[str, Any]) -> str | None:
    """A scenario as the value of `own`; None when it is too long for a link."""
    text = json.dumps(scenario, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > MAX_SCENARIO_BYTES:
        return None
    packed = base64.urlsafe_b64encode(zlib.compress(text, 9)).rstrip(b"=").decode()
    return packed if len(packed) <= MAX_LINK_CHARS else None


def unpack(value: str) -> str:
    """The scenario text in the value of `own`. Raises LinkError.

    The text is not checked here: it may still not be a scenario, and then the form shows it.
    """
    damaged = LinkError("This link is damaged, so its scenario cannot be read. Ask for it again.")
    if len(value) > MAX_LINK_CHARS:
        raise LinkError(
            f"This link carries {len(value):,} characters of scenario; the limit is "
            f"{MAX_LINK_CHARS:,}. Ask for it as a file."
        )
    try:
        raw = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
        stream = zlib.decompressobj()
        text = stream.decompress(raw, MAX_SCENARIO_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise damaged from None
    if len(text) > MAX_SCENARIO_BYTES:
        raise LinkError(
            f"The scenario in this link expands to more than {MAX_SCENARIO_BYTES:,} bytes, so it "
            "was not opened. Ask for it as a file."
        )
    if not stream.eof:
        raise damaged
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise damaged from None


def _value(name: str, raw: str) -> Any:
    """The value of a parameter that says how to look, or None if it cannot be."""
    if name in _WORDS:
        return raw if raw in _WORDS[name] else None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9):
        return None
    return int(raw) if name != "size" or int(raw) in SIZES else None


def read(params: Mapping[str, str]) -> tuple[Target, str | None]:
    """What the address asks for, and a sentence about what of it cannot be.

    Raises LinkError where it does not say one thing to play.
    """
    given = [key for key in ("scenario", "run", "own") if key in params]
    if len(given) > 1:
        raise LinkError(f"This link names {' and '.join(given)} at once; it can name only one.")
    how, notice = address.sort(params, ("step", "block", "view", "size", "reserve"), _value)
    return Target(
        scenario=params.get("scenario"),
        run=params.get("run"),
        own_text=unpack(params["own"]) if "own" in params else None,
        base=params.get("base"),
        **how,
    ), notice


def is_present(params: Mapping[str, str]) -> bool:
    """Whether the page is on a projector."""
    return params.get("present") == "1"
