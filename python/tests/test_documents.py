import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from circuits import Circuit

_PYTHON = Path(__file__).parents[1]


def _blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("path", sorted((_PYTHON / "examples").glob("0*.py")), ids=lambda p: p.stem)
def test_examples_run(daemon, path):
    subprocess.run([sys.executable, path, daemon.target], check=True, timeout=60)


@pytest.mark.usefixtures("bases")
def test_the_block_of_the_first_page_runs(daemon):
    [block] = _blocks(_PYTHON.parent / "README.md")
    names = {}
    exec(block.replace("http://127.0.0.1:7654", daemon.target), names)
    assert names["result"].point


def test_the_blocks_of_the_readme_run(daemon, tmp_path, monkeypatch):
    # The files that a block reads and writes.
    monkeypatch.chdir(tmp_path)
    circuit = Circuit(tmp_path, daemon.target, "repeated_square")
    shutil.copy(circuit.system.with_suffix(".wtns"), "circuit.wtns")
    blocks = _blocks(_PYTHON / "README.md")
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(block.replace("http://127.0.0.1:7654", daemon.target), names)
    assert len(names["subset"].point) == 48
    assert len(names["sums"].point) == 48
    assert (names["rows"].values != names["coefficients"]).any()
    assert circuit.accepts(names["proof"], names["key"].public_variables)
