"""Groth16 proofs (Groth, 2016) with a key that `capstan groth16 register` has sent to the server.

The server computes the four sums of a proof in one program, then adds the key's points and the
blinding to them. So it sees the numbers that hide the witness from others; it has the witness, too.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from capstan import _msm, _run, _store, errors
from capstan._arguments import Seconds, Verify, checked, read_file
from capstan._calls import Call
from capstan._session import Session
from capstan.encodings import (
    FR_MODULUS,
    MONTGOMERY,
    EncodedScalars,
    ScalarsLike,
    encode_scalars,
    from_montgomery,
)
from capstan.program import Program, ProgramValue
from capstan.results import Bases, Matrix, Vector

_FORMAT = 2
_GENERATOR = 7
_OBJECTS = ("matrix_a", "matrix_b", "a", "b_g1", "b_g2", "c")
# Choose the variables that have a point in a and in b; absent if every variable has a point.
_SELECTIONS = ("variables_of_a", "variables_of_b")
# The flag in the first byte of a compressed point.
_INFINITY = 0x40
_POINT_BYTES = {"alpha_g1": 48, "beta_g1": 48, "beta_g2": 96, "delta_g1": 48, "delta_g2": 96}


@dataclass(frozen=True)
class Groth16Key:
    """A proving key on a server.

    Attributes:
        constraints: Number of constraints.
        public_variables: Number of variables that the verifier knows, including the constant one.
        variables: Number of all variables.
        parts: The bases and matrices on the server.
        points: The points that are added to sums, compressed.
    """

    constraints: int
    public_variables: int
    variables: int
    parts: Mapping[str, Bases | Matrix]
    points: Mapping[str, bytes]


@dataclass(frozen=True)
class Groth16Proof:
    """A proof: points, compressed.

    Attributes:
        a: In G1, 48 bytes.
        b: In G2, 96 bytes.
        c: In G1, 48 bytes.
    """

    a: bytes
    b: bytes
    c: bytes

    def __bytes__(self) -> bytes:
        """Return the proof as arkworks and `capstan groth16 verify` read it: 192 bytes."""
        return self.a + self.b + self.c


@dataclass(frozen=True)
class _ProofProgram:
    program: Program
    assignment: ProgramValue
    sums: list[ProgramValue]


@checked
def groth16_key(
    session: Session, path: str | os.PathLike, *, timeout: Seconds | None = None
) -> Call[Groth16Key]:
    """Find the parts of a key that `capstan groth16 register` has sent to the server.

    Args:
        path: The description that the command has written. It holds no secrets.
        timeout: Seconds for each call to the server; by default the client's.

    Raises:
        InvalidInput: The file is not such a description, or a point is infinity, so that proofs
            would not hide the witness.
        NotFound: The server does not have a part: register the key again.
    """
    try:
        described = _json(read_file("path", path))
        if described["format"] != _FORMAT:
            problem = f"format {described['format']}, expected {_FORMAT}: register the key again"
            raise ValueError(problem)
        counts = [int(described[name]) for name in ("constraints", "public_variables", "variables")]
        points = {
            name: _finite_point(described["points"][name], width)
            for name, width in _POINT_BYTES.items()
        }
        given = described["objects"]
        ids = {name: _from_hex(given[name], 32) for name in _OBJECTS}
        ids |= {name: _from_hex(given[name], 32) for name in _SELECTIONS if given[name]}
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = error if isinstance(error, ValueError) else repr(error)
        problem = f"not a description of capstan groth16 register: {reason}"
        raise errors.invalid("path", problem) from None
    parts = {}
    for name, object_id in ids.items():
        parts[name] = yield from _store.find(session, object_id, timeout=timeout)
    return Groth16Key(*counts, parts, points)


@checked
def groth16_prove(
    session: Session,
    key: Groth16Key,
    assignment: ScalarsLike | Vector,
    *,
    montgomery: bool = False,
    verify: Verify = "none",
    timeout: Seconds | None = None,
) -> Call[Groth16Proof]:
    """Prove that an assignment satisfies the constraints of a key.

    The proof of an assignment that does not is one that no verifier accepts. A proof takes one run
    and three small MSMs.

    Args:
        key: The key, from `groth16_key`.
        assignment: One, the public inputs and the witness, as for `msm`. `read_wtns` reads a file.
        montgomery: Whether 32-byte elements are in Montgomery form.
        verify: Check of the results on the server: `none`, `full` or `probabilistic`.
        timeout: Seconds for each call to the server; by default the client's.

    Raises:
        InvalidInput: The assignment has a wrong length, or an element is not canonical: `index`.
        NotFound: The server does not have a part of the key: register it again.
        CapstanError: The server refused a call or failed.
    """
    if not isinstance(assignment, Vector):
        _check_first(encode_scalars("assignment", assignment, montgomery=montgomery))
    proof = _proof_program(key)
    run = yield from _run.run(
        session,
        proof.program,
        {proof.assignment: assignment},
        proof.sums,
        montgomery=montgomery,
        verify=verify,
        timeout=timeout,
    )
    a, b_g1, b_g2, sum_of_c = (run[value][0] for value in proof.sums)
    settings = {"verify": verify, "timeout": timeout}
    points = key.points
    r, s = secrets.randbelow(FR_MODULUS), secrets.randbelow(FR_MODULUS)
    in_g1 = [a, points["alpha_g1"], points["delta_g1"], b_g1, points["beta_g1"]]
    scalars = [1, 1, r, 0, 0, 0, 0, s, 1, 1]
    blinded = yield from _msm.msm(session, in_g1, scalars, batch=2, **settings)
    a, b_g1 = blinded.points
    in_g2 = [b_g2, points["beta_g2"], points["delta_g2"]]
    b = yield from _msm.msm(session, in_g2, [1, 1, s], group="g2", **settings)
    in_c = [sum_of_c, a, b_g1, points["delta_g1"]]
    c = yield from _msm.msm(session, in_c, [1, s, r, -r * s % FR_MODULUS], **settings)
    return Groth16Proof(a, b.point, c.point)


def _check_first(assignment: EncodedScalars) -> None:
    """Raise InvalidInput if the first element is not 1: no verifier would accept the proof."""
    if assignment.count == 0:
        return
    first = int.from_bytes(assignment.data[: assignment.width].tobytes(), "little")
    if (from_montgomery(first) if assignment.encoding == MONTGOMERY else first) != 1:
        raise errors.invalid("assignment", "the first element is not 1", index=0)


def _proof_program(key: Groth16Key) -> _ProofProgram:
    """Make the program whose outputs are the sums over a, b_g1, b_g2 and c."""
    program, parts = Program(), key.parts
    z = program.input(key.variables)

    def selected(name: str) -> ProgramValue:
        return program.sparse_product(parts[name], z) if name in parts else z

    of_a, of_b = selected("variables_of_a"), selected("variables_of_b")
    private = key.variables - key.public_variables
    # If all variables are public, there is no witness.
    witness = [program.slice(z, key.public_variables, private)] if private else []
    # A GPU computes the other steps while it sums, and the sum over G2 takes longest.
    summed = (("b_g2", of_b), ("a", of_a), ("b_g1", of_b))
    sums = {name: program.msm(values, parts[name]) for name, values in summed}
    # A proof needs the sums over the witness and over the quotient only added together.
    in_c = program.concat([*witness, _quotient(program, key, z)])
    sums["c"] = program.msm(in_c, parts["c"])
    return _ProofProgram(program, z, [sums[name] for name in ("a", "b_g1", "b_g2", "c")])


def _quotient(program: Program, key: Groth16Key, z: ProgramValue) -> ProgramValue:
    """Compute the coefficients of the quotient polynomial, as many as c has points for."""
    of_a = program.sparse_product(key.parts["matrix_a"], z)
    of_b = program.sparse_product(key.parts["matrix_b"], z)
    # The public variables follow the constraints in A only, as in libsnark.
    of_a = program.concat([of_a, program.slice(z, 0, key.public_variables)])
    lg_n = (of_a.length - 1).bit_length()
    a, b = (program.pad(values, 1 << lg_n) for values in (of_a, of_b))
    # The values of c are the products of a and b, since the assignment satisfies the constraints.
    values = [a, b, program.multiply(a, b)]
    a, b, c = (_on_coset(program, of_domain) for of_domain in values)
    quotient = program.multiply_subtract(a, b, c)
    quotient = program.divide_by_vanishing(quotient, lg_n, _GENERATOR)
    h = program.ntt(quotient, direction="inverse", coset=_GENERATOR)
    witness = key.variables - key.public_variables
    return program.slice(h, 0, key.parts["c"].length - witness)


def _on_coset(program: Program, values: ProgramValue) -> ProgramValue:
    coefficients = program.ntt(values, direction="inverse", output_order="bit-reversed")
    return program.ntt(coefficients, coset=_GENERATOR, input_order="bit-reversed")


def _json(data: bytes) -> dict[str, Any]:
    try:
        described = json.loads(data)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(described, dict) or "format" not in described:
        raise ValueError("it is JSON without the key 'format'")
    return described


def _from_hex(text: str, width: int) -> bytes:
    data = bytes.fromhex(text)
    if len(data) != width:
        raise ValueError(f"has {len(data)} bytes, expected {width}")
    return data


def _finite_point(text: str, width: int) -> bytes:
    point = _from_hex(text, width)
    if point[0] & _INFINITY:
        raise ValueError("a point at infinity would not blind proofs")
    return point
