"""The asyncio client: the methods of `capstan.Client`, to be awaited."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc
import grpc.aio

from capstan import _admin, _groth16, _kzg, _msm, _ntt, _run, _store, errors
from capstan._calls import Blocking, Call, MessageFeed, Pause, Rpc
from capstan._core import ClientCore
from capstan._session import Session

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    call: Callable[Concatenate[Session, P], Call[T]],
) -> Callable[Concatenate["Client", P], Coroutine[Any, Any, T]]:
    """Make a method that runs a call to its end in the event loop."""

    @functools.wraps(call)
    async def method(self: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._complete(call(self._session, *args, **kwargs))

    return method


class Client(ClientCore):
    """A client of a Capstan server for one event loop."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. No call may be in progress."""
        if self._channel is not None:
            await self._channel.close()
        self._session.close()

    info = _awaited(_admin.info)
    put_bases = _awaited(_store.put_bases)
    get_bases = _awaited(_store.get_bases)
    put_matrix = _awaited(_store.put_matrix)
    put_vector = _awaited(_store.put_vector)
    get_vector = _awaited(_store.get_vector)
    find = _awaited(_store.find)
    list = _awaited(_store.list_objects)
    release = _awaited(_store.release)
    set_residency = _awaited(_store.set_residency)
    msm = _awaited(_msm.msm)
    ntt = _awaited(_ntt.ntt)
    run = _awaited(_run.run)
    kzg_commit = _awaited(_kzg.kzg_commit)
    kzg_open = _awaited(_kzg.kzg_open)
    groth16_key = _awaited(_groth16.groth16_key)
    groth16_prove = _awaited(_groth16.groth16_prove)

    async def _complete(self, call: Call[T]) -> T:
        proceed, outcome = call.send, None
        while True:
            try:
                step = proceed(outcome)
            except StopIteration as end:
                return end.value
            try:
                proceed, outcome = call.send, await self._perform(step)
            except BaseException as error:
                proceed, outcome = call.throw, error

    async def _perform(self, step: Rpc | Pause | Blocking) -> Any:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Blocking):
            return await asyncio.to_thread(step.function)
        try:
            return await self._call(step)
        except BaseException as error:
            # grpcio reports an error of a request stream as a cancellation.
            if isinstance(step.request, MessageFeed) and step.request.error is not None:
                raise step.request.error from None
            if isinstance(error, grpc.RpcError):
                raise errors.from_rpc(error) from None
            raise

    async def _call(self, rpc: Rpc) -> Any:
        stub = self._stub(grpc.aio, rpc.method)
        pending = stub(rpc.request, timeout=rpc.timeout, metadata=self._settings.metadata)
        try:
            if not rpc.method.receives_stream:
                return await pending
            async for response in pending:
                rpc.receive(response)
        except BaseException:
            pending.cancel()
            raise
        return None
