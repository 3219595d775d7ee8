"""What a run of a model says about its ends: checked without the model, as far as that goes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from core.engine import Engine
from core.errors import MismatchError
from core.request import Sequence
from core.runner import ScriptedRunner
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import run_from_dict
from tests.core.drive import Json, req, scenario


class Speaking(ScriptedRunner):
    """Stands for a model whose token t is the character t."""

    def __init__(self) -> None:
        source = {"device": "CPU", "dtype": "float32", "model": "m", "model_sha256": None}
        super().__init__(source=source)

    def hits_stop_string(self, seq: Sequence) -> bool:
        text = "".join(map(chr, seq.output_tokens))
        return any(text.endswith(stop) for stop in seq.request.spec.stop)


@pytest.fixture
def content() -> Json:
    """A ends at a stop string, B could and does not, C asks for none."""
    script = [ord(char) for char in "one END two"]
    data = scenario(
        req("A", [1, 2], output_tokens=script, stop=["END", "never"], max_tokens=20),
        req("B", [3], output_tokens=script[:5], stop=["END"], max_tokens=5),
        req("C", [4], output_tokens=script, max_tokens=7),
    )
    data["model"] = "m"
    run = Engine(Scenario.from_dict(data), Speaking(), label="RECORDED", debug=True).run_to_end()
    for name, text in [("A", "one "), ("B", "one E"), ("C", "one END")]:
        run.results[name]["text"] = text
    reasons = [result["finish_reason"] for result in run.results.values()]
    assert reasons == ["stop_string", "max_tokens", "max_tokens"]
    written: Json = json.loads(json.dumps(run.to_dict()))
    return written


def finished(content: Json, name: str) -> Json:
    return next(
        event
        for record in content["steps"]
        for event in record["events"]
        if event["type"] == "finished" and event["sequence"] == name
    )


def test_it_verifies_as_recorded(content: Json) -> None:
    verify(run_from_dict(copy.deepcopy(content)))


@pytest.mark.parametrize("name", ["A", "B", "C"])
@pytest.mark.parametrize("reason", ["stop_string", "stop_token", "max_tokens", "max_model_len"])
def test_another_reason_is_found_unless_only_the_model_could_know(
    content: Json, name: str, reason: str
) -> None:
    """B may have ended at its stop string: its request has one, and only the model knows its text.

    Everything else contradicts the tokens or the settings.
    """
    if content["results"][name]["finish_reason"] == reason:
        return
    finished(content, name)["reason"] = reason
    content["results"][name]["finish_reason"] = reason
    if (name, reason) == ("B", "stop_string"):
        verify(run_from_dict(content))
    else:
        with pytest.raises(MismatchError):
            verify(run_from_dict(content))


@pytest.mark.parametrize(
    ("name", "text"), [("A", "one END"), ("A", "neverone "), ("B", "one END"), ("B", "END")]
)
def test_a_text_that_goes_on_after_a_stop_string_is_found(
    content: Json, name: str, text: str
) -> None:
    content["results"][name]["text"] = text
    with pytest.raises(MismatchError, match=rf"results\.{name}\.text"):
        verify(run_from_dict(content))


@pytest.mark.parametrize("stop", [[], ["two"]], ids=str)
def test_a_request_without_the_stop_strings_does_not_end_there(content: Json, stop: Any) -> None:
    """With none at all the end is impossible; another one would have to be in the text."""
    content["header"]["scenario"]["requests"][0]["stop"] = stop
    if stop:
        verify(run_from_dict(content))  # only the model's tokenizer could tell
    else:
        with pytest.raises(MismatchError):
            verify(run_from_dict(content))


def test_log_probabilities_that_nobody_asked_for_are_found(content: Json) -> None:
    entry = {"token": ord("o"), "logprob": -0.5, "rank": 1, "top": [[ord("o"), -0.5]]}
    for kind in ("logprobs", "prompt_logprobs"):
        changed = copy.deepcopy(content)
        changed["results"]["C"][kind] = [entry]
        with pytest.raises(MismatchError, match=kind):
            verify(run_from_dict(changed))


def test_a_scripted_run_has_no_log_probabilities() -> None:
    """Without a model nobody could know them, whatever the scenario asks for."""
    data = scenario(req("A", [1, 2], max_tokens=1, logprobs=1, prompt_logprobs=1))
    run = Engine(Scenario.from_dict(data), ScriptedRunner()).run_to_end()
    verify(run)
    entry = {"token": 1_000_000, "logprob": -0.5, "rank": 1, "top": [[1_000_000, -0.5]]}
    run.results["A"]["logprobs"] = [entry]
    with pytest.raises(MismatchError, match="logprobs"):
        verify(run)
