"""npy files as arrays in memory: read, never mapped, so that a file that shrinks is an error and not the end of the process.

The header is taken apart here and not evaluated: what is no plain array is refused with the file's name.
"""
from __future__ import annotations

import io
import math
import os
import re
import stat
from typing import Any, Optional

import numpy as np

from . import _values
from ._errors import FileError, FormatError, LimitError, OutOfMemoryError
from ._types import Array

_MAGIC = b"\x93NUMPY"
_HEADER_MAX = 1 << 16  # as the library's reader has it, and so are the next two
_AXES_MAX = 8
_TEXT_MAX = 1 << 20
_PIECE = 1 << 24  # bytes read at a time, between which handlers of signals run
_ITEM = re.compile(
    r"""\s*(?: (['"])descr\1 \s*:\s* (['"])(?P<descr>[^'"\\]*)\2
             | (['"])fortran_order\4 \s*:\s* (?P<order>True|False)
             | (['"])shape\6 \s*:\s* \((?P<shape>[\d\sL,]*)\) ) \s*(?:,\s*|$)""",
    re.X,
)
_KIND = re.compile(r"[<>|=]?(?:[biufcS]|(?P<characters>U))(?P<size>\d{1,7})|[|]?\?")
_LENGTHS = re.compile(r"\s*(?:\d{1,19}L?\s*,\s*)*(?:\d{1,19}L?\s*)?")


def read(value: Any) -> Array:
    """The array of an npy file, in memory of its own."""
    path = os.fsdecode(_values.path(value))
    try:
        # A pipe that nobody writes to must not hang the call: it is refused below.
        with io.FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return _of(file, path)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path}: cannot read the file: {error.strerror or error}") from error


def _of(file: io.FileIO, path: str) -> Array:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path}: is a device or pipe, not a file; name the file itself")
    if status.st_size == 0:
        raise FormatError(f"{path}: the file is empty (0 bytes); was it written to the end?")
    size = status.st_size
    prefix = _exactly(file, path, 10, size)
    if prefix[:6] != _MAGIC or prefix[6] not in (1, 2, 3):
        raise FormatError(f"{path}: not an npy file; save it with numpy.save")
    more = _exactly(file, path, 2, size) if prefix[6] > 1 else b""
    length = int.from_bytes(prefix[8:] + more, "little")
    if length > _HEADER_MAX:
        raise LimitError(f"{path}: the npy header declares {length} bytes; the limit is {_HEADER_MAX}")
    kind, fortran, shape = _described(_exactly(file, path, length, size).decode("latin-1"), path)
    found = size - file.tell()
    promised = kind.itemsize * math.prod(shape)
    if found != promised:
        raise FormatError(
            f"{path}: {'truncated: ' if found < promised else ''}shape {shape} of {kind} needs {promised} bytes after the "
            f"header, but {found} were found; save one complete array per file"
        )
    try:
        memory = np.empty(promised, np.uint8)
        array: Array = memory.view(kind).reshape(shape, order="F" if fortran else "C")
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{path}: out of memory for its {promised} bytes; give the path of a pool, whose files are read in blocks, "
            "or numpy.load(file, mmap_mode='r')"
        ) from error
    except ValueError as error:
        raise FormatError(f"{path}: impossible array of shape {shape} ({error})") from error
    _fill(file, path, memory.data)
    now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise FileError(f"{path}: the file was changed while it was being read; run the command again when nothing writes to it")
    return array


def _described(header: str, path: str) -> tuple[Any, bool, tuple[int, ...]]:
    """Type, whether it is in Fortran order, and shape."""
    fields = _fields(header.strip())
    if fields is None:
        raise FormatError(f"{path}: bad npy header; it does not describe one plain array")
    axes = fields["shape"]
    lengths = re.findall(r"\d+", axes)
    if not _LENGTHS.fullmatch(axes) or (len(lengths) == 1 and "," not in axes):
        raise FormatError(f"{path}: bad npy header; the shape is not a tuple of lengths")
    if len(lengths) > _AXES_MAX:
        raise FormatError(f"{path}: has {len(lengths)} dimensions; the limit is {_AXES_MAX}")
    return _kind(fields["descr"], path), fields["order"] == "True", tuple(map(int, lengths))


def _fields(header: str) -> Optional[dict[str, str]]:
    """Descr, order and shape as text; None where it is not these three, each once."""
    if header[:1] != "{" or header[-1:] != "}":
        return None
    inside = header[1:-1].rstrip()
    found: dict[str, str] = {}
    at = 0
    while at < len(inside):
        item = _ITEM.match(inside, at)
        if item is None or item.lastgroup is None or item.lastgroup in found:
            return None
        found[item.lastgroup] = item[item.lastgroup]
        at = item.end()
    return found if len(found) == 3 else None


def _kind(descr: str, path: str) -> Any:
    known = _KIND.fullmatch(descr)
    try:
        kind = np.dtype(descr) if known else None
    except TypeError:
        kind = None
    if kind is None or not known or kind.itemsize == 0 or int(known["size"] or 1) > _TEXT_MAX:
        raise FormatError(
            f"{path}: dtype {_values.shown(descr)} is not supported; save numbers, or fixed-width strings (NumPy types S and U)"
        )
    return kind


def _exactly(file: io.FileIO, path: str, count: int, size: int) -> bytes:
    """The next bytes of the header."""
    if file.tell() + count > size:
        raise FormatError(f"{path}: truncated inside the npy header: the file has {size} bytes")
    data = bytearray(count)
    _fill(file, path, memoryview(data))
    return bytes(data)


def _fill(file: io.FileIO, path: str, memory: memoryview) -> None:
    done = 0
    while done < len(memory):
        got = file.readinto(memory[done : done + _PIECE])
        if not got:
            raise FileError(f"{path}: ends after {file.tell()} bytes, before the end that its header declares; did it change in the meantime?")
        done += got
