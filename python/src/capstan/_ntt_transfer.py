"""How the rows of a transform travel."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from capstan import _calls, _download, _store, _upload, errors, results
from capstan._calls import Call, CallBudget
from capstan._copy import copy
from capstan._download import ReceivedRows
from capstan._frames import PayloadChunk
from capstan._session import PayloadLimits, Session
from capstan._space import whole_pages
from capstan._staging import StagedMemory, wait_before_messages
from capstan._upload import ByteSpan, TransferProgress
from capstan.encodings import EncodedScalars
from capstan.results import Vector
from capstan.v1 import compute_pb2, program_pb2, store_pb2, types_pb2


@dataclass(frozen=True)
class KeptResult:
    """The result of a transform that stays on the server."""

    result: compute_pb2.NttResult
    vector: Vector


def keep_result(spec: compute_pb2.NttSpec, vector: Vector, budget: CallBudget) -> Call[KeptResult]:
    """Transform a vector of the server, and leave the result there."""
    request = compute_pb2.NttRequest(spec=spec, stored=_stored(vector), keep=True)
    response = yield from _calls.unary(_calls.NTT, request, budget)
    if not response.kept.HasField("vector"):
        raise errors.invalid_response("the response has no vector")
    return KeptResult(response.result, results.vector_from(response.kept.vector))


@dataclass(frozen=True)
class StoredNtt:
    """A transform of a vector of the server whose rows are read."""

    spec: compute_pb2.NttSpec
    vector: Vector
    out: np.ndarray = field(repr=False)
    progress: TransferProgress

    def run(
        self, session: Session, limits: PayloadLimits, budget: CallBudget
    ) -> Call[compute_pb2.NttResult]:
        """Receive the rows in one message, or download them."""
        if self.out.size <= limits.message_bytes:
            request = compute_pb2.NttRequest(spec=self.spec, stored=_stored(self.vector))
            response = yield from _calls.unary(_calls.NTT, request, budget)
            _copy_rows(response.rows.data, self.out, self.progress)
            return response.result
        kept = yield from keep_result(self.spec, self.vector, budget)
        try:
            request = store_pb2.GetRequest(upload_id=kept.vector.id)
            width = self.out.size // kept.vector.length
            yield from _download.download(request, width, self.out, self.progress, budget)
        except errors.CapstanError:
            yield from _store.release_quietly(session, kept.vector)
            raise
        yield from _store.release_quietly(session, kept.vector)
        return kept.result


@dataclass(frozen=True)
class LocalNtt:
    """A transform of rows that are in this process."""

    spec: compute_pb2.NttSpec
    rows: EncodedScalars
    out: np.ndarray = field(repr=False)
    progress: TransferProgress

    def run(
        self, session: Session, limits: PayloadLimits, budget: CallBudget
    ) -> Call[compute_pb2.NttResult]:
        """Exchange the rows through shared memory, in one message, or in chunks."""
        data = self.rows.data
        # The result begins at a page.
        output = whole_pages(data.size)
        memory = yield from limits.staging.memory(session.target, output + self.out.size, budget)
        if memory is not None:
            result = yield from self._run_in_region(memory, output, budget)
            if result is not None:
                return result
        if max(data.size, self.out.size) <= limits.message_bytes:
            inline = types_pb2.InlineVector(encoding=self.rows.encoding, data=data.tobytes())
            request = compute_pb2.NttRequest(spec=self.spec, inline=inline)
            response = yield from _calls.unary(_calls.NTT, request, budget)
            self.progress.set(data.size)
            _copy_rows(response.rows.data, self.out, self.progress)
            return response.result
        return (yield from self._run_in_chunks(limits.chunk_bytes, budget))

    def _run_in_region(
        self, memory: StagedMemory, output: int, budget: CallBudget
    ) -> Call[compute_pb2.NttResult | None]:
        reply = NttReply(None)
        try:
            yield from _calls.streamed(
                _calls.NTT_STREAM, self._written(memory, output), budget, reply.add
            )
            result = reply.complete()
            copy(self.out, memory.view(output, self.out.size))
            memory.release()
        except errors.CapstanError as error:
            if error.is_before_start:
                memory.release()
            yield from wait_before_messages(error, budget)
            return None
        finally:
            memory.lose()
        self.progress.add(self.out.size)
        return result

    def _run_in_chunks(self, chunk_bytes: int, budget: CallBudget) -> Call[compute_pb2.NttResult]:
        while True:
            self.progress.done = 0
            reply = NttReply(ReceivedRows(self.out, self.progress))
            try:
                yield from _calls.streamed(
                    _calls.NTT_STREAM, self._chunks(chunk_bytes), budget, reply.add
                )
                return reply.complete()
            except errors.CapstanError as error:
                # The result may be written over the input.
                if reply.has_rows:
                    raise
                yield from budget.wait_before_retry(error)

    def _written(self, memory: StagedMemory, output: int) -> Iterator[compute_pb2.NttStreamRequest]:
        header = compute_pb2.NttStreamHeader(
            spec=self.spec,
            region_input=memory.upload(0, self.rows.encoding, self.rows.count),
            region_output=memory.place(output),
        )
        yield compute_pb2.NttStreamRequest(header=header)
        for written in _upload.copied(self.rows.data, memory, 0, self.progress):
            yield compute_pb2.NttStreamRequest(written=written)

    def _chunks(self, chunk_bytes: int) -> Iterator[compute_pb2.NttStreamRequest | PayloadChunk]:
        upload = types_pb2.VectorUpload(
            upload_id=_upload.random_id(),
            encoding=self.rows.encoding,
            count=self.rows.count,
            streams=1,
        )
        header = compute_pb2.NttStreamHeader(spec=self.spec, input=upload)
        yield compute_pb2.NttStreamRequest(header=header)
        spans = [ByteSpan(0, self.rows.data.size)]
        yield from _upload.chunks(self.rows.data, spans, chunk_bytes, self.progress)


class NttReply:
    """The responses of a stream: rows, if they come in chunks, then the result."""

    def __init__(self, rows: ReceivedRows | None):
        self._rows = rows
        self._result: compute_pb2.NttResult | None = None

    @property
    def has_rows(self) -> bool:
        """Whether a part of the result was received."""
        return self._rows is not None and self._rows.filled > 0

    def add(self, response: compute_pb2.NttStreamResponse | PayloadChunk) -> None:
        """Take the next response."""
        if not isinstance(response, PayloadChunk):
            self._result = response.result
        elif self._rows is None:
            raise errors.invalid_response("the stream has a chunk that was not requested")
        else:
            self._rows.add(response)

    def complete(self) -> compute_pb2.NttResult:
        """Return the result. Raises InvalidResponse if the stream ended without it."""
        if self._result is None:
            raise errors.invalid_response("the stream ended without a result")
        if self._rows is not None:
            self._rows.check_complete()
        return self._result


def _stored(vector: Vector) -> program_pb2.StoredVector:
    return program_pb2.StoredVector(upload_id=vector.id, offset=vector.offset)


def _copy_rows(data: bytes, out: np.ndarray, progress: TransferProgress) -> None:
    if len(data) != out.size:
        raise errors.invalid_response("the rows have the wrong length")
    out[:] = np.frombuffer(data, dtype="u1")
    progress.add(out.size)
