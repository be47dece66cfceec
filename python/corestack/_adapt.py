"""A stack on new data: adapted with a few labels, and which rows to label."""
from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _values
from . import _library as c
from ._arguments import taking
from ._convert import as_array
from ._errors import ArgumentError, InputError
from ._functions import fit
from ._pools import of_pool
from ._session import Session
from ._stack import Stack, fitted
from ._types import Column, Path, Predictions


def _open(s: Session, stack: Stack, preds: Any, y: Any, given: Mapping[str, Any]) -> tuple[Any, bytes]:
    """The pool with the new rows, and the name of their split."""
    split = given["split"]
    if split is not None and not _arrays.in_files(preds):
        raise ArgumentError("split: is for the path of a pool; remove it")
    name = split if split is not None else "oof" if _arrays.are_paths(preds) else "new"
    return stack._open(s, preds, y, name, **of_pool(given)), _values.text(name, "split")


def _numbers(values: Any, what: str) -> npt.NDArray[np.int64]:
    array = as_array(values, what)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(f"{what}: give row numbers, a list of integers from 0")
    return np.ascontiguousarray(array, dtype=np.int64)


def _labels(values: Any, classes: Optional[list[str]], count: int) -> npt.NDArray[np.int32]:
    """Labels of rows that were picked, as numbers."""
    array = as_array(values, "y")
    if array.shape != (count,):
        raise ArgumentError(f"y: has shape {array.shape}; with rows it has one label for each of the {count} rows")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError("y: a label is NaN; leave rows without a label out of rows and y")
    return _arrays.labels(array, classes, True, "but the stack has no class names; give class numbers, starting at 0")


@taking(fit, without="split task folds domains classes params missing preset method seed options comm keywords")
def adapt(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    split: Optional[str] = None,
    rows: Optional[Column] = None,
    unlabeled: Union[None, bool, str] = None,
    **arguments: Any,
) -> Stack:
    """Adapt a stack to new data with 10 to 10,000 labelled rows (docs/json.md, "adapt"). Classification only.

    preds: predictions of all members on the new rows, (rows, classes) each, as for :func:`corestack.fit`: members that the
    stack left out may come back, so give them as well; or the path of a pool, whose `split` ("new") has the rows. y: their
    labels (rows,), class numbers or names.
    rows: use only these rows (numbers from 0); y then has the labels of these rows alone, or is None for those of the
    split. unlabeled: True to use all rows, also those without labels, or for the path of a pool the name of a split with
    more rows: the mean prediction is kept near the class shares of the fit where that lowers the cross-validated loss;
    leave it out if the shares of the classes may have changed. The result is a new stack. If the labels give no reason for a
    change, it predicts as the one given, and ``report["adapted"]`` is False. Fewer than 10 labelled rows, or labels of one class
    only, are an InputError. Other arguments are those of :func:`corestack.fit`.
    """
    given = {**arguments, "split": split}
    stack = model if isinstance(model, Stack) else Stack.load(model)
    options = c.AdaptOptions()
    picked = None if rows is None else _numbers(rows, "rows")
    labels = None if picked is None or y is None else _labels(y, stack.classes, len(picked))
    if picked is None and y is None and not _arrays.in_files(preds):
        raise ArgumentError("y: labels are required to adapt to")
    with Session.of(given) as s:
        pool, options.split = _open(s, stack, preds, y if picked is None else None, given)
        if picked is not None:
            options.rows = picked.ctypes.data
            options.row_count = len(picked)
        if unlabeled is not None and unlabeled is not False:
            options.unlabeled = options.split if unlabeled is True else _values.text(unlabeled, "unlabeled")
        if labels is not None:
            options.labels = labels.ctypes.data
        return fitted(s, pool, lambda *made: c.lib.cst_adapt(s.context, stack._model, pool, ctypes.byref(options), *made))


@taking(adapt, without="y rows unlabeled groups sample_weight flops latency_ms label_column")
def suggest(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    count: int = 50,
    **arguments: Any,
) -> npt.NDArray[np.int64]:
    """Rows (numbers from 0) that are worth labelling for :func:`corestack.adapt`, the most useful first.

    They are rows that the members are uncertain about and that differ from each other. preds and `split` as for
    :func:`corestack.adapt`; labels are not needed. Other arguments are those of :func:`corestack.fit`.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    number = _values.integer(count, "count", least=1)
    with Session.of(arguments) as s:
        pool, name = _open(s, stack, preds, None, arguments)
        found = np.zeros(min(number, 1 << 40), dtype=np.int64)
        out = found.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        s.check(c.lib.cst_adapt_suggest(s.context, stack._model, pool, name, number, out))
        return found
