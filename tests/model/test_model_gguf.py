"""GGUF in, checkpoint out: the values, the row order, the tokenizer; damaged files refused."""

import json
import resource
import struct
import subprocess
import sys

import numpy as np
import pytest
import tiny_gguf
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from model_driver import check_against_oracle, generate, oracle
from safetensors.torch import load_file

from core.model.convert import convert, hf_name, unpermute
from core.model.errors import ModelFileError
from core.model.gguf_reader import GGUFFile
from core.model.model_runner import ModelRunner
from core.model.safetensors_writer import to_bfloat16
from core.model.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """(path, values in Hugging Face order)"""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, tiny_gguf.write_gguf(path)


@pytest.fixture(scope="session")
def converted(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("converted")
    convert(source[0], target, lambda stage, done, total: None)
    return target


def test_values_and_row_order(source, converted):
    tensors = load_file(converted / "model.safetensors")
    assert set(tensors) == set(source[1])
    for name, expected in source[1].items():
        assert tensors[name].dtype == torch.bfloat16
        assert torch.equal(tensors[name], torch.from_numpy(expected).bfloat16()), name


def test_reader_agrees_with_the_gguf_package(source):
    from gguf import GGUFReader, quants

    theirs = {t.name: t for t in GGUFReader(source[0]).tensors}
    with GGUFFile(source[0]) as ours:
        assert set(ours.tensors) == set(theirs)
        for name, tensor in theirs.items():
            expected = quants.dequantize(tensor.data, tensor.tensor_type)
            pieces = list(ours.rows(name, chunk_bytes=1000))
            assert np.array_equal(np.concatenate(pieces).reshape(expected.shape), expected)


def test_the_converted_model_equals_the_oracle(converted):
    runner = ModelRunner(converted, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    reference = oracle(converted)
    prompts = [[5, 9, 11, 250, 3], list(range(60, 90))]
    outputs, logits = generate(runner, prompts, 8)
    for prompt, out, rows in zip(prompts, outputs, logits, strict=True):
        check_against_oracle(reference, prompt, out, rows)
    assert runner.eos_token_ids == {2}


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 2), (3, 4), (9, 64)])
def test_unpermute_undoes_the_permutation(heads, head_dim):
    w = np.random.default_rng(0).standard_normal((heads * head_dim, 5)).astype(np.float32)
    assert np.array_equal(unpermute(tiny_gguf.permute(w, heads), heads), w)


def test_config_and_tokenizer(converted):
    config = json.loads((converted / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True
    tokenizer = Tokenizer(converted)
    assert tokenizer.decode(tokenizer.encode("the 12 🙂")) == "the 12 🙂"
    assert tokenizer.special_ids == {0, 1, 2}
    assert tokenizer.apply_chat_template([{"role": "user", "content": "x"}]) == "x"


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@example([0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.3895e38, 1e-45])
def test_rounding_to_bfloat16_equals_torch(values):
    array = np.array(values, dtype=np.float32)
    expected = torch.from_numpy(array).bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bfloat16(array), expected)


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.ffn_gate_exps.weight",
        "blk.0.attn_q.scale",
        "blk.x.attn_q.weight",
        "blk.².attn_q.weight",
        "blk.0.attn_q",
        "rope_freqs.weight",
        "blk",
        "",
        "é.weight",
    ],
)
def test_unknown_tensors_are_named(name):
    with pytest.raises(ModelFileError, match="a Llama has not"):
        hf_name(name)


# -- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 3, 4, 12, 24, 100, 3000, -1])
def test_truncated(source, tmp_path, kept):
    path = tmp_path / "cut.gguf"
    path.write_bytes(source[0].read_bytes()[:kept])
    with pytest.raises(ModelFileError, match=r"cut\.gguf"):
        convert(path, tmp_path, lambda stage, done, total: None)


@pytest.mark.parametrize(
    "head",
    [
        b"GGUX" + struct.pack("<IQQ", 3, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62),  # a key of 4 EiB
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 8, 2**60),  # an array of strings
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 4, 2**61),  # an array of numbers
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 9, 1),  # an array of arrays
        b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 77),  # an unknown type
        b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"\xff", 4, 0, 0),  # a key not in UTF-8
        # a tensor of 2⁶³ × 2⁶³ numbers, whose size must not wrap around to something small
        b"GGUF" + struct.pack("<IQQQ1sIQQIQ", 3, 1, 0, 1, b"a", 2, 2**63, 2**63, 0, 0),
        b"GGUF" + struct.pack("<IQQQ1sIQQIQ", 3, 1, 0, 1, b"a", 2, 0, 4, 0, 0),
        b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"a", 200),
    ],
)
def test_absurd_headers_are_refused(tmp_path, head):
    path = tmp_path / "bad.gguf"
    path.write_bytes(head + b"\0" * 64)
    with pytest.raises(ModelFileError, match=r"bad\.gguf is not a usable GGUF file"):
        GGUFFile(path)


def test_memory_stays_bounded(tmp_path):
    """A file of 64 MiB of zeros that claims everything: no more than the imports are taken."""
    path = tmp_path / "claims.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 8, 2**40))
        file.truncate(64 << 20)
    program = (
        "import sys; from pathlib import Path; from core.model.gguf_reader import GGUFFile\n"
        "try: GGUFFile(Path(sys.argv[1]))\n"
        "except ValueError as e: print(e)"
    )
    limit = 2 << 30

    def capped():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=capped,
    )
    assert "truncated" in done.stdout, done.stderr
