import copy
import pickle

import grpc
import numpy as np
import oracle
import pytest
from google.rpc import error_details_pb2, status_pb2

import capstan
from capstan import errors


def refused(call, *arguments, **options):
    with pytest.raises(capstan.CapstanError) as caught:
        call(*arguments, **options)
    return caught.value


def test_a_bad_scalar_is_named_by_field_and_index(client, bases):
    elements = capstan.scalars([1] * 16)
    elements[5] = 0xFF
    error = refused(client.msm, bases, elements)
    assert isinstance(error, capstan.InvalidInput)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT
    assert (error.reason, error.index) == ("NOT_CANONICAL", 5)
    assert error.field.endswith("scalars") or "scalars" in error.field
    assert error.request_id
    assert "NOT_CANONICAL" in str(error)
    assert client.msm(bases, elements, reduce=True).points


def test_a_bad_scalar_of_a_large_payload_is_named(client, many_bases, many_scalars):
    elements = many_scalars.copy()
    elements[20_000] = 0xFF
    for _ in range(3):
        error = refused(client.ntt, elements)
        assert (error.reason, error.index) == ("NOT_CANONICAL", 20_000)


def test_a_bad_point_is_named_by_field_and_index(client, points):
    good = oracle.compressed(points[0])
    outside_curve = b"\x80" + bytes(46) + b"\x01"
    error = refused(client.put_bases, [good, good, outside_curve])
    assert isinstance(error, capstan.InvalidInput)
    assert error.index == 2
    assert error.reason in ("NOT_ON_CURVE", "NOT_IN_SUBGROUP")


def test_the_client_checks_lengths_before_it_sends(plain, bases):
    error = refused(plain.msm, bases, [1] * 15)
    assert isinstance(error, capstan.InvalidInput)
    assert (error.reason, error.field) == ("LENGTH_MISMATCH", "scalars")
    assert error.request_id is None
    for values in (np.zeros((16, 3), np.uint8), np.zeros(16), bytes(31)):
        assert refused(plain.msm, bases, values).field == "scalars"
    for wrong in (capstan.FR_MODULUS, -1, 1.5, "1", None):
        error = refused(plain.msm, bases, [0] * 15 + [wrong])
        assert (error.reason, error.index) == ("NOT_CANONICAL", 15)
    error = refused(plain.msm, bases, [0] * 15 + [capstan.FR_MODULUS])
    assert str(capstan.FR_MODULUS) not in str(error)


def test_errors_are_copied_and_pickled_with_their_attributes(client, bases):
    elements = capstan.scalars([1] * 16)
    elements[5] = 0xFF
    error = refused(client.msm, bases, elements)
    for other in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is type(error)
        assert (str(other), other.__dict__) == (str(error), error.__dict__)
    assert isinstance(pickle.loads(pickle.dumps(errors.timed_out())), TimeoutError)


@pytest.mark.parametrize(("sent", "kept"), [(-(1 << 60), 0), (7, 7), ((1 << 63) - 1, 1e9)])
def test_a_retry_delay_of_any_length_can_be_waited_for(sent, kept):
    class Refused:
        def trailing_metadata(self):
            status = status_pb2.Status()
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.seconds = sent
            status.details.add().Pack(retry)
            return [("grpc-status-details-bin", status.SerializeToString())]

        def code(self):
            return grpc.StatusCode.RESOURCE_EXHAUSTED

        def details(self):
            return "full"

    assert errors.from_rpc(Refused()).retry_after == kept


WRONG_INTEGERS = (-1, 2.5, "1", True, 1 << 32, 1 << 64)


@pytest.mark.parametrize("wrong", WRONG_INTEGERS)
def test_numbers_are_checked_before_anything_is_sent(plain, points, wrong):
    point = [oracle.compressed(points[0])]
    assert refused(plain.ntt, [1, 2], lg_n=wrong).field == "lg_n"
    assert refused(plain.ntt, [1, 2], batch=wrong).field == "batch"
    assert refused(plain.msm, point, [1], batch=wrong).field == "batch"
    assert refused(plain.put_matrix, [{0: 1}], wrong).field == "columns"
    error = refused(plain.put_matrix, [{0: 1}, {wrong: 1}], 2)
    assert (error.field, error.index) == ("rows", 1)
    assert refused(capstan.Client, plain._session.target, retries=wrong).field == "retries"
    program = capstan.Program()
    value = program.input(4)
    assert refused(program.ntt, value, lg_n=wrong).field == "lg_n"
    assert refused(program.divide_by_vanishing, value, wrong, 7).field == "lg_n"
    assert refused(program.input, 4, rows=wrong).field == "rows"
    if wrong != 1 << 32:
        assert refused(program.input, wrong).field == "length"
        assert refused(program.pad, value, wrong).field == "length"
        assert refused(program.slice, value, wrong, 1).field == "offset"


def test_coefficients_and_sizes_outside_their_range_are_refused(plain):
    for wrong in (-1, capstan.FR_MODULUS, 0.5, None):
        assert refused(plain.put_matrix, [{0: wrong}], 1).field == "rows"
    assert refused(plain.ntt, [1, 2], batch=0).field == "batch"
    # More than the server can send, for which no memory is allocated.
    most = plain.info().message.limits.connection_bytes_in_flight
    largest = (most // 32).bit_length()
    for lg_n in (largest, 33):
        assert refused(plain.ntt, [1, 2], lg_n=lg_n).field == "lg_n"
    rows = np.zeros((1 << 10, 32), np.uint8)
    assert refused(plain.ntt, rows, batch=1 << 10, lg_n=largest - 2).field == "lg_n"
    program = capstan.Program()
    value = program.input(4)
    padded = program.pad(value, 1 << 40)
    assert refused(plain.run, program, {value: [1, 2, 3, 4]}, [padded]).field == "outputs"
    for wrong in (-1, float("nan"), "5"):
        assert refused(plain.ntt, [1, 2], timeout=wrong).field == "timeout"
    for option in ("reduce", "montgomery", "keep"):
        assert refused(plain.ntt, [1, 2], **{option: "no"}).field == option


def test_unknown_words_are_refused(plain, bases):
    for option in ("group", "encoding", "verify"):
        points = [oracle.INFINITIES["g1"]]
        assert refused(plain.msm, points, [1], **{option: "other"}).field == option
    for option in ("direction", "input_order", "output_order"):
        assert refused(plain.ntt, [1, 2], **{option: "other"}).field == option


def test_a_row_without_a_power_of_two_needs_a_size(plain):
    assert refused(plain.ntt, [1, 2, 3]).field == "values"
    error = refused(plain.ntt, [1, 2, 3], lg_n=1)
    assert isinstance(error, capstan.InvalidInput)
    assert error.field is not None


def test_too_many_points_for_one_message_must_be_put_first(plain, many_points, many_scalars):
    scalars = many_scalars[: len(many_points)]
    assert refused(plain.msm, many_points, scalars).field == "bases"


def test_a_failed_step_is_named_by_its_path(plain):
    program = capstan.Program()
    value = program.input(4)
    divided = program.divide_by_vanishing(value, lg_n=2, coset=1)
    error = refused(plain.run, program, {value: [1, 2, 3, 4]}, [divided])
    assert isinstance(error, capstan.InvalidInput)
    assert error.field.startswith("program.steps[1].divide_by_vanishing")


def test_a_persisted_object_needs_a_data_directory(plain, points):
    error = refused(plain.put_bases, [oracle.compressed(points[1])], persist=True)
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    assert error.reason == "NO_DATA_DIR"
