"""Files of a pool that are there as a whole or not at all, so that a run that was killed leaves no half ones in their place."""
from __future__ import annotations

import contextlib
import fcntl
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import InputError
from .._types import Array

WORK = ".export"  # the folder in the pool's for the record, locks and unfinished files


def file_name(name: str) -> str:
    """A member's or split's name as a part of file names."""
    return re.sub(r"[^A-Za-z0-9_+-]", "_", name.replace(".", "_")) or "_"


def write_whole(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f"{path.name}.tmp.{os.getpid()}.0")
    passing.write_bytes(content)
    os.replace(passing, path)


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def write_npy(path: Path, array: Array) -> None:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=False)
    write_whole(path, held.getvalue())


def write_column(path: Path, values: Iterable[Any]) -> None:
    """Class numbers, or texts, with one byte per character where all are ASCII."""
    held = list(values)
    if held and isinstance(held[0], str):
        held = [v.encode() for v in held] if all(map(str.isascii, held)) else held
    write_npy(path, np.array(held))


def save_array(path: Path, shape: tuple[int, ...], dtype: str, batches: Iterable[Array]) -> None:
    """An npy whose rows come in batches."""
    kind = np.dtype(dtype)
    with open(path, "wb") as file:
        head = {"descr": kind.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)  # type: ignore[no-untyped-call]
        os.posix_fallocate(file.fileno(), 0, file.tell() + math.prod(shape) * kind.itemsize)  # is there room for all?
        for batch in batches:
            file.write(np.ascontiguousarray(batch, kind).tobytes())


def logits_of(outputs: Any) -> Any:
    """The tensor in what a network returns: itself, the first of a tuple, or named out or logits."""
    found = outputs.get("out", outputs.get("logits")) if isinstance(outputs, dict) else getattr(outputs, "logits", outputs)
    found = found[0] if isinstance(found, (tuple, list)) and found else found
    if not hasattr(found, "shape"):
        raise InputError(f"the network returns {type(outputs).__name__}; logits are a tensor, the first of a tuple, or named out or logits")
    return found


def narrowed(values: Array, dtype: str) -> Array:
    """Logits as the file has them."""
    if not np.isfinite(values).all():
        raise InputError("the logits are not finite; are these the right weights, or is --compute float16 too narrow?")
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
    if not np.isfinite(values).all():
        raise InputError("a logit is beyond the range of float16; use --dtype float32")
    return values


@contextlib.contextmanager
def locked(path: Path, wait: bool) -> Iterator[None]:
    """Held by one process at a time; the system frees it when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise InputError("another export is at work on this member; wait until it ends") from None
        yield
