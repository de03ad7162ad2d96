"""Multi-scalar multiplication."""

from capstan import _calls, encodings, errors, results
from capstan._arguments import Batch, Group, Seconds, SumEncoding, Verify, checked
from capstan._calls import Call
from capstan._session import VERIFICATIONS, Session
from capstan._transfer import Progress, Transfer, spec_message
from capstan.encodings import PointsLike, ScalarsLike
from capstan.results import Bases, MsmResult, Vector
from capstan.v1 import compute_pb2, types_pb2


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
    transfer = Transfer(
        limits,
        budget,
        unary=_calls.MSM,
        stream=_calls.MSM_STREAM,
        first_message=spec_message(_calls.MSM, _calls.MSM_STREAM, spec, "scalars"),
        inputs=[scalars if elements is None else elements],
        header_bytes=len(spec.inline.data),
        report=progress,
    )
    result = (yield from transfer.run()).result
    width = encodings.point_width(group, encoding)
    points = result.points
    if len(points) != vectors * width:
        raise errors.invalid_response("the number of points is wrong")
    return MsmResult(
        points=[points[start : start + width] for start in range(0, len(points), width)],
        timing=results.timing_from(result.timing, budget.elapsed()),
        execution=results.execution_from(result.execution, verify),
    )
