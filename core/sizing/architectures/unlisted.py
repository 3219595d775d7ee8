"""Models whose `model_type` is not known here: sized if every field that shapes them is understood.

Keys and values are told by fields that all architectures share. Parameters are not: biases, norms
and gates are in the code alone. So a count would be a guess, and none is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.sizing.architectures import attention, windows
from core.sizing.architectures.decoder import Model, layer_count
from core.sizing.architectures.fields import Fields
from core.sizing.architectures.traits import Family
from core.sizing.errors import SizingError

_SHAPES = re.compile(
    r"head|kv|layer|window|cache|state|attn|attention|rank|latent|conv|ssm|mamba|chunk|index"
    r"|pattern|block|shar|recurrent|linear|compress|memory"
)
"""A field with such a word in its name may change what a layer keeps."""


_ENCODERS = frozenset(
    "albert bert big_bird camembert canine clip convbert data2vec-text deberta deberta-v2 dinov2 "
    "distilbert dpr electra ernie eurobert fnet funnel hubert ibert layoutlm layoutlmv3 longformer "
    "luke markuplm mega megatron-bert mobilebert modernbert mpnet mra nezha nomic_bert "
    "nystromformer qdqbert realm rembert roberta roberta-prelayernorm roc_bert roformer siglip "
    "splinter squeezebert vit wav2vec2 xlm xlm-roberta xlm-roberta-xl xmod yoso".split()
)
"""They read a whole text at once, and keep nothing of it for a next token."""

_BOTH = frozenset(
    "bart bigbird_pegasus blenderbot fsmt led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus "
    "plbart prophetnet seamless_m4t switch_transformers t5 t5gemma udop umt5 whisper".split()
)
"""An encoder and a decoder: keys and values of the input as well as of the output."""

_CROSSING = "its cross-attention layers keep keys and values of the images, not of the text"
_UNMODELLED = {
    "mllama": _CROSSING,
    "mllama_text_model": _CROSSING,
}
"""Decoders that keep something of a kind that `geometry` has no word for, and what it is."""


def build(fields: Fields, kind: str, known: Iterable[str]) -> Model:
    """known: the kinds that there are, to tell a misspelled one. Raises SizingError if this is one,
    if the model does not generate text token by token, or if a field is there that may shape the
    layers and is not understood."""
    _check_kind(fields, kind, known)
    _check_decoder(fields)
    model = geometry(fields)
    strange = [name for name in fields.unknown(switches=True) if _shapes(name)]
    if strange:
        raise SizingError(
            fields.at(strange[0]),
            f"may change what a layer keeps, and the architecture {kind[:40]!r} is not known here",
        )
    model.params_note = f"the tensors of the architecture {kind[:40]!r} are not known here"
    model.warnings.append(
        f"{fields.at('model_type')} {kind[:40]!r} is not known here: sized as a plain decoder by "
        "the fields it shares with others; parameters are not counted"
    )
    return model


def _check_kind(fields: Fields, kind: str, known: Iterable[str]) -> None:
    path = fields.at("model_type")
    plain = _letters(kind)
    meant = next((one for one in known if one != kind and _letters(one) == plain), None)
    if meant is not None:
        raise SizingError(path, f"{kind[:40]!r} is not spelled as in any config; {meant!r} is")
    if kind in _ENCODERS and not fields.flag("is_decoder"):
        raise SizingError(path, f"{kind!r} is an encoder: it generates no text and keeps no cache")
    if kind in _BOTH:
        raise SizingError(
            path, f"{kind!r} has an encoder and a decoder; only decoders alone are known here"
        )
    if kind in _UNMODELLED:
        raise SizingError(path, f"{kind!r} is not modelled here: {_UNMODELLED[kind]}")


def _letters(kind: str) -> str:
    return re.sub(r"[\W_]", "", kind).lower()


def _check_decoder(fields: Fields) -> None:
    names = [str(name) for name in fields.data.get("architectures") or () if isinstance(name, str)]
    generates = ("CausalLM", "LMHead", "ConditionalGeneration", "Chat")
    if names and not any(word in name for name in names for word in generates):
        raise SizingError(
            fields.at("architectures"), f"{names[0][:60]} generates no text: it keeps no KV cache"
        )
    if fields.data.get("is_encoder_decoder") is True:
        raise SizingError(
            fields.at("is_encoder_decoder"), "encoder-decoder models are not known here"
        )


def geometry(fields: Fields) -> Model:
    """What is cached, and nothing else; hidden_size and vocab_size may be missing (0 then)."""
    layers = layer_count(fields)
    hidden = fields.whole("hidden_size", "n_embd", "d_model", default=0, minimum=0)
    vocab = fields.whole("vocab_size", default=0, minimum=0)
    model = Model(hidden, vocab, tied=fields.flag("tie_word_embeddings"))
    model.params_note = "only the geometry is stated"
    kinds = _kinds(fields, model, layers)
    if fields.has("kv_lora_rank"):
        layer, _, _ = attention.read_latent(fields, Family(attention="latent"), hidden)
        model.layers = [layer] * layers
    else:
        heads = attention.read_heads(fields, Family(), hidden)
        made = {kind: heads.layer(windows.window(fields, kind)) for kind in dict.fromkeys(kinds)}
        model.layers = [made[kind] for kind in kinds]
    fields.skip("intermediate_size")
    return model


def _kinds(fields: Fields, model: Model, layers: int) -> list[str]:
    given = windows.listed(fields, layers)
    if given is not None:
        for i, kind in enumerate(given):
            if kind not in (windows.FULL, windows.SLIDING, windows.CHUNKED):
                raise SizingError(
                    f"{fields.at('layer_types')}[{i}]",
                    f"{kind!r} keeps a state whose size depends on the architecture, "
                    "which is not known here",
                )
        return given
    if fields.raw("use_sliding_window") is not False and fields.has("sliding_window"):
        model.warnings.append(
            f"{fields.at('sliding_window')} is given, but not which layers it holds for: all are "
            "counted as keeping every token, an upper bound"
        )
    return [windows.FULL] * layers


def _shapes(name: str) -> bool:
    return bool(_SHAPES.search(name)) and "expert" not in name and not name.startswith("moe")
