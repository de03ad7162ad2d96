import numpy as np
import oracle
import pytest

import capstan


@pytest.mark.parametrize("lg_n", [0, 1, 3, 5])
def test_transforms_follow_the_definition(client, lg_n):
    values = oracle.random_scalars(1 << lg_n, seed=lg_n)
    forward = client.ntt(values).values
    assert capstan.integers(forward) == oracle.ntt(values)
    assert capstan.integers(client.ntt(forward, direction="inverse").values) == values


def test_cosets_and_orders_follow_the_definition(client):
    values = oracle.random_scalars(16, seed=1)
    expected = oracle.ntt(values, coset=7)
    shifted = client.ntt(values, coset=7, output_order="bit-reversed").values
    assert capstan.integers(shifted) == oracle.bit_reversed(expected)
    back = client.ntt(shifted, direction="inverse", coset=7, input_order="bit-reversed").values
    assert capstan.integers(back) == values


def test_rows_are_padded_and_batched(client):
    rows = [oracle.random_scalars(3, seed=2), [0, 0, 0]]
    elements = capstan.scalars(rows[0] + rows[1]).reshape(2, 3, 32)
    result = client.ntt(elements, lg_n=3).values
    assert result.shape == (2, 8, 32)
    assert capstan.integers(result[0]) == oracle.ntt([*rows[0], 0, 0, 0, 0, 0])
    assert not result[1].any()


def test_large_rows_return_in_any_way(client, many_scalars):
    expected = None
    for _ in range(3):
        forward = client.ntt(many_scalars, verify="probabilistic")
        assert forward.execution.verified == "probabilistic"
        expected = forward.values if expected is None else expected
        assert (forward.values == expected).all()
    first_powers = capstan.integers(many_scalars.view(np.uint64))
    assert capstan.integers(expected[:1]) == [sum(first_powers) % capstan.FR_MODULUS]
    in_place = expected.copy()
    result = client.ntt(in_place, direction="inverse", out=in_place)
    assert result.values is in_place
    assert (in_place == many_scalars).all()


def test_the_result_has_the_type_of_the_input(plain):
    values = oracle.random_scalars(4, seed=3)
    elements = capstan.scalars(values)
    limbs = plain.ntt(elements.view(np.uint64)).values
    assert limbs.dtype == np.uint64
    assert limbs.shape == (4, 4)
    assert (limbs.view(np.uint8) == plain.ntt(elements).values).all()
    montgomery = plain.ntt(capstan.to_montgomery(values), montgomery=True).values
    assert (montgomery == capstan.to_montgomery(oracle.ntt(values))).all()


def test_vectors_stay_on_the_server(client, many_scalars):
    vector = client.put_vector(many_scalars)
    kept = client.ntt(vector, keep=True)
    assert kept.values is None
    back = client.ntt(kept.vector, direction="inverse")
    assert (back.values == many_scalars).all()
    small = client.ntt(vector[:8]).values
    assert capstan.integers(small) == oracle.ntt(capstan.integers(many_scalars[:8]))
    for held in (vector, kept.vector):
        client.release(held)
        with pytest.raises(capstan.NotFound):
            client.get_vector(held)


def test_an_output_array_must_have_the_shape_of_the_result(plain):
    values = capstan.scalars([1, 2])
    for out in (np.empty((4, 32), np.uint8), np.empty((2, 4), np.uint64)):
        with pytest.raises(capstan.InvalidInput) as refused:
            plain.ntt(values, out=out)
        assert refused.value.field == "out"
