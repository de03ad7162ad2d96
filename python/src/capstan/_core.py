"""What the blocking and the asyncio client have in common."""

from typing import Any

from capstan import _channel
from capstan._calls import Method
from capstan._channel import Pem
from capstan._session import Session


class ClientCore:
    """Settings and connection of a client.

    Args:
        target: `http://host:port`, `https://host:port` or `unix:/path`.
        token: Bearer token that is sent with each call.
        allow_plaintext_token: Allow the token to be sent to other hosts over `http://`, where
            everyone on the way can read it.
        ca_certificate: PEM certificate of the authority that signed the server's certificate, or
            the path of its file; by default the roots that grpcio has. Only for `https://`.
        tls_cert: PEM chain of the client's certificate, leaf first, or its path.
        tls_key: PEM key of the client's certificate, or its path.
        domain_name: Name in the server's certificate, if it differs from the target's host.
        priority: Order among the calls of the same tenant: `urgent`, `normal` or `batch`.
        timeout: Seconds for each call, retries included, unless the call sets a limit.
        retries: How often a call is repeated if the server is unavailable or temporarily full.
        shared_memory: Whether large payloads may travel through memory that the server shares,
            which it does over its Unix socket only. Sharing begins with the second large payload.

    Raises:
        InvalidInput: The target, a certificate or an option is unusable.
    """

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
        priority: str = "normal",
        timeout: float | None = None,
        retries: int = 3,
        shared_memory: bool = True,
    ):
        self._settings = _channel.channel_settings(
            target,
            token=token,
            allow_plaintext_token=allow_plaintext_token,
            ca_certificate=ca_certificate,
            tls_cert=tls_cert,
            tls_key=tls_key,
            domain_name=domain_name,
            priority=priority,
        )
        self._session = Session(target, timeout, retries, shared_memory)
        self._stubs: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.target!r})"

    def _stub(self, channel: Any, method: Method) -> Any:
        """Return grpcio's callable for a method."""
        if method.path not in self._stubs:
            sends = "stream" if method.sends_stream else "unary"
            receives = "stream" if method.receives_stream else "unary"
            self._stubs[method.path] = getattr(channel, f"{sends}_{receives}")(
                method.path,
                request_serializer=method.serialize,
                response_deserializer=method.deserialize,
            )
        return self._stubs[method.path]
