import hashlib
import os
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from breaking_proxy import BreakingProxy
from daemon import Daemon
from delaying_proxy import DelayingProxy

import capstan
from capstan import _region
from capstan.v1 import store_pb2

TOKEN = "sesame"


@pytest.fixture
def guarded(tmp_path):
    """A daemon that requires a token."""
    tokens = tmp_path / "tokens.toml"
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    tokens.write_text(f'[[tokens]]\nname = "ada"\nsha256 = "{digest}"\ntenant = "provers"\n')
    running = Daemon(tmp_path, "--auth-tokens", str(tokens))
    yield running
    running.kill()


def test_tokens_name_the_caller_and_wrong_ones_are_refused(guarded):
    with capstan.Client(guarded.target, token=TOKEN) as client:
        info = client.info()
        assert (info.caller, info.tenant) == ("token:ada", "provers")
        assert TOKEN not in repr(client) + repr(client._settings)
    for token, reason in (("wrong", "CREDENTIALS_INVALID"), (None, "CREDENTIALS_MISSING")):
        with capstan.Client(guarded.target, token=token) as client:
            with pytest.raises(capstan.AccessDenied) as refused:
                client.ntt([1, 2])
            assert refused.value.reason == reason
    with capstan.Client(guarded.unix_target) as client:
        assert client.info().caller.startswith("uid:")


def test_tokens_do_not_travel_in_plain_text_to_other_hosts():
    for target in ("http://example.org", "http://192.0.2.1:1", "http://localhost.example.org"):
        with pytest.raises(capstan.InvalidInput) as refused:
            capstan.Client(target, token=TOKEN)
        assert refused.value.field == "token"
        assert TOKEN not in str(refused.value)
        capstan.Client(target, token=TOKEN, allow_plaintext_token=True).close()
    for target in ("http://127.0.0.1:1", "http://[::1]:1", "https://example.org", "unix:/none"):
        capstan.Client(target, token=TOKEN).close()
    with pytest.raises(capstan.InvalidInput):
        capstan.Client("https://example.org", token="two words")


def test_settings_without_effect_are_refused():
    for target, settings in (
        ("ftp://host", {}),
        ("http://", {}),
        ("http://host", {"ca_certificate": b"pem"}),
        ("http://host", {"priority": "soon"}),
        ("http://host", {"affinity": "two words"}),
        ("http://host", {"affinity": ""}),
    ):
        with pytest.raises(capstan.InvalidInput):
            capstan.Client(target, **settings)


def test_certificates_identify_both_sides(tmp_path):
    script = """
    issue() {
      openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.csr"
      printf 'subjectAltName=%s' "$2" > "$1.ext"
      openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days 2 -extfile "$1.ext" \
        -out "$1.pem"
    }
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=ca \
      -keyout ca.key -out ca.pem
    issue server DNS:capstan.test
    issue ada URI:spiffe://example.org/ada
    """
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True, capture_output=True)
    flags = {
        "--tls-certificate": "server.pem",
        "--tls-key": "server.key",
        "--tls-client-ca": "ca.pem",
    }
    paths = [part for flag, name in flags.items() for part in (flag, str(tmp_path / name))]
    running = Daemon(tmp_path, *paths)
    try:
        target = f"https://{running.address}"
        server = {"ca_certificate": tmp_path / "ca.pem", "domain_name": "capstan.test"}
        ada = {"tls_cert": (tmp_path / "ada.pem").read_bytes(), "tls_key": tmp_path / "ada.key"}
        with capstan.Client(target, **server, **ada) as client:
            assert client.info().caller == "cert:spiffe://example.org/ada"
        for settings in (server, {"domain_name": "capstan.test", **ada}):
            with (
                capstan.Client(target, retries=0, **settings) as client,
                pytest.raises(capstan.Unavailable),
            ):
                client.info()
    finally:
        running.kill()


def test_a_server_that_is_gone_is_unavailable(tmp_path):
    running = Daemon(tmp_path)
    with capstan.Client(running.target, retries=1) as client:
        client.info()
        running.kill()
        started = time.monotonic()
        with pytest.raises(capstan.Unavailable) as gone:
            client.ntt([1, 2])
        assert gone.value.is_retryable
        assert time.monotonic() - started < 5


def test_calls_go_on_after_a_restart(tmp_path):
    values = np.zeros((1 << 14, 32), np.uint8)
    values[0, 0] = 1
    points = [oracle.compressed(oracle.points([3])[0])]
    first = Daemon(tmp_path)
    with capstan.Client(first.unix_target) as client:
        for _ in range(3):
            before = client.ntt(values).values
        assert client.info().message.load.region_bytes > 0
        first.kill()
        second = Daemon(tmp_path)
        try:
            # The new server does not know the shared memory of the old one.
            for _ in range(5):
                assert (client.ntt(values).values == before).all()
                sums = client.msm(points, values[: 1 << 13], batch=1 << 13).points
                assert sums == [*points, *[oracle.INFINITIES["g1"]] * ((1 << 13) - 1)]
            assert client.info().message.load.region_bytes > 0
        finally:
            second.kill()


def test_a_busy_server_is_asked_again_for_shared_memory(tmp_path):
    path, size = str(tmp_path / "regions"), 4096
    opened = store_pb2.OpenRegionResponse(region_id=b"i" * 16, token=b"t" * 32, bytes=size)
    memory = os.memfd_create("region")
    os.truncate(memory, size)

    def serve(listener):
        listener.accept()[0].close()
        connection, _ = listener.accept()
        assert connection.recv(64) == opened.region_id + opened.token
        socket.send_fds(connection, [b"\x01"], [memory])
        return connection

    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(path)
        listener.listen()
        served = pool.submit(serve, listener)
        region = _region._map_region(path, opened)
        assert region.memory.nbytes == size
        region.close()
        served.result().close()
    os.close(memory)


def test_a_broken_upload_continues_where_it_stopped(daemon, many_scalars):
    payload = np.concatenate([many_scalars] * 8)
    proxy = BreakingProxy(daemon.address, break_after=payload.nbytes // 2)
    calls = []
    with capstan.Client(proxy.target) as client:
        vector = client.put_vector(payload, progress=lambda sent, total: calls.append(sent))
        assert proxy.connections >= 2
        # Bytes in the buffers of the broken connection may be sent again, the first ones are not.
        assert payload.nbytes <= proxy.forwarded < 1.25 * payload.nbytes
        assert calls[-1] == payload.nbytes
        assert (client.get_vector(vector) == payload).all()
        client.release(vector)
    proxy.close()


def test_a_server_far_away_can_be_reached(daemon):
    proxy = DelayingProxy(daemon.address, delay_s=0.15)
    # `localhost` may have two addresses, with no listener on the first one.
    for host in ("127.0.0.1", "localhost"):
        with capstan.Client(f"http://{host}:{proxy.port}", retries=0) as client:
            assert client.ntt([1, 0]).values.shape == (2, 32)
    proxy.close()


def test_a_call_ends_at_its_time_limit(client, many_scalars):
    started = time.monotonic()
    with pytest.raises(capstan.TimedOut) as late:
        client.put_vector(many_scalars, timeout=0.1, progress=lambda *_: time.sleep(0.2))
    assert time.monotonic() - started < 2
    assert isinstance(late.value, TimeoutError)
    assert late.value.reason == "DEADLINE"


def test_the_server_refuses_a_job_that_cannot_end_in_time(plain, many_bases, many_scalars):
    with pytest.raises(capstan.Exhausted) as early:
        plain.msm(many_bases, many_scalars, batch=4, timeout=0.03)
    assert early.value.reason == "DEADLINE_TOO_EARLY"
    assert plain.msm(many_bases[:16], oracle.random_scalars(16, seed=1)).points


def test_threads_share_a_client_and_wait_for_a_full_server(tmp_path, many_scalars):
    running = Daemon(tmp_path, "--jobs-max", "1", "--connection-jobs-max", "1")
    try:
        with capstan.Client(running.target, retries=0) as client:
            barrier = threading.Barrier(8)

            def transform(values):
                barrier.wait()
                return client.ntt(values)

            with ThreadPoolExecutor(8) as threads:
                calls = [threads.submit(transform, many_scalars) for _ in range(8)]
            refused = [call.exception() for call in calls if call.exception() is not None]
            assert refused
            for error in refused:
                assert isinstance(error, capstan.Exhausted)
                assert error.retry_after > 0
        with capstan.Client(running.target, retries=50) as client:
            expected = client.ntt(many_scalars).values
            with ThreadPoolExecutor(8) as threads:
                calls = [threads.submit(client.ntt, many_scalars) for _ in range(8)]
            for call in calls:
                assert (call.result().values == expected).all()
    finally:
        running.kill()


def test_priorities_are_accepted(daemon):
    for priority in ("urgent", "normal", "batch"):
        with capstan.Client(daemon.target, priority=priority) as client:
            assert client.ntt([1, 0]).values.shape == (2, 32)


def test_all_calls_of_a_client_have_one_affinity(daemon):
    def key(client):
        keys = [value for name, value in client._settings.metadata if name == "capstan-affinity"]
        (only,) = keys
        return only

    with (
        capstan.Client(daemon.target) as first,
        capstan.Client(daemon.target) as second,
        capstan.Client(daemon.target, affinity="proof-of-ada") as named,
    ):
        assert key(first) != key(second)
        assert key(named) == "proof-of-ada"
        assert named.ntt([1, 0]).values.shape == (2, 32)
