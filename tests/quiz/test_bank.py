"""Every item, with many numbers: one right answer, three misconceptions, and the engine agrees."""

from __future__ import annotations

import json
import re
from random import Random

import jsonschema_rs
import pytest

from core.scenario import Scenario
from core.simulate import simulate
from core.sizing import calls
from quiz import bank
from quiz.draw import GENERATORS
from quiz.draw.batching import first_step
from quiz.draw.common import geometry, grouped_models
from quiz.errors import QuizError
from quiz.items import RIGHT, Item

TEMPLATES = [name for topic in bank.topics().values() for name in topic.templates]
SEEDS = range(10)
FILES = [json.loads(path.read_text("utf-8")) for path in sorted(bank.BANK.glob("*.json"))]


def _right(item: Item) -> str:
    return item.option(RIGHT).text


def _number(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    assert found, text
    return int(found.group().replace(",", ""))


def test_the_bank_keeps_to_its_schema() -> None:
    schema = json.loads((bank.BANK.parent / "schema.json").read_text("utf-8"))
    validator = jsonschema_rs.validator_for(schema)
    for file in FILES:
        faults = [f"{one.instance_path}: {one.message}" for one in validator.iter_errors(file)]
        assert not faults, (file["id"], faults)
    spoilt = json.loads(json.dumps(FILES[0]))
    next(iter(spoilt["items"][0]["wrong"].values()))["says"] = "Wrong."
    assert not validator.is_valid(spoilt)


def test_a_topic_is_a_file_and_no_name_comes_twice() -> None:
    assert {file["id"] for file in FILES} == {path.stem for path in bank.BANK.glob("*.json")}
    for file in FILES:
        ids = [item["id"] for item in file["items"]]
        assert len({*ids}) == len(ids), file["id"]


def test_every_topic_can_always_ask_something_new() -> None:
    assert tuple(bank.topics())[:4] == bank.FOUR == ("phases", "kv-size", "paging", "batching")
    for topic in bank.topics().values():
        assert any(bank.varies(name) for name in topic.templates), topic.id


@pytest.mark.parametrize("template", TEMPLATES)
def test_one_right_answer_and_three_that_can_be_told_apart(template: str) -> None:
    for seed in SEEDS:
        item = bank.make(template, seed)
        assert len(item.options) == 4
        assert item.keys.count(RIGHT) == 1
        assert len({option.text for option in item.options}) == 4, (seed, item.options)
        texts = [item.question, item.see, *item.given]
        for option in item.options:
            texts += [option.text, option.says, option.fact]
        assert all(texts), (seed, texts)
        assert not [text for text in texts if "{" in text or "!" in text]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_misconception_is_named_and_can_be_drawn(template: str) -> None:
    words = bank.topic_of(template).templates[template]
    missing = {RIGHT, *words["wrong"]}
    for seed in range(200):
        keys = {*bank.make(template, seed).keys}
        assert keys <= {RIGHT, *words["wrong"]}
        missing -= keys
        if not missing:
            break
    assert not missing
    for said in words["wrong"].values():
        assert said["says"].startswith("You ")


def test_every_answer_that_is_computed_has_words_and_every_generator_an_item() -> None:
    used = set()
    for template in TEMPLATES:
        words = bank.topic_of(template).templates[template]
        if "make" in words:
            used.add(words["make"])
        if bank.varies(template):
            for seed in range(6):
                answers = GENERATORS[words["make"]](Random(seed)).answers
                assert set(answers) <= {RIGHT, *words["wrong"]}, template
    assert used == set(GENERATORS)


@pytest.mark.parametrize("template", [name for name in TEMPLATES if bank.varies(name)])
def test_numbers_change_from_seed_to_seed(template: str) -> None:
    items = [bank.make(template, seed) for seed in range(24)]
    assert len({item.sign for item in items}) >= 6
    assert bank.make(template, 7) == bank.make(template, 7)


def test_the_size_of_the_cache_is_the_product_of_what_is_shown() -> None:
    for seed in SEEDS:
        item = bank.make("kv-size/per-token", seed)
        layers, queries, kv_heads, dim, _ = (_number(one.split(" ")[-1]) for one in item.given)
        width = 1 if "FP8" in item.question else 2
        assert _number(_right(item)) == 2 * layers * kv_heads * dim * width
        wrong = {one.key: _number(one.text) for one in item.options}
        expected = {
            "query_heads": 2 * layers * queries * dim * width,
            "keys_only": layers * kv_heads * dim * width,
            "one_layer": 2 * kv_heads * dim * width,
            "one_kv_head": 2 * layers * dim * width,
            "two_bytes": 2 * layers * kv_heads * dim * 2,
        }
        for key in wrong.keys() - {RIGHT}:
            assert wrong[key] == expected[key], (seed, key)


def test_the_named_question_of_the_course_has_its_known_answers() -> None:
    """Llama 3 70B in 16 bits."""
    seen = {}
    for seed in range(400):
        item = bank.make("kv-size/per-token", seed)
        if item.sign.endswith("llama-3-70b bf16"):
            seen.update({option.key: option.aside for option in item.options})
    assert seen == {
        RIGHT: "320 KiB",
        "query_heads": "2.50 MiB",
        "keys_only": "160 KiB",
        "one_layer": "4.00 KiB",
        "one_kv_head": "40.0 KiB",
    }


def test_the_facts_on_the_two_phases_are_computed() -> None:
    item = bank.make("phases/bound", 0)
    assert "295 FLOP" in item.option(RIGHT).fact
    texts = {}
    for seed in range(60):
        texts.update({one.key: one.fact for one in bank.make("phases/bound", seed).options})
    assert "5.27 ms" in texts["sampling"]


def test_streams_are_those_that_the_pool_holds() -> None:
    for seed in SEEDS:
        item = bank.make("kv-size/streams", seed)
        *_, tokens, pool = (_number(one) for one in item.given[-2:])
        _, model, dtype, *_ = item.sign.split(" ")
        per_token = calls.call("kv_bytes_per_token", {"model": model, "dtype": dtype}).value
        assert _number(_right(item)) == pool * 2**30 // (per_token * tokens)


def test_attention_s_intensity_is_the_group_s_whatever_the_batch() -> None:
    for seed in SEEDS:
        item = bank.make("phases/intensity", seed)
        queries, kv_heads, batch = (
            _number(item.given[i].removeprefix(what))
            for i, what in ((0, "query heads "), (1, "KV heads "), (3, "batch "))
        )
        b = 1 if "FP8" in item.given[2] else 2
        expected = {
            RIGHT: 2 * queries / (kv_heads * b),
            "weights": 2 * batch / b,
            "no_groups": 2 / b,
            "one_head": 2 * queries / b,
            "other_format": 2 * queries / (kv_heads * (3 - b)),
        }
        for option in item.options:
            if option.key in expected:
                assert option.text == f"{expected[option.key]:,.1f} FLOP/B", (seed, option.key)


def _own(item: Item) -> dict:
    content = item.proof.link["own"]
    assert Scenario.from_dict(content)
    return content


def test_the_scheduler_counts_the_runs_of_the_model() -> None:
    for seed in SEEDS:
        item = bank.make("phases/passes", seed)
        run = simulate(Scenario.from_dict(_own(item)))
        assert sum("A" in step["scheduled"] for step in run.steps) == _number(_right(item))


def test_the_block_manager_counts_the_blocks() -> None:
    for seed in SEEDS:
        item = bank.make("paging/blocks", seed)
        run = simulate(Scenario.from_dict(_own(item)))
        taken = [
            len(event["blocks"])
            for event in run.steps[0]["events"]
            if event["type"] == "blocks_allocated"
        ]
        assert sum(taken) == _number(_right(item))
        size = run.header["scenario"]["engine"]["block_size"]
        empty = sum(taken) * size - len(run.header["prompts"]["A"])
        assert item.option(RIGHT).aside.startswith(f"{empty} empty")


def test_the_block_manager_counts_the_copies() -> None:
    for seed in SEEDS:
        item = bank.make("paging/copies", seed)
        run = simulate(Scenario.from_dict(_own(item)))
        copies = [e for step in run.steps for e in step["events"] if e["type"] == "block_copied"]
        assert len(copies) == _number(_right(item))


def test_static_batching_starts_late_where_the_scheduler_says() -> None:
    for seed in SEEDS:
        item = bank.make("batching/start", seed)
        content = _own(item)
        assert content["engine"]["batching"] == "static"
        assert _number(_right(item)) == first_step(content)
        lengths = [request["max_tokens"] for request in content["requests"][:3]]
        assert first_step(content) == max(lengths)


def test_the_idle_share_is_counted_in_the_run() -> None:
    for seed in SEEDS:
        item = bank.make("batching/idle", seed)
        run = simulate(Scenario.from_dict(_own(item)))
        batch = [step for step in run.steps if {"A", "B", "C"} & set(step["scheduled"])]
        busy = sum(len({"A", "B", "C"} & set(step["scheduled"])) for step in batch)
        share = 100 * (1 - busy / (3 * len(batch)))
        assert _right(item).startswith(f"{share:.1f}")


def test_models_that_are_drawn_are_real_and_grouped() -> None:
    assert {"llama-3-70b", "qwen3-32b", "mistral-7b"} <= set(grouped_models())
    for name in ("custom-40b", "hypothetical-70b-mqa", "llama-2-7b", "deepseek-v3", "gemma-3-27b"):
        assert name not in grouped_models()
    for name in grouped_models():  # so that what the question shows is all that is needed
        shape = geometry(name)
        product = 2 * shape["n_layers"] * shape["n_kv_heads"] * shape["d_head"] * 2
        assert calls.call("kv_bytes_per_token", {"model": name}).value == product, name
        assert calls.call("fixed_state_bytes", {"model": name}).value == 0, name


def test_a_question_that_is_not_there_is_one_sentence() -> None:
    for template in ("", "phases", "phases/none", "x/y"):
        with pytest.raises(QuizError, match="no question called"):
            bank.make(template, 1)


def test_the_bank_says_every_text_once() -> None:
    """Two misconceptions of one question never share their words."""
    for topic in FILES:
        for item in topic["items"]:
            says = [said["says"] for said in item["wrong"].values()]
            assert len({*says}) == len(says) >= 3, item["id"]
