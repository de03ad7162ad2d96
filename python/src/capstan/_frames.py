"""Messages that are mostly payload, which protobuf would copy several times.

The encoding is that of protobuf. Messages in another form than that of Capstan's servers are left
to protobuf.
"""

from dataclasses import dataclass, field

import numpy as np

_LENGTH_DELIMITED = 2
_OFFSET_TAG = 0x08
_DATA_TAG = 0x12


@dataclass(frozen=True)
class PayloadChunk:
    """Bytes of a payload from `offset` on; of a run, of the input or output `number`."""

    offset: int
    data: np.ndarray | memoryview | bytes = field(repr=False)
    number: int | None = None


def encode_chunk(field_number: int, chunk: PayloadChunk) -> bytes:
    """Encode a message whose field `field_number` is a Chunk, or a RunInputChunk if numbered."""
    offset = bytes((_OFFSET_TAG,)) + _varint(chunk.offset) if chunk.offset else b""
    head = offset + bytes((_DATA_TAG,)) + _varint(len(chunk.data))
    length = len(head) + len(chunk.data)
    if chunk.number is not None:
        # RunInputChunk: the index of the input, then the chunk in field 2, like data in a Chunk.
        number = bytes((_OFFSET_TAG,)) + _varint(chunk.number) if chunk.number else b""
        head = number + bytes((_DATA_TAG,)) + _varint(length) + head
        length = len(head) + len(chunk.data)
    tag = bytes((field_number << 3 | _LENGTH_DELIMITED,))
    return b"".join((tag, _varint(length), head, chunk.data))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class ChunkReader:
    """Reads a message from its start; raises IndexError or ValueError for an unusual one."""

    def __init__(self, data: bytes):
        self._data = data
        self._at = 0

    def enter(self, tag: int) -> None:
        """Read the tag and the length of a message that extends to the end."""
        if self._data[self._at] != tag:
            raise ValueError
        self._at += 1
        if self._varint() != len(self._data) - self._at:
            raise ValueError

    def number(self) -> int:
        """Read field 1, an integer, which is absent if it is 0."""
        if self._data[self._at] != _OFFSET_TAG:
            return 0
        self._at += 1
        return self._varint()

    def rest(self) -> memoryview:
        """Return the bytes that were not read."""
        return memoryview(self._data)[self._at :]

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def decode_chunk(data: bytes, *, is_numbered: bool) -> PayloadChunk | None:
    """Decode a response whose field 1 is a Chunk, or a RunOutputChunk if numbered.

    None for other responses, which protobuf decodes.
    """
    reader = ChunkReader(data)
    try:
        reader.enter(1 << 3 | _LENGTH_DELIMITED)
        number = None
        if is_numbered:
            number = reader.number()
            reader.enter(_DATA_TAG)
        offset = reader.number()
        reader.enter(_DATA_TAG)
    except (IndexError, ValueError):
        return None
    return PayloadChunk(offset, reader.rest(), number)
