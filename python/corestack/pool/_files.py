"""Files of an export that survive a kill: whole or not there, and journals that say which batches are in a file.

The order is always the same: the rows of a batch are on disk before the journal names the batch.
"""
from __future__ import annotations

import fcntl
import io
import json
import math
import os
import re
import time
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .._errors import FileError, InputError
from .._types import Array

WORK = ".export"  # the folder, inside the pool's, of records and of unfinished files


def file_name(name: str) -> str:
    """A member's or split's name as a part of file names."""
    return re.sub(r"[^A-Za-z0-9_+-]", "_", name.replace(".", "_")) or "_"


def sync_folder(folder: Path) -> None:
    """Makes names in the folder (new files, renamed ones) durable."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_whole(path: Path, content: bytes) -> None:
    """The file has the old content or the new one, whenever it is looked at."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.new")
    with open(passing, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(passing, path)
    sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Puts a finished file or folder in its place. A second call after a kill finds the work done."""
    if not source.exists() and target.exists():
        return
    os.replace(source, target)
    sync_folder(source.parent)
    sync_folder(target.parent)


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """None if there is no such file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file ({error}); remove it and run the command again") from error


def write_npy(path: Path, array: Array) -> None:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=False)
    write_whole(path, held.getvalue())


def texts(values: list[str]) -> Array:
    """Ids as npy holds them: one byte per character where all are ASCII."""
    if not values:
        return np.zeros(0, "S1")
    return np.array([v.encode("ascii") for v in values]) if all(map(str.isascii, values)) else np.array(values)


class Lock:
    """Held by one process at a time; freed by the system when the process ends, however it ends."""

    def __init__(self, path: Path, patience: float = 15.0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "ab")
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() >= until:
                    self.file.close()
                    raise InputError(
                        f"{path.parent.parent}: another export is writing to this folder; wait until it ends"
                    ) from None
                time.sleep(0.05)

    def free(self) -> None:
        self.file.close()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()


class Journal:
    """Finished batches, one JSON line each, in order; `states` are the lines of an earlier run. A line that a kill cut off
    does not count and is removed."""

    def __init__(self, path: Path, settings: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "a+b")
        self.file.seek(0)
        lines = self.file.read().split(b"\n")[:-1]
        head = {"settings": settings}
        if len(lines) < 2 and lines[:1] != [json.dumps(head).encode()]:  # no batch depends on what is there
            lines = []
        if not lines:
            self.file.truncate(0)
            self._append(head)
            sync_folder(path.parent)
        elif json.loads(lines[0]) != head:
            self.file.close()
            raise InputError(f"{path}: begun with other settings; remove the file to begin these predictions again")
        self.states: list[dict[str, Any]] = [json.loads(line) for line in lines[1:]]
        if lines:
            self.file.truncate(sum(len(line) + 1 for line in lines))

    def add(self, state: dict[str, Any]) -> None:
        self._append(state)
        self.states.append(state)

    def keep(self, count: int) -> None:
        """Only the first `count` batches are there."""
        if count < len(self.states):
            self.file.seek(0)
            lines = self.file.read().split(b"\n")[: 1 + count]
            self.file.truncate(sum(len(line) + 1 for line in lines))
            os.fsync(self.file.fileno())
            del self.states[count:]

    def _append(self, value: dict[str, Any]) -> None:
        self.file.seek(0, os.SEEK_END)
        self.file.write(json.dumps(value).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()


class Sink(ABC):
    """Where the predictions of a member on a split go. `part` is the unfinished file or folder, `final` its last place.
    The calls come in this order: resume, write for each batch that is left, finish."""

    def __init__(self, part: Path, final: Path) -> None:
        self.part, self.final = part, final

    @abstractmethod
    def resume(self, states: list[dict[str, Any]]) -> int:
        """Opens or makes the file. `states` are what write returned for batches 0, 1, ... Returns how many of these are on
        disk, unharmed; what lies after them is discarded. May be fewer than len(states)."""

    @abstractmethod
    def write(self, start: int, rows: Any) -> dict[str, Any]:
        """Adds the rows start, start + 1, ... and returns, once they are on disk, what resume needs to find them."""

    def close(self) -> None:
        """Frees what is open, after an error too."""

    def finish(self) -> None:
        """All batches are there: puts the file in its place."""
        self.close()
        move(self.part, self.final)


class ArraySink(Sink):
    """One npy of a known shape [..., width]. Rows are numbered along all axes but the last; only one batch is in memory."""

    def __init__(self, part: Path, final: Path, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(part, final)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.line = shape[-1] * self.dtype.itemsize
        self.size = math.prod(shape) * self.dtype.itemsize
        header = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
        padding = -(10 + len(header) + 1) % 64
        length = len(header) + padding + 1
        self.header = b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + (header + " " * padding + "\n").encode()
        self.file: Optional[io.FileIO] = None

    def resume(self, states: list[dict[str, Any]]) -> int:
        if states and not self.part.exists() and self.final.exists():
            return len(states)
        if not (states and self._is_ours()):
            self._allocate()
            states = []
        self.file = io.FileIO(self.part, "r+")
        for number, state in enumerate(states):
            held = os.pread(self.file.fileno(), (state["stop"] - state["start"]) * self.line, self._at(state["start"]))
            if zlib.crc32(held) != state["crc"]:
                return number
        return len(states)

    def _at(self, row: int) -> int:
        return len(self.header) + row * self.line

    def _is_ours(self) -> bool:
        if not self.part.exists() or self.part.stat().st_size != len(self.header) + self.size:
            return False
        with open(self.part, "rb") as file:
            return file.read(len(self.header)) == self.header

    def _allocate(self) -> None:
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with open(self.part, "wb") as file:
            file.write(self.header)
            file.flush()
            if self.size:
                try:
                    os.posix_fallocate(file.fileno(), len(self.header), self.size)  # a full disk is found now, not hours later
                except OSError as error:
                    os.unlink(self.part)
                    raise FileError(
                        f"{self.part}: no room for {self.size} bytes of predictions: {error.strerror or error}; free disk space"
                    ) from error
            os.fsync(file.fileno())
        sync_folder(self.part.parent)

    def write(self, start: int, rows: Any) -> dict[str, Any]:
        assert self.file is not None
        content = np.ascontiguousarray(rows, self.dtype).tobytes()
        left, at = memoryview(content), self._at(start)
        while left:
            done = os.pwrite(self.file.fileno(), left, at)
            left, at = left[done:], at + done
        os.fdatasync(self.file.fileno())
        return {"start": start, "stop": start + len(content) // max(1, self.line), "crc": zlib.crc32(content)}

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None
