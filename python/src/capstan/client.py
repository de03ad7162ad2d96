"""The blocking client."""

import functools
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from capstan import _admin, _groth16, _kzg, _msm, _ntt, _run, _store, errors
from capstan._calls import Blocking, Call, MessageFeed, Pause, Rpc
from capstan._core import ClientCore
from capstan._session import Session

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[Session, P], Call[T]],
) -> Callable[Concatenate["Client", P], T]:
    """Make a method that runs a call to its end."""

    @functools.wraps(call)
    def method(self: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        return self._complete(call(self._session, *args, **kwargs))

    return method


class Client(ClientCore):
    """A client of a Capstan server. Threads may share it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. No call may be in progress."""
        if self._channel is not None:
            self._channel.close()
        self._session.close()

    info = _blocking(_admin.info)
    put_bases = _blocking(_store.put_bases)
    get_bases = _blocking(_store.get_bases)
    put_matrix = _blocking(_store.put_matrix)
    put_vector = _blocking(_store.put_vector)
    get_vector = _blocking(_store.get_vector)
    find = _blocking(_store.find)
    list = _blocking(_store.list_objects)
    release = _blocking(_store.release)
    set_residency = _blocking(_store.set_residency)
    msm = _blocking(_msm.msm)
    ntt = _blocking(_ntt.ntt)
    run = _blocking(_run.run)
    kzg_commit = _blocking(_kzg.kzg_commit)
    kzg_open = _blocking(_kzg.kzg_open)
    groth16_key = _blocking(_groth16.groth16_key)
    groth16_prove = _blocking(_groth16.groth16_prove)

    def _complete(self, call: Call[T]) -> T:
        proceed, outcome = call.send, None
        while True:
            try:
                step = proceed(outcome)
            except StopIteration as end:
                return end.value
            try:
                proceed, outcome = call.send, self._perform(step)
            except BaseException as error:
                proceed, outcome = call.throw, error

    def _perform(self, step: Rpc | Pause | Blocking) -> Any:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        if isinstance(step, Blocking):
            return step.function()
        try:
            return self._call(step)
        except BaseException as error:
            if isinstance(step.request, MessageFeed) and step.request.error is not None:
                raise step.request.error from None
            if isinstance(error, grpc.RpcError):
                raise errors.from_rpc(error) from None
            raise

    def _call(self, rpc: Rpc) -> Any:
        stub = self._stub(grpc, rpc.method)
        settings = {"timeout": rpc.timeout, "metadata": self._settings.metadata}
        if not rpc.method.sends_stream and not rpc.method.receives_stream:
            return stub(rpc.request, **settings)
        if not rpc.method.receives_stream:
            pending = stub.future(rpc.request, **settings)
            try:
                return pending.result()
            except BaseException:
                pending.cancel()
                raise
        responses = stub(rpc.request, **settings)
        try:
            for response in responses:
                rpc.receive(response)
        except BaseException:
            responses.cancel()
            raise
        return None
