"""Objects on the server: bases, matrices and vectors."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from capstan import _calls, _transfer, encodings, errors, results
from capstan._arguments import (
    Count,
    Group,
    PointEncoding,
    ResidencyAction,
    Seconds,
    Within,
    checked,
    integer,
)
from capstan._calls import Call, CallBudget
from capstan._session import Session
from capstan._transfer import Progress, Transfer
from capstan.encodings import Payload, PointsLike, ScalarsLike
from capstan.results import Bases, DeviceResidency, Matrix, Objects, Vector
from capstan.v1 import store_pb2, types_pb2

try:
    from blake3 import blake3
except ImportError:
    # Then payloads are sent without their hash, even if the server has them.
    blake3 = None


@checked
def put_bases(
    session: Session,
    points: PointsLike,
    *,
    group: Group = "g1",
    encoding: PointEncoding | None = None,
    label: str = "",
    persist: bool = False,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[Bases]:
    """Send points to the server, which checks them and names them by the hash of their content.

    If the package `blake3` is installed, points that the server already has are not sent, and the
    id of points in Montgomery form is compared with their hash.

    Args:
        points: At least one point: an array of shape (n, width) uint8, a sequence of bytes, or
            concatenated bytes.
        group: `g1` or `g2`.
        encoding: `compressed` (48 bytes in G1, 96 in G2: the format of Zcash, Ethereum and blst),
            `uncompressed`, or `montgomery` (96 and 192). By default, the width of each point tells
            the first two apart; concatenated bytes are compressed.
        label: Label for people: at most 128 bytes.
        persist: Keep the points in the server's data directory.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and the total, possibly by another thread.

    Raises:
        InvalidInput: A point is not canonical, not on the curve or not in the subgroup: `index`.
        Exhausted: The store is full.
        InvalidResponse: The server answered with other points.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    encoded = encodings.encode_points("points", points, group=group, encoding=encoding)

    def header(upload: dict[str, Any]) -> store_pb2.PutRequest:
        bases = store_pb2.BasesUpload(
            group=encodings.GROUPS[group],
            payload_hash=_payload_hash(encoded.data),
            persist=persist,
            label=label,
            **upload,
        )
        return store_pb2.PutRequest(bases=bases)

    response = yield from _put(session, encoded, header, budget, progress)
    bases = results.bases_from(response.object.bases)
    is_montgomery = encoded.encoding == encodings.POINT_ENCODINGS["montgomery"]
    computed = _content_id(_bases_context(group), encoded.data) if is_montgomery else None
    if (bases.group, bases.length) != (group, encoded.count):
        raise errors.invalid_response("the server answered with other points")
    _compare_ids(bases.id, computed)
    return bases


@checked
def put_matrix(
    session: Session,
    rows: Sequence[Mapping[int, int]],
    columns: Count,
    *,
    label: str = "",
    persist: bool = False,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[Matrix]:
    """Send a sparse matrix over Fr, which programs multiply by vectors.

    Args:
        rows: For each row, the coefficients from 0 to r - 1 by column.
        columns: Number of columns.
        label: Label for people: at most 128 bytes.
        persist: Keep the matrix in the server's data directory.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and the total, possibly by another thread.

    Raises:
        InvalidInput: A coefficient or a column of row `index` is not an integer in its range.
        InvalidResponse: The server answered with another matrix.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    # The first two indices stand for 1 and -1, which are not stored.
    indices = {1: 0, encodings.FR_MODULUS - 1: 1}
    terms: list[int] = []
    row_ends: list[int] = []
    is_column, is_element = Within(0, columns - 1), Within(0, encodings.FR_MODULUS - 1)
    for number, row in enumerate(rows):
        for column, coefficient in row.items():
            element = integer("rows", coefficient, is_element, index=number)
            terms.append(integer("rows", column, is_column, index=number))
            terms.append(indices.setdefault(element, len(indices)))
        row_ends.append(len(terms) // 2)
    stored = list(indices)[2:]
    parts = [
        encodings.to_montgomery(stored).tobytes(),
        np.array(terms, dtype="<u4").tobytes(),
        np.array(row_ends, dtype="<u4").tobytes(),
    ]
    data = np.frombuffer(b"".join(parts), dtype="u1")
    payload = Payload(types_pb2.SCALAR_ENCODING_UNSPECIFIED, data, len(rows))

    def header(upload: dict[str, Any]) -> store_pb2.PutRequest:
        matrix = store_pb2.MatrixUpload(
            upload_id=upload["upload_id"],
            rows=len(rows),
            columns=columns,
            terms=len(terms) // 2,
            coefficients=len(stored),
            streams=1,
            payload_hash=_payload_hash(data),
            persist=persist,
            label=label,
        )
        return store_pb2.PutRequest(matrix=matrix)

    response = yield from _put(session, payload, header, budget, progress)
    matrix = results.matrix_from(response.object.matrix)
    shape = np.array([len(rows), columns, len(terms) // 2, len(stored)], dtype="<u8")
    _compare_ids(matrix.id, _content_id("capstan v1 matrix", shape.tobytes(), data))
    return matrix


@checked
def put_vector(
    session: Session,
    values: ScalarsLike,
    *,
    montgomery: bool = False,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[Vector]:
    """Send a vector that stays in the server's memory until it is released or unused for long.

    Args:
        values: Scalars or elements of Fr; the type and the shape choose the encoding.
        montgomery: Whether 32-byte elements are in Montgomery form.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes sent and the total, possibly by another thread.

    Raises:
        InvalidInput: An element is not canonical: `index`.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    encoded = encodings.encode_scalars("values", values, montgomery=montgomery)

    def header(upload: dict[str, Any]) -> store_pb2.PutRequest:
        return store_pb2.PutRequest(vector=upload)

    response = yield from _put(session, encoded, header, budget, progress)
    return results.vector_from(response.object.vector)


@checked
def get_vector(
    session: Session,
    vector: Vector,
    *,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[np.ndarray]:
    """Read a vector, or a range of it.

    Args:
        vector: The vector on the server.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes received and the total.

    Returns:
        Elements of Fr as an array of shape (n, 32) uint8; narrow scalars with the dtype of their
        encoding.

    Raises:
        NotFound: The server does not have the vector.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    out = encodings.empty_scalars(vector.encoding, vector.length)
    data = out.reshape(-1).view("u1")
    request = store_pb2.GetRequest(upload_id=vector.id, offset=vector.offset)
    width = encodings.scalar_width(vector.encoding)
    yield from _transfer.download(request, width, data, progress, budget)
    return out


@checked
def get_bases(
    session: Session,
    bases: Bases,
    *,
    encoding: PointEncoding = "compressed",
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> Call[np.ndarray]:
    """Read points as an array of shape (n, width) uint8.

    Args:
        bases: The points on the server.
        encoding: `compressed`, `uncompressed` or `montgomery`.
        timeout: Seconds for the whole call, retries included; by default the client's.
        progress: Called with the bytes received and the total.

    Raises:
        NotFound: The server does not have the points.
        InvalidResponse: These are not the points of this id; detected if all points are read in
            Montgomery form and the package `blake3` is installed.
        CapstanError: The server refused the call or failed.
    """
    budget = session.begin(timeout)
    width = encodings.point_width(bases.group, encoding)
    out = np.empty((bases.length, width), dtype="u1")
    data = out.reshape(-1)
    number = encodings.POINT_ENCODINGS[encoding]
    request = store_pb2.GetRequest(object_id=bases.id, encoding=number, offset=bases.offset)
    yield from _transfer.download(request, width, data, progress, budget)
    if encoding == "montgomery" and bases.length == bases.count:
        _compare_ids(bases.id, _content_id(_bases_context(bases.group), data))
    return out


@checked
def find(
    session: Session, object_id: bytes, *, timeout: Seconds | None = None
) -> Call[Bases | Matrix]:
    """Return the handle of bases or of a matrix whose id, 32 bytes, is known.

    Raises:
        NotFound: The server does not have the object.
    """
    budget = session.begin(timeout)
    request = store_pb2.StatRequest(object_id=object_id)
    response = yield from _calls.unary(_calls.STAT, request, budget)
    if response.object.HasField("matrix"):
        found = results.matrix_from(response.object.matrix)
    else:
        found = results.bases_from(response.object.bases, response.unknown_devices)
    _compare_ids(found.id, object_id)
    return found


@checked
def list_objects(session: Session, *, timeout: Seconds | None = None) -> Call[Objects]:
    """List the bases and matrices on the server that the caller may see."""
    budget = session.begin(timeout)
    listed = Objects(bases=[], matrices=[])
    request = store_pb2.ListRequest()
    while True:
        page = yield from _calls.unary(_calls.LIST, request, budget)
        unknown = page.unknown_devices
        listed.bases.extend(results.bases_from(bases, unknown) for bases in page.bases)
        listed.matrices.extend(results.matrix_from(matrix) for matrix in page.matrices)
        if not page.next_page_token:
            return listed
        if page.next_page_token == request.page_token:
            raise errors.invalid_response("a page follows itself")
        request = store_pb2.ListRequest(page_token=page.next_page_token)


@checked
def release(
    session: Session, held: Bases | Matrix | Vector, *, timeout: Seconds | None = None
) -> Call[None]:
    """Release an object, on disk too. Of a range, the whole object is released.

    Raises:
        NotFound: The server does not have the object.
    """
    budget = session.begin(timeout)
    request = store_pb2.ReleaseRequest()
    if isinstance(held, Vector):
        request.upload_id = held.id
    else:
        request.object_id = held.id
    yield from _calls.unary(_calls.RELEASE, request, budget)


@checked
def set_residency(
    session: Session,
    bases: Bases,
    action: ResidencyAction,
    devices: Sequence[Count] = (),
    *,
    timeout: Seconds | None = None,
) -> Call[list[DeviceResidency]]:
    """Change where bases reside on GPUs. Returns what each GPU holds; nothing without GPUs.

    Args:
        bases: The bases; of a range, the whole object is meant.
        action: `warm`, `pin`, `unpin` or `evict`.
        devices: Numbers of the GPUs; by default all that serve.
        timeout: Seconds for the whole call, retries included; by default the client's.

    Raises:
        NotFound: The server does not have the bases.
        CapstanError: The server refused the call: a limit on pinned bases, say.
    """
    budget = session.begin(timeout)
    request = store_pb2.SetResidencyRequest(
        object_id=bases.id, action=f"RESIDENCY_ACTION_{action.upper()}", devices=devices
    )
    response = yield from _calls.unary(_calls.SET_RESIDENCY, request, budget)
    return [results.residency_from(held) for held in response.devices]


def release_quietly(session: Session, vector: Vector) -> Call[None]:
    """Release a vector that a call made for itself. If this fails, the server drops it later."""
    try:
        yield from release(session, vector)
    except errors.CapstanError:
        return


def _put(
    session: Session,
    payload: Payload,
    header: Callable[[dict[str, Any]], store_pb2.PutRequest],
    budget: CallBudget,
    progress: Progress | None,
) -> Call[store_pb2.PutResponse]:
    """Send a payload with the header that `header` makes from the fields of VectorUpload."""
    transfer = Transfer(
        (yield from session.limits(budget)),
        budget,
        stream=_calls.PUT,
        first_message=lambda sources, _: header(sources[0]["upload"]),
        inputs=[payload],
        report=progress,
        staged_bytes_min=math.inf,
    )
    return (yield from transfer.run())


def _payload_hash(data: np.ndarray) -> bytes:
    return b"" if blake3 is None else blake3(data).digest()


def _bases_context(group: str) -> str:
    return f"capstan v1 bases {group}"


def _content_id(context: str, *parts: bytes | np.ndarray) -> bytes | None:
    """Compute the id of an object by its content; None without the package `blake3`."""
    if blake3 is None:
        return None
    hasher = blake3(derive_key_context=context)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def _compare_ids(answered: bytes, expected: bytes | None) -> None:
    if expected not in (None, answered):
        raise errors.invalid_response("the server answered with another object's id")
