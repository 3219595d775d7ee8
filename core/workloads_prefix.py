"""Workloads that differ in what their prompts share: scenarios, the same ones from the same seed.

    chat        one system prompt, several users, each with a growing conversation
    few_shot    one instruction with examples, a new question each time
    agent       loops that send their whole past again, with one more call and its result
    rag         the same documents before each question, for some users in another order
    api         several programs, each with a long fixed prompt of its own
    unique      documents that share nothing: no block can hit

A token is a word. Its id is its place in `WORDS`, and a run without a model needs no more; `texts`
gives the words back for display. What a request answers is scripted too, so that the next turn of
a conversation can bring the answer back as a part of its prompt.

Only `Random.random` is used, which Python promises never to change: a seed in a link means the same
texts everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from core.config import EngineConfig
from core.conversations import Turn, arrivals

FIRST_ID = 1_000
"""Above the bytes: a run without a model names those itself."""
MAX_NUMBER = 200

_NOUNS = "river clock glass bee bridge sail bell oven tide moon stone paper salt snow rope lamp"
_ADJECTIVES = "old blue round slow bright heavy loud thin warm white sharp deep"
_SYSTEM = (
    "You are a patient teacher . Answer in one short sentence that a child can understand . "
    "Say so if you are not sure ."
)
_TOOLS = (
    "You may use three tools : search ( words ) , read ( page ) and sum ( numbers ) . "
    "Call one tool , look at what it gives , then go on ."
)
_TASK = "Sort each line as good or bad . Write one word and nothing else ."
_ROLES = ("translate to plain words", "find the price", "write a title", "count the words")
_FRAME = (
    "Why is the so Because it Line good bad sort Call page gives Document says that and but Use "
    "only documents below to answer . : , ? ( ) Program You every answer is checked twice "
    "before sent keep no data Input Task read"
)


def _words() -> tuple[str, ...]:
    numbers = " ".join(str(i) for i in range(MAX_NUMBER))
    texts = (_NOUNS, _ADJECTIVES, _SYSTEM, _TOOLS, _TASK, *_ROLES, _FRAME, numbers)
    return tuple(dict.fromkeys(" ".join(texts).split()))


WORDS = _words()
_ID = {word: FIRST_ID + i for i, word in enumerate(WORDS)}


def tokens(text: str) -> list[int]:
    """The token ids of a text of these words. Raises KeyError for any other word."""
    return [_ID[word] for word in text.split()]


def texts() -> dict[str, str]:
    """Token id, as JSON objects have it → its word with the space before it."""
    return {str(FIRST_ID + i): f" {word}" for i, word in enumerate(WORDS)}


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a reader may turn.

    users: 1 … 8. turns: requests of each, 1 … 6. block_size: tokens. pool_tokens: of the whole
    pool, rounded down to blocks. seed: of the words and of the order of arrival.
    """

    users: int = 3
    turns: int = 3
    block_size: int = 4
    pool_tokens: int = 512
    seed: int = 1


class _Writer:
    """Draws sentences from a seed; equal draws give equal texts."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._nouns, self._adjectives = _NOUNS.split(), _ADJECTIVES.split()

    def _below(self, count: int) -> int:
        """A number from 0 … count − 1, each as likely."""
        return math.floor(self._rng.random() * count)

    def noun(self) -> str:
        return self._nouns[self._below(len(self._nouns))]

    def adjective(self) -> str:
        return self._adjectives[self._below(len(self._adjectives))]

    def question(self) -> str:
        return f"Why is the {self.noun()} so {self.adjective()} ?"

    def answer(self) -> str:
        return f"Because the {self.noun()} is {self.adjective()} ."

    def document(self, number: int, sentences: int = 2) -> str:
        said = " and ".join(
            f"the {self.noun()} is {self.adjective()}" for _ in range(2 * sentences)
        )
        return f"Document {number} says that {said} ."

    def shuffled(self, items: Iterable[str]) -> list[str]:
        left, out = list(items), []
        while left:
            out.append(left.pop(self._below(len(left))))
        return out


def _chat(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    out = []
    for _ in range(knobs.users):
        said, turns = tokens(_SYSTEM), []
        for _ in range(knobs.turns):
            prompt, answer = said + tokens(write.question()), tokens(write.answer())
            turns.append((prompt, answer))
            said = prompt + answer
        out.append(turns)
    return out


def _few_shot(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    def line() -> str:
        return f"Line : the {write.noun()} is {write.adjective()} ."

    shown = " ".join(f"{line()} {sort}" for sort in ("good", "bad", "good"))
    head = tokens(f"{_TASK} {shown}")
    return [
        [(head + tokens(line()), tokens("bad")) for _ in range(knobs.turns)]
        for _ in range(knobs.users)
    ]


def _agent(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    out = []
    for _ in range(knobs.users):
        past, turns = tokens(f"{_TOOLS} Task : {write.question()}"), []
        for number in range(knobs.turns):
            call = tokens(f"Call search ( {write.noun()} )")
            turns.append((past, call))
            gives = f"page {number} gives : the {write.noun()} is {write.adjective()} ."
            past = past + call + tokens(gives)
        out.append(turns)
    return out


def _rag(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    documents = [write.document(number, 1) for number in range(3)]
    out = []
    for user in range(knobs.users):
        order = documents if user % 2 == 0 else write.shuffled(documents[1:]) + documents[:1]
        head = tokens(" ".join(["Use only the documents below to answer .", *order]))
        out.append(
            [(head + tokens(write.question()), tokens(write.answer())) for _ in range(knobs.turns)]
        )
    return out


def _api(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    """Each program begins with a number of its own, so no two share even a first token."""
    out = []
    for user in range(knobs.users):
        role = _ROLES[user % len(_ROLES)]
        head = tokens(
            f"{user} Program : {role} . every answer is checked twice before it is sent . "
            "keep no data ."
        )
        out.append(
            [
                (
                    head + tokens(f"Input : the {write.noun()} is {write.adjective()} ."),
                    tokens("good"),
                )
                for _ in range(knobs.turns)
            ]
        )
    return out


def _unique(write: _Writer, knobs: Knobs) -> list[list[Turn]]:
    """Each begins with a number of its own, so the first block already differs."""
    return [
        [
            (
                tokens(f"{user * knobs.turns + turn} {write.document(turn, 2)}"),
                tokens(write.answer()),
            )
            for turn in range(knobs.turns)
        ]
        for user in range(knobs.users)
    ]


CACHES = ("hash", "radix")
"""The kinds of prefix cache, between which a workload is compared."""

KINDS: dict[str, Callable[[_Writer, Knobs], list[list[Turn]]]] = {
    "chat": _chat,
    "few_shot": _few_shot,
    "agent": _agent,
    "rag": _rag,
    "api": _api,
    "unique": _unique,
}


def letter(i: int) -> str:
    """0 → A, 25 → Z, 26 → AA."""
    out = ""
    i += 1
    while i:
        i, rest = divmod(i - 1, 26)
        out = chr(65 + rest) + out
    return out


def scenario(
    kind: str, knobs: Knobs, *, prefix_cache: str = "radix", eviction: str = "lru"
) -> dict[str, Any]:
    """A scenario of one of `KINDS`. The requests of a user come one after another, each when the
    one before has been answered, by a hash cache and by a radix tree: both get the same requests in
    the same steps. Users begin `core.conversations.APART` steps apart."""
    turns = timed(kind, knobs, eviction)
    return {
        "schema": "scenario/1",
        "name": kind.replace("_", "-"),
        "engine": _engine([turn for _, _, turn in turns], knobs, prefix_cache, eviction),
        "requests": [
            _request(letter(i), step, list(prompt), list(answer))
            for i, (step, _, (prompt, answer)) in enumerate(turns)
        ],
    }


@lru_cache(maxsize=64)
def timed(kind: str, knobs: Knobs, eviction: str = "lru") -> tuple[tuple[int, int, Turn], ...]:
    """(step, user, turn) of all requests of a workload, in the order in which they arrive."""
    users = KINDS[kind](_Writer(knobs.seed), knobs)
    turns = [turn for user in users for turn in user]
    engines = [EngineConfig(**_engine(turns, knobs, cache, eviction)) for cache in CACHES]
    out = [
        (step, i, turn)
        for i, (user, steps) in enumerate(zip(users, arrivals(users, engines), strict=True))
        for turn, step in zip(user, steps, strict=True)
    ]
    return tuple(sorted(out, key=lambda one: one[:2]))


def _engine(
    turns: Sequence[Turn], knobs: Knobs, prefix_cache: str, eviction: str
) -> dict[str, Any]:
    longest = max(len(prompt) + len(answer) for prompt, answer in turns)
    return {
        "num_blocks": max(1, knobs.pool_tokens // knobs.block_size),
        "block_size": knobs.block_size,
        "max_num_seqs": 4,
        "max_num_batched_tokens": max(256, longest),
        "max_model_len": longest + 1,
        "prefix_cache": prefix_cache,
        "eviction": eviction,
    }


def _request(name: str, step: int, prompt: list[int], answer: list[int]) -> dict[str, Any]:
    return {
        "id": name,
        "arrive_step": step,
        "prompt_tokens": prompt,
        "output_tokens": answer,
        "max_tokens": len(answer),
    }


def system_prompt() -> list[int]:
    """The tokens that every chat begins with."""
    return tokens(_SYSTEM)


HOT_POOL = 24
"""Blocks of the pool in `hot_prompt`: about three requests' worth."""


def hot_prompt(prefix_cache: str, eviction: str, seed: int = 1) -> dict[str, Any]:
    """Chats behind one system prompt, between documents that nobody sends twice.

    First chats and documents take turns: the system prompt is old, but in use. Then four documents
    come in a row: now it has also not been used for a while. Each request has ended before the next
    one comes.
    """
    write = _Writer(seed)
    head, requests = system_prompt(), []
    for i, what in enumerate("CCCDCDDCDDCDDDDDCC"):
        if what == "C":
            prompt, answer = head + tokens(write.question()), tokens(write.answer())
        else:
            prompt, answer = tokens(f"{i} {write.document(i, 2)}"), tokens(write.answer())
        requests.append(_request(letter(i), 8 * i, prompt, answer))
    return {
        "schema": "scenario/1",
        "name": "A hot system prompt among documents",
        "engine": {
            "num_blocks": HOT_POOL,
            "block_size": 4,
            "max_num_seqs": 2,
            "max_num_batched_tokens": 64,
            "max_model_len": 64,
            "prefix_cache": prefix_cache,
            "eviction": eviction,
        },
        "requests": requests,
    }


LEAF_POOL = 16
LEAF_BLOCKS = 8
"""Whole blocks of the prompt in `evict_leaf`."""


def evict_leaf(take: int, prefix_cache: str = "radix") -> dict[str, Any]:
    """A prompt, then another one that needs `take` blocks more than are free, then the first again.

    What the second one takes, the third one misses. take: 0 … `LEAF_BLOCKS`.
    """
    write = _Writer(1)
    prompt = system_prompt() + tokens(write.question())
    prompt = (prompt + tokens("Say so ."))[: 4 * LEAF_BLOCKS]
    answer = tokens("Because")
    free = LEAF_POOL - LEAF_BLOCKS
    filler = tokens(" ".join(str(i) for i in range(4 * (free + take) - 1)))
    out = hot_prompt(prefix_cache, "lru")
    out["name"] = f"{take} cached blocks are taken" if take != 1 else "One cached block is taken"
    out["engine"] |= {"num_blocks": LEAF_POOL, "max_num_batched_tokens": 128}
    out["requests"] = [
        _request("A", 0, prompt, answer),
        _request("F", 2, filler, answer),
        _request("B", 4, prompt, answer),
    ]
    return out


EDITS = {"B": 4, "C": 27}
"""Request of `edited_prompt` → the token, counted from 0, in which its prompt differs from A's."""


def edited_prompt(prefix_cache: str, eviction: str = "lru") -> dict[str, Any]:
    """A prompt of 32 tokens; the same with an early edit, with a late one, and unchanged."""
    write = _Writer(1)
    first = (system_prompt() + tokens(write.question()) + tokens("Say"))[:32]
    prompts = {"A": first}
    for name, at in EDITS.items():
        prompts[name] = [*first[:at], *tokens("lamp"), *first[at + 1 :]]
    prompts["D"] = first
    out = hot_prompt(prefix_cache, eviction)
    out["name"] = "One prompt, edited early and late"
    out["engine"] |= {"num_blocks": 64}
    out["requests"] = [
        _request(name, 4 * i, prompt, tokens("Because the"))
        for i, (name, prompt) in enumerate(prompts.items())
    ]
    return out
