"""A visitor without a browser: a websocket client that speaks Streamlit's own protocol.

It does what Streamlit's page does: one connection; widget values sent with each rerun, which is
answered when the script has finished; messages that came before named by their hash. What a browser
would draw is not drawn, so that fifty visitors fit beside the server on a small machine.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Common_pb2 import StringArray
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

from core.errors import KVScopeError

_ID = re.compile(r"\$\$ID-[0-9a-f]+-(.+)")
_EVENTS = "$$STREAMLIT_INTERNAL_KEY_{}__events"


class VisitError(KVScopeError):
    """A page did not answer as a page of the course does."""


@dataclass
class Visitor:
    """One session. url: of the app; page: its path, empty for the landing page.

    query: of its address, as the browser would have it. ids: of what is on the page, by key.
    fragments: which of the page's fragments it is in, by key; empty for none. data: by key, what
    a component was given last, or what a group of buttons offers. received: bytes.
    """

    url: str
    page: str
    query: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    fragments: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    received: int = 0

    def __post_init__(self) -> None:
        self._socket: ClientConnection | None = None
        self._state: dict[str, WidgetState] = {}
        self._hashes: dict[str, None] = {}  # in the order of arrival
        self._script = ""

    async def open(self) -> float:
        """Connect and run the page for the first time. Returns seconds, as `rerun` does."""
        started = perf_counter()
        address = self.url.replace("http", "ws", 1) + "/_stcore/stream"
        self._socket = await connect(
            address, subprotocols=["streamlit"], max_size=None, open_timeout=60, compression=None
        )
        await self.rerun()
        return perf_counter() - started

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    def put(self, key: str, **value: Any) -> None:
        """Set a widget's value, e.g. ``double_value=2.0``; it is sent with every rerun from now."""
        self._state[key] = WidgetState(id=self._id(key), **value)

    def put_json(self, key: str, value: dict[str, Any]) -> None:
        """Set the state of a component."""
        self.put(key, json_value=json.dumps(value))

    async def rerun(
        self, event: tuple[str, str, Any] | None = None, *, changed: str | None = None
    ) -> float:
        """Send the state, and an event (component's key, name, value) if there is one.

        changed: the key of the widget that was used; without it and an event the whole page runs
        again. As in a browser only the widget's own fragment does, if it is in one.

        Returns the seconds until the script has finished and all it drew has arrived. Raises
        VisitError where the page failed.
        """
        assert self._socket is not None
        client = ClientState(page_script_hash=self._script, query_string=self.query)
        used = event[0] if event is not None else changed
        client.fragment_id = self.fragments.get(used, "") if used is not None else ""
        client.context_info.url = f"{self.url}/{self.page}"
        client.context_info.color_scheme = "light"
        if not self._script:
            client.page_name = self.page
        client.widget_states.widgets.extend(self._state.values())
        if event is not None:
            key, name, value = event
            client.widget_states.widgets.append(
                WidgetState(
                    id=_EVENTS.format(self._id(key)),
                    json_trigger_value=json.dumps([{"event": name, "value": value}]),
                )
            )
        client.cached_message_hashes.extend(self._hashes)
        started = perf_counter()
        await self._socket.send(BackMsg(rerun_script=client).SerializeToString())
        while True:
            raw = await self._socket.recv()
            assert isinstance(raw, bytes)
            self.received += len(raw)
            message = ForwardMsg.FromString(raw)
            kind = message.WhichOneof("type")
            if kind == "script_finished":
                # One that was overtaken by a rerun of its own is followed by another.
                if message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    continue
                return perf_counter() - started
            if kind == "navigation":
                self._script = message.navigation.page_script_hash
            elif kind == "delta":
                self._drawn(message)

    def _drawn(self, message: ForwardMsg) -> None:
        if message.metadata.cacheable:
            self._hashes[message.hash] = None
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind is None:
            return
        if kind == "exception" or (kind == "alert" and element.alert.format == element.alert.ERROR):
            text = element.alert.body if kind == "alert" else element.exception.message
            raise VisitError(f"/{self.page} failed: {text[:200]}")
        drawn = getattr(element, kind)
        found = _ID.fullmatch(getattr(drawn, "id", ""))
        if found is None:
            return
        self.ids[found[1]] = drawn.id
        self.fragments[found[1]] = message.delta.fragment_id
        if kind == "bidi_component":
            data = drawn.json or drawn.mixed.json
            self.data[found[1]] = json.loads(data) if data else None
        elif kind == "button_group":
            self.data[found[1]] = [option.content for option in drawn.options]

    def _id(self, key: str) -> str:
        try:
            return self.ids[key]
        except KeyError:
            raise VisitError(
                f"/{self.page} has nothing of the key {key!r}, only: {', '.join(self.ids)}"
            ) from None


class QuizVisitor(Visitor):
    """Answers one question after another, right or wrong."""

    PAGE = "quiz"
    _STORE, _CARD = "kv-store", "quiz-card"

    async def open(self) -> float:
        """The page draws a question once the browser has said what it keeps: here, nothing."""
        seconds = await super().open()
        self.put_json(self._STORE, {"stored": {"text": None, "ok": True, "id": "first"}})
        return seconds + await self.rerun()

    async def interact(self, turn: int) -> float:
        """Lock an option, go on, or begin again, whichever comes next."""
        card = self.data[self._CARD]
        if card.get("done"):
            return await self.rerun((self._CARD, "again", 0))
        if card.get("answered"):
            return await self.rerun((self._CARD, "next", card["place"]))
        option = turn % len(card["options"])
        return await self.rerun((self._CARD, "answer", {"place": card["place"], "option": option}))


class PrefillVisitor(Visitor):
    """Rests on a step of a recorded run, then reads at another level, in turn: what the server has
    a part in. Playing and the charts' own controls are the browser's alone."""

    PAGE = "prefill_decode"
    _INSTRUMENT, _LEVEL = "live_run", "level"

    async def interact(self, turn: int) -> float:
        """A step of the instrument, or the next of the kit's three levels."""
        levels = self.data[self._LEVEL]
        level = levels[turn // 2 % len(levels)]
        place = {"run": "one_question", "step": str(turn // 2 % 20)}
        self.query = urlencode({"level": level, **place})  # both are in the address
        if turn % 2:
            self.put_json(self._INSTRUMENT, {"place": place})
            return await self.rerun(changed=self._INSTRUMENT)
        self.put(self._LEVEL, string_array_value=StringArray(data=[level]))
        return await self.rerun(changed=self._LEVEL)
