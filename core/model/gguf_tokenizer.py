"""`tokenizer.json` and `tokenizer_config.json` from a GGUF file's metadata.

Two kinds. `gpt2`: byte-level BPE with its merges; `tokenizer.ggml.pre` names the rule that cuts a
text into words first, which no other key holds. `llama`: SentencePiece's BPE, whose merges follow
from the scores of its pieces. A rule that is not known here is refused: with another one a model
still runs, on tokens it was not trained on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from core.model.config_fields import short
from core.model.errors import ModelFileError

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5  # tokenizer.ggml.token_type

_SPACE = "▁"  # SentencePiece's stand-in for a space

# How the models' own tokenizers cut text into words: the pattern of their tokenizer.json.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_OTHERS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LLAMA3 = "|".join((_CONTRACTION, _WORD, r"\p{N}{1,3}", _SIGNS, _OTHERS))
_QWEN2 = "|".join((_CONTRACTION, _WORD, r"\p{N}", _SIGNS, _OTHERS))
_TEKKEN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        _OTHERS,
    )
)


@dataclass(frozen=True, slots=True)
class _Words:
    """How `gpt2` text is prepared. split: makes the pre-tokenizer. ignore_merges: a word that is a
    token stays whole. nfc: Unicode's composed form first. add_bos: if the file does not say."""

    split: Callable[[], Any]
    ignore_merges: bool = False
    nfc: bool = False
    add_bos: bool = False


def _digits() -> Any:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def _by_pattern(pattern: str) -> Callable[[], Any]:
    return lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


_LLAMA3_WORDS = _Words(_by_pattern(_LLAMA3), ignore_merges=True, add_bos=True)
_WORDS = {
    "smollm": _Words(_digits),
    "gpt-2": _Words(lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)),
    "llama-bpe": _LLAMA3_WORDS,
    "llama3": _LLAMA3_WORDS,
    "llama-v3": _LLAMA3_WORDS,
    "qwen2": _Words(_by_pattern(_QWEN2), nfc=True),
    "tekken": _Words(_by_pattern(_TEKKEN), ignore_merges=True, add_bos=True),
}


def write_tokenizer(metadata: dict[str, Any], target: Path) -> None:
    """Write both files into the directory `target`. Raises ModelFileError."""
    tokens = _texts(metadata, "tokens")
    types = metadata.get("tokenizer.ggml.token_type")
    if not isinstance(types, list) or len(types) != len(tokens):
        raise ModelFileError("the GGUF file's tokenizer has no type for each token")
    kind = metadata.get("tokenizer.ggml.model")
    try:
        if kind == "gpt2":
            tokenizer, add_bos = _byte_level(metadata, tokens, types)
        elif kind == "llama":
            tokenizer, add_bos = _sentencepiece(metadata, tokens, types), True
        else:
            raise ModelFileError(
                f"the GGUF file's tokenizer {short(kind)} is not supported, only gpt2 and llama"
            )
        for special, wanted in ((True, _CONTROL), (False, _USER_DEFINED)):
            added = [
                AddedToken(token, special=special, normalized=False)
                for token, token_type in zip(tokens, types, strict=True)
                if token_type == wanted and token
            ]
            if added:
                (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
        ids = {name: _named_id(metadata, name, len(tokens)) for name in ("bos", "eos")}
        add = {
            "bos": _flag(metadata, "add_bos_token", add_bos),
            "eos": _flag(metadata, "add_eos_token", False),
        }
        if any(add.values()):
            tokenizer.post_processor = _surround(tokens, ids, add)
        tokenizer.save(str(target / "tokenizer.json"))
    except ModelFileError:
        raise
    except Exception as error:  # the native library raises plain Exception
        raise ModelFileError(
            f"the GGUF file's tokenizer cannot be built: {error!s:.200}"
        ) from error

    def text(name: str) -> str | None:
        index = _named_id(metadata, name, len(tokens))
        return None if index is None else tokens[index]

    settings = {
        "add_bos_token": add["bos"],
        "bos_token": text("bos"),
        "chat_template": metadata.get("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "eos_token": text("eos"),
        "model_max_length": metadata.get(f"{metadata.get('general.architecture')}.context_length"),
        "pad_token": text("padding"),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": text("unknown"),
    }
    path = target / "tokenizer_config.json"
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _byte_level(
    metadata: dict[str, Any], tokens: list[str], types: list[int]
) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether a BOS goes before a text if the file does not say."""
    pre = metadata.get("tokenizer.ggml.pre")
    words = _WORDS.get(pre) if isinstance(pre, str) else None
    if words is None:
        raise ModelFileError(
            f"the GGUF file's tokenizer.ggml.pre is {short(pre)}, which does not say how its "
            f"tokenizer cuts text into words; known: {', '.join(_WORDS)}"
        )
    merges = [
        (left, right)
        for left, _, right in (merge.partition(" ") for merge in _texts(metadata, "merges"))
    ]
    # Unused ids fill the embeddings up to a round number; no text leads to them.
    vocabulary = {t: i for i, t in enumerate(tokens) if types[i] != _UNUSED}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges=words.ignore_merges)
    )
    if words.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = words.split()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, words.add_bos


def _sentencepiece(metadata: dict[str, Any], tokens: list[str], types: list[int]) -> Tokenizer:
    """Llama 2's and Mistral's: ▁ for a space and one before the text, bytes for what has no piece.

    The ▁ comes from a normaliser, as in the models' own tokenizer.json and in SentencePiece: a text
    that begins with a space gets a second one.
    """
    if _flag(metadata, "remove_extra_whitespaces", False):
        raise ModelFileError(
            "the GGUF file has tokenizer.ggml.remove_extra_whitespaces true, which is not supported"
        )
    scores = metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise ModelFileError("the GGUF file's tokenizer has no score for each token")
    unknown = _named_id(metadata, "unknown", len(tokens))
    tokenizer = Tokenizer(
        models.BPE(
            vocab={t: i for i, t in enumerate(tokens)},
            merges=merges_from_scores(tokens, scores, types),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    spaces: list[Any] = [normalizers.Replace(" ", _SPACE)]
    strip: list[Any] = []
    if _flag(metadata, "add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend(_SPACE))
        strip = [decoders.Strip(" ", left=1)]
    tokenizer.normalizer = normalizers.Sequence(spaces)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def merges_from_scores(
    tokens: list[str], scores: list[float], types: list[int]
) -> list[tuple[str, str]]:
    """The merges of a SentencePiece BPE: each normal piece from each two pieces that make it.

    SentencePiece always merges the pair whose piece has the highest score, so merges are ranked by
    the score of what they make; among equals, the earlier piece first.
    """
    ids = {token: index for index, token in enumerate(tokens) if types[index] == _NORMAL}
    ranked = []
    for token, index in ids.items():
        for cut in range(1, min(len(token), _MAX_PIECE)):
            left, right = token[:cut], token[cut:]
            if left in ids and right in ids:
                ranked.append((-scores[index], index, ids[left], ids[right], left, right))
    ranked.sort()
    return [(left, right) for *_, left, right in ranked]


_MAX_PIECE = 512
"""Characters: no real piece is longer, and a damaged one must not take quadratic time."""


def _surround(
    tokens: list[str], ids: dict[str, int | None], add: dict[str, bool]
) -> processors.TemplateProcessing:
    """BOS before, EOS behind, as the file wants it."""
    for name, wanted in add.items():
        if wanted and ids[name] is None:
            raise ModelFileError(
                f"the GGUF file's tokenizer adds a token {name}, but has no {name}_token_id"
            )
    wanted_ids = {name: index for name, index in ids.items() if add[name] and index is not None}
    before = [tokens[wanted_ids["bos"]]] if "bos" in wanted_ids else []
    behind = [tokens[wanted_ids["eos"]]] if "eos" in wanted_ids else []
    return processors.TemplateProcessing(
        single=[*before, "$A", *behind],
        pair=[*before, "$A", *behind, *(f"{t}:1" for t in before), "$B:1"],
        special_tokens=[(tokens[index], index) for index in wanted_ids.values()],
    )


def _texts(metadata: dict[str, Any], key: str) -> list[str]:
    """A list of texts of the tokenizer, not empty. Raises ModelFileError."""
    value = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise ModelFileError(f"the GGUF file's tokenizer has no {key}")
    return value


def _named_id(metadata: dict[str, Any], name: str, num_tokens: int) -> int | None:
    """`<name>_token_id`, if it is there and one of the vocabulary."""
    value = metadata.get(f"tokenizer.ggml.{name}_token_id")
    return value if isinstance(value, int) and 0 <= value < num_tokens else None


def _flag(metadata: dict[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}", default)
    if not isinstance(value, bool):
        raise ModelFileError(
            f"the GGUF file's tokenizer.ggml.{name} must be true or false, not {short(value)}"
        )
    return value
