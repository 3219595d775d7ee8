"""The routes under /v1."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from core import jsonio
from core.errors import KVScopeError
from core.model.model_runner import ModelRunner
from core.scenario import RequestSpec
from core.server.host import EngineHost
from core.server.http import NO_STORE, TooLargeError, read_body, ready_runner
from core.server.limits import Busy
from core.server.openai.answer import Answer, Writer
from core.server.openai.chat import ChatBody, ChatWriter
from core.server.openai.completions import CompletionBody, CompletionWriter
from core.server.openai.errors import ApiError
from core.server.openai.generation import Generation, check_requests, submission_error
from core.server.openai.params import Params

Endpoint = Callable[[Request], Awaitable[Response]]


def openai_routes(host: EngineHost) -> list[Route]:
    """All of them, on the host's live engine."""
    began = int(time.time())

    def described(runner: ModelRunner) -> dict[str, Any]:
        return {
            "id": runner.source["model"],
            "object": "model",
            "created": began,
            "owned_by": "kv-scope",
            "max_model_len": host.settings.scenario.engine.max_model_len,
        }

    async def models(request: Request) -> Response:
        listed = [described(ready_runner(host))]
        return JSONResponse({"object": "list", "data": listed}, headers=NO_STORE)

    async def model(request: Request) -> Response:
        one = described(ready_runner(host))
        if request.path_params["name"] != one["id"]:
            raise ApiError(404, "this model is not loaded here", "model", "model_not_found")
        return JSONResponse(one, headers=NO_STORE)

    async def completions(request: Request) -> Response:
        runner, settings = ready_runner(host), host.settings.scenario
        data = jsonio.loads(await read_body(request, host.limits))
        model_id, most = runner.source["model"], host.limits.max_prompts
        body = CompletionBody.parse(data, settings, model_id, most)
        specs = await asyncio.to_thread(body.specs, runner.tokenizer)
        writer = CompletionWriter(body, specs, runner.tokenizer)
        return answer(request, runner, specs, body.params, writer)

    async def chat(request: Request) -> Response:
        runner, settings = ready_runner(host), host.settings.scenario
        data = jsonio.loads(await read_body(request, host.limits))
        body = ChatBody.parse(data, settings, runner.source["model"])
        specs = await asyncio.to_thread(body.specs, runner.tokenizer, settings.engine)
        writer = ChatWriter(body, specs, runner.tokenizer)
        return answer(request, runner, specs, body.params, writer)

    def answer(
        request: Request,
        runner: ModelRunner,
        specs: list[RequestSpec],
        params: Params,
        writer: Writer,
    ) -> Response:
        check_requests(specs, host, runner)
        address = request.client.host if request.client else ""
        # Tagged by kind: a user who is called like an address is not that address.
        client = f"address {address}" if params.client is None else f"user {params.client}"
        generation = Generation(host, specs, client)
        return Answer(generation, writer, host.limits, stream=params.stream)

    return [
        Route("/v1/models", _guarded(models), methods=["GET"]),
        Route("/v1/models/{name:path}", _guarded(model), methods=["GET"]),
        Route("/v1/completions", _guarded(completions), methods=["POST"]),
        Route("/v1/chat/completions", _guarded(chat), methods=["POST"]),
    ]


def _guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint, its refusals in OpenAI's shape."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ApiError as exc:
            return exc.response()
        except Busy as exc:
            return ApiError(exc.status, str(exc)).response(exc.retry_after_s)
        except TooLargeError as exc:
            return ApiError(413, str(exc)).response()
        except KVScopeError as exc:
            return submission_error(exc).response()
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    return guarded
