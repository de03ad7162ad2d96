"""The schema of the values `settings`, from the daemon's table of settings.

python deploy/tests/settings.py writes it into values.schema.json.
"""

import json
import re

from chart import CHART
from daemon import run

SCHEMA = CHART / "values.schema.json"

# Other values set them.
OWNED = {
    "admin_over_tcp",
    "admin_socket",
    "auth_jwks",
    "auth_jwt_audience",
    "auth_jwt_issuer",
    "auth_jwt_tenant_claim",
    "auth_tokens",
    "cuda_devices_min",
    "data_dir",
    "drain_grace_s",
    "engine",
    "insecure",
    "listen",
    "metrics_listen",
    "metrics_tls",
    "tenants",
    "tls_certificate",
    "tls_client_ca",
    "tls_key",
}

_BLOCK = re.compile(r"# (?P<about>.+)\n# (?P<kind>.+)\.\n# (?P<name>\w+) = (?P<default>.+)\n")
_BYTES = r"[0-9]+ ?(B|KiB|MiB|GiB|TiB)?"


def table() -> dict[str, tuple[str, str, str]]:
    """Each setting's kind, default and meaning, by its name."""
    printed = run("capstand", "--config", "/dev/null", "--print-config")
    assert printed.returncode == 0, printed.stderr
    rows = _BLOCK.finditer(printed.stdout)
    return {row["name"]: (row["kind"], row["default"].strip('"'), row["about"]) for row in rows}


def schema() -> dict:
    """The schema of all settings that no other value sets."""
    rows = table()
    assert rows.keys() >= OWNED, OWNED - rows.keys()
    properties = {
        name: {"description": about} | _type(kind)
        for name, (kind, _, about) in rows.items()
        if name not in OWNED
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _type(kind: str) -> dict:
    if kind == "true or false":
        return {"type": "boolean"}
    if words := re.fullmatch(r"one of (.+)", kind):
        return {"enum": words[1].split(", ")}
    if re.match(r"[0-9]+( [KMGT]?i?B)? to [0-9]+ [KMGT]?i?B\b", kind):
        auto = "auto|" if "or auto" in kind else ""
        return {"type": ["string", "integer"], "minimum": 0, "pattern": f"^({auto}{_BYTES})$"}
    if limits := re.match(r"([0-9]+) to ([0-9]+) [a-z]", kind):
        return {"type": "integer", "minimum": int(limits[1]), "maximum": int(limits[2])}
    if kind.startswith("octal permission bits"):
        return {"type": "string", "pattern": "^0?[0-7]{3}$"}
    return {"type": "string", "minLength": 1}


if __name__ == "__main__":
    values = json.loads(SCHEMA.read_text())
    values["properties"]["settings"] = schema()
    SCHEMA.write_text(json.dumps(values, indent=2) + "\n")
