"""A reader's prompts as tokens: the default model's where its tokenizer lies here, else bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from core.errors import KVScopeError

MODEL = "smollm2-135m-instruct"


@lru_cache(maxsize=1)
def _tokenizer() -> Any | None:
    """The tokenizer of the default model, loaded once; None where it has not been fetched."""
    from core.model.cache import models_dir

    directory = models_dir() / MODEL
    if not (directory / "tokenizer.json").is_file():
        return None
    from core.model.tokenizer import Tokenizer

    try:
        return Tokenizer(directory)
    except KVScopeError:
        return None


def named() -> str:
    """Whose tokens they are, for people."""
    return f"tokens of {MODEL}" if _tokenizer() is not None else "one token a byte"


def encode(prompts: list[str]) -> tuple[list[list[int]], dict[str, str]]:
    """Token ids of each prompt, and the display text of every id."""
    tokenizer = _tokenizer()
    if tokenizer is None:
        ids = [list(prompt.encode()) for prompt in prompts]
        return ids, {str(b): chr(b) if 32 <= b < 127 else f"⟨{b:02x}⟩" for b in set().union(*ids)}
    ids = [tokenizer.encode(prompt) for prompt in prompts]
    words = tokenizer.token_text(set().union(*ids))
    return ids, {str(token): text for token, text in words.items()}


def texts(ids: Iterable[int]) -> dict[str, str]:
    """The display texts of tokens of the default model; none where its tokenizer is not here."""
    tokenizer = _tokenizer()
    found = {} if tokenizer is None else tokenizer.token_text(ids)
    return {str(token): text for token, text in found.items()}
