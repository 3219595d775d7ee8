"""What the compiler makes of the kernels for an A100 and an H100, on a machine without a GPU.

This proves neither that they are right on a GPU nor that they are fast.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.interpreter import require_triton

SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}
MULTIPLY = {"split_kernel", "prefill_kernel"}
QUICK = [("native", 64), ("native", 128), ("fp8_e4m3", 128), ("int4", 128)]
REST = [("int8", 64), ("int8", 128), ("fp8_e4m3", 64), ("int4", 64), ("native", 80), ("int8", 96)]


def compiled(root: Path, form: str, d: int) -> list[dict]:
    require_triton()
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "kernels.gpu.compile", "--json", "--form", form,
         "--head-dim", str(d)],
        cwd=root, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(form: str, rows: list[dict]) -> None:
    kernels = {row["kernel"] for row in rows}
    expected = {"split_kernel", "prefill_kernel", "store_kernel"}
    if form == "native":
        expected |= {
            "combine_kernel",
            "rotate_kernel",
            "norm_kernel",
            "copy_kernel",
            "gather_kernel",
            "scatter_kernel",
        }
    assert kernels == expected
    assert {(row["kernel"], row["capability"]) for row in rows} == {
        (kernel, capability) for kernel in kernels for capability in SHARED_BYTES
    }
    for row in rows:
        assert row["spilled"] == 0, row
        assert row["shared"] <= SHARED_BYTES[row["capability"]], row
        if row["kernel"] not in MULTIPLY:
            assert row["tensor_cores"] == "", row
        elif row["kernel"] == "prefill_kernel" and row["capability"] == 90:
            assert row["tensor_cores"] == "wgmma", row
        else:
            # 16 query heads are too few for wgmma, which multiplies 64 rows.
            assert row["tensor_cores"] == "mma", row


@pytest.mark.parametrize(("form", "d"), QUICK)
def test_kernels_use_tensor_cores_and_fit_the_chip(root, form, d):
    check(form, compiled(root, form, d))


def test_the_table_in_the_readme_is_what_the_compiler_says(root):
    """Line for line, with the triton that it names; with another the numbers may differ."""
    require_triton()
    from importlib.metadata import version

    text = (root / "kernels" / "README.md").read_text(encoding="utf-8")
    if f"Made with triton {version('triton')};" not in text:
        pytest.skip(f"the table was made with another triton than {version('triton')}")
    lines = set(text.splitlines())
    rows = compiled(root, "native", 64)
    for row in rows:
        start = f"| {row['kernel']} | native | 64 |"
        cells = (f"{row['registers']} | {row['spilled']} | {row['shared']:,} | "
                 f"{row['tensor_cores'] or '–'}")  # fmt: skip
        assert any(line.startswith(start) and cells in line for line in lines), row


@pytest.mark.slow
@pytest.mark.parametrize(("form", "d"), REST)
def test_the_rest_do_too(root, form, d):
    check(form, compiled(root, form, d))
