"""Runs the daemon and the command line that are built."""

import functools
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# Only a hang reaches it.
_HANGING_S = 60.0


def binary(name: str = "capstand") -> str:
    """The path of capstand, or of capstan next to it."""
    built = [_ROOT / "target" / profile / "capstand" for profile in ("release", "debug")]
    paths = [Path(os.environ["CAPSTAND"])] if "CAPSTAND" in os.environ else built
    found = [path for path in paths if path.exists()]
    assert found, f"build capstand, or set CAPSTAND: none of {', '.join(map(str, paths))} exists"
    return str(found[0].with_name(name))


def run(program: str, *arguments: str, env: dict | None = None) -> subprocess.CompletedProcess:
    """Runs capstand or capstan to its end."""
    command = [binary(program), *map(str, arguments)]
    return subprocess.run(
        command, check=False, env=env or {}, capture_output=True, text=True, timeout=120
    )


@functools.cache
def new_tokens() -> str:
    """A file of tokens, as `capstan token` makes it."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/tokens.toml"
        made = run("capstan", "token", "new", "--name", "ada", "--file", file)
        assert made.returncode == 0, made.stderr
        return Path(file).read_text()


class Daemon:
    """A daemon on the CPU, on free ports of the loopback interface."""

    def __init__(self, folder: Path, *flags: str, host: str = "127.0.0.1"):
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        command = [binary(), "--config", "/dev/null", "--engine", "cpu", "--threads", "1"]
        command += ["--listen", f"{host}:0", "--metrics-listen", f"{host}:0"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen([*command, *map(str, flags)], env={}, stderr=log)
        self.metrics_address = self._until(r"serving metrics address=(\S+)")[1]
        self.address = self._until(r" tcp=(\S+)")[1]
        self._until(r"\bready\b")

    @property
    def port(self) -> int:
        """The port of gRPC."""
        return int(self.address.rsplit(":", 1)[1])

    def metrics(self) -> str:
        """What Prometheus reads."""
        url = f"http://{self.metrics_address}/metrics"
        with urllib.request.urlopen(url, timeout=_HANGING_S) as answer:
            return answer.read().decode()

    def text(self) -> str:
        """The log without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text())

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()

    def _until(self, pattern: str) -> re.Match:
        deadline = time.monotonic() + _HANGING_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := re.search(pattern, self.text()):
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {pattern!r} in:\n{self.log.read_text()}")
