"""The setup of Ethereum's KZG ceremony, for Capstan and for ckzg."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ckzg

_FILE = Path(__file__).parents[2] / "tests/data/trusted_setup_4096.json"


@dataclass(frozen=True)
class CeremonySetup:
    """The powers of tau in G1, compressed, and the object that ckzg makes of the whole setup."""

    g1: list[bytes]
    ckzg: Any


def load() -> CeremonySetup:
    lists = json.loads(_FILE.read_text())
    names = ("g1_lagrange", "g2_monomial", "g1_monomial")
    lines = [str(len(lists["g1_lagrange"])), str(len(lists["g2_monomial"]))]
    lines += [point.removeprefix("0x") for name in names for point in lists[name]]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        # 0: no tables, which only cell proofs use.
        setup = ckzg.load_trusted_setup(file.name, 0)
    g1 = [bytes.fromhex(point.removeprefix("0x")) for point in lists["g1_monomial"]]
    return CeremonySetup(g1, setup)
