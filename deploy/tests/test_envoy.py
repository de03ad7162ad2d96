import subprocess

import grpc
import pytest
import yaml
from cases import CASES
from chart import DEPLOY, Manifests
from daemon import Daemon, run
from envoy import Config, Envoy, validate

WITH_ENVOY = [name for name, values in CASES.items() if "envoy" in values]
# Only a hang reaches it.
HANGING_S = 60.0
ADA = "URI:spiffe://example.org/ada"


@pytest.fixture
def certificates(authority, tmp_path):
    """The Secrets that Envoy mounts."""
    authority.issue(tmp_path / "etc/envoy-tls", "DNS:localhost")
    authority.issue(tmp_path / "etc/envoy-upstream", "DNS:envoy.example.org")
    authority.issue(tmp_path / "etc/envoy-client-ca", "DNS:unused")
    return tmp_path


@pytest.mark.parametrize("name", WITH_ENVOY)
def test_envoy_accepts_its_configuration(manifests_of, certificates, name):
    checked = validate(Config(manifests_of(name), certificates))
    assert checked.returncode == 0, checked.stderr
    assert "eprecated" not in checked.stderr


def test_envoy_refuses_a_configuration_with_an_unknown_field(manifests_of, tmp_path):
    config = Config(manifests_of("envoy"), tmp_path)
    text = config.path.read_text()
    config.path.write_text(text.replace("use_hostname_for_hashing", "use_host_for_hashing"))
    assert validate(config).returncode != 0


def http2_options(node):
    """The options of HTTP/2 of all listeners and clusters."""
    if isinstance(node, dict):
        yield from [node["http2_protocol_options"]] if "http2_protocol_options" in node else []
        node = list(node.values())
    for below in node if isinstance(node, list) else []:
        yield from http2_options(below)


def test_streams_that_are_not_read_leave_the_window_of_their_connection_to_others(manifests_of):
    texts = {"deploy/envoy.yaml": (DEPLOY / "envoy.yaml").read_text()}
    for name in WITH_ENVOY:
        texts[name] = manifests_of(name).only("ConfigMap", "-envoy")["data"]["envoy.yaml"]
    for streams in (8, 65536):
        settings = {"settings": {"streams_per_connection_max": streams}}
        manifests = Manifests(CASES["envoy"] | settings)
        texts[f"{streams} streams"] = manifests.only("ConfigMap", "-envoy")["data"]["envoy.yaml"]
    for name, text in texts.items():
        found = list(http2_options(yaml.safe_load(text)))
        assert len(found) == 2, name
        for options in found:
            streams = options["max_concurrent_streams"] * options["initial_stream_window_size"]
            assert streams <= options["initial_connection_window_size"] < 1 << 31, name


@pytest.mark.parametrize("name", WITH_ENVOY)
def test_mounts_are_the_folders_of_the_configuration(manifests_of, name):
    manifests = manifests_of(name)
    pod = manifests.only("Deployment")["spec"]["template"]["spec"]
    folders = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    text = "".join(manifests.only("ConfigMap", "-envoy")["data"].values())
    used = {word.strip('"').rsplit("/", 1)[0] for word in text.split() if "/etc/envoy" in word}
    # The files of certificates exist always, and are read if TLS is configured.
    assert folders <= used | {"/etc/envoy"}
    if "/etc/envoy-tls" in folders:
        read = {folder for folder in used if f"{folder}/" in text}
        assert read - {"/etc"} <= folders


def served_by(channel, affinity=None):
    """The process that answers a call."""
    info = channel.unary_unary("/capstan.v1.Admin/GetInfo")
    metadata = [("capstan-affinity", affinity)] if affinity else []
    _, call = info.with_call(b"", metadata=metadata, timeout=HANGING_S)
    return dict(call.initial_metadata())["capstan-instance"]


@pytest.fixture
def replicas(tmp_path):
    running = [Daemon(tmp_path / host, host=host) for host in ("127.0.0.2", "127.0.0.3")]
    yield running
    for daemon in running:
        daemon.kill()


@pytest.fixture
def proxy(manifests_of, replicas, tmp_path):
    addresses = [daemon.address.split(":") for daemon in replicas]
    running = Envoy(Config(manifests_of("envoy-insecure"), tmp_path, addresses))
    yield running
    running.kill()


def test_calls_with_the_same_affinity_reach_the_same_replica(replicas, proxy):
    keys = [f"{key:064x}" for key in range(32)]
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        before = {key: served_by(channel, key) for key in keys}
        assert len(set(before.values())) == 2
        assert {key: served_by(channel, key) for key in keys} == before
        lost = before[keys[0]]
        with grpc.insecure_channel(replicas[0].address) as direct:
            replicas[0 if served_by(direct) == lost else 1].kill()
        # Calls that cannot connect go to the other replica at once.
        assert {served_by(channel, key) for key in keys} == set(before.values()) - {lost}


def test_calls_without_affinity_stay_at_one_replica(proxy):
    server = f"http://127.0.0.1:{proxy.port}"
    bench = run("capstan", "--server", server, "bench", "--sizes", 6, "--repeats", 1)
    assert bench.returncode == 0, bench.stderr
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        assert len({served_by(channel) for _ in range(16)}) == 1


def test_health_checks_of_callers_are_not_passed_on(proxy):
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as refused:
            check(b"", timeout=HANGING_S)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_callers_choose_the_ids_of_their_calls(proxy):
    with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
        info = channel.unary_unary("/capstan.v1.Admin/GetInfo")
        _, call = info.with_call(b"", metadata=[("x-request-id", "mine")], timeout=HANGING_S)
        assert dict(call.initial_metadata())["x-request-id"] == "mine"


def test_the_port_for_probes_serves_no_administration(proxy):
    statuses = [proxy.status(path) for path in ("/ready", "/stats/prometheus", "/config_dump")]
    assert statuses == [200, 200, 404]


def test_the_hook_before_the_end_drains_envoy(manifests_of, proxy):
    container = manifests_of("envoy").only("Deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]
    *shell, script = container["lifecycle"]["preStop"]["exec"]["command"]
    assert f"sleep {container['args'][-1]}" in script
    local = script.replace("9901", str(proxy.config.ports[9901])).replace("sleep 30", "true")
    ran = subprocess.run([*shell, local], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout.startswith("HTTP/1.1 200 OK")
    assert proxy.status("/ready") in (200, 503)


@pytest.fixture
def mutual_tls(manifests_of, authority, certificates):
    """A replica that trusts Envoy's certificate, behind Envoy."""
    manifests = manifests_of("envoy-mtls")
    env = {v["name"]: v["value"] for v in manifests.daemon()["env"]}
    own = authority.issue(certificates / "replica", "DNS:replica.example.org")
    flags = ["--tls-certificate", own / "tls.crt", "--tls-key", own / "tls.key"]
    flags += ["--tls-client-ca", authority.certificate, "--log-level", "info,capstan=debug"]
    flags += ["--auth-proxies", env["CAPSTAN_AUTH_PROXIES"]]
    replica = Daemon(certificates / "daemon", *flags)
    address = ("127.0.0.1", replica.port)
    envoy = Envoy(Config(manifests, certificates, [address, address]))
    yield replica, envoy
    envoy.kill()
    replica.kill()


def test_envoy_names_callers_by_their_certificates(authority, mutual_tls, tmp_path):
    _, envoy = mutual_tls

    def info(names):
        own = authority.issue(tmp_path / "caller" / names.replace("/", "_"), names)
        server = ("--server", f"https://localhost:{envoy.port}", "--deadline", "20s")
        files = ("--ca-certificate", own / "ca.crt", "--tls-cert", own / "tls.crt")
        return run("capstan", *server, *files, "--tls-key", own / "tls.key", "info")

    named = info(ADA)
    assert named.returncode == 0, named.stderr
    assert "proxied:spiffe://example.org/ada" in named.stdout
    # Envoy cannot name a caller without a SPIFFE id.
    assert info("DNS:ada.example.org").returncode != 0


def test_callers_cannot_name_themselves(authority, mutual_tls, tmp_path):
    replica, envoy = mutual_tls
    own = authority.issue(tmp_path / "eve", "URI:spiffe://example.org/eve")
    read = [(own / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")]
    credentials = grpc.ssl_channel_credentials(*read)
    with grpc.secure_channel(f"localhost:{envoy.port}", credentials) as channel:
        info = channel.unary_unary("/capstan.v1.Admin/GetInfo")
        names = [("x-capstan-caller", "mallory"), ("x-capstan-tenant", "stolen")]
        info(b"", metadata=names, timeout=HANGING_S)
    assert "caller=proxied:spiffe://example.org/eve" in replica.text()
    assert "mallory" not in replica.text() and "stolen" not in replica.text()
