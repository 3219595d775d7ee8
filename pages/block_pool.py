"""Block pool: where the tokens of a sequence lie, and who decides it."""

import streamlit as st

from core.errors import KVScopeError, ScenarioError
from ui import choice, lesson, own, player, predict, sources, views
from ui.block_lab import allocators, copies, hand, modes, sizes
from ui.kit import code, page, states, store, text, transfer

CODE = {
    "Give a sequence its blocks": "core.kv.manager:KVCacheManager.allocate_slots",
    "Take blocks from the pool": "core.kv.block_pool:BlockPool.allocate",
    "Share all blocks, copy none": "core.kv.manager:KVCacheManager.fork",
    "Give blocks back": "core.kv.manager:KVCacheManager.release",
    "Reserve one unbroken run instead": "core.kv.contiguous:ContiguousKVManager.admit",
    "Count what is held and not written": "core.trace.pool_metrics:pool_series",
}
ASKS = {
    "play": "paging/blocks",
    "hand": "paging/copies",
    "size": "paging/blocks",
    "paged": "paging/waste",
}

words = lesson.load("block_pool")
present = page.is_present()
choice.start()

edit = False
if not present:
    with st.container(key="kv-top", horizontal=True, vertical_alignment="bottom"):
        page.title(words)
        choice.select()
        edit = st.toggle("Change it", key="bp.edit")
        sources.files()
    if st.session_state[choice.VIEW] == "play":
        predict.draw(words)
    with st.container(key="kv-mode", horizontal=True, vertical_alignment="center"):
        mode = modes.select()
        views.about(st.session_state[choice.CHOICE])
else:
    mode = st.session_state[choice.VIEW]

address_problem = choice.write_address()
if st.session_state[choice.NOTICE]:
    st.warning(st.session_state[choice.NOTICE], icon=":material/link_off:")

if edit:
    with st.container(key="kv-editor"):
        st.markdown(words["own-help"])
        own.draw(choice.scenario_text())
else:
    own.park()

try:
    played = choice.current_run()
except KVScopeError as exc:
    refused = "refused-scenario" if isinstance(exc, ScenarioError) else "refused-run"
    states.refused(exc, words[refused])
else:
    if mode == "size":
        sizes.draw(words, played, present=present)
    elif mode == "paged":
        allocators.draw(words, played, present=present)
    else:
        if mode == "hand":
            hand.draw(played, present=present)
        player.draw(played, present=present)

if address_problem:
    st.caption(address_problem)

if present:
    modes.select()  # under the picture: on a projector the picture comes first
    choice.select()
else:
    with st.container(key="kv-words"):
        left, right = st.columns(2, gap="large")
        with left:
            text.objectives(words)
            text.levelled(words, "words")
        with right:
            copies.ask(words)
            with st.container(key="kv-moments"):
                st.markdown(words["moments"])
                copies.links()
            code.draw(words["code"], CODE)
            transfer.draw(ASKS[mode], key=f"bp.transfer.{mode}")
            transfer.to_gate("block_pool")

store.keep(redraw=False)
