"""Ports that are known before a program listens on them, as Envoy's configurations need them.

tests/common/stable_port.rs describes how processes share them, and takes them from the same range.
"""

import os
import socket

# The ports, divided by ten. They are below the ports that systems give to connections.
_TENS = range(2000, 3200)
# Each keeps other processes away from the nine ports below its own.
_guards: list[socket.socket] = []
_left: list[int] = []


def stable_port() -> int:
    """A port of 127.0.0.1 that no other call, in any process, returns while this one runs."""
    if not _left:
        _left.extend(_claim())
    return _left.pop(0)


def _claim() -> range:
    begin = os.getpid() % len(_TENS)
    for tens in [*_TENS[begin:], *_TENS[:begin]]:
        ports = range(10 * tens, 10 * tens + 9)
        try:
            guard = _listen(ports.stop)
        except OSError:
            continue
        try:
            for port in ports:
                _listen(port).close()
        except OSError:
            # A program that is not a test listens on one of them.
            guard.close()
            continue
        _guards.append(guard)
        return ports
    raise AssertionError(f"the ports of {_TENS} tens are taken")


def _listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))
