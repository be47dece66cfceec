"""Arrays of any layout as the library takes them, without copies where NumPy's strides allow it."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import _frames
from . import _library as c
from ._errors import ArgumentError, ArrayTypeError, InputError, MismatchError
from ._types import Array

_TYPES = {np.dtype(np.float32): c.FLOAT32, np.dtype(np.float64): c.FLOAT64, np.dtype(np.float16): c.FLOAT16}


def is_path(preds: Any) -> bool:
    return isinstance(preds, (str, os.PathLike))


def default_names(count: int) -> list[str]:
    """Names of members that were given none."""
    return [f"m{k}" for k in range(count)]


def _numbers(array: Any, name: str) -> Array:
    """A float array that is used where it is, or a converted copy."""
    if hasattr(array, "toarray") and hasattr(array, "nnz"):
        raise ArrayTypeError(f"{name}: is a sparse matrix; predictions are dense: use .toarray()")
    found = np.asanyarray(array)
    if isinstance(found, np.ma.MaskedArray) and np.any(found.mask):
        raise InputError(f"{name}: has masked values; every prediction must be a number")
    if found.dtype in _TYPES:  # of the machine's byte order
        return np.asarray(found)
    if found.dtype.kind in "fiub":
        exact = found.dtype.kind == "f" or found.dtype.itemsize > 2
        return np.asarray(found, np.float64 if exact else np.float32)
    raise ArrayTypeError(f"{name}: has dtype {found.dtype}; predictions are floating-point numbers")


def members(preds: Any, names: Optional[Sequence[str]] = None) -> tuple[list[str], list[Array]]:
    """Names and matrices of what the user calls predictions."""
    if isinstance(preds, Mapping):
        if names is not None:
            raise ArgumentError("names are given twice: predictions is a mapping, whose keys are the names")
        names = [str(name) for name in preds]
        arrays: Sequence[Any] = list(preds.values())
    elif isinstance(preds, np.ndarray) or (hasattr(preds, "__array__") and not isinstance(preds, (list, tuple))):
        array = _numbers(preds, "predictions")
        if array.ndim != 3:
            raise MismatchError(
                f"predictions: has shape {array.shape}; one array is (members, rows, classes), several are a list or a dict"
            )
        arrays = list(array)
    elif isinstance(preds, (list, tuple)):
        arrays = preds
    else:
        raise ArrayTypeError(
            f"predictions: is a {type(preds).__name__}; give a list or dict of arrays, an array (members, rows, classes), "
            "or the path of a pool"
        )
    found = default_names(len(arrays)) if names is None else [str(name) for name in names]
    if len(found) != len(arrays):
        raise MismatchError(f"names: {len(found)} for {len(arrays)} members")
    if not arrays:
        raise InputError("predictions: there are no members")
    matrices = [_numbers(array, name) for name, array in zip(found, arrays)]
    for name, matrix in zip(found, matrices):
        if matrix.ndim not in (1, 2):
            raise MismatchError(f"{name}: has shape {matrix.shape}; a member's predictions are (rows, classes)")
        if matrix.shape != matrices[0].shape:
            raise MismatchError(
                f"{name}: shape {matrix.shape} does not go with shape {matrices[0].shape} of {found[0]}"
            )
    return found, matrices


def labels(y: Any, classes: Optional[Sequence[str]]) -> Array:
    """int32 labels: integers are columns, text is looked up among the classes' names."""
    found = np.asarray(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise MismatchError(f"y: has shape {found.shape}; labels are one for each row")
    if found.dtype.kind in "USO":
        if classes is None:
            raise ArgumentError("y: labels are text; give classes=[...], the names in the order of the columns")
        places = {name: i for i, name in enumerate(classes)}
        out = np.empty(len(found), np.int32)
        for i, name in enumerate(found.tolist()):
            text = name.decode() if isinstance(name, bytes) else name
            if text not in places:
                raise InputError(f"y: row {i} is '{text}', which is none of the classes")
            out[i] = places[text]
        return out
    if found.dtype.kind == "f":
        bad = np.flatnonzero(~(found == np.floor(found)))
        if bad.size:
            raise InputError(f"y: row {bad[0]} is {found[bad[0]]}; labels are whole numbers from 0 on")
    elif found.dtype.kind not in "iub":
        raise ArrayTypeError(f"y: has dtype {found.dtype}; labels are integers or names of classes")
    if found.size and (found.min() < 0 or found.max() > np.iinfo(np.int32).max):
        row = int(np.flatnonzero((found < 0) | (found > np.iinfo(np.int32).max))[0])
        raise InputError(f"y: row {row} is label {found[row]}; labels are numbered from 0")
    return np.ascontiguousarray(found, np.int32)


def numbered(values: Any, what: str, rows: int) -> Optional[Array]:
    """Folds or groups [rows] as int64; text is numbered by first appearance."""
    if values is None:
        return None
    found = np.asarray(values)
    if found.shape != (rows,):
        raise MismatchError(f"{what}: has shape {found.shape} where there are {rows} rows")
    if found.dtype.kind in "USO":
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(v, len(numbers)) for v in found.tolist()], np.int64)
    if found.dtype.kind == "f":
        bad = np.flatnonzero(~(found == np.floor(found)))
        if bad.size:
            raise InputError(f"{what}: row {bad[0]} is {found[bad[0]]}; {what} are whole numbers")
    elif found.dtype.kind not in "iub":
        raise ArrayTypeError(f"{what}: has dtype {found.dtype}; {what} are whole numbers")
    return np.ascontiguousarray(found, np.int64)


def _texts(values: Sequence[str]) -> Any:
    return (ctypes.c_char_p * len(values))(*[str(v).encode("utf-8") for v in values])


class Arrays:
    """A cst_pool_arrays and everything it points to, which it keeps alive."""

    def __init__(
        self,
        preds: Any,
        y: Any = None,
        *,
        split: str = "oof",
        names: Optional[Sequence[str]] = None,
        classes: Optional[Sequence[str]] = None,
        label_names: Optional[Sequence[str]] = None,
        folds: Any = None,
        groups: Any = None,
        flops: Union[None, Sequence[float], Mapping[str, float]] = None,
        output: str = "probability",
    ) -> None:
        if output not in ("probability", "logit"):
            raise ArgumentError(f"output is '{output}'; it is 'probability' or 'logit'")
        preds, index, classes = _frames.unframed(preds, classes)
        y = _frames.joined(y, index, "y")
        folds = _frames.joined(folds, index, "folds")
        groups = _frames.joined(groups, index, "groups")
        self.names, matrices = members(preds, names)
        shape = matrices[0].shape
        width = shape[1] if len(shape) == 2 else 1
        self.rows = shape[0]
        self.classes = 2 if width == 1 else width
        names_of_classes = None if classes is None else [str(name) for name in classes]
        if names_of_classes is not None and len(names_of_classes) != self.classes:
            raise MismatchError(f"classes: {len(names_of_classes)} names where {self.names[0]} has {self.classes} classes")
        numbers = (c.Array * len(matrices))()
        for k, matrix in enumerate(matrices):
            steps = matrix.strides if matrix.ndim == 2 else (*matrix.strides, matrix.itemsize)
            numbers[k] = c.Array(matrix.ctypes.data, _TYPES[matrix.dtype], steps[0], steps[1])
        self.labels = None if y is None else labels(y, label_names or names_of_classes)
        if self.labels is not None and len(self.labels) != self.rows:
            raise MismatchError(f"y: has {len(self.labels)} labels where {self.names[0]} has {self.rows} rows")
        if isinstance(flops, Mapping):
            flops = [flops.get(name, np.nan) for name in self.names]
        costs = None if flops is None else np.ascontiguousarray(flops, np.float64)
        if costs is not None and costs.shape != (len(matrices),):
            raise MismatchError(f"flops: has shape {costs.shape} where there are {len(matrices)} members")
        fold_numbers = numbered(folds, "folds", self.rows)
        group_numbers = numbered(groups, "groups", self.rows)

        def address(array: Optional[Array]) -> Optional[int]:
            return None if array is None else array.ctypes.data

        self._alive = (matrices, numbers, costs, fold_numbers, group_numbers)
        self.struct = c.PoolArrays(
            split=split.encode(),
            task=c.CLASSIFICATION,
            output=c.LOGIT if output == "logit" else c.PROBABILITY,
            members=len(matrices),
            rows=self.rows,
            classes=self.classes,
            columns=1 if width == 1 else 0,
            predictions=numbers,
            names=_texts(self.names),
            class_names=None if names_of_classes is None else _texts(names_of_classes),
            flops=address(costs),
            labels=address(self.labels),
            folds=address(fold_numbers),
            groups=address(group_numbers),
        )


def distribution(probabilities: Any) -> Array:
    """Probabilities (rows, classes) as float32 in C order: what scores take. Other layouts are copied."""
    found = _numbers(probabilities, "probabilities")
    if found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 1):
        one = found.reshape(-1)
        found = np.stack([1 - one, one], axis=1)
    if found.ndim != 2:
        raise MismatchError(f"probabilities: has shape {found.shape}; they are (rows, classes)")
    return np.ascontiguousarray(found, np.float32)
