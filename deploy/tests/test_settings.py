import base64
import json

import pytest
import settings
import yaml
from cases import CASES, TENANTS
from daemon import new_tokens, run

KEY_SET = {
    "keys": [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "alg": "EdDSA",
            "use": "sig",
            "kid": "1",
            "x": base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("="),
        }
    ]
}


@pytest.fixture(scope="module")
def secrets(authority, tmp_path_factory):
    """The keys of the Secrets that the cases name."""
    issued = authority.issue(tmp_path_factory.mktemp("issued"), "DNS:replica.example.org")
    server = {path.name: path.read_text() for path in issued.iterdir()}
    return {
        "server": {name: server[name] for name in ("tls.crt", "tls.key")},
        "authorities": {"ca.crt": server["ca.crt"]},
        "tokens": {"tokens.toml": new_tokens()},
        "tenants": {"tenants.toml": TENANTS},
        "keys": {"jwks.json": json.dumps(KEY_SET)},
    }


def mounted(manifests, secrets, root):
    """Lays out under `root` the files that the daemon's container has."""
    made = {s["metadata"]["name"]: s["stringData"] for s in manifests.of_kind("Secret")}
    pod = manifests.only("StatefulSet")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in manifests.daemon()["volumeMounts"]:
        folder = root / mount["mountPath"].lstrip("/")
        folder.mkdir(parents=True)
        if secret := volumes.get(mount["name"], {}).get("secret"):
            for name, text in (secrets | made)[secret["secretName"]].items():
                (folder / name).write_text(text)


def environment(manifests, root):
    """The variables of the daemon's container, with paths under `root`."""
    variables = {variable["name"]: variable["value"] for variable in manifests.daemon()["env"]}
    return {
        name: f"{root}{value}" if value.startswith("/") else value
        for name, value in variables.items()
    }


def test_the_daemon_accepts_its_environment(manifests, secrets, tmp_path):
    mounted(manifests, secrets, tmp_path)
    env = environment(manifests, tmp_path)
    checked = run("capstand", "--config", "/dev/null", "--check-config", env=env)
    assert checked.returncode == 0, checked.stderr


def test_the_check_finds_unknown_variables_and_files_that_are_not_mounted(
    manifests_of, secrets, tmp_path
):
    manifests = manifests_of("everything-on")
    mounted(manifests, secrets, tmp_path)
    env = environment(manifests, tmp_path)
    files = [name for name, value in env.items() if value.startswith(f"{tmp_path}/etc/")]
    assert len(files) == 6
    wrong = [env | {name: f"{env[name]}x"} for name in files] + [env | {"CAPSTAN_JOB_MAX": "2"}]
    for variables in wrong:
        checked = run("capstand", "--config", "/dev/null", "--check-config", env=variables)
        assert checked.returncode == 78


def test_values_reach_the_daemon(manifests_of):
    env = {v["name"]: v["value"] for v in manifests_of("settings").daemon()["env"]}
    for name, value in CASES["settings"]["settings"].items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert env[f"CAPSTAN_{name.upper()}"] == text


def test_the_schema_lists_the_settings_of_the_daemon():
    written = yaml.safe_load(settings.SCHEMA.read_text())["properties"]["settings"]
    assert written == settings.schema(), "run deploy/tests/settings.py"


def test_callers_behind_envoy_share_no_limits_of_connections(manifests_of):
    defaults = {name: default for name, (_, default, _) in settings.table().items()}
    env = {v["name"]: v["value"] for v in manifests_of("envoy").daemon()["env"]}
    for limit, of_all in (
        ("connections_per_address_max", "connections_max"),
        ("connection_jobs_max", "jobs_max"),
        ("connection_uploads_max", "uploads_max"),
    ):
        assert env[f"CAPSTAN_{limit.upper()}"] == defaults[of_all]


def test_the_image_sets_nothing_that_the_chart_leaves_out(manifests):
    """The chart's variables do not depend on those of the image."""
    dockerfile = (settings.CHART.parents[1] / "Dockerfile").read_text()
    image = {word.split("=")[0] for word in dockerfile.split() if word.startswith("CAPSTAN_")}
    image = {name for name in image if name.isupper()} - {"CAPSTAN_INSECURE"}
    assert len(image) == 5
    assert image <= {variable["name"] for variable in manifests.daemon()["env"]}


def test_only_operators_in_the_pod_drain(manifests):
    env = {v["name"]: v["value"] for v in manifests.daemon()["env"]}
    assert env["CAPSTAN_ADMIN_SOCKET"].startswith("/")
    assert "CAPSTAN_ADMIN_OVER_TCP" not in env
