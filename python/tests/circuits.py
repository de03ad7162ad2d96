"""Circuits whose keys `capstan groth16 register` has sent."""

import json
import subprocess
from pathlib import Path

import daemon

import capstan

DATA = Path(__file__).parents[2] / "tests" / "data"
# Many variables of the second one have no point in A or in B. The third has no private variables.
CIRCUITS = ("short_factor", "repeated_square", "public_product")


class Circuit:
    """A circuit whose key the server has."""

    def __init__(self, folder, server, name):
        self.folder, self.system = folder, DATA / f"{name}.r1cs"
        self.description = folder / "key.json"
        self.witness = capstan.read_wtns(DATA / f"{name}.wtns")
        key, self.verifying_key = folder / "key", folder / "verifying_key"
        cli("setup", self.system, "--key", key, "--verifying-key", self.verifying_key)
        registered = ("register", self.system, "--key", key, "--description", self.description)
        cli(*registered, "--label", name, server=server)

    def accepts(self, proof, public_variables):
        """Whether `capstan groth16 verify` accepts a proof."""
        public = [str(value) for value in capstan.integers(self.witness[1:public_variables])]
        (self.folder / "public.json").write_text(json.dumps(public))
        (self.folder / "proof").write_bytes(bytes(proof))
        arguments = ("verify", self.folder / "proof", "--verifying-key", self.verifying_key)
        done = cli(*arguments, "--public", self.folder / "public.json", codes=(0, 3))
        return done.returncode == 0


def cli(*arguments, server="http://127.0.0.1:1", codes=(0,)):
    program = Path(daemon.binary()).with_name("capstan")
    command = [program, "--server", server, "groth16", *map(str, arguments)]
    done = subprocess.run(command, check=False, env={}, capture_output=True, timeout=120)
    assert done.returncode in codes, done.stderr
    return done
