"""What a run says about its answers beside the events: texts and log-probabilities.

Only the model can say whether they are right. But they must fit the tokens and each other, and that
is checked here without it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from core.errors import MismatchError
from core.scenario import RequestSpec
from core.trace.run import Run, output_tokens

Json = dict[str, Any]

TOLERANCE = 1e-3
"""How far a model's log-probabilities may be from those recorded, when it is run again."""


def requests_of_results(run: Run) -> dict[str, RequestSpec]:
    """For each sequence of the results its request: ``A`` for ``A`` and for ``A#1``.

    Raises MismatchError for a sequence of no request.
    """
    by_id = {request.id: request for request in run.scenario.requests}
    try:
        return {name: by_id[name.split("#")[0]] for name in run.results}
    except KeyError as missing:
        raise MismatchError(f"results: the scenario has no request {missing}") from None


def check_results(run: Run) -> None:
    """Whether texts and log-probabilities fit tokens, settings and each other.

    Raises MismatchError.
    """
    scripted = run.header["source"]["model"] == "none"
    tokens = output_tokens(run)
    for name, request in requests_of_results(run).items():
        result = run.results[name]
        outputs = tokens.get(name, [])
        wanted = 0 if scripted else request.logprobs
        _check(f"results.{name}.logprobs", result.get("logprobs", []), outputs, wanted)
        prompt_path = f"results.{name}.prompt_logprobs"
        judged = result.get("prompt_logprobs", [])
        wanted = 0 if scripted or not _is_first(name, request) else request.prompt_logprobs
        prompt = run.header["prompts"][request.id][1:]
        if not outputs:  # the prompt is not computed to its end
            prompt = prompt[: len(judged)]
        _check(prompt_path, judged, prompt, wanted)
        _check_text(name, request, result)


def compare_logprobs(name: str, recorded: Json, again: Json) -> None:
    """The log-probabilities of two runs of one sequence, tokens being equal.

    They may differ by `TOLERANCE`. Ranks may by 1 + 1 %: far down the vocabulary so many tokens are
    almost equally likely that a last digit moves one past its neighbours. The likeliest tokens must
    be the same, in whatever order. Raises MismatchError.
    """
    for kind in ("logprobs", "prompt_logprobs"):
        old, new = recorded.get(kind, []), again.get(kind, [])
        if len(old) != len(new):
            raise MismatchError(f"{name}: {len(old)} {kind} are recorded, the model has {len(new)}")
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            top_a, top_b = dict(a["top"]), dict(b["top"])
            if not (
                a["token"] == b["token"]
                and abs(a["logprob"] - b["logprob"]) <= TOLERANCE
                and abs(a["rank"] - b["rank"]) <= 1 + 0.01 * b["rank"]
                and top_a.keys() == top_b.keys()
                and all(abs(top_a[token] - top_b[token]) <= TOLERANCE for token in top_a)
            ):
                raise MismatchError(f"{name}: {kind}[{i}] differ from those of the model")


def _is_first(name: str, request: RequestSpec) -> bool:
    """A prompt's log-probabilities are written once, with the request's first sequence."""
    return name in (request.id, f"{request.id}#0")


def _check(path: str, entries: list[Json], tokens: list[int], num_tops: int) -> None:
    if not num_tops:
        if entries:
            raise MismatchError(f"{path}: nobody asked for them, or nobody could know them")
        return
    if [entry["token"] for entry in entries] != tokens:
        raise MismatchError(f"{path}: not one for each token")
    if entries:  # all name as many: what was asked for, or a small vocabulary
        num_tops = min(num_tops, len(entries[0]["top"]))
    for i, entry in enumerate(entries):
        if not _is_consistent(entry, num_tops):
            raise MismatchError(f"{path}[{i}]: contradicts itself: {str(entry)[:200]}")


def _is_consistent(entry: Json, num_tops: int) -> bool:
    """Whether rank, log-probability and the likeliest tokens say the same."""
    top = [tuple(candidate) for candidate in entry["top"]]
    own = (entry["token"], entry["logprob"])
    if not len(dict(top)) == len(top) == num_tops > 0:
        return False
    if any(a[1] < b[1] for a, b in pairwise(top)) or top[0][1] > 0:
        return False
    if entry["rank"] <= len(top):
        return bool(top[entry["rank"] - 1] == own)
    return own[0] not in dict(top) and own[1] <= top[-1][1]


def _check_text(name: str, request: RequestSpec, result: Json) -> None:
    """A text that holds a stop string would have ended before it."""
    if result.get("finish_reason") == "stop_token":
        return  # the token that ended it may have completed one as well
    for stop in request.stop:
        # U+FFFD stands for bytes that are no text, and no stop string matches those.
        if "\ufffd" not in stop and stop in (result.get("text") or ""):
            raise MismatchError(f"results.{name}.text: goes on after the stop string {stop!r}")
