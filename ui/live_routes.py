"""The engine, for browsers: routes on the app's own origin.

    GET    /engine/status             what can be asked for now, as JSON
    POST   /engine/live               a request for the engine that all share → 202 {id}
    POST   /engine/scenario           a scenario of its own → 202 {id}
    GET    /engine/runs/{id}/events   the run as server-sent events; Last-Event-ID resumes
    DELETE /engine/runs/{id}          cancel

The browser never learns where the engine is. A cookie that scripts cannot read tells browsers
apart: their runs, and (as the salt of their prefix-cache keys) their prompts.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from core import jsonio
from core.client import EngineRefusedError, EngineUnreachableError, RunStream
from core.errors import InputFileError, KVScopeError
from ui import engine_process
from ui.live_runs import LiveRun, LiveRuns
from ui.sse import EventResponse

Json = dict[str, Any]
COOKIE = "kv_scope_browser"
COOKIE_S = 30 * 24 * 3600
MAX_BODY_BYTES = 1 << 20
BODY_S = 10.0
NO_STORE = {"Cache-Control": "no-store"}

RUNS = LiveRuns()
# Of its own: while an engine hangs, those who ask it must not hold up everything else.
_ASKING = ThreadPoolExecutor(max_workers=16, thread_name_prefix="ask-engine")


def status_json() -> Json:
    """What a browser may know of the engine."""
    seen = engine_process.seen()
    health = seen.health
    source = health.get("source") or {}
    model = {k: v for k, v in seen.models[0].items() if k != "source"} if seen.models else None
    return {
        "state": seen.state,
        "message": seen.message,
        "life": health.get("life"),
        "label_source": {
            key: source.get(key) for key in ("device", "processor", "dtype", "model", "kernels")
        },
        "model": model,
        "engine": health.get("engine"),
        "live": health.get("live") or {"running": 0, "waiting": 0},
        "queue": health.get("queue", 0),
        "usage": health.get("usage"),
        "load": health.get("load"),
    }


async def engine_status(request: Request) -> Response:
    answer = JSONResponse(status_json(), headers=NO_STORE)
    _browser(request, answer)
    return answer


async def live(request: Request) -> Response:
    return await _submit(request, _ask_live)


async def scenario(request: Request) -> Response:
    return await _submit(request, _ask_scenario)


async def events(request: Request) -> Response:
    run = _own_run(request)
    if run is None:
        return _error(404, "There is no such run; it may have ended a while ago.")
    try:
        last = int(request.headers.get("last-event-id", "-1"))
    except ValueError:
        last = -1
    if run.is_last(last):
        return Response(status_code=204)  # all is read: an EventSource stops asking
    try:
        RUNS.follow(run)
    except EngineRefusedError as exc:
        return _refusal(exc)
    return EventResponse(run, max(-1, last), lambda: RUNS.leave(run))


async def cancel(request: Request) -> Response:
    if not _same_origin(request):
        return _error(403, "This page does not come from here.")
    run = _own_run(request)
    if run is None:
        return _error(404, "There is no such run.")
    run.cancel()
    return Response(status_code=204)


ROUTES = [
    Route("/engine/status", engine_status, methods=["GET"]),
    Route("/engine/live", live, methods=["POST"]),
    Route("/engine/scenario", scenario, methods=["POST"]),
    Route("/engine/runs/{id}/events", events, methods=["GET"]),
    Route("/engine/runs/{id}", cancel, methods=["DELETE"]),
]


@asynccontextmanager
async def engine_lifespan() -> AsyncIterator[None]:
    """The engine starts and ends with the app; runs that nobody follows are ended."""
    engine_process.start()
    watch = asyncio.create_task(_look_for_abandoned())
    try:
        yield
    finally:
        watch.cancel()
        RUNS.cancel_all()
        await asyncio.to_thread(engine_process.stop)


async def _look_for_abandoned() -> None:
    while True:
        await asyncio.sleep(2)
        RUNS.cancel_abandoned()


# ---- submitting ---------------------------------------------------------------------------------


def _ask_live(body: Json, salt: str) -> RunStream:
    if "cache_salt" in body:
        raise EngineRefusedError(400, "cache_salt: this server gives each browser one of its own")
    shared = body.pop("share_prefixes", False)
    if shared not in (True, False):
        raise EngineRefusedError(400, "share_prefixes: true or false")
    return _engine().live({**body, "cache_salt": None if shared else salt})


def _ask_scenario(body: Json, salt: str) -> RunStream:
    return _engine().scenario(body)  # its pool is its own


def _engine() -> Any:
    client = engine_process.client()
    if client is None:
        seen = engine_process.seen()
        raise EngineRefusedError(503, seen.message or f"The engine is {seen.state}.", 5)
    return client


async def _submit(request: Request, ask: Callable[[Json, str], RunStream]) -> Response:
    if not _same_origin(request):
        return _error(403, "This page does not come from here.")
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        return _error(415, "Send JSON, as application/json.")
    try:
        body = jsonio.loads(await _body(request))
        if not isinstance(body, dict):
            raise InputFileError("a JSON object is asked for")
    except ClientDisconnect:
        return _error(400, "the body broke off")
    except EngineRefusedError as exc:
        return _refusal(exc)
    except InputFileError as exc:
        return _error(400, str(exc))
    answer = JSONResponse({}, status_code=202, headers=NO_STORE)
    owner, salt = _browser(request, answer)
    asking = asyncio.get_running_loop().run_in_executor(
        _ASKING, lambda: RUNS.submit(owner, lambda: ask(body, salt))
    )
    try:
        run = await asking
    except EngineRefusedError as exc:
        return _refusal(exc)
    except EngineUnreachableError:
        return _refusal(EngineRefusedError(503, "The engine does not answer.", 5))
    except KVScopeError as exc:
        return _error(400, str(exc))
    answer.body = answer.render({"id": run.id})
    answer.headers["content-length"] = str(len(answer.body))
    return answer


async def _body(request: Request) -> bytes:
    async def read() -> bytes:
        out = bytearray()
        async for part in request.stream():
            out += part
            if len(out) > MAX_BODY_BYTES:
                raise EngineRefusedError(413, f"the body is larger than {MAX_BODY_BYTES:,} bytes")
        return bytes(out)

    try:
        return await asyncio.wait_for(read(), BODY_S)
    except TimeoutError:
        raise EngineRefusedError(408, f"the body did not come within {BODY_S:g} s") from None


# ---- whose browser ------------------------------------------------------------------------------


def _browser(request: Request, answer: Response) -> tuple[str, str]:
    """Who owns this browser's runs, and the salt of its prompts; sets the cookie if there is none.

    What the engine and its runs get to see are digests: nobody can take the cookie from a run.
    """
    secret = request.cookies.get(COOKIE, "")
    if not 16 <= len(secret) <= 64:
        secret = secrets.token_urlsafe(18)
        answer.set_cookie(
            COOKIE,
            secret,
            max_age=COOKIE_S,
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return _digest("owner", secret), _digest("salt", secret)


def _digest(what: str, secret: str) -> str:
    return hashlib.sha256(f"{what} {secret}".encode()).hexdigest()[:16]


def _own_run(request: Request) -> LiveRun | None:
    owner = _digest("owner", request.cookies.get(COOKIE, ""))
    return RUNS.get(request.path_params["id"], owner)


def _same_origin(request: Request) -> bool:
    """Not sent by a page of another site."""
    fetched = request.headers.get("sec-fetch-site")
    if fetched is not None:
        return fetched in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _error(code: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=code, headers=NO_STORE)


def _refusal(exc: EngineRefusedError) -> JSONResponse:
    answer = _error(exc.status if exc.status != 401 else 503, str(exc))
    if exc.status == 401:
        answer = _error(503, "The engine refuses this app's token.")
    if exc.retry_after_s is not None:
        answer.headers["Retry-After"] = str(exc.retry_after_s)
    return answer
