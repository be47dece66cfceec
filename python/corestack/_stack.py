"""The fitted stack."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from . import _arrays
from . import _library as c
from ._errors import ArgumentError, MismatchError
from ._report import Report
from ._session import Progress, Session

Path = Union[str, "os.PathLike[str]"]


class Stack:
    """A fitted stack, made by :func:`corestack.fit` or :meth:`load`.

    It does not change; any number of threads may predict with it. It pickles, and ``save`` writes the model file that
    the command line and the C library read.
    """

    def __init__(self, model: bytes, report: Optional[Report] = None, members_in: Optional[Sequence[str]] = None) -> None:
        self._bytes = bytes(model)
        self._session = Session(threads=1, interrupts=False).__enter__()
        try:
            self._model = self._session.make(
                c.lib.cst_model_free, c.lib.cst_model_load_memory, self._bytes, len(self._bytes)
            )
        except BaseException:
            self._session.__exit__()
            raise
        self._report = report
        self._members_in = None if members_in is None else list(members_in)
        lib, m = c.lib, self._model
        self._kept = [lib.cst_model_member_name(m, k).decode() for k in range(lib.cst_model_members(m))]

    def __del__(self) -> None:
        session, self._session = getattr(self, "_session", None), None
        if session is not None:
            session.__exit__()

    def __reduce__(self) -> Any:
        return type(self), (self._bytes, self._report, self._members_in)

    def __repr__(self) -> str:
        of = f" of {len(self._members_in)}" if self._members_in else ""
        return f"<corestack.Stack: {len(self.kept)}{of} members, {self.n_classes} classes>"

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def kept(self) -> list[str]:
        """Names of the members that prediction needs, in its order."""
        return list(self._kept)

    @property
    def members(self) -> Optional[list[str]]:
        """Names of all members that the fit was given; None for a stack from a file."""
        return None if self._members_in is None else list(self._members_in)

    @property
    def n_classes(self) -> int:
        return c.lib.cst_model_classes(self._model)

    @property
    def classes(self) -> Optional[list[str]]:
        """Names of the classes in the order of the columns; None where they are only counted."""
        names = [c.lib.cst_model_class_name(self._model, i) for i in range(self.n_classes)]
        return None if None in names else [name.decode() for name in names]

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each kept member in the log-linear pool; empty for a stack without one (preset "paper")."""
        values = [c.lib.cst_model_member_weight(self._model, k) for k in range(len(self._kept))]
        return {name: w for name, w in zip(self._kept, values) if not np.isnan(w)}

    @property
    def settings(self) -> dict[str, str]:
        """The options it was fitted with, and which rows."""
        found, i = {}, 0
        while (text := c.lib.cst_model_setting(self._model, i)) is not None:
            key, _, value = text.decode().partition("=")
            found[key] = value
            i += 1
        return found

    @property
    def report(self) -> Report:
        """What the fit found (docs/json.md, "fit"). A model file does not hold it."""
        if self._report is None:
            raise ArgumentError("this stack was loaded from a file, which holds no report; score it with evaluate()")
        return self._report

    def summary(self) -> str:
        """The fit in a page of text; of a stack from a file, what the file says."""
        if self._report is not None:
            return self._report.summary()
        weights = self.weights
        lines = [repr(self)[1:-1], *(f"  {name}  {weights.get(name, float('nan')):.4f}" for name in self._kept)]
        return "\n".join(lines) + "\n"

    def to_json(self) -> str:
        """The report of the fit as one JSON document."""
        return self.report.to_json()

    # ---- files -----------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Writes the model file, whole or not at all (docs/model-format.md)."""
        with Session(threads=1) as s:
            s.check(c.lib.cst_model_save(s.context, self._model, os.fsencode(path)))

    @classmethod
    def load(cls, path: Path) -> "Stack":
        """Reads a model file."""
        with Session(threads=1) as s:
            model = s.make(c.lib.cst_model_free, c.lib.cst_model_load, os.fsencode(path))
            return cls(model_bytes(s, model))

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._bytes

    @classmethod
    def from_bytes(cls, model: bytes) -> "Stack":
        return cls(model)

    # ---- use -------------------------------------------------------------------------------------

    def _named(self, preds: Any, names: Optional[Sequence[str]]) -> Any:
        """Names for predictions that came without: all members' or the kept ones', by their number."""
        if names is not None or isinstance(preds, dict) or hasattr(preds, "keys"):
            return names
        count = len(preds)
        if self._members_in is not None and count == len(self._members_in):
            return self._members_in
        if count == len(self._kept):
            return self._kept
        by_place = _arrays.default_names(count)
        if self._members_in is None and set(self._kept) <= set(by_place):
            return by_place
        wanted = f"{len(self._kept)} kept members"
        if self._members_in is not None:
            wanted += f" or all {len(self._members_in)}"
        raise MismatchError(f"predictions: {count} arrays; give those of the {wanted}, or a dict by name")

    def _pool(self, s: Session, preds: Any, y: Any, names: Optional[Sequence[str]], output: str) -> ctypes.c_void_p:
        arrays = _arrays.Arrays(
            preds, y, split="test", names=self._named(preds, names), label_names=self.classes, output=output
        )
        self._needed(arrays)
        pool = s.make(c.lib.cst_pool_free, c.lib.cst_pool_from_arrays, arrays.struct)
        s.arrays = arrays  # read until the pool is freed
        return pool

    def _needed(self, arrays: "_arrays.Arrays") -> None:
        """Leaves only the members that prediction runs, so that others are not even looked at."""
        keep = [k for k, name in enumerate(arrays.names) if name in set(self._kept)]
        if not keep or len(keep) == len(arrays.names):
            return
        struct = arrays.struct
        struct.predictions = (c.Array * len(keep))(*[struct.predictions[k] for k in keep])
        arrays.names = [arrays.names[k] for k in keep]
        struct.names = _arrays._texts(arrays.names)
        struct.members = len(keep)

    def predict(
        self,
        preds: Any,
        *,
        split: str = "test",
        names: Optional[Sequence[str]] = None,
        output: str = "probability",
        threads: Optional[int] = None,
        memory: Union[None, int, str] = None,
        progress: Progress = None,
    ) -> np.ndarray:
        """Probabilities (rows, classes), float32.

        preds: as for :func:`corestack.fit`; the kept members are enough. A list holds all members of the fit in its
        order, or the kept ones in theirs. The path of a pool takes its `split`.
        """
        with Session(threads, memory, progress) as s:
            if _arrays.is_path(preds):
                pool = s.open_pool(preds)
            else:
                pool, split = self._pool(s, preds, None, names, output), "test"
            rows = ctypes.c_int64()
            out = ctypes.c_void_p()
            s.check(
                c.lib.cst_model_predict_pool(
                    s.context, self._model, pool, split.encode(), ctypes.byref(out), ctypes.byref(rows)
                )
            )
            try:
                shape = (rows.value, self.n_classes)
                flat = (ctypes.c_float * (shape[0] * shape[1])).from_address(out.value)
                return np.frombuffer(flat, np.float32).reshape(shape).copy()
            finally:
                c.lib.cst_free(s.context, out)

    def evaluate(
        self,
        preds: Any,
        y: Any = None,
        *,
        split: str = "test",
        names: Optional[Sequence[str]] = None,
        output: str = "probability",
        baselines: bool = False,
        resamples: int = 0,
        seed: int = 0,
        threads: Optional[int] = None,
        memory: Union[None, int, str] = None,
        progress: Progress = None,
    ) -> Report:
        """Scores on labelled predictions, or on the `split` of a pool (docs/json.md, "evaluate").

        resamples: bootstrap resamples for 95% intervals. baselines: of a pool's path only, sets the stack beside simple
        baselines that are fitted on the pool's split "oof".
        """
        with Session(threads, memory, progress) as s:
            if _arrays.is_path(preds):
                if y is not None:
                    raise ArgumentError("y: the pool has the labels of its splits; leave y out")
                pool = s.open_pool(preds)
            elif baselines:
                raise ArgumentError("baselines are fitted on a pool's split 'oof'; give the path of a pool")
            else:
                if y is None:
                    raise ArgumentError("y: labels are needed for scores")
                pool, split = self._pool(s, preds, y, names, output), "test"
            report = s.make(
                c.lib.cst_report_free,
                lambda context, o: c.lib.cst_evaluate_model(
                    context, self._model, pool, split.encode(), int(baselines), resamples, seed, o
                ),
            )
            return Report(*s.report(report))


def model_bytes(s: Session, model: ctypes.c_void_p) -> bytes:
    """The model's file as bytes."""
    out = ctypes.c_void_p()
    size = ctypes.c_size_t()
    s.check(c.lib.cst_model_save_memory(s.context, model, ctypes.byref(out), ctypes.byref(size)))
    try:
        return ctypes.string_at(out, size.value)
    finally:
        c.lib.cst_free(s.context, out)
