"""Checks of outputs: none may be a file that is read for it, a name in a folder of cases that is, or a further member of a
folder. Outputs of several ranks, and states that several programs read and replace."""
from __future__ import annotations

import contextlib
import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from . import _arrays
from . import _library as c
from ._errors import ArgumentError, FileError
from ._session import Session
from ._types import Path

_CONTAINER = re.compile(r"(.*?\.(?:safetensors|npz))[#:]", re.S)


@contextlib.contextmanager
def written_once(s: Session, path: Optional[Path]) -> Iterator[Optional[Path]]:
    """The path on rank 0; on other ranks the path of a temporary file. None if path is None."""
    if path is None or s.ranks is None or s.ranks.comm.rank == 0:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="corestack-") as folder:
        yield os.path.join(folder, os.path.basename(os.fspath(path)) or "output")


@contextlib.contextmanager
def locked(path: Optional[bytes]) -> Iterator[None]:
    """Keeps other programs away from a state between reading and replacing it; None: there is no state."""
    with contextlib.ExitStack() as kept:
        if path is not None:
            s = kept.enter_context(Session())
            s.make(c.lib.cst_unlock_file, c.lib.cst_lock_file, path)
            s._put_back()  # only the wait for the lock is the library's
        yield


class StateFile:
    """The file that a state was read from or written to, as it was then."""

    def __init__(self, path: Optional[bytes] = None) -> None:
        self.path, self._seen = path, _look(path)

    def save(self, path: bytes, write: Callable[[bytes], None]) -> None:
        """Writes the state, with the lock, unless another program has changed the file."""
        if path == self.path and _look(path) not in (None, self._seen):
            raise FileError(
                f"{os.fsdecode(path)}: another program has changed this state since it was read here; load it again and add "
                "what came since, or save to another file"
            )
        write(path)
        self.path, self._seen = path, _look(path)


def _look(path: Optional[bytes]) -> Optional[tuple[int, ...]]:
    """What is another after the file was replaced; None where there is none."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def refuse_inputs(out: bytes, preds: Any, pool: ctypes.c_void_p) -> None:
    """preds: what the pool was made of."""
    path = os.fsdecode(out)
    files = list(_files(pool))
    for file in [*_given(preds), *files]:
        inside = _CONTAINER.match(file)
        read = inside[1] if inside else file
        if _same(path, read) and os.path.isfile(read):
            raise ArgumentError(f"out: {path} is {read}, an input of the call; name another file")
    places = (path, os.path.realpath(path))
    for folder in filter(os.path.isdir, files):
        if any(_lies_in(at, folder) for at in places):
            raise ArgumentError(f"out: {path} is in the folder {folder}, whose files are inputs; choose another folder")
    if _arrays.is_path(preds) and os.path.isdir(preds):
        folder = os.fsdecode(preds)
        if any(_lies_in(at, folder) and c.lib.cst_pool_takes_name(pool, os.fsencode(os.path.basename(at))) for at in places):
            raise ArgumentError(f"out: {path} would be read as part of the pool in the folder {folder} the next time; "
                                "choose another folder")


def _given(preds: Any) -> Iterator[str]:
    """Paths that the caller named: a pool's, or some in place of arrays."""
    if _arrays.is_path(preds):
        yield from (os.fsdecode(preds), os.path.join(os.fsdecode(preds), "pool.json"))
    several = preds.values() if isinstance(preds, Mapping) else preds if isinstance(preds, (list, tuple)) else ()
    yield from (os.fsdecode(one) for one in several if _arrays.is_path(one))


def _files(pool: ctypes.c_void_p) -> Iterator[str]:
    """Files, and folders of cases, that a pool leads to."""
    place = 0
    while (file := c.lib.cst_pool_file(pool, place)) is not None:
        yield os.fsdecode(file)
        place += 1


def _lies_in(path: str, folder: str) -> bool:
    return _same(os.path.dirname(path) or ".", folder)


def _same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False
