"""Checks the arguments of calls by their types, before anything is allocated or sent.

An annotation is the rule: `Literal` lists words, `Annotated[int, Within(...)]` bounds a number, and
a class or a sequence accepts nothing else. Encoders check the shapes and the elements of arrays.
"""

import functools
import inspect
import numbers
import operator
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from capstan import errors

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Within:
    """The least and the greatest value of a number."""

    least: int
    greatest: int

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.greatest

    def __str__(self) -> str:
        return f"{self.least} to {self.greatest}"


Group = Literal["g1", "g2"]
PointEncoding = Literal["compressed", "uncompressed", "montgomery"]
SumEncoding = Literal["compressed", "uncompressed"]
Direction = Literal["forward", "inverse"]
Order = Literal["natural", "bit-reversed"]
Verify = Literal["none", "full", "probabilistic"]
Priority = Literal["urgent", "normal", "batch"]
ResidencyAction = Literal["warm", "pin", "unpin", "evict"]
# Scalar vectors or rows of one call.
Batch = Annotated[int, Within(1, 1 << 16)]
# log2 of a transform's size; a server may accept less.
LogSize = Annotated[int, Within(0, 32)]
Count = Annotated[int, Within(0, (1 << 32) - 1)]
# Elements of a vector.
Length = Annotated[int, Within(0, (1 << 64) - 1)]
Seconds = Annotated[float, Within(0, 10**9)]

_BYTES = bytes | bytearray | memoryview
# They have `__index__`, but are not integers.
_NOT_INTEGERS = bool | np.bool_ | np.ndarray
# How errors name types; an empty name is left out.
_NAMES = {
    type(None): "",
    str: "a string",
    int: "an integer",
    bool: "True or False",
    bytes: "bytes",
    bytearray: "bytes",
    memoryview: "bytes",
    np.ndarray: "an array",
    os.PathLike: "a path",
    Sequence: "a sequence",
    Mapping: "a mapping",
    dict: "a mapping",
    Callable: "a function",
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function check its arguments.

    Raises InvalidInput, with the argument's name as `field`, for a wrong type or value.
    """
    signature = inspect.signature(function, eval_str=True)
    hints = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not inspect.Parameter.empty
    }

    @functools.wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        for name, hint in hints.items():
            if name in bound.arguments:
                bound.arguments[name] = check(name, bound.arguments[name], hint)
        return function(*bound.args, **bound.kwargs)

    return checking


def check(name: str, value: Any, hint: Any, *, index: int | None = None) -> Any:
    """Return the value in the annotated type: an integer of numpy becomes an `int`.

    Raises InvalidInput if it is of another type or out of range; `index` is that of its element.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if type(None) in parts and value is None:
            return None
        return check(name, value, _choose(name, value, hint, index), index=index)
    if origin is Annotated:
        kind, limits = parts
        number = integer if kind is int else _real
        return number(name, value, limits, index=index)
    if not _accepts(value, hint):
        raise errors.invalid(name, f"expected {_expected(hint)}", index=index)
    if hint is str and any("\ud800" <= character <= "\udfff" for character in value):
        raise errors.invalid(name, "cannot be encoded as UTF-8", index=index)
    # Encoders check integers and bytes, and name their index.
    if origin is Sequence and parts[0] not in (int, bytes):
        elements = enumerate(value)
        return [check(name, element, parts[0], index=number) for number, element in elements]
    if hint is int:
        return operator.index(value)
    return hint(value) if hint in (bool, bytes) else value


def _choose(name: str, value: Any, hint: Any, index: int | None) -> Any:
    """Return the type of a union that the value is of, or is converted to."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    if len(kinds) == 1:
        return kinds[0]
    accepting = [kind for kind in kinds if _accepts(value, kind)]
    if not accepting:
        raise errors.invalid(name, f"expected {_expected(hint)}", index=index)
    return next((kind for kind in accepting if _is_instance(value, kind)), accepting[0])


def _accepts(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, or converted to it without loss."""
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    kind = get_origin(hint) or hint
    return _ACCEPTED[kind](value) if kind in _ACCEPTED else _is_instance(value, hint)


def _is_instance(value: Any, hint: Any) -> bool:
    return isinstance(value, get_origin(hint) or hint)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    # The elements of a string or of bytes are not those that the caller means.
    return isinstance(value, Sequence) and not isinstance(value, str | _BYTES)


_ACCEPTED: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: hasattr(value, "__index__") and not isinstance(value, _NOT_INTEGERS),
    bool: lambda value: isinstance(value, bool | np.bool_),
    bytes: lambda value: isinstance(value, _BYTES),
    Sequence: _is_sequence,
}


def _expected(hint: Any) -> str:
    """Name the types, each once."""
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    names = dict.fromkeys(_NAMES.get(get_origin(kind) or kind, _name(kind)) for kind in kinds)
    return " or ".join(name for name in names if name)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def integer(name: str, value: Any, limits: Within, *, index: int | None = None) -> int:
    """Return an integer of any type as `int`.

    Raises InvalidInput if it is not an integer or out of range; `index` is that of its element.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, _NOT_INTEGERS) or number not in limits:
        raise errors.invalid(name, f"expected an integer, {limits}", index=index)
    return number


def _real(name: str, value: Any, limits: Within, *, index: int | None = None) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value not in limits:
        raise errors.invalid(name, f"expected a number, {limits}", index=index)
    return float(value)


def read_file(name: str, path: str | os.PathLike) -> bytes:
    """Return the content of the file that the argument `name` names.

    Raises InvalidInput if it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise errors.invalid(name, f"cannot be read: {error}") from None
