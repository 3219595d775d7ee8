"""The server's answers are not held back: what it accepts has Nagle's algorithm switched off."""

from __future__ import annotations

import os
import socket

from ui import nodelay


def test_accepted_sockets_inherit_it() -> None:
    with socket.socket() as listener:  # as Streamlit makes it: without naming the protocol
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert nodelay.switch_on() >= 1
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_other_sockets_and_files_are_left_alone() -> None:
    with socket.socket() as idle, socket.socketpair()[0]:
        nodelay.switch_on()
        assert not idle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nothing_stays_open() -> None:
    """A copy of a pipe's end would keep its reader from ever seeing the end."""
    reader, writer = os.pipe()
    before = len(os.listdir("/dev/fd"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        nodelay.switch_on()
    assert len(os.listdir("/dev/fd")) == before
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
