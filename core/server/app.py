"""HTTP of the engine process. Every route asks for the token.

GET  /health    state, source, load; 503 while it cannot serve
GET  /models    the model that is loaded, with its geometry
POST /live      a request for the shared engine → NDJSON (see core/server/ndjson.py)
POST /scenario  a scenario of its own → NDJSON
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from core import jsonio
from core.errors import InputFileError, KVScopeError, ScenarioError
from core.record import check_supported
from core.scenario import Scenario
from core.server.body import LiveBody
from core.server.host import EngineHost
from core.server.limits import Busy, Limits, check_scenario
from core.server.ndjson import RunResponse
from core.server.outbox import Outbox
from core.version import VERSION

SUBMIT_S = 30.0
"""A live request is looked at between two steps; a longer wait means that the engine hangs."""


class TooLargeError(KVScopeError):
    """A body is larger than the limit."""


class BearerAuth:
    """ASGI middleware: 401 without the token. A token of None lets everybody in."""

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else b"bearer " + token.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._expected is not None:
            given = dict(scope["headers"]).get(b"authorization", b"")
            scheme, _, rest = given.partition(b" ")
            given = scheme.lower() + b" " + rest.strip()
            if not hmac.compare_digest(given, self._expected):
                answer = _error(401, "the token is missing or wrong")
                answer.headers["WWW-Authenticate"] = "Bearer"
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_app(host: EngineHost, token: str | None) -> Starlette:
    """The application; the host is started and stopped with it."""
    limits = host.limits

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        host.start()
        watch = asyncio.create_task(_watch(host))
        yield
        watch.cancel()
        await asyncio.to_thread(host.stop)

    async def health(request: Request) -> Response:
        status = host.status()
        code = 503 if status["status"] in ("stalled", "failed") else 200
        return JSONResponse({**status, "version": VERSION, "at": time.time()}, code, _NO_STORE)

    async def models(request: Request) -> Response:
        runner = host.runner
        listed = [] if runner is None else [describe_model(runner)]
        return JSONResponse({"models": listed}, headers=_NO_STORE)

    async def live(request: Request) -> Response:
        body = LiveBody.parse(jsonio.loads(await _body(request, limits)), host.settings.scenario)
        runner = _ready(host)
        spec = await asyncio.to_thread(body.spec, runner.tokenizer)
        outbox = Outbox(limits.max_behind)
        submitted = asyncio.wrap_future(host.submit_live(spec, outbox))
        try:
            await asyncio.wait_for(submitted, SUBMIT_S)
        except TimeoutError:
            outbox.close()
            raise Busy("the engine has not answered; it may hang", 10, 503) from None
        return _run_response(request, outbox, host, limits)

    async def scenario(request: Request) -> Response:
        asked = Scenario.from_json(await _body(request, limits))
        runner = _ready(host)
        if asked.model not in (host.settings.scenario.model, runner.source["model"]):
            raise ScenarioError(
                "model",
                f"{asked.model!r} is not loaded here; this engine has {runner.source['model']!r}",
            )
        check_supported(asked)
        check_scenario(asked, limits)
        outbox = Outbox(limits.max_behind)
        host.submit_scenario(asked, outbox)
        return _run_response(request, outbox, host, limits)

    return Starlette(
        routes=[
            Route("/health", health, methods=["GET"]),
            Route("/models", models, methods=["GET"]),
            Route("/live", live, methods=["POST"]),
            Route("/scenario", scenario, methods=["POST"]),
        ],
        middleware=[Middleware(BearerAuth, token=token)],
        lifespan=lifespan,
        exception_handlers={
            404: _not_found,
            405: _not_found,
            Busy: _busy,
            TooLargeError: _too_large,
            KVScopeError: _refused,
            ClientDisconnect: _refused,
        },
    )


def describe_model(runner: Any) -> dict[str, Any]:
    """The loaded model: its name, source, and what its KV cache's size follows from."""
    config = runner.config
    return {
        "id": runner.source["model"],
        "source": runner.source,
        "max_model_len": runner.max_model_len,
        "vocab_size": runner.vocab_size,
        "num_hidden_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "kv_bytes_per_token": runner.kv_bytes_per_token,
        "kv_cache_bytes": runner.kv_cache_bytes,
        "eos_token_ids": sorted(runner.eos_token_ids),
    }


async def _watch(host: EngineHost) -> None:
    """Tell everybody when the engine's thread hangs."""
    told = False
    while True:
        await asyncio.sleep(1)
        stalled_s = host.stalled_s()
        hangs = stalled_s > host.limits.stall_s
        if hangs and not told:
            host.give_up(f"the engine has not ended a step for {stalled_s:.0f} s")
        told = hangs


def _run_response(
    request: Request, outbox: Outbox, host: EngineHost, limits: Limits
) -> RunResponse:
    assert host.runner is not None
    everything = request.query_params.get("events") == "all"
    return RunResponse(
        outbox, host.runner.tokenizer, host.runner.vocab_size, limits, everything=everything
    )


def _ready(host: EngineHost) -> Any:
    """The runner. Raises Busy while the engine cannot take anything."""
    state = host.state()
    if state in ("ready", "busy") and host.runner is not None:
        return host.runner
    raise Busy(f"the engine is {state}", 2 if state == "starting" else 10, 503)


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, within limits of size and time. Raises TooLargeError, InputFileError."""

    async def read() -> bytes:
        out = bytearray()
        async for part in request.stream():
            out += part
            if len(out) > limits.max_body_bytes:
                raise TooLargeError(f"the body is larger than {limits.max_body_bytes:,} bytes")
        return bytes(out)

    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limits.max_body_bytes:
        raise TooLargeError(
            f"the body has {int(length):,} bytes; the limit is {limits.max_body_bytes:,}"
        )
    try:
        return await asyncio.wait_for(read(), limits.body_s)
    except TimeoutError:
        raise InputFileError(f"the body did not come within {limits.body_s:g} s") from None


_NO_STORE = {"Cache-Control": "no-store"}


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status, headers=_NO_STORE)


async def _not_found(request: Request, exc: Any) -> Response:
    return _error(exc.status_code, f"there is no {request.method} {request.url.path}")


async def _busy(request: Request, exc: Any) -> Response:
    answer = _error(exc.status, str(exc))
    answer.headers["Retry-After"] = str(exc.retry_after_s)
    return answer


async def _too_large(request: Request, exc: Any) -> Response:
    return _error(413, str(exc))


async def _refused(request: Request, exc: Any) -> Response:
    return _error(400, " ".join(str(exc).split()))
