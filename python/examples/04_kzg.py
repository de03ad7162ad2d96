"""KZG proofs of Ethereum's blobs, equal to those of ckzg byte for byte.

python 04_kzg.py http://127.0.0.1:7654
"""

import secrets
import sys

import ceremony
import ckzg
import numpy as np

import capstan

TARGET = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7654"

setup = ceremony.ckzg_setup()
with capstan.Client(TARGET) as client:
    key = client.put_bases(ceremony.powers_of_tau(), label="ceremony")

    # %% A blob has 4096 elements, big-endian: values of a polynomial in bit-reversed order.
    elements = [secrets.randbelow(capstan.FR_MODULUS) for _ in range(4096)]
    blob = b"".join(element.to_bytes(32, "big") for element in elements)

    # %% The inverse transform gives the coefficients; reversed bytes are little-endian.
    values = np.frombuffer(blob, dtype=np.uint8).reshape(4096, 32)[:, ::-1]
    coefficients = client.ntt(values, direction="inverse", input_order="bit-reversed").values

    # %% One call commits and opens: an MSM, an evaluation, a division and another MSM.
    z = secrets.randbelow(capstan.FR_MODULUS)
    opening = client.kzg_open(key, coefficients, z)

    # %% ckzg agrees.
    point = z.to_bytes(32, "big")
    proof, y = ckzg.compute_kzg_proof(blob, point, setup)
    assert opening.commitment == ckzg.blob_to_kzg_commitment(blob, setup)
    assert opening.proof == proof
    assert opening.value == int.from_bytes(y, "big")
    assert ckzg.verify_kzg_proof(opening.commitment, point, y, opening.proof, setup)
    print(f"commitment {opening.commitment.hex()}\nproof      {opening.proof.hex()}")
