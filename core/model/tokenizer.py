"""Text ↔ token ids, the display text of one token, and chat templates.

A token is bytes, not characters: one emoji may be four tokens. `token_bytes` is the ground that
everything here stands on; half a character is shown as ⟨e2⟩ and never as a broken one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any

import tokenizers

from core.model.chat_template import ChatTemplate
from core.model.config_fields import read_json_object
from core.model.errors import ModelError, ModelFileError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_MAX_TOKENIZER_BYTES = 256 << 20


class Tokenizer:
    """A `tokenizer.json` with its `tokenizer_config.json`.

    Byte-level BPE (GPT-2 alphabet) and SentencePiece style with byte fallback are understood.
    Raises ModelFileError if the files are damaged.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "tokenizer.json"
        raw = read_json_object(path, _MAX_TOKENIZER_BYTES)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(raw))
        except Exception as error:  # the native library raises plain Exception
            raise ModelFileError(f"tokenizer.json cannot be used: {error}") from error
        # Left over from training: they would cut or lengthen prompts unasked.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        settings = directory / "tokenizer_config.json"
        config = read_json_object(settings) if settings.is_file() else {}
        self._chat_template = ChatTemplate(directory, config)
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {i: token.content for i, token in added.items() if token.special}
        self._added = {i: token.content for i, token in added.items()}
        self._byte_level = _uses(raw.get("decoder"), "ByteLevel")

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @property
    def special_ids(self) -> frozenset[int]:
        """Control tokens: they stand for no text."""
        return frozenset(self._special)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; a BOS only if the tokenizer itself adds one.

        Control tokens written out in the text (``<|im_start|>``) become their ids: templates need
        that. Raises ModelError for text that is not valid Unicode (a lone surrogate).
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ModelError(f"the text is not valid Unicode: {error.reason}") from error
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, token_ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of token ids; bytes that are no UTF-8 become U+FFFD.

        Equal to the `tokenizers` library's answer, except that a byte-fallback tokenizer's invalid
        bytes follow the Unicode practice here (one U+FFFD for each broken piece of a character) and
        take no valid neighbours with them, and that no space is stripped at the beginning, where
        some such tokenizers do: only text like this can go on from a prompt, and be streamed.
        """
        data = b"".join(self.token_bytes(t, skip_special_tokens) for t in token_ids)
        return data.decode("utf-8", "replace")

    def token_bytes(self, token_id: int, skip_special_tokens: bool = False) -> bytes:
        """The bytes that a token stands for. An id outside the vocabulary stands for none."""
        if token_id in self._added:
            if skip_special_tokens and token_id in self._special:
                return b""
            return self._added[token_id].encode("utf-8")
        piece = self._piece(token_id)
        if piece is None:
            return b""
        if self._byte_level:
            # A piece is spelled in GPT-2's 256 printable stand-ins for bytes.
            values = [_BYTE_OF.get(char) for char in piece]
            if None not in values:
                return bytes(v for v in values if v is not None)
            return piece.encode("utf-8")
        match = _BYTE_TOKEN.fullmatch(piece)
        if match:
            return bytes([int(match[1], 16)])
        return piece.replace("▁", " ").encode("utf-8")

    def token_text(self, token_ids: Iterable[int]) -> dict[int, str]:
        """For each id a text to show. Bytes that are no whole character are written ⟨e2⟩.

        Never fails: an id outside the vocabulary is shown as ⟨#id⟩.
        """
        return {t: self._display(t) for t in token_ids}

    def apply_chat_template(
        self,
        messages: Seq[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Seq[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """A conversation as the text that the model was trained on (see `ChatTemplate.render`).

        The text holds its control tokens, the first among them: encode it with
        `add_special_tokens=False`.
        """
        return self._chat_template.render(messages, add_generation_prompt, tools, **variables)

    def _piece(self, token_id: int) -> str | None:
        """The vocabulary's spelling. The native library takes 32-bit ids only."""
        if not 0 <= token_id < 1 << 32:
            return None
        return self._tokenizer.id_to_token(token_id)

    def _display(self, token_id: int) -> str:
        if self._piece(token_id) is None:
            return f"⟨#{token_id}⟩"
        return display_bytes(self.token_bytes(token_id))


def display_bytes(data: bytes) -> str:
    """Text with every byte that belongs to no whole character written as ⟨e2⟩."""
    return data.decode("utf-8", "surrogateescape").translate(_ESCAPED)


# What `surrogateescape` makes of the bytes 0x80 … 0xFF.
_ESCAPED = {0xDC00 + byte: f"⟨{byte:02x}⟩" for byte in range(0x80, 0x100)}


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's stand-in characters → bytes: printable Latin-1 for itself, the rest from U+0100."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {chr(byte): byte for byte in plain}
    table.update({chr(0x100 + i): byte for i, byte in enumerate(others)})
    return table


_BYTE_OF = _byte_alphabet()


def _uses(decoder: Any, kind: str) -> bool:
    """Whether a decoder description is, or contains, one of a kind."""
    if not isinstance(decoder, dict):
        return False
    if decoder.get("type") == kind:
        return True
    return any(_uses(part, kind) for part in decoder.get("decoders", ()))
