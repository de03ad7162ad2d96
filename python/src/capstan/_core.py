"""What the blocking and the asyncio client have in common."""

import ctypes
import os
import threading
import weakref
from types import ModuleType
from typing import Any

import grpc

from capstan import _channel, errors
from capstan._arguments import Count, Priority, Seconds, checked
from capstan._calls import Method
from capstan._channel import Pem
from capstan._session import Session

# The first process that has used grpcio's asyncio, whose state does not survive a fork.
_asyncio_process: dict[str, int] = {}
# The clients of this process, whose state a child process must not use.
_clients: "weakref.WeakSet[ClientCore]" = weakref.WeakSet()


class ClientCore:
    """Settings of a client."""

    @checked
    def __init__(
        self,
        target: str = "http://127.0.0.1:7654",
        *,
        token: str | None = None,
        allow_plaintext_token: bool = False,
        ca_certificate: Pem | None = None,
        tls_cert: Pem | None = None,
        tls_key: Pem | None = None,
        domain_name: str | None = None,
        priority: Priority = "normal",
        affinity: str | None = None,
        timeout: Seconds | None = None,
        retries: Count = 3,
        shared_memory: bool = True,
    ):
        """Check the settings; the first call connects.

        Args:
            target: `http://host:port`, `https://host:port` or `unix:/path`.
            token: Bearer token that is sent with each call.
            allow_plaintext_token: Allow the token to be sent to other hosts over `http://`, where
                everyone on the way can read it.
            ca_certificate: PEM certificate of the authority that signed the server's certificate,
                or its path; by default the roots that grpcio has. Only for `https://`.
            tls_cert: PEM chain of the client's certificate, leaf first, or its path.
            tls_key: PEM key of the client's certificate, or its path.
            domain_name: Name in the server's certificate, if it differs from the target's host.
            priority: Order among the calls of the same tenant: `urgent`, `normal` or `batch`.
            affinity: Name by which a proxy in front of several servers chooses one: calls with the
                same name reach the same server. The proxy sees it, so it must not be secret. By
                default, each client has a random name.
            timeout: Seconds for each call, retries included, unless the call sets a limit.
            retries: How often a call is repeated if the server is unavailable or temporarily full.
            shared_memory: Whether large payloads may travel through memory that the server shares,
                which it does over its Unix socket only, from the second large payload on.

        Raises:
            InvalidInput: The target, a certificate or an option is unusable.
        """
        self._settings = _channel.channel_settings(
            target,
            token=token,
            allow_plaintext_token=allow_plaintext_token,
            ca_certificate=ca_certificate,
            tls_cert=tls_cert,
            tls_key=tls_key,
            domain_name=domain_name,
            priority=priority,
            affinity=affinity,
        )
        self._is_affinity_random = affinity is None
        self._session = Session(target, timeout, retries, shared_memory)
        self._stubs: dict[str, Any] = {}
        self._lock = threading.Lock()
        # Opened by the first call, since a channel of asyncio belongs to an event loop.
        self._channel: Any = None
        _clients.add(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.target!r})"

    def _stub(self, library: ModuleType, method: Method) -> Any:
        """Return the callable of `grpc` or `grpc.aio` for a method."""
        with self._lock:
            if self._channel is None:
                if (
                    library is not grpc
                    and _asyncio_process.setdefault("id", os.getpid()) != os.getpid()
                ):
                    raise errors.forked_asyncio()
                self._channel = _channel.open_channel(library, self._settings)
            if method.path not in self._stubs:
                sends = "stream" if method.sends_stream else "unary"
                receives = "stream" if method.receives_stream else "unary"
                self._stubs[method.path] = getattr(self._channel, f"{sends}_{receives}")(
                    method.path,
                    request_serializer=method.serialize,
                    response_deserializer=method.deserialize,
                )
            return self._stubs[method.path]

    def _forget_parent(self) -> None:
        """Drop in a child process what belongs to its parent: regions, connection, locks."""
        self._session.forget_parent()
        for inherited in (self._channel, *self._stubs.values()):
            # Never freed: destroying the channel would shut down the parent's connection.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
        self._channel, self._stubs, self._lock = None, {}, threading.Lock()
        if self._is_affinity_random:
            self._settings = _channel.with_new_affinity(self._settings)


def _forget_parents() -> None:
    for client in _clients:
        client._forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
