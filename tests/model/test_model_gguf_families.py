"""GGUF files of every family and format: the same model as the checkpoint they were made from."""

import dataclasses
import json
import os
import threading

import families
import gguf
import gguf_families
import numpy as np
import pytest
import tiny_gguf
import torch
from gguf import GGMLQuantizationType as Kind
from model_driver import check_against_oracle, generate, oracle
from safetensors.torch import load_file

from core.__main__ import main
from core.llm import LLM
from core.model import convert as convert_module
from core.model import gguf_models
from core.model.cache import check_manifest, load_path
from core.model.config import ModelConfig
from core.model.convert import convert
from core.model.errors import ModelFetchError, ModelFileError, ModelNotFound
from core.model.gguf_reader import GGUFFile
from core.model.model_runner import ModelRunner
from core.model.rope import inverse_frequencies
from core.outputs import SamplingParams


def silent(stage, done, total):
    pass


def convert_family(name, directory, **options):
    """(values in the file, the converted directory)"""
    values = gguf_families.write(name, directory / "model.gguf", **options)
    target = directory / "converted"
    target.mkdir()
    convert(directory / "model.gguf", target, silent)
    return values, target


@pytest.mark.parametrize("name", gguf_families.WRITABLE)
def test_a_family(name, tmp_path):
    values, target = convert_family(name, tmp_path)
    tensors = load_file(target / "model.safetensors")
    assert set(tensors) == set(values)
    for tensor, expected in values.items():
        assert torch.equal(tensors[tensor], torch.from_numpy(expected).bfloat16()), tensor
    ours = ModelConfig.from_dir(target)
    wanted = ModelConfig.from_dict(families.CONFIGS[name])
    assert torch.allclose(
        inverse_frequencies(ours.rope, ours.head_dim),
        inverse_frequencies(wanted.rope, wanted.head_dim),
        rtol=1e-6,
    )
    model_type = "llama" if name == "mistral" else wanted.model_type  # all that differs is its name
    assert ours == dataclasses.replace(
        wanted, rope=ours.rope, dtype="bfloat16", model_type=model_type
    )
    runner = ModelRunner(target, dtype="float32", device="cpu", num_blocks=64, block_size=4)
    prompts = [[5, 9, 11, 250, 3], [(7 * i * i) % 320 for i in range(40)]]
    reference = oracle(target)
    for prompt, out, rows in zip(prompts, *generate(runner, prompts, 5, chunk=9), strict=True):
        check_against_oracle(reference, prompt, out, rows)


# -- formats -----------------------------------------------------------------------------------

KINDS = [
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"),
]


def random_rows(kind, rows, rng):
    """Bytes of `rows` rows of 256 values: any bytes are numbers, if no scale is infinite."""
    num_bytes = rows * 256 // gguf.GGML_QUANT_SIZES[kind][0] * gguf.GGML_QUANT_SIZES[kind][1]
    return rng.integers(0, 0x3C, num_bytes, dtype=np.uint8).reshape(rows, -1)


@pytest.mark.parametrize("name", KINDS)
def test_a_format(name, tmp_path):
    kind = Kind[name]
    raw = random_rows(kind, 12, np.random.default_rng(0))
    writer = gguf.GGUFWriter(str(tmp_path / "x.gguf"), "llama")
    writer.add_tensor("x", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = gguf.quants.dequantize(raw, kind)
    with GGUFFile(tmp_path / "x.gguf") as file:
        assert file.tensors["x"].shape == expected.shape == (12, 256)
        assert np.array_equal(np.concatenate(list(file.rows("x", chunk_bytes=5000))), expected)


@pytest.mark.parametrize("kind", ["I8", "I32", "F64", "Q8_K"])
def test_a_format_that_is_no_weight(kind, tmp_path):
    writer = gguf.GGUFWriter(str(tmp_path / "x.gguf"), "llama")
    block, num_bytes = gguf.GGML_QUANT_SIZES[Kind[kind]]
    raw = np.zeros((2, max(block, 4) // block * num_bytes), np.uint8)
    writer.add_tensor("x", raw, raw_dtype=Kind[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with (
        GGUFFile(tmp_path / "x.gguf") as file,
        pytest.raises(ModelFileError, match=f"{kind} values cannot be dequantised"),
    ):
        list(file.rows("x"))


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda w: w.add_expert_count(8), "llama.expert_count 8"),
        (lambda w: w.add_attn_logit_softcapping(50.0), "attn_logit_softcapping 50.0"),
        (lambda w: w.add_logit_scale(0.25), "logit_scale 0.25"),
        (lambda w: w.add_uint16("split.count", 3), "one of 3 parts"),
        (lambda w: w.add_string("llama.rope.scaling.type", "ntk"), "rope.scaling.type 'ntk'"),
        (lambda w: w.add_float32("llama.rope.scaling.attn_factor", 1.5), "attn_factor 1.5"),
        (lambda w: w.add_sliding_window(2**31), "sliding_window"),
        (lambda w: w.add_tensor("blk.0.attn_q.bias", np.zeros(48, np.float32)), "k_proj.bias"),
        (lambda w: w.add_tensor("blk.7.attn_q.weight", np.zeros((4, 4), np.float32)), "blk.7"),
        (lambda w: w.add_tensor("rope_freqs.weight", np.ones(3, np.float32)), "4 numbers"),
        (lambda w: w.add_string("tokenizer.ggml.add_bos_token", "no"), "add_bos_token"),
    ],
)
def test_refused_by_name(change, names, tmp_path):
    with pytest.raises(ModelFileError, match=names):
        convert_family("llama2-mha", tmp_path, change=change)


@pytest.mark.parametrize("arch", ["qwen2moe", "gemma2", "mistral3", "phi3", "llama4", "deepseek2"])
def test_other_architectures_are_named(arch, tmp_path, monkeypatch):
    monkeypatch.setitem(gguf_families.ARCHITECTURES, "llama", arch)
    with pytest.raises(ModelFileError, match=f"architecture '{arch}' is not supported"):
        convert_family("llama2-mha", tmp_path)


def test_a_window_of_which_layers_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"qwen2.attention.sliding_window 8, but does not say"):
        convert_family("qwen2", tmp_path, change=lambda w: w.add_sliding_window(8))


def test_parts_of_a_head_turned_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"qwen3.rope.dimension_count 8 unlike"):
        convert_family("qwen3", tmp_path, change=lambda w: w.add_rope_dimension_count(8))


def test_all_tokens_that_end_an_answer_are_kept(tmp_path):
    def change(writer):
        writer.add_eot_token_id(0)
        writer.add_uint32("tokenizer.ggml.eom_token_id", 2)

    _, target = convert_family("llama2-mha", tmp_path, change=change)
    assert ModelConfig.from_dir(target).eos_token_ids == (2, 0)


# -- a file instead of a model's name ----------------------------------------------------------


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path / "cache"))
    tiny_gguf.write_gguf(tmp_path / "my model.gguf")
    return tmp_path / "my model.gguf"


def test_a_file_is_converted_once_and_works_everywhere(file, monkeypatch, capsys, tmp_path):
    options = ["--max-tokens", "3", "--dtype", "float32", "--json"]
    assert main(["generate", "the the", "--model", str(file), *options]) == 0
    out = capsys.readouterr()
    assert "convert" in out.err
    answer = json.loads(out.out)
    assert answer["source"]["model"].startswith("my_model-")
    monkeypatch.setattr(convert_module, "convert", None)  # from here on nothing is converted
    llm = LLM(model=file, dtype="float32", num_blocks=32, block_size=4)
    (out,) = llm.generate("the the", SamplingParams(temperature=0))
    assert out.outputs[0].token_ids[:3] == answer["token_ids"]
    scenario = tmp_path / "scenario.json"
    scenario.write_text(
        json.dumps(
            {
                "schema": "scenario/1",
                "model": str(file),
                "requests": [{"id": "A", "prompt": "the the", "max_tokens": 3}],
            }
        )
    )
    run = tmp_path / "x.run.json.gz"
    assert main(["record", str(scenario), "-o", str(run), "--dtype", "float32"]) == 0
    assert main(["replay", str(run), "--verify", "--tokens"]) == 0
    check_manifest(load_path(file), verify=True)


def test_a_changed_file_is_converted_again_in_the_same_place(file):
    first = load_path(file)
    before = (first / "model.safetensors").read_bytes()
    tiny_gguf.write_gguf(file, seed=1)
    os.utime(file, ns=(1, 1))
    assert load_path(file) == first
    assert (first / "model.safetensors").read_bytes() != before
    assert [p.name for p in first.parent.iterdir() if not p.name.startswith(".")] == [first.name]


def test_a_damaged_conversion_is_made_again(file):
    path = load_path(file) / "model.safetensors"
    before = path.read_bytes()
    path.write_bytes(before[:-1])
    load_path(file)
    assert path.read_bytes() == before


def test_several_at_once_convert_once(file, monkeypatch):
    calls = []
    original = convert_module.convert

    def counted(*args):
        calls.append(1)
        return original(*args)

    monkeypatch.setattr(convert_module, "convert", counted)
    threads = [threading.Thread(target=load_path, args=(file,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_failed_conversion_leaves_nothing(file):
    raw = bytearray(file.read_bytes())
    raw[-1000:] = b"\xff" * 1000  # scales that are no numbers
    file.write_bytes(raw)
    with pytest.raises(ModelFileError, match="no finite numbers"):
        load_path(file)
    root = file.parent / "cache" / "models" / "gguf"
    assert [p.suffix for p in root.iterdir()] == [".lock"]


def test_a_file_that_changes_meanwhile_is_refused(file, monkeypatch):
    original = convert_module.convert

    def touched(source, target, progress):
        os.utime(source, ns=(5, 5))
        return original(source, target, progress)

    monkeypatch.setattr(convert_module, "convert", touched)
    with pytest.raises(ModelFileError, match="was changed while"):
        load_path(file)


def test_a_full_disk_is_named(file, monkeypatch):
    monkeypatch.setattr(gguf_models, "_BESIDE_WEIGHTS", 1 << 60)
    with pytest.raises(ModelFetchError, match=r"not enough disk space for my model\.gguf"):
        load_path(file)


@pytest.mark.parametrize("name", ["no.gguf", "x\0.gguf", "y" * 300 + ".gguf", ".gguf/x.gguf"])
def test_a_file_that_is_not_there(file, name):
    with pytest.raises(ModelNotFound, match=r"no file|cannot be read"):
        load_path(file.parent / name)


def test_convert_into_a_directory(file, tmp_path, capsys):
    target = tmp_path / "new" / "model"
    assert main(["models", "convert", str(file), str(target)]) == 0
    assert capsys.readouterr().out == f"my model.gguf: ready in {target}\n"
    assert load_path(target, verify=True) == target
    assert [p.name for p in target.parent.iterdir()] == ["model"]
    assert main(["models", "convert", str(file), str(target)]) == 2
    assert "not an empty directory" in capsys.readouterr().err
    assert main(["models", "convert", str(tmp_path / "no.gguf"), str(tmp_path / "n")]) == 2
    assert "there is no file" in capsys.readouterr().err
