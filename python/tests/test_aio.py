import asyncio
import inspect
import time

import oracle
import pytest

import capstan
from capstan import aio


@pytest.fixture(params=["tcp", "unix"])
async def client(request, daemon):
    target = daemon.target if request.param == "tcp" else daemon.unix_target
    async with aio.Client(target) as opened:
        yield opened


def test_both_clients_have_the_same_methods():
    def methods(kind):
        return {
            name: inspect.signature(method)
            for name, method in vars(kind).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }

    assert methods(aio.Client) == methods(capstan.Client)
    assert "scalars[i] * bases[i]" in aio.Client.msm.__doc__


async def test_results_equal_those_of_the_oracle(client, bases, points):
    scalars = oracle.random_scalars(16, seed=1)
    result = await client.msm(bases, scalars)
    assert result.point == oracle.compressed(oracle.msm(points, scalars))
    values = oracle.random_scalars(8, seed=2)
    assert capstan.integers((await client.ntt(values)).values) == oracle.ntt(values)
    opening = await client.kzg_open(bases, values, 3)
    assert opening.value == oracle.evaluate(values, 3)


async def test_large_payloads_travel_in_any_way(client, many_bases, many_scalars, many_sums):
    for _ in range(3):
        assert (await client.msm(many_bases, many_scalars, batch=4)).points == many_sums
        calls = []
        forward = await client.ntt(many_scalars, progress=lambda *c, calls=calls: calls.append(c))
        assert calls[-1] == (2 * many_scalars.nbytes, 2 * many_scalars.nbytes)
        back = await client.ntt(forward.values, direction="inverse", out=forward.values)
        assert (back.values == many_scalars).all()
    vector = await client.put_vector(many_scalars)
    assert (await client.get_vector(vector) == many_scalars).all()
    await client.release(vector)


async def test_calls_run_at_the_same_time(client, bases, points):
    scalars = [oracle.random_scalars(16, seed=seed) for seed in range(3)]
    results = await asyncio.gather(*(client.msm(bases, vector) for vector in scalars))
    for vector, result in zip(scalars, results, strict=True):
        assert result.point == oracle.compressed(oracle.msm(points, vector))


async def test_errors_name_field_and_index(client, bases):
    elements = capstan.scalars([1] * 16)
    elements[7] = 0xFF
    with pytest.raises(capstan.InvalidInput) as refused:
        await client.msm(bases, elements)
    assert (refused.value.reason, refused.value.index) == ("NOT_CANONICAL", 7)


async def test_an_error_of_the_progress_callback_reaches_the_caller(client, many_scalars):
    def fail(sent, total):
        raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await client.ntt(many_scalars, progress=fail)


async def test_a_cancelled_call_ends_on_the_server_too(client, many_bases, many_scalars, many_sums):
    for _ in range(3):
        call = asyncio.create_task(client.msm(many_bases, many_scalars, batch=4))
        await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    deadline = time.monotonic() + 5
    while (await client.info()).message.load.jobs > 0:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert (await client.msm(many_bases, many_scalars, batch=4)).points == many_sums


async def test_a_call_ends_at_its_time_limit(client, many_scalars):
    with pytest.raises(capstan.TimedOut):
        await client.put_vector(many_scalars, timeout=0.1, progress=lambda *_: time.sleep(0.2))


async def test_a_server_that_is_gone_is_unavailable(tmp_path):
    async with aio.Client(f"unix:{tmp_path}/none.sock", retries=0) as client:
        with pytest.raises(capstan.Unavailable):
            await client.info()
