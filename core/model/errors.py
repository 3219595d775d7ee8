"""What can go wrong with a model, as sentences a user can act on.

Every one is a `ModelError`, hence a `KVScopeError` and a `ValueError`: the command line prints its
text as one line and exits with 2, and a server answers 400 with it.
"""

from __future__ import annotations

from core.errors import KVScopeError


class ModelError(KVScopeError, ValueError):
    """Something about a model cannot work; the text says what, and what to do."""


class ModelConfigError(ModelError):
    """`config.json` is damaged, or describes a model that this engine does not run."""


class ModelFileError(ModelError):
    """A model file (GGUF, safetensors, tokenizer) is damaged or does not fit its configuration."""


class ModelNotFound(ModelError):
    """The model is not on this machine; the text names the command that fetches it."""


class ModelFetchError(ModelError):
    """Getting a model failed; the text says what is missing and how to get it."""


class MemoryBudgetError(ModelError):
    """A pool of KV blocks larger than the memory that is available."""
