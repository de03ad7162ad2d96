"""How the inputs and outputs of a run travel."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from capstan import _calls, _upload, errors
from capstan._calls import Call, CallBudget
from capstan._copy import copy
from capstan._download import ReceivedRows
from capstan._frames import PayloadChunk
from capstan._session import PayloadLimits, Session
from capstan._space import whole_pages
from capstan._staging import STAGED_BYTES_MIN, StagedMemory, wait_before_messages
from capstan._upload import ByteSpan, Progress, TransferProgress
from capstan.encodings import EncodedScalars
from capstan.program import ProgramValue
from capstan.results import Vector
from capstan.v1 import program_pb2


@dataclass(frozen=True)
class RunInput:
    """The elements of an input, in this process or on the server."""

    reduce: bool
    elements: EncodedScalars | None = None
    stored: Vector | None = None

    @property
    def size(self) -> int:
        """Bytes to send."""
        return 0 if self.elements is None else self.elements.data.size


@dataclass(frozen=True)
class RunOutput:
    """A value to return or to keep. `received` is None for points, and for vectors that stay."""

    value: ProgramValue
    # Value of ScalarEncoding, or of ResultEncoding for points.
    encoding: int
    received: np.ndarray | None = field(default=None, repr=False)
    kept: Vector | None = None

    @property
    def data(self) -> np.ndarray:
        """The bytes to fill."""
        return np.empty(0, "u1") if self.received is None else self.received.reshape(-1)

    @property
    def size(self) -> int:
        """Bytes to receive, apart from points."""
        return 0 if self.received is None else self.received.size


class RegionLayout:
    """Gives places of a region to large vectors, one after another."""

    def __init__(self, sizes: list[int]):
        self.size = 0
        # Where each vector begins; None for those that travel in messages.
        self.starts: list[int | None] = []
        for size in sizes:
            start = whole_pages(self.size) if size >= STAGED_BYTES_MIN else None
            self.starts.append(start)
            if start is not None:
                self.size = start + size


class RunReply:
    """The responses of a run: chunks of its outputs, in order, then the result."""

    def __init__(self, outputs: list[RunOutput], in_region: list[bool], progress: TransferProgress):
        self._rows = [
            None if is_in_region else ReceivedRows(output.data, progress)
            for output, is_in_region in zip(outputs, in_region, strict=True)
        ]
        self._result: program_pb2.RunResult | None = None

    def add(self, response: program_pb2.RunResponse | PayloadChunk) -> None:
        """Take the next response."""
        if not isinstance(response, PayloadChunk):
            self._result = response.result
            return
        rows = self._rows[response.number] if response.number < len(self._rows) else None
        if rows is None:
            raise errors.invalid_response("the stream has a chunk that was not requested")
        rows.add(response)

    def complete(self) -> program_pb2.RunResult:
        """Return the result. Raises InvalidResponse if anything is missing."""
        if self._result is None or len(self._result.points) != len(self._rows):
            raise errors.invalid_response("the stream ended without a result")
        for rows in self._rows:
            if rows is not None:
                rows.check_complete()
        return self._result


@dataclass(frozen=True)
class RunTransfer:
    """A run with checked inputs and outputs."""

    program: program_pb2.Program
    inputs: list[RunInput]
    outputs: list[RunOutput]
    verify: int
    report: Progress | None

    def run(
        self, session: Session, limits: PayloadLimits, budget: CallBudget
    ) -> Call[program_pb2.RunResult]:
        """Send large vectors through shared memory or in chunks, small ones in the header."""
        sizes = [part.size for part in (*self.inputs, *self.outputs)]
        layout = RegionLayout(sizes)
        memory = yield from limits.staging.memory(session.target, layout.size, budget)
        if memory is not None:
            result = yield from self._run_staged(memory, layout, limits, budget)
            if result is not None:
                return result
        while True:
            try:
                return (
                    yield from self._attempt(None, RegionLayout([0] * len(sizes)), limits, budget)
                )
            except errors.CapstanError as error:
                yield from budget.wait_before_retry(error)

    def _run_staged(
        self, memory: StagedMemory, layout: RegionLayout, limits: PayloadLimits, budget: CallBudget
    ) -> Call[program_pb2.RunResult | None]:
        try:
            result = yield from self._attempt(memory, layout, limits, budget)
            memory.release()
        except errors.CapstanError as error:
            if error.is_before_start:
                memory.release()
            yield from wait_before_messages(error, budget)
            return None
        finally:
            memory.lose()
        return result

    def _attempt(
        self,
        memory: StagedMemory | None,
        layout: RegionLayout,
        limits: PayloadLimits,
        budget: CallBudget,
    ) -> Call[program_pb2.RunResult]:
        progress = TransferProgress(
            self.report, sum(part.size for part in (*self.inputs, *self.outputs))
        )
        starts = layout.starts[len(self.inputs) :]
        reply = RunReply(self.outputs, [start is not None for start in starts], progress)
        messages = self._messages(memory, layout, limits, progress)
        yield from _calls.streamed(_calls.RUN, messages, budget, reply.add)
        result = reply.complete()
        for output, start in zip(self.outputs, starts, strict=True):
            if start is not None:
                copy(output.data, memory.view(start, output.size))
                progress.add(output.size)
        return result

    def _messages(
        self,
        memory: StagedMemory | None,
        layout: RegionLayout,
        limits: PayloadLimits,
        progress: TransferProgress,
    ) -> Iterator[program_pb2.RunRequest | PayloadChunk]:
        header = program_pb2.RunHeader(verify=self.verify)
        header.program.inline.CopyFrom(self.program)
        # The program takes its part of the first message.
        inline_left = limits.message_bytes - self.program.ByteSize()
        inline_bytes = 0
        for given, start in zip(self.inputs, layout.starts, strict=False):
            message = header.inputs.add(reduce=given.reduce)
            elements = given.elements
            if elements is None:
                message.stored.upload_id = given.stored.id
                message.stored.offset = given.stored.offset
            elif start is not None:
                upload = memory.upload(start, elements.encoding, elements.count)
                message.region_upload.CopyFrom(upload)
            elif given.size <= inline_left:
                inline_left -= given.size
                inline_bytes += given.size
                message.inline.encoding = elements.encoding
                message.inline.data = elements.data.tobytes()
            else:
                message.upload.upload_id = _upload.random_id()
                message.upload.encoding = elements.encoding
                message.upload.count = elements.count
                message.upload.streams = 1
        for output, start in zip(self.outputs, layout.starts[len(self.inputs) :], strict=True):
            header.outputs.append(_output_message(output, memory, start))
        progress.add(inline_bytes)
        yield program_pb2.RunRequest(header=header)
        for index, given in enumerate(self.inputs):
            start = layout.starts[index]
            if start is not None:
                for written in _upload.copied(given.elements.data, memory, start, progress):
                    part = program_pb2.RunInputRange(input=index, range=written)
                    yield program_pb2.RunRequest(written=part)
            elif header.inputs[index].HasField("upload"):
                spans = [ByteSpan(0, given.size)]
                size = limits.chunk_bytes
                yield from _upload.chunks(given.elements.data, spans, size, progress, index)


def _output_message(
    output: RunOutput, memory: StagedMemory | None, start: int | None
) -> program_pb2.ProgramOutput:
    message = program_pb2.ProgramOutput(value=output.value.index)
    if output.kept is not None:
        message.keep.upload_id = output.kept.id
        message.keep.encoding = output.encoding
    elif output.value.group is not None:
        message.points.encoding = output.encoding
    elif start is not None:
        place = memory.place(start)
        message.region.region_id = place.region_id
        message.region.offset = place.offset
        message.region.encoding = output.encoding
    else:
        message.send.encoding = output.encoding
    return message
