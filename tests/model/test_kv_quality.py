"""Formats of the cache measured by the command: on models of any kind the file can be read."""

from __future__ import annotations

import dataclasses

import families
import pytest
import torch

from core.__main__ import main
from core.kv_quality import FORMATS, KVQuality, layer_mixes
from core.kv_spec import KVSpec
from core.llm import LLM
from core.model.read_text import BLOCK_SIZE, hidden_states_of
from core.outputs import SamplingParams
from core.trace import kv_quality

SHAPES = {
    "outlier": families.CONFIGS["llama-mqa-tied"] | {"num_key_value_heads": 2},
    "biases": families.CONFIGS["llama-biases"],
    "one-kv-head": families.CONFIGS["llama-mqa-tied"],
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_written_can_be_read(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("core.kv_quality.MAX_TOKENS", 4)
    monkeypatch.setattr("core.kv_outlier.FACTORS", (1, 64))
    config = SHAPES[name] | {"max_position_embeddings": 256}
    model, target = families.write(config, tmp_path / name), tmp_path / "kv_quality.json"
    command = ["kv-quality", "--model", str(model), "-o", str(target), "--dtype", "float32"]
    assert main([*command, "--device", "cpu"]) == 0
    found = kv_quality.parse(target.read_text(encoding="utf-8"))
    assert [row.name for row in found.rows] == list(FORMATS)
    assert found.own.kl == 0 and found.own.top1 == 1
    by_name = {row.name: row for row in found.rows}
    assert by_name["int8, per tensor"].kl < by_name["int4, per tensor"].kl
    assert len(found.by_layer) == config["num_hidden_layers"]
    said = capsys.readouterr().err
    if name != "outlier":
        assert found.outlier == () and said.startswith("without an outlier head: ")
        return
    assert said == "" and found.outlier_at == (config["num_hidden_layers"] // 2, 1)
    errors = {(row.factor, row.scale): row for row in found.outlier if row.format == "int8"}
    ratio = errors[64, "per_tensor"].key_error_others / errors[1, "per_tensor"].key_error_others
    assert ratio > 10  # its scale is the outlier's
    for scale in ("per_head_static", "per_token_head"):
        assert errors[64, scale] == dataclasses.replace(errors[1, scale], factor=64)


@pytest.mark.parametrize("num_layers", [1, 5, 6, 30, 31])
def test_layer_mixes_are_formats_of_the_model(num_layers):
    mixes = layer_mixes(num_layers)
    assert len(mixes) == (2 if num_layers >= 6 else 0)
    for kv_dtype in mixes.values():
        forms = KVSpec.of(kv_dtype).of_layers(num_layers)
        assert forms.count("int4") == num_layers // 6 * 2


@pytest.mark.parametrize("kv_dtype", ["model", "int8_per_token_head", {"format": "int4"}], ids=str)
def test_what_is_measured_is_what_the_engine_says_of_the_same_text(tiny_dir, tiny, kv_dtype):
    """Likelihoods by the engine's own prompt log-probabilities; KL by torch's function for it."""
    quality = KVQuality(tiny, "the block table maps the tokens, naïve café 12 34 the the " * 9, 300)
    reading = quality.read(kv_dtype)
    judged = []
    for form in ("model", kv_dtype):
        llm = LLM(tiny_dir, dtype="float32", device="cpu", kv_dtype=form, block_size=16)
        [out] = llm.generate([quality.tokens], SamplingParams(max_tokens=1, prompt_logprobs=1))
        judged.append(out.prompt_logprobs[1:])
    assert [-one.logprob for one in judged[1]] == pytest.approx(reading.nll.tolist(), abs=2e-4)
    same = [own.top[0][0] == other.top[0][0] for own, other in zip(*judged, strict=True)]
    assert same == reading.same.tolist()
    logits = []
    for form in ("model", kv_dtype):
        with tiny.lent(-(-len(quality.tokens) // BLOCK_SIZE), BLOCK_SIZE, kv_dtype=form):
            rows = [tiny.compute_logits(h) for h in hidden_states_of(tiny, quality.tokens)]
        logits.append(torch.cat(rows).double().log_softmax(-1))
    kl = torch.nn.functional.kl_div(logits[1], logits[0], log_target=True, reduction="none")
    assert torch.allclose(kl.sum(-1)[:-1], reading.kl, atol=1e-5)
    assert (reading.kl.max() < 1e-5) == (kv_dtype == "model")
