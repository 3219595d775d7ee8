"""The app's own HTTP routes, on the same origin as its pages.

GET /api/health      what is installed, for a script or a load balancer
GET /runs/<name>     a recorded run, as the file that it is
GET /api/words       every word of the course, to be searched by the browser
/engine/…            the engine, for browsers (ui/live_routes.py)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ui import live_routes, nodelay, runs, status, warm
from ui.course import index


async def health(request: Request) -> Response:
    """The app answers; the engine may be absent, and that is said, not hidden."""
    state = status.engine_state()
    return JSONResponse(
        {
            "status": "ok",
            "version": status.version(),
            "warm": warm.done(),
            "torch_installed": state.torch_version is not None,
            "model_fetched": state.model_fetched,
            "recorded_runs": len(runs.recorded_names()),
        },
        headers={"Cache-Control": "no-store"},
    )


async def run_file(request: Request) -> Response:
    """A recorded run by its exact file name. Any other name is simply not there."""
    path = runs.recorded_path(request.path_params["name"])
    if path is None:
        return PlainTextResponse("There is no recorded run of that name.\n", status_code=404)
    return FileResponse(
        path,
        filename=path.name,
        media_type="application/gzip",
        headers={"X-Content-Type-Options": "nosniff"},
    )


async def words(request: Request) -> Response:
    """The words of the course, always compressed: each browser that runs the app unpacks it."""
    content, tag = await run_in_threadpool(index.body)
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(content, media_type="application/json", headers=headers)


ROUTES = [
    Route("/api/health", health, methods=["GET"]),
    Route("/runs/{name}", run_file, methods=["GET"]),
    Route("/api/words", words, methods=["GET"]),
    *live_routes.ROUTES,
]


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
    """Do the slow imports before the first visitor comes, and keep an engine at hand."""
    nodelay.switch_on()
    warm.start()
    async with live_routes.engine_lifespan():
        yield {}
