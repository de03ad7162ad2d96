"""Scalars, elements of Fr and points, as numpy arrays and bytes."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from capstan import errors
from capstan._arguments import check
from capstan.v1 import types_pb2

# The order of the scalar field Fr of BLS12-381.
FR_MODULUS = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
FR_BYTES = 32
_MONTGOMERY = pow(2, 256, FR_MODULUS)

CANONICAL = types_pb2.SCALAR_ENCODING_CANONICAL
MONTGOMERY = types_pb2.SCALAR_ENCODING_MONTGOMERY

_INTEGERS = {
    np.dtype("u1"): types_pb2.SCALAR_ENCODING_U8,
    np.dtype("u2"): types_pb2.SCALAR_ENCODING_U16,
    np.dtype("u4"): types_pb2.SCALAR_ENCODING_U32,
    np.dtype("u8"): types_pb2.SCALAR_ENCODING_U64,
    np.dtype("i1"): types_pb2.SCALAR_ENCODING_I8,
    np.dtype("i2"): types_pb2.SCALAR_ENCODING_I16,
    np.dtype("i4"): types_pb2.SCALAR_ENCODING_I32,
    np.dtype("i8"): types_pb2.SCALAR_ENCODING_I64,
}
_PAIRS = {
    np.dtype("u8"): types_pb2.SCALAR_ENCODING_U128,
    np.dtype("i8"): types_pb2.SCALAR_ENCODING_I128,
}
_DTYPES = {encoding: dtype for dtype, encoding in _INTEGERS.items()} | {
    encoding: dtype for dtype, encoding in _PAIRS.items()
}
GROUPS = {"g1": types_pb2.GROUP_G1, "g2": types_pb2.GROUP_G2}
_COMPRESSED_BYTES = {"g1": 48, "g2": 96}
POINT_ENCODINGS = {
    "compressed": types_pb2.POINT_ENCODING_COMPRESSED,
    "uncompressed": types_pb2.POINT_ENCODING_UNCOMPRESSED,
    "montgomery": types_pb2.POINT_ENCODING_MONTGOMERY,
}
SUM_ENCODINGS = {
    "compressed": types_pb2.RESULT_ENCODING_COMPRESSED,
    "uncompressed": types_pb2.RESULT_ENCODING_UNCOMPRESSED,
}

ScalarsLike = np.ndarray | bytes | bytearray | memoryview | Sequence[int]
PointBytes = bytes | bytearray | memoryview
PointsLike = np.ndarray | bytes | bytearray | memoryview | Sequence[bytes]


@dataclass(frozen=True)
class Payload:
    """Elements as they are sent. The representation does not show them."""

    # A value of ScalarEncoding or PointEncoding, or 0 for a matrix.
    encoding: int
    data: np.ndarray = field(repr=False)
    count: int


@dataclass(frozen=True)
class EncodedScalars(Payload):
    """Scalars as they are sent."""

    # The leading dimension of an array of shape (k, n, 32) or (k, n, 4).
    rows: int | None = None
    dtype: np.dtype = field(default=np.dtype("u1"), repr=False)

    @property
    def width(self) -> int:
        """Bytes of each element."""
        return scalar_width(self.encoding)


def scalars(values: Sequence[int]) -> np.ndarray:
    """Encode integers from 0 to r - 1 as an array of shape (n, 32), canonical little-endian.

    Raises InvalidInput if an integer is out of range.
    """
    return _from_integers("values", values)


def integers(array: np.ndarray) -> list[int]:
    """Decode canonical elements of Fr, of shape (..., 32) uint8 or (..., 4) uint64.

    Raises InvalidInput for any other shape.
    """
    encoded = encode_scalars("array", array, montgomery=False)
    if encoded.encoding != CANONICAL:
        raise errors.invalid("array", "expected elements of 32 bytes")
    data = encoded.data.tobytes()
    starts = range(0, len(data), FR_BYTES)
    return [int.from_bytes(data[start : start + FR_BYTES], "little") for start in starts]


def encode_scalars(name: str, values: ScalarsLike, *, montgomery: bool) -> EncodedScalars:
    """Choose the encoding from the type and the shape. `name` is the argument's name in errors."""
    if isinstance(values, bytes | bytearray | memoryview):
        values = _from_bytes(name, values)
        if len(values) % FR_BYTES:
            raise errors.invalid(name, "the length is not a multiple of 32 bytes")
        values = values.reshape(-1, FR_BYTES)
    elif not isinstance(values, np.ndarray):
        values = _from_integers(name, values)
    dtype = values.dtype.newbyteorder("<")
    if values.ndim == 0:
        raise errors.invalid(name, "an array without dimensions has no elements")
    if dtype not in _INTEGERS:
        raise errors.invalid(name, f"dtype {values.dtype} is not an integer type")
    array = np.ascontiguousarray(values, dtype=dtype)
    data = array.reshape(-1).view("u1")
    is_element = array.ndim >= 2 and dtype.kind == "u" and array.shape[-1] * dtype.itemsize == 32
    if is_element and dtype.itemsize in (1, 8) and array.ndim <= 3:
        encoding = MONTGOMERY if montgomery else CANONICAL
        rows = array.shape[0] if array.ndim == 3 else None
        return EncodedScalars(encoding, data, data.size // FR_BYTES, rows, dtype)
    if montgomery:
        raise errors.invalid(name, "Montgomery form needs the shape (n, 32) uint8 or (n, 4) uint64")
    if array.ndim == 2 and dtype in _PAIRS and array.shape[1] == 2:
        return EncodedScalars(_PAIRS[dtype], data, array.shape[0], dtype=dtype)
    if array.ndim == 1:
        return EncodedScalars(_INTEGERS[dtype], data, array.size, dtype=dtype)
    raise errors.invalid(name, f"no encoding has the shape {array.shape} of {dtype}")


def empty_scalars(encoding: int, count: int) -> np.ndarray:
    """Return an array for `count` elements of a vector of the server."""
    dtype = _DTYPES.get(encoding, np.dtype("u1"))
    columns = scalar_width(encoding) // dtype.itemsize
    return np.empty((count, columns) if columns > 1 else count, dtype=dtype)


def scalar_width(encoding: int) -> int:
    """Return the bytes of each element of a ScalarEncoding."""
    if encoding in (CANONICAL, MONTGOMERY):
        return FR_BYTES
    return _DTYPES[encoding].itemsize * (2 if encoding in _PAIRS.values() else 1)


def encode_element(name: str, value: int | bytes, *, index: int | None = None) -> bytes:
    """Encode one element of Fr: an integer, or 32 canonical bytes, little-endian.

    `index` is that of the element in a list, for errors.
    """
    if isinstance(value, bytes):
        if len(value) != FR_BYTES:
            raise errors.invalid(name, "expected 32 bytes", index=index)
        return value
    return _number(name, value, index).to_bytes(FR_BYTES, "little")


def to_montgomery(values: Sequence[int]) -> np.ndarray:
    """Encode integers from 0 to r - 1 in Montgomery form, as an array of shape (n, 32).

    Raises InvalidInput if an integer is out of range.
    """
    numbers = _numbers("values", values)
    return _from_numbers(number * _MONTGOMERY % FR_MODULUS for number in numbers)


def from_montgomery(value: int) -> int:
    """Return the integer whose Montgomery form is `value`."""
    return value * pow(_MONTGOMERY, -1, FR_MODULUS) % FR_MODULUS


def encode_points(name: str, points: PointsLike, *, group: str, encoding: str | None) -> Payload:
    """Encode points; an array or a sequence shows by its width whether they are compressed."""
    compressed = _COMPRESSED_BYTES[group]
    if isinstance(points, np.ndarray):
        array = np.ascontiguousarray(points)
        width = array.shape[-1] if array.ndim == 2 else compressed
        if array.dtype != np.uint8 or points.ndim not in (1, 2):
            raise errors.invalid(name, "expected an array of uint8 of one or two dimensions")
        data = array.reshape(-1)
    elif isinstance(points, bytes | bytearray | memoryview):
        data = _from_bytes(name, points)
        width = 2 * compressed if encoding in ("uncompressed", "montgomery") else compressed
    else:
        points = check(name, points, Sequence[PointBytes])
        encoded = [bytes(point) for point in points]
        width = len(encoded[0]) if encoded else compressed
        for index, point in enumerate(encoded):
            if len(point) != width:
                raise errors.invalid(name, f"expected {width} bytes", index=index)
        data = np.frombuffer(b"".join(encoded), dtype="u1")
    if encoding is None:
        encoding = "compressed" if width == compressed else "uncompressed"
    expected = compressed if encoding == "compressed" else 2 * compressed
    if isinstance(points, np.ndarray) and points.ndim == 1:
        width = expected
    if width != expected or data.size % width:
        raise errors.invalid(name, f"{encoding} points of {group} have {expected} bytes each")
    return Payload(POINT_ENCODINGS[encoding], data, data.size // width)


def group_name(number: int) -> str:
    """Return `g1` or `g2`."""
    return next(name for name, value in GROUPS.items() if value == number)


def point_width(group: str, encoding: str) -> int:
    """Return the bytes of each point."""
    return _COMPRESSED_BYTES[group] * (1 if encoding == "compressed" else 2)


def _from_bytes(name: str, values: bytes | bytearray | memoryview) -> np.ndarray:
    try:
        return np.frombuffer(values, dtype="u1")
    except (BufferError, ValueError):
        raise errors.invalid(name, "expected contiguous bytes") from None


def _from_integers(name: str, values: Sequence[int]) -> np.ndarray:
    return _from_numbers(_numbers(name, values))


def _from_numbers(numbers: Iterable[int]) -> np.ndarray:
    # Arrays of a bytearray can be written.
    data = bytearray()
    for number in numbers:
        data += number.to_bytes(FR_BYTES, "little")
    return np.frombuffer(data, dtype="u1").reshape(-1, FR_BYTES)


def _numbers(name: str, values: Sequence[int]) -> Iterator[int]:
    """Check the integers one after the other."""
    for index, value in enumerate(check(name, values, Sequence[int])):
        yield _number(name, value, index)


def _number(name: str, value: int, index: int | None) -> int:
    try:
        number = -1 if isinstance(value, np.ndarray) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number < FR_MODULUS:
        problem = "not an integer from 0 to r - 1"
        raise errors.invalid(name, problem, index=index, reason="NOT_CANONICAL")
    return number
