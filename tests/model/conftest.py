import os

import pytest

# The GPU, where there is one, has tests of its own; these compare float32 on the CPU.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # test processes run side by side, and the model is tiny

import tiny_llama  # noqa: E402
from model_driver import oracle  # noqa: E402

from core.llm import LLM  # noqa: E402
from core.model.cache import load_path  # noqa: E402
from core.model.model_runner import ModelRunner  # noqa: E402

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory):
    """A tiny checkpoint: grouped queries, head_dim of its own, untied embeddings."""
    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny(tiny_dir):
    return ModelRunner(tiny_dir, dtype="float32", device="cpu", num_blocks=64, block_size=4)


@pytest.fixture
def tiny_llm(tiny_dir):
    """`LLM`s of the tiny model that check every step: `tiny_llm(num_blocks=…, **engine)`."""

    def make(**engine):
        defaults = {"num_blocks": 64, "block_size": 4, "max_model_len": 64}
        return LLM(tiny_dir, dtype="float32", device="cpu", debug=True, **{**defaults, **engine})

    return make


@pytest.fixture(scope="session")
def tiny_oracle(tiny_dir):
    return oracle(tiny_dir)


@pytest.fixture(scope="session")
def model_dir():
    """Only for tests marked `model`, which are skipped where it is not fetched."""
    return load_path(MODEL)


@pytest.fixture(scope="session")
def smollm(model_dir):
    return ModelRunner(MODEL, dtype="float32", device="cpu", num_blocks=64, block_size=16)


@pytest.fixture(scope="session")
def smollm_oracle(model_dir):
    return oracle(model_dir)
