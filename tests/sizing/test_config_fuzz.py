"""Whatever is thrown at a config: a model, or one sentence with the field's path; nothing else."""

from __future__ import annotations

import copy
import json
import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.sizing import catalog, config_json
from core.sizing.architectures import model_from_config
from core.sizing.errors import SizingError

QUICK = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def read(text):
    return config_json.read(text.encode() if isinstance(text, str) else text)


# The file


REFUSED = [
    ("", "config", "is not JSON"),
    ("{", "config", "line 1, column 2"),
    ('{"a": 1} x', "config", "Extra data"),
    ("[1]", "config", "must hold one JSON object"),
    ('"llama"', "config", "must hold one JSON object"),
    ('{"a": 1, "a": 1}', "config.a", "appears twice"),
    ('{"t": {"b": [{"c": 1, "c": 2}]}}', "config.t.b[0].c", "appears twice"),
    ('{"a": NaN}', "config.a", "NaN is not a JSON number"),
    ('{"a": [1, {"b": -Infinity}]}', "config.a[1].b", "-Infinity is not a JSON number"),
    ('{"a": 1e999}', "config.a", "too large"),
    ('{"a": ' + "9" * 5000 + "}", "config.a", "too large"),
    ('{"a":' + "[" * 1000 + "]" * 1000 + "}", "config", "nests deeper than 32 levels"),
    ('{"a":' * 1000 + "1" + "}" * 1000, "config", "nests deeper than 32 levels"),
    ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "config", "nests deeper than 32 levels"),
    ('{"a": "' + "x" * 10_000_000 + '"}', "config", "is larger than 1,048,576 bytes"),
    (b'{"a": "\xff"}', "config", "is not UTF-8 text: byte 7 is invalid"),
]


@pytest.mark.parametrize(("text", "path", "words"), REFUSED, ids=range(len(REFUSED)))
def test_files_that_are_refused(text, path, words):
    started = time.perf_counter()
    with pytest.raises(SizingError) as caught:
        read(text)
    assert time.perf_counter() - started < 1.0
    assert caught.value.path.startswith(path)
    assert words in caught.value.message
    assert len(str(caught.value)) < 400


def test_files_that_cannot_be_read(tmp_path):
    for name in (tmp_path / "none.json", tmp_path, "\0", "x" * 5000):
        with pytest.raises(SizingError, match="cannot be read"):
            config_json.read(name)


def test_a_file_a_name_and_bytes_are_read_alike(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('\ufeff{"model_type": "llama", "deep": {"a": [1, 2.5, null, true]}}', "utf-8")
    expected = {"model_type": "llama", "deep": {"a": [1, 2.5, None, True]}}
    assert config_json.read(file) == config_json.read(str(file)) == expected
    assert config_json.read(file.read_bytes()) == expected


@QUICK
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace")))
def test_random_bytes(data):
    try:
        assert isinstance(config_json.read(data), dict)
    except SizingError as error:
        assert error.path.startswith("config") and "\n" not in error.message


plain = st.none() | st.booleans() | st.integers(-3, 9) | st.floats(-2, 2) | st.text(max_size=3)
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


@settings(QUICK, max_examples=60)
@given(st.dictionaries(st.text(max_size=3), nested, max_size=4))
def test_what_json_writes_is_read_as_json_reads_it(value):
    text = json.dumps(value)
    assert read(text) == json.loads(text)


# The fields


numbers = st.one_of(
    st.integers(-2, 40),
    st.sampled_from([2**16, 2**20, 2**24, 2**31, 2**63, 10**30, -(10**30)]),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 64.0, 1e300, math.nan, math.inf, -math.inf]),
)
words = st.sampled_from(
    ["", "8", "auto", "llama", "gemma3_text", "full_attention", "sliding_attention", "mamba",
     "conv", "hybrid", "MEM*", "LLG", "FS", "float32", "all", "\ud800", "x" * 300]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.sampled_from(["no_op", "ffn", "num_heads", "kv_n_heads", "0"]), inner),
    ),
    max_leaves=6,
)
NAMES = sorted(
    {
        name
        for entry in catalog.entries().values()
        for config in (entry.config, entry.config.get("text_config", {}))
        for name in config
    }
    | {"layer_types", "layers_block_type", "mlp_layer_types", "per_layer_config", "block_configs"}
    | {"index_topk_pattern", "attention_types", "num_kv_heads", "indexer_types", "sliding_window"}
)


def check(config):
    """A model that is sound, or a sentence with a path."""
    before = copy.deepcopy(config) if "nan" not in repr(config) else None
    try:
        spec = model_from_config(config)
    except SizingError as error:
        assert error.path == "config" or error.path.startswith(("config.", "config["))
        assert error.message and "\n" not in error.message and len(error.message) < 400
        assert not error.message[0].isupper() or error.message.startswith("KV")
        return
    assert before is None or config == before
    assert 0 < len(spec.layers) <= 8192
    for count in (spec.params, spec.active_params, spec.matmul_params):
        assert count is None or (type(count) is int and 0 <= count < 2**63)
    for part in spec.parts:
        assert part.params >= part.active >= 0
    assert spec.fields["n_layers"] == len(spec.layers)


@settings(QUICK, max_examples=400)
@given(
    st.sampled_from(catalog.names()),
    st.dictionaries(st.sampled_from(NAMES), values, min_size=1, max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.booleans(),
)
def test_published_configs_with_fields_gone_wrong(name, changes, gone, outside):
    config = copy.deepcopy(catalog.entries()[name].config)
    target = config if outside else config.get("text_config", config)
    target.update(changes)
    for field in gone:
        target.pop(field, None)
    check(config)


@QUICK
@given(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=12),
    st.sampled_from(sorted({e.config["model_type"] for e in catalog.entries().values()} | {"new"})),
)
def test_configs_made_at_random(config, kind):
    check({**config, "model_type": kind})


@QUICK
@given(values)
def test_anything_at_all(value):
    check(value)
    check({"text_config": value, "model_type": "gemma3"})


def test_hostile_sizes_cost_nothing():
    """The largest numbers that are let through make neither a long list nor a long wait."""
    config = {**catalog.entries()["llama-3-8b"].config, "num_hidden_layers": 4096}
    started = time.perf_counter()
    spec = model_from_config(config)
    assert len(spec.layers) == 4096 and len(spec.layer_groups) == 1
    assert time.perf_counter() - started < 0.5


def test_the_whole_catalogue_is_read_quickly():
    catalog.entries()
    started = time.perf_counter()
    for entry in catalog.entries().values():
        model_from_config(entry.config)
    assert time.perf_counter() - started < 0.5
