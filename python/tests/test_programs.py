import math

import ceremony
import ckzg
import numpy as np
import oracle
import pytest

import capstan

N = 16


def test_named_values_go_in_and_come_out(client, bases, points):
    f = oracle.random_scalars(N, seed=1)
    program = capstan.Program()
    coefficients = program.input(N, name="f")
    program.msm(coefficients, bases, name="commitment")
    program.evaluate(coefficients, 5, name="y")
    program.divide_by_linear(coefficients, 5, name="quotient")
    result = client.run(program, {"f": f}, ["y", "quotient", "commitment"])
    y = oracle.evaluate(f, 5)
    assert capstan.integers(result["y"]) == [y]
    assert result["commitment"] == [oracle.compressed(oracle.msm(points, f))]
    quotient = capstan.integers(result[program["quotient"]])
    for x in (1, 2, 3):
        left = oracle.evaluate(quotient, x) * (x - 5) + y
        assert left % capstan.FR_MODULUS == oracle.evaluate(f, x)
    assert [step.operation for step in result.steps] == [
        "input",
        "msm",
        "evaluate",
        "divide_by_linear",
    ]


def test_each_pointwise_step_follows_its_definition(plain):
    r = capstan.FR_MODULUS
    a, b, c = (oracle.random_scalars(4, seed=seed) for seed in (1, 2, 3))
    a[0] = 0
    program = capstan.Program()
    x, y, z = (program.input(4) for _ in range(3))
    expected = {
        program.add(x, y): [p + q for p, q in zip(a, b, strict=True)],
        program.subtract(x, y): [p - q for p, q in zip(a, b, strict=True)],
        program.prefix_product(y): [math.prod(b[: i + 1]) for i in range(4)],
        program.multiply(x, y): [p * q for p, q in zip(a, b, strict=True)],
        program.multiply_add(x, y, z): [p * q + s for p, q, s in zip(a, b, c, strict=True)],
        program.multiply_subtract(x, y, z): [p * q - s for p, q, s in zip(a, b, c, strict=True)],
        program.invert(x): [0, *(pow(p, -1, r) for p in a[1:])],
        program.linear_combination([x, y], [3, r - 1]): [
            3 * p - q for p, q in zip(a, b, strict=True)
        ],
        program.concat([x, y]): a + b,
        program.slice(x, 1, 2): a[1:3],
        program.pad(x, 6): [*a, 0, 0],
        program.powers(7, 4, first=3): [3, 21, 147, 1029],
        program.constant([9, 8]): [9, 8],
    }
    result = plain.run(program, {x: a, y: b, z: c}, list(expected))
    for value, elements in expected.items():
        assert capstan.integers(result[value]) == [element % r for element in elements]


def test_a_division_by_the_vanishing_polynomial_inverts_the_product(plain):
    h = oracle.random_scalars(4, seed=4)
    n = 4
    # h * (X^4 - 1), whose values on a coset of 8 elements are divided there.
    product = [
        (low - high) % capstan.FR_MODULUS
        for low, high in zip([0] * 4 + h, h + [0] * 4, strict=True)
    ]
    program = capstan.Program()
    coefficients = program.input(2 * n)
    values = program.ntt(coefficients, coset=7, output_order="bit-reversed")
    first = program.ntt(program.slice(coefficients, 0, n), coset=7)
    divided = program.divide_by_vanishing(first, lg_n=2, coset=7)
    result = plain.run(program, {coefficients: product}, [values, divided])
    assert capstan.integers(result[values]) == oracle.bit_reversed(oracle.ntt(product, coset=7))
    scale = pow(pow(7, n, capstan.FR_MODULUS) - 1, -1, capstan.FR_MODULUS)
    expected = [v * scale % capstan.FR_MODULUS for v in oracle.ntt(product[:n], coset=7)]
    assert capstan.integers(result[divided]) == expected


def test_matrices_multiply_vectors(plain):
    r = capstan.FR_MODULUS
    big = oracle.random_scalars(1, seed=5)[0]
    rows = [{0: 1, 2: r - 1}, {}, {1: big, 2: 5, 0: big}]
    matrix = plain.put_matrix(rows, columns=3, label="small")
    assert (matrix.rows, matrix.columns, matrix.terms) == (3, 3, 5)
    assert matrix in plain.list().matrices
    assert plain.find(matrix.id) == matrix
    program = capstan.Program()
    x = program.input(3)
    product = program.sparse_product(matrix, x)
    result = plain.run(program, {x: [2, 3, 4]}, [product])
    assert capstan.integers(result[product]) == [r - 2, 0, (5 * big + 20) % r]
    plain.release(matrix)


def test_large_vectors_travel_in_any_way(client, many_scalars):
    n = len(many_scalars)
    program = capstan.Program()
    a, b = program.input(n), program.input(4)
    forward = program.ntt(a, output_order="bit-reversed")
    back = program.ntt(forward, direction="inverse", input_order="bit-reversed")
    doubled = program.add(b, b)
    for _ in range(3):
        calls = []
        result = client.run(
            program,
            {a: many_scalars, b: [1, 2, 3, 4]},
            [back, doubled],
            progress=lambda *call, calls=calls: calls.append(call),
        )
        assert (result[back] == many_scalars).all()
        assert capstan.integers(result[doubled]) == [2, 4, 6, 8]
        total = 2 * many_scalars.nbytes + 2 * 4 * 32
        assert calls[-1] == (total, total)


def test_rows_and_narrow_inputs(plain, bases, points):
    program = capstan.Program()
    narrow = program.input(4, rows=2)
    sums = program.msm(narrow, bases[2:])
    result = plain.run(program, {narrow: np.arange(8, dtype=np.uint8)}, [sums])
    assert result[sums] == [
        oracle.compressed(oracle.msm(points[2:6], scalars)) for scalars in (range(4), range(4, 8))
    ]
    program = capstan.Program()
    wide = program.input(2, rows=2)
    values = program.evaluate(wide, 10)
    products = program.prefix_product(wide)
    transformed = program.ntt(wide)
    result = plain.run(program, {wide: [1, 2, 3, 4]}, [values, products, transformed])
    assert capstan.integers(result[values]) == [21, 43]
    assert capstan.integers(result[products]) == [1, 2, 3, 12]
    assert result[transformed].shape == (2, 2, 32)


def test_points_of_g2_are_summed(client):
    points = oracle.points([3, 4], "g2")
    bases = client.put_bases([oracle.compressed(point, "g2") for point in points], group="g2")
    program = capstan.Program()
    scalars = program.input(2)
    total = program.msm(scalars, bases)
    result = client.run(program, {scalars: [5, 6]}, [total])
    assert result[total] == [oracle.compressed(oracle.msm(points, [5, 6], "g2"), "g2")]


def test_a_prefix_product_of_points_is_refused(plain, bases):
    program = capstan.Program()
    scalars = program.input(N)
    total = program.msm(scalars, bases)
    product = program.prefix_product(total)
    with pytest.raises(capstan.InvalidInput) as refused:
        plain.run(program, {scalars: [1] * N}, [product])
    assert refused.value.field == "program.steps[2].prefix_product.input"


def test_values_of_another_program_are_refused(plain):
    one, other = capstan.Program(), capstan.Program()
    value, stranger = one.input(2), other.input(2)
    with pytest.raises(capstan.InvalidInput):
        one.add(value, stranger)
    with pytest.raises(capstan.InvalidInput):
        plain.run(one, {value: [1, 2]}, [stranger])


def test_kept_values_are_inputs_of_the_next_run(client):
    program = capstan.Program()
    x = program.input(4)
    square = program.multiply(x, x)
    first = client.run(program, {x: [1, 2, 3, 4]}, [square], keep=[square])
    assert capstan.integers(first[square]) == [1, 4, 9, 16]
    kept = first.kept(square)
    second = client.run(program, {x: kept}, [square])
    assert capstan.integers(second[square]) == [1, 16, 81, 256]
    client.release(kept)


def test_montgomery_form_holds_for_inputs_and_outputs(plain):
    program = capstan.Program()
    x = program.input(2)
    square = program.multiply(x, x)
    result = plain.run(program, {x: capstan.to_montgomery([3, 4])}, [square], montgomery=True)
    assert (result[square] == capstan.to_montgomery([9, 16])).all()


def test_inputs_are_checked_before_anything_is_sent(plain):
    program = capstan.Program()
    x = program.input(2, name="x")
    y = program.add(x, x)
    for inputs in ({}, {x: [1]}, {x: [1, 2], y: [1, 2]}, {"z": [1, 2]}):
        with pytest.raises(capstan.InvalidInput):
            plain.run(program, inputs, [y])
    with pytest.raises(capstan.InvalidInput):
        program.input(3, name="x")


def test_kzg_openings_satisfy_the_pairing_of_ckzg(client):
    setup = ceremony.ckzg_setup()
    key = client.put_bases(ceremony.powers_of_tau())
    f = oracle.random_scalars(4096, seed=6)
    z = oracle.random_scalars(1, seed=7)[0]
    opening = client.kzg_open(key, f, z)
    assert opening.value == oracle.evaluate(f, z)
    assert client.kzg_commit(key, [f, f[:3]])[0] == opening.commitment
    assert str(opening.value) not in repr(opening)
    in_montgomery_form = client.kzg_open(key, capstan.to_montgomery(f), z, montgomery=True)
    assert in_montgomery_form == opening
    point, value = (number.to_bytes(32, "big") for number in (z, opening.value))
    arguments = (opening.commitment, point, value, opening.proof, setup)
    assert ckzg.verify_kzg_proof(*arguments)
    wrong = ((opening.value + 1) % capstan.FR_MODULUS).to_bytes(32, "big")
    assert not ckzg.verify_kzg_proof(opening.commitment, point, wrong, opening.proof, setup)
    with pytest.raises(capstan.InvalidInput):
        client.kzg_open(key[:10], f, z)
