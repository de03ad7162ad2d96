"""The witnesses of circom's circuits.

`capstan groth16 prove` accepts and refuses the same files: `tests/data/wtns_verdicts.json` has
examples. It gives the same causes, but recognises more of the files that have another format.
"""

import os
from dataclasses import dataclass

import numpy as np

from capstan import errors
from capstan._arguments import checked, read_file
from capstan.encodings import FR_MODULUS

_MAGIC = b"wtns"
_VERSION = 2
_NAMES = {1: "header", 2: "section of values"}
# Other formats of circom and snarkjs.
_OTHER_FORMATS = {
    b"r1cs": "a .r1cs file",
    b"zkey": "a .zkey file of snarkjs",
    b"ptau": "a .ptau file of snarkjs",
}
# The order of BN254, circom's default.
_BN254 = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
# Longer primes are not printed.
_PRINTED_MAX = 64


@dataclass
class _Part:
    """The unread bytes of a part of the file, from `position` to `end`."""

    name: str
    data: memoryview
    position: int
    end: int

    def take(self, length: int) -> memoryview:
        missing = self.position + length - self.end
        if missing > 0:
            raise _Malformed(
                f"truncated: {self.name} ends too early, {missing} bytes after byte "
                f"{self.position} are missing"
            )
        self.position += length
        return self.data[self.position - length : self.position]

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def finish(self) -> None:
        if self.position != self.end:
            raise _Malformed(
                f"{self.name} has {self.end - self.position} bytes too many, from byte "
                f"{self.position} on"
            )


class _Malformed(Exception):
    """What is wrong with the file."""


@checked
def read_wtns(path: str | os.PathLike) -> np.ndarray:
    """Read the witness that a circuit of circom has computed, as an array of shape (n, 32) uint8.

    Raises InvalidInput if the file is not a witness over the scalar field of BLS12-381. The message
    says why: it is truncated, longer than its header says, or of another prime, for example.
    """
    data = read_file("path", path)
    try:
        return _values(data)
    except _Malformed as problem:
        raise errors.invalid("path", str(problem)) from None


def _values(data: bytes) -> np.ndarray:
    sections = _sections(data)
    header = _required(sections, 1)
    _check_prime(header)
    count = header.number(4)
    header.finish()
    section = _required(sections, 2)
    begin = section.position
    values = np.frombuffer(section.take(32 * count), dtype="u1").reshape(count, 32)
    section.finish()
    too_large = ~_is_below_modulus(values)
    if too_large.any():
        wire = int(too_large.argmax())
        raise _Malformed(
            f"the value of wire {wire}, at byte {begin + 32 * wire}, is not below the prime"
        )
    return values


def _sections(data: bytes) -> dict[int, _Part]:
    """The sections that are read, by their numbers."""
    if not data.startswith(_MAGIC):
        other = _OTHER_FORMATS.get(data[: len(_MAGIC)])
        known = f"it is {other}" if other else 'its first four bytes are not "wtns"'
        raise _Malformed(f"not a .wtns file: {known}")
    file = _Part("the file", memoryview(data), len(_MAGIC), len(data))
    version = file.number(4)
    if version != _VERSION:
        raise _Malformed(f"version {version} of the format; only version {_VERSION} is supported")
    sections: dict[int, _Part] = {}
    announced = file.number(4)
    for found in range(announced):
        if file.position == file.end:
            raise _Malformed(
                f"truncated: the header announces {announced} sections, but the file ends after "
                f"{found}"
            )
        number, length = file.number(4), file.number(8)
        name = _NAMES.get(number, "a section")
        section = _Part(name, file.data, file.position, file.end)
        section.take(length)
        if number in sections:
            raise _Malformed(f"the {name} appears twice")
        if number in _NAMES:
            sections[number] = _Part(name, file.data, file.position, section.position)
        file.position = section.position
    if file.position != file.end:
        raise _Malformed(
            f"longer than its header says: section {announced} of {announced} ends at byte "
            f"{file.position}, and {file.end - file.position} bytes follow"
        )
    return sections


def _required(sections: dict[int, _Part], number: int) -> _Part:
    if number not in sections:
        raise _Malformed(f"the file has no {_NAMES[number]}")
    return sections[number]


def _check_prime(header: _Part) -> None:
    length = header.number(4)
    encoded = header.take(length)
    prime = int.from_bytes(encoded, "little")
    if length == 32 and prime == FR_MODULUS:
        return
    if length >= _PRINTED_MAX:
        got = f"a number of {length} bytes"
    elif length == 32 and prime == _BN254:
        got = "that of BN254's scalar field, circom's default"
    else:
        got = f"0x{bytes(reversed(encoded)).hex()}"
    raise _Malformed(
        f"the prime must be that of BLS12-381's scalar field, 0x{FR_MODULUS:x}, but is {got} "
        "(circom: --prime bls12381)"
    )


def _is_below_modulus(values: np.ndarray) -> np.ndarray:
    """Which rows are numbers below the modulus."""
    limbs = values.view("<u8")
    below, equal = np.zeros(len(values), bool), np.ones(len(values), bool)
    for index in reversed(range(4)):
        limb = FR_MODULUS >> (64 * index) & 0xFFFFFFFFFFFFFFFF
        below |= equal & (limbs[:, index] < limb)
        equal &= limbs[:, index] == limb
    return below
