"""The commands calc, size, models and gpus: what they print, what they refuse, what they load."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.__main__ import main
from core.sizing import calls, catalog, gpus
from core.sizing.rules import rules
from tests.core.drive import ROOT

FIXTURE = Path(__file__).parents[1] / "fixtures" / "sizing_golden.json"
LLAMA = '{"model": "llama-3-70b"}'


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """run(*arguments, stdin) → (code, stdout, stderr)."""

    def call(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = main([str(one) for one in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def good(result: tuple[int, str, str]) -> str:
    code, out, err = result
    assert (code, err) == (0, "")
    return out


def refused(result: tuple[int, str, str], *words: str) -> str:
    """One line on standard error that holds the words; nothing on standard output."""
    code, out, err = result
    assert (code, out) == (2, "") and err.startswith("error: ") and err.endswith("\n")
    assert err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err
    return err


# ---- calc --------------------------------------------------------------------------------------


def test_calc_prints_the_bare_value(run: Any) -> None:
    assert good(run("calc", "kv_bytes_per_token", LLAMA)) == "327680\n"
    asked = '{"gpu": "h200-sxm", "dtype": "bf16"}'
    assert good(run("calc", "ridge_point", asked)) == "206.125\n"
    never = {"model": "llama-3-70b", "dtype": "fp8", "bandwidth": 16e9, "flops": 989.4e12}
    out = good(run("calc", "swap_recompute_crossover_tokens", json.dumps(never)))
    assert out == "null\n", "no crossover is an answer"


def test_calc_with_json_prints_the_derivation(run: Any) -> None:
    out = json.loads(good(run("calc", "kv_bytes_per_token", LLAMA, "--json")))
    assert list(out) == ["function", "inputs", "value", "unit", "derivation"]
    assert out["function"] == "kv_bytes_per_token" and out["inputs"] == json.loads(LLAMA)
    assert (out["value"], out["unit"]) == (327680, "B")
    step = out["derivation"]["steps"][-1]
    assert step["substituted"] == "2 · 80 · 8 · 128 · 2" and step["value"] == 327680
    assert {"symbol": "n_kv", "meaning": "KV heads kept", "value": 8, "unit": "heads"} in (
        out["derivation"]["symbols"]
    )


STRANGE = {**catalog.entries()["llama-3-8b"].config, "frobnicate": 7, "kv_window": 5}


@pytest.mark.parametrize("name", ["kv_bytes_per_token", "param_count", "kv_ratio"])
def test_calc_warns_beside_the_value(run: Any, name: str) -> None:
    inputs: dict[str, Any] = {"config": STRANGE}
    if name == "kv_ratio":
        inputs = {"a": inputs, "b": {"model": "llama-3-8b"}}
    text = json.dumps(inputs)
    code, out, err = run("calc", name, text)
    assert code == 0 and out.strip() and "\n" not in out.strip()
    assert err.count("warning: ") == 2 and err.count("\n") == 2
    assert "config.frobnicate is not known here" in err and "config.kv_window is not" in err
    code, out, again = run("calc", name, text, "--json")
    notes = json.loads(out)["derivation"]["notes"]
    assert again == err and [note for note in notes if note.startswith("warning: ")] == (
        err.splitlines()
    )
    batch = {"cases": [{"id": "x", "function": name, "inputs": inputs}]}
    code, out, err = run("calc", "--batch", "-", stdin=json.dumps(batch).encode())
    assert code == 0 and err.startswith("x: warning: config.frobnicate")


def test_calc_warns_of_a_share_that_cannot_be(run: Any) -> None:
    measured = {"model": "llama-3-8b", "gpu": "h100-sxm5", "tokens": 4096, "seconds": 0.001}
    code, out, err = run("calc", "achieved_mfu", json.dumps(measured))
    assert code == 0 and float(out) > 1 and err.startswith("warning: above the peak")


def test_calc_takes_inputs_from_standard_input_and_a_config(run: Any) -> None:
    config = catalog.entries()["deepseek-v3"].config
    text = json.dumps({"config": config, "scope": "layer"}).encode()
    assert good(run("calc", "kv_bytes_per_token", "-", stdin=text)) == "1152\n"


def test_calc_lists_every_function_with_its_inputs(run: Any) -> None:
    out = good(run("calc", "--list"))
    assert "kv_bytes_per_token(model | config, dtype: str | object = " in out
    rows = json.loads(good(run("calc", "--list", "--json")))
    assert [row["function"] for row in rows] == list(calls.functions())
    assert "flops: float [FLOP/s]" in out and "bandwidth: float | str [B/s one way]" in out
    assert "price_per_gpu_hour: float [$/h]" in out
    for row in rows:
        assert row["function"] in out and list(row) == ["function", "unit", "inputs", "summary"]


def test_calc_runs_the_golden_file_as_a_batch(run: Any) -> None:
    cases = json.loads(FIXTURE.read_text())["cases"]
    answers = json.loads(good(run("calc", "--batch", FIXTURE)))
    assert list(answers) == [case["id"] for case in cases]
    assert all(answers[case["id"]] == pytest.approx(case["expected"]) for case in cases)
    full = json.loads(good(run("calc", "--batch", "-", "--json", stdin=FIXTURE.read_bytes())))
    assert {name: one["value"] for name, one in full.items()} == answers
    assert all(one["derivation"] for one in full.values())


def test_a_batch_with_a_failure_answers_the_rest_and_ends_with_2(run: Any) -> None:
    batch = {
        "cases": [
            {"id": "good", "function": "blocks_for_tokens", "inputs": {"tokens": 17}},
            {"id": "bad", "function": "blocks_for_tokens", "inputs": {"tokens": "17"}},
        ]
    }
    code, out, err = run("calc", "--batch", "-", stdin=json.dumps(batch).encode())
    sentence = "cases[1].inputs.tokens: must be a whole number, not '17'"
    assert code == 2 and json.loads(out) == {"good": 2, "bad": {"error": sentence}}
    assert err == "error: 1 of 2 cases failed\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "function: is missing"),
        (("kv_bytes_per_tok", LLAMA), "did you mean kv_bytes_per_token"),
        (("kv_bytes_per_token",), "inputs: is missing: a JSON object for kv_bytes_per_token("),
        (("kv_bytes_per_token", "3"), "inputs: must hold one JSON object"),
        (("kv_bytes_per_token", "{"), "inputs: is not JSON"),
        (("kv_bytes_per_token", "{}"), "inputs.model: is missing"),
        (("kv_bytes_per_token", '{"model": "llama"}'), "inputs.model: 'llama' is not in the cat"),
        (("kv_bytes_per_token", '{"model": "llama-3-70b", "modle": 1}'), "did you mean model"),
        (("blocks_for_tokens", '{"tokens": NaN}'), "inputs.tokens: NaN is not a JSON number"),
        (("blocks_for_tokens", '{"tokens": 1e999}'), "inputs.tokens: the number 1e999 is too larg"),
        (("blocks_for_tokens", '{"tokens": 1, "tokens": 2}'), "inputs.tokens: appears twice"),
        (("blocks_for_tokens", '{"tokens": ' + "9" * 5000 + "}"), "inputs.tokens: the number 9999"),
        (("blocks_for_tokens", '{"tokens": 1e41}'), "inputs.tokens: is too large: 1e+41"),
        (("convert", '{"value": 1, "from_": "Gb/s", "to": "GB/s"}'), "did you mean Gbit/s or GB/s"),
        (("blocks_for_tokens", '{"tokens": 1}', "--list"), "function: stands beside --list"),
        (("blocks_for_tokens", "--batch", "x"), "function: stands beside --list or --batch"),
        (("--batch", "no-such-file.json"), "batch: no-such-file.json cannot be read"),
        (("--batch", "."), "batch: . cannot be read"),
        (("--list", "--batch", "x"), "--help"),
    ],
    ids=str,
)
def test_calc_refuses_in_one_line_that_names_the_field(
    run: Any, arguments: tuple[str, ...], words: str
) -> None:
    refused(run("calc", *arguments), words)


DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"model": "' + b"x" * (10 << 20) + b'"}', "larger than"),
        (b'{"config": {"x": ' + DEEP.encode() + b"}}", "nests deeper than"),
        (b'{"model": ' * 1000 + b"1" + b"}" * 1000, "nests deeper than"),
        (b'{"model": "llama-3-8b", "model": "llama-3-70b"}', "inputs.model: appears twice"),
        (b'{"config": {"model_type": "llama", "model_type": "x"}}', "config.model_type: appears"),
        (b'{"config": {"hidden_size": Infinity}}', "inputs.config.hidden_size: Infinity is"),
        (b'{"model": "\xff"}', "not UTF-8"),
        (b"", "is not JSON"),
        (b"[1]", "must hold one JSON object"),
    ],
    ids=["10 MB", "deep list", "deep objects", "twice", "twice inside", "inf", "latin", "", "list"],
)
def test_calc_refuses_hostile_json(run: Any, data: bytes, words: str) -> None:
    refused(run("calc", "kv_bytes_per_token", "-", stdin=data), "inputs", words)


def test_a_hostile_batch_is_refused_at_its_field(run: Any) -> None:
    data = b'{"cases": [{"id": "a", "function": "blocks_for_tokens", "inputs": {"tokens": NaN}}]}'
    refused(run("calc", "--batch", "-", stdin=data), "cases[0].inputs.tokens: NaN is not a JSON")
    refused(run("calc", "--batch", "-", stdin=b'{"cases": []' + b" " * (10 << 20)), "larger than")
    refused(run("calc", "--batch", "-", stdin=b"{}"), "cases: is missing")


# ---- size --------------------------------------------------------------------------------------

PAIR = ["size", "--model", "llama-3-70b", "--tp", "2", "--weight-dtype", "fp8", "--kv-dtype", "fp8"]


def test_size_prints_a_plan_in_both_units_and_says_what_each_is_of(run: Any) -> None:
    out = good(run(*PAIR, "--overhead-bytes", "5e9"))
    for words in (
        "llama-3-70b on 2 × NVIDIA H100 SXM5",
        "70,553,706,496 B = 70.55 GB = 65.71 GiB     the whole model",
        "81,920 B = 81.92 kB = 80.00 KiB             a GPU",
        "2,048 B = 2.05 kB = 2.00 KiB                a layer",
        "38,402,291,937 B = 38.40 GB = 35.76 GiB     a GPU",
        "114 streams                                 a replica",
        "BOUNDS  of one scheduler: blocks 114, max_num_seqs 256, max_num_batched_tokens 8,192; "
        "blocks binds",
        "ADVICE ",
    ):
        assert words in out
    assert "2 · L · n_kv · d_head · b" not in out


def test_whole_bytes_are_printed_whole(run: Any) -> None:
    node = ["--gpu", "h200-sxm", "--tp", 16, "--weight-dtype", "bf16"]
    out = good(run("size", "--model", "deepseek-v3", *node))
    assert "1,342,052,838,400 B = 1.34 TB" in out and "e+" not in out


def test_size_explains_every_number_if_asked(run: Any) -> None:
    out = good(run(*PAIR, "--explain"))
    assert "2 · L · n_kv · d_head · b = 2 · 80 · 8 · 128 · 1 = 163,840 B" in out
    assert "pass: First-in-first-out eviction." in out and "threshold" in out


def test_size_as_json_has_results_bounds_and_advice(run: Any) -> None:
    out = json.loads(good(run(*PAIR, "--overhead-bytes", "5e9", "--json")))
    assert out["schema"] == "plan/1" and out["binding"] == "blocks" and out["fits"] is True
    assert out["bounds"]["blocks"] == 114 and out["results"]["streams"]["value"] == 114
    assert out["inputs"]["model"] == "llama-3-70b" and out["inputs"]["tp"] == 2
    for one in out["results"].values():
        assert list(one) == ["value", "unit", "derivation"]
    for one in out["advice"]:
        assert one["id"] in rules() and one["saw"] and one["basis"] and "threshold" in one


def test_size_reads_a_config_from_a_file_or_its_directory(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    file = folder / "config.json"
    file.write_text(json.dumps(catalog.entries()["llama-3-70b"].config))
    for path in (file, folder):
        out = json.loads(good(run("size", "--config", path, "--tp", 4, "--json")))
        assert out["inputs"]["model"] == "my-model"
        assert out["results"]["kv_per_token"]["value"] == 327680


def test_size_takes_ones_own_gpu_and_a_format_with_scales(run: Any) -> None:
    gpu = {"name": "mine", "visible_mib": 200_000, "bandwidth": 4e12, "peaks": {"bf16": 1e15}}
    kv = {"format": "int4", "scale": "per_token_head", "scale_bytes": 2}
    arguments = ["--gpu", json.dumps(gpu), "--kv-dtype", json.dumps(kv), "--json"]
    out = json.loads(good(run("size", "--model", "llama-3-70b", *arguments)))
    assert out["inputs"]["gpu"] == "mine" and out["results"]["kv_per_token"]["value"] == 84480


def test_every_option_of_size_reaches_the_plan(run: Any) -> None:
    given = {
        "--tp": 2, "--pp": 2, "--dp": 2, "--attention-dp": 1, "--stages": "40,40",
        "--context": 2000, "--prompt": 1000, "--prefix-tokens": 160, "--max-model-len": 8192,
        "--weight-dtype": "int4", "--embedding-dtype": "bf16", "--group-size": 128,
        "--part-dtypes": '{"output head": "fp8"}', "--zero-bytes": 0.5,
        "--scale-bytes": 4.0, "--params": 70e9, "--kv-dtype": "fp8", "--gpu": "h200-sxm",
        "--gpu-memory-utilization": 0.8, "--overhead-bytes": 4e9, "--block-size": 32,
        "--max-num-seqs": 99, "--max-num-batched-tokens": 4096, "--allocator": "paged",
        "--eviction": "lfu", "--mfu": 0.4, "--mbu": 0.7, "--users": 50, "--hit-rate": 0.5,
        "--ttft-s": 0.3, "--itl-s": 0.04, "--fleet-gpus": 64, "--offload": "dram-pcie5",
        "--price-per-gpu-hour": 2.5,
    }  # fmt: skip
    flags = ["--no-prefix-cache", "--evaluated", "--disaggregated"]
    options = [text for name, value in given.items() for text in (name, str(value))]
    out = json.loads(good(run("size", "--model", "llama-3-70b", *options, *flags, "--json")))
    expected = {name.strip("-").replace("-", "_"): value for name, value in given.items()}
    expected |= {"model": "llama-3-70b", "stages": [40, 40], "prefix_cache": False}
    expected["part_dtypes"] = {"output head": "fp8"}
    expected |= {"evaluated": True, "disaggregated": True}
    assert out["inputs"] == expected, "and no input lacks an option"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--help"),
        (("--model", "x", "--config", "y"), "--help"),
        (
            ("--model", "llama-3-71b"),
            "model: 'llama-3-71b' is not in the catalogue; near it: llama",
        ),
        (
            ("--model", "llama-3-70b", "--gpu", "h100-s"),
            "gpu: there is no GPU 'h100-s'; did you mean",
        ),
        (("--model", "llama-3-70b", "--gpu", "{"), "gpu: is not JSON"),
        (("--model", "llama-3-70b", "--gpu", "{}"), "gpu.visible_mib: is missing"),
        (("--model", "llama-3-70b", "--tp", "3"), "tp: 64 query heads do not divide over 3 GPUs"),
        (("--model", "llama-3-70b", "--tp", "two"), "--help"),
        (("--model", "llama-3-70b", "--stages", "a,b"), "must be whole numbers with commas"),
        (("--model", "llama-3-70b", "--mfu", "nan"), "mfu: must be a finite number, not nan"),
        (("--model", "llama-3-70b", "--kv-dtype", "fp9"), "kv_dtype: there is no format 'fp9'"),
        (("--model", "llama-3-70b", "--context", "0"), "context: must be 1 to"),
        (("--config", "no-such-file.json"), "config: no-such-file.json cannot be read"),
    ],
    ids=str,
)
def test_size_refuses_in_one_line(run: Any, arguments: tuple[str, ...], words: str) -> None:
    refused(run("size", *arguments), words)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"num_attention_heads": None}, "config.num_attention_heads"),
        ({"num_attention_heads": "64"}, "config.num_attention_heads"),
        ({"num_attention_heads": -1}, "config.num_attention_heads"),
        ({"num_key_value_heads": 7}, "config.num_key_value_heads"),
        ({"num_hidden_layers": 10**9}, "config.num_hidden_layers"),
        ({"model_type": 7}, "config.model_type"),
    ],
    ids=str,
)
def test_a_bad_config_is_refused_at_its_field(
    run: Any, tmp_path: Path, change: dict[str, Any], path: str
) -> None:
    file = tmp_path / "config.json"
    config = {**catalog.entries()["llama-3-70b"].config, **change}
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    refused(run("size", "--config", file), f"error: {path}: ")
    inner = json.dumps({"config": json.loads(file.read_text())})
    refused(run("calc", "kv_bytes_per_token", inner), f"error: inputs.{path}: ")


# ---- models and gpus ---------------------------------------------------------------------------


def test_models_lists_what_sizing_knows_and_says_what_the_engine_runs(run: Any) -> None:
    rows = {row["name"]: row for row in json.loads(good(run("models", "--json")))}
    assert set(catalog.names()) <= set(rows)
    assert rows["llama-3-70b"]["engine"] is True and rows["deepseek-v3"]["engine"] is False
    assert rows["llama-3-70b"]["kv_bytes_per_token"] == 327680
    assert rows["llama-3-70b"]["source"]
    out = good(run("models"))
    for line in out.splitlines():
        if "llama-3-70b" in line:
            assert line.startswith("* ") and "70.55B" in line
        if " MHA" in line or "GQA" in line:
            assert line[2:].split()[0] in rows, "a long name is not glued to what follows"
        if "deepseek-v3 " in line:
            assert line.startswith("  ") and "MLA" in line


def test_gpus_lists_memory_rates_and_sources(run: Any) -> None:
    rows = json.loads(good(run("gpus", "--json")))
    assert [row["name"] for row in rows] == list(gpus.names())
    out = good(run("gpus"))
    for row in rows:
        assert row["sources"] and row["date"] and row["peaks"] and row["visible_bytes"]
        assert row["name"] in out and f"{row['visible_mib']:,} MiB" in out
        assert all(source in out for source in row["sources"])
    assert "fp8 3,958, int8 3,958 (with 2:4 sparsity" in out, "a contrast to the dense peaks"
    assert "PCIe 5.0 x16 (63.02 GB/s one way)" in out


# ---- what is loaded ----------------------------------------------------------------------------

LOADED = """
import sys
from core.__main__ import main
code = main(sys.argv[1:])
heavy = {"torch", "triton", "transformers", "tokenizers", "numpy", "streamlit", "plotly", "pandas"}
print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["calc", "kv_bytes_per_token", LLAMA],
        ["calc", "--list"],
        ["size", "--model", "llama-3-70b", "--tp", "4"],
        ["models"],
        ["gpus"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "0 []\n"
