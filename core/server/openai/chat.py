"""POST /v1/chat/completions: a conversation, through the model's own chat template."""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass
from typing import Any

from core.config import EngineConfig
from core.model.tokenizer import Tokenizer
from core.runner import TokenLogprobs
from core.scenario import RequestSpec, Scenario
from core.server.body import MAX_MESSAGES
from core.server.openai.errors import ApiError
from core.server.openai.generation import Choice, Usage, token_name
from core.server.openai.params import MAX_TOP_LOGPROBS, Body, Params
from core.server.tokens import NewToken

Json = dict[str, Any]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class ChatBody:
    """messages: role and content, both texts. max_tokens: None for as many as fit. logprobs: how
    many of the likeliest tokens to name, None for no log-probabilities."""

    model: str
    messages: list[dict[str, str]]
    params: Params
    max_tokens: int | None
    logprobs: int | None

    @classmethod
    def parse(cls, data: Any, settings: Scenario, model: str) -> ChatBody:
        """Check. Raises ApiError."""
        body = Body(data)
        body.model(frozenset({model, settings.model}))
        messages = _messages(body.take("messages", list))
        old = body.integer("max_tokens", 1, 1 << 24)
        max_tokens = body.integer("max_completion_tokens", 1, 1 << 24, old)
        wanted = body.take("logprobs", bool, False)
        num_tops = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
        if num_tops is not None and not wanted:
            raise ApiError(400, "top_logprobs: only with logprobs", "top_logprobs")
        params = body.params(settings)
        return cls(model, messages, params, max_tokens, (num_tops or 0) if wanted else None)

    def specs(self, tokenizer: Tokenizer, config: EngineConfig) -> list[RequestSpec]:
        """The engine's request, in a list. Runs the chat template, which takes 0.1 s."""
        text = tokenizer.apply_chat_template(self.messages)
        # The template writes the control tokens itself, the one at the beginning among them.
        tokens = tuple(tokenizer.encode(text, add_special_tokens=False))
        spec = dataclasses.replace(
            self.params.spec,
            prompt_tokens=tokens,
            # A scenario's 0 asks for none at all, so 0 here (the token's own alone) asks for one.
            logprobs=0 if self.logprobs is None else max(1, self.logprobs),
        )
        most = self.max_tokens or _most_tokens(config, len(tokens), spec.n)
        return [dataclasses.replace(spec, max_tokens=most)]


def _most_tokens(config: EngineConfig, num_prompt_tokens: int, n: int) -> int:
    """Output tokens for which both the context and the pool have room, at least 1."""
    shared = num_prompt_tokens // config.block_size
    blocks = shared + (config.num_blocks - shared) // n
    # The last token sampled needs no slot.
    most = min(config.max_model_len, blocks * config.block_size + 1)
    return max(1, most - num_prompt_tokens)


def _messages(given: Any) -> list[dict[str, str]]:
    if given is None or not 1 <= len(given) <= MAX_MESSAGES:
        raise ApiError(400, f"messages: a list of 1 to {MAX_MESSAGES}", "messages")
    return [_message(message, f"messages[{i}]") for i, message in enumerate(given)]


def _message(message: Any, path: str) -> dict[str, str]:
    known = isinstance(message, dict) and message.keys() <= {"role", "content", "name"}
    if not known:
        raise ApiError(400, f"{path}: an object with role and content", "messages")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ApiError(400, f"{path}.role: one of {', '.join(_ROLES)}", "messages")
    content = message.get("content")
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
            for part in content
        ]
        if not all(isinstance(part, str) for part in parts):
            raise ApiError(400, f"{path}.content: parts of type text only", "messages")
        content = "\n".join(part for part in parts if part is not None)
    if not isinstance(content, str):
        raise ApiError(400, f"{path}.content: a text", "messages")
    return {"role": _ROLES[role], "content": content}


class ChatWriter:
    """The answer's words."""

    def __init__(self, body: ChatBody, specs: list[RequestSpec], tokenizer: Tokenizer) -> None:
        self._body, self._tokenizer = body, tokenizer
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.model,
        }
        self._usage = Usage(specs)
        spec = body.params.spec
        self._choices = [Choice(tokenizer, spec.stop) for _ in range(spec.n)]

    def take(self, prompt: int, kind: str, value: Any) -> list[Json]:
        if kind == "prompt":
            self._usage.num_cached_tokens += value.num_cached_tokens
            first = {"role": "assistant", "content": ""}
            return [self._chunk(index, first, [], None) for index in range(len(self._choices))]
        return [chunk for token in value for chunk in self._take_token(token)]

    def _take_token(self, token: NewToken) -> list[Json]:
        choice = self._choices[token.index]
        self._usage.num_output_tokens += 1
        piece = choice.take(token)
        wanted = self._body.logprobs is not None
        if not piece and not wanted and choice.finish_reason is None:
            return []
        delta = {"content": piece} if piece or wanted else {}
        return [self._chunk(token.index, delta, [token], choice.finish_reason)]

    def _chunk(self, index: int, delta: Json, tokens: list[NewToken], reason: str | None) -> Json:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": self._logprobs(tokens) if tokens else None,
            "finish_reason": reason,
        }
        usage = {"usage": None} if self._body.params.include_usage else {}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice], **usage}

    def _logprobs(self, tokens: list[NewToken]) -> Json | None:
        if self._body.logprobs is None:
            return None
        entries = [token.logprob for token in tokens if token.logprob is not None]
        return {"content": [self._entry(entry) for entry in entries], "refusal": None}

    def _entry(self, entry: TokenLogprobs) -> Json:
        top = [self._named(*candidate) for candidate in entry.top[: self._body.logprobs]]
        return {**self._named(entry.token_id, entry.logprob), "top_logprobs": top}

    def _named(self, token_id: int, logprob: float) -> Json:
        return {
            "token": token_name(self._tokenizer, token_id),
            "logprob": logprob,
            "bytes": list(self._tokenizer.token_bytes(token_id)),
        }

    def usage_chunk(self) -> Json | None:
        if not self._body.params.include_usage:
            return None
        usage = self._usage.to_dict()
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def whole(self) -> Json:
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "refusal": None},
                "logprobs": self._logprobs(choice.tokens),
                "finish_reason": choice.finish_reason,
            }
            for index, choice in enumerate(self._choices)
        ]
        return {**self._head, "choices": choices, "usage": self._usage.to_dict()}
