"""The guard of a prediction: what is done with batches that look unlike the rows of the fit."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

from . import _library as c
from . import _values
from ._errors import ArgumentError
from ._session import Session

_MODES = ("off", "warn", "auto")


class Guard:
    """How a prediction is guarded, and afterwards what was found."""

    def __init__(self, mode: Any = "warn", batch: Optional[int] = None) -> None:
        if not isinstance(mode, str) or mode not in _MODES:
            raise ArgumentError(f"guard: is {_values.shown(mode)}; it must be 'auto', 'warn' or 'off'")
        rows = 0 if batch is None else _values.integer(batch, "batch")
        if batch is not None and (rows < 1 or mode == "off"):
            raise ArgumentError("batch: is the number of rows of a batch of the guard, 1 or more; remove it if the guard is off")
        self.mode = _MODES.index(mode)
        self.given = batch is not None or mode == "auto"  # more than the default
        self.acts = mode == "auto"
        self.struct = c.Guard(self.mode, rows)
        self._found: Optional[ctypes.c_void_p] = None

    def predict(self, s: Session, model: Any, pool: Any, split: str, out: Any, rows: Any) -> int:
        """Calls the library; the arrays are the caller's."""
        found = ctypes.c_void_p()
        status: int = c.lib.cst_model_predict_guarded(
            s.context, model, pool, split.encode(), ctypes.byref(self.struct), out, rows, ctypes.byref(found)
        )
        if found:
            s.keep(c.lib.cst_guard_report_free, found)
            self._found = found
        return status

    def tell(self, s: Session, model: Any, document: Any) -> None:
        """Puts what was found into a document of the command predict."""
        if self.mode and c.lib.cst_model_task(model) == c.CLASSIFICATION:
            s.check(c.lib.cst_report_set_guard(s.context, document, self.mode, self._found))


def others(model: Any) -> set[str]:
    """Names of the members that the fit left out."""
    return {c.lib.cst_model_other_name(model, k).decode() for k in range(c.lib.cst_model_others(model))}
