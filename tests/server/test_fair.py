"""Turns between clients: nobody waits for somebody else's thousand prompts."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from core.server.fair import OUTPUT_WEIGHT, FairQueue, Turn
from core.server.limits import Busy
from tests.server import aio


def checked(test: Callable[[], None]) -> None:
    """Run in an event loop, where turns belong."""

    async def run() -> None:
        test()

    aio.run(run())


def admitted(turns: list[Turn]) -> list[int]:
    return [i for i, turn in enumerate(turns) if turn.admitted and not turn.ended]


def test_one_alone_has_all_places_in_order() -> None:
    def test() -> None:
        queue = FairQueue(3, 10)
        turns = queue.book("a", [(1, 5)] * 5)
        assert admitted(turns) == [0, 1, 2] and queue.num_waiting == 2
        turns[1].end(4)
        assert admitted(turns) == [0, 2, 3]
        for turn in turns:
            turn.end()
            turn.end()  # twice is fine
        assert queue.idle and queue.num_waiting == 0

    checked(test)


def test_a_newcomer_goes_before_a_long_batch() -> None:
    def test() -> None:
        queue = FairQueue(2, 100)
        batch = queue.book("a", [(1, 5)] * 50)
        (one,) = queue.book("b", [(1, 5)])
        batch[0].end(3)
        assert one.admitted and not batch[2].admitted

    checked(test)


def test_tokens_served_are_equal_whatever_the_lengths() -> None:
    def test() -> None:
        chance = random.Random(3)
        queue = FairQueue(4, 100_000)
        sizes = {"short": (10, 5), "long": (10, 80), "read": (60, 1)}  # prompts and outputs
        turns = {
            name: queue.book(name, [(1, prompt)] * 2000) for name, (prompt, _) in sizes.items()
        }
        served: Counter[str] = Counter()
        for _ in range(2000):
            inside = [
                (name, turn)
                for name, all_of_it in turns.items()
                for turn in all_of_it
                if turn.admitted and not turn.ended
            ]
            name, turn = chance.choice(inside)
            prompt, outputs = sizes[name]
            turn.end(outputs)
            served[name] += int(prompt + OUTPUT_WEIGHT * outputs)
            turns[name] = [t for t in turns[name] if not t.ended]
        assert served["short"] == pytest.approx(served["long"], rel=0.05)
        assert served["read"] == pytest.approx(served["long"], rel=0.05)

    checked(test)


def test_time_away_earns_nothing() -> None:
    def test() -> None:
        queue = FairQueue(1, 100)
        old = queue.book("a", [(1, 10)] * 20)
        for turn in old[:10]:
            turn.end(10)
        new = queue.book("b", [(1, 10)] * 10)
        order = []
        for _ in range(10):
            (name, turn) = next(
                (name, turn)
                for name, turns in (("a", old), ("b", new))
                for turn in turns
                if turn.admitted and not turn.ended
            )
            order.append(name)
            turn.end(10)
        assert 4 <= order.count("b") <= 6, "b does not catch up on what a had while it was alone"

    checked(test)


def test_many_answers_need_as_many_places_and_are_not_starved() -> None:
    def test() -> None:
        queue = FairQueue(4, 100)
        small = queue.book("a", [(1, 1)] * 4)
        (large,) = queue.book("b", [(4, 1)])
        after = queue.book("a", [(1, 1)] * 4)
        for turn in small[:3]:
            turn.end()
        assert not large.admitted and admitted(after) == [], "the others wait for it"
        small[3].end()
        assert large.admitted and admitted(after) == []
        large.end()
        assert admitted(after) == [0, 1, 2, 3]

    checked(test)


def test_a_full_queue_is_busy_and_takes_all_or_none() -> None:
    def test() -> None:
        queue = FairQueue(1, 3)
        queue.book("a", [(1, 1)] * 3)
        with pytest.raises(Busy) as busy:
            queue.book("b", [(1, 1)] * 2)
        assert busy.value.status == 429 and busy.value.retry_after_s > 0
        assert queue.num_waiting == 2
        queue.book("b", [(1, 1)])

    checked(test)


def test_who_leaves_while_waiting_is_forgotten() -> None:
    def test() -> None:
        queue = FairQueue(1, 10)
        first, second, third = queue.book("a", [(1, 1)] * 3)
        second.end()
        assert queue.num_waiting == 1
        first.end()
        assert third.admitted

    checked(test)


def test_coming_waits_for_the_call_and_a_refusal_is_busy() -> None:
    async def test() -> None:
        queue = FairQueue(1, 10)
        first, second, third = queue.book("a", [(1, 1)] * 3)
        await first.come()
        coming = asyncio.create_task(second.come())
        await asyncio.sleep(0)
        assert not coming.done()
        first.end()
        await coming
        queue.refuse("it is over")
        with pytest.raises(Busy, match="it is over") as busy:
            await third.come()
        assert busy.value.status == 503
        second.end()
        third.end()
        assert queue.idle

    aio.run(test())
