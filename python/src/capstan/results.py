"""Handles and results of calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from capstan import _session, encodings, errors
from capstan._arguments import Group, Verify
from capstan.v1 import store_pb2, types_pb2


@dataclass(frozen=True)
class Timing:
    """Seconds that each phase took. Phases of one job may overlap.

    Attributes:
        receive: Server: from the header to the last payload byte.
        queue: Server: waiting for a worker while data was available.
        compute: Server: decoding and computing.
        verify: Server: checking the result.
        send: Server: encoding the result and handing it to the transport.
        total: Client: the whole call, retries included.
    """

    receive: float
    queue: float
    compute: float
    verify: float
    send: float
    total: float


@dataclass(frozen=True)
class DeviceStage:
    """Seconds that a stage such as `sort` took on the device."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Execution:
    """What computed the result.

    Attributes:
        engine: Such as `cpu`.
        device: Device and method, such as `2 threads, blst`.
        verified: The check that the result passed: `none`, `full` or `probabilistic`.
        stages: Stages on the device; empty if the engine reports none.
    """

    engine: str
    device: str
    verified: Verify
    stages: list[DeviceStage]


@dataclass(frozen=True)
class DeviceResidency:
    """What a device holds of bases.

    Attributes:
        device: Number of the GPU.
        bytes: Bytes of the GPU's memory, with tables; 0 if it does not hold the bases.
        tables: Number of tables, of which the first is the bases themselves.
        pinned: Whether the bases are kept until they are unpinned.
    """

    device: int
    bytes: int
    tables: int
    pinned: bool


@dataclass(frozen=True)
class Bases:
    """Points on the server, or a range of them. Slices are ranges: `bases[:100]`.

    Attributes:
        id: Content hash of the whole object, 32 bytes.
        group: `g1` or `g2`.
        offset: Index of the first point of the range.
        length: Number of points of the range.
        count: Number of points of the whole object.
        infinities: Number of points at infinity of the whole object.
        persisted: Whether the server keeps the points on disk.
        label: Label for people.
        created_s: When the server stored the points, in seconds of Unix time.
        residency: The devices that hold the points, in handles of `Client.list` and
            `Client.find`; else empty.
        unknown_devices: Numbers of devices that did not answer in time: `residency` lacks what
            they hold.
    """

    id: bytes
    group: Group
    offset: int
    length: int
    count: int
    infinities: int
    persisted: bool
    label: str
    created_s: int
    residency: list[DeviceResidency]
    unknown_devices: list[int]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> "Bases":
        chosen = range(self.length)[_whole_slice(part)]
        return Bases(
            **{**self.__dict__, "offset": self.offset + chosen.start, "length": len(chosen)}
        )


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix on the server.

    Attributes:
        id: Content hash, 32 bytes.
        rows: Number of rows.
        columns: Number of columns.
        terms: Number of terms of all rows.
        persisted: Whether the server keeps the matrix on disk.
        label: Label for people.
    """

    id: bytes
    rows: int
    columns: int
    terms: int
    persisted: bool
    label: str


@dataclass(frozen=True)
class Vector:
    """A vector on the server, or a range of it. Slices are ranges: `vector[100:]`.

    Whoever knows the id can use the vector, so the representation does not show it.

    Attributes:
        id: 16 bytes.
        encoding: Value of ScalarEncoding in `types.proto`.
        offset: Index of the first element of the range.
        length: Number of elements of the range.
    """

    id: bytes = field(repr=False)
    encoding: int
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, part: slice) -> "Vector":
        chosen = range(self.length)[_whole_slice(part)]
        return Vector(self.id, self.encoding, self.offset + chosen.start, len(chosen))


@dataclass(frozen=True)
class Objects:
    """Bases and matrices of the store, in the order in which they were stored."""

    bases: list[Bases]
    matrices: list[Matrix]


@dataclass(frozen=True)
class MsmResult:
    """The result of an MSM.

    Attributes:
        points: One point for each scalar vector, in the requested encoding.
        timing: Time of each phase.
        execution: Engine, device and stages.
    """

    points: list[bytes]
    timing: Timing
    execution: Execution

    @property
    def point(self) -> bytes:
        """The sum, if there was one scalar vector."""
        (point,) = self.points
        return point


@dataclass(frozen=True)
class NttResult:
    """The result of a transform.

    Attributes:
        values: The rows, with the type of the input; None if the result stays on the server. The
            representation does not show them.
        vector: The vector on the server, if the call had `keep=True`.
        timing: Time of each phase.
        execution: Engine, device and stages.
    """

    values: np.ndarray | None = field(repr=False)
    vector: Vector | None
    timing: Timing
    execution: Execution


def timing_from(message: types_pb2.Timing, total: float) -> Timing:
    """Decode the timing of a response."""
    return Timing(
        receive=message.receive_us * 1e-6,
        queue=message.queue_us * 1e-6,
        compute=message.compute_us * 1e-6,
        verify=message.verify_us * 1e-6,
        send=message.send_us * 1e-6,
        total=total,
    )


def execution_from(message: types_pb2.Execution, requested: str) -> Execution:
    """Decode the execution. Raises InvalidResponse if the check was not the one requested."""
    verified = _session.verify_name(message.verified)
    if verified not in (requested, "full") and requested != "none":
        raise errors.invalid_response(f"the result was verified {verified}, not {requested}")
    stages = [DeviceStage(stage.name, stage.time_us * 1e-6) for stage in message.stages]
    return Execution(message.engine, message.device, verified, stages)


def bases_from(message: store_pb2.Bases, unknown_devices: Sequence[int] = ()) -> Bases:
    """Decode a handle to all points of an object. The unknown devices are the response's."""
    return Bases(
        id=message.object_id,
        group=encodings.group_name(message.group),
        offset=0,
        length=message.count,
        count=message.count,
        infinities=message.infinities,
        persisted=message.persisted,
        label=message.label,
        created_s=message.created_s,
        residency=[residency_from(held) for held in message.residency],
        unknown_devices=list(unknown_devices),
    )


def residency_from(message: store_pb2.BasesResidency) -> DeviceResidency:
    """Decode what a device holds of bases."""
    return DeviceResidency(message.device, message.bytes, message.tables, message.pinned)


def matrix_from(message: store_pb2.Matrix) -> Matrix:
    """Decode a handle to a matrix."""
    return Matrix(
        id=message.object_id,
        rows=message.rows,
        columns=message.columns,
        terms=message.terms,
        persisted=message.persisted,
        label=message.label,
    )


def vector_from(message: store_pb2.Vector) -> Vector:
    """Decode a handle to all elements of a vector."""
    return Vector(message.upload_id, message.encoding, 0, message.count)


def _whole_slice(part: slice) -> slice:
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise TypeError("expected a slice without a step")
    return part
