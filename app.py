"""The web app: `streamlit run app.py`.

This file holds the server: Streamlit with our own same-origin routes beside it. The script that
draws the pages is ui/shell.py. The process never imports torch.
"""

import streamlit as st
from starlette.middleware import Middleware

from ui.failure import show
from ui.nested import NestedHome
from ui.routes import ROUTES, lifespan
from ui.static_gzip import MIDDLEWARE

app = st.App(
    "ui/shell.py",
    routes=ROUTES,
    middleware=[*MIDDLEWARE, Middleware(NestedHome)],
    lifespan=lifespan,
    on_script_error=show,
)
