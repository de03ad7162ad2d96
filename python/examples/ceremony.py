"""The setup of Ethereum's KZG ceremony, for Capstan and for ckzg."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "tests/data/trusted_setup_4096.json"


@cache
def lists() -> dict[str, list[str]]:
    """Return the three lists of points, in hexadecimal digits without 0x."""
    parsed = json.loads(_FILE.read_text())
    return {name: [point.removeprefix("0x") for point in parsed[name]] for name in parsed}


def powers_of_tau() -> list[bytes]:
    """Return the 4096 powers of tau in G1, compressed."""
    return [bytes.fromhex(point) for point in lists()["g1_monomial"]]


@cache
def ckzg_setup() -> Any:
    """Load the setup into ckzg, which reads its own format only."""
    import ckzg  # noqa: PLC0415 (not every example needs it)

    names = ("g1_lagrange", "g2_monomial", "g1_monomial")
    lines = [str(len(lists()["g1_lagrange"])), str(len(lists()["g2_monomial"]))]
    lines += [point for name in names for point in lists()[name]]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        # 0: no tables, which only cell proofs use.
        return ckzg.load_trusted_setup(file.name, 0)
