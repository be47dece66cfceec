"""Pools as the functions are given them: arrays, the path of a pool, or a list of files."""
from __future__ import annotations

import csv
import ctypes
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from . import _arrays, _frames, _values
from . import _library as c
from ._convert import as_array
from ._errors import ArgumentError, MismatchError
from ._session import Session, settings
from ._types import Array

_PER_ROW = ("folds", "groups", "order", "sample_weight", "domains")
_ABOUT = (
    "task", "output", "outside", "missing", *_PER_ROW, "names", "classes", "flops", "latency_ms", "params", "memory_bytes",
    "id_column", "label_column", "positive",
)  # fmt: skip
_COUNTS = {"head_above": _values.INT64, "tail_below": _values.INT64, "resamples": _values.INT32, "seed": _values.UINT64}


def open_pool(
    s: Session,
    preds: Any,
    y: Any,
    split: str,
    task: Optional[str] = None,
    output: Optional[str] = None,
    outside: bool = False,
    missing: Optional[str] = None,
    unlabelled: int = 0,
    **about: Any,
) -> ctypes.c_void_p:
    """The pool, freed with the session. Of files, `about` is what only arrays need."""
    _values.text(split, "split")  # before anything looks for it
    columns = {name: about.pop(name, None) for name in ("id_column", "label_column")}
    if not _arrays.in_files(preds):
        of_files(outside, **columns)
        arrays = s.run(lambda: _arrays.Arrays(preds, y, split=split, task=task, output=output, **about))
        arrays.struct.missing = allowed(missing)
        s.arrays = arrays  # read until the pool is freed
        return s.make(c.lib.cst_pool_free, c.lib.cst_pool_from_arrays, arrays.struct)
    label_names = [about.pop(name, None) for name in ("label_names", "only")][0]
    number = about.pop("classes") if isinstance(about.get("classes"), (int, np.integer)) else None  # of files that list some
    files = {"y": y, **{name: about.pop(name, None) for name in _PER_ROW}}
    in_memory = files["y"] is not None and not _arrays.is_path(files["y"])
    named = not is_manifest(preds) and not isinstance(about.get("classes"), int)
    classes = about.pop("classes", None) if in_memory or named else None  # names to look labels up in
    positive = about.pop("positive", None)
    given = [name for name, value in about.items() if value is not None]
    if given:
        raise ArgumentError(f"{given[0]}: this comes from the files of the pool; remove the argument, or change the pool")
    more: dict[str, Any] = {"outside": int(outside), "missing": allowed(missing), **in_tables(**columns)}
    more["unlabelled"] = unlabelled
    more["classes"] = number
    if positive is not None:
        more["positive"] = _values.text(str(positive), "positive")
    if classes is not None and not is_manifest(preds):
        more["class_names"] = names_of(classes)
    files = filed(s, preds, split, config(task, output, **more), files, classes or label_names)
    fields = {"y": "labels", "sample_weight": "weights"}
    paths = {fields.get(name, name): path for name, path in files.items()}
    return open_files(s, preds, config(task, output, **more, **paths))


def of_pool(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the arguments of a function say of its pool."""
    return {name: given[name] for name in _ABOUT if name in given}


def open_given(s: Session, command: str, given: Mapping[str, Any], split: str, **more: Any) -> ctypes.c_void_p:
    """The pool of a function, which `given` has the arguments of; ranks must have the same. split: that must be there."""
    s.same(command, {**given, **more}, settings=settings(None, given["options"], given["keywords"]))
    return open_pool(s, given["preds"], given["y"], split, **of_pool(given))


def scoring(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of options that say how a split is scored."""
    found: dict[str, Any] = {name: _values.text_or_none(given[name], name) for name in ("ood", "clean")}
    errors = given["reference_errors"]
    found["reference_errors"] = None if errors is None else _values.path(errors, "reference_errors")
    for name, most in _COUNTS.items():
        found[name] = _values.integer(given[name], name, most)
    return found


def fits(methods: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of options that say which methods are fitted, and how."""
    wanted = [methods] if isinstance(methods, str) else [] if methods is None else _values.list_of(methods, "methods", "names")
    pairs = [f"{key}={value}" for key, value in settings(None, given["options"], given["keywords"]).items()]
    return {
        "methods": _arrays.texts(wanted, "methods") if wanted else None, "method_count": len(wanted),
        "settings": _arrays.texts(pairs, "options") if pairs else None, "setting_count": len(pairs),
    }  # fmt: skip


def allowed(missing: Optional[str]) -> int:
    """Whether members may lack predictions."""
    if missing not in (None, "error", "allow"):
        raise ArgumentError(f"missing: is {_values.shown(missing)}; it must be 'error' or 'allow'")
    return int(missing == "allow")


def of_files(outside: bool, **columns: Any) -> None:
    """Refuses for arrays what says something of files."""
    if outside:
        raise ArgumentError("outside: is for manifests and folders; remove it for arrays")
    for name, value in columns.items():
        if value is not None:
            raise ArgumentError(f"{name}: is for csv files; name the index of a data frame with set_index")


def in_tables(**columns: Any) -> dict[str, Optional[bytes]]:
    """Names of columns, or their numbers from 1, as the library takes them."""
    return {
        name: None if value is None else _values.text(str(value) if isinstance(value, int) else value, name)
        for name, value in columns.items()
    }


def names_of(classes: Any) -> Any:
    """Names as a list that ends with NULL."""
    names = [_values.text(str(name), "classes") for name in _values.list_of(classes, "classes", "names")]
    return (ctypes.c_char_p * (len(names) + 1))(*names, None)


def is_manifest(preds: Any) -> bool:
    return _arrays.is_path(preds) and (
        os.fspath(preds).endswith(".json") or os.path.isfile(os.path.join(preds, "pool.json"))
    )


def filed(s: Session, preds: Any, split: str, how: c.PoolConfig, files: dict[str, Any], classes: Any = None) -> dict[str, Any]:
    """What is beside the predictions of files as files. how: of the pool without them."""
    given = next((name for name, value in files.items() if value is not None and not _arrays.is_path(value)), None)
    if given is None:
        return files
    if is_manifest(preds):
        raise ArgumentError(f"{given}: this comes from the files of the pool; remove the argument, or change the pool")
    return as_files(s, open_files(s, preds, how), split, files, classes)


def config(task: Optional[str] = None, output: Optional[str] = None, **more: Any) -> c.PoolConfig:
    """A cst_pool_config. more: its other fields; paths as text or os.PathLike."""
    found = c.PoolConfig()
    kind = _arrays.number_of(task, _arrays.TASKS, "task")
    values = _arrays.number_of(output, _arrays.OUTPUTS, "output")
    if kind is not None:
        found.task_given, found.task = 1, kind
    if values is not None:
        found.output_given, found.output = 1, values
    for name, value in more.items():
        if value is not None:
            setattr(found, name, _values.path(value, name) if _arrays.is_path(value) else value)
    return found


def open_files(s: Session, preds: Any, how: c.PoolConfig) -> ctypes.c_void_p:
    """A manifest or folder, or a pool of the prediction files in a list."""
    if _arrays.is_path(preds) and (os.fspath(preds).endswith(".json") or not os.path.isfile(preds)):
        return s.make(c.lib.cst_pool_free, c.lib.cst_pool_open, _values.path(preds, "predictions"), how)
    paths = [preds] if _arrays.is_path(preds) else preds
    texts = (ctypes.c_char_p * len(paths))(*[_values.path(path, "predictions") for path in paths])
    return s.make(c.lib.cst_pool_free, c.lib.cst_pool_open_files, texts, len(paths), how)


def predicted_split(preds: Any, split: Optional[str]) -> str:
    """The split that a stack predicts: arrays are one, "test", and so are files in a list, "oof"."""
    if _arrays.is_path(preds) and os.path.isfile(preds) and not os.fspath(preds).endswith(".json"):
        return "oof" if split is None else _values.text(split, "split").decode()
    if not _arrays.is_path(preds):
        if split is not None:
            raise ArgumentError("split: is for the path of a pool; remove it")
        return "oof" if _arrays.are_paths(preds) else "test"
    return "test" if split is None else _values.text(split, "split").decode()


def member_names(pool: ctypes.c_void_p) -> list[str]:
    return c.listed(c.lib.cst_pool_member_name, pool)


def task_name(number: int) -> str:
    name: bytes = c.lib.cst_task_name(number)
    return name.decode()


def as_files(s: Session, pool: Any, split: str, given: dict[str, Any], classes: Any) -> dict[str, Any]:
    """Paths in place of arrays, which live as long as the session. pool: of the same files without what is given.

    Series are joined by id where the files have ids; everything else is in the order of their rows.
    """
    arrays = {name: value for name, value in given.items() if value is not None and not _arrays.is_path(value)}
    if not arrays:
        return given
    s.check(c.lib.cst_pool_load(s.context, pool, split.encode()))
    ids = c.listed(c.lib.cst_pool_id, pool, split.encode()) or None
    values = c.lib.cst_pool_task(pool) in _arrays.OF_OUTPUTS
    if not values and c.lib.cst_pool_task(pool) not in (c.TASK_CLASSIFICATION, c.TASK_TOPK):
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
    if name == "order":
        times = _arrays.times(value, None)
        assert times is not None
        return times
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
