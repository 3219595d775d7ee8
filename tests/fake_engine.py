"""The app with a small stand-in for the engine's routes: recorded runs, streamed at a chosen pace.

Started by `streamlit run tests/fake_engine.py`. What it does is set by POST /fake: {"state",
"pause_ms", "lose_at", "refuse", "cut_at"}. It keeps the routes' contract and nothing of an engine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ui import warm
from ui.failure import show
from ui.routes import ROUTES
from ui.runs import recorded
from ui.static_gzip import MIDDLEWARE

PLAIN = {"state": "ready", "pause_ms": 15, "lose_at": None, "refuse": None, "cut_at": None}
setting: dict[str, Any] = dict(PLAIN)
runs: dict[str, dict[str, Any]] = {}
numbers = itertools.count(1)
SOURCE = {"device": "CPU", "dtype": "bfloat16", "model": "smollm2-135m-instruct"}


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    """The app's own, without an engine."""
    warm.start()
    yield {}


async def configure(request: Request) -> Response:
    setting.update(PLAIN | {"life": setting.get("life", 0) + 1} | await request.json())
    return JSONResponse(setting)


async def status(request: Request) -> Response:
    live = {"running": len(runs) and 1, "waiting": 0}
    return JSONResponse(
        {
            **{key: setting.get(key) for key in ("state", "life")},
            "label_source": SOURCE,
            "live": live,
            "queue": 0,
        }
    )


def _accept(name: str, asked: Any) -> Response:
    if setting["refuse"]:
        return JSONResponse({"error": setting["refuse"]}, 429, {"Retry-After": "3"})
    key = str(next(numbers))
    runs[key] = {"name": name, "asked": asked, "cancelled": False, "cut": False}
    return JSONResponse({"id": key}, 202)


async def live(request: Request) -> Response:
    return _accept("one_question", await request.json())


async def scenario(request: Request) -> Response:
    asked = await request.json()
    names = {
        "The prompt doubled": "prompt_doubled",
        "Batch 1 to 32": "batch_1_to_32",
        "KV cache on": "kv_cache_on",
        "KV cache off": "kv_cache_off",
    }
    return _accept(names[asked["name"]], asked)


async def cancel(request: Request) -> Response:
    runs[request.path_params["id"]]["cancelled"] = True
    return Response(status_code=204)


def _event(number: int, kind: str, data: Any) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


async def _events(run: dict[str, Any], after: int) -> AsyncIterator[str]:
    data = recorded(run["name"]).data()
    header = {**data["header"], "label": "LIVE"}
    texts = header.pop("token_text")
    seen = {str(t) for ids in header["prompts"].values() for t in ids}
    header["token_text"] = {t: texts[t] for t in seen}
    messages: list[tuple[str, Any]] = [("queue", {"position": 1}), ("header", header)]
    for step in data["steps"]:
        new = {str(e["token"]) for e in step["events"] if e["type"] == "token_sampled"} - seen
        seen |= new
        messages.append(("step", {**step, "token_text": {t: texts[t] for t in new}}))
    messages.append(("end", {"reason": "finished", "message": None}))
    yield ": open\n\n"
    for number, (kind, content) in enumerate(messages):
        if number <= after:
            continue
        if run["cancelled"]:
            yield _event(number, "end", {"reason": "cancelled", "message": None})
            return
        if setting["lose_at"] is not None and number >= setting["lose_at"]:
            yield _event(number, "end", {"reason": "engine_lost", "message": None})
            setting["state"] = "restarting"
            return
        if setting["cut_at"] == number and not run["cut"]:
            run["cut"] = True
            return
        yield _event(number, kind, content)
        await asyncio.sleep(setting["pause_ms"] / 1000)


async def events(request: Request) -> Response:
    run = runs.get(request.path_params["id"])
    if run is None:
        return Response(status_code=404)
    after = int(request.headers.get("last-event-id", -1))
    return StreamingResponse(_events(run, after), media_type="text/event-stream")


async def asked(request: Request) -> Response:
    return JSONResponse([run["asked"] for run in runs.values()])


FAKE = [
    Route("/fake", configure, methods=["POST"]),
    Route("/fake", asked, methods=["GET"]),
    Route("/engine/status", status),
    Route("/engine/live", live, methods=["POST"]),
    Route("/engine/scenario", scenario, methods=["POST"]),
    Route("/engine/runs/{id}/events", events),
    Route("/engine/runs/{id}", cancel, methods=["DELETE"]),
]

app = st.App(
    str(Path(__file__).resolve().parent.parent / "ui" / "shell.py"),
    routes=[*FAKE, *(r for r in ROUTES if not r.path.startswith("/engine"))],
    middleware=MIDDLEWARE,
    lifespan=lifespan,
    on_script_error=show,
)
