"""Streaming text: tokens in, text out, never half a character or half a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from collections.abc import Sequence as Seq

from core.model.stop_strings import find_stop, safe_length
from core.model.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """Text of a growing sequence, in pieces whose concatenation is the text of the whole.

    A character's bytes may come in several tokens: an incomplete one is held back until the rest
    arrives. Bytes that turn out to be no UTF-8 become U+FFFD, at the latest on `finish`.

    stop: stop strings in UTF-8. What may be the beginning of one is held back until it is clear;
    from a complete one on, everything is held back for `finish` to decide.
    """

    def __init__(
        self, tokenizer: Tokenizer, skip_special_tokens: bool = True, stop: Seq[bytes] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._stop = stop
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete; may be empty."""
        return "".join(self._push(self._tokenizer.token_bytes(t, self._skip)) for t in token_ids)

    def finish(self, cut: bool = False) -> str:
        """What was held back, now that nothing follows: perhaps with a U+FFFD at its end.

        cut: a stop string has ended the sequence: the text ends before it.
        """
        return self._decoder.decode(b"" if cut else self._held, final=True)

    def _push(self, new: bytes) -> str:
        data = self._held + new
        # Whatever a match can begin in is still held, so searching here finds all of them.
        safe = find_stop(data, self._stop, len(new))
        if safe is None:
            safe = safe_length(data, self._stop)
        self._held = data[safe:]
        return self._decoder.decode(data[:safe])
