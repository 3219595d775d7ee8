"""The heads of a model, drawn from its config: what MHA, GQA and MQA would keep of each token."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import lru_cache

from core.errors import KVScopeError
from core.sizing import catalog
from core.sizing.architectures import model_from_config
from core.sizing.geometry import KVHeads, ModelSpec
from ui import status

CATALOGUE = {"smollm2-135m-instruct": "smollm2-135m"}
"""Models that the engine runs → their names in the sizing catalogue, for want of a config.json."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Of each layer. num_bytes: of one number in the cache. source: where the counts are from."""

    model: str
    query: int
    kv: int
    head_dim: int
    layers: int
    num_bytes: int
    source: str

    def kv_bytes(self, kv: int) -> int:
        """Bytes of one token's keys and values, whole model, with `kv` KV heads."""
        return 2 * self.layers * kv * self.head_dim * self.num_bytes

    @property
    def kind(self) -> str:
        if self.kv == self.query:
            return "MHA"
        return "MQA" if self.kv == 1 else "GQA"

    def variants(self) -> list[tuple[str, int]]:
        """(name, KV heads): every query head its own, groups, one for all. Groups of three where
        the model itself has none."""
        group = self.kv if 1 < self.kv < self.query else _group(self.query)
        return [("MHA", self.query), ("GQA", group), ("MQA", 1)]


def _group(query: int) -> int:
    """Some number of KV heads between one and all that divides the query heads."""
    dividers = [n for n in range(2, query) if query % n == 0]
    return dividers[len(dividers) // 2] if dividers else query


def of_spec(spec: ModelSpec, model: str, source: str, num_bytes: int = 2) -> Heads | None:
    """None where the layers are not all alike, or keep something else than KV heads."""
    groups = [(layer, count) for layer, count in spec.layer_groups]
    caches = [layer.cache for layer, _ in groups]
    first = caches[0] if caches else None
    if not isinstance(first, KVHeads) or any(cache != first for cache in caches):
        return None
    query = groups[0][0].num_query_heads
    return Heads(
        model,
        query,
        first.num_kv_heads,
        first.key_dim,
        sum(count for _, count in groups),
        num_bytes,
        source,
    )


def loaded(model: str = status.DEFAULT_MODEL) -> Heads | None:
    """The heads of a model that the engine runs: of the config it loads, else of the catalogue."""
    from core.model.cache import load_path

    try:
        config = json.loads((load_path(model) / "config.json").read_text(encoding="utf-8"))
        return of_spec(model_from_config(config, model), model, "config.json of the loaded model")
    except (KVScopeError, OSError, ValueError):
        pass
    if model not in CATALOGUE:
        return None
    spec = catalog.get(CATALOGUE[model])
    return of_spec(spec, model, f"config.json, {spec.source.split(' ')[0]}")


def drawn(words: str) -> str:
    """The default model's three ways as HTML; empty where they cannot be known."""
    return _drawn(words, status.engine_state().model_fetched)


@lru_cache(maxsize=2)
def _drawn(words: str, fetched: bool) -> str:
    """fetched: another config speaks once the model lies on disk."""
    found = loaded()
    return page(found, words) if found is not None else ""


def drawing(heads: Heads, kv: int) -> str:
    """One layer as HTML: each KV head as a box, the query heads that read it in a row above it."""
    group = heads.query // kv
    said = f"{heads.query} query heads read {kv} KV heads, {group} each"
    if kv == 1:
        said = f"{heads.query} query heads read one KV head"
    row = f'<span class="g"><span class="qs">{"<i></i>" * group}</span><b></b></span>'
    return (
        f'<div class="kv-layer" role="img" aria-label="{said}">{row * kv}</div>'
        f"<small>{heads.query} query heads above, {kv} KV head{'s' if kv > 1 else ''} below</small>"
    )


def page(heads: Heads, words: str) -> str:
    """The three ways side by side, the model's own marked; as HTML. words: under the heading."""
    own = heads.kv_bytes(heads.kv)
    cards = []
    for name, kv in heads.variants():
        mine = kv == heads.kv and name == heads.kind
        size = heads.kv_bytes(kv)
        formula = f"2 · {heads.layers} · {kv} · {heads.head_dim} · {heads.num_bytes}"
        ratio = "this model" if mine else f"{size / own:.2g} × this model"
        cards.append(
            f'<div class="kv-way{" mine" if mine else ""}"><h3>{name}<span>{ratio}</span></h3>'
            f"{drawing(heads, kv)}<p><b>{size:,} B</b> a token</p><code>{formula}</code></div>"
        )
    source = html.escape(f"{heads.model}, {heads.source}")
    return (
        '<section class="kv-heads"><header><h2>Who keeps keys and values</h2>'
        f'<span class="kv-prov modelled" title="{source}"><b>MODELLED</b>'
        f"<span>{source}; {heads.num_bytes} bytes a number</span></span></header>"
        f"<p>{html.escape(words)}</p>"
        f'<div class="kv-ways">{"".join(cards)}</div></section>'
    )
