"""Uploads in chunks, which are resumed if their stream breaks."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capstan import _calls, errors
from capstan._calls import Call, CallBudget, Method
from capstan._copy import copy
from capstan._frames import PayloadChunk
from capstan._staging import StagedMemory
from capstan.v1 import store_pb2, types_pb2

Progress = Callable[[int, int], None]

# Larger payloads are announced in pieces, so that the server begins before the last one.
_ANNOUNCED_AT_ONCE_MAX = 32 << 20
_PIECE_BYTES = 1 << 20
UPLOAD_ID_BYTES = 16


class TransferProgress:
    """Reports to the caller's function how many bytes of a total were sent and received."""

    def __init__(self, report: Progress | None, total: int):
        self._report = report
        self.total = total
        self.done = 0

    def set(self, done: int) -> None:
        """Report this number of bytes."""
        self.done = done
        if self._report is not None:
            self._report(done, self.total)

    def add(self, count: int) -> None:
        """Report this number of further bytes."""
        self.set(self.done + count)


@dataclass(frozen=True)
class ByteSpan:
    """Bytes from `start` up to `end` of a payload."""

    start: int
    end: int


def random_id() -> bytes:
    """Return the id of a new upload."""
    return os.urandom(UPLOAD_ID_BYTES)


def chunks(
    data: np.ndarray,
    spans: list[ByteSpan],
    chunk_bytes: int,
    progress: TransferProgress,
    number: int | None = None,
) -> Iterator[PayloadChunk]:
    """Yield the chunks of the spans, and report their bytes."""
    for span in spans:
        for start in range(span.start, span.end, chunk_bytes):
            end = min(start + chunk_bytes, span.end)
            # Before the chunk is sent: after the last one, the stream may end at once.
            progress.add(end - start)
            yield PayloadChunk(start, data[start:end], number)


def copied(
    data: np.ndarray, memory: StagedMemory, offset: int, progress: TransferProgress
) -> Iterator[types_pb2.WrittenRange]:
    """Copy a payload to shared memory; yield the ranges that are written."""
    is_announced_at_once = data.size <= _ANNOUNCED_AT_ONCE_MAX
    piece_bytes = max(data.size, 1) if is_announced_at_once else _PIECE_BYTES
    for start in range(0, data.size, piece_bytes):
        piece = data[start : start + piece_bytes]
        copy(memory.view(offset + start, piece.size), piece)
        progress.add(piece.size)
        yield types_pb2.WrittenRange(offset=start, length=piece.size)


@dataclass(frozen=True)
class ResumableUpload:
    """A call whose request stream is a header, then chunks of one payload."""

    method: Method
    data: np.ndarray = field(repr=False)
    chunk_bytes: int
    progress: TransferProgress
    # Makes the header for the upload's id.
    header: Callable[[bytes], Any]

    def run(self, budget: CallBudget) -> Call[Any]:
        """Send the payload and return the response, over several streams if some break."""
        whole = [ByteSpan(0, self.data.size)]
        upload_id, spans = random_id(), whole
        while True:
            self.progress.done = self.data.size - sum(span.end - span.start for span in spans)
            try:
                return (
                    yield from _calls.streamed(
                        self.method, self._messages(upload_id, spans), budget
                    )
                )
            except errors.CapstanError as error:
                yield from budget.wait_before_retry(error)
            missing = yield from _missing_spans(upload_id, budget)
            if missing is None:
                upload_id, spans = random_id(), whole
            else:
                spans = missing

    def _messages(self, upload_id: bytes, spans: list[ByteSpan]) -> Iterator[Any]:
        yield self.header(upload_id)
        yield from chunks(self.data, spans, self.chunk_bytes, self.progress)


def _missing_spans(upload_id: bytes, budget: CallBudget) -> Call[list[ByteSpan] | None]:
    """Return what the server has not received; None if it does not know the upload."""
    request = store_pb2.StatRequest(upload_id=upload_id)
    try:
        status = yield from _calls.unary(_calls.STAT, request, budget)
    except errors.NotFound:
        return None
    return [ByteSpan(gap.start, gap.end) for gap in status.upload.missing]
