"""Maps regions: memory that a server on the same host shares."""

import mmap
import os
import socket
from dataclasses import dataclass, field

import numpy as np

from capstan import _calls, errors
from capstan._calls import Call, CallBudget
from capstan._channel import unix_socket
from capstan.v1 import store_pb2

_HANDOUT_TIMEOUT_S = 5.0


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
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_HANDOUT_TIMEOUT_S)
        connection.connect(path)
        connection.sendall(opened.region_id + opened.token)
        answer, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        if answer != b"\x01" or len(descriptors) != 1:
            raise OSError("the server did not hand out the region")
        try:
            # Populated now, so that calls do not wait for page faults.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            memory = mmap.mmap(descriptors[0], opened.bytes, flags=flags)
        finally:
            os.close(descriptors[0])
    except BaseException:
        connection.close()
        raise
    return ClientRegion(opened.region_id, np.frombuffer(memory, dtype="u1"), connection)
