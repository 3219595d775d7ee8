"""Addresses with a slash inside, which no page has: /a/b leads home.

Streamlit answers every unknown address with its own page, whose scripts are named relative to it,
so that below /a/ none of them is found and the page stays blank.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

SERVED = {"api", "app", "component", "engine", "media", "runs", "static"}
"""First parts of what the server answers itself, ours and Streamlit's; all with a _ are its too."""


class NestedHome:
    """ASGI middleware: a browser that goes to such an address is sent home, by a relative address,
    so that a proxy may serve the app below a path of its own."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not _is_nested(scope) or st.get_option("server.baseUrlPath"):
            await self.app(scope, receive, send)
            return
        up = "../" * (scope["path"].count("/") - 1)
        headers = [(b"location", up.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 302, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _is_nested(scope: dict[str, Any]) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    first, _, rest = scope["path"].strip("/").partition("/")
    goes = any(k == b"accept" and b"text/html" in v for k, v in scope["headers"])
    return bool(rest) and goes and first not in SERVED and not first.startswith("_")
