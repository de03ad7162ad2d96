"""Maps regions: memory that a server on the same host shares."""

import mmap
import os
import socket
import time
from dataclasses import dataclass, field

import numpy as np

from capstan import _calls, errors
from capstan._calls import Call, CallBudget
from capstan._channel import unix_socket
from capstan.v1 import store_pb2

_HANDOUT_TIMEOUT_S = 5.0
# Pause after the server had no place for the connection, since other clients connect.
_CROWDED_PAUSE_S = 0.05
# After as many attempts, payloads travel in messages.
_ATTEMPTS_MAX = 25


@dataclass
class ClientRegion:
    """A mapped region, which the server releases when the connection is closed."""

    id: bytes
    memory: np.ndarray = field(repr=False)
    connection: socket.socket = field(repr=False)

    def close(self) -> None:
        """Return the region. The memory is unmapped when the last array of it is dropped."""
        self.connection.close()
        self.memory = np.empty(0, dtype="u1")


def open_region(target: str, size: int, budget: CallBudget) -> Call[ClientRegion | None]:
    """Open a region of at least `size` bytes; None if the server shares no memory now."""
    path = unix_socket(target)
    request = store_pb2.OpenRegionRequest(bytes=size)
    try:
        opened = yield _calls.Rpc(_calls.OPEN_REGION, request, budget.remaining())
        return (yield _calls.Blocking(lambda: _map_region(f"{path}.regions", opened)))
    except errors.TimedOut:
        raise
    except (errors.CapstanError, OSError):
        # Payloads then travel in messages.
        return None


def _map_region(path: str, opened: store_pb2.OpenRegionResponse) -> ClientRegion:
    connection, descriptor = _ask_until_free(path, opened)
    try:
        # Populated now, so that calls do not wait for page faults.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        memory = mmap.mmap(descriptor, opened.bytes, flags=flags)
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(descriptor)
    return ClientRegion(opened.region_id, np.frombuffer(memory, dtype="u1"), connection)


def _ask_until_free(path: str, opened: store_pb2.OpenRegionResponse) -> tuple[socket.socket, int]:
    """Ask again while the server has no place for the connection."""
    for _ in range(1, _ATTEMPTS_MAX):
        try:
            return _ask(path, opened)
        except (BrokenPipeError, ConnectionResetError):
            time.sleep(_CROWDED_PAUSE_S)
    return _ask(path, opened)


def _ask(path: str, opened: store_pb2.OpenRegionResponse) -> tuple[socket.socket, int]:
    """The connection that keeps the region, and the descriptor of its memory."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_HANDOUT_TIMEOUT_S)
        connection.connect(path)
        connection.sendall(opened.region_id + opened.token)
        answer, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if not answer:
            raise ConnectionResetError("the server closed the connection")
        if answer != b"\x01" or len(descriptors) != 1:
            raise OSError("the server did not hand out the region")
    except BaseException:
        connection.close()
        raise
    return connection, descriptors[0]
