"""The errors that a person causes and can mend: each is one clear sentence.

The command line prints them on one line and exits with 2; pages show them as they are.
"""

from __future__ import annotations


class KVScopeError(Exception):
    """Base of every error whose message is meant for a person."""


class ScenarioError(KVScopeError):
    """A scenario was refused. `path` names the offending field, e.g. ``requests[1].n``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class RunError(KVScopeError):
    """A run file is damaged, too large, of an unknown version, or contradicts itself."""


class MismatchError(RunError):
    """A run is well formed, but running it again gives something else."""


class InputFileError(KVScopeError):
    """A file cannot be read or written, or is not text, or not JSON."""


class RequestError(KVScopeError, ValueError):
    """A request that can never be served; nothing was run."""


class CacheInUseError(KVScopeError):
    """The prefix cache cannot be reset while blocks are in use. Nothing was changed."""


class UnsupportedError(KVScopeError):
    """A known setting that this version of the engine does not carry out."""
