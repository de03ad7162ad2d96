"""Information about the server."""

from dataclasses import dataclass

from capstan import _calls
from capstan._arguments import Seconds, checked
from capstan._calls import Call
from capstan._session import Session
from capstan.v1 import admin_pb2


@dataclass(frozen=True)
class ServerInfo:
    """What the server says of itself.

    Attributes:
        version: Such as `0.1.0`.
        engine: The engine that computes jobs, such as `cpu`.
        engine_reason: Why the server chose that engine.
        devices: Names of the devices.
        caller: How the server knows the caller, such as `uid:1000`.
        tenant: The tenant that the caller's calls count for.
        is_draining: Whether the server refuses new work.
        message: The whole response, with limits, load and GPUs, as `admin.proto` documents it.
    """

    version: str
    engine: str
    engine_reason: str
    devices: list[str]
    caller: str
    tenant: str
    is_draining: bool
    message: admin_pb2.GetInfoResponse


@checked
def info(session: Session, *, timeout: Seconds | None = None) -> Call[ServerInfo]:
    """Ask the server for its version, engine, devices, limits and load.

    Raises:
        Unavailable: The server cannot be reached.
        AccessDenied: The credentials are missing or invalid.
    """
    budget = session.begin(timeout)
    response = yield from _calls.unary(_calls.GET_INFO, admin_pb2.GetInfoRequest(), budget)
    return ServerInfo(
        version=response.version,
        engine=response.engine,
        engine_reason=response.engine_reason,
        devices=[device.name for device in response.devices],
        caller=response.caller.subject,
        tenant=response.caller.tenant,
        is_draining=response.draining,
        message=response,
    )
