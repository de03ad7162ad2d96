"""How the vectors of a call travel: in shared memory, in its first message, or in chunks."""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import Message

from capstan import _calls, errors
from capstan._calls import Call, CallBudget, Method
from capstan._copy import copy
from capstan._frames import PayloadChunk
from capstan._session import PayloadLimits
from capstan._staging import StagedMemory, StagedVector
from capstan.encodings import Payload
from capstan.results import Vector
from capstan.v1 import store_pb2

Progress = Callable[[int, int], None]
# How an input travels: a field of ProgramInput, with the fields of its message.
Source = dict[str, dict[str, Any]]
# Makes the first message from the sources of the inputs, and from the places of those outputs that
# travel in shared memory.
FirstMessage = Callable[[list[Source], list[StagedVector | None]], Message]

# Larger payloads are announced in pieces, so that the server begins before the last one.
_ANNOUNCED_AT_ONCE_MAX = 32 << 20
_PIECE_BYTES = 1 << 20
_UPLOAD_ID_BYTES = 16


def random_id() -> bytes:
    """Return the id of a new upload."""
    return os.urandom(_UPLOAD_ID_BYTES)


class TransferProgress:
    """Reports to the caller's function how many bytes of a total were sent and received."""

    def __init__(self, report: Progress | None, total: int):
        self._report = report
        self._total = total
        self.done = 0

    def add(self, count: int) -> None:
        """Report this number of further bytes."""
        self.done += count
        if self._report is not None:
            self._report(self.done, self._total)


class ReceivedRows:
    """Copies the chunks of a result, which come in order, to an array of bytes."""

    def __init__(self, out: np.ndarray, progress: TransferProgress):
        self._out = out
        self._progress = progress
        self.filled = 0

    def add(self, chunk: PayloadChunk) -> None:
        """Copy the next chunk."""
        data = np.frombuffer(chunk.data, dtype="u1")
        end = self.filled + data.size
        if chunk.offset != self.filled or end > self._out.size:
            raise errors.invalid_response("a chunk has the wrong offset or length")
        self._out[self.filled : end] = data
        self.filled = end
        self._progress.add(data.size)

    def check_complete(self) -> None:
        """Raise InvalidResponse if bytes are missing."""
        if self.filled != self._out.size:
            raise errors.invalid_response("the result has the wrong length")


class StreamReply:
    """The responses of a stream: chunks of its outputs, then a message with the result."""

    def __init__(self, rows: list[ReceivedRows | None]):
        # None for outputs that travel in shared memory.
        self._rows = rows
        self._response: Any = None

    @property
    def has_rows(self) -> bool:
        """Whether a part of an output was received."""
        return any(rows is not None and rows.filled > 0 for rows in self._rows)

    def add(self, response: Message | PayloadChunk) -> None:
        """Take the next response."""
        if not isinstance(response, PayloadChunk):
            self._response = response
            return
        number = response.number or 0
        rows = self._rows[number] if number < len(self._rows) else None
        if rows is None:
            raise errors.invalid_response("the stream has a chunk that was not requested")
        rows.add(response)

    def complete(self) -> Any:
        """Return the message with the result. Raises InvalidResponse if anything is missing."""
        if self._response is None:
            raise errors.invalid_response("the stream ended without a result")
        for rows in self._rows:
            if rows is not None:
                rows.check_complete()
        return self._response


@dataclass
class Upload:
    """A payload that travels in chunks, and its bytes that the server has not received."""

    missing: list[range]
    id: bytes = field(default_factory=random_id)


@dataclass
class Transfer:
    """A call that sends vectors and fills arrays with its result.

    Attributes:
        limits: The server's limits.
        budget: The time limit and retries of the call.
        stream: The method for vectors that travel in shared memory or in chunks.
        first_message: Makes the first message.
        inputs: The vectors, in this process or on the server.
        outputs: Arrays of bytes to fill; empty for results that are not rows.
        report: Called with the bytes sent and received and their total.
        unary: The method for vectors that all fit in one message.
        header_bytes: Bytes of the first message that vectors must leave free.
        staged_bytes_min: Smaller vectors do not travel in shared memory.
        may_overwrite: Whether an output may lie in the memory of an input: the call is not repeated
            after a part of the output was received.
    """

    limits: PayloadLimits
    budget: CallBudget
    stream: Method
    first_message: FirstMessage
    inputs: list[Payload | Vector]
    outputs: list[np.ndarray] = field(default_factory=list)
    report: Progress | None = None
    unary: Method | None = None
    header_bytes: int = 0
    staged_bytes_min: float = 0
    may_overwrite: bool = False

    def __post_init__(self):
        self._sent = [0 if isinstance(given, Vector) else given.data.size for given in self.inputs]
        self._received = [out.size for out in self.outputs]
        self._progress = TransferProgress(self.report, sum(self._sent) + sum(self._received))
        self._begin_uploads()

    def run(self) -> Call[Any]:
        """Make the call, repeat it if that may succeed, and return its last response."""
        sizes = [*self._sent, *self._received]
        memory = yield from self.limits.staging.memory(sizes, self.staged_bytes_min, self.budget)
        if memory is not None:
            response = yield from self._run_staged(memory)
            if response is not None:
                return response
        places = [None] * len(sizes)
        largest = max(sum(self._sent) + self.header_bytes, sum(self._received))
        if self.unary is not None and largest <= self.limits.message_bytes:
            return (yield from self._run_in_one_message(places))
        return (yield from self._run_in_chunks(places))

    def _run_staged(self, memory: StagedMemory) -> Call[Any]:
        """Make the call through shared memory. None if it may be repeated in messages."""
        try:
            response = yield from self._attempt(memory.vectors)
            memory.release()
            return response
        except errors.CapstanError as error:
            # A refused job has ended, but its outputs may still be written if it had begun.
            has_outputs = any(memory.vectors[len(self.inputs) :])
            is_refused = error.reason != "" and not error.is_region_unknown
            if error.is_before_start if has_outputs else is_refused:
                memory.release()
            if not error.is_region_unknown and error.reason != "LOCAL_ONLY":
                yield from self.budget.wait_before_retry(error)
            return None
        finally:
            memory.lose()

    def _run_in_one_message(self, places: list[None]) -> Call[Any]:
        [request] = self._messages(places, is_inline=True)
        response = yield from _calls.unary(self.unary, request, self.budget)
        self._progress.done = 0
        for given, size in zip(self.inputs, self._sent, strict=True):
            if isinstance(given, Payload):
                self._progress.add(size)
        for out in self.outputs:
            if len(response.rows.data) != out.size:
                raise errors.invalid_response("the rows have the wrong length")
            out[:] = np.frombuffer(response.rows.data, dtype="u1")
            self._progress.add(out.size)
        return response

    def _run_in_chunks(self, places: list[None]) -> Call[Any]:
        self._begin_uploads()
        while True:
            try:
                return (yield from self._attempt(places))
            except errors.CapstanError as error:
                if self.may_overwrite and self._reply.has_rows:
                    raise
                yield from self.budget.wait_before_retry(error)
            # Calls that receive rows are not resumed.
            if self.stream.receives_stream or not (yield from self._find_missing()):
                self._begin_uploads()

    def _begin_uploads(self) -> None:
        self._uploads = [Upload([range(size)]) for size in self._sent]

    def _find_missing(self) -> Call[bool]:
        """Ask what the server has not received; False if it does not know the upload."""
        [upload] = self._uploads
        request = store_pb2.StatRequest(upload_id=upload.id)
        try:
            status = yield from _calls.unary(_calls.STAT, request, self.budget)
        except errors.NotFound:
            return False
        upload.missing = [range(gap.start, gap.end) for gap in status.upload.missing]
        return True

    def _attempt(self, places: list[StagedVector | None]) -> Call[Any]:
        """Make one call over the stream. Vectors with a place travel in shared memory."""
        missing = sum(len(span) for upload in self._uploads for span in upload.missing)
        self._progress.done = sum(self._sent) - missing
        outputs = list(zip(self.outputs, places[len(self.inputs) :], strict=True))
        self._reply = StreamReply(
            [ReceivedRows(out, self._progress) if place is None else None for out, place in outputs]
        )
        messages = self._messages(places, is_inline=self.stream.is_numbered)
        response = yield from _calls.streamed(self.stream, messages, self.budget, self._reply.add)
        if response is None:
            response = self._reply.complete()
        for out, place in outputs:
            if place is not None:
                copy(out, place.data)
                self._progress.add(out.size)
        return response

    def _messages(
        self, places: list[StagedVector | None], *, is_inline: bool
    ) -> Iterator[Message | PayloadChunk]:
        """Yield the first message, then the payloads that are not in it."""
        sources: list[Source] = []
        payloads: list[Iterator[Message | PayloadChunk]] = []
        inline_left = self.limits.message_bytes - self.header_bytes
        inline_bytes = 0
        vectors = zip(self.inputs, self._uploads, places, strict=False)
        for number, (given, upload, place) in enumerate(vectors):
            if isinstance(given, Vector):
                sources.append({"stored": {"upload_id": given.id, "offset": given.offset}})
                continue
            header = {"encoding": given.encoding, "count": given.count}
            if place is not None:
                sources.append({"region_upload": place.place | header})
                payloads.append(self._copied(given.data, place.data, number))
            elif is_inline and given.data.size <= inline_left - inline_bytes:
                inline_bytes += given.data.size
                data = given.data.tobytes()
                sources.append({"inline": {"encoding": given.encoding, "data": data}})
            else:
                sources.append({"upload": {"upload_id": upload.id, "streams": 1} | header})
                payloads.append(self._chunks(given.data, upload.missing, number))
        first = self.first_message(sources, places[len(self.inputs) :])
        if self.stream.is_numbered:
            self._progress.add(inline_bytes)
        yield first
        yield from itertools.chain(*payloads)

    def _chunks(
        self, data: np.ndarray, missing: list[range], number: int
    ) -> Iterator[PayloadChunk]:
        chunk_bytes = self.limits.chunk_bytes
        for span in missing:
            for start in span[::chunk_bytes]:
                end = min(start + chunk_bytes, span.stop)
                # Before the chunk is sent: after the last one, the stream may end at once.
                self._progress.add(end - start)
                chunk_number = number if self.stream.is_numbered else None
                yield PayloadChunk(start, data[start:end], chunk_number)

    def _copied(self, data: np.ndarray, staged: np.ndarray, number: int) -> Iterator[Message]:
        """Copy a payload to shared memory; yield the ranges that are written."""
        is_announced_at_once = data.size <= _ANNOUNCED_AT_ONCE_MAX
        piece_bytes = max(data.size, 1) if is_announced_at_once else _PIECE_BYTES
        for start in range(0, data.size, piece_bytes):
            piece = data[start : start + piece_bytes]
            copy(staged[start : start + piece.size], piece)
            self._progress.add(piece.size)
            written = {"offset": start, "length": piece.size}
            if self.stream.is_numbered:
                written = {"input": number, "range": written}
            yield self.stream.request(written=written)


def spec_message(unary: Method, stream: Method, spec: Message, name: str) -> FirstMessage:
    """Return what makes the first message of an MSM or NTT, whose vector has this name."""
    fields = {"upload": name, "region_upload": f"region_{name}"}

    def first_message(sources: list[Source], places: list[StagedVector | None]) -> Message:
        [(source, message)] = sources[0].items()
        if source not in fields:
            return unary.request(spec=spec, **sources[0])
        header = {"spec": spec, fields[source]: message}
        if any(places):
            header["region_output"] = places[0].place
        return stream.request(header=header)

    return first_message


def download(
    request: store_pb2.GetRequest,
    width: int,
    out: np.ndarray,
    report: Progress | None,
    budget: CallBudget,
) -> Call[None]:
    """Fill `out` with elements of `width` bytes, over several streams if some break."""
    progress = TransferProgress(report, out.size)
    done = 0
    while done < out.size:
        part = store_pb2.GetRequest()
        part.CopyFrom(request)
        part.offset += done // width
        part.length = (out.size - done) // width
        rows = ReceivedRows(out[done:], progress)
        rpc = _calls.Rpc(_calls.GET, part, budget.remaining(), rows.add)
        try:
            yield rpc
            rows.check_complete()
            return
        except errors.CapstanError as error:
            yield from budget.wait_before_retry(error)
        done += rows.filled // width * width
        progress.done -= rows.filled % width
