"""The chapter's example for 200 users: what it says, what the ledger finds, step by step."""

from __future__ import annotations

import html
from functools import lru_cache

import streamlit as st

from ui.claims import ledger
from ui.lesson import Lesson
from ui.planner import bench, figures, steps
from ui.planner.place import EXAMPLES

SECTION = "Worked example 11.1"


@lru_cache(maxsize=1)
def claims() -> tuple[tuple[str, str, str, str, str], ...]:
    """(step, id, what the chapter says, verdict, what is right) of all claims of the example."""
    out = []
    for id, claim in ledger.known().items():
        if claim.section.startswith(SECTION):
            step = claim.section.removeprefix(SECTION).strip(", ")
            out.append((step, id, claim.says, steps.verdict(id), claim.explanation))
    return tuple(sorted(out))


def values() -> dict[str, str]:
    """What the lesson's sentences name, of the designs as the library has them."""
    one, pairs, right = (figures.planned(EXAMPLES[name][1]) for name in ("one", "pairs", "start"))
    bad = sum(verdict in ("wrong", "inconsistent") for *_, verdict, _ in claims())
    pair_first = pairs.design.first_token.value or 0
    return {
        "claims": f"{len(claims())}",
        "bad": f"{bad}",
        "one": f"{one.design.streams:,}",
        "pair": f"{pairs.plan.batch:,}",
        "pair_miss": f"{1000 * (pairs.plan.prefill.value or 0):.0f}",
        "pair_hit": f"{1000 * pair_first:.0f}",
        "right_each": f"{right.plan.batch:,}",
        "right_gpus": f"{right.design.num_gpus:,}",
        "right_hit": f"{1000 * (right.design.first_token.value or 0):.0f}",
        "right_miss": f"{1000 * (right.plan.prefill.value or 0):.0f}",
        "users": f"{right.place.users:,}",
        "limit": f"{right.place.ttft:,}",
    }


def table() -> str:
    """The claims as HTML, each with its way to the ledger."""
    rows = []
    for step, id, says, verdict, right in claims():
        link = f'<a href="claims_ledger?claim={id}" target="_self">{id}</a>'
        cells = (html.escape(step), link, html.escape(says), html.escape(verdict))
        rows.append(
            "<tr>" + "".join(f"<td>{one}</td>" for one in (*cells, html.escape(right))) + "</tr>"
        )
    names = ("step", "claim", "the chapter", "verdict", "what is right")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<div class="kv-example words" tabindex="0" role="region" '
        'aria-label="The example\'s claims">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


@st.fragment
def draw(words: Lesson) -> None:
    """The example, folded up, with buttons that set the controls to its designs."""
    box = st.expander(
        "The chapter's design for 200 users, corrected",
        icon=":material/calculate:",
        key="cp.example",
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        st.markdown(words["example"].format(**values()))
        with st.container(horizontal=True):
            for name in ("one", "pairs", "start"):
                title, where = EXAMPLES[name]
                if st.button(f"Set: {title}", key=f"cp.example.{name}"):
                    bench.go(where)
                    st.rerun(scope="app")
        st.html(table())
        st.markdown(words["example-after"].format(**values()))
