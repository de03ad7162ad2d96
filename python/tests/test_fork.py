import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import capstan

_LENGTH = 1 << 13
_CHILDREN = 3


def rows(seed):
    elements = np.random.default_rng(seed).integers(0, 256, (_LENGTH, 32), dtype=np.uint8)
    elements[:, 31] = 0
    return elements


@pytest.fixture
def warm(client):
    """A client that has a connection and, if it uses it, shared memory."""
    for _ in range(3):
        client.ntt(rows(0))
    return client


def in_a_child(work):
    """Run `work` in a child that ends without Python's cleanup; return what it returned."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as result:
        outcome = result.read()
    os.waitpid(child, 0)
    return pickle.loads(outcome)


def is_right(client, seed, expected):
    return all(np.array_equal(client.ntt(rows(seed)).values, expected) for _ in range(10))


def test_children_compute_with_memory_of_their_own(warm):
    expected = [warm.ntt(rows(seed)).values for seed in range(_CHILDREN)]
    with multiprocessing.get_context("fork").Pool(_CHILDREN) as pool:
        running = [
            pool.apply_async(_transform, (seed, expected[seed])) for seed in range(_CHILDREN)
        ]
        # The parent's calls go on meanwhile.
        assert is_right(warm, 0, expected[0])
        assert all(outcome.get(60) for outcome in running)
    assert is_right(warm, 0, expected[0])


# Has the client that the processes of a pool inherit.
_inherited = []


@pytest.fixture(autouse=True)
def _inherit(warm):
    _inherited.append(warm)
    yield
    _inherited.clear()


def _transform(seed, expected):
    return is_right(_inherited[0], seed, expected)


def test_a_child_that_closes_the_client_leaves_its_parents_memory_and_connection(warm):
    expected = warm.ntt(rows(1)).values
    limits = warm._session._limits
    regions = [staged.region for staged in limits.staging._regions]
    marked = [region.memory[-1] for region in regions]
    for region in regions:
        region.memory[-1] = 77

    def closing():
        warm.close()
        return [region.memory.size for region in regions]

    uses_regions = warm._session.shared_memory and "unix" in warm._session.target
    assert bool(regions) == uses_regions
    # The child does not map them.
    assert in_a_child(closing) == [0] * len(regions)
    assert [region.memory[-1] for region in regions] == [77] * len(regions)
    for region, mark in zip(regions, marked, strict=True):
        region.memory[-1] = mark
    assert np.array_equal(warm.ntt(rows(1)).values, expected)


_ENDS_AS_PROGRAMS_DO = """
import os, sys, time
import capstan

client = capstan.Client(sys.argv[1], retries=0)
client.info()
child = os.fork()
client.info()
if child == 0:
    # Python drops all objects.
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
client.info()
"""


def test_a_child_that_ends_as_programs_do_leaves_the_connection(daemon):
    for target in (daemon.target, daemon.unix_target):
        command = [sys.executable, "-c", _ENDS_AS_PROGRAMS_DO, target]
        subprocess.run(command, check=True, timeout=60)


_ASYNCIO = """
import asyncio, os, sys
from capstan import CapstanError, aio


async def info():
    async with aio.Client(sys.argv[1]) as client:
        return await client.info()


asyncio.run(info())
if os.fork() == 0:
    try:
        asyncio.run(info())
    except CapstanError as error:
        os._exit(7 if "spawn" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
asyncio.run(info())
"""


def test_an_asyncio_client_says_that_it_cannot_cross_a_fork(daemon):
    command = [sys.executable, "-c", _ASYNCIO, daemon.target]
    subprocess.run(command, check=True, timeout=60)


def test_children_choose_another_affinity_unless_it_is_named(daemon):
    for name in (None, "proof-of-ada"):
        with capstan.Client(daemon.target, affinity=name) as client:
            inherited = in_a_child(lambda client=client: client._settings.metadata[0][1])
            assert (inherited == client._settings.metadata[0][1]) == (name is not None)


def _refused(batch):
    return _inherited[0].ntt([1, 2], batch=batch)


def test_errors_reach_the_parent_of_a_pool(warm):
    pool = multiprocessing.get_context("fork").Pool(1)
    with pool, pytest.raises(capstan.InvalidInput) as caught:
        pool.map_async(_refused, [3]).get(60)
    assert caught.value.field == "values"
