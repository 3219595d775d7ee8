"""Every family's float32 tokens and logits equal those of `transformers`, however computed."""

import json

import families
import pytest
import torch
from model_driver import Driver, check_against_oracle, generate, oracle

from core.model.config import ModelConfig
from core.model.kv_store import KVLayout
from core.model.model_runner import ModelRunner

# Longer than every window and every original_max_position_embeddings of the checkpoints.
LONG = [(7 * i * i + 3 * i) % 320 for i in range(40)]
PROMPTS = [LONG, [5, 9, 11, 250, 3], [42], list(range(100, 117))]
NUM_OUTPUTS = 6


@pytest.fixture(scope="module", params=families.FAMILIES)
def pair(request, tmp_path_factory):
    """(runner, oracle) of one checkpoint."""
    directory = tmp_path_factory.mktemp("families") / request.param
    families.FAMILIES[request.param](directory)
    runner = ModelRunner(directory, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    return runner, oracle(directory)


def check_all(pair, outputs, logits):
    for prompt, out, rows in zip(PROMPTS, outputs, logits, strict=True):
        check_against_oracle(pair[1], prompt, out, rows)


@pytest.mark.parametrize(("block_size", "chunk"), [(4, None), (1, 7), (4, 1), (16, 16), (3, 5)])
def test_batched_in_chunks_equals_the_oracle(pair, block_size, chunk):
    outputs, logits = generate(
        pair[0], PROMPTS, NUM_OUTPUTS, chunk, block_size=block_size, num_blocks=300
    )
    check_all(pair, outputs, logits)


def test_a_prefill_beside_decodes_equals_the_oracle(pair):
    """The long prompt arrives in chunks while the others are already writing."""
    runner = pair[0]
    runner.bind(300, 4)
    driver = Driver(runner, seed=1)
    sequences = [driver.add(p) for p in PROMPTS]
    late, early = sequences[0], sequences[1:]
    driver.run(early, 2)
    for done in (13, 26, 39, 40):
        shares = [(late, done - late.num_computed_tokens)]
        driver.step(shares + [(s, 1) for s in early])
    driver.run(sequences, 8)
    rows = [torch.stack(driver.logits[s.id]) for s in sequences]
    check_all(pair, [s.output_tokens for s in sequences], rows)


def test_a_prefix_hit_equals_the_oracle(pair):
    runner = pair[0]
    runner.bind(64, 4)
    driver = Driver(runner, seed=2)
    first = driver.add(LONG)
    driver.run([first], 1)
    second = driver.add([*LONG[:24], 7, 8, 9])
    driver.share_prefix(second, first, 6)
    driver.run([second], NUM_OUTPUTS)
    rows = torch.stack(driver.logits[second.id])
    check_against_oracle(pair[1], [*LONG[:24], 7, 8, 9], second.output_tokens, rows)


def test_sizes_equal_the_oracle(pair):
    runner, theirs = pair
    assert runner.config.num_parameters == sum(p.numel() for p in theirs.parameters())
    cfg = runner.config
    per_token = 2 * cfg.num_hidden_layers * cfg.num_key_value_heads * cfg.head_dim
    assert cfg.kv_bytes_per_token("float32") == 4 * per_token


def test_frequencies_equal_the_oracle_to_the_bit(pair):
    runner, theirs = pair
    assert torch.equal(runner.model.rope.inverse_frequency, theirs.model.rotary_emb.inv_freq)
    assert runner.model.rope.attention_factor == theirs.model.rotary_emb.attention_scaling


# -- windows -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def windowed(tmp_path_factory):
    directory = families.FAMILIES["mistral-window"](tmp_path_factory.mktemp("window") / "mistral")
    return ModelRunner(directory, dtype="float32", device="cpu", num_blocks=64, block_size=4)


def release(driver, seq, window):
    """Give back the blocks that no later query sees; −1 takes their place. What lay there is
    overwritten at once, as another sequence might."""
    first = max(0, seq.num_computed_tokens + 1 - window) // driver.block_size
    for entry in range(first):
        block = seq.block_table[entry]
        if block >= 0:
            seq.block_table[entry] = -1
            for layer in driver.runner.store.blocks:
                layer[:, block] = 1e4


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_blocks_out_of_the_window_may_be_given_back(windowed, block_size, chunk):
    runner = windowed
    window = runner.config.kv_window
    assert window == 8
    kept, kept_logits = generate(runner, PROMPTS, 20, chunk, block_size=block_size, num_blocks=400)
    runner.bind(400, block_size)
    driver = Driver(runner)
    sequences = [driver.add(p) for p in PROMPTS]
    while todo := [s for s in sequences if s.num_output_tokens < 20]:
        lacking = [s.num_tokens - s.num_computed_tokens for s in todo]
        driver.step([(s, min(n, chunk or n)) for s, n in zip(todo, lacking, strict=True)])
        for seq in sequences:
            release(driver, seq, window)
    assert [s.output_tokens for s in sequences] == kept
    for seq, rows in zip(sequences, kept_logits, strict=True):
        assert torch.allclose(torch.stack(driver.logits[seq.id]), rows, atol=1e-5)
    if block_size < 16:
        assert -1 in sequences[0].block_table


def test_decodes_read_the_window_and_no_more(windowed):
    from core.model.step_inputs import build_step_inputs
    from core.runner import ScheduledSequence

    seqs = [Driver(windowed).add([5] * n) for n in (41, 3)]
    for seq in seqs:
        seq.num_computed_tokens = len(seq.tokens) - 1
        seq.block_table = list(range(100, 100 + -(-len(seq.tokens) // 4)))
    layout, cpu = KVLayout(256, 4, 2), torch.device("cpu")
    scheduled = [ScheduledSequence(s, 1, 1) for s in seqs]
    inputs = build_step_inputs(scheduled, layout, torch.float32, cpu, (8, None))
    near = inputs.attention[8].decodes
    assert near.block_table.tolist() == [[108, 109, 110], [100, 0, 0]]
    hidden = torch.isinf(near.mask[:, 0, 0]).int().tolist()
    assert hidden == [[1] + [0] * 8 + [1] * 3, [0] * 3 + [1] * 9]
    assert inputs.attention[None].decodes.num_keys == 44


def test_a_write_into_a_block_that_was_given_back_is_an_error(windowed):
    driver = Driver(windowed)
    seq = driver.add([5, 6, 7])
    seq.block_table = [-1]
    with pytest.raises(IndexError, match="given back"):
        driver.step([(seq, 3)])


@pytest.mark.parametrize("count", [1, 3])
def test_a_block_in_view_that_was_given_back_is_an_error(windowed, count):
    driver = Driver(windowed)
    seq = driver.add([5] * 20)
    driver.step([(seq, 20 - count)])
    assert seq.num_computed_tokens == 20 - count
    first_read = max(0, 20 - count + 1 - 8) // driver.block_size
    seq.block_table[first_read] = -1
    with pytest.raises(IndexError, match="in view was given back"):
        driver.step([(seq, count)])


@pytest.mark.parametrize(
    ("name", "windows", "kv_window"),
    [
        ("mistral", (None,) * 3, None),
        ("mistral-window", (8,) * 3, 8),
        ("qwen2", (None,) * 3, None),
        ("qwen2-window", (None, None, 8, 8), None),
        ("qwen3-layer-types", (5, None, 5), None),
    ],
)
def test_windows_per_layer(name, windows, kv_window):
    config = ModelConfig.from_dict(families.CONFIGS[name])
    assert config.layer_windows == windows
    assert config.kv_window == kv_window


def test_absent_fields_mean_what_the_family_says():
    def without(name, *fields):
        return ModelConfig.from_dict(
            {k: v for k, v in families.CONFIGS[name].items() if k not in fields}
        )

    config = {**families.CONFIGS["mistral"], "num_attention_heads": 16}
    config = {k: v for k, v in config.items() if k not in ("sliding_window", "num_key_value_heads")}
    assert ModelConfig.from_dict(config).kv_window == 4096
    assert ModelConfig.from_dict(config).num_key_value_heads == 8
    assert without("qwen3", "head_dim").head_dim == 128
    assert without("llama2-mha", "eos_token_id", "num_key_value_heads").eos_token_ids == (2,)
    assert without("qwen2", "eos_token_id").eos_token_ids == ()
    everywhere = {**families.CONFIGS["qwen2-window"], "max_window_layers": 0}
    assert ModelConfig.from_dict(everywhere).kv_window == 8


def test_both_spellings_of_rope_are_one(tmp_path):
    old = families.CONFIGS["llama3.1"]
    new = {k: v for k, v in old.items() if k not in ("rope_scaling", "rope_theta")}
    new["rope_parameters"] = {**old["rope_scaling"], "rope_theta": old["rope_theta"]}
    assert ModelConfig.from_dict(new).rope == ModelConfig.from_dict(old).rope
    assert json.loads(json.dumps(new)) == new
