"""Multi-scalar multiplication."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capstan import _calls, _upload, encodings, errors, results
from capstan._arguments import Batch, Group, Seconds, SumEncoding, Verify, checked
from capstan._calls import Call, CallBudget
from capstan._session import VERIFICATIONS, PayloadLimits, Session
from capstan._staging import StagedMemory, wait_before_messages
from capstan._upload import Progress, ResumableUpload, TransferProgress
from capstan.encodings import EncodedScalars, PointsLike, ScalarsLike
from capstan.results import Bases, MsmResult, Vector
from capstan.v1 import compute_pb2, program_pb2, types_pb2


@checked
def msm(
    session: Session,
    bases: Bases | PointsLike,
    scalars: ScalarsLike | Vector,
    *,
    batch: Batch | None = None,
    group: Group = "g1",
    encoding: SumEncoding = "compressed",
    montgomery: bool = False,
    reduce: bool = False,
    verify: Verify = "none",
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[MsmResult]:
    """Compute the sum of scalars[i] * bases[i], for one scalar vector or several.

    Args:
        bases: Points on the server, or a few points that are sent with the call: an array of shape
            (n, width) uint8, bytes, or a sequence of bytes.
        scalars: One scalar for each base and vector; the vectors are concatenated. The type and the
            shape choose the encoding (see the README); a `Vector` stays on the server.
        batch: Number of scalar vectors, 1 to 65536; by default the first dimension of an array of
            shape (batch, n, 32) or (batch, n, 4), otherwise 1.
        group: Group of points that are sent with the call: `g1` or `g2`.
        encoding: Encoding of the sums: `compressed` (48 bytes in G1, 96 in G2) or `uncompressed`.
        montgomery: Whether 32-byte scalars are in Montgomery form.
        reduce: Reduce 32-byte scalars modulo r; otherwise the server refuses those of r or more.
        verify: Check of the result on the server: `none`, `full` or `probabilistic`.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and the total, possibly by another thread.

    Raises:
        InvalidInput: The number of scalars is wrong, or a scalar or point is invalid.
        NotFound: The server does not have the bases or the vector.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    inline = None
    if isinstance(bases, Bases):
        group, length = bases.group, bases.length
    else:
        inline = encodings.encode_points("bases", bases, group=group, encoding=None)
        length = inline.count
    elements = None
    if not isinstance(scalars, Vector):
        elements = encodings.encode_scalars("scalars", scalars, montgomery=montgomery)
        batch = elements.rows if batch is None else batch
    vectors = 1 if batch is None else batch
    count = len(scalars) if elements is None else elements.count
    if count != vectors * length:
        raise errors.wrong_length("scalars", vectors * length, count)
    limits = yield from session.limits(budget)
    if inline is not None and inline.data.size > limits.message_bytes:
        raise errors.invalid("bases", "too many for one message: put them first")
    spec = compute_pb2.MsmSpec(
        group=encodings.GROUPS[group],
        batch=vectors,
        reduce=reduce,
        result_encoding=encodings.SUM_ENCODINGS[encoding],
        verify=VERIFICATIONS[verify],
    )
    if inline is not None:
        spec.inline.encoding = inline.encoding
        spec.inline.data = inline.data.tobytes()
    elif length == 0:
        # On the wire, a length of 0 means all bases.
        spec.inline.encoding = types_pb2.POINT_ENCODING_COMPRESSED
    else:
        spec.stored.object_id = bases.id
        spec.stored.offset = bases.offset
        spec.stored.length = length
    if elements is None:
        stored = program_pb2.StoredVector(upload_id=scalars.id, offset=scalars.offset)
        request = compute_pb2.MsmRequest(spec=spec, stored=stored)
        response = yield from _calls.unary(_calls.MSM, request, budget)
    else:
        call = LocalMsm(spec, elements, TransferProgress(progress, elements.data.size))
        response = yield from call.run(session, limits, budget)
    width = encodings.point_width(group, encoding)
    points = response.result.points
    if len(points) != vectors * width:
        raise errors.invalid_response("the number of points is wrong")
    return MsmResult(
        points=[points[start : start + width] for start in range(0, len(points), width)],
        timing=results.timing_from(response.result.timing, budget.elapsed()),
        execution=results.execution_from(response.result.execution, verify),
    )


@dataclass(frozen=True)
class LocalMsm:
    """An MSM whose scalars are in this process."""

    spec: compute_pb2.MsmSpec
    scalars: EncodedScalars
    progress: TransferProgress

    def run(self, session: Session, limits: PayloadLimits, budget: CallBudget) -> Call[Any]:
        """Send the scalars through shared memory, in one message, or in chunks."""
        data = self.scalars.data
        memory = yield from limits.staging.memory(session.target, data.size, budget)
        if memory is not None:
            try:
                response = yield from _calls.streamed(
                    _calls.MSM_STREAM, self._written(memory), budget
                )
                memory.release()
                return response
            except errors.CapstanError as error:
                # A refused job has ended, and writes nothing here.
                if error.reason and not error.is_region_unknown:
                    memory.release()
                yield from wait_before_messages(error, budget)
            finally:
                memory.lose()
        if data.size + len(self.spec.inline.data) <= limits.message_bytes:
            inline = types_pb2.InlineVector(encoding=self.scalars.encoding, data=data.tobytes())
            request = compute_pb2.MsmRequest(spec=self.spec, inline=inline)
            response = yield from _calls.unary(_calls.MSM, request, budget)
            self.progress.set(data.size)
            return response
        upload = ResumableUpload(
            method=_calls.MSM_STREAM,
            data=data,
            chunk_bytes=limits.chunk_bytes,
            progress=self.progress,
            header=self._header,
        )
        return (yield from upload.run(budget))

    def _header(self, upload_id: bytes) -> compute_pb2.MsmStreamRequest:
        upload = types_pb2.VectorUpload(
            upload_id=upload_id, encoding=self.scalars.encoding, count=self.scalars.count, streams=1
        )
        header = compute_pb2.MsmStreamHeader(spec=self.spec, scalars=upload)
        return compute_pb2.MsmStreamRequest(header=header)

    def _written(self, memory: StagedMemory) -> Iterator[compute_pb2.MsmStreamRequest]:
        upload = memory.upload(0, self.scalars.encoding, self.scalars.count)
        header = compute_pb2.MsmStreamHeader(spec=self.spec, region_scalars=upload)
        yield compute_pb2.MsmStreamRequest(header=header)
        for written in _upload.copied(self.scalars.data, memory, 0, self.progress):
            yield compute_pb2.MsmStreamRequest(written=written)
