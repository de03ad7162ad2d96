import multiprocessing
import os
import pickle

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


# Has the client of a pool's processes, which they have from their parent.
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

    # The child does not map them.
    assert in_a_child(closing) == [0] * len(regions)
    assert [region.memory[-1] for region in regions] == [77] * len(regions)
    for region, mark in zip(regions, marked, strict=True):
        region.memory[-1] = mark
    channel = warm._channel
    assert np.array_equal(warm.ntt(rows(1)).values, expected)
    assert warm._channel is channel


def test_a_child_that_ends_as_programs_do_leaves_the_connection(warm):
    expected = warm.ntt(rows(1)).values
    child = multiprocessing.get_context("fork").Process(target=warm.info)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert np.array_equal(warm.ntt(rows(1)).values, expected)


def _refused(batch):
    return _inherited[0].ntt([1, 2], batch=batch)


def test_errors_reach_the_parent_of_a_pool(warm):
    pool = multiprocessing.get_context("fork").Pool(1)
    with pool, pytest.raises(capstan.InvalidInput) as caught:
        pool.map_async(_refused, [3]).get(60)
    assert caught.value.field == "values"
