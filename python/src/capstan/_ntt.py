"""Number-theoretic transforms."""

import math

import numpy as np

from capstan import _calls, _store, _transfer, encodings, errors, results
from capstan._arguments import Batch, Direction, LogSize, Order, Seconds, Verify, checked
from capstan._calls import Call, CallBudget
from capstan._session import VERIFICATIONS, Session
from capstan._transfer import Progress, Transfer, spec_message
from capstan.encodings import FR_BYTES, EncodedScalars, ScalarsLike
from capstan.results import NttResult, Vector
from capstan.v1 import compute_pb2, store_pb2, types_pb2

DIRECTIONS = {
    "forward": types_pb2.DIRECTION_FORWARD,
    "inverse": types_pb2.DIRECTION_INVERSE,
}
ORDERS = {
    "natural": types_pb2.ORDER_NATURAL,
    "bit-reversed": types_pb2.ORDER_BIT_REVERSED,
}


@checked
def ntt(
    session: Session,
    values: ScalarsLike | Vector,
    *,
    direction: Direction = "forward",
    coset: int | bytes | None = None,
    input_order: Order = "natural",
    output_order: Order = "natural",
    lg_n: LogSize | None = None,
    batch: Batch | None = None,
    montgomery: bool = False,
    reduce: bool = False,
    verify: Verify = "none",
    keep: bool = False,
    out: np.ndarray | None = None,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[NttResult]:
    """Transform rows of elements of Fr.

    Args:
        values: The rows: an array of shape (n, 32) uint8 or (n, 4) uint64, of shape (k, n, 32) or
            (k, n, 4) for k rows, concatenated bytes, integers, or a `Vector` on the server.
        direction: `forward` (coefficients to evaluations) or `inverse`, with the factor 1/n.
        coset: The coset generator, not zero: an integer or 32 bytes, little-endian.
        input_order: `natural` or `bit-reversed`.
        output_order: `natural` or `bit-reversed`.
        lg_n: log2 of the transform's size; shorter rows are padded with zeros. By default that of
            the rows' length, which must then be a power of two.
        batch: Number of rows of the same length, 1 to 65536; by default the first dimension of an
            array with three, otherwise 1.
        montgomery: Whether elements are sent and received in Montgomery form.
        reduce: Reduce elements modulo r; otherwise the server refuses those of r or more.
        verify: Check of the result on the server: `none`, `full` or `probabilistic`.
        keep: Leave the result on the server, as `NttResult.vector`. `values` must be a Vector.
        out: Array for the result, with the shape and the type that the result would have; may be
            `values`. Saves the time to allocate memory. Unspecified after an error.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and received and their total, possibly by another
            thread.

    Raises:
        InvalidInput: The shape or an element is invalid.
        NotFound: The server does not have the vector.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    elements = None
    if not isinstance(values, Vector):
        elements = encodings.encode_scalars("values", values, montgomery=montgomery)
        if elements.width != FR_BYTES:
            raise errors.invalid("values", "expected elements of 32 bytes")
        if keep:
            raise errors.invalid("keep", "put the vector first")
        batch = elements.rows if batch is None else batch
    count = values.length if elements is None else elements.count
    rows = 1 if batch is None else batch
    if count % rows:
        raise errors.invalid("values", "the rows differ in length")
    row_length = count // rows
    if lg_n is None:
        lg_n = max(row_length - 1, 0).bit_length()
        if row_length != 1 << lg_n:
            raise errors.invalid("values", "the length of a row is not a power of two: set lg_n")
    limits = yield from session.limits(budget)
    if not keep:
        limits.check_result("lg_n", (rows << lg_n) * FR_BYTES)
    spec = compute_pb2.NttSpec(
        lg_n=lg_n,
        direction=DIRECTIONS[direction],
        coset_generator=b"" if coset is None else encodings.encode_element("coset", coset),
        input_order=ORDERS[input_order],
        output_order=ORDERS[output_order],
        batch=rows,
        output_encoding=encodings.MONTGOMERY if montgomery else encodings.CANONICAL,
        reduce=reduce,
        row_length=row_length,
        verify=VERIFICATIONS[verify],
    )
    received = None if keep else _result_array(elements, rows, 1 << lg_n, out)
    vector = None
    if keep or (elements is None and received.nbytes > limits.message_bytes):
        stored = {"upload_id": values.id, "offset": values.offset}
        request = compute_pb2.NttRequest(spec=spec, stored=stored, keep=True)
        response = yield from _calls.unary(_calls.NTT, request, budget)
        if not response.kept.HasField("vector"):
            raise errors.invalid_response("the response has no vector")
        vector = results.vector_from(response.kept.vector)
        if not keep:
            yield from _move(session, vector, received, progress, budget)
            vector = None
    else:
        transfer = Transfer(
            limits,
            budget,
            unary=_calls.NTT,
            stream=_calls.NTT_STREAM,
            first_message=spec_message(_calls.NTT, _calls.NTT_STREAM, spec, "input"),
            inputs=[values if elements is None else elements],
            outputs=[received.reshape(-1).view("u1")],
            report=progress,
            # Rows of a vector on the server are one message.
            staged_bytes_min=math.inf if elements is None else 0,
            may_overwrite=True,
        )
        response = yield from transfer.run()
    return NttResult(
        values=received,
        vector=vector,
        timing=results.timing_from(response.result.timing, budget.elapsed()),
        execution=results.execution_from(response.result.execution, verify),
    )


def _result_array(
    elements: EncodedScalars | None, rows: int, n: int, out: np.ndarray | None
) -> np.ndarray:
    dtype = np.dtype("u1") if elements is None else elements.dtype
    shape = (rows * n, FR_BYTES // dtype.itemsize)
    if elements is not None and elements.rows is not None:
        shape = (rows, n, shape[1])
    if out is None:
        return np.empty(shape, dtype=dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise errors.invalid("out", f"expected a contiguous array of shape {shape} of {dtype}")
    if not out.flags.writeable:
        raise errors.invalid("out", "is read-only")
    return out


def _move(
    session: Session, vector: Vector, out: np.ndarray, report: Progress | None, budget: CallBudget
) -> Call[None]:
    """Read a vector that the call made for itself, and release it."""
    request = store_pb2.GetRequest(upload_id=vector.id)
    data = out.reshape(-1).view("u1")
    width = data.size // vector.length
    try:
        yield from _transfer.download(request, width, data, report, budget)
    except errors.CapstanError:
        yield from _store.release_quietly(session, vector)
        raise
    yield from _store.release_quietly(session, vector)
