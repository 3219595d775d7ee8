"""Study "Your prompts": two to six texts, run one after another, and what they share."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import KVScopeError
from core.workloads_prefix import letter
from ui import engine_process
from ui.kit import states
from ui.lesson import Lesson
from ui.links import LinkError
from ui.prefix import live, pairs, place, state, tokens

APART, ANSWER = 4, 3
"""Steps from one prompt to the next, and tokens that each answer gets."""
_TEXTS, _LIVE = "px.own", "px.live"


def examples(words: Lesson) -> list[str]:
    """What stands in the boxes at first: the lesson's prompts, one a paragraph."""
    return [part.strip().replace("\n", " ") for part in words["own-examples"].split("\n\n")]


def texts(words: Lesson) -> list[str]:
    """The prompts in the boxes, from the link where it has some."""
    own = state.get("own")
    if own is None:
        return examples(words)
    try:
        return place.unpack_own(own)
    except LinkError:
        return examples(words)


def scenario(ids: list[list[int]], block_size: int, prefix_cache: str) -> dict[str, Any]:
    """The prompts as requests, each let in when the one before has been answered."""
    longest = max(map(len, ids), default=1) + ANSWER + 1
    blocks = sum(-(-(len(one) + ANSWER) // block_size) for one in ids)
    return {
        "schema": "scenario/1",
        "name": "Your prompts",
        "engine": {
            "num_blocks": blocks + 1,
            "block_size": block_size,
            "max_num_seqs": 4,
            "max_num_batched_tokens": max(longest, 16),
            "max_model_len": longest,
            "prefix_cache": prefix_cache,
        },
        "requests": [
            {
                "id": letter(i),
                "arrive_step": APART * i,
                "prompt_tokens": one,
                "max_tokens": ANSWER,
                "ignore_eos": True,
            }
            for i, one in enumerate(ids)
        ],
    }


def draw(words: Lesson, *, present: bool) -> None:
    given = texts(words)
    if not present:
        given = _boxes(words, given)
    if any(not one.strip() for one in given):
        states.notice(words["own-empty"])
        return
    block = state.get("block")
    here = st.session_state.get(_LIVE)
    try:
        if here is not None and here[0] == (given, block):
            pair = here[1]
        else:
            ids, shown = tokens.encode(given)
            made = {cache: scenario(ids, block, cache) for cache in ("hash", "radix")}
            pair = pairs.both("Your prompts", made, shown)
    except KVScopeError as exc:
        states.refused(exc, words["refused"])
        return
    state.instrument(pair, present=present, begin=min(APART, pair.last))


def _boxes(words: Lesson, given: list[str]) -> list[str]:
    """The boxes and their buttons; what stands in them."""
    st.markdown(words["own-help"].format(tokens=tokens.named()))
    count = len(given)
    with st.form("px.form", border=False):
        columns: list[Any] = []
        for i, text in enumerate(given):
            if i % 2 == 0:  # a row for each two, so that they stay in order on a phone
                columns = st.columns(2)
            with columns[i % 2]:
                st.text_area(
                    f"Prompt {letter(i)}",
                    text,
                    key=f"{_TEXTS}.{i}.{hash(text)}",
                    height=88,
                    max_chars=place.MAX_CHARS,
                )
        # All of them send the form, so that none leaves an edited text behind.
        with st.container(horizontal=True):
            run = st.form_submit_button("Run them", type="primary")
            st.form_submit_button(
                "One prompt more",
                on_click=lambda: _take([*_typed(given), _typed(given)[-1]]),
                disabled=count >= place.MAX_PROMPTS,
                key="px.more",
            )
            st.form_submit_button(
                "One less",
                on_click=lambda: _take(_typed(given)[:-1]),
                disabled=count <= place.MIN_PROMPTS,
                key="px.less",
            )
            there = engine_process.client() is not None
            live_too = there and st.form_submit_button("Run on the engine", key="px.engine")
    typed = _typed(given)
    st.selectbox(
        "Block size",
        place.BLOCKS,
        key=state.widget("block"),
        on_change=state.follow,
        args=("block",),
        width=112,
    )
    if live_too:
        _take(typed)
        _on_engine(words, typed)
    if run and typed != given:
        _take(typed)
        st.rerun(scope="fragment")
    return texts(words)


def _typed(given: list[str]) -> list[str]:
    """What stands in the boxes that were drawn with `given`."""
    return [
        st.session_state.get(f"{_TEXTS}.{i}.{hash(text)}", text) for i, text in enumerate(given)
    ]


def _take(typed: list[str]) -> None:
    packed = place.pack_own(typed)
    if packed is None:
        st.session_state[state.NOTICE] = "These prompts are too long for a link; shorten them."
        return
    state.change(own=packed)


def _on_engine(words: Lesson, typed: list[str]) -> None:
    """The same prompts on the real model: LIVE in the tree, and its twin beside it."""
    block = state.get("block")
    ids, _ = tokens.encode(typed)
    given = scenario(ids, block, "radix")
    try:
        with st.spinner(words["own-running"]):
            run = live.run(given, typed)
        st.session_state[_LIVE] = ((typed, block), pairs.of_run(run))
    except KVScopeError as exc:
        states.notice(str(exc))
