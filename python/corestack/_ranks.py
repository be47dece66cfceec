"""Several processes: a communicator of mpi4py as the library's collectives, and columns gathered from all ranks."""
from __future__ import annotations

import ctypes
import platform
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from . import _library as c
from ._errors import ArgumentError

_PIECE = 1 << 26  # bytes of a message; MPI counts them in an int
_AT_ONCE = 1 << 30  # bytes that all ranks may have together in one message
_SMALL = 1 << 20  # bytes that may go through `allgather`, which makes copies
_FEW = 4  # ranks that merge the messages of all; more pass them along a tree
_TAG = 20011  # of our messages, among others of the communicator


def _merged(merge: Any, user: int, left: int, have: int, capacity: int, right: bytes) -> int:
    """Bytes of `left` after the library has merged `right` into it."""
    aligned = np.frombuffer(right, np.uint8).copy()
    return int(merge(user, left, have, capacity, aligned.ctypes.data, len(right)))


def _bytes_at(address: int, count: int) -> npt.NDArray[np.uint8]:
    """Memory of the library as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) if count else np.empty(0, np.uint8)


class Ranks:
    """The collectives of a communicator, for a session. `comm` is a communicator of mpi4py, or an object with its `rank`,
    `size`, `allgather` and `Bcast`. `Allgatherv`, `send` with `recv`, and `Barrier` are used if it has them. Every rank makes
    the same calls."""

    def __init__(self, comm: Any) -> None:
        for name in ("rank", "size", "allgather", "Bcast"):
            if not hasattr(comm, name):
                raise ArgumentError(
                    f"comm: is a {type(comm).__name__} without '{name}'; give a communicator of mpi4py, e.g. MPI.COMM_WORLD"
                )
        self.comm = comm
        self.error: Optional[BaseException] = None  # what communication raised
        host = platform.node().encode()
        # The structure must live as long as the context: it keeps the callbacks.
        self.calls = c.Collectives(
            rank=comm.rank,
            size=comm.size,
            host=host,
            allgather=c.ALLGATHER(self._told(self._allgather)),
            allreduce=c.ALLREDUCE(self._told(self._allreduce)),
            broadcast=c.BROADCAST(self._told(self._broadcast)),
            barrier=c.BARRIER(self._told(self._barrier)),
        )

    def _told(self, collective: Callable[..., None]) -> Callable[..., int]:
        """A callback that keeps an exception of the collective, and returns a failure to the library."""

        def call(_user: object, *arguments: Any) -> int:
            try:
                collective(*arguments)
            except BaseException as error:
                self.error = self.error or error
                return 1
            return 0

        return call

    def _allgather(self, part: int, count: int, everything: int, counts: Any) -> None:
        sizes = [int(counts[rank]) for rank in range(self.comm.size)]
        ends = np.cumsum(sizes)
        whole = _bytes_at(everything, int(ends[-1]))
        own = whole[ends[self.comm.rank] - count : ends[self.comm.rank]]
        if count:
            ctypes.memmove(own.ctypes.data, part, count)
        if len(whole) <= _AT_ONCE and hasattr(self.comm, "Allgatherv"):
            self.comm.Allgatherv(own.copy(), [whole, sizes])
        elif len(whole) <= _SMALL:
            parts = self.comm.allgather(own.tobytes())
            whole[:] = np.frombuffer(b"".join(parts), np.uint8)
        else:
            for rank, end in enumerate(ends):
                self._send(whole[end - sizes[rank] : end], rank)

    def _allreduce(self, address: int, count: Any, capacity: int, merge: Any, user: int) -> None:
        if self.comm.size <= _FEW or not (hasattr(self.comm, "send") and hasattr(self.comm, "recv")):
            parts = self.comm.allgather(_bytes_at(address, count[0]).tobytes())
            room = max(capacity, sum(map(len, parts)))  # a rank that failed has a small buffer
            merged = np.empty(room, np.uint8)
            have = len(parts[0])
            merged[:have] = np.frombuffer(parts[0], np.uint8)
            for part in parts[1:]:
                have = _merged(merge, user, merged.ctypes.data, have, room, part)
            count[0] = min(have, capacity)
            ctypes.memmove(address, merged.ctypes.data, count[0])
            return
        # Up a binomial tree of ranks, and down again.
        rank, size, step = self.comm.rank, self.comm.size, 1
        while step < size and rank % (2 * step) == 0:
            if rank + step < size:
                part = self.comm.recv(source=rank + step, tag=_TAG)
                count[0] = _merged(merge, user, address, count[0], capacity, part)
            step *= 2
        if rank > 0:
            self.comm.send(_bytes_at(address, count[0]).tobytes(), dest=rank - step, tag=_TAG)
            whole = self.comm.recv(source=rank - step, tag=_TAG)[:capacity]
            ctypes.memmove(address, whole, len(whole))
            count[0] = len(whole)
        while step > 1:
            step //= 2
            if rank + step < size:
                self.comm.send(_bytes_at(address, count[0]).tobytes(), dest=rank + step, tag=_TAG)

    def _broadcast(self, address: int, count: int, root: int) -> None:
        self._send(_bytes_at(address, count), root)

    def _barrier(self) -> None:
        if hasattr(self.comm, "Barrier"):
            self.comm.Barrier()
        else:
            self.comm.allgather(None)

    def _send(self, array: npt.NDArray[np.uint8], root: int) -> None:
        for first in range(0, len(array), _PIECE):
            self.comm.Bcast(array[first : first + _PIECE], root=root)

    def place_of(self, rows: int) -> tuple[slice, int]:
        """The slice of this rank's rows among those of all ranks, and the number of all rows."""
        ends = np.cumsum(self.comm.allgather(rows))
        last = int(ends[self.comm.rank])
        return slice(last - rows, last), int(ends[-1])

    def column_of_all(self, column: Any) -> Any:
        """A column (labels, folds, ...) of all ranks; None if there is none."""
        parts = self.comm.allgather(None if column is None else np.asarray(column))
        if any(part is None for part in parts):
            if any(part is not None for part in parts):
                raise ArgumentError("comm: some ranks pass a column (labels, folds, ...) that others do not pass")
            return None
        return np.concatenate(parts)
