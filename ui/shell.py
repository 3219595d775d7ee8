"""The script behind every page: navigation first, then the frame, then the page.

Navigation is declared before any slow import: on a first visit the browser would otherwise show
raw file names until the imports end.
"""

import sys
from pathlib import Path

import streamlit as st

_ROOT = Path(__file__).resolve().parent.parent
if str(_ROOT) not in sys.path:  # a tool may run this script from elsewhere
    sys.path.insert(0, str(_ROOT))

from ui import nav  # noqa: E402

present = st.query_params.get("present") == "1"
page = st.navigation(nav.sections(), position="hidden" if present else "sidebar", expanded=True)

from ui import frame, warm  # noqa: E402

st.session_state[nav.HERE] = page.url_path

st.set_page_config(
    page_title="KV Scope" if page.title == "Home" else f"{page.title} · KV Scope",
    page_icon=str(_ROOT / "ui" / "assets" / "mark.svg"),
    layout="wide",
)
warm.start()
frame.draw(page.url_path, present=present)
page.run()
