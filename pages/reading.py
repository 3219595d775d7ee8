"""A lesson to read. Which one, the address says: the script is the same for all of them."""

import streamlit as st

from ui import nav
from ui.reading import page

page.draw(st.session_state[nav.HERE])
