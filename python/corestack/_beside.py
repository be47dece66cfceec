"""Labels, folds, groups, weights and domains in memory beside predictions in files: written to files for the library to read."""
from __future__ import annotations

import csv
import os
import shutil
import tempfile
import weakref
from typing import Any, Optional

import numpy as np

from . import _arrays, _frames
from . import _library as c
from ._convert import as_array
from ._errors import ArgumentError, MismatchError
from ._session import Session
from ._types import Array


def as_files(s: Session, pool: Any, split: str, given: dict[str, Any], classes: Any) -> dict[str, Any]:
    """Paths in place of arrays, which live as long as the session. pool: of the same files without what is given.

    Series are joined by id where the files have ids; everything else is in the order of their rows.
    """
    arrays = {name: value for name, value in given.items() if value is not None and not _arrays.is_path(value)}
    if not arrays:
        return given
    s.check(c.lib.cst_pool_load(s.context, pool, split.encode()))
    ids = c.listed(c.lib.cst_pool_id, pool, split.encode()) or None
    values = c.lib.cst_pool_task(pool) == c.TASK_REGRESSION
    if c.lib.cst_pool_task(pool) not in (c.TASK_CLASSIFICATION, c.TASK_REGRESSION):
        raise ArgumentError(f"{next(iter(arrays))}: this comes from the files of the pool; remove the argument, or change the pool")
    folder = tempfile.mkdtemp(prefix="corestack-")
    weakref.finalize(s, shutil.rmtree, folder, True)
    found = dict(given)
    for name, value in arrays.items():
        column = s.run(_column_of, name, value, ids, values, classes or c.listed(c.lib.cst_pool_class_name, pool) or None)
        if ids is not None and len(column) != len(ids):
            raise MismatchError(f"{name}: has {len(column)} rows, but the files have {len(ids)}")
        found[name] = s.run(_written, os.path.join(folder, name), column, ids if name == "y" else None)
    return found


def _joined(value: Any, ids: Optional[list[str]], name: str) -> Any:
    """A Series or frame in the order of the ids, which are text; anything else as it is."""
    if ids is None or not _frames.is_indexed(value):
        return value
    named = value.set_axis(value.index.map(str), axis=0)
    return _frames.joined(named, type(named.index)(ids), name)


def _column_of(name: str, given: Any, ids: Optional[list[str]], values: bool, classes: Any) -> Array:
    value = _joined(_arrays.loaded(given, name), ids, name)
    if name == "y":
        return _arrays.targets(value) if values else _arrays.labels(value, classes)
    if name == "domains":
        names = _arrays.domain_names(value, None)
        assert names is not None
        return names
    found = as_array(value, name)
    if found.ndim != 1:  # how many rows the files have is not known here
        raise MismatchError(f"{name}: has shape {found.shape}; give one per row")
    rows = len(found)
    known = _arrays.row_weights(found, rows) if name == "sample_weight" else _arrays.numbered(found, name, rows)
    assert known is not None
    return known


def _written(path: str, column: Array, ids: Optional[list[str]]) -> str:
    if ids is None:
        np.save(path + ".npy", column)
        return path + ".npy"
    rows = column.reshape(len(column), -1)
    with open(path + ".csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", *(["label"] if rows.shape[1] == 1 else [f"y{k}" for k in range(rows.shape[1])])])
        table.writerows([one, *map(repr, row)] for one, row in zip(ids, rows.tolist()))
    return path + ".csv"
