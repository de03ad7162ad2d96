"""Multi-scalar multiplications over points of Ethereum's ceremony.

python 01_msm.py http://127.0.0.1:7654
"""

import sys

import ceremony
import numpy as np

import capstan

TARGET = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7654"

with capstan.Client(TARGET) as client:
    # %% The server checks the points once, and names them by the hash of their content.
    points = ceremony.powers_of_tau()
    bases = client.put_bases(points, label="ceremony")
    print(f"{len(bases)} points: {bases.id.hex()}")

    # %% An array of shape (n, 32) has one element of Fr in each row, little-endian.
    scalars = np.random.default_rng().integers(0, 256, (4096, 32), dtype=np.uint8)
    scalars[:, 31] &= 0x3F  # less than r
    result = client.msm(bases, scalars)
    print(
        f"{result.point.hex()} in {1000 * result.timing.total:.1f} ms on {result.execution.device}"
    )

    # %% Integers of Python and arrays of narrow integers are scalars, too.
    assert client.msm(bases[:3], [1, 0, 0]).point == points[0]
    signs = np.array([1, -1], dtype=np.int8)
    twice = client.msm([points[1], points[1]], signs).point
    assert twice == b"\xc0" + bytes(47)  # infinity

    # %% Several scalar vectors over the same bases go into one call.
    batch = np.stack([scalars, scalars])
    assert client.msm(bases, batch).points == [result.point, result.point]

    # %% Errors name the field and the index.
    scalars[17] = 0xFF
    try:
        client.msm(bases, scalars)
    except capstan.InvalidInput as error:
        print(f"refused: {error.reason} at {error.field}[{error.index}]")
        assert error.index == 17
