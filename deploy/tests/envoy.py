"""Runs Envoy with the configuration that the chart renders."""

import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path

from chart import TOOLS
from ports import stable_port

# Only a hang reaches it.
_HANGING_S = 60.0
_PORTS = (7654, 9901, 9902)


class Config:
    """The rendered files under a folder, with other ports and with these replicas."""

    def __init__(self, manifests, folder: Path, replicas=()):
        self.ports = {port: stable_port() for port in _PORTS}
        files = manifests.only("ConfigMap", "-envoy")["data"]
        (folder / "etc/envoy").mkdir(parents=True)
        for name, text in files.items():
            placed = re.sub(r"/etc/envoy(?=[-/])", f"{folder}/etc/envoy", text)
            (folder / "etc/envoy" / name).write_text(self._local(placed, replicas))
        self.path = folder / "etc/envoy/envoy.yaml"

    def _local(self, text: str, replicas) -> str:
        for index, (host, port) in enumerate(replicas):
            name = rf"address: capstan-{index}\.capstan-replicas\.proofs\.svc\n( +)port_value: 7654"
            text, found = re.subn(name, rf"address: {host}\n\g<1>port_value: {port}", text)
            assert found in (0, 1)
        text = text.replace('address: "0.0.0.0"', "address: 127.0.0.1")
        for port, local in self.ports.items():
            text = re.sub(rf"port_value: {port}\b", f"port_value: {local}", text)
        return text


def validate(config: Config) -> subprocess.CompletedProcess:
    """Lets Envoy check a configuration."""
    command = [str(TOOLS / "envoy"), "--mode", "validate", "--config-path", str(config.path)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


class Envoy:
    """A running proxy."""

    def __init__(self, config: Config):
        self.config = config
        command = [str(TOOLS / "envoy"), "--config-path", str(config.path)]
        # Others may run on this host.
        command += ["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]
        with config.path.with_suffix(".log").open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, env={"PATH": os.environ["PATH"]})
        deadline = time.monotonic() + _HANGING_S
        while self.status("/ready") != 200:
            assert time.monotonic() < deadline and self._process.poll() is None
            time.sleep(0.05)

    @property
    def port(self) -> int:
        """The port for callers."""
        return self.config.ports[7654]

    def status(self, path: str) -> int:
        """The answer of the port for probes; 0 if there is none."""
        try:
            url = f"http://127.0.0.1:{self.config.ports[9902]}{path}"
            return urllib.request.urlopen(url, timeout=_HANGING_S).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def kill(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
