"""Study "Eviction": four policies on one workload, and a leaf that is taken away."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cache

import streamlit as st

from core.trace.prefix_metrics import hit_rate, kept, lookups, totals
from core.workloads_prefix import LEAF_BLOCKS, system_prompt
from ui.components.series import label_of, series
from ui.kit import page
from ui.lesson import Lesson
from ui.prefix import pairs, state


@dataclass(frozen=True, slots=True)
class Policy:
    """name: as people call it. prefix_cache, eviction: the engine's settings that give it."""

    name: str
    prefix_cache: str
    eviction: str
    style: str


POLICIES = (
    Policy("LRU", "radix", "lru", "a"),
    Policy("FIFO", "hash", "fifo", "b"),
    Policy("leaf-first FIFO", "radix", "fifo", "c"),
    Policy("LFU", "radix", "lfu", "d"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What a policy came to: tokens computed, the hit rate, blocks evicted, the chats that found
    the whole system prompt and those that found nothing of it, the first chat left out."""

    policy: Policy
    computed: int
    hit_rate: float
    evicted: int
    found: tuple[str, ...]
    lost: tuple[str, ...]
    kept: tuple[int, ...]
    rates: tuple[float | None, ...]


@cache
def compared() -> tuple[Row, ...]:
    """Every policy on the hot system prompt."""
    head = system_prompt()
    out = []
    for policy in POLICIES:
        run = pairs.policy(policy.prefix_cache, policy.eviction)
        size = run["header"]["scenario"]["engine"]["block_size"]
        chats = [
            one
            for one in lookups(run)
            if run["header"]["prompts"][one.request][: len(head)] == head
        ][1:]
        total = totals(run)
        whole = len(head) // size
        out.append(
            Row(
                policy,
                total.computed,
                total.hit_rate,
                total.evicted,
                tuple(one.request for one in chats if one.hit_blocks >= whole),
                tuple(one.request for one in chats if one.hit_blocks < whole),
                tuple(kept(run, head)),
                tuple(hit_rate(run)),
            )
        )
    return tuple(out)


def draw(words: Lesson, *, present: bool) -> None:
    rows = compared()
    st.html(f'<h2 class="kv-px-h2">{html.escape(words["evict-title"])}</h2>')
    if not present:
        st.markdown(words["evict-help"])
    run = pairs.policy(rows[0].policy.prefix_cache, rows[0].policy.eviction)
    shared = {
        "x": {"label": "step", "last": len(run["steps"]) - 1},
        "label": label_of(run["header"]),
        "present": present,
    }
    left, right = st.columns(2, gap="medium")
    with left:
        series(
            {
                **shared,
                "title": "Blocks of the system prompt that can be found",
                "unit": "blocks",
                "lines": [
                    {"name": r.policy.name, "values": list(r.kept), "style": r.policy.style}
                    for r in rows
                ],
            },
            key="px.kept",
        )
    with right:
        series(
            {
                **shared,
                "title": "Hit rate so far",
                "unit": "%",
                "lines": [
                    {
                        "name": r.policy.name,
                        "values": [None if v is None else round(100 * v, 2) for v in r.rates],
                        "style": r.policy.style,
                    }
                    for r in rows
                ],
            },
            key="px.rates",
        )
    st.html(_table(rows))
    if present:
        page.bar()  # the way back
        return
    st.markdown(words["leaf-help"])
    st.slider(
        "Cached blocks that F takes",
        0,
        LEAF_BLOCKS,
        key=state.widget("take"),
        on_change=state.follow,
        args=("take",),
        width=420,
    )
    take = state.get("take")
    pair = pairs.leaf("A leaf is evicted, and the next miss", take)
    st.markdown(leaf_sentence(pair, take))
    state.instrument(pair, present=present, begin=4)


def leaf_sentence(pair: pairs.Pair, take: int) -> str:
    """What was taken and what the next request missed, counted in the run."""
    last = pair.lookups[-1]
    lost = last.most_blocks - last.hit_blocks
    took = f"F takes **{take}** cached {'block' if take == 1 else 'blocks'} of A, from the tail."
    if not take:
        took = "F finds enough free blocks and takes no cached one."
    if not lost:
        more = " The last whole block could not have hit in any case." if take else ""
        return f"{took} B finds all **{last.most_blocks}** blocks that it could.{more}"
    computed = f"{last.computed} of its {last.num_tokens} tokens are computed again."
    return f"{took} B finds **{last.hit_blocks}** of {last.most_blocks} blocks: {computed}"


def _table(rows: tuple[Row, ...]) -> str:
    body = "".join(
        f"<tr><th scope='row'>{html.escape(r.policy.name)}</th>"
        f"<td><code>prefix_cache {r.policy.prefix_cache}, eviction {r.policy.eviction}</code></td>"
        f"<td class='n'>{r.computed:,}</td><td class='n'>{100 * r.hit_rate:.0f}\u2009%</td>"
        f"<td class='n'>{r.evicted}</td><td>{', '.join(r.found)}</td>"
        f"<td>{', '.join(r.lost) or 'none'}</td></tr>"
        for r in rows
    )
    heads = (
        ("Policy", ""),
        ("Set by", ""),
        ("Tokens computed", "n"),
        ("Hit rate", "n"),
        ("Blocks evicted", "n"),
        ("Chats that found it", ""),
        ("Chats that lost it", ""),
    )
    head = "".join(f"<th scope='col' class='{kind}'>{name}</th>" for name, kind in heads)
    return (
        "<div class='kv-px-table' tabindex='0' role='region' aria-label='Four policies'>"
        f"<table><caption>The same requests under four policies, SIMULATED</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
