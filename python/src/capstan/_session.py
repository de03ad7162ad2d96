"""What all calls of a client share, apart from its connection."""

from dataclasses import dataclass, field

import grpc

from capstan import _calls, errors
from capstan._calls import Call, CallBudget
from capstan._channel import unix_socket
from capstan._staging import StagingPool
from capstan.v1 import admin_pb2, types_pb2

# Payload bytes of one message if the server denies GetInfo.
_MESSAGE_BYTES_DEFAULT = 1 << 20
# Payload bytes of one chunk. Each one costs a wakeup of a Python thread, so they are large.
_CHUNK_BYTES = 1 << 20
VERIFICATIONS = {
    "none": types_pb2.VERIFY_NONE,
    "full": types_pb2.VERIFY_FULL,
    "probabilistic": types_pb2.VERIFY_PROBABILISTIC,
}


@dataclass(frozen=True)
class PayloadLimits:
    """The server's limits that decide how payloads travel."""

    message_bytes: int
    # Of the payloads of a connection; None if it is not known.
    in_flight_bytes: int | None
    staging: StagingPool

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return min(self.message_bytes, _CHUNK_BYTES)

    def check_result(self, field: str, size: int) -> None:
        """Raise InvalidInput if a result has more bytes than the server can send.

        Called before memory for them is allocated.
        """
        if self.in_flight_bytes is not None and size > self.in_flight_bytes:
            problem = f"the result has {size} bytes, and the server sends at most"
            raise errors.invalid(field, f"{problem} {self.in_flight_bytes} of one call")


@dataclass
class Session:
    """Settings of a client, and what it has learned of the server."""

    target: str
    timeout: float | None
    retries: int
    shared_memory: bool
    _limits: PayloadLimits | None = field(default=None, repr=False)

    def begin(self, timeout: float | None) -> CallBudget:
        """Start the time limit of a call."""
        return CallBudget(self.timeout if timeout is None else timeout, self.retries)

    def limits(self, budget: CallBudget) -> Call[PayloadLimits]:
        """Ask the server for its limits in the first call that needs them."""
        if self._limits is None:
            request = admin_pb2.GetInfoRequest()
            try:
                info = yield from _calls.unary(_calls.GET_INFO, request, budget)
                message_bytes = info.limits.message_payload_bytes
                in_flight_bytes = info.limits.connection_bytes_in_flight
                region_bytes = info.limits.region_bytes
            except errors.CapstanError as error:
                if error.code != grpc.StatusCode.PERMISSION_DENIED:
                    raise
                message_bytes, region_bytes = _MESSAGE_BYTES_DEFAULT, 0
                in_flight_bytes = None
            if message_bytes == 0:
                raise errors.invalid_response("no limits: is this a Capstan server?")
            is_shared = self.shared_memory and unix_socket(self.target) is not None
            staging = StagingPool(self.target, region_bytes if is_shared else 0)
            # Of two threads that ask at once, both use the pool of the first.
            if self._limits is None:
                self._limits = PayloadLimits(message_bytes, in_flight_bytes, staging)
        return self._limits

    def close(self) -> None:
        """Return the memory that the server shares."""
        if self._limits is not None:
            self._limits.staging.close()

    def forget_parent(self) -> None:
        """Drop in a child process the regions of its parent, which keeps them."""
        if self._limits is not None:
            self._limits.staging.forget_parent()
            self._limits = None


def verify_name(number: int) -> str:
    """Return the word for a value of Verify."""
    return next((name for name, value in VERIFICATIONS.items() if value == number), "none")
