"""Compile launches for GPUs that are not here, and say what came out: `python -m
kernels.gpu.compile [--json] [--form F] [--head-dim D]`.

Triton brings its own assembler, so no GPU and no driver are needed. What this proves: that the
kernels compile for these architectures, which instructions they use, and that they fit registers
and shared memory. It proves neither that they are right on a GPU nor that they are fast.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels.gpu.launch import INTERPRETED, Launch
from kernels.gpu.shipped import FORMS, HEAD_DIMS, shipped_launches

SHARED_BYTES = {80: 163 << 10, 90: 227 << 10}
"""Shared memory that one program may have: A100, H100 (CUDA C programming guide, table of compute
capabilities)."""

_POINTERS = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
}

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel on one architecture. registers: of a thread. spilled, shared: bytes, of a thread
    and of a program. tensor_cores: "wgmma", "mma" or "" for none."""

    kernel: str
    capability: int
    registers: int
    spilled: int
    shared: int
    tensor_cores: str


def compile_launch(launch: Launch, capability: int) -> Compiled:
    """capability: 80 or 90. Raises RuntimeError under TRITON_INTERPRET=1."""
    if INTERPRETED:
        raise RuntimeError("the interpreter is on: start without TRITON_INTERPRET to compile")
    kernel = launch.kernel
    constants = {p.name for p in kernel.params if p.is_constexpr}
    signature: dict[str, str] = {}
    values: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for position, name in enumerate(kernel.arg_names):
        value = launch.arguments[name]
        kind = "constexpr" if name in constants else _kind(value)
        signature[name] = kind
        if kind == "constexpr":
            values[name] = value
        elif isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0):
            attributes[(position,)] = [["tt.divisibility", 16]]
    compiled = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=attributes),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": launch.num_warps, "num_stages": launch.num_stages},
    )
    ptx = compiled.asm["ptx"]
    registers, stack, local = _resources(compiled.asm["cubin"])
    return Compiled(
        kernel=kernel.__name__,
        capability=capability,
        registers=registers,
        spilled=max(stack, local),
        shared=compiled.metadata.shared,
        tensor_cores=next((n for n in ("wgmma", "mma") if f"{n}.mma_async" in ptx
                           or f"{n}.sync" in ptx), ""),
    )  # fmt: skip


def _kind(value: Any) -> str:
    """Triton's name for an argument's type, as it would specialise it at a launch."""
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, float):
        return "fp32"
    if value == 1:
        return "constexpr"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def _resources(cubin: bytes) -> tuple[int, int, int]:
    """Registers, stack and local memory of a thread, as NVIDIA's `cuobjdump` reads them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [str(tool), "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = _USAGE.search(text)
    if found is None:
        raise RuntimeError(f"cuobjdump said nothing of registers: {text[:200]}")
    registers, stack, local = (int(n) for n in found.groups())
    return registers, stack, local


def table(rows: list[tuple[str, int, Compiled]]) -> str:
    """Markdown. rows: format, head_dim and what came out."""
    cells: dict[tuple[str, str, int], dict[int, str]] = {}
    for form, d, c in rows:
        cells.setdefault((c.kernel, form, d), {})[c.capability] = (
            f"{c.registers} | {c.spilled} | {c.shared:,} | {c.tensor_cores or '–'}"
        )
    columns = [f"sm_{capability}: registers | spilled | shared | tensor cores"
               for capability in SHARED_BYTES]  # fmt: skip
    lines = [
        f"Made with triton {triton.__version__}; spilled and shared in bytes.",
        "",
        "| kernel | KV | head_dim | " + " | ".join(columns) + " |",
        "|---|---|---:|" + "---:|---:|---:|---|" * len(columns),
    ]
    for kernel, form, d in sorted(cells, key=lambda cell: (cell[0], cell[2], FORMS.index(cell[1]))):
        both = " | ".join(cells[kernel, form, d][capability] for capability in SHARED_BYTES)
        lines.append(f"| {kernel} | {form} | {d} | {both} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kernels.gpu.compile")
    parser.add_argument("--json", action="store_true", help="a list of objects, not a table")
    parser.add_argument("--form", choices=FORMS, action="append", help="of the KV blocks")
    parser.add_argument("--head-dim", type=int, action="append")
    options = parser.parse_args()
    rows = [
        (form, d, compile_launch(launch, capability))
        for d in options.head_dim or HEAD_DIMS
        for form in options.form or FORMS
        for launch in shipped_launches(form, d)
        for capability in SHARED_BYTES
    ]
    if options.json:
        print(json.dumps([{"form": form, "head_dim": d, **asdict(c)} for form, d, c in rows]))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
