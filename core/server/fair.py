"""Whose request is next: fair between clients, by the tokens that each has been served.

The engine's own queue is first come, first served, so a client with a thousand prompts would make
everybody else wait for all of them. Here each client has a queue of its own, and only as many
requests are let into the engine as it can run at once. The next one is that of the client who has
been served least (Sheng et al. 2024, "Fairness in Serving Large Language Models": a virtual counter
of tokens for each client, an output token counting twice a prompt token).
"""

from __future__ import annotations

import asyncio
from collections import deque

from core.server.limits import Busy

OUTPUT_WEIGHT = 2.0
"""What an output token counts, a prompt token being 1: it needs a step of its own."""

RETRY_AFTER_S = 2


class Turn:
    """One request's place in its client's queue, then in the engine. End it whatever happens."""

    def __init__(self, queue: FairQueue, client: str, num_places: int, cost: float) -> None:
        self._queue = queue
        self.client, self.num_places, self.cost = client, num_places, cost
        self.admitted = self.ended = False
        self._called = asyncio.Event()
        self._refusal: str | None = None

    async def come(self) -> None:
        """Return when the request may go into the engine. Raises Busy if it never will."""
        await self._called.wait()
        if self._refusal is not None:
            raise Busy(self._refusal, 10, 503)

    def call(self, refusal: str | None = None) -> None:
        """Let it come, or say why not."""
        self._refusal = refusal
        self._called.set()

    def end(self, num_output_tokens: int = 0) -> None:
        """The request has ended, or is given up; more than once is fine."""
        if not self.ended:
            self.ended = True
            self._queue.leave(self, num_output_tokens)


class FairQueue:
    """num_places: sequences that may be in the engine at once. max_waiting: requests that may wait.

    For one event loop.
    """

    def __init__(self, num_places: int, max_waiting: int) -> None:
        self.num_places, self.max_waiting = num_places, max_waiting
        self._waiting: dict[str, deque[Turn]] = {}
        self._served: dict[str, float] = {}  # of clients that have a turn
        self._num_turns: dict[str, int] = {}
        self._num_free = num_places
        self.num_waiting = 0

    @property
    def idle(self) -> bool:
        """Nobody waits, and nobody is in the engine."""
        return not self._num_turns

    def book(self, client: str, requests: list[tuple[int, float]]) -> list[Turn]:
        """Turns for requests of one client, in their order: all of them, or none.

        requests: of each the sequences it runs (at most `num_places`) and its prompt's tokens.
        Raises Busy if so many may not wait; where nobody waits yet, any number may.
        """
        if self.num_waiting and self.num_waiting + len(requests) > self.max_waiting:
            raise Busy(
                f"{self.num_waiting} requests are waiting; ask again in {RETRY_AFTER_S} s",
                RETRY_AFTER_S,
            )
        # Whoever comes anew is on a level with the one who has been served least: time spent away
        # earns nothing.
        start = min(self._served.values(), default=0.0)
        self._served.setdefault(client, start)
        turns = [Turn(self, client, places, cost) for places, cost in requests]
        self._waiting.setdefault(client, deque()).extend(turns)
        self._num_turns[client] = self._num_turns.get(client, 0) + len(turns)
        self.num_waiting += len(turns)
        self._call()
        return turns

    def refuse(self, message: str) -> None:
        """All who wait get this answer."""
        for turn in [turn for turns in self._waiting.values() for turn in turns]:
            turn.call(message)

    def leave(self, turn: Turn, num_output_tokens: int) -> None:
        """A turn has ended: see `Turn.end`."""
        client = turn.client
        if turn.admitted:
            self._num_free += turn.num_places
            self._served[client] += OUTPUT_WEIGHT * num_output_tokens
        else:
            self._waiting[client].remove(turn)
            self.num_waiting -= 1
        if client in self._waiting and not self._waiting[client]:
            del self._waiting[client]
        self._num_turns[client] -= 1
        if not self._num_turns[client]:
            del self._num_turns[client], self._served[client]
        self._call()

    def _rank(self, client: str) -> tuple[float, int]:
        """Tokens that it has been served, and of equals its requests in the engine."""
        return self._served[client], self._num_turns[client] - len(self._waiting[client])

    def _call(self) -> None:
        """Let in who is next, as long as there is room. Whoever is next and needs more of it than
        there is holds up the others: else a request for many answers would never come in."""
        while self._waiting:
            client = min(self._waiting, key=self._rank)
            turn = self._waiting[client][0]
            if turn.num_places > self._num_free:
                return
            self._waiting[client].popleft()
            if not self._waiting[client]:
                del self._waiting[client]
            self._num_free -= turn.num_places
            self._served[client] += turn.cost
            self.num_waiting -= 1
            turn.admitted = True
            turn.call()
