"""One HTTP request's prompts in the engine: its turns, its tokens as they come, its choices."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import suppress
from time import monotonic
from typing import Any

from core.errors import KVScopeError, RequestError, ScenarioError
from core.model.detokenizer import IncrementalDetokenizer
from core.model.tokenizer import Tokenizer
from core.request import Request
from core.runner import Runner
from core.scenario import RequestSpec
from core.sched.admission import reject
from core.server.fair import Turn
from core.server.host import EngineHost
from core.server.limits import Busy
from core.server.openai.errors import ApiError
from core.server.outbox import Item, Outbox
from core.server.tokens import NewToken

Event = tuple[int, str, Any]
"""(prompt, "prompt" | "tokens", value): see `core.server.tokens`."""

MAX_UNREAD = 64
"""Events that may wait between the engine's readers and the answer; then the outboxes fill up."""

SUBMIT_S = 30.0
"""A request is looked at between two steps; a longer wait means that the engine hangs."""

_BROKEN = {"engine_lost": 503, "timeout": 503}


def check_requests(specs: list[RequestSpec], host: EngineHost, runner: Runner) -> None:
    """Refuse before anything is queued what can never be served. Raises RequestError with the
    numbers, ScenarioError for a token outside the vocabulary."""
    config = host.settings.scenario.engine
    for spec in specs:
        tokens = spec.prompt_tokens or ()
        limit = runner.vocab_size
        if limit is not None and tokens and max(tokens) >= limit:
            raise ScenarioError(
                "prompt",
                f"token id {max(tokens)} is outside the model's vocabulary of {limit:,}",
            )
        rejection = reject(config, Request(spec, array("q", tokens), 0))
        if rejection is not None:
            raise RequestError(str(rejection))


class Generation:
    """What the engine makes of some prompts: an async context, and within it an iterator of events.

    specs: checked (`check_requests`). client: in whose turn. Leaving the context ends whatever is
    not finished, and its blocks are free after the next step.
    """

    def __init__(self, host: EngineHost, specs: list[RequestSpec], client: str) -> None:
        self._host, self._specs, self._client = host, specs, client
        self._asked_at = monotonic()
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(MAX_UNREAD)
        self._turns: list[Turn] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Generation:
        """Take a place in the queue. Raises Busy."""
        asked = [(spec.n, len(spec.prompt_tokens or ())) for spec in self._specs]
        self._turns = self._host.turns.book(self._client, list(asked))
        self._tasks = [asyncio.create_task(self._follow(i)) for i in range(len(self._specs))]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for turn in self._turns:
            turn.end()

    async def events(self, silence_s: float) -> AsyncIterator[Event | None]:
        """All events to the end; None whenever nothing has come for `silence_s`.

        Raises ApiError if the engine gives up.
        """
        left = len(self._specs)
        while left:
            try:
                event = await asyncio.wait_for(self._events.get(), silence_s)
            except TimeoutError:
                yield None
                continue
            if event is None:
                left -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event

    async def _follow(self, i: int) -> None:
        """One prompt: wait for its turn, submit it, pass on what it brings."""
        turn, num_tokens = self._turns[i], 0
        outbox = Outbox(self._host.limits.max_behind)
        try:
            await turn.come()
            await self._submit(self._specs[i], outbox)
            while True:
                kind, value = await _next(outbox)
                if kind == "end":
                    _check_end(value)
                    break
                if kind == "tokens":
                    num_tokens += len(value)
                await self._events.put((i, kind, value))
            turn.end(num_tokens)
            await self._events.put(None)
        except Exception as exc:
            await self._events.put(exc)
        finally:
            outbox.close()
            turn.end(num_tokens)

    async def _submit(self, spec: RequestSpec, outbox: Outbox) -> None:
        submitted = asyncio.wrap_future(self._host.submit_tokens(spec, outbox, self._asked_at))
        try:
            await asyncio.wait_for(submitted, SUBMIT_S)
        except TimeoutError:
            raise Busy("the engine has not answered; it may hang", 10, 503) from None


async def _next(outbox: Outbox) -> Item:
    while True:
        item = await outbox.get(60.0)
        if item is not None:
            return item


def _check_end(end: dict[str, Any]) -> None:
    if end["end"] != "finished":
        message = end["message"] or f"the request was {end['end']}"
        raise ApiError(_BROKEN.get(end["end"], 500), message)


class Choice:
    """One answer as it grows. tokens: those sampled so far. finish_reason: in OpenAI's words."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
        stops = [text.encode() for text in stop]
        self._texts = IncrementalDetokenizer(tokenizer, stop=stops)
        self._pieces: list[str] = []
        self.tokens: list[NewToken] = []
        self.finish_reason: str | None = None

    @property
    def text(self) -> str:
        """Whole characters only, and nothing that a stop string cuts off."""
        return "".join(self._pieces)

    def take(self, token: NewToken) -> str:
        """A token more: what it adds to the text."""
        piece = self._texts.push([token.token_id])
        if token.finish_reason is not None:
            piece += self._texts.finish(cut=token.finish_reason == "stop_string")
            length = token.finish_reason in ("max_tokens", "max_model_len")
            self.finish_reason = "length" if length else "stop"
        self.tokens.append(token)
        self._pieces.append(piece)
        return piece


class Usage:
    """Tokens of a whole HTTP request."""

    def __init__(self, specs: list[RequestSpec]) -> None:
        self._num_prompt_tokens = sum(len(spec.prompt_tokens or ()) for spec in specs)
        self.num_output_tokens = 0
        self.num_cached_tokens = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self._num_prompt_tokens,
            "completion_tokens": self.num_output_tokens,
            "total_tokens": self._num_prompt_tokens + self.num_output_tokens,
            "prompt_tokens_details": {"cached_tokens": self.num_cached_tokens},
        }


def token_name(tokenizer: Tokenizer, token_id: int) -> str:
    """A token as text; bytes that are no whole characters are written bytes:\\xe2\\x80."""
    data = tokenizer.token_bytes(token_id)
    with suppress(UnicodeDecodeError):
        return data.decode()
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def submission_error(exc: KVScopeError) -> ApiError:
    """A refusal in one line."""
    param = exc.path or None if isinstance(exc, ScenarioError) else None
    return ApiError(400, " ".join(str(exc).split()), param)
