"""HTTP of the engine process. Every route asks for the token.

GET  /health    state, source, load; 503 once it can serve no more
GET  /ready     200 while it takes requests, else 503: not yet, or no more
GET  /metrics   for Prometheus (see core/server/metrics.py)
GET  /models    the model that is loaded, with its geometry
POST /live      a request for the shared engine → NDJSON (see core/server/ndjson.py)
POST /scenario  a scenario of its own → NDJSON
/v1/…           OpenAI's interface to the shared engine (see core/server/openai)
"""

from __future__ import annotations

import asyncio
import hashlib
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
from core.errors import KVScopeError, ScenarioError
from core.record import check_supported
from core.scenario import Scenario
from core.server.body import LiveBody
from core.server.host import EngineHost
from core.server.http import NO_STORE, TooLargeError, read_body, ready_runner
from core.server.limits import Busy, Limits, check_scenario
from core.server.metrics import CONTENT_TYPE
from core.server.ndjson import RunResponse
from core.server.openai.errors import ApiError
from core.server.openai.routes import openai_routes
from core.server.outbox import Outbox
from core.version import VERSION

SUBMIT_S = 30.0
"""A live request is looked at between two steps; a longer wait means that the engine hangs."""


class BearerAuth:
    """ASGI middleware: 401 without the token. A token of None lets everybody in."""

    def __init__(self, app: Any, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else _digest(b"bearer " + token.encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._expected is not None:
            given = dict(scope["headers"]).get(b"authorization", b"")
            scheme, _, rest = given.partition(b" ")
            given = scheme.lower() + b" " + rest.strip()
            # Digests have one length: the time to compare them tells nothing, not even that one.
            if not hmac.compare_digest(_digest(given), self._expected):
                answer = _refusal(scope["path"], 401, "the token is missing or wrong")
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
        return JSONResponse({**status, "version": VERSION, "at": time.time()}, code, NO_STORE)

    async def ready(request: Request) -> Response:
        state = host.state()
        code = 200 if state in ("ready", "busy") else 503
        return JSONResponse({"status": state}, code, NO_STORE)

    async def metrics(request: Request) -> Response:
        if host.metrics is None:
            raise Busy(f"the engine is {host.state()}", 2, 503)
        return Response(host.metrics.render(), headers=NO_STORE, media_type=CONTENT_TYPE)

    async def models(request: Request) -> Response:
        runner = host.runner
        listed = [] if runner is None else [describe_model(runner)]
        return JSONResponse({"models": listed}, headers=NO_STORE)

    async def live(request: Request) -> Response:
        body = LiveBody.parse(
            jsonio.loads(await read_body(request, limits)), host.settings.scenario
        )
        runner = ready_runner(host)
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
        asked = Scenario.from_json(await read_body(request, limits))
        runner = ready_runner(host)
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
            Route("/ready", ready, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/models", models, methods=["GET"]),
            Route("/live", live, methods=["POST"]),
            Route("/scenario", scenario, methods=["POST"]),
            *openai_routes(host),
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


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _refusal(path: str, status: int, message: str) -> JSONResponse:
    """An error in the shape that clients of the path know."""
    if path.startswith("/v1/"):
        return ApiError(status, message).response()
    return JSONResponse({"error": message}, status_code=status, headers=NO_STORE)


async def _not_found(request: Request, exc: Any) -> Response:
    path = request.url.path
    return _refusal(path, exc.status_code, f"there is no {request.method} {path}")


async def _busy(request: Request, exc: Any) -> Response:
    answer = _refusal(request.url.path, exc.status, str(exc))
    answer.headers["Retry-After"] = str(exc.retry_after_s)
    return answer


async def _too_large(request: Request, exc: Any) -> Response:
    return _refusal(request.url.path, 413, str(exc))


async def _refused(request: Request, exc: Any) -> Response:
    return _refusal(request.url.path, 400, " ".join(str(exc).split()))
