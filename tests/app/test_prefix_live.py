"""A reader's prompts on the engine: the run is waited for, put together, and refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.client import EngineRefusedError
from core.errors import KVScopeError
from core.scenario import Scenario
from core.simulate import simulate
from ui import engine_process
from ui.prefix import live, pairs, yours

IDS = [[1] * 9, [1] * 9]
GIVEN = yours.scenario(IDS, 4, "radix")


class Stream:
    """What the engine sends: a run in pieces, and how it ends."""

    def __init__(self, end: dict[str, Any]) -> None:
        run = simulate(Scenario.from_dict(GIVEN)).to_dict()
        self._messages = [("header", run["header"]), *(("step", s) for s in run["steps"])]
        self._messages.append(("end", {"results": run["results"], **end}))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._messages)

    def close(self) -> None: ...


class Client:
    def __init__(self, answer: Any) -> None:
        self._answer, self.asked = answer, None

    def scenario(self, body: dict[str, Any]) -> Any:
        self.asked = body
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(answer: Any) -> Client | None:
        client = None if answer is None else Client(answer)
        monkeypatch.setattr(engine_process, "client", lambda: client)
        return client

    return put


def test_a_run_on_the_engine_becomes_a_pair(engine: Any) -> None:
    client = engine(Stream({"end": "finished"}))
    pair = pairs.of_run(live.run(GIVEN, ["one text", "the other"]))
    assert [one.hit_blocks for one in pair.lookups] == [0, 2]
    asked = client.asked["requests"]
    assert [one["prompt"] for one in asked] == ["one text", "the other"]
    assert all("prompt_tokens" not in one for one in asked)
    assert client.asked["model"] == "smollm2-135m-instruct"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "The engine is away"),
        (Stream({"end": "error", "message": "it fell over"}), "it fell over"),
        (EngineRefusedError(429, "too much runs", 2), "too much runs"),
    ],
)
def test_what_goes_wrong_is_one_sentence(engine: Any, answer: Any, said: str) -> None:
    engine(answer)
    with pytest.raises(KVScopeError, match=said):
        live.run(GIVEN, ["one text", "the other"])
