"""The engine's own pools hold the bytes that are computed for them."""

import json

import pytest

torch = pytest.importorskip("torch")

from core.model.cache import load_path  # noqa: E402 (after the check for torch)
from core.model.config import ModelConfig  # noqa: E402
from core.model.kv_store import KVStore  # noqa: E402
from core.sizing import blocks, kv  # noqa: E402
from core.sizing.architectures import model_from_config  # noqa: E402

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

BASE = {
    "vocab_size": 128,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
CONFIGS = {
    "llama": {**BASE, "model_type": "llama"},
    "llama-mha": {**BASE, "model_type": "llama", "num_key_value_heads": 6},
    "llama-mqa": {**BASE, "model_type": "llama", "num_key_value_heads": 1},
    "qwen3-head-dim": {**BASE, "model_type": "qwen3", "head_dim": 32},
    "mistral-window": {**BASE, "model_type": "mistral", "sliding_window": 16},
}


def checked(raw: dict[str, object], dtype: str, num_blocks: int, block_size: int) -> None:
    config, model = ModelConfig.from_dict(raw), model_from_config(raw)
    store = KVStore(config, num_blocks, block_size, DTYPES[dtype], torch.device("cpu"))
    block = blocks.block_bytes(model, dtype, block_size).value
    assert isinstance(block, int)
    assert store.num_bytes == num_blocks * block
    # The pool that was allocated is counted as that many blocks, and one byte less as one fewer.
    counted = [
        blocks.num_blocks(size, model, dtype, block_size).value
        for size in (store.num_bytes, store.num_bytes - 1)
    ]
    assert counted == [num_blocks, num_blocks - 1]
    token = kv.kv_bytes_per_token(model, dtype).value
    assert token == config.kv_bytes_per_token(str(DTYPES[dtype]).removeprefix("torch."))
    assert model.params == config.num_parameters


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pools_of_small_models(name: str, dtype: str) -> None:
    checked(CONFIGS[name], dtype, num_blocks=7, block_size=5)


@pytest.mark.model
def test_the_pool_of_the_fetched_model() -> None:
    config = load_path("smollm2-135m-instruct") / "config.json"
    checked(json.loads(config.read_text("utf-8")), "fp32", num_blocks=64, block_size=16)
