"""Tokenizers from GGUF metadata give the ids that transformers' own tokenizers give."""

import itertools
import json
import random
import re
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from core.model.errors import ModelFileError
from core.model.gguf_tokenizer import merges_from_scores, write_tokenizer
from core.model.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

# The patterns as they stand in the models' published tokenizer.json.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")

CORPUS = [p.read_text(encoding="utf-8") for p in sorted(Path(__file__).parent.glob("*.py"))[:8]] + [
    "naïve café 日本語 日本の首都は Привет мир 👩‍👩‍👧 Don't we'll I'VE HelloWorld getHTTPResponse"
]
HARD = [
    "Hello world! It's we'll I'VE 1 12 123 1234 12345",
    "  two  spaces\n\n\t tab\r\n\r\n x",
    "日本の首都は 東京です。naïve cafe\u0301 café",
    "👩‍👩‍👧 🙂🙂 ☃",
    "getHTTPResponseCode() != None // x/y/z\n/",
    " leading and trailing ",
    "a<|im_start|>b <|im_start|> c<tool_call>d",
    "ⅷ ½ x² ٣٤٥ १२३४",
    "\u00a0\u2003\u200b odd spaces",
    "'S 'll 'D",
]
CONTROL, USER = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool_call>"]


def random_texts(count=200):
    rng = random.Random(0)
    alphabet = "abcdeHTO 's ll  \n\r\t12345é日本\u0301☃🙂._()/<|>"
    return ["".join(rng.choices(alphabet, k=rng.randint(1, 40))) for _ in range(count)]


def trained(split, vocab_size=700):
    """(vocabulary in order of ids, merges) of a byte-level BPE whose words `split` cuts."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    raw = json.loads(tokenizer.to_str())["model"]
    return sorted(raw["vocab"], key=raw["vocab"].get), [tuple(pair) for pair in raw["merges"]]


def by_pattern(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def digits():
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )


def metadata(pre, vocabulary, merges, **changes):
    tokens = [*vocabulary, *CONTROL, *USER, "[PAD0]"]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * len(vocabulary) + [3, 3, 3, 4, 5],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        **changes,
    }


def ours(directory, values):
    write_tokenizer(values, directory)
    return Tokenizer(directory)


def with_added(tokenizer):
    """The same added tokens as in `metadata`."""
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in USER])
    return tokenizer


def assert_same(tokenizer, reference, bos=()):
    for text in [*HARD, *random_texts()]:
        wanted = [*bos, *reference.encode(text, add_special_tokens=False).ids]
        assert tokenizer.encode(text) == wanted, text
        assert tokenizer.decode(wanted[len(bos) :], False) == reference.decode(
            wanted[len(bos) :], skip_special_tokens=False
        )


def test_qwen2(tmp_path):
    vocabulary, merges = trained(by_pattern(QWEN2))
    theirs = transformers.Qwen2Tokenizer(
        vocab={t: i for i, t in enumerate(vocabulary + CONTROL)}, merges=merges
    )
    tokenizer = ours(tmp_path, metadata("qwen2", vocabulary, merges))
    assert_same(tokenizer, with_added(theirs.backend_tokenizer))
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("café")
    assert tokenizer.special_ids == {tokenizer.encode(t)[0] for t in CONTROL}


def test_gpt2(tmp_path):
    vocabulary, merges = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    theirs = transformers.GPT2Tokenizer(
        vocab={t: i for i, t in enumerate(vocabulary + CONTROL[:1])}, merges=merges
    )
    tokenizer = ours(tmp_path, metadata("gpt-2", vocabulary, merges))
    assert_same(tokenizer, with_added(theirs.backend_tokenizer))


def test_smollm(tmp_path):
    vocabulary, merges = trained(digits())
    theirs = tokenizers.Tokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(vocabulary)}, merges=merges)
    )
    theirs.pre_tokenizer, theirs.decoder = digits(), decoders.ByteLevel()
    assert_same(ours(tmp_path, metadata("smollm", vocabulary, merges)), with_added(theirs))


@pytest.mark.parametrize(
    ("pre", "pattern"), [("llama-bpe", LLAMA3), ("llama3", LLAMA3), ("tekken", TEKKEN)]
)
def test_llama3_and_tekken(tmp_path, pre, pattern):
    """Made by transformers' converter from ranks alone, as both models' tokenizers were."""
    from transformers.convert_slow_tokenizer import TikTokenConverter, bytes_to_unicode

    vocabulary, _ = trained(by_pattern(pattern))
    byte_of = {char: byte for byte, char in bytes_to_unicode().items()}
    ranks = {bytes(byte_of[c] for c in token): i for i, token in enumerate(vocabulary)}
    converter = TikTokenConverter(pattern=pattern)
    converter.load_tiktoken_bpe = lambda path: ranks
    theirs = converter.converted()
    merges = [tuple(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    values = metadata(pre, vocabulary, merges)
    bos = values["tokenizer.ggml.bos_token_id"]
    tokenizer = ours(tmp_path, values)
    assert_same(tokenizer, with_added(theirs), [bos])  # both models begin with a BOS
    assert tokenizer.encode("x", add_special_tokens=False) == tokenizer.encode("x")[1:]


def test_a_word_that_is_a_token_stays_whole_where_it_should(tmp_path):
    """No merges lead to it: Llama 3 has such tokens."""
    vocabulary, merges = trained(by_pattern(LLAMA3))
    for pre, whole in (("llama-bpe", True), ("qwen2", False)):
        values = metadata(pre, [*vocabulary, "xyzzy"], merges)
        ids = ours(tmp_path, values).encode("xyzzy", add_special_tokens=False)
        assert (ids == [len(vocabulary)]) == whole


# -- SentencePiece -----------------------------------------------------------------------------


def sentencepiece(**changes):
    """A vocabulary in SentencePiece's layout: <unk> <s> </s>, 256 bytes, pieces by score."""
    text = " ".join(CORPUS)[:20_000]
    words = re.findall(r"▁?[^▁\n]{1,6}", text.replace(" ", "▁"))
    pieces = dict.fromkeys(["▁"])
    for word in words:
        pieces |= dict.fromkeys(word[:end] for end in range(2, len(word) + 1))
    letters = sorted({c for piece in pieces for c in piece} - {"▁"})
    pieces = [*list(pieces)[1:600], "▁", *letters]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces, "[INST]"]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(pieces))] + [0.0],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces) + [4],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **changes,
    }


def merge_by_score(values, text):
    """SentencePiece's algorithm for BPE: the best pair first, the leftmost of equals.
    What remains without a piece becomes bytes."""
    tokens, types = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    normal = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    score = values["tokenizer.ggml.scores"]
    parts = list(text)
    while True:
        pairs = [
            (-score[normal[a + b]], at)
            for at, (a, b) in enumerate(itertools.pairwise(parts))
            if a + b in normal
        ]
        if not pairs:
            break
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    ids = []
    for part in parts:
        ids += [normal[part]] if part in normal else [3 + byte for byte in part.encode()]
    return ids


def test_sentencepiece_equals_its_algorithm(tmp_path):
    values = sentencepiece()
    tokenizer = ours(tmp_path, values)
    for text in [*HARD, *random_texts()]:
        wanted = [1, *merge_by_score(values, "▁" + text.replace(" ", "▁"))]
        assert tokenizer.encode(text) == wanted, text
        assert tokenizer.decode(wanted) == " " + text


def test_sentencepiece_equals_transformers(tmp_path):
    from transformers.integrations.gguf import convert_gguf_tokenizer

    values = sentencepiece()
    named = {
        "tokenizer_type": "llama",
        "tokens": values["tokenizer.ggml.tokens"],
        "scores": values["tokenizer.ggml.scores"],
        "token_type": values["tokenizer.ggml.token_type"],
    }
    # Of its two readings of "llama" this is the one with SentencePiece's spaces.
    theirs, _ = convert_gguf_tokenizer("phi3", named)
    tokenizer = ours(tmp_path, values)
    for text in [*HARD, *random_texts(), "<s>[INST] hi [/INST]", "a[INST]b</s>"]:
        assert tokenizer.encode(text)[1:] == theirs.encode(text, add_special_tokens=False).ids, text


def test_llama_tokenizer_of_transformers_agrees_where_no_space_leads(tmp_path):
    values = sentencepiece()
    tokens = values["tokenizer.ggml.tokens"]
    theirs = transformers.LlamaTokenizer(
        vocab={t: i for i, t in enumerate(tokens)},
        merges=merges_from_scores(
            tokens, values["tokenizer.ggml.scores"], values["tokenizer.ggml.token_type"]
        ),
        legacy=True,
    )
    tokenizer = ours(tmp_path, values)
    for text in HARD + random_texts():
        if not text.startswith(" "):
            assert tokenizer.encode(text) == [1, *theirs.encode(text, add_special_tokens=False)]


def test_no_space_before_the_text_if_the_file_says_so(tmp_path):
    values = sentencepiece(**{"tokenizer.ggml.add_space_prefix": False})
    assert ours(tmp_path, values).encode("naïve") == [1, *merge_by_score(values, "naïve")]


@pytest.mark.parametrize(
    ("changes", "before", "behind"),
    [
        ({}, [1], []),
        ({"add_bos_token": False}, [], []),
        ({"add_bos_token": False, "add_eos_token": True}, [], [2]),
        ({"add_eos_token": True}, [1], [2]),
    ],
)
def test_what_goes_around_a_text(tmp_path, changes, before, behind):
    values = sentencepiece(**{f"tokenizer.ggml.{k}": v for k, v in changes.items()})
    tokenizer = ours(tmp_path, values)
    plain = tokenizer.encode("hi", add_special_tokens=False)
    assert tokenizer.encode("hi") == [*before, *plain, *behind]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"tokenizer.ggml.model": "t5"}, "'t5' is not supported"),
        ({"tokenizer.ggml.model": None}, "None is not supported"),
        ({"tokenizer.ggml.scores": [1.0]}, "no score"),
        ({"tokenizer.ggml.token_type": None}, "no type"),
        ({"tokenizer.ggml.tokens": []}, "no tokens"),
        ({"tokenizer.ggml.bos_token_id": 10**9}, "no bos_token_id"),
        ({"tokenizer.ggml.remove_extra_whitespaces": True}, "remove_extra_whitespaces"),
        ({"tokenizer.ggml.add_bos_token": 1}, "add_bos_token"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "falcon"}, "'falcon'.*known: smol"),
        ({"tokenizer.ggml.model": "gpt2"}, "pre is 'default', which does not say"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"}, "no merges"),
        (
            {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": "gpt-2",
                "tokenizer.ggml.merges": ["no such", "merge"],
            },
            "cannot be built",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, change, names):
    with pytest.raises(ModelFileError, match=names):
        write_tokenizer(sentencepiece(**change), tmp_path)
