import numpy as np
import oracle
import pytest
from blake3 import blake3

import capstan
from capstan import _store
from capstan._session import Session
from capstan.v1 import admin_pb2, store_pb2


def test_bases_are_named_by_their_content(plain, bases, points):
    again = plain.put_bases(
        b"".join(oracle.uncompressed(p) for p in points), encoding="uncompressed"
    )
    assert again.id == bases.id
    assert plain.find(bases.id) == bases
    assert bases in plain.list().bases
    assert [row.tobytes() for row in plain.get_bases(bases[2:4])] == [
        oracle.compressed(point) for point in points[2:4]
    ]


def test_points_in_montgomery_form_are_accepted(plain, bases):
    montgomery = plain.get_bases(bases, encoding="montgomery")
    assert plain.put_bases(montgomery, encoding="montgomery").id == bases.id


def test_large_bases_are_sent_in_several_messages(plain, many_bases, many_points):
    assert len(many_bases) == len(many_points)
    assert (plain.get_bases(many_bases, encoding="uncompressed") == many_points).all()


def test_progress_reaches_the_total(client, many_scalars):
    calls = []
    client.put_vector(many_scalars, progress=lambda sent, total: calls.append((sent, total)))
    total = many_scalars.nbytes
    assert calls[-1] == (total, total)
    assert [sent for sent, _ in calls] == sorted({sent for sent, _ in calls})
    assert len(calls) > 1


def test_progress_of_a_transform_counts_both_directions(client, many_scalars):
    for _ in range(3):
        calls = []
        client.ntt(many_scalars, progress=lambda *call, calls=calls: calls.append(call))
        assert calls[-1] == (2 * many_scalars.nbytes, 2 * many_scalars.nbytes)
        assert [sent for sent, _ in calls] == sorted(sent for sent, _ in calls)


def test_an_error_of_the_progress_callback_reaches_the_caller(client, many_scalars):
    def fail(sent, total):
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            client.ntt(many_scalars, progress=fail)


def test_vectors_keep_their_encoding(plain):
    for values in (
        np.arange(5, dtype=np.int16),
        np.arange(6, dtype=np.uint64).reshape(3, 2),
        capstan.scalars(oracle.random_scalars(4, seed=1)),
    ):
        vector = plain.put_vector(values)
        assert (plain.get_vector(vector) == values).all()
        assert (plain.get_vector(vector[1:3]) == values[1:3]).all()
        plain.release(vector)


def test_released_bases_are_unknown(plain):
    bases = plain.put_bases([oracle.compressed(oracle.points([99])[0])])
    plain.release(bases)
    with pytest.raises(capstan.NotFound) as unknown:
        plain.msm(bases, [1])
    assert unknown.value.reason == "OBJECT_UNKNOWN"


def test_bases_are_neither_warmed_nor_pinned_without_gpus(plain):
    bases = plain.put_bases([oracle.compressed(oracle.points([98])[0])])
    for action in ("warm", "pin", "unpin", "evict"):
        assert plain.set_residency(bases, action) == []
    with pytest.raises(capstan.InvalidInput):
        plain.set_residency(bases, "keep")
    with pytest.raises(capstan.InvalidInput) as unknown:
        plain.set_residency(bases, "pin", [0])
    assert unknown.value.index == 0
    assert next(held for held in plain.list().bases if held.id == bases.id).residency == []


def test_representations_hide_ids_of_vectors_and_elements(plain):
    vector = plain.put_vector([12345])
    assert vector.id.hex() not in repr(vector)
    assert repr(vector.id) not in repr(vector)
    assert "array" not in repr(plain.ntt([12345, 0]))
    program = capstan.Program()
    value = program.input(1)
    assert "array" not in repr(plain.run(program, {value: [12345]}, [value]))
    plain.release(vector)


def test_a_list_has_the_objects_of_all_pages():
    def page(request):
        number = request.page_token[0] if request.page_token else 0
        following = b"" if number == 2 else bytes([number + 1])
        return store_pb2.ListResponse(
            bases=[store_pb2.Bases(object_id=bytes([number] * 32), group="GROUP_G1")],
            next_page_token=following,
            unknown_devices=[7] if number == 1 else [],
        )

    listed = answered(_store.list_objects(OFFLINE), page)
    assert [bases.id[0] for bases in listed.bases] == [0, 1, 2]
    assert [bases.unknown_devices for bases in listed.bases] == [[], [7], []]
    endless = store_pb2.ListResponse(next_page_token=b"again")
    with pytest.raises(capstan.InvalidResponse):
        answered(_store.list_objects(OFFLINE), lambda _: endless)


def test_the_id_of_other_content_is_refused():
    def server(answered_id, count=2):
        bases = store_pb2.Bases(object_id=answered_id, group="GROUP_G1", count=count)
        put = store_pb2.PutResponse(object=store_pb2.Object(bases=bases))
        limits = admin_pb2.Limits(message_payload_bytes=1 << 20)
        info = admin_pb2.GetInfoResponse(limits=limits)
        return lambda request: info if isinstance(request, admin_pb2.GetInfoRequest) else put

    montgomery = np.zeros((2, 96), "u1")
    own_id = blake3(montgomery.tobytes(), derive_key_context="capstan v1 bases g1").digest()

    def put(points, encoding, answer):
        session = Session("http://127.0.0.1:1", timeout=None, retries=0, shared_memory=False)
        return answered(_store.put_bases(session, points, encoding=encoding), answer)

    assert put(montgomery, "montgomery", server(own_id)).id == own_id
    with pytest.raises(capstan.InvalidResponse):
        put(montgomery, "montgomery", server(bytes(32)))
    # Of compressed points, only the number can be compared.
    assert put(np.zeros((2, 48), "u1"), "compressed", server(own_id)).id == own_id
    with pytest.raises(capstan.InvalidResponse):
        put(np.zeros((2, 48), "u1"), "compressed", server(own_id, count=3))
    other = store_pb2.StatResponse(object=store_pb2.Object(matrix=store_pb2.Matrix(rows=1)))
    with pytest.raises(capstan.InvalidResponse):
        answered(_store.find(OFFLINE, own_id), lambda _: other)


OFFLINE = Session("http://127.0.0.1:1", timeout=None, retries=0, shared_memory=False)


def answered(call, answer):
    """Run a call without a server: `answer` makes the response to each request."""
    step = next(call)
    try:
        while True:
            step = call.send(answer(step.request))
    except StopIteration as stop:
        return stop.value
