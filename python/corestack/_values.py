"""Numbers, texts and paths as the library's C types hold them: what does not fit is refused, with the argument's name."""
from __future__ import annotations

import operator
import os
import reprlib
from typing import Any, Optional

from ._errors import ArgumentError

INT32 = 2**31 - 1
INT64 = 2**63 - 1
UINT64 = 2**64 - 1


def shown(value: Any) -> str:
    """A value in a message: one line, not long."""
    return " ".join(reprlib.repr(value).split())


def integer(value: Any, name: str, most: int = INT32, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name}: is {shown(value)}; it must be a whole number") from None
    if not least <= number <= most:
        raise ArgumentError(f"{name}: is {number}; it must be a whole number from {least} to {most}")
    return int(number)


def labels(value: Any, name: str) -> list[int]:
    """One label or more, which may be negative."""
    many = hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
    found = [integer(one, name, least=-INT32 - 1) for one in (value if many else [value])]
    if not 1 <= len(found) <= 16:
        raise ArgumentError(f"{name}: has {len(found)} labels; it must be one, or a list of 1 to 16")
    return found


def real(value: Any, name: str) -> float:
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ArgumentError(f"{name}: is {shown(value)}; it must be a number")


def text(value: Any, name: str) -> bytes:
    """UTF-8. C's texts end at a NUL, so that one inside would cut the rest off."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: is {shown(value)}; it must be a string")
    if "\0" in value:
        raise ArgumentError(f"{name}: {shown(value)} contains a NUL character")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise ArgumentError(f"{name}: {shown(value)} contains a lone surrogate, which is not a character") from None


def text_or_none(value: Any, name: str) -> Optional[bytes]:
    return None if value is None else text(value, name)


def metric(value: Any) -> Optional[bytes]:
    """The name of a metric, which may be given as a function; None for none."""
    from ._methods import metric_name

    return text_or_none(metric_name(value) if callable(value) else value, "metric")


def path(value: Any, name: str = "path") -> bytes:
    """As the file system has it."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise ArgumentError(f"{name}: is {shown(value)}; it must be the path of a file")
    try:
        found = os.fsencode(value)
    except UnicodeEncodeError:
        raise ArgumentError(f"{name}: {shown(value)} contains a lone surrogate, which is not a character") from None
    if b"\0" in found:
        raise ArgumentError(f"{name}: {shown(value)} contains a NUL character")
    return found


def list_of(value: Any, name: str, what: str) -> list[Any]:
    """The items of a list, tuple, array or the like; a text is none."""
    if not isinstance(value, (str, bytes)):
        try:
            return list(value)
        except TypeError:
            pass
    raise ArgumentError(f"{name}: is {shown(value)}; it must be a list of {what}")
