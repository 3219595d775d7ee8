"""Run files: damaged bytes, bombs, and places that cannot be written."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputFileError, RunError
from core.scenario import Scenario
from core.simulate import simulate
from core.trace.run import Run, parse_run, read_run
from tests.core.drive import ROOT, assert_one_error, cli, req, sample_run, scenario

MiB = 1024 * 1024


# ---- bytes -------------------------------------------------------------------------------------


def test_a_good_run_comes_back_as_it_was(run: Run, data: bytes, tmp_path: Path) -> None:
    assert parse_run(data).to_dict() == run.to_dict()
    assert parse_run(gzip.decompress(data)).to_dict() == run.to_dict(), "plain JSON is read too"


def test_a_run_cut_off_anywhere_is_refused(data: bytes) -> None:
    for end in range(0, len(data), 37):
        with pytest.raises(RunError):
            parse_run(data[:end])
    with pytest.raises(RunError, match="truncated"):
        parse_run(data[:-1])


def test_a_flipped_byte_is_refused_or_harmless(run: Run, data: bytes) -> None:
    """Only the time stamp, the flags for speed and the system in gzip's header may change."""
    harmless = []
    for place in range(0, len(data), 1 if len(data) < 3000 else 3):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            read = parse_run(bytes(damaged))
        except RunError:
            continue
        assert read.to_dict() == run.to_dict()
        harmless.append(place)
    assert set(harmless) <= {4, 5, 6, 7, 8, 9}


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_header_is_refused_or_harmless(
    run: Run, data: bytes, bit: int
) -> None:
    for place in range(10):
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        try:
            assert parse_run(bytes(damaged)).to_dict() == run.to_dict()
        except RunError:
            continue


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda data: data + b"\0", "something follows"),
        (lambda data: data + data, "something follows"),
        (lambda data: b"", "not JSON"),
        (lambda data: b"\x1f\x8b", "truncated"),
        (lambda data: b"not gzip at all", "not JSON"),
        (lambda data: b"BZh91AY&SY", "not"),
        (lambda data: zlib.compress(b"{}"), "not"),
        (lambda data: gzip.compress(data), "not"),
        (lambda data: gzip.compress(b""), "not JSON"),
        (lambda data: gzip.compress(b"\xff\xfe"), "UTF-8"),
        (lambda data: gzip.compress(b"NaN"), "NaN"),
        (lambda data: gzip.compress(b"[" * 100_000), "nested"),
        (lambda data: gzip.compress(b'{"schema":"run/1","schema":"run/1"}'), "twice"),
        (lambda data: gzip.decompress(data)[:-2], "not JSON"),
    ],
)
def test_a_file_that_is_no_run_is_one_clear_error(
    data: bytes, make: Callable[[bytes], bytes], words: str
) -> None:
    with pytest.raises(RunError) as caught:
        parse_run(make(data))
    assert words in str(caught.value) and len(str(caught.value)) < 300


def test_a_small_file_that_grows_beyond_the_limit_is_refused(data: bytes) -> None:
    size = len(gzip.decompress(data))
    assert parse_run(data, max_bytes=size).steps
    with pytest.raises(RunError, match="after decompression"):
        parse_run(data, max_bytes=size - 1)
    with pytest.raises(RunError, match="more than 100 bytes"):
        parse_run(gzip.decompress(data), max_bytes=100)
    with pytest.raises(RunError, match="after decompression"):
        parse_run(gzip.compress(b" " * 10_000_000), max_bytes=MiB)


_BOMB = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
from core.errors import RunError
from core.trace.run import read_run
try:
    read_run(sys.argv[1])
except RunError as exc:
    print(exc)
# Not ru_maxrss: that begins with what the process that started this one had.
status = open("/proc/self/status").read()
print(status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits on address space")
def test_a_bomb_of_1200_mib_of_zeros_needs_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    """5 MB of gzip; the process may use 1.5 GiB and says in one sentence what is wrong."""
    path = tmp_path / "bomb.run.json.gz"
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for _ in range(1200):
            file.write(squeeze.compress(bytes(MiB)))
        file.write(squeeze.flush())
    assert path.stat().st_size < 8 * MiB
    done = subprocess.run(
        [sys.executable, "-c", _BOMB, path], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1000:]
    message, peak_kib = done.stdout.splitlines()
    assert "after decompression" in message and "bomb.run.json.gz" in message
    assert int(peak_kib) < 1.3 * 1024 * 1024


def test_a_file_of_more_than_64_mib_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(500 * MiB)
    with pytest.raises(RunError, match=r"large: more than 67,108,864 bytes"):
        read_run(path)


@pytest.mark.parametrize("name", ["missing", "folder", "missing/file"])
def test_a_file_that_cannot_be_read_is_a_run_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="cannot read"):
        read_run(tmp_path / name)


# ---- writing -----------------------------------------------------------------------------------


def small_run() -> Run:
    return simulate(Scenario.from_dict(scenario(req("A", [1, 2, 3], max_tokens=2))))


def test_a_run_is_not_written_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot write"):
        small_run().write(tmp_path / "missing" / "x.run.json.gz")
    with pytest.raises(InputFileError, match="cannot write"):
        small_run().write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_run_is_not_written_into_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputFileError, match="cannot write"):
            small_run().write(tmp_path / "x.run.json.gz")
    finally:
        tmp_path.chmod(0o700)


def test_a_run_is_not_written_into_a_read_only_file_system() -> None:
    with pytest.raises(InputFileError, match="cannot write"):
        small_run().write("/proc/x.run.json.gz")


def test_an_old_file_stays_as_it_was_when_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.run.json.gz"
    small_run().write(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputFileError, match="No space left on device"):
        sample_run().write(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Any:
    """A file system of 64 KiB; skipped where this user cannot mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, timeout=20)
    except OSError:
        pytest.skip("no mount command")
    if done.returncode:
        pytest.skip("only root can mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=20)


def test_a_full_disk_is_one_error_and_leaves_nothing_behind(tiny_disk: Path) -> None:
    path = tiny_disk / "x.run.json.gz"
    small_run().write(path)
    before = path.read_bytes()
    (tiny_disk / "filler").write_bytes(bytes(40 * 1024))
    large = sample_run()
    large.header["host"]["noise"] = os.urandom(40_000).hex()
    with pytest.raises(InputFileError, match="No space left on device"):
        large.write(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tiny_disk.iterdir()) == ["filler", "x.run.json.gz"]


def test_the_command_line_says_that_the_disk_is_full(tiny_disk: Path) -> None:
    source = tiny_disk.parent / "scenario.json"
    source.write_text(json.dumps(scenario(req("A", [1], max_tokens=2))))
    with contextlib.suppress(OSError), (tiny_disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert_one_error(
        cli("simulate", source, "--output", tiny_disk / "x.run.json.gz"), "No space left"
    )
    assert [p.name for p in tiny_disk.iterdir()] == ["filler"]


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """`--output /dev/null` as root must not turn the device into a file; a pipe stands in here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keep_open = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        with contextlib.suppress(InputFileError):
            small_run().write(pipe)
        assert stat.S_ISFIFO(pipe.lstat().st_mode)
    finally:
        os.close(keep_open)
