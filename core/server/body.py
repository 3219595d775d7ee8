"""The body of `POST /live`: one request, in the words of a scenario's requests."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from core.errors import RequestError, ScenarioError
from core.model.tokenizer import Tokenizer
from core.scenario import RequestSpec, Scenario

FIELDS = frozenset(
    {
        *("prompt", "prompt_tokens", "max_tokens", "n", "temperature", "top_k", "top_p", "min_p"),
        *("repetition_penalty", "seed", "stop", "stop_token_ids", "ignore_eos", "logprobs"),
        "cache_salt",
    }
)
MAX_MESSAGES = 64


@dataclass(frozen=True, slots=True)
class LiveBody:
    """request: checked. messages: a conversation, for the model's chat template, or None."""

    request: RequestSpec
    messages: list[dict[str, str]] | None

    @classmethod
    def parse(cls, data: Any, settings: Scenario) -> LiveBody:
        """Check and build. Raises RequestError with the path of an offending field."""
        if not isinstance(data, dict):
            raise RequestError("a live request is a JSON object")
        data = dict(data)
        messages = data.pop("messages", None)
        unknown = sorted(data.keys() - FIELDS)
        if unknown:
            raise RequestError(f"{unknown[0][:80]}: unknown field")
        if messages is not None:
            _check_messages(messages)
            if "prompt" in data or "prompt_tokens" in data:
                raise RequestError("messages: give them, or a prompt, and not both")
            data["prompt_tokens"] = [0]  # stands for what the template will make of them
        scenario = {**settings.to_dict(), "requests": [{"id": "A", **data}]}
        try:
            (request,) = Scenario.from_dict(scenario).requests
        except ScenarioError as exc:
            path = exc.path.removeprefix("requests[0]").removeprefix(".")
            raise RequestError(f"{path}: {exc.message}" if path else exc.message) from None
        return cls(request, messages)

    def spec(self, tokenizer: Tokenizer) -> RequestSpec:
        """The request, its prompt as token ids. Runs the chat template, which takes 0.1 s."""
        if self.messages is not None:
            text = tokenizer.apply_chat_template(self.messages)
            # The template writes the control tokens itself, the one at the beginning among them.
            tokens = tokenizer.encode(text, add_special_tokens=False)
        elif self.request.prompt is not None:
            tokens = tokenizer.encode(self.request.prompt)
        else:
            return self.request
        return dataclasses.replace(self.request, prompt=None, prompt_tokens=tuple(tokens))


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not 1 <= len(messages) <= MAX_MESSAGES:
        raise RequestError(f"messages: a list of 1 to {MAX_MESSAGES}")
    for i, message in enumerate(messages):
        known = isinstance(message, dict) and message.keys() == {"role", "content"}
        if not known or not all(isinstance(value, str) for value in message.values()):
            raise RequestError(f"messages[{i}]: an object with role and content, both texts")
