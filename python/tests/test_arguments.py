"""Arguments are checked before anything is allocated or sent: no server is needed."""

import numpy as np
import oracle
import pytest

import capstan
from capstan.results import Bases, Vector

BASES = Bases(bytes(32), "g1", 0, 2, 2, 0, False, "", 0, [], [])
MATRIX = capstan.Matrix(bytes(32), 2, 2, 1, False, "")
VECTOR = Vector(bytes(16), capstan.encodings.CANONICAL, 0, 2)
WRONG_HANDLES = (None, 5, "bases", b"bases", {}, object())
# Elements of strings, sets, mappings and iterators are not those that the caller means.
WRONG_SEQUENCES = (5, "12", {1, 2}, {1: 2}, iter([1, 2]), np.array(7), object())
WRONG_PATHS = (None, 5, ["path"], "/nonexistent/file", "nul\0byte")


@pytest.fixture(scope="module")
def client():
    """A client that has not connected."""
    with capstan.Client("http://127.0.0.1:1") as opened:
        yield opened


def refused(call, *arguments, **options):
    with pytest.raises(capstan.InvalidInput) as caught:
        call(*arguments, **options)
    assert caught.value.request_id is None
    return caught.value


@pytest.mark.parametrize(
    "target",
    [
        None,
        b"http://127.0.0.1:1",
        "",
        "host:1",
        "ftp://host:1",
        "http://",
        "http://:80",
        "http://host:x",
        "http://host:65536",
        "http://host:0",
        "http://[::1",
        "http://ho st:1",
        "http://host:1/path",
        "http://host:1?query",
        "http://user@host:1",
        "unix:",
        "unix:/nul\0byte",
        "unix:/" + "x" * 107,
        "http://\ud800:1",
    ],
)
def test_a_target_that_cannot_be_one_is_refused(target):
    assert refused(capstan.Client, target).field == "target"


@pytest.mark.parametrize("target", ["http://[::1]:1", "https://host/", "unix:///x y", "unix:x"])
def test_targets_of_each_kind_are_accepted(target):
    capstan.Client(target).close()


@pytest.mark.parametrize("option", ["ca_certificate", "tls_cert", "tls_key"])
def test_files_of_certificates_and_keys_are_checked(option, tmp_path):
    pem = {
        "tls_cert": b"-----BEGIN CERTIFICATE-----\n",
        "tls_key": b"-----BEGIN PRIVATE KEY-----\n",
    }

    def with_value(value):
        others = {} if option == "ca_certificate" else pem
        return refused(capstan.Client, "https://host", **{**others, option: value})

    for wrong in (*WRONG_PATHS[1:], b"", b"text", tmp_path):
        error = with_value(wrong)
        assert error.field == option, wrong
    assert "/nonexistent/file" in str(with_value("/nonexistent/file"))
    secret = "-----BEGIN PRIVATE KEY-----\nsesame"
    assert "sesame" not in str(with_value(secret))
    if option != "ca_certificate":
        assert refused(capstan.Client, "https://host", **{option: pem[option]}).field == "tls_key"
    if option == "tls_key":
        encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
        assert "encrypted" in str(with_value(encrypted))


def test_files_with_a_byte_order_mark_are_read(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(b"\xef\xbb\xbf-----BEGIN CERTIFICATE-----\n")
    capstan.Client("https://host", ca_certificate=file).close()


@pytest.mark.parametrize("wrong", WRONG_HANDLES)
def test_handles_of_another_type_are_refused(client, wrong):
    program = capstan.Program()
    value = program.input(2)
    for call, name, arguments in (
        (client.get_bases, "bases", {}),
        (client.get_vector, "vector", {}),
        (client.release, "held", {}),
        (client.set_residency, "bases", {"action": "warm"}),
        (client.kzg_commit, "key", {"polynomials": [[1]]}),
        (client.kzg_open, "key", {"polynomial": [1], "point": 1}),
        (client.groth16_prove, "key", {"assignment": [1]}),
        (client.run, "program", {"inputs": {}, "outputs": []}),
        (program.invert, "a", {}),
        (program.ntt, "vector", {}),
        (program.evaluate, "vector", {"point": 1}),
        (program.prefix_product, "vector", {}),
        (program.divide_by_linear, "vector", {"point": 1}),
    ):
        error = refused(call, **{name: wrong}, **arguments)
        assert (error.field, error.index) == (name, None)
    for method in (program.add, program.subtract, program.multiply):
        assert refused(method, value, wrong).field == "b"
    for method in (program.multiply_add, program.multiply_subtract):
        assert refused(method, value, value, wrong).field == "c"
    assert refused(program.msm, value, wrong).field == "bases"
    assert refused(program.sparse_product, wrong, value).field == "matrix"
    error = refused(program.concat, [value, wrong])
    assert (error.field, error.index) == ("vectors", 1)
    assert len(program.message.steps) == 1


@pytest.mark.parametrize("wrong", WRONG_SEQUENCES)
def test_arguments_that_are_not_sequences_are_refused(client, wrong):
    program = capstan.Program()
    value = program.input(2)
    assert refused(client.msm, BASES, wrong).field == "scalars"
    assert refused(client.msm, wrong, [1, 2]).field == "bases"
    assert refused(client.ntt, wrong).field == "values"
    assert refused(client.put_vector, wrong).field == "values"
    assert refused(client.put_bases, wrong).field == "points"
    assert refused(client.put_matrix, wrong, 2).field == "rows"
    assert refused(client.set_residency, BASES, "warm", wrong).field == "devices"
    assert refused(client.kzg_commit, BASES, wrong).field == "polynomials"
    assert refused(client.run, program, {value: [1, 2]}, wrong).field == "outputs"
    assert refused(client.run, program, {value: [1, 2]}, [], keep=wrong).field == "keep"
    assert refused(program.constant, wrong).field == "elements"
    assert refused(program.concat, wrong).field == "vectors"
    assert refused(program.linear_combination, [value], wrong).field == "factors"
    assert refused(capstan.scalars, wrong).field == "values"
    assert refused(capstan.to_montgomery, wrong).field == "values"


def test_bytes_are_sequences_of_encoded_elements_only(client):
    program = capstan.Program()
    for wrong in (bytes(32), bytearray(32), memoryview(bytes(32))):
        assert refused(program.constant, wrong).field == "elements"
        assert refused(client.set_residency, BASES, "warm", wrong).field == "devices"
    apart = memoryview(bytes(64))[::2]
    assert refused(client.put_vector, apart).field == "values"
    assert refused(client.put_bases, apart).field == "points"
    point = oracle.INFINITIES["g1"]
    for index, points in ((1, [point, 5]), (0, [[1, 2]]), (1, [point, point[:47]])):
        error = refused(client.put_bases, points)
        assert (error.field, error.index) == ("points", index)


def test_empty_lists_mappings_and_elements_are_checked(client):
    program = capstan.Program()
    value = program.input(2)
    assert refused(program.concat, []).field == "vectors"
    assert refused(program.linear_combination, [], []).field == "vectors"
    for wrong in (capstan.FR_MODULUS, bytes(31), np.array(1)):
        error = refused(program.linear_combination, [value, value], [1, wrong])
        assert (error.field, error.index) == ("factors", 1)
    error = refused(program.evaluate, value, bytes(31))
    assert (error.field, error.index) == ("point", None)
    assert refused(program.evaluate, value, -1).index is None
    assert refused(program.powers, 1.5, 2).field == "base"
    assert refused(program.powers, 1, 2, first=-1).field == "first"
    assert refused(client.run, program, [value], []).field == "inputs"
    error = refused(client.put_matrix, [{0: 1}, [1]], 2)
    assert (error.field, error.index) == ("rows", 1)
    for wrong in (-1, capstan.FR_MODULUS, "1", 1.5):
        error = refused(capstan.to_montgomery, [1, wrong])
        assert (error.field, error.index, error.reason) == ("values", 1, "NOT_CANONICAL")
    assert capstan.to_montgomery([1]).shape == (1, 32)


def test_callbacks_outputs_paths_and_texts_are_checked(client):
    for progress in (5, "print", [print]):
        assert refused(client.ntt, [1, 2], progress=progress).field == "progress"
        assert refused(client.put_vector, [1], progress=progress).field == "progress"
    for out in (5, [0], bytearray(64)):
        assert refused(client.ntt, [1, 2], out=out).field == "out"
    for path in WRONG_PATHS:
        assert refused(client.groth16_key, path).field == "path"
        assert refused(capstan.read_wtns, path).field == "path"
    assert refused(client.put_bases, [oracle.INFINITIES["g1"]], label="\ud800").field == "label"
    assert refused(client.find, "id").field == "object_id"
    for option in ("token", "domain_name", "affinity"):
        assert refused(capstan.Client, "https://host", **{option: 5}).field == option


def test_values_of_numpy_are_converted():
    program = capstan.Program()
    value = program.input(np.uint8(2), rows=np.int64(1))
    assert (type(value.length), type(value.rows)) == (int, int)
    program.constant(np.array([1, 2]))
    program.linear_combination([value, value], np.array([1, 2], dtype="u8"))
    program.evaluate(value, np.int32(3))
