"""A program multiplies two polynomials in one call; only their product returns.

python 03_program.py http://127.0.0.1:7654
"""

import asyncio
import sys

import capstan
from capstan import aio

TARGET = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7654"

# %% Steps read values of earlier steps. Names are optional.
program = capstan.Program()
f = program.input(4, name="f")
g = program.input(4, name="g")
values = program.multiply(program.ntt(f, lg_n=3), program.ntt(g, lg_n=3))
program.ntt(values, direction="inverse", name="product")


async def multiply() -> None:
    async with aio.Client(TARGET) as client:
        # %% Two runs at a time: (1 + x)^2 and (1 - x^3)^2.
        inputs = [{"f": row, "g": row} for row in ([1, 1, 0, 0], [1, 0, 0, capstan.FR_MODULUS - 1])]
        runs = [client.run(program, given, ["product"]) for given in inputs]
        square, cube = await asyncio.gather(*runs)
        assert capstan.integers(square["product"]) == [1, 2, 1, 0, 0, 0, 0, 0]
        minus_two = capstan.FR_MODULUS - 2
        assert capstan.integers(cube["product"]) == [1, 0, 0, minus_two, 0, 0, 1, 0]
        for step in square.steps:
            print(f"{step.operation:>10} {1e6 * step.seconds:.0f} us")


asyncio.run(multiply())
