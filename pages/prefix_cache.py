"""Prefix cache: prompts that begin alike share the work, in whole blocks from the first token."""

import streamlit as st

from ui import lesson
from ui.kit import code, page, store, text, transfer
from ui.prefix import predict, state, studies

CODE = {
    "Find a prefix in the tree": "core.prefix.radix_cache:RadixPrefixCache.match",
    "Put computed blocks in, splitting where prompts part": (
        "core.prefix.radix_cache:RadixPrefixCache.insert"
    ),
    "Split a node": "core.prefix.radix_cache:RadixPrefixCache._split",
    "A key chains its parent's": "core.kv.hashing:block_keys",
    "Find a prefix by its keys": "core.prefix.hash_cache:HashPrefixCache.match",
    "Give up a block": "core.prefix.base:PrefixCache.evict",
}

words = lesson.load("prefix_cache")
present = page.is_present()
state.start()

if not present:
    page.title(words)
    predict.draw(words)

studies.draw(words, present=present)

if not present:
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            code.draw(words["code"], CODE)
            transfer.draw("paging/prefix-hits", key="px.transfer")
            transfer.to_gate("prefix_cache")

store.keep(redraw=False)
