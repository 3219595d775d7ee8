"""Streaming text: tokens in, text out, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from core.model.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """Text of a growing sequence, in pieces whose concatenation is `tokenizer.decode` of the whole.

    A character's bytes may come in several tokens: an incomplete one is held back until the rest
    arrives. Bytes that turn out to be no UTF-8 become U+FFFD, at the latest on `finish`.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete; may be empty."""
        data = b"".join(self._tokenizer.token_bytes(t, self._skip) for t in token_ids)
        return self._decoder.decode(data)

    def finish(self) -> str:
        """What was held back, now that nothing follows: a U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)
