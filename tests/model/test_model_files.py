"""Damaged checkpoints end in one clear error, before anything large is allocated."""

import json
import shutil
import struct

import pytest
import torch
from safetensors.numpy import load_file, save_file

from core.__main__ import main
from core.model import kv_store
from core.model.checkpoint_files import INDEX, check_safetensors
from core.model.errors import MemoryBudgetError, ModelError, ModelFileError, ModelNotFound
from core.model.kv_store import KVLayout, KVStore
from core.model.loader import load_llama
from core.model.memory import available_memory_bytes
from core.model.model_runner import ModelRunner

CPU = torch.device("cpu")


@pytest.fixture
def copy(tiny_dir, tmp_path):
    """A checkpoint to damage."""
    return shutil.copytree(tiny_dir, tmp_path / "copy")


def load(directory):
    return load_llama(directory, torch.float32, CPU)


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 5000, -1])
def test_truncated_safetensors(copy, kept):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelFileError, match=r"model\.safetensors is (damaged|truncated)"):
        load(copy)


def test_longer_than_the_header_says(copy):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        load(copy)


def test_absurd_header_length(copy):
    path = copy / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 2**62) + path.read_bytes()[8:])
    with pytest.raises(ModelFileError, match="cannot hold its header"):
        load(copy)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{}",
        b"\xff",
        b'{"a": 1}',
        b'{"a": {"data_offsets": [0]}}',
        b'{"a": {"data_offsets": [0, "x"]}}',
        b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}',
        b"[" * 50_000,
    ],
)
def test_bad_headers(tmp_path, header):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        check_safetensors(path)


def rewrite(directory, change):
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


def test_a_missing_tensor_is_named(copy):
    rewrite(copy, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ModelFileError, match=r"no tensor model\.layers\.1\.mlp\.up_proj\.weight"):
        load(copy)


def test_a_misshapen_tensor_is_named_with_both_shapes(copy):
    def change(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"][:7].copy()

    rewrite(copy, change)
    with pytest.raises(ModelFileError, match=r"model\.norm\.weight has shape \[7\].*\[48\]"):
        load(copy)


def test_integers_are_no_weights(copy):
    def change(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"].astype("int8")

    rewrite(copy, change)
    with pytest.raises(ModelFileError, match="int8"):
        load(copy)


@pytest.mark.parametrize("field", ["hidden_size", "vocab_size", "num_hidden_layers", "head_dim"])
def test_a_config_larger_than_the_weights_is_refused(copy, field):
    """Absurd but allowed sizes: found out from the file, not by allocating them."""
    config = json.loads((copy / "config.json").read_text())
    config[field] = {"num_hidden_layers": 1024, "head_dim": 4096}.get(field, 96_000)
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match=r"implies|no tensor"):
        load(copy)


def shard(directory, index=True):
    """Two files instead of one; with the index that names them."""
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    weight_map = {}
    for number, part in enumerate((sorted(tensors)[:9], sorted(tensors)[9:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({n: tensors[n] for n in part}, directory / file)
        weight_map |= dict.fromkeys(part, file)
    if index:
        text = json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
        (directory / INDEX).write_text(text)
    return weight_map


@pytest.mark.parametrize("index", [True, False])
def test_several_files_make_one_checkpoint(copy, tiny, index):
    shard(copy, index)
    if index:  # a second copy of the weights that the index does not list is not read
        (copy / "consolidated.safetensors").write_bytes(b"not read")
    model = load(copy)
    assert model.config == tiny.config
    assert torch.equal(model.embed_tokens, tiny.model.embed_tokens)


def test_a_file_that_the_index_lists_is_absent(copy):
    shard(copy)
    (copy / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"lists model-00002-of-00002\.safetensors"):
        load(copy)


def test_a_tensor_in_two_files(copy):
    shard(copy, index=False)
    first = copy / "model-00001-of-00002.safetensors"
    (copy / "model-00003.safetensors").write_bytes(first.read_bytes())
    with pytest.raises(ModelFileError, match=r"'lm_head.weight' is in two files, model-00001"):
        load(copy)


def test_an_index_that_points_to_the_wrong_file(copy):
    weight_map = shard(copy)
    weight_map["lm_head.weight"] = "model-00002-of-00002.safetensors"
    (copy / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelFileError, match=r"says that the tensor .lm_head.weight. is in"):
        load(copy)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"weight_map": []}',
        b'{"weight_map": {"a": 5}}',
        b'{"weight_map": {"a": "../../etc/model.safetensors"}}',
        b'{"weight_map": {"a": "/etc/passwd"}}',
        b'{"weight_map": {"a": "x\\u0000.safetensors"}}',
        b'{"weight_map": {"a": ""}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_index(copy, content):
    shard(copy)
    (copy / INDEX).write_bytes(content)
    with pytest.raises(ModelFileError, match=r"index\.json"):
        load(copy)


def test_a_tensor_that_the_model_has_not_is_named(copy):
    """Qwen2 weights under a Llama's name would run, and babble."""

    def change(tensors):
        tensors["model.layers.0.self_attn.q_proj.bias"] = tensors["model.norm.weight"].copy()
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = tensors[
            "model.norm.weight"
        ].copy()

    rewrite(copy, change)
    with pytest.raises(ModelFileError, match=r"q_proj\.bias.*a llama model"):
        load(copy)


def test_tied_embeddings_beside_another_output_matrix(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    with pytest.raises(ModelFileError, match="tie_word_embeddings"):
        load(copy)
    rewrite(copy, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].copy()}))
    assert load(copy).config.tie_word_embeddings


def test_no_weights_at_all(copy):
    (copy / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"no .safetensors"):
        load(copy)


# -- the runner and its pool -------------------------------------------------------------------


def test_a_pool_larger_than_memory_is_refused_with_the_numbers(tiny):
    with pytest.raises(MemoryBudgetError, match=r"100,000,000,000 blocks.*GB.*available"):
        tiny.bind(100_000_000_000, 16)
    tiny.bind(8, 4)
    assert tiny.kv_cache_bytes == 8 * 4 * tiny.kv_bytes_per_token


def test_the_pool_is_checked_against_what_is_available(tiny, monkeypatch):
    monkeypatch.setattr(kv_store, "available_memory_bytes", lambda device: 300 << 20)
    KVStore(tiny.config, 1000, 4, torch.float32, CPU)
    with pytest.raises(MemoryBudgetError, match="choose fewer blocks"):
        KVStore(tiny.config, 100_000, 4, torch.float32, CPU)


def test_memory_in_pieces_is_refused_in_words(tiny, monkeypatch):
    def zeros(*shape, **kind):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(kv_store.torch, "zeros", zeros)
    with pytest.raises(MemoryBudgetError, match=r"8 blocks of 4 tokens.*choose fewer blocks"):
        KVStore(tiny.config, 8, 4, torch.float32, CPU)


def test_a_step_that_does_not_fit_is_one_line(monkeypatch, capsys):
    def run(args):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr("core.commands.generate.run", run)
    assert main(["generate", "hello"]) == 2
    assert capsys.readouterr().err.startswith("error: a step does not fit the device's memory")


def test_available_memory_is_a_plausible_number():
    available = available_memory_bytes(CPU)
    assert available is None or 1 << 20 < available < 1 << 50


def test_on_a_gpu_what_a_pool_before_has_left_with_torch_is_available(monkeypatch):
    """torch gives a freed pool's memory back to nobody: the driver counts it as taken."""
    for name, size in (("memory_reserved", 70 << 30), ("memory_allocated", 4 << 30)):
        monkeypatch.setattr(torch.cuda, name, lambda device, size=size: size)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (6 << 30, 80 << 30))
    assert available_memory_bytes(torch.device("cuda")) == 72 << 30


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 4), (4, 0), (-1, 4)])
def test_a_pool_without_blocks(tiny, num_blocks, block_size):
    with pytest.raises(ValueError, match="a pool needs blocks"):
        tiny.bind(num_blocks, block_size)
    tiny.bind(8, 4)


def test_slots_are_int64(tiny):
    """Trap 47: slot · stride passes 2³¹ on a large pool."""
    from model_driver import Driver

    from core.model.step_inputs import build_step_inputs
    from core.runner import ScheduledSequence

    seq = Driver(tiny).add([5, 6])
    seq.block_table = [2**40]
    inputs = build_step_inputs(
        [ScheduledSequence(seq, 2, 1)], KVLayout(8, 16, 2), torch.float32, CPU
    )
    assert inputs.slot_mapping.tolist() == [2**44, 2**44 + 1]
    assert inputs.slot_mapping.dtype == inputs.slot_index.dtype == torch.int64


def test_token_ids_outside_the_vocabulary_are_refused(tiny):
    from model_driver import Driver

    tiny.bind(8, 4)
    for token in (320, -1):
        driver = Driver(tiny)
        with pytest.raises(ModelError, match="vocabulary"):
            driver.step([(driver.add([5, token]), 2)])


def test_unknown_models_devices_and_dtypes(tiny_dir, tmp_path):
    with pytest.raises(ModelNotFound, match="smollm2-135m-instruct"):
        ModelRunner("no-such-model")
    with pytest.raises(ModelNotFound):
        ModelRunner(tmp_path)
    with pytest.raises(ModelError, match="float16"):
        ModelRunner(tiny_dir, dtype="float16")
    with pytest.raises(ModelError, match="tpu"):
        ModelRunner(tiny_dir, device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="no CUDA"):
            ModelRunner(tiny_dir, device="cuda")


def test_bfloat16_runs_and_says_so(tiny_dir):
    """Only that it works: bfloat16 is not batch-invariant, so no tokens are compared."""
    from model_driver import generate

    runner = ModelRunner(tiny_dir, dtype="bfloat16", device="cpu", num_blocks=64, block_size=4)
    outputs, logits = generate(runner, [[5, 6, 7], list(range(9, 40))], 5, chunk=4)
    assert [len(o) for o in outputs] == [5, 5]
    assert all(torch.isfinite(rows).all() for rows in logits)
    assert runner.source["dtype"] == "bfloat16"
    assert runner.kv_bytes_per_token == runner.config.kv_bytes_per_token("bfloat16")
    timing = runner.step_timing
    assert min(timing.values()) > 0
    parts = [timing[part] for part in ("attention_us", "linear_us", "other_us")]
    assert sum(parts) == pytest.approx(timing["forward_us"])


def test_kernel_padding_gives_zero_not_nan():
    """Trap 46: what the padded rows of a batch rely on in torch's own attention."""
    q = torch.ones(1, 1, 2, 4)
    k = torch.ones(1, 1, 3, 4)
    mask = torch.full((1, 1, 2, 3), float("-inf"))
    mask[0, 0, 0, 0] = 0
    out = torch.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)
    assert out[0, 0, 0].tolist() == [1, 1, 1, 1]
    assert torch.isfinite(out).all()
