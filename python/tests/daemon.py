"""A daemon in a child process."""

import os
import queue
import re
import subprocess
import threading
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# Only a hang reaches it.
_HANGING_S = 60.0


def binary() -> str:
    built = [_ROOT / "target" / profile / "capstand" for profile in ("release", "debug")]
    paths = [Path(os.environ["CAPSTAND"])] if "CAPSTAND" in os.environ else built
    found = [path for path in paths if path.exists()]
    assert found, f"build capstand, or set CAPSTAND: none of {', '.join(map(str, paths))} exists"
    return str(found[0])


class Daemon:
    """A daemon with a CPU engine, on a free port and a Unix socket."""

    def __init__(self, folder: Path, *flags: str, address: str = "127.0.0.1:0"):
        self.socket = folder / "capstan.sock"
        command = [binary(), "--config", "/dev/null", "--engine", "cpu", "--listen", address]
        command += ["--metrics-listen", "none", "--unix-socket", str(self.socket), *flags]
        self._process = subprocess.Popen(command, env={}, stderr=subprocess.PIPE, text=True)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        # The pipe must not fill up.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = re.search(r"tcp=(\S+)", self._until("listening"))[1]
        self._until("ready")

    @property
    def target(self) -> str:
        return f"http://{self.address}"

    @property
    def unix_target(self) -> str:
        return f"unix:{self.socket}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stderr.close()

    def _read(self) -> None:
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def _until(self, word: str) -> str:
        log = ""
        while True:
            line = self._lines.get(timeout=_HANGING_S)
            assert line is not None, f"no {word!r} in:\n{log}"
            log += line
            if word in line:
                return line
