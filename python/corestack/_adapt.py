"""A stack on new data: adapted with a few labels, and which rows to label."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _values
from . import _library as c
from ._convert import as_array
from ._errors import ArgumentError, InputError
from ._session import Progress, Session
from ._stack import Stack, fitted
from ._types import Column, Costs, Memory, Path, Predictions


def _open(s: Session, stack: Stack, preds: Any, y: Any, split: Optional[str], about: dict[str, Any]) -> tuple[Any, bytes]:
    """The pool with the new rows, and the name of their split."""
    if split is not None and not _arrays.in_files(preds):
        raise ArgumentError("split: is for the path of a pool; remove it")
    name = split if split is not None else "oof" if _arrays.are_paths(preds) else "new"
    return stack._open(s, preds, y, name, **about), _values.text(name, "split")


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


def adapt(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    split: Optional[str] = None,
    rows: Optional[Column] = None,
    unlabeled: Union[None, bool, str] = None,
    groups: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    id_column: Union[None, str, int] = None,
    label_column: Union[None, str, int] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
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
    only, are an InputError.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    options = c.AdaptOptions()
    picked = None if rows is None else _numbers(rows, "rows")
    labels = None if picked is None or y is None else _labels(y, stack.classes, len(picked))
    if picked is None and y is None and not _arrays.in_files(preds):
        raise ArgumentError("y: labels are required to adapt to")
    about: dict[str, Any] = dict(
        output=output, outside=outside, groups=groups, sample_weight=sample_weight, names=names, flops=flops,
        latency_ms=latency_ms, id_column=id_column, label_column=label_column,
    )  # fmt: skip
    with Session(threads, memory, progress) as s:
        pool, options.split = _open(s, stack, preds, y if picked is None else None, split, about)
        if picked is not None:
            options.rows = picked.ctypes.data
            options.row_count = len(picked)
        if unlabeled is not None and unlabeled is not False:
            options.unlabeled = options.split if unlabeled is True else _values.text(unlabeled, "unlabeled")
        if labels is not None:
            options.labels = labels.ctypes.data
        return fitted(s, pool, lambda *made: c.lib.cst_adapt(s.context, stack._model, pool, ctypes.byref(options), *made))


def suggest(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    count: int = 50,
    *,
    split: Optional[str] = None,
    names: Optional[Sequence[str]] = None,
    output: Optional[str] = None,
    outside: bool = False,
    id_column: Union[None, str, int] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
) -> npt.NDArray[np.int64]:
    """Rows (numbers from 0) that are worth labelling for :func:`corestack.adapt`, the most useful first.

    They are rows that the members are uncertain about and that differ from each other. preds and `split` as for
    :func:`corestack.adapt`; labels are not needed.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    number = _values.integer(count, "count", least=1)
    about: dict[str, Any] = dict(output=output, outside=outside, names=names, id_column=id_column)
    with Session(threads, memory, progress) as s:
        pool, name = _open(s, stack, preds, None, split, about)
        found = np.zeros(min(number, 1 << 40), dtype=np.int64)
        out = found.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        s.check(c.lib.cst_adapt_suggest(s.context, stack._model, pool, name, number, out))
        return found
