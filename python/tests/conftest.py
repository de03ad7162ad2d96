import numpy as np
import oracle
import pytest
from daemon import Daemon

import capstan

POINTS = 16
# Enough copies of the points, and vectors of scalars, to exceed one message.
COPIES = 1 << 9
VECTORS = 4


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    # The smallest messages, so that payloads take several.
    flags = ("--message-payload-bytes-max", "512 KiB")
    running = Daemon(tmp_path_factory.mktemp("daemon"), *flags)
    yield running
    running.kill()


@pytest.fixture(params=["tcp", "unix", "messages"])
def client(request, daemon):
    """A client over TCP, with shared memory, and over the same socket without it."""
    target = daemon.target if request.param == "tcp" else daemon.unix_target
    with capstan.Client(target, shared_memory=request.param != "messages") as opened:
        yield opened


@pytest.fixture(scope="session")
def plain(daemon):
    with capstan.Client(daemon.target) as opened:
        yield opened


@pytest.fixture(scope="session")
def logarithms():
    return oracle.random_scalars(POINTS, seed=1)


@pytest.fixture(scope="session")
def points(logarithms):
    return oracle.points(logarithms)


@pytest.fixture(scope="session")
def bases(plain, points):
    return plain.put_bases([oracle.compressed(point) for point in points], label="sixteen")


@pytest.fixture(scope="session")
def many_points(points):
    """Uncompressed points, which take several messages."""
    encoded = b"".join(oracle.uncompressed(point) for point in points)
    return np.tile(np.frombuffer(encoded, dtype=np.uint8).reshape(POINTS, 96), (COPIES, 1))


@pytest.fixture(scope="session")
def many_bases(plain, many_points):
    return plain.put_bases(many_points)


@pytest.fixture(scope="session")
def many_scalars():
    """Vectors of one scalar for each of the many points, one after another."""
    shape = (VECTORS, POINTS * COPIES, 32)
    elements = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    elements[0, :, 31] &= 0x3F
    # Short scalars save time.
    elements[1:, :, 4:] = 0
    return elements.reshape(-1, 32)


@pytest.fixture(scope="session")
def many_sums(points, many_scalars):
    """The sum of each vector."""
    sums = []
    for vector in many_scalars.reshape(VECTORS, -1, 32):
        of_each = [0] * POINTS
        for index, scalar in enumerate(capstan.integers(vector)):
            of_each[index % POINTS] += scalar
        sums.append(oracle.compressed(oracle.msm(points, of_each)))
    return sums
