"""JSON into typed arguments: what is taken, what is refused, and where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from core.sizing import catalog, gpus, inputs
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec


@dataclass(frozen=True)
class Part:
    name: str
    size: int = 1

    def __post_init__(self) -> None:
        if self.size > 9:
            raise SizingError("size", "is too large")


def everything(
    whole: int,
    number: float,
    word: str,
    flag: bool,
    either: int | str,
    maybe: int | None = None,
    many: Sequence[int] = (),
    table: Mapping[str, float] | None = None,
    part: Part | None = None,
    kind: Literal["a", "b"] = "a",
    anything: Any = None,
) -> dict[str, Any]:
    return dict(locals())


GOOD = {"whole": 4096.0, "number": 1, "word": "x", "flag": True, "either": "y"}


def test_what_is_taken() -> None:
    out = inputs.build(
        everything,
        {
            **GOOD,
            "many": [1, 2.0],
            "table": {"bf16": 1e14, "fp8": 2},
            "part": {"name": "p"},
            "kind": "b",
            "anything": [None, {"x": None}],
        },
    )
    assert out["whole"] == 4096 and type(out["whole"]) is int
    assert type(out["number"]) is int, "an integer stays exact where a float will do"
    assert out["many"] == (1, 2) and out["table"] == {"bf16": 1e14, "fp8": 2}
    assert out["part"] == Part("p") and out["kind"] == "b" and out["maybe"] is None
    assert out["anything"] == [None, {"x": None}]


@pytest.mark.parametrize(
    ("changed", "path", "sentence"),
    [
        ({"whole": "4096"}, "in.whole", "must be a whole number, not '4096'"),
        ({"whole": 1.5}, "in.whole", "must be a whole number, not 1.5"),
        ({"whole": True}, "in.whole", "must be a whole number, not true"),
        ({"whole": None}, "in.whole", "must be a whole number, not null"),
        ({"whole": float("nan")}, "in.whole", "must be a whole number, not nan"),
        ({"whole": 10**40}, "in.whole", "is too large: 1000000000"),
        ({"number": float("inf")}, "in.number", "must be a finite number, not inf"),
        ({"number": 10**400}, "in.number", "is too large"),
        ({"number": []}, "in.number", "must be a number, not a list"),
        ({"word": 3}, "in.word", "must be a word, not 3"),
        ({"flag": 1}, "in.flag", "must be true or false, not 1"),
        ({"either": []}, "in.either", "must be a whole number or a word, not a list"),
        ({"many": 1}, "in.many", "must be a list, not 1"),
        ({"many": [1, "x"]}, "in.many[1]", "must be a whole number, not 'x'"),
        ({"many": [1] * 100_001}, "in.many", "has 100,001 entries"),
        ({"table": {"bf16": "fast"}}, "in.table.bf16", "must be a number, not 'fast'"),
        ({"part": {"name": "p", "size": "x"}}, "in.part.size", "must be a whole number"),
        ({"part": {"name": "p", "size": 10}}, "in.part.size", "is too large"),
        ({"part": {"nome": "p"}}, "in.part.nome", "is no input here; did you mean name?"),
        ({"part": {}}, "in.part.name", "is missing"),
        ({"kind": "c"}, "in.kind", "must be one of a, b, not 'c'"),
        ({"hole": 1}, "in.hole", "is no input here; did you mean whole?"),
        ({"zzzzz": 1}, "in.zzzzz", "is no input here; known: anything, either"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused(changed: dict[str, Any], path: str, sentence: str) -> None:
    with pytest.raises(SizingError) as caught:
        inputs.build(everything, {**GOOD, **changed}, "in")
    assert caught.value.path == path
    assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize("name", GOOD)
def test_what_is_missing(name: str) -> None:
    given = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(SizingError, match=f"^in.{name}: is missing$"):
        inputs.build(everything, given, "in")


@pytest.mark.parametrize("given", [None, [], "x", 3])
def test_inputs_are_an_object(given: object) -> None:
    with pytest.raises(SizingError, match=r"^in: must be an object, not "):
        inputs.build(everything, given, "in")


def name_of(model: ModelSpec, tokens: int = 1) -> str:
    return model.name


def name_if_any(model: ModelSpec | None = None) -> str:
    return model.name if model else "none"


def windows(model: ModelSpec, window: int | None = None) -> int | None:
    return window


def test_a_model_by_name_by_config_or_as_it_is() -> None:
    config = catalog.entries()["llama-3-8b"].config
    assert inputs.build(name_of, {"model": "llama-3-8b"}) == "llama-3-8b"
    assert inputs.build(name_of, {"config": config}) == "config"
    assert inputs.build(name_of, {"model": catalog.get("qwen3-8b")}) == "qwen3-8b"
    assert inputs.build(name_if_any, {}) == "none"


@pytest.mark.parametrize(
    ("given", "path", "sentence"),
    [
        ({}, "in.model", "is missing: give a name of the catalogue, or config"),
        ({"model": None}, "in.model", "must be a name of the catalogue, not null"),
        ({"model": "llama-3-9b"}, "in.model", "'llama-3-9b' is not in the catalogue; near it: "),
        ({"model": "llama-3-8b", "config": {}}, "in.config", "stands beside model"),
        ({"config": []}, "in.config", "must be what a config.json holds, not a list"),
        ({"config": {"model_type": "llama"}}, "in.config.", "is missing"),
        ({"model": "llama-3-8b", "n_layers": 33}, "in.n_layers", "says 33, but llama-3-8b has 32"),
        ({"model": "llama-3-8b", "n_layers": "32"}, "in.n_layers", "must be a whole number"),
        ({"model": "llama-3-8b", "d_latent": 512}, "in.d_latent", "says 512, but llama-3-8b has n"),
        ({"model": "llama-3-8b", "attention": "mla"}, "in.attention", "says mla, but llama-3-8b h"),
        ({"model": "llama-3-8b", "params": 7e9}, "in.params", "says 7000000000, but llama-3-8b ha"),
        ({"n_layers": 32}, "in.model", "is missing"),
        ({"model": "llama-3-8b", "n_layer": 32}, "in.n_layer", "is no input here; did you mean n_"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_model_that_is_refused(given: dict[str, Any], path: str, sentence: str) -> None:
    with pytest.raises(SizingError) as caught:
        inputs.build(name_of, given, "in")
    assert caught.value.path.startswith(path)
    assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize(
    ("model", "stated"),
    [
        ("llama-3-8b", {"n_layers": 32, "n_heads": 32, "n_q_heads": 32, "n_kv_heads": 8.0}),
        ("llama-3-8b", {"d_head": 128, "d_head_k": 128, "d_head_v": 128, "d_model": 4096}),
        ("llama-3-8b", {"attention": "GQA", "d_latent": None, "n_local_layers": 0, "window": None}),
        ("llama-3-8b", {"params": 8e9}),
        ("llama-3-8b", {"params": 8030261248, "vocab": 128256, "max_position": 8192}),
        ("llama-2-7b", {"attention": "mha"}),
        ("falcon-7b", {"attention": "MQA", "n_kv_heads": 1}),
        ("gemma-2-27b", {"attention": "gqa + sliding window", "window": 4096}),
        ("gemma-2-27b", {"attention": "gqa+sliding-window", "n_local_layers": 23}),
        ("deepseek-v3", {"attention": "mla", "d_latent": 512, "d_rope": 64, "n_layers": 61}),
    ],
    ids=str,
)
def test_geometry_that_agrees(model: str, stated: dict[str, Any]) -> None:
    assert inputs.build(name_of, {"model": model, **stated}) == model


def test_an_input_that_is_geometry_too_must_agree() -> None:
    """null leaves it to the config; another value would be another model."""
    assert inputs.build(windows, {"model": "gemma-2-27b", "window": None}) is None
    assert inputs.build(windows, {"model": "gemma-2-27b", "window": 4096}) == 4096
    with pytest.raises(SizingError, match=r"^in.window: says 1024, but gemma-2-27b has 4096$"):
        inputs.build(windows, {"model": "gemma-2-27b", "window": 1024}, "in")


def ridge(gpu: GpuSpec) -> float:
    return gpu.peaks["bf16"] / gpu.bandwidth


def test_a_gpu_by_name_or_ones_own() -> None:
    assert inputs.build(ridge, {"gpu": "h100-sxm5"}) == 989.4e12 / 3.35e12
    own = {"visible_mib": 1000, "bandwidth": 1e12, "peaks": {"bf16": 2e14}}
    assert inputs.build(ridge, {"gpu": own}) == 200


@pytest.mark.parametrize(
    ("gpu", "path"),
    [
        ("h100-sxm6", "in.gpu"),
        (3, "in.gpu"),
        (None, "in.gpu"),
        ({}, "in.gpu.visible_mib"),
        ({"visible_mib": 1, "bandwidth": -1, "peaks": {"bf16": 1}}, "in.gpu.bandwidth"),
        ({"visible_mib": 1, "bandwidth": 1, "peaks": {"bf16": 0}}, "in.gpu.peaks.bf16"),
        ({"visible_mib": 1, "bandwidth": 1, "peaks": {}}, "in.gpu.peaks"),
        ({"visible_mb": 1}, "in.gpu.visible_mb"),
    ],
    ids=str,
)
def test_a_gpu_that_is_refused(gpu: object, path: str) -> None:
    with pytest.raises(SizingError) as caught:
        inputs.build(ridge, {"gpu": gpu}, "in")
    assert caught.value.path == path


def test_every_gpu_of_the_table_is_taken() -> None:
    for name in gpus.names():
        assert inputs.gpu_meant(name).name == name


def test_paths_join() -> None:
    assert inputs.joined("inputs", "tp") == "inputs.tp"
    assert inputs.joined("a", "config.x", "config") == "a.x"
    assert inputs.joined("a.config", "config[0]", "config") == "a.config[0]"
    assert inputs.joined("a", "") == "a" and inputs.joined("", "b") == "b"
