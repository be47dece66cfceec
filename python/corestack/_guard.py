"""The guard of a prediction: what is done with batches that look unlike the rows of the fit."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _library as c
from . import _values
from ._errors import ArgumentError
from ._session import Session

_MODES = ("off", "warn", "auto")
_SHIFTS = ("off", "em", "bbse")


class Guard:
    """How a prediction is guarded, and afterwards what was found."""

    def __init__(self, mode: Any = "warn", batch: Optional[int] = None, label_shift: Any = "off") -> None:
        if not isinstance(mode, str) or mode not in _MODES:
            raise ArgumentError(f"guard: is {_values.shown(mode)}; it must be 'auto', 'warn' or 'off'")
        rows = 0 if batch is None else _values.integer(batch, "batch")
        if batch is not None and (rows < 1 or mode == "off"):
            raise ArgumentError("batch: is the number of rows of a batch of the guard, 1 or more; remove it if the guard is off")
        if not isinstance(label_shift, str) or label_shift not in _SHIFTS:
            raise ArgumentError(f"label_shift: is {_values.shown(label_shift)}; it must be 'off', 'em' or 'bbse'")
        if label_shift != "off" and mode == "off":
            raise ArgumentError("label_shift: needs the guard, which is off; use guard='auto' or 'warn'")
        self.mode = _MODES.index(mode)
        self.label_shift = _SHIFTS.index(label_shift)
        self.given = batch is not None or mode == "auto" or self.label_shift > 0  # more than the default
        self.acts = mode == "auto"
        self.struct = c.Guard(mode=self.mode, batch=rows)
        self._found: Optional[ctypes.c_void_p] = None
        self._shares: Optional[ctypes.c_void_p] = None

    def predict(self, s: Session, model: Any, pool: Any, split: str, out: ctypes.c_void_p, rows: ctypes.c_int64) -> int:
        """Calls the library; the arrays are the caller's."""
        found = ctypes.c_void_p()
        status: int = c.lib.cst_model_predict_guarded(
            s.context, model, pool, split.encode(), ctypes.byref(self.struct), ctypes.byref(out), ctypes.byref(rows), ctypes.byref(found)
        )
        if found:
            s.keep(c.lib.cst_guard_report_free, found)
            self._found = found
        if status == 0 and self.label_shift:
            shares = ctypes.c_void_p()
            status = c.lib.cst_model_label_shift(
                s.context, model, self.label_shift, self._found, rows.value, out, ctypes.byref(shares)
            )
            if shares:
                s.keep(c.lib.cst_label_report_free, shares)
                self._shares = shares
        return status

    def write_maps(self, s: Session, model: Any, pool: Any, split: str, kind: int, file: bytes, *counts: Any) -> int:
        """Writes the maps of a segmentation, whose cases are batches."""
        found = ctypes.c_void_p()
        status: int = c.lib.cst_segmentation_predict_guarded(
            s.context, model, pool, split.encode(), ctypes.byref(self.struct), kind, file, *counts, ctypes.byref(found)
        )
        if found:
            s.keep(c.lib.cst_guard_report_free, found)
            self._found = found
        return status

    def tell(self, s: Session, model: Any, document: Any) -> None:
        """Puts what was found into a document of the command predict."""
        if self.mode and c.lib.cst_model_task(model) in (c.TASK_CLASSIFICATION, c.TASK_SEGMENTATION):
            s.check(c.lib.cst_report_set_guard(s.context, document, self.mode, self._found))
        if self._shares:
            s.check(c.lib.cst_report_set_label_shift(s.context, document, model, self._shares))


def others(model: Any) -> set[str]:
    """Names of the members that the fit left out."""
    return {c.lib.cst_model_other_name(model, k).decode() for k in range(c.lib.cst_model_others(model))}
