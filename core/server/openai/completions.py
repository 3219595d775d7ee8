"""POST /v1/completions: prompts as texts or token ids, with `echo` and log-probabilities."""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from core.model.detokenizer import IncrementalDetokenizer
from core.model.tokenizer import Tokenizer
from core.runner import TokenLogprobs
from core.scenario import RequestSpec, Scenario
from core.server.openai.errors import ApiError
from core.server.openai.generation import Choice, Usage, token_name
from core.server.openai.params import MAX_TOP_LOGPROBS, Body, Params
from core.server.tokens import NewToken, PromptRead

Json = dict[str, Any]

DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class CompletionBody:
    """prompts: each a text or token ids. logprobs: how many of the likeliest tokens to name, None
    for no log-probabilities. max_tokens 0: the prompt alone (with echo)."""

    model: str
    prompts: list[str | list[int]]
    params: Params
    max_tokens: int
    echo: bool
    logprobs: int | None

    @classmethod
    def parse(cls, data: Any, settings: Scenario, model: str, max_prompts: int) -> CompletionBody:
        """Check. Raises ApiError."""
        body = Body(data)
        body.model(frozenset({model, settings.model}))
        prompts = _prompts(body.take("prompt", (str, list)), max_prompts)
        echo = body.take("echo", bool, False)
        max_tokens = body.integer("max_tokens", 0, 1 << 24, DEFAULT_MAX_TOKENS)
        assert max_tokens is not None, "it has a default"
        if not max_tokens and not echo:
            raise ApiError(400, "max_tokens: 0 leaves nothing to do without echo", "max_tokens")
        logprobs = body.integer("logprobs", 0, MAX_TOP_LOGPROBS)
        best_of = body.integer("best_of", 1, 1 << 20)
        params = body.params(settings)
        if best_of not in (None, params.spec.n):
            raise ApiError(400, "best_of: this server ranks no answers; leave it out", "best_of")
        return cls(model, prompts, params, max_tokens, echo, logprobs)

    def specs(self, tokenizer: Tokenizer) -> list[RequestSpec]:
        """The engine's requests, one for each prompt."""
        # A scenario's 0 asks for none at all, so 0 here (the token's own alone) asks for one.
        num_tops = 0 if self.logprobs is None else max(1, self.logprobs)
        return [
            dataclasses.replace(
                self.params.spec,
                prompt_tokens=tuple(
                    tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
                ),
                max_tokens=max(1, self.max_tokens),
                logprobs=num_tops if self.max_tokens else 0,
                prompt_logprobs=num_tops if self.echo else 0,
            )
            for prompt in self.prompts
        ]


def _prompts(given: Any, most: int) -> list[str | list[int]]:
    if given is None:
        raise ApiError(400, "prompt: give a text, token ids, or a list of them", "prompt")
    if isinstance(given, str):
        return [given]
    if given and all(type(token) is int for token in given):
        given = [given]
    if not 1 <= len(given) <= most:
        raise ApiError(400, f"prompt: {len(given):,} prompts; 1 to {most:,} may be given", "prompt")
    for i, prompt in enumerate(given):
        tokens = isinstance(prompt, list) and all(type(t) is int and t >= 0 for t in prompt)
        if not isinstance(prompt, str) and not tokens:
            raise ApiError(400, f"prompt[{i}]: neither a text nor token ids", "prompt")
    return list(given)


@dataclass(slots=True)
class _Part:
    """One choice, and what its log-probabilities go on from."""

    choice: Choice
    offsets: IncrementalDetokenizer
    num_chars: int = 0
    names: list[str] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    tops: list[dict[str, float] | None] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


class CompletionWriter:
    """The answer's words."""

    def __init__(self, body: CompletionBody, specs: list[RequestSpec], tokenizer: Tokenizer):
        self._body, self._specs, self._tokenizer = body, specs, tokenizer
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model,
        }
        self._usage = Usage(specs)
        self._n = body.params.spec.n
        self._parts = [self._part() for _ in range(len(specs) * self._n)]

    def _part(self) -> _Part:
        stop = self._body.params.spec.stop
        return _Part(Choice(self._tokenizer, stop), IncrementalDetokenizer(self._tokenizer))

    def take(self, prompt: int, kind: str, value: Any) -> list[Json]:
        if kind == "prompt":
            return self._take_prompt(prompt, value)
        return [
            chunk
            for token in value
            for chunk in self._take_token(prompt * self._n + token.index, token)
        ]

    def _take_prompt(self, prompt: int, read: PromptRead) -> list[Json]:
        self._usage.num_cached_tokens += read.num_cached_tokens
        if not self._body.echo:
            return []
        text = self._prompt_text(prompt)
        chunks = []
        for index in range(prompt * self._n, (prompt + 1) * self._n):
            part = self._parts[index]
            if self._body.logprobs is not None:
                tokens = self._specs[prompt].prompt_tokens or ()
                for token, entry in zip(tokens, [None, *read.logprobs], strict=True):
                    self._note(part, token, entry)
            chunks.append(self._chunk(index, text, self._logprobs(part, 0), None))
        return chunks

    def _take_token(self, index: int, token: NewToken) -> list[Json]:
        part = self._parts[index]
        if not self._body.max_tokens:  # one was sampled, as the engine does; nobody asked for it
            part.choice.finish_reason = "length"
            return [self._chunk(index, "", None, "length")]
        self._usage.num_output_tokens += 1
        piece = part.choice.take(token)
        first = len(part.names)
        if self._body.logprobs is not None:
            self._note(part, token.token_id, token.logprob)
        reason = part.choice.finish_reason
        if not piece and reason is None and self._body.logprobs is None:
            return []
        return [self._chunk(index, piece, self._logprobs(part, first), reason)]

    def _note(self, part: _Part, token_id: int, entry: TokenLogprobs | None) -> None:
        name = token_name(self._tokenizer, token_id)
        part.names.append(name)
        part.values.append(None if entry is None else entry.logprob)
        part.tops.append(None if entry is None else self._top(entry))
        part.places.append(part.num_chars)
        part.num_chars += len(part.offsets.push([token_id]))

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        """By text, the likeliest first; the token's own is always there. Of tokens with one text
        the likeliest counts."""
        top: dict[str, float] = {}
        for token, logprob in entry.top[: self._body.logprobs]:
            top.setdefault(token_name(self._tokenizer, token), logprob)
        top.setdefault(token_name(self._tokenizer, entry.token_id), entry.logprob)
        return top

    def _logprobs(self, part: _Part, first: int) -> Json | None:
        """Of the tokens from one on."""
        if self._body.logprobs is None:
            return None
        return {
            "tokens": part.names[first:],
            "token_logprobs": part.values[first:],
            "top_logprobs": part.tops[first:],
            "text_offset": part.places[first:],
        }

    def _prompt_text(self, prompt: int) -> str:
        given = self._body.prompts[prompt]
        return given if isinstance(given, str) else self._tokenizer.decode(given)

    def _chunk(self, index: int, text: str, logprobs: Json | None, reason: str | None) -> Json:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        usage = {"usage": None} if self._body.params.include_usage else {}
        return {**self._head, "choices": [choice], **usage}

    def usage_chunk(self) -> Json | None:
        if not self._body.params.include_usage:
            return None
        return {**self._head, "choices": [], "usage": self._usage.to_dict()}

    def whole(self) -> Json:
        choices = []
        for index, part in enumerate(self._parts):
            text = part.choice.text
            if self._body.echo:
                text = self._prompt_text(index // self._n) + text
            choices.append(
                {
                    "index": index,
                    "text": text,
                    "logprobs": self._logprobs(part, 0),
                    "finish_reason": part.choice.finish_reason,
                }
            )
        return {**self._head, "choices": choices, "usage": self._usage.to_dict()}
