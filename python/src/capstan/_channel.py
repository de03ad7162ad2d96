"""Targets, credentials and options of channels."""

import dataclasses
import ipaddress
import os
import secrets
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import grpc

from capstan import errors

_MIB = 1 << 20
_AFFINITY = "capstan-affinity"
# The largest payload that a server can be configured to send in one message, and its envelope.
_RESPONSE_BYTES_MAX = 64 * _MIB + (64 << 10)

# PEM data, or the path of a file that contains it.
Pem = bytes | str | os.PathLike


@dataclass(frozen=True)
class ChannelSettings:
    """The address of the server, and the credentials of the client."""

    address: str
    credentials: grpc.ChannelCredentials | None
    options: list[tuple[str, int | str]]
    # Sent with each call; has the token.
    metadata: tuple[tuple[str, str], ...] = field(repr=False)


def unix_socket(target: str) -> str | None:
    """Return the path of a target on a Unix socket."""
    if not target.startswith("unix:"):
        return None
    return target.removeprefix("unix:").removeprefix("//")


def channel_settings(
    target: str,
    *,
    token: str | None,
    allow_plaintext_token: bool,
    ca_certificate: Pem | None,
    tls_cert: Pem | None,
    tls_key: Pem | None,
    domain_name: str | None,
    priority: str,
    affinity: str | None,
) -> ChannelSettings:
    """Check what the caller of a client's constructor specified."""
    url = urlsplit(target)
    if url.scheme not in ("http", "https", "unix"):
        problem = "expected http://host:port, https://host:port or unix:/path"
        raise errors.invalid("target", problem)
    options: list[tuple[str, int | str]] = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", _RESPONSE_BYTES_MAX),
        # Larger frames and a larger window than the defaults: fewer wakeups.
        ("grpc.http2.max_frame_size", _MIB // 2),
        ("grpc.http2.lookahead_bytes", 4 * _MIB),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # Despite its name, this limits one attempt to connect, which takes several round trips.
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        # Witnesses must not reach a proxy that some variable of the environment names.
        ("grpc.enable_http_proxy", 0),
        # Each client has its own connection, which ends with the client.
        ("grpc.use_local_subchannel_pool", 1),
        # This client retries by itself.
        ("grpc.enable_retries", 0),
    ]
    socket = unix_socket(target)
    if socket is not None:
        # The default authority of Unix sockets in grpcio is the path, which HTTP/2 servers refuse.
        options.append(("grpc.default_authority", "localhost"))
        address = f"unix:{socket}"
    else:
        if not url.hostname:
            raise errors.invalid("target", "the host is missing")
        default_port = 443 if url.scheme == "https" else 80
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        address = f"{host}:{url.port or default_port}"
    credentials = None
    if url.scheme == "https":
        if domain_name is not None:
            options.append(("grpc.ssl_target_name_override", domain_name))
        credentials = grpc.ssl_channel_credentials(
            _pem(ca_certificate), _pem(tls_key), _pem(tls_cert)
        )
    elif any(value is not None for value in (ca_certificate, tls_cert, tls_key, domain_name)):
        raise errors.invalid("target", "does not use TLS: use https://host:port")
    metadata = [(_AFFINITY, _affinity_key(affinity))]
    if token is not None:
        is_plaintext = url.scheme == "http" and not _is_loopback(url.hostname or "")
        if is_plaintext and not allow_plaintext_token:
            problem = (
                "would be sent in plain text to another host: use https://, or set "
                "allow_plaintext_token if the network is trusted"
            )
            raise errors.invalid("token", problem)
        if not token or not all("!" <= character <= "~" for character in token):
            raise errors.invalid("token", "must be visible ASCII characters without spaces")
        metadata.append(("authorization", f"Bearer {token}"))
    if priority != "normal":
        metadata.append(("capstan-priority", priority))
    return ChannelSettings(address, credentials, options, tuple(metadata))


def with_new_affinity(settings: ChannelSettings) -> ChannelSettings:
    """Return the settings with another random affinity."""
    metadata = tuple(
        (key, _affinity_key(None) if key == _AFFINITY else value)
        for key, value in settings.metadata
    )
    return dataclasses.replace(settings, metadata=metadata)


def open_channel(library: ModuleType, settings: ChannelSettings) -> Any:
    """Open a channel of `grpc` or `grpc.aio`. It connects when it is first used."""
    if settings.credentials is None:
        return library.insecure_channel(settings.address, settings.options)
    return library.secure_channel(settings.address, settings.credentials, settings.options)


def _affinity_key(name: str | None) -> str:
    if name is None:
        return secrets.token_hex(16)
    if not 1 <= len(name) <= 128 or not all("!" <= character <= "~" for character in name):
        raise errors.invalid("affinity", "must have 1 to 128 visible ASCII characters")
    return name


def _pem(value: Pem | None) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    with open(value, "rb") as file:
        return file.read()


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
