"""Errors of calls, and what the caller can do about them."""

import re
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS = "grpc-status-details-bin"
_REQUEST_ID = "x-request-id"
# A server may send any time; Python cannot wait longer than some centuries.
_RETRY_AFTER_MAX_S = 1e9
# The server refused the call before it began to compute.
_REFUSALS = frozenset(
    (
        "BYTES_IN_FLIGHT",
        "OPEN_CALLS",
        "CONNECTION_BYTES",
        "JOBS",
        "CONNECTION_JOBS",
        "CONNECTION_UPLOADS",
        "UPLOAD_STREAMS",
        "UPLOADS",
        "TENANT_QUOTA",
        "DEADLINE_TOO_EARLY",
        "DRAINING",
        "LOADING",
        "OTHER_SERVER",
    )
)
_ELEMENT = re.compile(r"(.*)\[(\d+)\]")


class CapstanError(Exception):
    """A call failed. The message never contains scalars or credentials.

    Attributes:
        code: The gRPC code that describes the error best.
        reason: `ErrorInfo.reason` of the server, such as `NOT_CANONICAL`, which `types.proto`
            lists; empty if there is none.
        field: The invalid field or argument, such as `scalars`, or None.
        index: Index of the first invalid element of the field, or None.
        retry_after: Seconds to wait before a retry, if the server sent a delay, otherwise None.
        request_id: The call's id in the server's log, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode,
        reason: str = "",
        field: str | None = None,
        index: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
    ):
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.field = field
        self.index = index
        self.retry_after = retry_after
        self.request_id = request_id

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, an exception is copied and pickled as its positional arguments only.
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        notes = [self.reason] if self.reason else []
        if self.retry_after is not None:
            notes.append(f"retry delay {1000 * self.retry_after:.0f} ms")
        message = super().__str__()
        return f"{message} ({', '.join(notes)})" if notes else message

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later: the server is unreachable or full."""
        if self.code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return self.retry_after is not None
        return self.code == grpc.StatusCode.UNAVAILABLE

    @property
    def is_before_start(self) -> bool:
        """Whether the server refused the call before it began to compute."""
        return self.reason in _REFUSALS

    @property
    def is_region_unknown(self) -> bool:
        """Whether the server does not know the shared memory: it has restarted, or is another."""
        return self.field is not None and self.field.endswith("region_id")


class InvalidInput(CapstanError):
    """An argument is invalid: `field` and `index` say which part. A retry fails again."""


class NotFound(CapstanError):
    """The server does not have the object: it was released or evicted, or the server restarted."""


class Exhausted(CapstanError):
    """A limit of the server or of the caller's tenant is reached."""


class Unavailable(CapstanError):
    """The server cannot be reached, drains or lost a device. The call is safe to retry."""


class TimedOut(CapstanError, TimeoutError):
    """The time limit of the call passed."""


class AccessDenied(CapstanError):
    """The credentials are missing or invalid, or they do not allow the call."""


class VerificationFailed(CapstanError):
    """The result failed its check on the server, which discarded it."""


class InvalidResponse(CapstanError):
    """The response is invalid: the server has another version or is another service."""


_CLASSES: dict[grpc.StatusCode, type[CapstanError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidInput,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Exhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: TimedOut,
    grpc.StatusCode.UNAUTHENTICATED: AccessDenied,
    grpc.StatusCode.PERMISSION_DENIED: AccessDenied,
    grpc.StatusCode.DATA_LOSS: VerificationFailed,
}


def _restored(
    kind: type[CapstanError], args: tuple[str], attributes: dict[str, Any]
) -> CapstanError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def invalid(
    field: str, problem: str, *, index: int | None = None, reason: str = ""
) -> InvalidInput:
    """Return the error of an argument that is invalid; nothing was sent."""
    path = field if index is None else f"{field}[{index}]"
    code = grpc.StatusCode.INVALID_ARGUMENT
    return InvalidInput(f"{path}: {problem}", code=code, reason=reason, field=field, index=index)


def wrong_length(field: str, expected: int, got: int) -> InvalidInput:
    """Return the error of an argument with the wrong number of elements."""
    return invalid(field, f"expected {expected} elements, got {got}", reason="LENGTH_MISMATCH")


def invalid_response(problem: str) -> InvalidResponse:
    """Return the error of a response that no Capstan server of this version sends."""
    return InvalidResponse(f"invalid response: {problem}", code=grpc.StatusCode.INTERNAL)


def forked_asyncio() -> CapstanError:
    """Return the error of an asyncio client in a child of a process that has used one."""
    message = (
        "grpcio's asyncio does not work in a process that was forked from one that used it: "
        "start processes with the method spawn, or use capstan.Client"
    )
    return CapstanError(message, code=grpc.StatusCode.FAILED_PRECONDITION)


def timed_out() -> TimedOut:
    """Return the error of a call whose time limit passed."""
    code = grpc.StatusCode.DEADLINE_EXCEEDED
    message = "the time limit passed: allow more time, or send less"
    return TimedOut(message, code=code, reason="DEADLINE")


def from_rpc(error: Any) -> CapstanError:
    """Convert an error of grpcio, of a blocking call or of an asyncio one."""
    # Not `dict(...)`: the metadata of asyncio has keys, which older versions list as pairs.
    metadata = {key: value for key, value in error.trailing_metadata() or ()}  # noqa: C416
    status = status_pb2.Status.FromString(metadata.get(_DETAILS, b""))
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    retry_after = None
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(bad)
        if detail.Unpack(retry):
            delay = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
            retry_after = min(max(delay, 0.0), _RETRY_AFTER_MAX_S)
    code = error.code()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED and not info.reason:
        return timed_out()
    path = bad.field_violations[0].field if bad.field_violations else None
    # The path of an element is like `scalars[7]`.
    element = _ELEMENT.fullmatch(path or "")
    return _CLASSES.get(code, CapstanError)(
        error.details() or code.name,
        code=code,
        reason=info.reason,
        field=element[1] if element else path,
        index=int(element[2]) if element else None,
        retry_after=retry_after,
        request_id=metadata.get(_REQUEST_ID),
    )
