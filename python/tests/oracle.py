"""BLS12-381 by py_ecc, which shares no code with Capstan, and transforms by their definition."""

import random

from py_ecc.bls.point_compression import compress_G1, compress_G2
from py_ecc.optimized_bls12_381 import G1, G2, Z1, Z2, add, multiply, normalize

from capstan import FR_MODULUS

GENERATORS = {"g1": G1, "g2": G2}
IDENTITIES = {"g1": Z1, "g2": Z2}
INFINITIES = {"g1": b"\xc0" + bytes(47), "g2": b"\xc0" + bytes(95)}


def random_scalars(count, seed):
    source = random.Random(seed)
    return [source.randrange(FR_MODULUS) for _ in range(count)]


def points(logarithms, group="g1"):
    return [multiply(GENERATORS[group], logarithm) for logarithm in logarithms]


def compressed(point, group="g1"):
    if point[2] == IDENTITIES[group][2]:
        return INFINITIES[group]
    if group == "g1":
        return compress_G1(point).to_bytes(48, "big")
    return b"".join(part.to_bytes(48, "big") for part in compress_G2(point))


def uncompressed(point):
    """A point of G1 that is not infinity."""
    return b"".join(int(coordinate).to_bytes(48, "big") for coordinate in normalize(point))


def msm(of_points, scalars, group="g1"):
    total = IDENTITIES[group]
    for point, scalar in zip(of_points, scalars, strict=True):
        total = add(total, multiply(point, scalar % FR_MODULUS))
    return total


def ntt(values, *, coset=1):
    n = len(values)
    root = pow(7, (FR_MODULUS - 1) // n, FR_MODULUS)
    points_of_domain = [coset * pow(root, i, FR_MODULUS) % FR_MODULUS for i in range(n)]
    return [evaluate(values, point) for point in points_of_domain]


def evaluate(coefficients, point):
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % FR_MODULUS
    return value


def bit_reversed(values):
    bits = len(values).bit_length() - 1
    return [values[int(f"{i:0{bits}b}"[::-1], 2) if bits else 0] for i in range(len(values))]
