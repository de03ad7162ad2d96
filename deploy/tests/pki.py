"""Certificates for tests, made with openssl."""

import subprocess
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]


class Authority:
    """An authority, and the certificates that it signs."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        files = ["-keyout", self._key, "-out", self.certificate]
        _openssl("req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=capstan-ca", *files)

    def issue(self, folder: Path, names: str) -> Path:
        """Fills a folder with ca.crt, tls.crt and tls.key, as a Secret is mounted."""
        folder.mkdir(parents=True, exist_ok=True)
        request, extensions = folder / "request.pem", folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\n")
        _openssl("req", *_KEY, "-subj", "/CN=x", "-keyout", folder / "tls.key", "-out", request)
        signer = ["-CA", self.certificate, "-CAkey", self._key, "-days", "2"]
        inputs = ["-in", request, "-extfile", extensions]
        _openssl("x509", "-req", *signer, *inputs, "-out", folder / "tls.crt")
        (folder / "ca.crt").write_bytes(self.certificate.read_bytes())
        return folder


def _openssl(*arguments) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
