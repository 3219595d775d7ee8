"""Bytes of the cache equal those that `transformers` and this engine keep after a forward pass."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.sizing.architectures import model_from_config
from core.sizing.geometry import KVHeads, Latent
from core.sizing.kv import fixed_state_bytes, kv_bytes_per_token, kv_bytes_sequence

sys.path.insert(0, str(Path(__file__).parent.parent / "model"))

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import families  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from core.model.config import ModelConfig  # noqa: E402
from core.model.kv_store import KVStore  # noqa: E402
from tests.sizing import tiny_models  # noqa: E402

transformers.logging.set_verbosity_error()

TOKENS = 13
"""Longer than the windows of 8, so that sliding layers have begun to forget."""

HELD = ("keys", "values", "indexer_keys", "conv_states", "recurrent_states")


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors(inner)


def held_bytes(output, model):
    """What is kept between two steps: in the cache, or in the layers themselves (Griffin)."""
    cache = getattr(output, "cache", None)
    if cache is None:
        blocks = [layer.temporal_block for layer in model.model.layers]
        states = [
            (b.conv1d_state, b.rg_lru.recurrent_states) for b in blocks if hasattr(b, "rg_lru")
        ]
        return sum(t.nbytes for t in tensors(states))
    layers = [getattr(layer, name, None) for layer in cache.layers for name in HELD]
    return sum(t.nbytes for t in tensors([layers, getattr(cache, "linear_cache", [])]))


def between_steps(spec):
    """A window of W tokens holds the one that is being computed: W − 1 are kept until it comes."""

    def kept(cache):
        if isinstance(cache, KVHeads | Latent) and cache.window is not None:
            return replace(cache, window=cache.window - 1)
        return cache

    return replace(spec, layers=tuple(replace(lay, cache=kept(lay.cache)) for lay in spec.layers))


def library_bytes(spec, dtype):
    state = fixed_state_bytes(spec, dtype).value
    return kv_bytes_sequence(between_steps(spec), TOKENS, dtype).value + state


def run(kind, dtype, **more):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = tiny_models.config_of(kind, **more)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    with torch.no_grad():
        output = model(torch.randint(3, 300, (1, TOKENS)), use_cache=True)
    return model_from_config(tiny_models.as_published(config)), held_bytes(output, model)


# transformers keeps every token of GPT-Neo's local layers, though they read 256 at most.
KEEPS_MORE = {"gpt_neo": {"attention_types": [[["global"], 4]]}}
# Griffin's layers hold their state themselves; its attention's is in a cache that is not returned.
ONLY_STATE = {"recurrent_gemma"}


@pytest.mark.parametrize("kind", tiny_models.known())
def test_bytes_that_transformers_keeps(kind):
    spec, kept = run(kind, torch.bfloat16, **KEEPS_MORE.get(kind, {}))
    if kind in ONLY_STATE:
        assert fixed_state_bytes(spec, "bf16").value == kept
    else:
        assert library_bytes(spec, "bf16") == kept


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "deepseek_v3", "qwen3_next", "zamba2"])
def test_in_full_precision_too(kind):
    spec, kept = run(kind, torch.float32)
    assert library_bytes(spec, "fp32") == kept


WINDOWS = [
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 2}, 4),
    ("mistral", {"sliding_window": None}, 0),
    ("gemma2", {}, 3),
    ("gemma3_text", {"layer_types": ["full_attention"] + ["sliding_attention"] * 5}, 5),
    ("cohere2", {"sliding_window": 40}, 5),
    ("llama4_text", {"no_rope_layers": [0, 1, 1, 0, 1, 1]}, 4),
    ("olmo3", {"num_hidden_layers": 9}, 7),
]


@pytest.mark.parametrize(("kind", "more", "sliding"), WINDOWS)
def test_windows_by_rule_and_by_list(kind, more, sliding):
    spec, kept = run(kind, torch.bfloat16, **more)
    assert library_bytes(spec, "bf16") == kept
    assert sum(layer.cache.window is not None for layer in spec.layers) == sliding


@pytest.mark.parametrize("name", families.CONFIGS)
@pytest.mark.parametrize(("dtype", "short"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
def test_bytes_of_this_engines_pool(name, dtype, short):
    """The pool keeps every token of every layer; windows give whole blocks back, not slots."""
    config = families.CONFIGS[name]
    spec = model_from_config(config)
    blocks, block_size = 5, 4
    engine = ModelConfig.from_dict(config)
    store = KVStore(engine, blocks, block_size, dtype, torch.device("cpu"))
    assert store.num_bytes == blocks * block_size * kv_bytes_per_token(spec, short).value
    assert spec.params == engine.num_parameters
    assert tuple(layer.cache.window for layer in spec.layers) == engine.layer_windows
