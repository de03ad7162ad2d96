"""Targets, credentials and options of channels."""

import codecs
import dataclasses
import ipaddress
import os
import secrets
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import SplitResult, urlsplit

import grpc

from capstan import errors
from capstan._arguments import read_file

_MIB = 1 << 20
_AFFINITY = "capstan-affinity"
# The most that Linux allows.
_SOCKET_BYTES_MAX = 107
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
    socket = unix_socket(target)
    url = _url(target) if socket is None else SplitResult("unix", "", socket, "", "")
    if socket is not None:
        _check_socket(socket)
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
    if socket is not None:
        # The default authority of Unix sockets in grpcio is the path, which HTTP/2 servers refuse.
        options.append(("grpc.default_authority", "localhost"))
        address = f"unix:{socket}"
    else:
        default_port = 443 if url.scheme == "https" else 80
        host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        address = f"{host}:{url.port or default_port}"
    credentials = None
    if url.scheme == "https":
        if domain_name is not None:
            options.append(("grpc.ssl_target_name_override", domain_name))
        if (tls_cert is None) != (tls_key is None):
            raise errors.invalid("tls_key", "tls_cert and tls_key need each other")
        credentials = grpc.ssl_channel_credentials(
            _pem("ca_certificate", ca_certificate, b"CERTIFICATE"),
            _pem("tls_key", tls_key, b"PRIVATE KEY"),
            _pem("tls_cert", tls_cert, b"CERTIFICATE"),
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


def _url(target: str) -> SplitResult:
    try:
        url = urlsplit(target)
        is_whole = url.hostname and url.port != 0 and url.path in ("", "/")
        is_plain = target.isprintable() and not any(character.isspace() for character in target)
    except ValueError as error:
        raise errors.invalid("target", str(error)) from None
    extras = (url.username, url.password, url.query or None, url.fragment or None)
    has_extras = any(extra is not None for extra in extras)
    if url.scheme not in ("http", "https") or not is_whole or not is_plain or has_extras:
        problem = "expected http://host:port, https://host:port or unix:/path"
        raise errors.invalid("target", problem)
    return url


def _check_socket(path: str) -> None:
    if not path or "\0" in path:
        raise errors.invalid("target", "expected unix:/path")
    if len(os.fsencode(path)) > _SOCKET_BYTES_MAX:
        problem = f"the path of the socket is longer than {_SOCKET_BYTES_MAX} bytes"
        raise errors.invalid("target", problem)


def _pem(name: str, value: Pem | None, label: bytes) -> bytes | None:
    """Return PEM data, which must have a section whose label ends like `label`."""
    if value is None:
        return None
    data = value
    if not isinstance(value, bytes):
        # Not repeated in an error: it may be a key.
        path = os.fsdecode(value)
        if "-----BEGIN" in path:
            raise errors.invalid(name, "expected a path; PEM data must be bytes")
        data = read_file(name, path)
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"ENCRYPTED" in data and label == b"PRIVATE KEY":
        raise errors.invalid(name, "the key is encrypted: decrypt it with `openssl pkey`")
    if label + b"-----" not in data:
        raise errors.invalid(name, f"has no {label.decode().lower()} in PEM")
    return data


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
