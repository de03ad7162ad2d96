"""KZG commitments (Kate, Zaverucha and Goldberg, 2010), as programs.

A polynomial is its coefficients, the constant one first. A commitment is a multi-scalar
multiplication of the coefficients and the powers of a secret tau in G1, which are bases on the
server. Verifiers need pairings and no server: libraries such as ckzg and py_ecc have them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from capstan import _run, encodings, errors
from capstan._arguments import Seconds, checked
from capstan._calls import Call
from capstan._session import Session
from capstan.encodings import FR_BYTES, ScalarsLike
from capstan.program import Program
from capstan.results import Bases, Vector


@dataclass(frozen=True)
class KzgOpening:
    """The opening of a commitment at a point.

    Attributes:
        commitment: The commitment to the polynomial, 48 bytes, compressed.
        value: The value of the polynomial at the point, from 0 to r - 1. The representation does
            not show it.
        proof: The commitment to (f - value) / (X - point), 48 bytes, compressed.
    """

    commitment: bytes
    value: int = field(repr=False)
    proof: bytes


@checked
def kzg_commit(
    session: Session,
    key: Bases,
    polynomials: Sequence[ScalarsLike | Vector],
    *,
    montgomery: bool = False,
    timeout: Seconds | None = None,
) -> Call[list[bytes]]:
    """Commit to each of 1 to 256 polynomials, which may have different lengths, in one call.

    Args:
        key: The powers of tau in G1: 1, tau, tau^2, and so on, times the generator.
        polynomials: The coefficients of each polynomial, in this process or on the server.
        montgomery: Whether the coefficients are in Montgomery form.
        timeout: Seconds for the whole call, retries included; by default the client's.

    Returns:
        One commitment for each polynomial: 48 bytes, compressed.

    Raises:
        InvalidInput: A polynomial is longer than the key, or a coefficient is not canonical.
        CapstanError: The server refused the call or failed.
    """
    program = Program()
    inputs, commitments = {}, []
    for polynomial in polynomials:
        coefficients = program.input(_length(key, polynomial))
        inputs[coefficients] = polynomial
        commitments.append(program.msm(coefficients, key))
    result = yield from _run.run(
        session, program, inputs, commitments, montgomery=montgomery, timeout=timeout
    )
    return [result[commitment][0] for commitment in commitments]


@checked
def kzg_open(
    session: Session,
    key: Bases,
    polynomial: ScalarsLike | Vector,
    point: int | bytes,
    *,
    montgomery: bool = False,
    timeout: Seconds | None = None,
) -> Call[KzgOpening]:
    """Commit to a polynomial and open the commitment at a point, in one call.

    Args:
        key: The powers of tau in G1: 1, tau, tau^2, and so on, times the generator.
        polynomial: The coefficients, in this process or on the server.
        point: An integer from 0 to r - 1, or 32 bytes, little-endian. It is not a secret.
        montgomery: Whether the coefficients are in Montgomery form; `point` never is.
        timeout: Seconds for the whole call, retries included; by default the client's.

    Raises:
        InvalidInput: The polynomial is longer than the key, or a coefficient is not canonical.
        CapstanError: The server refused the call or failed.
    """
    program = Program()
    coefficients = program.input(_length(key, polynomial))
    commitment = program.msm(coefficients, key)
    value = program.evaluate(coefficients, point)
    quotient = program.divide_by_linear(coefficients, point)
    proof = program.msm(quotient, key)
    result = yield from _run.run(
        session,
        program,
        {coefficients: polynomial},
        [commitment, value, proof],
        montgomery=montgomery,
        timeout=timeout,
    )
    number = int.from_bytes(result[value].tobytes(), "little")
    if montgomery:
        number = encodings.from_montgomery(number)
    return KzgOpening(result[commitment][0], number, result[proof][0])


def _length(key: Bases, polynomial: ScalarsLike | Vector) -> int:
    if isinstance(polynomial, bytes | bytearray | memoryview):
        length = len(polynomial) // FR_BYTES
    else:
        length = len(polynomial)
    if length > key.length:
        raise errors.wrong_length("polynomial", key.length, length)
    return length
