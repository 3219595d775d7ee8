"""Results of the catalogue's models are kept for all visitors; those of somebody's own config.json
in that visitor's session, and they go with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import streamlit as st

P = ParamSpec("P")
R = TypeVar("R")

_KEPT = "ks.mine"
MOST = 64
"""Results that a session keeps: more than the page shows of one place."""


def kept(maxsize: int, own: Callable[P, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator like `lru_cache`. own: the text of somebody's config.json among the arguments,
    "" if there is none."""

    def decorate(made: Callable[P, R]) -> Callable[P, R]:
        shared = lru_cache(maxsize=maxsize)(made)

        @wraps(made)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if not own(*args, **kwargs):
                return shared(*args, **kwargs)
            found: dict[Hashable, R] = st.session_state.setdefault(_KEPT, {})
            key = (made.__qualname__, args, tuple(sorted(kwargs.items())))
            if key not in found:
                value = made(*args, **kwargs)
                if len(found) >= MOST:
                    found.clear()
                found[key] = value
            return found[key]

        return call

    return decorate
