"""Calls without I/O: generators that yield what is to be done and receive its outcome.

The blocking and the asyncio client run the same generators, so planning, retries and decoding
exist once.
"""

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf import message_factory
from google.protobuf.message import Message

from capstan import _frames, errors
from capstan._frames import PayloadChunk
from capstan.v1 import admin_pb2, compute_pb2, store_pb2

T = TypeVar("T")
Call = Generator["Rpc | Pause | Blocking", Any, T]

_BACKOFF_FIRST_S = 0.05
_BACKOFF_MAX_S = 2.0


class Method:
    """A method of a service, with what grpcio needs to call it."""

    def __init__(self, file: Any, service: str, name: str):
        descriptor = file.DESCRIPTOR.services_by_name[service].methods_by_name[name]
        self.path = f"/{descriptor.containing_service.full_name}/{name}"
        self.sends_stream = descriptor.client_streaming
        self.receives_stream = descriptor.server_streaming
        self.request = message_factory.GetMessageClass(descriptor.input_type)
        self._response = message_factory.GetMessageClass(descriptor.output_type)
        # Inputs and outputs of runs have numbers.
        self.is_numbered = name == "Run"
        chunk = descriptor.input_type.fields_by_name.get("chunk")
        self._chunk_field = None if chunk is None else chunk.number

    def serialize(self, request: Message | PayloadChunk) -> bytes:
        """Encode a message of the request."""
        if isinstance(request, PayloadChunk):
            return _frames.encode_chunk(self._chunk_field, request)
        return self.request.SerializeToString(request)

    def deserialize(self, data: bytes) -> Message | PayloadChunk:
        """Decode a message of the response."""
        if not self.receives_stream:
            return self._response.FromString(data)
        chunk = _frames.decode_chunk(data, is_numbered=self.is_numbered)
        if chunk is not None:
            return chunk
        message = self._response.FromString(data)
        if not message.HasField("chunk"):
            return message
        if not self.is_numbered:
            return PayloadChunk(message.chunk.offset, message.chunk.data)
        chunk = message.chunk.chunk
        return PayloadChunk(chunk.offset, chunk.data, message.chunk.output)


GET_INFO = Method(admin_pb2, "Admin", "GetInfo")
MSM = Method(compute_pb2, "Compute", "Msm")
MSM_STREAM = Method(compute_pb2, "Compute", "MsmStream")
NTT = Method(compute_pb2, "Compute", "Ntt")
NTT_STREAM = Method(compute_pb2, "Compute", "NttStream")
RUN = Method(compute_pb2, "Compute", "Run")
PUT = Method(store_pb2, "Store", "Put")
GET = Method(store_pb2, "Store", "Get")
STAT = Method(store_pb2, "Store", "Stat")
LIST = Method(store_pb2, "Store", "List")
RELEASE = Method(store_pb2, "Store", "Release")
SET_RESIDENCY = Method(store_pb2, "Store", "SetResidency")
OPEN_REGION = Method(store_pb2, "Store", "OpenRegion")


class MessageFeed:
    """The messages of a request stream, which a thread of grpcio takes."""

    def __init__(self, messages: Iterator[Message | PayloadChunk]):
        self._messages = messages
        self._lock = threading.Lock()
        self._is_stopped = False
        # What `messages` raised, such as an error of the caller's progress callback.
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[Message | PayloadChunk]:
        return self

    def __next__(self) -> Message | PayloadChunk:
        with self._lock:
            if self._is_stopped:
                raise StopIteration
            try:
                return next(self._messages)
            except StopIteration:
                raise
            except BaseException as error:
                self.error = error
                raise

    def stop(self) -> None:
        """Take no further message; wait until the one that is being made is finished."""
        with self._lock:
            self._is_stopped = True


@dataclass(frozen=True)
class Rpc:
    """Call a method. The outcome is the response, or None if `receive` takes the responses."""

    method: Method
    request: Message | MessageFeed = field(repr=False)
    timeout: float | None
    # Called with each message of a response stream.
    receive: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Blocking:
    """Call a function that blocks; an event loop runs it in a thread."""

    function: Callable[[], Any]


class CallBudget:
    """Time limit and retries of one call, across all its requests."""

    def __init__(self, timeout: float | None, retries: int):
        self.started = time.monotonic()
        self._deadline = None if timeout is None else self.started + timeout
        self._retries_left = retries
        self._backoff_s = _BACKOFF_FIRST_S
        self._has_lost_device = False

    def remaining(self) -> float | None:
        """Return the seconds left; None without a limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self.started

    def wait_before_retry(self, error: errors.CapstanError) -> Call[None]:
        """Wait; raise `error` if it is permanent, or if no retry or too little time is left."""
        # A call that lost devices twice may be the cause: it must not make others fail.
        is_device_lost = error.reason == "DEVICE_LOST"
        if not error.is_retryable or self._retries_left == 0:
            raise error
        if is_device_lost and self._has_lost_device:
            raise error
        self._has_lost_device |= is_device_lost
        self._retries_left -= 1
        if error.retry_after is None:
            wait = self._backoff_s * random.uniform(0.5, 1.5)
        else:
            # Jitter, so that clients do not retry all at once.
            wait = error.retry_after * random.uniform(1.0, 1.25)
        self._backoff_s = min(2 * self._backoff_s, _BACKOFF_MAX_S)
        remaining = self.remaining()
        if remaining is not None and wait >= remaining:
            raise error
        yield Pause(wait)


def unary(method: Method, request: Message, budget: CallBudget) -> Call[Any]:
    """Send one message and return the response; try again after errors that may be temporary."""
    while True:
        try:
            return (yield Rpc(method, request, budget.remaining()))
        except errors.CapstanError as error:
            yield from budget.wait_before_retry(error)


def streamed(
    method: Method,
    messages: Iterator[Message | PayloadChunk],
    budget: CallBudget,
    receive: Callable[[Any], None] | None = None,
) -> Call[Any]:
    """Send a stream of messages, once. No message is taken after the call has ended."""
    feed = MessageFeed(messages)
    try:
        return (yield Rpc(method, feed, budget.remaining(), receive))
    finally:
        feed.stop()
