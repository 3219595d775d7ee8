"""Loaded by Python at start when this folder is on PYTHONPATH: a process behind a fence.

KV_SCOPE_BLOCK    modules, separated by commas, that are not installed as far as it can tell
KV_SCOPE_NETWORK  a file: any attempt to reach past this machine is refused and noted there
"""

import os
import socket
import sys

_BLOCKED = {name for name in os.environ.get("KV_SCOPE_BLOCK", "").split(",") if name}
_NOTES = os.environ.get("KV_SCOPE_NETWORK")


class _NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in _BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return


if _BLOCKED:
    sys.meta_path.insert(0, _NotInstalled())

if _NOTES:
    _connect = socket.socket.connect
    _look_up = socket.getaddrinfo

    def _note(what):
        with open(_NOTES, "a", encoding="utf-8") as file:
            file.write(f"{what}\n")

    def _local(host):
        return (
            host is None
            or str(host) in ("", "localhost", "::1", "0.0.0.0", "::")
            or str(host).startswith("127.")
        )

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _local(address[0]):
            # A datagram socket's connect sends nothing: it is how one asks for one's own address.
            if self.type != socket.SOCK_DGRAM:
                _note(f"connect {address}")
            raise OSError(101, "Network is unreachable (behind the test's fence)")
        return _connect(self, address)

    def look_up(host, *args, **kwargs):
        if not _local(host):
            _note(f"look up {host}")
            raise socket.gaierror(-3, "Temporary failure in name resolution (the test's fence)")
        return _look_up(host, *args, **kwargs)

    socket.socket.connect = connect
    socket.getaddrinfo = look_up
