"""What the studies share: who may be run again, and what to offer where that cannot be."""

from __future__ import annotations

import streamlit as st

from core.errors import KVScopeError, ScenarioError
from core.scenario import Scenario
from ui import choice, player, runs
from ui.kit import states

SIMULATED = (
    '<span class="kv-prov simulated"><b>SIMULATED</b>'
    "<span>real scheduler and blocks, scripted tokens</span></span>"
)


def check(scenario: Scenario, max_tokens: int, max_slots: int) -> None:
    """Refuse what would be run several times and keep others waiting. Raises ScenarioError."""
    engine = scenario.engine
    slots = engine.num_blocks * engine.block_size
    tokens = sum(
        len(spec.prompt_tokens or ()) + len((spec.prompt or "").encode()) + spec.n * spec.max_tokens
        for spec in scenario.requests
    )
    for what, asked, most in (("slots", slots, max_slots), ("tokens", tokens, max_tokens)):
        if asked > most:
            raise ScenarioError(
                "", f"{asked:,} {what} are too many to run the scenario again and again: {most:,}"
            )
    if not scenario.requests:
        raise ScenarioError("", "This scenario has no requests, so there is nothing to compare.")


def base_of(chosen: str, base: str | None) -> str:
    """The recorded run that knows the texts of a choice's tokens; "" if there is none."""
    kind, _, name = chosen.partition(":")
    if kind == "run":
        return name
    return (base or "") if kind == "own" else ""


def instead(
    exc: KVScopeError,
    slug: str,
    action: str,
    *,
    key: str,
    played: runs.Played,
    present: bool,
) -> None:
    """This choice cannot be studied: why, a scenario that can, and the run as it is."""
    says = exc.message if isinstance(exc, ScenarioError) else str(exc)
    says = f"{says[0].upper()}{says[1:].rstrip('.')}."
    with st.container(key=f"kv-offline-{key}", horizontal=True, vertical_alignment="center"):
        states.notice(says)
        st.button(action, on_click=lambda: choice.choose(f"scenario:{slug}"), key=f"bp.{key}.go")
    choice.write_address()
    player.draw(played, present=present)
