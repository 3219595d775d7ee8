"""A page's place and its address: the link says where the page stands, and is never trusted.

A page names its parameters and says what each can be; here the address is read, written and told
apart from what the page wrote there itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st


@dataclass(frozen=True, slots=True)
class Address:
    """names: the parameters that the page reads and writes; others are left alone. key: prefix of
    what it keeps in the session."""

    key: str
    names: tuple[str, ...]

    @property
    def came_by_link(self) -> bool:
        """Whether the address asks for something that the page did not put there itself."""
        asked = {name: st.query_params[name] for name in self.names if name in st.query_params}
        return bool(asked) and asked != st.session_state.get(f"{self.key}.written")

    @property
    def is_first_and_bare(self) -> bool:
        """Whether someone has just come, for the first time in this session and by no link."""
        return f"{self.key}.written" not in st.session_state and not self.came_by_link

    def arrived(self) -> dict[str, str] | None:
        """What the address asks for, if someone has just come by it; None if the page itself put
        it there, or stands somewhere and is asked for nothing."""
        state, kept = st.session_state, f"{self.key}.written"
        asked = {name: st.query_params[name] for name in self.names if name in st.query_params}
        if kept in state and (not asked or asked == state[kept]):
            return None
        state[kept] = asked
        return asked

    def write(self, wanted: Mapping[str, str]) -> None:
        """Have the address say this, and nothing else under the page's names."""
        for name in self.names:
            if name in wanted:
                if st.query_params.get(name) != wanted[name]:
                    st.query_params[name] = wanted[name]
            elif name in st.query_params:
                del st.query_params[name]
        st.session_state[f"{self.key}.written"] = dict(wanted)


def sort(
    params: Mapping[str, str], names: Iterable[str], value: Callable[[str, str], Any]
) -> tuple[dict[str, Any], str | None]:
    """The parameters that can be shown, and a sentence about those that cannot. value: of a
    parameter, by its name and text; None if it cannot be."""
    found: dict[str, Any] = {}
    refused = []
    for name in names:
        if name not in params:
            continue
        made = value(name, params[name])
        if made is None:
            refused.append(name)
        else:
            found[name] = made
    if not refused:
        return found, None
    what = " and ".join(refused) if len(refused) < 3 else ", ".join(refused)
    left = "it was" if len(refused) == 1 else "they were"
    return found, f"This link's {what} cannot be shown here, so {left} left out."
