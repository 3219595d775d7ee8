"""The default model in float32 against `transformers`, on the same converted checkpoint.

Skipped where the model has not been fetched (`python -m core models fetch smollm2-135m-instruct`).
"""

import pytest
import torch
from model_driver import Driver, generate
from model_driver import check_against_oracle as check

pytestmark = pytest.mark.model

TEXTS = [
    "The capital of France is",
    "1 2 3 5 8 13",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a small village at the edge of a great forest, there lived",
    "日本の首都は",
    "🙂 means",
    "A",
    "Water boils at 100 degrees",
    'The word "naïve" is spelled',
    "SELECT name FROM users WHERE",
    "In 1969 the first people landed on the Moon. " * 3,
]
CHAT = [{"role": "user", "content": "What is gravity?"}]


def check_oracle(*args):
    check(*args, tolerance=5e-4)


@pytest.fixture(scope="module")
def prompts(smollm):
    chat = smollm.tokenizer.apply_chat_template(CHAT)
    return [smollm.tokenize(t) for t in [*TEXTS, chat]]


@pytest.mark.parametrize(("block_size", "chunk"), [(16, None), (1, 7), (4, 16)])
def test_batched_tokens_equal_the_oracle(smollm, smollm_oracle, prompts, block_size, chunk):
    outputs, logits = generate(
        smollm, prompts, 16, chunk, block_size=block_size, num_blocks=2048 // block_size
    )
    for prompt, out, rows in zip(prompts, outputs, logits, strict=True):
        check_oracle(smollm_oracle, prompt, out, rows)


@pytest.mark.parametrize("index", [0, 3, 6, 11])
def test_alone_equals_the_oracle(smollm, smollm_oracle, prompts, index):
    outputs, logits = generate(smollm, [prompts[index]], 16, block_size=16)
    check_oracle(smollm_oracle, prompts[index], outputs[0], logits[0])


def test_token_by_token_prefill_equals_the_oracle(smollm, smollm_oracle, prompts):
    outputs, logits = generate(smollm, prompts[:3], 4, chunk=1, block_size=4)
    for prompt, out, rows in zip(prompts, outputs, logits, strict=False):
        check_oracle(smollm_oracle, prompt, out, rows)


def test_prefix_hit_and_fork(smollm, smollm_oracle, prompts):
    smollm.bind(256, 4)
    driver = Driver(smollm, seed=3)
    story = prompts[3]
    first = driver.add(story)
    driver.run([first], 2)
    second = driver.add([*story[:9], *prompts[0]])
    driver.share_prefix(second, first, 2)
    driver.run([first, second], 8)
    check_oracle(
        smollm_oracle,
        list(second.request.prompt_tokens),
        second.output_tokens,
        torch.stack(driver.logits[second.id]),
    )


def test_it_speaks(smollm, prompts):
    outputs, _ = generate(smollm, [prompts[0], prompts[-1]], 12, block_size=16)
    assert smollm.tokenizer.decode(outputs[0]).startswith(" Paris")
    assert "Gravity is" in smollm.tokenizer.decode(outputs[1])


def test_what_it_says_of_itself(smollm, model_dir):
    from core.model.cache import catalogue

    assert smollm.source["device"] == "CPU"
    assert smollm.source["dtype"] == "float32"
    assert smollm.source["model"] == "smollm2-135m-instruct"
    # The conversion is the same to the bit on every machine.
    assert smollm.source["model_sha256"] == catalogue()["smollm2-135m-instruct"].weights_sha256
    assert smollm.config.kv_bytes_per_token("bfloat16") == 23_040
    assert smollm.config.num_parameters == 134_515_008
    assert smollm.eos_token_ids == {2}
    smollm.bind(10, 16)
    assert smollm.kv_cache_bytes == 10 * 16 * smollm.kv_bytes_per_token == 10 * 16 * 46_080
