"""float32 tokens and logits equal those of `transformers` on the same weights, however computed."""

import dataclasses

import pytest
import tiny_llama
import torch
from model_driver import Driver, check_against_oracle, generate, oracle

from core.model import layers
from core.model.model_runner import ModelRunner

TINY_PROMPTS = [
    [7],
    [7, 7],
    [5, 9, 11, 250, 3],
    list(range(3, 20)),
    [319, 0, 44, 44, 44, 44, 8, 100],
    list(range(300, 200, -3)),
    [17] * 16,
    [17] * 17,
    [123, 45, 67, 89, 10, 11, 12],
    list(range(50, 115)),
    [4, 3, 2, 1],
]
BLOCK_SIZES = [1, 4, 16]
CHUNKS = [1, 7, None]


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_batched_tokens_equal_the_oracle(tiny, tiny_oracle, block_size, chunk):
    outputs, logits = generate(tiny, TINY_PROMPTS, 12, chunk, block_size=block_size, num_blocks=600)
    for prompt, out, rows in zip(TINY_PROMPTS, outputs, logits, strict=True):
        check_against_oracle(tiny_oracle, prompt, out, rows)


@pytest.mark.parametrize("prompt", TINY_PROMPTS, ids=lambda p: f"len{len(p)}")
def test_alone_equals_the_oracle(tiny, tiny_oracle, prompt):
    outputs, logits = generate(tiny, [prompt], 12)
    check_against_oracle(tiny_oracle, prompt, outputs[0], logits[0])


def test_prefix_hit_gives_the_same_tokens(tiny, tiny_oracle):
    tiny.bind(64, 4)
    driver = Driver(tiny, seed=3)
    common = [11, 22, 33, 44, 55, 66, 77, 88, 99]
    first = driver.add([*common, 5, 6])
    driver.run([first], 3)
    second, third = driver.add([*common, 200, 201]), driver.add(common)
    driver.share_prefix(second, first, 2)
    driver.share_prefix(third, first, 2)
    driver.run([second, third], 8)
    assert second.block_table[:2] == first.block_table[:2]
    for seq in (second, third):
        prompt = list(seq.request.prompt_tokens)
        rows = torch.stack(driver.logits[seq.id])
        check_against_oracle(tiny_oracle, prompt, seq.output_tokens, rows)


@pytest.mark.parametrize("prompt_length", [1, 6, 8])
def test_fork_copies_a_partial_block_and_twins_go_apart(tiny, tiny_oracle, prompt_length):
    """Trap 38: each twin continues as if it had been alone, the shared blocks untouched."""
    tiny.bind(64, 4)
    driver = Driver(tiny, seed=1)
    prompt = list(range(40, 40 + prompt_length))
    unit = driver.add(prompt, n=3, temperature=5.0)
    [first_tokens] = driver.step([(unit, prompt_length)])
    assert len(set(first_tokens)) == 3, "choose another seed: the twins must differ"
    twins = driver.fork(unit, 3, first_tokens)
    shared = prompt_length // 4
    assert len({tuple(t.block_table[:shared]) for t in twins}) == 1
    unit.request.spec = _greedy(unit.request.spec)
    driver.logits.clear()
    driver.run(twins, 7)
    for twin, token in zip(twins, first_tokens, strict=True):
        assert twin.output_tokens[0] == token
        rows = torch.stack(driver.logits[twin.id])
        check_against_oracle(tiny_oracle, [*prompt, token], twin.output_tokens[1:], rows)


def _greedy(spec):
    return dataclasses.replace(spec, temperature=0.0)


def test_copies_run_in_order_and_before_writes(tiny):
    """Trap 41: one copy's destination is the next one's source; a write then goes over it."""
    tiny.bind(8, 4)
    for layer in tiny.store.blocks:
        for block in range(8):
            layer[:, block] = block
    tiny.store.copy([(1, 2), (2, 3), (5, 1)])
    for layer in tiny.store.blocks:
        assert layer[0, :, 0, 0, 0].tolist() == [0, 5, 1, 1, 4, 5, 6, 7]


def test_an_unfinished_chunk_returns_no_token(tiny):
    """Trap 27."""
    tiny.bind(64, 4)
    driver = Driver(tiny)
    long, short = driver.add(list(range(20))), driver.add([5, 6])
    assert [len(t) for t in driver.step([(long, 13), (short, 2)])] == [0, 1]
    assert [len(t) for t in driver.step([(long, 7), (short, 1)])] == [1, 1]


def test_a_step_of_unfinished_chunks_only(tiny):
    tiny.bind(64, 4)
    driver = Driver(tiny)
    assert driver.step([(driver.add(list(range(20))), 5)]) == [[]]


def test_an_empty_step(tiny):
    assert Driver(tiny).step([]) == []


def test_preempted_and_resumed_equals_undisturbed(tiny):
    """Trap 20: outputs kept, all computed again, the text goes on as if nothing had happened."""
    prompts = [list(range(9, 30)), [5, 6, 7], [200, 100, 50, 25]]
    undisturbed, _ = generate(tiny, prompts, 12)
    tiny.bind(64, 4)
    driver = Driver(tiny, seed=5)
    sequences = [driver.add(p) for p in prompts]
    for target in (3, 6, 7, 9, 12):
        driver.run(sequences, target, chunk=5)
        driver.preempt(sequences[target % 3])
    assert [s.output_tokens for s in sequences] == undisturbed


def test_without_a_kv_cache_everything_is_computed_again(tiny):
    """`kv_cache` false: no blocks; each step computes all tokens of each sequence."""
    prompts = [list(range(9, 30)), [5], [200, 100, 50, 25]]
    cached, _ = generate(tiny, prompts, 6)
    driver = Driver(tiny)
    driver.reserve = lambda seq, num_tokens: None
    sequences = [driver.add(p) for p in prompts]
    before = [layer.clone() for layer in tiny.store.blocks]
    for _ in range(6):
        driver.step([(s, s.num_tokens) for s in sequences])
        for seq in sequences:
            seq.num_computed_tokens = 0
    assert [s.output_tokens for s in sequences] == cached
    assert all(torch.equal(a, b) for a, b in zip(before, tiny.store.blocks, strict=True))


def test_stale_and_foreign_blocks_do_not_leak(tiny):
    """Trap 46: block 0 pads short tables, and new blocks hold what others left; both are hidden."""
    prompts = [[5, 6, 7], list(range(9, 60))]
    clean, _ = generate(tiny, prompts, 8)
    tiny.bind(64, 4)
    for layer in tiny.store.blocks:
        layer.fill_(1e4)
    driver = Driver(tiny, seed=2)
    assert driver.run([driver.add(p) for p in prompts], 8) == clean


def test_tokens_do_not_depend_on_where_blocks_lie(tiny):
    prompts = [list(range(9, 40)), [5, 6, 7]]
    runs = [generate(tiny, prompts, 10, seed=s)[0] for s in range(4)]
    assert all(run == runs[0] for run in runs)


def test_fallback_without_packed_weights(tiny_dir, tiny, monkeypatch):
    monkeypatch.setattr(layers, "pack_weight", lambda weight: None)
    plain = ModelRunner(tiny_dir, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    assert not plain.model.lm_head.packed
    assert generate(plain, TINY_PROMPTS[:4], 8)[0] == generate(tiny, TINY_PROMPTS[:4], 8)[0]


def test_tied_embeddings_and_default_head_dim(tmp_path):
    directory = tiny_llama.write_checkpoint(
        tmp_path / "tied", seed=4, tie_word_embeddings=True, head_dim=8, num_key_value_heads=6
    )
    runner = ModelRunner(directory, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    reference = oracle(directory)
    outputs, logits = generate(runner, TINY_PROMPTS[:4], 8)
    for prompt, out, rows in zip(TINY_PROMPTS[:4], outputs, logits, strict=True):
        check_against_oracle(reference, prompt, out, rows)
