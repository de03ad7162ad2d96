"""Transforms and back, with vectors that stay on the server.

python 02_ntt.py unix:/run/capstan/capstan.sock
"""

import sys

import numpy as np

import capstan

TARGET = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7654"
N = 1 << 16

with capstan.Client(TARGET) as client:
    # %% Coefficients to evaluations, and back into the same memory.
    coefficients = np.random.default_rng().integers(0, 256, (N, 32), dtype=np.uint8)
    coefficients[:, 31] &= 0x3F  # less than r
    evaluations = client.ntt(coefficients).values
    client.ntt(evaluations, direction="inverse", out=evaluations)
    assert (evaluations == coefficients).all()

    # %% On a coset, with elements in bit-reversed order between the two transforms.
    shifted = client.ntt(coefficients, coset=7, output_order="bit-reversed").values
    back = client.ntt(shifted, direction="inverse", coset=7, input_order="bit-reversed").values
    assert (back == coefficients).all()

    # %% A vector that stays on the server travels once.
    vector = client.put_vector(coefficients)
    kept = client.ntt(vector, keep=True).vector
    first = client.get_vector(kept[:1])
    total = sum(capstan.integers(coefficients)) % capstan.FR_MODULUS
    assert capstan.integers(first) == [total]  # the value at 1
    for held in (vector, kept):
        client.release(held)
    print(f"{N} elements there and back")
