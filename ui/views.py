"""What a run shows, in words."""

from __future__ import annotations

import html

import streamlit as st

from ui import catalogue, choice, runs


def about(chosen: str) -> None:
    """What a built-in scenario or a recorded run shows, and what to look at."""
    kind, _, name = chosen.partition(":")
    entry = catalogue.entries().get(name) if kind == "scenario" else None
    said = catalogue.recorded().get(name) if kind == "run" else None
    base = st.session_state[choice.BASE] if kind == "own" else None
    if base:
        title = next((r.title for r in runs.list_recorded() if r.name == base), base)
        said = {
            "shows": f"Made of the recorded run “{title}”: its tokens are the script now.",
            "look": "No model runs: the scheduler and the block manager go on by themselves.",
        }
    if kind == "file":
        said = {"shows": choice.file_note(), "look": ""}
    if entry is not None:
        said = {"shows": entry.shows, "look": entry.look}
    if said is None:
        return
    shows, look = html.escape(said["shows"]), html.escape(said["look"])
    st.html(f'<p class="kv-about">{shows} <span>{look}</span></p>')
