"""What the sizing library refuses, and where in the input it lies."""

from __future__ import annotations

from core.errors import KVScopeError


class SizingError(KVScopeError, ValueError):
    """Bad input. path: the field, as in `config.num_attention_heads` or `inputs.tp`; "" if none.

    The message is one sentence for a person; `str` gives "path: message".
    """

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(f"{path}: {message}" if path else message)
