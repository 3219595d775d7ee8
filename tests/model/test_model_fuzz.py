"""Damaged model files: whatever bytes change, the model loads or one ModelError says why not.

Never another exception, never a large allocation (the process's peak is watched, native libraries
included), never a long wait.
"""

import resource
import shutil
import time

import families
import gguf_families
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.model.checkpoint_files import INDEX
from core.model.convert import convert
from core.model.errors import ModelError
from core.model.loader import load_llama
from core.model.tokenizer import Tokenizer

MAX_GROWTH = 96 << 20
MAX_SECONDS = 10.0  # on a busy machine; what is meant takes milliseconds
FAMILY = "qwen3-biases-yarn"

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
many = settings(few, max_examples=3000)


@st.composite
def edits(draw):
    """A function that damages bytes: some changed, some cut out, some put in twice, the end cut."""
    kind = draw(st.sampled_from(["change", "change", "number", "cut", "repeat", "truncate"]))
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4))
    value = draw(st.integers(0, 255))
    length = draw(st.integers(1, 40))
    number = draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]))
    digits = draw(st.sampled_from([b"-1", b"0", b"99999999999999", b"1e999", b"null", b'"x"']))

    def edit(data, end):
        data = bytearray(data)
        for place in places:
            at = int(place * min(end, len(data)))
            if kind == "change":
                data[at] = value
            elif kind == "number":
                # Binary files hold 64-bit numbers, text files digits: both are tried.
                piece = number.to_bytes(8, "little") if value % 2 else digits
                data[at : at + len(piece)] = piece
            elif kind == "cut":
                del data[at : at + length]
            elif kind == "repeat":
                data[at:at] = data[at : at + length]
            else:
                del data[at:]
            if not data:
                break
        return bytes(data)

    return edit


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A sharded checkpoint with everything that can be damaged."""
    directory = families.FAMILIES[FAMILY](tmp_path_factory.mktemp("fuzz") / "whole")
    from test_model_files import shard

    shard(directory)
    (directory / "generation_config.json").write_text('{"eos_token_id": [2, 7]}')
    (directory / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return directory


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "whole.gguf"
    gguf_families.write("qwen3", path)
    return path


@pytest.fixture
def bounded():
    """Memory and time of a whole test."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < MAX_GROWTH


def attempt(action):
    """Let it load, or fail with one sentence, soon."""
    started, message = time.perf_counter(), "ok"
    try:
        action()
    except ModelError as error:
        message = str(error)
    assert 0 < len(message) < 1000
    assert time.perf_counter() - started < MAX_SECONDS


def load(directory):
    Tokenizer(directory).encode("the tokens 12 é")
    load_llama(directory, torch.float32, torch.device("cpu"))


def header_end(path):
    """Where a safetensors header ends; text files are damaged anywhere."""
    if path.suffix != ".safetensors":
        return path.stat().st_size
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


FILES = [
    *("config.json", "generation_config.json", INDEX, "model-00001-of-00002.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
]


def damage_a_file(checkpoint, tmp_path, name, edit):
    directory = tmp_path / "damaged"
    if not directory.exists():
        shutil.copytree(checkpoint, directory)
    whole = checkpoint / name
    (directory / name).write_bytes(edit(whole.read_bytes(), header_end(whole)))
    attempt(lambda: load(directory))


@pytest.mark.parametrize("name", FILES)
@few
@given(edit=edits())
def test_a_damaged_file(checkpoint, tmp_path, bounded, name, edit):
    damage_a_file(checkpoint, tmp_path, name, edit)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@many
@given(edit=edits())
def test_a_damaged_file_at_length(checkpoint, tmp_path, bounded, name, edit):
    damage_a_file(checkpoint, tmp_path, name, edit)


def damage_a_gguf(gguf_file, tmp_path, edit):
    raw = gguf_file.read_bytes()
    path, target = tmp_path / "damaged.gguf", tmp_path / "converted"
    path.write_bytes(edit(raw, raw.rindex(b"blk.2.") + 80))
    target.mkdir(exist_ok=True)

    def action():
        convert(path, target, lambda stage, done, total: None)
        load(target)

    attempt(action)


@settings(few, max_examples=150)
@given(edit=edits())
def test_a_damaged_gguf(gguf_file, tmp_path, bounded, edit):
    damage_a_gguf(gguf_file, tmp_path, edit)


@pytest.mark.slow
@settings(many, max_examples=10_000)
@given(edit=edits())
def test_a_damaged_gguf_at_length(gguf_file, tmp_path, bounded, edit):
    damage_a_gguf(gguf_file, tmp_path, edit)
