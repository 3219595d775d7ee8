"""What one reader may see of the engine's steps.

A reader of the live engine sees the whole batch, because the batch is the lesson. But only its own
request has a name and tokens: the others are "other-1", "other-2" …, with lengths and blocks, and
every token of theirs is one that stands outside the vocabulary. A scenario's reader sees all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from core.model.detokenizer import IncrementalDetokenizer
from core.model.tokenizer import Tokenizer

Json = dict[str, Any]
OWN = "A"
HIDDEN_TEXT = "·"


class StepView:
    """Turns one run's header and step records into messages for one reader.

    tokenizer: None if tokens stand for no text. own: the engine's id of the reader's request; None
    for a reader that owns all. first_step: the engine's step at which the reader came.
    hidden_token: the id that stands for every token of somebody else's.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, own: str | None, first_step: int, hidden_token: int
    ) -> None:
        self._tokenizer = tokenizer
        self._own = own
        self._first_step = first_step
        self._hidden = hidden_token
        self._names: dict[str, str] = {} if own is None else {own: OWN}
        self._texts: dict[str, IncrementalDetokenizer] = {}
        self._stops: dict[str, list[bytes]] = {}
        self._outputs: dict[str, list[int]] = {}  # of sequences that others fork off
        self._shown: set[int] = set()

    # ---- header -------------------------------------------------------------------------------

    def header(self, raw: Json) -> Json:
        """The header as this reader gets it."""
        for spec in raw["scenario"]["requests"]:
            if not spec["beam_width"]:  # a beam's text is known at the end
                self._stops[spec["id"]] = [stop.encode() for stop in spec["stop"]]
            if spec["fork_of"] is not None:
                self._outputs[spec["fork_of"]] = []
        if self._own is None:
            self._shown.update(map(int, raw["token_text"]))
            return raw
        scenario = raw["scenario"]
        requests = sorted(scenario["requests"], key=lambda spec: bool(spec["id"] != self._own))
        prompts = {
            self._name(spec["id"]): self._tokens(spec["id"], raw["prompts"][spec["id"]])
            for spec in requests
        }
        header = {
            **{key: value for key, value in raw.items() if key != "own_keys"},
            "scenario": {**scenario, "requests": [self._spec(spec, raw) for spec in requests]},
            "prompts": prompts,
            "token_text": {
                **self._new_texts(prompts[OWN]),
                str(self._hidden): HIDDEN_TEXT,
            },
            "hidden_token": self._hidden,
            "first_step": self._first_step,
        }
        if "initial_state" in raw:
            header["initial_state"] = self._state(raw["initial_state"], raw)
        return header

    def _spec(self, spec: Json, raw: Json) -> Json:
        name = self._name(spec["id"])
        steps = {"id": name, "arrive_step": 0, "cancel_step": None}
        if spec["id"] == self._own:
            return {**spec, **steps}
        shown = {key: spec[key] for key in ("max_tokens", "n")}
        prompt = self._tokens(spec["id"], raw["prompts"][spec["id"]])
        return {**steps, "prompt_tokens": prompt, **shown}

    def _state(self, state: Json, raw: Json) -> Json:
        """The engine's state as this reader may know it: cached tokens only of its own prompt."""
        own_keys = raw["own_keys"]
        size = raw["scenario"]["engine"]["block_size"]
        prompt = raw["prompts"][self._own]
        cached = {}
        for block, entry in state["cached"].items():
            place = own_keys.get(entry["key"])
            tokens = (
                [self._hidden] * len(entry["tokens"])
                if place is None
                else prompt[place * size : (place + 1) * size]
            )
            last = entry["last_used"] - self._first_step
            cached[block] = {**entry, "tokens": tokens, "last_used": last}
        return {
            **state,
            "block_tables": {self._name(n): t for n, t in state["block_tables"].items()},
            "outputs": {self._name(n): self._tokens(n, t) for n, t in state["outputs"].items()},
            "waiting": [self._name(name) for name in state["waiting"]],
            "running": [self._name(name) for name in state["running"]],
            "cached": cached,
            "tree": [
                {
                    **node,
                    "tokens": [t for block in node["blocks"] for t in cached[str(block)]["tokens"]],
                    "last_used": node["last_used"] - self._first_step,
                }
                for node in state["tree"]
            ],
            "sequences": {
                self._name(name): {
                    **known,
                    "request": self._name(known["request"]),
                    "stands_for": [self._name(one) for one in known["stands_for"]],
                }
                for name, known in state["sequences"].items()
            },
        }

    # ---- steps --------------------------------------------------------------------------------

    def step(self, raw: Json) -> Iterator[Json]:
        """The step's record, then the text that its tokens complete.

        The record also holds `token_text` of ids not seen before, and `prompts` of requests that
        came in this step.
        """
        events = raw["events"]
        if self._own is not None:
            events = [self._event(event) for event in events]
        record = {**raw, "step": raw["step"] - self._first_step, "events": events}
        if self._own is not None:
            record["scheduled"] = {self._name(n): s for n, s in raw["scheduled"].items()}
            if "prompts" in raw:  # the header has the reader's own
                record["prompts"] = {
                    self._name(n): self._tokens(n, tokens)
                    for n, tokens in raw["prompts"].items()
                    if n != self._own
                }
        texts = self._new_texts(e["token"] for e in events if e["type"] == "token_sampled")
        if texts:
            record["token_text"] = texts
        yield record
        yield from self._text(raw["events"])

    def _event(self, event: Json) -> Json:
        out = dict(event)
        for field in ("request", "sequence", "by"):
            if field in out:
                out[field] = self._name(out[field])
        if "sequences" in out:
            out["sequences"] = [self._name(name) for name in out["sequences"]]
        if "token" in out and event["request"] != self._own:
            out["token"] = self._hidden
        return out

    def _text(self, events: list[Json]) -> Iterator[Json]:
        """What the new tokens of the reader's own sequences add to their texts."""
        if self._tokenizer is None:
            return
        pieces: dict[tuple[str, str], str] = {}
        for event in events:
            request, name = event.get("request"), event.get("sequence")
            if request is None or name is None or request not in self._stops:
                continue
            if self._own is not None and request != self._own:
                continue
            kind, tokens = event["type"], []
            if kind == "token_sampled":
                tokens = [event["token"]]
            elif kind == "forked" and "position" in event:  # it begins with what it inherits
                origin, name = event["sequences"]
                tokens = self._outputs[origin]
            elif kind != "finished":
                continue
            if name in self._outputs:
                self._outputs[name] += tokens
            text = self._texts.get(name)
            if text is None:
                text = IncrementalDetokenizer(self._tokenizer, stop=self._stops[request])
                self._texts[name] = text
            piece = text.push(tokens)
            if kind == "finished":
                piece += text.finish(cut=event["reason"] == "stop_string")
            pieces[request, name] = pieces.get((request, name), "") + piece
        for (request, name), piece in pieces.items():
            if piece:
                names = {"request": self._name(request), "sequence": self._name(name)}
                yield {"text": {**names, "text": piece}}

    def results(self, raw: Json) -> Json:
        """Results by sequence, under the reader's names."""
        return {self._name(name): result for name, result in raw.items()}

    # ---- names and tokens ---------------------------------------------------------------------

    def _name(self, name: str) -> str:
        """A request's or a sequence's name for this reader."""
        if self._own is None:
            return name
        request, mark, index = name.partition("#")
        shown = self._names.get(request)
        if shown is None:
            shown = self._names[request] = f"other-{len(self._names)}"
        return shown + mark + index

    def _tokens(self, name: str, tokens: list[int]) -> list[int]:
        if self._own is None or name.partition("#")[0] == self._own:
            return tokens
        return [self._hidden] * len(tokens)

    def _new_texts(self, tokens: Iterable[int]) -> dict[str, str]:
        if self._tokenizer is None:
            return {}
        new = {t for t in tokens if t != self._hidden} - self._shown
        self._shown |= new
        return {str(t): text for t, text in self._tokenizer.token_text(sorted(new)).items()}
