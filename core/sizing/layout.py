"""How a model is spread over GPUs: by tensor, pipeline and data parallelism.

    replica = pp stages × tp GPUs; dp replicas, each with all the weights.
    Inside a stage's tp GPUs the attention may itself be data parallel (`attention_dp` groups, as
    SGLang and vLLM run MLA): a group serves requests of its own and splits heads over tp /
    attention_dp GPUs; the experts are still spread over all tp.

KV heads are whole: past their number they are copied. An MLA latent is one vector for all heads, so
every GPU of an attention group keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.sizing import checks, units
from core.sizing.errors import SizingError
from core.sizing.geometry import KVHeads, Latent, Layer, ModelSpec, SharedKV

_MAX_GPUS = 1 << 16


@dataclass(frozen=True, slots=True)
class Layout:
    """tp, pp, dp, attention_dp: as above. stages: layers of each pipeline stage, () if equal."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    attention_dp: int = 1
    stages: tuple[int, ...] = ()

    @property
    def head_split(self) -> int:
        """GPUs that share one request's heads."""
        return self.tp // self.attention_dp

    @property
    def gpus_per_replica(self) -> int:
        return self.tp * self.pp


ONE_GPU = Layout()


def of(
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    attention_dp: int = 1,
    stages: Sequence[int] | None = None,
) -> Layout:
    """A checked layout, not yet held against a model (`check`)."""
    if tp == pp == dp == attention_dp == 1 and stages is None and type(tp) is int:
        return ONE_GPU
    tp = checks.whole(tp, "tp", 1, _MAX_GPUS)
    pp = checks.whole(pp, "pp", 1, _MAX_GPUS)
    dp = checks.whole(dp, "dp", 1, _MAX_GPUS)
    attention_dp = checks.whole(attention_dp, "attention_dp", 1, _MAX_GPUS)
    if tp % attention_dp:
        raise SizingError("attention_dp", f"{attention_dp} groups do not divide tp {tp}")
    if stages is None:
        return Layout(tp, pp, dp, attention_dp)
    if not isinstance(stages, list | tuple):
        raise SizingError("stages", "must be a list: the number of layers of each stage")
    sizes = tuple(checks.whole(n, f"stages[{i}]", 1) for i, n in enumerate(stages))
    if len(sizes) != pp:
        raise SizingError("stages", f"names {len(sizes)} stages, but pp is {pp}")
    return Layout(tp, pp, dp, attention_dp, sizes)


def check(model: ModelSpec, layout: Layout) -> None:
    """Refuse what does not divide, with the numbers: an engine would refuse it too."""
    split = layout.head_split
    if split > 1:
        for layer, _ in model.layer_groups:
            heads = layer.num_query_heads
            if heads % split:
                raise SizingError(
                    "tp",
                    f"{heads} query heads do not divide over {split} GPUs; "
                    f"{_divisors(heads)} would",
                )
            if isinstance(layer.cache, KVHeads):
                heads_per_gpu(layer.cache.num_kv_heads, split)
    stage_layers(model, layout)


def heads_per_gpu(num_kv_heads: int, split: int) -> int:
    """KV heads that one of `split` GPUs keeps: n_kv / split, and 1 where there are more GPUs."""
    if num_kv_heads % split == 0:
        return num_kv_heads // split
    if split % num_kv_heads == 0:
        return 1
    raise SizingError(
        "tp",
        f"{num_kv_heads} KV heads do not divide over {split} GPUs, nor {split} GPUs over "
        f"{num_kv_heads} heads",
    )


def kept_heads(cache: KVHeads | Latent, split: int) -> int:
    """KV heads, or latents, that one GPU keeps."""
    return 1 if isinstance(cache, Latent) else heads_per_gpu(cache.num_kv_heads, split)


def stage_layers(model: ModelSpec, layout: Layout) -> list[tuple[Layer, ...]]:
    """The layers of each pipeline stage, in order."""
    if layout.pp == 1 and not layout.stages:
        return [model.layers]
    total, pp = model.num_layers, layout.pp
    sizes = layout.stages
    if not sizes:
        if total % pp:
            if pp > total:
                raise SizingError("pp", f"{pp} stages are more than the {total} layers")
            raise SizingError(
                "pp",
                f"{total} layers do not divide over {pp} stages: say in `stages` how many each "
                "takes",
            )
        sizes = (total // pp,) * pp
    if sum(sizes) != total:
        raise SizingError("stages", f"adds up to {sum(sizes)} layers, but the model has {total}")
    out, start = [], 0
    for size in sizes:
        stage = model.layers[start : start + size]
        for index, layer in enumerate(stage, start):
            if isinstance(layer.cache, SharedKV) and layer.cache.layer < start:
                raise SizingError(
                    "pp" if not layout.stages else "stages",
                    f"layer {index} reads the keys and values of layer {layer.cache.layer}, "
                    "which this split puts into another stage",
                )
        out.append(stage)
        start += size
    return out


def of_each_stage(given: float | tuple[float, ...], layout: Layout, path: str) -> list[int]:
    """Bytes on a GPU of each stage: one number for each, or the same for all."""
    if not isinstance(given, tuple):
        return [int(units.exact(given, path))] * layout.pp
    if len(given) != layout.pp:
        raise SizingError(path, f"names {len(given)} stages, but pp is {layout.pp}")
    return [int(units.exact(one, f"{path}[{i}]")) for i, one in enumerate(given)]


def _divisors(heads: int) -> str:
    fits = [n for n in range(1, min(heads, 64) + 1) if heads % n == 0]
    return ", ".join(map(str, fits))
