"""What a reader gets that wants a request's tokens and no more: no header, no steps.

("prompt", PromptRead)      once, when the prompt is computed
("tokens", [NewToken, …])   for each step that samples for the request
("end", {…})                as every reader gets it
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.request import Request, Sequence
from core.runner import TokenLogprobs
from core.server.outbox import Outbox


@dataclass(frozen=True, slots=True)
class PromptRead:
    """num_cached_tokens: prompt tokens found in the prefix cache. logprobs: of the prompt's tokens
    from the second on, where asked for, else empty."""

    num_cached_tokens: int
    logprobs: list[TokenLogprobs]


@dataclass(frozen=True, slots=True)
class NewToken:
    """One sampled token. index: of the sequence within its request. finish_reason: the engine's, if
    this token is the last one."""

    index: int
    token_id: int
    logprob: TokenLogprobs | None
    finish_reason: str | None


class TokenReader:
    """Tells an outbox what a step sampled for one request."""

    def __init__(self, request: Request, outbox: Outbox) -> None:
        self._request, self._outbox = request, outbox
        self._told_prompt = False

    def take(self, grown: Iterable[Sequence]) -> None:
        """The request's sequences that got a token in this step, in the order of sampling."""
        if not self._told_prompt:
            self._told_prompt = True
            request = self._request
            read = PromptRead(request.num_cached_tokens or 0, list(request.prompt_logprobs))
            self._outbox.put("prompt", read)
        self._outbox.put(
            "tokens",
            [
                NewToken(
                    seq.index,
                    seq.tokens[-1],
                    seq.logprobs[-1] if seq.logprobs else None,
                    seq.finish_reason,
                )
                for seq in grown
            ],
        )
