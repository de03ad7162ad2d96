import numpy as np
import pytest

from capstan import _calls
from capstan._frames import PayloadChunk
from capstan.v1 import compute_pb2, program_pb2, store_pb2, types_pb2

OFFSETS = [0, 1, 127, 128, 1 << 20, 1 << 40]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_chunks_are_encoded_like_protobuf_encodes_them(offset, size):
    data = bytes(range(256)) * 300
    chunk = types_pb2.Chunk(offset=offset, data=data[:size])
    payload = PayloadChunk(offset, np.frombuffer(data, np.uint8)[:size])
    for method, message in (
        (_calls.PUT, store_pb2.PutRequest(chunk=chunk)),
        (_calls.MSM_STREAM, compute_pb2.MsmStreamRequest(chunk=chunk)),
        (_calls.NTT_STREAM, compute_pb2.NttStreamRequest(chunk=chunk)),
    ):
        assert type(message).FromString(method.serialize(payload)) == message
    for number in (0, 1, 200):
        payload = PayloadChunk(offset, payload.data, number)
        numbered = program_pb2.RunInputChunk(input=number, chunk=chunk)
        message = program_pb2.RunRequest(chunk=numbered)
        assert program_pb2.RunRequest.FromString(_calls.RUN.serialize(payload)) == message


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000])
def test_chunks_are_decoded_like_protobuf_decodes_them(offset, size):
    chunk = types_pb2.Chunk(offset=offset, data=bytes(size))
    for method, message in (
        (_calls.GET, store_pb2.GetResponse(chunk=chunk)),
        (_calls.NTT_STREAM, compute_pb2.NttStreamResponse(chunk=chunk)),
    ):
        decoded = method.deserialize(message.SerializeToString())
        assert (decoded.offset, bytes(decoded.data)) == (offset, chunk.data)
    for number in (0, 1, 200):
        numbered = program_pb2.RunOutputChunk(output=number, chunk=chunk)
        message = program_pb2.RunResponse(chunk=numbered)
        decoded = _calls.RUN.deserialize(message.SerializeToString())
        assert (decoded.number, decoded.offset) == (number, offset)
        assert bytes(decoded.data) == chunk.data


def test_messages_in_another_form_are_left_to_protobuf():
    # Data before the offset, which protobuf allows.
    inner = b"\x12\x03abc" + b"\x08\x05"
    decoded = _calls.GET.deserialize(b"\x0a" + bytes([len(inner)]) + inner)
    assert (decoded.offset, bytes(decoded.data)) == (5, b"abc")
    result = compute_pb2.NttStreamResponse(result=compute_pb2.NttResult())
    assert _calls.NTT_STREAM.deserialize(result.SerializeToString()) == result
