"""Checks the arguments of calls by their types, before anything is allocated or sent.

An annotation is the rule: `Literal` lists words, `Annotated[int, Within(...)]` bounds a number.
Arrays and handles, which other modules encode, are not checked here.
"""

import functools
import inspect
import numbers
import operator
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function check its arguments.

    Raises InvalidInput, with the argument's name as `field`, for a wrong type or value.
    """
    signature = inspect.signature(function, eval_str=True)
    hints = {name: parameter.annotation for name, parameter in signature.parameters.items()}

    @functools.wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            bound.arguments[name] = _check(name, value, hints[name])
        return function(*bound.args, **bound.kwargs)

    return checking


def _check(name: str, value: Any, hint: Any) -> Any:
    """Return the value in the annotated type: an integer of numpy becomes an `int`."""
    if get_origin(hint) in (Union, types.UnionType):
        kinds = get_args(hint)
        if type(None) in kinds and value is None:
            return None
        kinds = [kind for kind in kinds if kind is not type(None)]
        return _check(name, value, kinds[0]) if len(kinds) == 1 else value
    if get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise errors.invalid(name, f"expected one of {', '.join(get_args(hint))}")
        return value
    if get_origin(hint) is Annotated:
        kind, limits = get_args(hint)
        return integer(name, value, limits) if kind is int else _real(name, value, limits)
    if get_origin(hint) is Sequence and get_origin(get_args(hint)[0]) is Annotated:
        return [_check(name, element, get_args(hint)[0]) for element in value]
    if hint is bool and not isinstance(value, bool | np.bool_):
        raise errors.invalid(name, "expected True or False")
    if hint is str and not isinstance(value, str):
        raise errors.invalid(name, "expected a string")
    return value


def integer(name: str, value: Any, limits: Within, *, index: int | None = None) -> int:
    """Return an integer of any type as `int`.

    Raises InvalidInput if it is not an integer or out of range; `index` is that of its element.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number not in limits:
        raise errors.invalid(name, f"expected an integer, {limits}", index=index)
    return number


def _real(name: str, value: Any, limits: Within) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value not in limits:
        raise errors.invalid(name, f"expected a number, {limits}")
    return float(value)
