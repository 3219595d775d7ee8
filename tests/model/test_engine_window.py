"""The whole engine with a model whose every layer slides: blocks go and come, the tokens stay."""

from __future__ import annotations

import families
import pytest
from model_driver import oracle

from core.engine import Engine
from core.errors import MismatchError
from core.model.model_runner import ModelRunner
from core.record import record, verify_tokens
from core.scenario import Scenario
from core.simulate import verify
from core.trace.run import Run, parse_run

WINDOW = 8
LONG = [(7 * i * i + 3 * i) % 320 for i in range(40)]
REQUESTS = [
    {"id": "A", "prompt_tokens": LONG, "max_tokens": 14},
    {"id": "B", "prompt_tokens": [5, 9, 11, 250, 3], "max_tokens": 20, "n": 2, "temperature": 0},
    {"id": "C", "prompt_tokens": [*LONG[:33], 8, 9], "max_tokens": 6, "arrive_step": 24},
    {"id": "D", "prompt_tokens": LONG, "max_tokens": 4, "arrive_step": 25, "beam_width": 2},
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """(runner, oracle) of a Mistral checkpoint with a window of 8."""
    directory = families.FAMILIES["mistral-window"](tmp_path_factory.mktemp("engine") / "mistral")
    runner = ModelRunner(directory, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    return runner, oracle(directory)


def test_a_window_that_is_not_the_models_is_noticed_with_the_model(tmp_path) -> None:
    """Under the tree nothing is given back, so without the model any window would do."""
    directory = families.FAMILIES["mistral-window"](tmp_path / "mistral")
    scenario = {
        "schema": "scenario/1",
        "model": str(directory),
        "requests": [{"id": "A", "prompt_tokens": LONG[:20], "max_tokens": 3, "temperature": 0}],
    }
    run = record(Scenario.from_dict(scenario), dtype="float32", device="cpu")
    verify(run)
    verify_tokens(run)
    run.header["sliding_window"] = WINDOW + 1
    verify(run)
    with pytest.raises(MismatchError, match="sliding_window"):
        verify_tokens(run)


def run_of(runner, **engine) -> tuple[Engine, Run]:
    engine = {
        "num_blocks": 24,
        "block_size": 4,
        "max_num_seqs": 6,
        "max_num_batched_tokens": 48,
        **engine,
    }
    requests = [{"ignore_eos": True, "temperature": 0, **request} for request in REQUESTS]
    scenario = Scenario.from_dict(
        {"schema": "scenario/1", "model": "mistral", "engine": engine, "requests": requests}
    )
    runner.bind(engine["num_blocks"], engine["block_size"])
    made = Engine(scenario, runner, debug=True, label="RECORDED")
    return made, made.run_to_end()


@pytest.fixture(scope="module")
def expected(pair):
    """Tokens of `transformers`, by sequence; the first beam's of D."""
    import torch

    tokens = {}
    for request in REQUESTS:
        ids = torch.tensor([request["prompt_tokens"]])
        out = pair[1].generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request["max_tokens"],
            num_beams=request.get("beam_width", 1),
            do_sample=False,
            eos_token_id=-1,
            pad_token_id=0,
        )
        tokens[request["id"]] = out[0, ids.shape[1] :].tolist()
    return tokens


@pytest.mark.parametrize(
    "engine",
    [
        {"prefix_cache": "hash"},
        {"prefix_cache": "hash", "num_blocks": 15, "eviction": "fifo"},
        {"prefix_cache": "hash", "long_prefill_token_threshold": 5},
        {"prefix_cache": "off", "block_size": 3},
        {"prefix_cache": "off", "block_size": 1, "num_blocks": 90},
        {"prefix_cache": "radix"},
    ],
    ids=str,
)
def test_the_tokens_are_the_oracles(pair, expected, engine) -> None:
    made, run = run_of(pair[0], **engine)
    found = {name: seq.output_tokens for name, seq in made.sequences().items()}
    assert found["A"] == expected["A"]
    assert found["B#0"] == found["B#1"] == expected["B"]
    assert found["C"] == expected["C"]
    (best,) = [name for name, result in run.results.items() if result.get("rank") == 0]
    assert found[best] == expected["D"]
    assert run.header["sliding_window"] == WINDOW
    again = parse_run(run.to_bytes())
    verify(again)
    passed = [e for step in run.steps for e in step["events"] if e.get("reason") == "window"]
    assert bool(passed) == (engine["prefix_cache"] != "radix")
    if engine == {"prefix_cache": "hash"}:
        assert run.results["C"]["num_cached_tokens"] == 32
        shared = [e for e in run.steps[24]["events"] if e["type"] == "block_shared"]
        assert [(len(e["blocks"]), e["index"]) for e in shared] == [(2, 6)], "⌈7 / 4⌉ of 8 blocks"
