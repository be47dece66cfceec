"""A communicator of mpi4py as the collectives of the library."""
from __future__ import annotations

import ctypes
import platform
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _library as c
from ._errors import ArgumentError

_PIECE = 1 << 26  # bytes of a message; MPI counts them in an int
_AT_ONCE = 1 << 30  # bytes that all ranks may have together in one message


def _bytes_at(address: int, count: int) -> npt.NDArray[np.uint8]:
    """Memory of the library as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) if count else np.empty(0, np.uint8)


class Ranks:
    """The collectives of a communicator, for a session. The library builds all that it needs on `allgather`."""

    def __init__(self, comm: Any) -> None:
        for name in ("rank", "size", "Allgatherv", "Bcast"):
            if not hasattr(comm, name):
                raise ArgumentError(
                    f"comm: is a {type(comm).__name__} without '{name}'; give a communicator of mpi4py, e.g. MPI.COMM_WORLD"
                )
        self.comm = comm
        self.error: Optional[BaseException] = None  # what communication raised
        # The structure must live as long as the context: it keeps the callback.
        self.calls = c.Collectives(
            rank=comm.rank,
            size=comm.size,
            host=platform.node().encode(),
            allgather=dict(c.Collectives._fields_)["allgather"](self._allgather),
        )

    def _allgather(self, _user: object, part: int, count: int, everything: int, counts: Any) -> int:
        """The callback: it returns a failure to the library, and keeps the exception for the session."""
        try:
            sizes = [int(counts[rank]) for rank in range(self.comm.size)]
            ends = np.cumsum(sizes)
            whole = _bytes_at(everything, int(ends[-1]))
            own = whole[ends[self.comm.rank] - count : ends[self.comm.rank]]
            if count:
                ctypes.memmove(own.ctypes.data, part, count)
            if len(whole) <= _AT_ONCE:
                self.comm.Allgatherv(own.copy(), [whole, sizes])
            else:
                for rank, end in enumerate(ends):
                    for first in range(end - sizes[rank], end, _PIECE):
                        self.comm.Bcast(whole[first : min(first + _PIECE, end)], root=rank)
        except BaseException as error:
            self.error = self.error or error
            return 1
        return 0
