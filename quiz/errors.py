"""Errors of the quiz."""

from __future__ import annotations

from core.errors import KVScopeError


class QuizError(KVScopeError):
    """An item, an answer or saved progress that cannot be used; one sentence for the learner."""
