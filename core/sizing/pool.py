"""What is left of a GPU for the KV cache.

pool = ⌊visible memory · gpu_memory_utilization⌋ − weights − overhead − activations
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from core.sizing import checks, formats, layout, stored, units, weight_shares
from core.sizing.errors import SizingError
from core.sizing.geometry import ModelSpec
from core.sizing.gpus import GpuSpec
from core.sizing.result import CONVENTION, Result, Step, Symbol, symbols
from core.sizing.stored import WeightDtype

DEFAULT_UTILIZATION = 0.92
"""vLLM's gpu_memory_utilization (vllm/config/cache.py, 2026); 0.90 in earlier releases."""

DEFAULT_MAX_NUM_SEQS = 256


def kv_pool_bytes_per_gpu(
    gpu: GpuSpec,
    model: ModelSpec,
    weight_dtype: WeightDtype = "bf16",
    count: str = "exact",
    params: float | None = None,
    gpu_memory_utilization: float = DEFAULT_UTILIZATION,
    gpu_total_mib: int | None = None,
    overhead_bytes: float = 0,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS,
    activation_dtype: str = "bf16",
    tp: int = 1,
    pp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
    replicated_params: int | None = None,
    embedding_dtype: str | None = None,
    part_dtypes: Mapping[str, str] | None = None,
    group_size: int | None = None,
    scale_bytes: float | None = None,
    zero_bytes: float | None = None,
) -> Result:
    """Bytes of one GPU that blocks can take; 0 if the weights do not fit, with what is short.

    gpu_total_mib: if the driver reports another size than the table's. overhead_bytes: CUDA
    context, graphs, communication buffers. max_num_batched_tokens: the step's token budget, for a
    bound on activations (`activation_bytes_bound`); None: they are in the overhead, or forgotten.
    The rest says what the weights take (`weight_shares.weight_bytes_per_gpu`).
    """
    utilization = checks.number(gpu_memory_utilization, "gpu_memory_utilization", 0, 1, above=True)
    mib = gpu.visible_mib
    if gpu_total_mib is not None:
        mib = checks.whole(gpu_total_mib, "gpu_total_mib", 1, 1 << 30)
    overhead = -int(-units.exact(overhead_bytes, "overhead_bytes") // 1)
    total = mib * units.MIB
    usable = int(units.exact(gpu_memory_utilization, "gpu_memory_utilization") * total)
    held = weight_shares.weight_bytes_per_gpu(
        model,
        stored.of(weight_dtype, model, "weight_dtype"),
        count,
        params,
        tp,
        pp,
        attention_dp,
        stages,
        replicated_params,
        embedding_dtype,
        part_dtypes,
        group_size,
        scale_bytes,
        zero_bytes,
    )
    assert isinstance(held.value, int)
    activation, notes = 0, list(held.notes[:-1])
    bounded = max_num_batched_tokens is not None
    what = "context, graphs, buffers" if bounded else "neither weights nor cache, as given"
    if max_num_batched_tokens is None:
        notes.append("activations are not counted apart: max_num_batched_tokens gives a bound")
    else:
        bound = activation_bytes_bound(
            model, max_num_batched_tokens, max_num_seqs, activation_dtype, tp
        )
        assert isinstance(bound.value, int)
        activation = bound.value
    left = usable - held.value - overhead - activation
    if gpu_total_mib is not None and mib != gpu.visible_mib:
        notes.append(f"{gpu.title} usually shows {gpu.visible_mib:,} MiB, not {mib:,}")
    if left < 0:
        notes.insert(0, f"does not fit: {-left:,} B short ({units.both(-left)}) on each GPU")
    else:
        notes.append(units.both(left))
    value = max(left, 0)
    return Result(
        value,
        "B",
        held.symbols
        + symbols(
            ("total", f"memory that the driver shows of {gpu.title}", total, "B"),
            ("u", "gpu_memory_utilization", utilization),
            ("weights", "on this GPU", held.value, "B"),
            ("overhead", what, overhead, "B"),
        )
        + (
            symbols(("activations", "bound from the token budget", activation, "B"))
            if bounded
            else ()
        ),
        (
            Step("⌊total · u⌋", f"⌊{total} · {gpu_memory_utilization}⌋", usable, "B"),
            *held.steps,
            Step(
                "usable − weights − overhead" + (" − activations" if bounded else ""),
                f"{usable} − {held.value} − {overhead}" + (f" − {activation}" if bounded else ""),
                left,
                "B",
            ),
        ),
        scope="gpu",
        notes=tuple(notes),
        basis=CONVENTION if activation else held.basis,
        source="; ".join(gpu.sources),
    )


def activation_bytes_bound(
    model: ModelSpec,
    max_num_batched_tokens: int,
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS,
    dtype: str = "bf16",
    tp: int = 1,
) -> Result:
    """An upper bound on the activations of one step, on one GPU.

    Per token: the residual stream and its normalised copy, and everything that one layer's matrices
    write, as if none of it were freed before the layer ends: Σ inputs · outputs / d_model over the
    matrices that a token meets, on average over the layers. Once: the logits of the sequences that
    sample, in the model's format and again in fp32. Fused kernels hold less; engines measure it.
    """
    budget = checks.whole(max_num_batched_tokens, "max_num_batched_tokens", 1, 1 << 32)
    seqs = min(checks.whole(max_num_seqs, "max_num_seqs", 1, 1 << 32), budget)
    fmt = formats.get(dtype)
    where = layout.of(tp)
    hidden, vocab, layers = model.hidden_size, model.vocab_size, model.num_layers
    if model.matmul_params is None or not (hidden and layers):
        raise SizingError(
            "model", f"the matrices of {model.name} are not known: there is no bound to compute"
        )
    inner = Fraction(max(0, model.matmul_params - vocab * hidden), layers * hidden)
    width = 2 * hidden + -(-inner // where.tp)
    stream = budget * formats.bytes_of(width, fmt)
    logits = seqs * (vocab * 4 + formats.bytes_of(vocab, fmt))
    value = stream + logits
    return Result(
        value,
        "B",
        (
            *symbols(
                ("T", "tokens of a step", budget, "tokens"),
                ("n", "sequences that sample", seqs, "sequences"),
                ("P_matmul", "parameters in matrices", model.matmul_params, "params"),
                ("L", "layers", layers, "layers"),
                ("d_model", "width of the residual stream", hidden, "numbers"),
                ("w", "numbers that one layer's matrices write", float(inner), "numbers"),
                ("V", "vocabulary", vocab, "numbers"),
                ("tp", "tensor parallel", where.tp, "GPUs"),
            ),
            Symbol("a", f"bytes per number in {fmt.name}", fmt.bytes_per_element, "B"),
        ),
        (
            Step(
                "(P_matmul − V · d_model) / (L · d_model)",
                f"({model.matmul_params} − {vocab} · {hidden}) / ({layers} · {hidden})",
                units.plain(inner),
                "numbers",
            ),
            Step("T · (2 · d_model + ⌈w / tp⌉) · a", f"{budget} · {width} · {fmt.b}", stream, "B"),
            Step("n · V · (4 + a)", f"{seqs} · {vocab} · (4 + {fmt.b})", logits, "B"),
            Step("sum", f"{stream} + {logits}", value, "B"),
        ),
        scope="gpu",
        basis=CONVENTION,
        notes=("a bound, not a measurement: no activation is taken to share memory with another",),
    )
