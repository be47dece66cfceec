"""Arrays of any layout as the library takes them, without copies where NumPy's strides allow it."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import AbstractSet, Any, Optional

import numpy as np

from . import _frames, _npy, _values, io
from . import _library as c
from ._convert import as_array, in_c_order, plain
from ._errors import ArgumentError, ArrayTypeError, FormatError, InputError, MismatchError
from ._types import Array, Costs

_TYPES = {np.dtype(np.float32): c.NUMBER_FLOAT32, np.dtype(np.float64): c.NUMBER_FLOAT64, np.dtype(np.float16): c.NUMBER_FLOAT16}


TASKS = {"classification": c.TASK_CLASSIFICATION, "regression": c.TASK_REGRESSION,
         "segmentation": c.TASK_SEGMENTATION, "detection": c.TASK_DETECTION, "multilabel": c.TASK_MULTILABEL,
         "topk": c.TASK_TOPK}  # fmt: skip
# Their arrays are (rows, outputs), and so are the targets.
OF_OUTPUTS = (c.TASK_REGRESSION, c.TASK_MULTILABEL)
_UNNAMED = "but there are no classes; give classes=[...], the names in the order of the columns"
_UNSORTED = "but not of as many classes as there are columns; give classes=[...], the names in the order of the columns"
OUTPUTS = {"probability": c.OUTPUT_PROBABILITY, "logit": c.OUTPUT_LOGIT}


def is_path(preds: Any) -> bool:
    return isinstance(preds, (str, os.PathLike))


def are_paths(preds: Any) -> bool:
    """A list of files."""
    return isinstance(preds, (list, tuple)) and len(preds) > 0 and all(is_path(one) for one in preds)


def in_files(preds: Any) -> bool:
    """Whether predictions are a pool or a list of files."""
    return is_path(preds) or are_paths(preds)


def number_of(word: Optional[str], known: Mapping[str, int], what: str) -> Optional[int]:
    """The constant of the library for a word."""
    if word is None:
        return None
    if not isinstance(word, str) or word not in known:
        *others, last = (f"'{name}'" for name in known)
        raise ArgumentError(f"{what} is '{word}'; it must be {', '.join(others)} or {last}")
    return known[word]


def loaded(value: Any, what: str = "the array") -> Any:
    """An npy file or a tensor of a safetensors file as an array in memory, a tensor on the CPU as an array; else as it is."""
    if not is_path(value):
        return plain(value, what)
    if io.is_safetensors(os.fspath(value)):
        return io.read_one(os.fspath(value))
    io.refuse_format(value)
    if not os.fspath(value).endswith(".npy") and os.path.splitext(value)[1] in (".csv", ".gz", ".npz", ".zip", ".json"):
        raise FormatError(
            f"{os.fspath(value)}: in place of an array, give an npy file or a tensor (file.safetensors#name); a list of paths of "
            "predictions, with y the path of the labels, is read as the command line reads files"
        )
    return _npy.read(value)


def default_names(count: int) -> list[str]:
    """Names of members that were given none."""
    return [f"m{k}" for k in range(count)]


def _numbers(array: Any, name: str) -> Array:
    """A float array that is used where it is, or a converted copy. A path is an npy file or a tensor."""
    array = loaded(array, name)
    if hasattr(array, "toarray") and hasattr(array, "nnz"):
        raise ArrayTypeError(f"{name}: is a sparse matrix; predictions must be dense: use .toarray()")
    found = as_array(array, name)
    if found.dtype in _TYPES:  # of the machine's byte order
        return found
    if found.dtype.kind in "fiub":
        exact = found.dtype.kind == "f" or found.dtype.itemsize > 2
        converted: Array = found.astype(np.float64 if exact else np.float32)
        return converted
    raise ArrayTypeError(f"{name}: has dtype {found.dtype}; predictions must be floating-point numbers")


def members(preds: Any, names: Optional[Sequence[str]] = None, columns: str = "classes") -> tuple[list[str], list[Array]]:
    """Names and matrices of the predictions that the user passes. columns: the word for a member's columns."""
    if isinstance(preds, Mapping):
        if names is not None:
            raise ArgumentError("names: remove it; predictions is a mapping, whose keys are the names")
        names = [str(name) for name in preds]
        arrays: Sequence[Any] = list(preds.values())
    elif isinstance(preds, np.ndarray) or (
        (hasattr(preds, "__array__") or hasattr(preds, "__dlpack__")) and not isinstance(preds, (list, tuple))
    ):
        array = _numbers(preds, "predictions")
        if array.ndim != 3 and not (array.ndim == 2 and columns == "outputs"):
            raise MismatchError(
                f"predictions: has shape {array.shape}; a single array must be (members, rows, {columns}); give several as a list or a "
                "dict"
            )
        arrays = list(array)
    elif isinstance(preds, (list, tuple)):
        arrays = preds
    else:
        raise ArrayTypeError(
            f"predictions: is a {type(preds).__name__}; give a list or dict of arrays, an array "
            f"(members, rows, {columns}), or the path of a pool"
        )
    found = default_names(len(arrays)) if names is None else _named(names, "names")
    if len(found) != len(arrays):
        raise MismatchError(f"names: {len(found)} for {len(arrays)} members")
    if not arrays:
        raise InputError("predictions: no members")
    _different(found, "names")
    matrices: list[Array] = []
    for name, array in zip(found, arrays):
        matrix = _numbers(array, name)
        if matrix.ndim not in (1, 2):
            raise MismatchError(f"{name}: has shape {matrix.shape}; a member's predictions must be (rows, {columns})")
        if matrices and matrix.shape != matrices[0].shape:  # said before further files are read
            raise MismatchError(f"{name}: shape {matrix.shape} does not match shape {matrices[0].shape} of {found[0]}")
        matrices.append(matrix)
    if matrices[0].shape[0] == 0:
        raise InputError("predictions: no rows")
    return found, matrices


def _named(names: Any, what: str) -> list[str]:
    return [str(name) for name in _values.list_of(names, what, "names")]


def _different(names: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ArgumentError(f"{what}: '{name}' occurs twice")
        seen.add(name)


def labels(y: Any, classes: Optional[Sequence[Any]], of_model: bool = False, unnamed: str = _UNNAMED) -> Array:
    """int32 labels: integers are columns, or names where the classes are called by integers; text is looked up.

    of_model: classes are those of a model, which are text whatever they were. unnamed: what to do where text has no classes.
    """
    found = as_array(y, "y")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        hint = "; for a regression give task='regression'" if found.dtype.kind == "f" else ""
        raise MismatchError(f"y: has shape {found.shape}; there must be one label per row{hint}")
    if found.dtype.kind in "USO":
        if classes is None:
            refuse_beyond(found)
            raise ArgumentError(f"y: labels are strings, {unnamed}")
        return _looked_up(found, {str(name): i for i, name in enumerate(classes)})
    if found.dtype.kind in "fiu" and classes is not None and _are_names(found, classes, of_model):
        return _looked_up(found, {int(name): i for i, name in enumerate(classes)})
    if found.dtype.kind == "f":
        bad = np.flatnonzero(~(found == np.floor(found)))
        if bad.size:
            raise InputError(
                f"y: row {bad[0]} is {found[bad[0]]}; labels must be whole numbers starting at 0; for a "
                "regression give task='regression'"
            )
    elif found.dtype.kind not in "iub":
        raise ArrayTypeError(f"y: has dtype {found.dtype}; labels must be integers or class names")
    if found.size and (found.min() < 0 or found.max() > np.iinfo(np.int32).max):
        row = int(np.flatnonzero((found < 0) | (found > np.iinfo(np.int32).max))[0])
        raise InputError(f"y: row {row} is label {found[row]}; labels must be numbered from 0")
    return in_c_order(found, np.int32)


def without_signs(y: Any, count: int) -> Any:
    """Labels -1 and 1 of two classes as 0 and 1; others as they are."""
    found = None if y is None or count != 2 else as_array(y, "y")
    if found is None or found.dtype.kind not in "if" or not np.isin(found, (-1, 1)).all() or not (found < 0).any():
        return y
    return (found > 0).astype(np.int32)


_POSITIVE = ("1", "true", "t", "yes", "y", "pos", "positive")


def _label_text(label: Any) -> str:
    if isinstance(label, bytes):
        return label.decode()
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _of_two(y: Array, positive: Any, single: bool) -> Optional[list[str]]:
    """Two classes, the positive one last: it is given, or for a single column by custom. None: there are not two."""
    known = sorted({_label_text(label) for label in y.ravel().tolist()})
    if positive is not None:
        if len(known) != 2 or _label_text(positive) not in known:
            raise ArgumentError(f"positive: is {_values.shown(positive)}; it must be one of two labels, and y has {', '.join(known[:9])}")
        return sorted(known, key=lambda name: name == _label_text(positive))
    if single and len(known) > 2:
        raise MismatchError(f"y: has the labels {', '.join(known[:9])}, but a single column is the probability of one of two classes")
    custom = [name.lower() in _POSITIVE for name in known]
    if single and len(known) == 2 and sum(custom) != 1:
        raise ArgumentError(
            f"y: has the labels {' and '.join(known)}, and nothing says which of them a single column is the probability of; "
            "give positive=..."
        )
    return sorted(known, key=lambda name: name.lower() in _POSITIVE) if single and len(known) == 2 else None


def _classes_of(y: Any, count: int, positive: Any, single: bool) -> Optional[list[str]]:
    """The classes of labels that are text and all occur, in the order that scikit-learn gives their columns, or of two
    with a positive one."""
    found = None if y is None else as_array(y, "y")
    if found is not None and positive is not None and count == 2:
        return _of_two(found, positive, single)
    if positive is not None:
        raise ArgumentError("positive: needs the labels of two classes; remove it")
    if found is None or found.dtype.kind not in "USO" or not all(isinstance(name, (str, bytes)) for name in found.flat):
        return None
    if names := _of_two(found, None, single):
        return names
    known = sorted({_label_text(name) for name in found.flat})
    if all(name.isdecimal() for name in known) and known != sorted(known, key=int):
        return None  # "10" before "2": which of the two orders the columns have is not known
    return known if len(known) == count else None


def refuse_beyond(found: Array) -> None:
    """NumPy keeps whole numbers of more than 64 bits as objects, as it does text: they are named as what they are."""
    for i, label in enumerate(found.tolist()):
        if isinstance(label, int) and not -(2**63) <= label < 2**64:
            raise InputError(
                f"y: row {i} is label {_values.shown(label)}, outside the range of labels; labels are "
                "numbered from 0"
            )


def _looked_up(found: Array, places: Mapping[Any, int]) -> Array:
    out = np.empty(len(found), np.int32)
    for i, name in enumerate(found.tolist()):
        text = name.decode() if isinstance(name, bytes) else name
        if text not in places:
            raise InputError(f"y: row {i} is '{text}', which is not one of the classes")
        out[i] = places[text]
    return out


def _are_names(found: Array, classes: Sequence[Any], of_model: bool) -> bool:
    """Whether numbers in y are names of classes and not columns."""
    if not of_model:
        return all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in classes)
    if not all(str(name).isdecimal() for name in classes):
        return False
    names = [int(name) for name in classes]
    if names == list(range(len(names))) or not np.isin(found, names).all():
        return False
    if np.isin(found, np.arange(len(names))).all():
        raise ArgumentError(f"y: could be column numbers or names among {', '.join(map(str, classes))}; give text")
    return True


def _columns(found: Array) -> Array:
    """One column where there is one axis; also of no rows, whose columns NumPy would not count."""
    return found[:, None] if found.ndim == 1 else found


def targets(y: Any, outputs: Optional[int] = None) -> Array:
    """float64 targets (rows, outputs) in C order; the library looks at the numbers."""
    found = as_array(y, "y")
    if found.dtype.kind not in "fiub":
        raise ArrayTypeError(f"y: has dtype {found.dtype}; targets must be numbers")
    if found.ndim not in (1, 2):
        raise MismatchError(f"y: has shape {found.shape}; targets must be (rows,) or (rows, outputs)")
    matrix = in_c_order(_columns(found), np.float64)
    if outputs is not None and matrix.shape[1] != outputs:
        raise MismatchError(f"y: has {matrix.shape[1]} outputs, but the predictions have {outputs}")
    return matrix


def numbered(values: Any, what: str, rows: int) -> Optional[Array]:
    """Folds or groups [rows] as int64; text is numbered by first appearance."""
    if values is None:
        return None
    found = as_array(values, what)
    if found.shape != (rows,):
        raise MismatchError(f"{what}: has shape {found.shape}, but there are {rows} rows")
    if found.dtype.kind in "USO":
        numbers: dict[Any, int] = {}
        for row, value in enumerate(found.tolist()):
            if value is None or value != value:
                raise InputError(f"{what}: row {row} is {value} among names; every row needs a value")
        return np.array([numbers.setdefault(v, len(numbers)) for v in found.tolist()], np.int64)
    if found.dtype.kind == "f":
        bad = np.flatnonzero(~((found == np.floor(found)) & (np.abs(found) < 2.0**63)))
        if bad.size:
            raise InputError(f"{what}: row {bad[0]} is {found[bad[0]]}; {what} must be 64-bit integers")
    elif found.dtype.kind not in "iub":
        raise ArrayTypeError(f"{what}: has dtype {found.dtype}; {what} must be integers")
    elif found.size and int(found.max()) > _values.INT64:
        row = int(np.argmax(found))
        raise InputError(f"{what}: row {row} is {found[row]}; {what} must be 64-bit integers")
    return in_c_order(found, np.int64)


def times(values: Any, rows: Optional[int]) -> Optional[Array]:
    """Numbers [rows] in the order of times, which are numbers, dates or ISO texts."""
    if values is None:
        return None
    found = np.asarray(values)
    if found.ndim != 1 or rows not in (None, len(found)):
        raise MismatchError(f"order: has shape {found.shape}; give one time per row")
    if found.dtype.kind not in "iufMUO" or any(value is None or value != value for value in found.tolist()):
        raise InputError("order: give a number, a date or a text like 2021-03-14 for every row")
    try:
        return in_c_order(np.unique(found, return_inverse=True)[1].reshape(-1), np.int64)
    except TypeError as error:
        raise ArrayTypeError(f"order: the times cannot be compared with each other ({error})") from None


def row_weights(values: Any, rows: int) -> Optional[Array]:
    """Weights [rows] as float64; the library looks at the numbers."""
    if values is None:
        return None
    found = as_array(values, "sample_weight")
    if found.shape != (rows,):
        raise MismatchError(f"sample_weight: has shape {found.shape}, but there are {rows} rows")
    if found.dtype.kind not in "fiub":
        raise ArrayTypeError(f"sample_weight: has dtype {found.dtype}; weights must be numbers")
    return in_c_order(found, np.float64)


def are_lists(preds: Any) -> bool:
    """Whether members are tuples of indices, log-probabilities and perhaps the rest."""
    of = list(preds.values()) if isinstance(preds, Mapping) else preds if isinstance(preds, (list, tuple)) else []
    lists = [isinstance(one, tuple) and len(one) in (2, 3) for one in of]
    if any(lists) and not all(lists) and all(lists[i] or hasattr(one, "shape") for i, one in enumerate(of)):
        raise ArgumentError("predictions: all members must be (indices, logprobs) or (indices, logprobs, rest), or none")
    if not all(lists) and any(isinstance(one, (list, tuple)) and len(one) and getattr(one[0], "ndim", 0) == 2 for one in of):
        raise ArgumentError("predictions: a member that lists its likeliest classes is a tuple of two or three arrays, (indices, logprobs) or (indices, logprobs, rest)")
    return len(of) > 0 and all(lists)


def _lists(preds: Any) -> Any:
    """Such members as arrays (rows, 2 k + 1) of one width, with -1 for no class and NaN for no rest."""

    def joined(name: str, indices: Any, logprobs: Any, rest: Any = None) -> Array:
        classes, logs = (as_array(loaded(a, name), name) for a in (indices, logprobs))
        if classes.ndim != 2 or classes.shape != logs.shape or classes.dtype.kind not in "iu":
            raise MismatchError(
                f"{name}: indices {classes.dtype}{classes.shape} and log-probabilities {logs.shape}; both must be (rows, k), and indices integers"
            )
        others = np.full(len(classes), np.nan) if rest is None else as_array(loaded(rest, name), name)
        if others.shape != (len(classes),):
            raise MismatchError(f"{name}: the rest has shape {others.shape}, but there are {len(classes)} rows")
        found = np.full((len(classes), 2 * width + 1), -1, np.float64)
        found[:, : classes.shape[1]] = classes
        found[:, width : width + classes.shape[1]] = logs
        found[:, -1] = others
        return found

    of = dict(preds) if isinstance(preds, Mapping) else dict(zip(default_names(len(preds)), preds))
    width = max(np.shape(one[0])[-1] if np.ndim(one[0]) else 1 for one in of.values())
    made = {str(name): joined(str(name), *one) for name, one in of.items()}
    first = next(iter(made))
    for name, one in made.items():
        if len(one) != len(made[first]):
            raise MismatchError(f"{name}: has {len(one)} rows, but {first} has {len(made[first])}")
    return made if isinstance(preds, Mapping) else list(made.values())


def domain_names(values: Any, rows: Optional[int]) -> Optional[Array]:
    """Names of domains [rows] as text, numbers as they are written; "" for a row without one (None, NaN, NA)."""
    if values is None:
        return None
    given = values.to_numpy() if hasattr(values, "to_numpy") else values
    found = np.asarray(given) if isinstance(given, np.ndarray) else np.array(given, object)
    if found.ndim != 1 or (rows is not None and len(found) != rows):
        raise MismatchError(f"domains: has shape {found.shape}" + ("; give one per row" if rows is None else f", but there are {rows} rows"))
    if found.dtype.kind not in "USOfiub":
        raise ArrayTypeError(f"domains: has dtype {found.dtype}; domains must be names or integers")
    return np.array([_domain_name(value, row) for row, value in enumerate(found.tolist())], np.str_)


def _domain_name(value: Any, row: int) -> str:
    if isinstance(value, (str, bytes)):
        return value if isinstance(value, str) else value.decode()
    if value is None or str(value) == "<NA>" or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return ""
    if isinstance(value, (int, float, np.integer, np.floating)) and float(value).is_integer():
        return str(int(value))
    raise InputError(f"domains: row {row} is {value!r}; domains must be names or integers")


def texts(values: Sequence[str], what: str) -> Any:
    return (ctypes.c_char_p * len(values))(*[_values.text(str(v), what) for v in values])


class Arrays:
    """A cst_pool_arrays and everything it points to, which it keeps alive."""

    def __init__(
        self,
        preds: Any,
        y: Any = None,
        *,
        split: str = "oof",
        task: Optional[str] = None,
        names: Optional[Sequence[str]] = None,
        classes: Optional[Sequence[str]] = None,
        label_names: Optional[Sequence[str]] = None,
        folds: Any = None,
        groups: Any = None,
        order: Any = None,
        sample_weight: Any = None,
        domains: Any = None,
        flops: Costs = None,
        latency_ms: Costs = None,
        params: Costs = None,
        memory_bytes: Costs = None,
        output: Optional[str] = None,
        positive: Any = None,
        only: Optional[AbstractSet[str]] = None,
        unnamed: Optional[str] = None,
    ) -> None:
        kind = number_of(task or "classification", TASKS, "task")
        lists = are_lists(preds)
        number = None  # of classes, which lists do not show
        if lists or kind == c.TASK_TOPK:
            if not lists or classes is None:
                raise ArgumentError(
                    "classes: give the number of all classes, or their names; the members list only some of them"
                    if lists else "predictions: give (indices, logprobs) or (indices, logprobs, rest) of each member"
                )  # fmt: skip
            kind, preds = c.TASK_TOPK, _lists(preds)
            number = _values.integer(classes, "classes") if isinstance(classes, (int, np.integer)) else len(classes)
            classes = None if isinstance(classes, (int, np.integer)) else classes
        elif kind != c.TASK_CLASSIFICATION and kind not in OF_OUTPUTS:
            raise ArgumentError(f"predictions: pools of task {task} are read from files; give the path")
        self.values = kind in OF_OUTPUTS
        numbers_are = number_of(output, OUTPUTS, "output")
        if kind == c.TASK_REGRESSION and output is not None:
            raise ArgumentError("output: is for probabilities; remove it for a regression")
        preds, index, classes = _frames.unframed(preds, classes, label_names)
        beside = {"y": y, "folds": folds, "groups": groups, "order": order, "sample_weight": sample_weight, "domains": domains}
        y, folds, groups, order, sample_weight, domains = (
            _frames.joined(loaded(value, name), index, name) for name, value in beside.items()
        )
        self.names, matrices = members(preds, names, "outputs" if self.values else "classes")
        if only is not None and only & set(self.names):
            matrices = [matrix for name, matrix in zip(self.names, matrices) if name in only]
            self.names = [name for name in self.names if name in only]
        self.rows = matrices[0].shape[0]
        width = matrices[0].shape[1] if matrices[0].ndim == 2 else 1
        self.classes = number or (2 if width == 1 and not self.values else width)  # outputs for regression
        if positive is not None and (self.values or classes is not None):
            raise ArgumentError("positive: is for two classes without names; remove it, or classes")
        if classes is None and label_names is None and not self.values and not lists:
            if unnamed is None:
                classes = _classes_of(y, self.classes, positive, width == 1)
            if positive is not None and y is not None:
                y = np.array([_label_text(label) for label in as_array(y, "y").ravel().tolist()])
            y = without_signs(y, self.classes)
        names_of_classes = self._class_names(classes)
        numbers = (c.Array * len(matrices))()
        for k, matrix in enumerate(matrices):
            steps = matrix.strides if matrix.ndim == 2 else (*matrix.strides, matrix.itemsize)
            numbers[k] = c.Array(matrix.ctypes.data, _TYPES[matrix.dtype], steps[0], steps[1])
        self.labels = self.targets = None
        if y is not None and self.values:
            if _frames.is_frame(y) and names_of_classes and set(map(str, y.columns)) == set(names_of_classes):
                y = _frames.ordered(y, names_of_classes, "y")
            self.targets = targets(y, self.classes)
        elif y is not None:
            self.labels = labels(y, classes if label_names is None else label_names, label_names is not None, unnamed or _UNSORTED)
            beyond = np.flatnonzero(self.labels >= self.classes)
            if beyond.size and np.asarray(y).dtype.kind == "f":
                raise InputError(
                    f"y: row {beyond[0]} is label {self.labels[beyond[0]]}; labels must be 0 to {self.classes - 1} "
                    f"({self.classes} classes); for a regression give task='regression'"
                )
        for known, what in ((self.labels, "labels"), (self.targets, "targets")):
            if known is not None and len(known) != self.rows:
                raise MismatchError(f"y: has {len(known)} {what}, but {self.names[0]} has {self.rows} rows")
        by_key = {"flops": flops, "latency_ms": latency_ms, "params": params, "memory_bytes": memory_bytes}
        costs = {key: self._costs(key, given) for key, given in by_key.items()}
        fold_numbers = numbered(folds, "folds", self.rows)
        group_numbers = numbered(groups, "groups", self.rows)
        time_of = times(order, self.rows)
        weights = row_weights(sample_weight, self.rows)
        domain_of = domain_names(domains, self.rows)

        def address(array: Optional[Array]) -> Optional[int]:
            return None if array is None else array.ctypes.data

        listed = (ctypes.c_int64 * len(matrices))(*[(width - 1) // 2] * len(matrices)) if lists else None
        self._alive = (matrices, listed, numbers, costs, fold_numbers, group_numbers, time_of, weights)
        self.struct = c.PoolArrays(
            split=_values.text(split, "split"),
            task=kind,
            output=numbers_are or c.OUTPUT_PROBABILITY,
            members=len(matrices),
            rows=self.rows,
            classes=self.classes,
            columns=1 if width == 1 and not self.values else 0,
            predictions=numbers,
            names=texts(self.names, "names"),
            class_names=None if names_of_classes is None else texts(names_of_classes, "classes"),
            **{key: address(found) for key, found in costs.items()},
            labels=address(self.labels),
            targets=address(self.targets),
            folds=address(fold_numbers),
            groups=address(group_numbers),
            order=address(time_of),
            listed=None if listed is None else ctypes.addressof(listed),
            weights=address(weights),
            domains=None if domain_of is None else texts(domain_of.tolist(), "domains"),
        )

    def _class_names(self, classes: Optional[Sequence[str]]) -> Optional[list[str]]:
        if classes is None:
            return None
        if isinstance(classes, (int, np.integer)):
            raise ArgumentError("classes: must be names; their number is taken from the predictions")
        found = _named(classes, "classes")
        if len(found) != self.classes:
            what = "outputs" if self.values else "classes"
            raise MismatchError(f"classes: {len(found)} names, but {self.names[0]} has {self.classes} {what}")
        _different(found, "classes")
        return found

    def _costs(self, key: str, given: Costs) -> Optional[Array]:
        if given is None:
            return None
        if isinstance(given, Mapping):
            by_name = {str(name): cost for name, cost in given.items()}
            for name in by_name:
                if name not in self.names:
                    raise MismatchError(f"{key}: unknown member '{name}'")
            given = [by_name.get(name, np.nan) for name in self.names]
        try:
            costs = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"{key}: is {_values.shown(given)}; it must be one number per member") from None
        if costs.shape != (len(self.names),):
            raise MismatchError(f"{key}: has shape {costs.shape}, but there are {len(self.names)} members")
        return in_c_order(costs, np.float64)


def distribution(probabilities: Any) -> Array:
    """Probabilities (rows, classes) as float32 in C order: what scores take. Other layouts are copied."""
    found = _numbers(probabilities, "probabilities")
    if found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 1):
        one = found.reshape(-1)
        found = np.stack([1 - one, one], axis=1)
    if found.ndim != 2:
        raise MismatchError(f"probabilities: has shape {found.shape}; probabilities must be (rows, classes)")
    return in_c_order(found, np.float32)


def values(predicted: Any, name: str = "values") -> Array:
    """Values (rows, outputs) for regression as float32 in C order: what scores take. Other layouts are copied."""
    found = _numbers(predicted, name)
    if found.ndim not in (1, 2):
        raise MismatchError(f"{name}: has shape {found.shape}; it must be (rows,) or (rows, outputs)")
    return in_c_order(_columns(found), np.float32)
