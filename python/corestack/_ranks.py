"""Several processes that fit together: a communicator of mpi4py as the library's ranks, and arrays whose rows they share."""
from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _library as c
from ._errors import ArgumentError

_PIECE = 1 << 26  # bytes of a message; MPI counts them in an int


class Ranks:
    """The collectives of a communicator, for a session. `comm` is one of mpi4py, or anything with its `rank`, `size`,
    `allgather` and `Bcast`; every rank makes the same calls."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.error: Optional[BaseException] = None  # what communication raised
        self._host = platform.node().encode()
        self._gather = c.ALLGATHER(self._allgather)  # must live as long as the context
        self.calls = c.Collectives(
            rank=comm.rank, size=comm.size, host=self._host, allgather=self._gather
        )  # fmt: skip

    def _allgather(self, _user: object, part: int, count: int, everything: int, counts: Any) -> int:
        try:
            own = bytes((ctypes.c_char * count).from_address(part)) if count else b""
            at = 0
            for rank in range(self.comm.size):
                size = int(counts[rank])
                if size:
                    to = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(everything + at))
                    if rank == self.comm.rank:
                        to[:] = np.frombuffer(own, np.uint8)
                    self._send(to, rank)
                at += size
        except BaseException as error:  # the library ends the call
            self.error = error
            return 1
        return 0

    def _send(self, array: npt.NDArray[np.uint8], root: int) -> None:
        for first in range(0, len(array), _PIECE):
            self.comm.Bcast(array[first : first + _PIECE], root=root)

    def rows_of_all(self, array: Any, path: str) -> npt.NDArray[Any]:
        """An array with the rows of every rank, in the order of ranks, in a file of this one."""
        local = np.ascontiguousarray(array)
        shapes = self.comm.allgather((local.dtype.str, local.shape[1:], len(local)))
        if len({shape[:2] for shape in shapes}) > 1:
            raise ArgumentError(f"comm: the ranks' arrays differ in type or columns: {[s[:2] for s in shapes]}")
        rows = [shape[2] for shape in shapes]
        create: Any = np.lib.format.open_memmap  # without types in NumPy 1
        whole: npt.NDArray[Any] = create(path, "w+", local.dtype, (sum(rows), *local.shape[1:]))
        for rank, first in enumerate(np.cumsum([0, *rows[:-1]])):
            part = whole[first : first + rows[rank]]
            if rank == self.comm.rank:
                part[...] = local
            if part.size:
                self._send(part.reshape(-1).view(np.uint8), rank)
        return whole

    def column_of_all(self, column: Any) -> Any:
        """Labels, folds and the like of every rank; None where there are none."""
        parts = self.comm.allgather(None if column is None else np.asarray(column))
        if any(part is None for part in parts):
            if any(part is not None for part in parts):
                raise ArgumentError("comm: some ranks give a column (labels, folds, ...) that others do not give")
            return None
        return np.concatenate(parts)

    def members_of_all(self, preds: Any, folder: str) -> Union[dict[str, Any], list[Any]]:
        """Predictions with the rows of every rank."""
        named = isinstance(preds, Mapping)
        names = list(preds) if named else list(range(len(preds)))
        if any(other != names for other in self.comm.allgather(names)):
            raise ArgumentError("comm: the ranks' predictions are not of the same members in the same order")
        whole = [self.rows_of_all(preds[name], os.path.join(folder, f"{i}.npy")) for i, name in enumerate(names)]
        return dict(zip(names, whole)) if named else whole
