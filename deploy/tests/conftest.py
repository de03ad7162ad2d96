import functools

import pytest
from cases import CASES
from chart import Manifests
from daemon import Daemon, new_tokens
from pki import Authority


@functools.cache
def _manifests(case):
    values = CASES[case]
    if values.get("auth", {}).get("tokens", {}).get("content"):
        values = values | {"auth": {"tokens": {"content": new_tokens()}}}
    return Manifests(values)


@pytest.fixture(params=CASES)
def case(request):
    return request.param


@pytest.fixture
def manifests(case):
    return _manifests(case)


@pytest.fixture
def manifests_of():
    return _manifests


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    # The smallest store, so that bases can be refused.
    running = Daemon(tmp_path_factory.mktemp("daemon"), "--store-bytes-max", "1 MiB")
    yield running
    running.kill()
