import time

import numpy as np
import oracle
import pytest

import capstan


def test_random_scalars_give_the_sum_of_the_oracle(client, bases, points):
    scalars = oracle.random_scalars(16, seed=3)
    result = client.msm(bases, scalars)
    assert result.point == oracle.compressed(oracle.msm(points, scalars))
    assert result.execution.engine == "cpu"
    assert result.timing.total > 0


def test_large_scalars_travel_in_any_way_with_the_same_sum(
    client, many_bases, many_scalars, many_sums
):
    # The third call certainly finds the shared memory open.
    for _ in range(3):
        assert client.msm(many_bases, many_scalars, batch=4).points == many_sums


def test_large_payloads_use_shared_memory_over_the_unix_socket_only(
    client, daemon, many_bases, many_scalars
):
    for _ in range(3):
        client.msm(many_bases, many_scalars, batch=4)
    is_shared = client._session.target == daemon.unix_target and client._session.shared_memory
    deadline = time.monotonic() + 5
    # Regions of clients that were closed a moment ago may still count.
    while (client.info().message.load.region_bytes > 0) != is_shared:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64]
)
def test_the_dtype_chooses_the_encoding(plain, bases, logarithms, dtype):
    bounds = np.iinfo(dtype)
    scalars = np.random.default_rng(4).integers(
        bounds.min, bounds.max, 16, dtype=dtype, endpoint=True
    )
    scalars[:2] = bounds.min, bounds.max
    total = sum(int(s) * k for s, k in zip(scalars, logarithms, strict=True))
    expected = oracle.compressed(oracle.points([total % capstan.FR_MODULUS])[0])
    assert plain.msm(bases, scalars).point == expected
    assert plain.msm(bases, scalars.astype(scalars.dtype.newbyteorder(">"))).point == expected


def test_pairs_of_64_bits_are_integers_of_128_bits(plain, bases, logarithms):
    scalars = np.random.default_rng(5).integers(0, 2**64, (16, 2), dtype=np.uint64)
    scalars[0] = 2**64 - 1
    for pairs, top in ((scalars, scalars), (scalars.view(np.int64), scalars.view(np.int64))):
        values = [
            int(low) + (int(high) << 64) for low, high in zip(scalars[:, 0], top[:, 1], strict=True)
        ]
        total = sum(v * k for v, k in zip(values, logarithms, strict=True))
        expected = oracle.compressed(oracle.points([total % capstan.FR_MODULUS])[0])
        assert plain.msm(bases, pairs).point == expected


def test_limbs_bytes_and_montgomery_form_give_the_same_sum(plain, bases):
    values = oracle.random_scalars(16, seed=6)
    elements = capstan.scalars(values)
    expected = plain.msm(bases, values).point
    assert plain.msm(bases, elements).point == expected
    assert plain.msm(bases, elements.view(np.uint64)).point == expected
    assert plain.msm(bases, elements.tobytes()).point == expected
    assert plain.msm(bases, capstan.to_montgomery(values), montgomery=True).point == expected
    strided = np.repeat(elements, 2, axis=0)[::2]
    assert plain.msm(bases, strided).point == expected


def test_a_batch_has_one_sum_for_each_vector(client, bases, points):
    first, second = oracle.random_scalars(16, seed=7), [0] * 16
    both = capstan.scalars(first + second).reshape(2, 16, 32)
    expected = [oracle.compressed(oracle.msm(points, first)), oracle.INFINITIES["g1"]]
    assert client.msm(bases, both).points == expected
    assert client.msm(bases, both.reshape(32, 32), batch=2).points == expected
    narrow = np.arange(32, dtype=np.uint8)
    sums = client.msm(bases, narrow, batch=2).points
    assert sums[1] == client.msm(bases, narrow[16:]).point


def test_degenerate_inputs_give_infinity_or_the_point_itself(client, bases, points):
    infinity = oracle.INFINITIES["g1"]
    assert client.msm(bases, [0] * 16).point == infinity
    assert client.msm(bases[:0], []).point == infinity
    assert client.msm(bases[3:4], [1]).point == oracle.compressed(points[3])
    assert client.msm([], []).point == infinity
    minus_one = capstan.FR_MODULUS - 1
    twice = [oracle.compressed(points[0])] * 2
    assert client.msm(twice, [1, minus_one]).point == infinity
    assert client.msm([infinity, *twice], [5, 1, 0]).point == twice[0]


def test_points_of_g2_that_are_sent_with_the_call(client):
    scalars = oracle.random_scalars(2, seed=8)
    points = oracle.points([5, 7], "g2")
    encoded = [oracle.compressed(point, "g2") for point in points]
    expected = oracle.compressed(oracle.msm(points, scalars, "g2"), "g2")
    assert client.msm(encoded, scalars, group="g2").point == expected
    stored = client.put_bases(encoded, group="g2")
    assert stored.group == "g2"
    assert client.msm(stored, scalars, verify="full").point == expected


def test_slices_use_a_range_of_the_bases(plain, bases, points):
    scalars = oracle.random_scalars(5, seed=9)
    expected = oracle.compressed(oracle.msm(points[4:9], scalars))
    assert plain.msm(bases[4:9], scalars).point == expected
    assert plain.msm(bases[2:][2:7], scalars).point == expected


def test_a_vector_of_the_server_serves_several_calls(plain, bases, points):
    values = oracle.random_scalars(20, seed=10)
    vector = plain.put_vector(values)
    assert plain.msm(bases, vector[4:]).point == oracle.compressed(oracle.msm(points, values[4:]))
    assert plain.msm(bases[:3], vector[:3]).point == oracle.compressed(
        oracle.msm(points[:3], values[:3])
    )
    plain.release(vector)


def test_verified_results_say_so(plain, bases):
    scalars = oracle.random_scalars(16, seed=11)
    for verify in ("none", "full", "probabilistic"):
        assert plain.msm(bases, scalars, verify=verify).execution.verified == verify


def test_uncompressed_sums_hold_the_coordinates(plain, bases, points):
    scalars = oracle.random_scalars(16, seed=12)
    sums = plain.msm(bases, scalars, encoding="uncompressed")
    assert sums.point == oracle.uncompressed(oracle.msm(points, scalars))
