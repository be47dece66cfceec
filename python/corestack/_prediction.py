"""Predictions of a model: arrays of any task, files as `corestack predict` writes them, and a predictor for services."""
from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from . import _library as c
from . import _values
from ._arrays import OF_OUTPUTS
from ._convert import as_array, in_c_order
from ._errors import BY_STATUS, ArgumentError, ArrayTypeError, Error, MismatchError, UnsupportedError
from ._frames import in_order
from ._pools import task_name
from ._report import Report
from ._session import Owner, Session
from ._types import Array

_MODES = ("off", "warn", "auto")
_SHIFTS = ("off", "em", "bbse", "fixed")
FORMATS = {"maps": 0, "maps-float16": 1, "labels": 2, "png": 3}


class Guard:
    """How a prediction is guarded, and afterwards what was found."""

    def __init__(self, mode: Any = "warn", batch: Optional[int] = None, label_shift: Any = "off") -> None:
        if not isinstance(mode, str) or mode not in _MODES:
            raise ArgumentError(f"guard: is {_values.shown(mode)}; it must be 'auto', 'warn' or 'off'")
        rows = 0 if batch is None else _values.integer(batch, "batch")
        if batch is not None and (rows < 1 or mode == "off"):
            raise ArgumentError("batch: is the number of rows of a batch of the guard, 1 or more; remove it if the guard is off")
        if not isinstance(label_shift, str) or label_shift not in _SHIFTS:
            raise ArgumentError(f"label_shift: is {_values.shown(label_shift)}; it must be 'off', 'em', 'bbse' or 'fixed'")
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
        s.keep(c.lib.cst_guard_report_free, found)
        self._found = found
        if status == 0 and self.label_shift:
            shares = ctypes.c_void_p()
            status = c.lib.cst_model_label_shift(
                s.context, model, self.label_shift, self._found, rows.value, out, ctypes.byref(shares)
            )
            s.keep(c.lib.cst_label_report_free, shares)
            self._shares = shares
        return status

    def write_maps(self, s: Session, model: Any, pool: Any, split: str, kind: int, ids: Optional[bytes], file: bytes, *counts: Any) -> int:
        """Writes the segmentation maps, whose cases are batches."""
        found = ctypes.c_void_p()
        status: int = c.lib.cst_segmentation_predict_guarded(
            s.context, model, pool, split.encode(), ctypes.byref(self.struct), kind, ids, file, *counts, ctypes.byref(found)
        )
        s.keep(c.lib.cst_guard_report_free, found)
        self._found = found
        return status

    def tell(self, s: Session, model: Any, document: Any) -> None:
        """Puts what was found into a document of the command predict."""
        if self.mode and c.lib.cst_model_task(model) in (c.TASK_CLASSIFICATION, c.TASK_SEGMENTATION):
            s.check(c.lib.cst_report_set_guard(s.context, document, self.mode, self._found))
        if self._shares:
            s.check(c.lib.cst_report_set_label_shift(s.context, document, model, self._shares))


def others(model: Any) -> list[str]:
    """Names of the members that the fit left out."""
    return c.listed(c.lib.cst_model_other_name, model)


def _taken(s: Session, status: int, pointers: Sequence[ctypes.c_void_p], count: int) -> list[Array]:
    """Copies of floats that the library allocated, which are freed, also where a handler of a signal has raised."""
    try:
        s.check(status)
        places: list[Any] = [(ctypes.c_float * count).from_address(pointer.value or 0) for pointer in pointers]
        return [np.array(np.frombuffer(flat, np.float32)) for flat in places]
    finally:
        for pointer in pointers:
            c.lib.cst_free(s.context, pointer)


def as_members(pool: Any, split: str, flat: Array, classes: int) -> tuple[Array, int]:
    """Probabilities and their columns: class 1 alone where the members have one column."""
    if classes != 2 or not c.lib.cst_pool_single(pool, split.encode()):
        return flat, classes
    return np.ascontiguousarray(flat.reshape(-1, 2)[:, 1]), 1


def shaped(flat: Array, rows: int, columns: int, conditions: int, values: bool) -> Array:
    """(rows, columns), with an axis of conditions before where there are some; values of one output are (rows,)."""
    shape = [rows] if conditions == 0 else [conditions, rows // conditions]
    return flat.reshape(shape if values and columns == 1 else [*shape, columns])


def probabilities(s: Session, model: Any, pool: Any, split: str, guard: Guard) -> tuple[Array, int]:
    """Probabilities, or regression values, flat, and how many rows."""
    rows, out = ctypes.c_int64(), ctypes.c_void_p()
    status = guard.predict(s, model, pool, split, out, rows)
    (flat,) = _taken(s, status, [out], rows.value * c.lib.cst_model_classes(model))
    return flat, rows.value


def lists(s: Session, model: Any, pool: Any, split: str, top: Optional[int]) -> tuple[Array, Array, Array]:
    """The likeliest classes of each row, their log-probabilities and that of all others."""
    found = ctypes.c_void_p()
    count = 0 if top is None else _values.integer(top, "top", least=1)
    s.check(c.lib.cst_model_predict_topk(s.context, model, pool, split.encode(), count, ctypes.byref(found)))
    made = ctypes.cast(found, ctypes.POINTER(c.Topk))
    of = made.contents
    shape = (of.rows, of.top)

    def taken(address: int, kind: Any, of_shape: tuple[int, ...]) -> Array:
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(kind)), of_shape).copy()

    out = (taken(of.indices, ctypes.c_int32, shape), taken(of.logprobs, ctypes.c_float, shape), taken(of.rest, ctypes.c_float, shape[:1]))
    c.lib.cst_topk_free(s.context, made)
    return out


def values(s: Session, model: Any, pool: Any, split: str) -> tuple[Array, Array, int]:
    """Regression values and variances, flat, and how many rows."""
    rows, mean, variance = ctypes.c_int64(), ctypes.c_void_p(), ctypes.c_void_p()
    status = c.lib.cst_model_predict_values_pool(
        s.context, model, pool, split.encode(), ctypes.byref(mean), ctypes.byref(variance), ctypes.byref(rows)
    )
    found = _taken(s, status, [mean, variance], rows.value * c.lib.cst_model_classes(model))
    return found[0], found[1], rows.value


def decided(s: Session, model: Any, pool: Any, split: str) -> tuple[Array, int]:
    """Regression values for the metric of the fit, flat, and how many rows."""
    rows, found = ctypes.c_int64(), ctypes.c_void_p()
    status = c.lib.cst_model_decide_values_pool(s.context, model, pool, split.encode(), ctypes.byref(found), ctypes.byref(rows))
    return _taken(s, status, [found], rows.value * c.lib.cst_model_classes(model))[0], rows.value


def intervals(s: Session, model: Any, mean: Array, variance: Array, rows: int, level: float) -> Array:
    """Both ends, (2, rows * outputs)."""
    ends = np.empty((2, mean.size), np.float32)
    s.check(
        c.lib.cst_model_intervals(
            s.context, model, level, mean.ctypes.data, variance.ctypes.data, rows, ends[0].ctypes.data, ends[1].ctypes.data
        )
    )
    return ends


# ---- files -----------------------------------------------------------------------------------------


def write(
    s: Session,
    model: Any,
    pool: Any,
    split: str,
    out: Any,
    form: Optional[str],
    like: Any = None,
    column: Any = None,
    guard: Optional[Guard] = None,
    boxes: tuple[int, float] = (100, 0.001),
    ids: Optional[bytes] = None,
) -> Report:
    """Writes what `corestack predict` writes, and returns its document."""
    guard = guard or Guard()
    file, task = _values.path(out, "out"), c.lib.cst_model_task(model)
    path = os.fsdecode(file)
    if form is not None and task != c.TASK_SEGMENTATION:
        raise ArgumentError("format: is for segmentation; remove it")
    ending = os.path.splitext(path)[1]
    if like is not None or column is not None:
        if task in (c.TASK_SEGMENTATION, c.TASK_DETECTION):
            raise UnsupportedError(f"like and column: are not supported for {task_name(task)}")
        if ending != ".csv":
            raise ArgumentError(f"{path}: like and column are for tables; use the extension .csv")
    first, second = ctypes.c_int64(), ctypes.c_int64()
    counts = (ctypes.byref(first), ctypes.byref(second))
    found: dict[str, Any] = {}
    if task == c.TASK_SEGMENTATION:
        kind = FORMATS[form] if form in FORMATS else None
        if form is not None and kind is None:
            raise ArgumentError(f"format is '{form}'; it must be 'maps', 'maps-float16', 'labels' or 'png'")
        s.check(guard.write_maps(s, model, pool, split, kind or 0, ids, file, *counts))
        found = {"samples": second.value, "classes": None, "cases": first.value, "format": form or "maps"}
    elif task == c.TASK_DETECTION:
        if ending != ".json":
            raise ArgumentError(f"{path}: detections are written as COCO results; use the extension .json")
        s.check(c.lib.cst_model_predict_detections(s.context, model, pool, split.encode(), file, *boxes, *counts))
        found = {"samples": first.value, "images": first.value, "detections": second.value}
    else:
        if ending not in (".npy", ".csv"):
            raise ArgumentError(f"{path}: predictions are written as .npy or .csv; use one of these extensions")
        found = _write_rows(s, model, pool, split, file, ending == ".csv", like, column, guard)
    return document(s, model, split, path, found, guard)


def _write_rows(
    s: Session, model: Any, pool: Any, split: str, file: bytes, as_csv: bool, like: Any, column: Any, guard: Guard
) -> dict[str, Any]:
    """Writes an array or a table; returns what the document says of it."""
    conditions = c.lib.cst_pool_conditions(pool, split.encode())
    if as_csv and conditions > 0:
        raise ArgumentError(f"split '{split}' has several conditions, which do not fit into a table; write a .npy file")
    flat, rows = probabilities(s, model, pool, split, guard)
    classes = c.lib.cst_model_classes(model)
    found: dict[str, Any] = {"samples": rows, "classes": None}
    if like is None and column is None:
        flat, columns = as_members(pool, split, flat, classes)
        if columns < classes:
            found["columns"] = f"one column: probability of class '{(c.lib.cst_model_class_name(model, 1) or b'1').decode()}'"
        classes = columns
    if not as_csv and conditions > 0:
        shape = (conditions, rows // conditions, classes)
        s.check(c.lib.cst_write_predictions_conditions(s.context, file, flat.ctypes.data, *shape))
    elif not as_csv:
        s.check(c.lib.cst_write_predictions(s.context, file, flat.ctypes.data, rows, classes))
    elif like is not None or column is not None:
        found["columns"] = _write_table(s, model, pool, split, file, like, column, flat, rows)
    else:
        names, ids = _names(model, pool, c.lib.cst_model_classes(model)), _ids(pool, split, rows)
        if "columns" in found:
            names = (ctypes.c_char_p * 1)(b"probability" if names is None else names[1])
        s.check(c.lib.cst_write_predictions_csv(s.context, file, flat.ctypes.data, rows, classes, ids, names))
    return found


def _write_table(
    s: Session, model: Any, pool: Any, split: str, file: bytes, like: Any, column: Any, flat: Array, rows: int
) -> str:
    """Writes the form of a sample, or one column; returns what the columns are."""
    classes, values = c.lib.cst_model_classes(model), c.lib.cst_model_task(model) in OF_OUTPUTS
    names, ids = _names(model, pool, classes), _ids(pool, split, rows)
    wanted = _values.text_or_none(column, "column")
    if like is not None:
        sample = _values.path(like, "like")
        said = s.make_with(
            c.lib.cst_free,
            lambda context, o: c.lib.cst_write_predictions_like(
                context, file, sample, wanted, int(values), flat.ctypes.data, rows, classes, ids, names, o
            ),
        )
        return ctypes.string_at(said).decode("utf-8", "replace")
    known = [] if names is None else list(names)
    if wanted in known:
        at = known.index(wanted)
    elif classes == (1 if values else 2):
        at = classes - 1
    else:
        raise ArgumentError(f"column '{column}': the stack has {classes} {'outputs' if values else 'classes'}, of which none is called that")
    one = np.ascontiguousarray(flat.reshape(rows, classes)[:, at])
    s.check(c.lib.cst_write_predictions_csv(s.context, file, one.ctypes.data, rows, 1, ids, (ctypes.c_char_p * 1)(wanted)))
    name = known[at].decode() if known else str(at)
    return f"column '{column}': " + ("the predicted value" if values else f"probability of class '{name}'")


def _names(model: Any, pool: Any, classes: int) -> Any:
    found = [c.lib.cst_model_class_name(model, i) or c.lib.cst_pool_class_name(pool, i) for i in range(classes)]
    return None if None in found else (ctypes.c_char_p * classes)(*found)


def _ids(pool: Any, split: str, rows: int) -> Any:
    if c.lib.cst_pool_id(pool, split.encode(), 0) is None:
        return None
    return (ctypes.c_char_p * rows)(*[c.lib.cst_pool_id(pool, split.encode(), i) for i in range(rows)])


def document(s: Session, model: Any, split: str, path: Optional[str], found: Mapping[str, Any], guard: Guard) -> Report:
    """What `corestack predict --json` prints."""
    task = c.lib.cst_model_task(model)
    made = s.make(c.lib.cst_report_free, c.lib.cst_report_create, b"predict")

    def put(key: str, value: Any) -> None:
        if isinstance(value, int):
            s.check(c.lib.cst_report_set_integer(s.context, made, key.encode(), value))
        else:
            text = None if value is None else value.encode("utf-8", "surrogateescape")
            s.check(c.lib.cst_report_set_string(s.context, made, key.encode(), text))

    put("model", None)
    if task in OF_OUTPUTS:
        put("task", task_name(task))
    put("split", split)
    put("out", path)
    for key, value in found.items():
        put(key, c.lib.cst_model_classes(model) if key == "classes" else value)
    guard.tell(s, model, made)
    return Report(*s.report(made))


def loaded(s: Session, model: Any, pool: Any, split: str, form: Optional[str], guard: Guard, boxes: tuple[int, float], ids: Optional[bytes]) -> Any:
    """Segmentation maps as one array, or detections as a list of dicts: what would be written, in memory."""
    with tempfile.TemporaryDirectory() as folder:
        if c.lib.cst_model_task(model) == c.TASK_DETECTION:
            path = os.path.join(folder, "detections.json")
            write(s, model, pool, split, path, form, boxes=boxes)
            with open(path, encoding="utf-8") as file:
                return s.run(json.load, file)
        if form == "png":
            raise ArgumentError("format: PNGs are files; give out=FOLDER, or format='labels' for an array")
        path = os.path.join(folder, "maps.npy")
        write(s, model, pool, split, path, form, guard=guard, ids=ids)
        return s.run(np.load, path)


# ---- services --------------------------------------------------------------------------------------


def rows_of(preds: Any, names: Sequence[str], classes: Optional[Sequence[str]], members: str, absent: bool = False) -> list[Any]:
    """What members predict, in the order of their names, as the library takes it. absent: None stays."""
    if not hasattr(preds, "__getitem__") or isinstance(preds, str):
        raise ArrayTypeError(f"predictions: is a {type(preds).__name__}; give a list or dict of arrays")
    if len(preds) != len(names):
        raise MismatchError(f"predictions: {len(preds)} arrays; give those of the {len(names)} {members}")
    try:
        return [
            None if one is None and absent else in_c_order(as_array(in_order(one, classes, name), name), np.float32)
            for one, name in zip(preds, names)
        ]
    except (TypeError, ValueError) as error:
        if isinstance(error, Error):
            raise
        raise ArrayTypeError(f"predictions: not numbers: {error}") from None


class Predictor(Owner):
    """Predict one sample or a batch in microseconds; created by :meth:`corestack.Stack.predictor`.

    Memory and model are prepared once; a call allocates only its result. Threads may share a predictor, whose calls then wait
    for each other; with one each they work at the same time, because a call releases the interpreter's lock. Results equal
    those of :meth:`corestack.Stack.predict` up to rounding.
    With a window, rows are guarded: `others` are the members that only the guard asks for, and `found` is what it found.
    """

    def __init__(self, stack: Any, model: Any, missing: bool = False, window: Optional[int] = None) -> None:
        self._missing = missing
        self._window = window
        self._found: Optional[dict[str, Any]] = None
        self._stack = stack  # the model's owner
        self._lock = threading.Lock()
        self._made = self._hold(
            Session(threads=1, interrupts=False), lambda s: s.make(c.lib.cst_predictor_free, c.lib.cst_predictor_create, model), stack
        )
        if window is not None:
            self._check(c.lib.cst_predictor_set_guard(self._made, window))
        self._kept = stack.kept
        self._classes = stack.classes
        self._columns = c.lib.cst_model_classes(model)
        self._values = c.lib.cst_model_task(model) == c.TASK_REGRESSION
        self._places = (ctypes.c_void_p * len(self._kept))()
        self._present = (ctypes.c_uint8 * len(self._kept))()
        self._others = others(model)
        self._domain: Optional[bytes] = None  # the one that is set
        # What a call of one row works in: rows of the members one after another, and their addresses.
        self._one_shape = () if self._values and self._columns == 1 else (self._columns,)
        self._one_given = np.empty(len(self._kept) * self._columns, np.float32)
        self._one_out = np.empty(self._one_shape, np.float32)
        first, step = self._one_given.ctypes.data, self._one_given.itemsize * self._columns
        self._one_places = (ctypes.c_void_p * len(self._kept))(*(first + k * step for k in range(len(self._kept))))
        self._one_result = self._one_out.ctypes.data

    def __reduce__(self) -> Any:
        return _predictor_of, (self._stack, self._missing, self._window)

    def _check(self, status: int) -> None:
        if status != 0:
            text = c.lib.cst_predictor_error(self._made) or c.lib.cst_status_text(status)
            raise BY_STATUS.get(status, Error)(text.decode("utf-8", "replace"))

    @property
    def others(self) -> list[str]:
        """Names of the members that the fit left out. With a window, run them once `found` says "fired", and give theirs by name."""
        return list(self._others)

    @property
    def found(self) -> Optional[dict[str, Any]]:
        """What the last `window` rows look like, with the keys of a batch in docs/json.md, "predict"; None before the first call."""
        return None if self._found is None else dict(self._found)

    def _by_name(self, preds: Mapping[str, Any]) -> list[Any]:
        missing = [name for name in self._kept if name not in preds]
        if missing and not self._missing:
            raise MismatchError(
                f"predictions: the kept member '{missing[0]}' is missing; predictor(missing='allow') predicts without it"
            )
        return [preds.get(name) for name in self._kept]

    def _set_domain(self, domain: Optional[str]) -> None:
        name = None if domain is None else _values.text_or_none(domain, "domain")
        if name != self._domain:
            self._check(c.lib.cst_predictor_set_domain(self._made, name))
            self._domain = name

    def _one_row(self, given: Any, domain: Optional[str]) -> Optional[Array]:
        """The prediction of one row where each member's is a plain array, in a few microseconds; None for anything else."""
        if self._window is not None or type(given) not in (list, tuple) or len(given) != len(self._kept):
            return None
        shape = self._one_shape
        for one in given:
            if (type(one) is not np.ndarray or one.shape != shape) if shape else not isinstance(one, (float, np.floating)):
                return None
        with self._lock:
            if shape:
                try:
                    np.concatenate(given, out=self._one_given, casting="same_kind")
                except TypeError:
                    return None
            else:
                self._one_given[:] = given
            self._set_domain(domain)
            self._check(c.lib.cst_predictor_predict(self._made, self._one_places, 1, self._one_result))
            return self._one_out.copy()

    def __call__(self, preds: Any, domain: Optional[str] = None) -> Array:
        """preds: predictions of the kept members, by name or in the order of `kept`: (classes,) for one sample, or (rows, classes).

        Probabilities (or regression values), not logits. float32 arrays in C order are read in place, anything else is
        converted. domain: that of all rows of this call; None, and one that the stack does not know, for the common scale and
        biases. With a window, a dict may also hold the rows of `others`, for the average that the guard mixes in.
        """
        given = self._by_name(preds) if isinstance(preds, Mapping) else preds
        found = self._one_row(given, domain)
        if found is not None:
            return found
        arrays = rows_of(given, self._kept, self._classes, "kept members", self._missing)
        more: list[Any] = [None] * len(self._others)
        if self._window is not None and isinstance(preds, Mapping):
            more = rows_of([preds.get(name) for name in self._others], self._others, self._classes, "others", True)
        there = [a for a in [*arrays, *more] if a is not None]
        if not there:
            raise MismatchError("predictions: every kept member is missing; at least one is needed")
        shape = there[0].shape
        rows = there[0].size // self._columns
        scalar = self._values and self._columns == 1
        if any(a.shape != shape for a in there) or (not scalar and (not shape or shape[-1] != self._columns)):
            raise MismatchError(
                f"predictions: have shapes {[a.shape for a in there]}; each must be ({self._columns},) or "
                f"(rows, {self._columns})"
            )
        out = np.empty(shape, np.float32)
        with self._lock:
            for k, array in enumerate(arrays):
                self._places[k] = None if array is None else array.ctypes.data
                self._present[k] = array is not None
            self._set_domain(domain)
            if self._window is None:
                status = c.lib.cst_predictor_predict_present(self._made, self._places, self._present, rows, out.ctypes.data)
            else:
                beyond = (ctypes.c_void_p * max(len(more), 1))(*[None if a is None else a.ctypes.data for a in more])
                batch = c.GuardBatch()
                status = c.lib.cst_predictor_predict_guarded(
                    self._made, self._places, beyond, rows, out.ctypes.data, ctypes.byref(batch)
                )
                if status == 0 and rows:
                    self._found = _batch(batch)
            self._check(status)
        return out


class Cascade(Predictor):
    """Run members of a row one after another until the answer is sure; created by :meth:`corestack.Stack.cascade`.

    start(row); while (member := next(row)): give(row, its probabilities); answer(row) is ready, and at any time the best so far.
    """

    def __init__(self, stack: Any, model: Any, rows: int = 1, window: Optional[int] = None) -> None:
        super().__init__(stack, model, False, window)
        self._rows = rows
        self._cascade = self._session.make(c.lib.cst_cascade_free, c.lib.cst_cascade_create, self._made, rows)
        self._waiting = (ctypes.c_int64 * rows)()

    def __reduce__(self) -> Any:
        return _cascade_of, (self._stack, self._rows, self._window)

    def start(self, row: int = 0, whole: bool = False) -> None:
        """Begin a row in place `row`, and forget the one before. whole: run all members whatever they say, as the guard of a
        `window` wants of one row in ten."""
        with self._lock:
            self._check(c.lib.cst_cascade_start(self._cascade, row, int(whole)))

    def next(self, row: int = 0) -> Optional[str]:
        """Return the member that a row waits for; None once it has its answer."""
        member = c.lib.cst_cascade_next(self._cascade, row)
        return self._kept[member] if member >= 0 else None

    def waiting(self, member: str) -> list[int]:
        """Return the rows that wait for a member, to run it on them together."""
        if member not in self._kept:
            raise MismatchError(f"member: '{member}' is not one of the stack")
        with self._lock:
            count = c.lib.cst_cascade_waiting(self._cascade, self._kept.index(member), self._waiting)
            return list(self._waiting[:count])

    def give(self, row: int, probabilities: Any) -> None:
        """Take the probabilities (classes,) of the member that a row waits for."""
        (array,) = rows_of([probabilities], ["probabilities"], self._classes, "member")
        if array.shape != (self._columns,):
            raise MismatchError(f"probabilities: have shape {array.shape}; it must be ({self._columns},)")
        with self._lock:
            self._check(c.lib.cst_cascade_give(self._cascade, row, array.ctypes.data))

    def answer(self, row: int = 0) -> tuple[Array, int]:
        """Return the probabilities (classes,) of a row, or the best so far, and how many members they are of."""
        out = np.empty(self._columns, np.float32)
        with self._lock:
            members = c.lib.cst_cascade_answer(self._cascade, row, out.ctypes.data)
        if members < 0:
            raise ArgumentError(f"row: {row} is not one of {self._rows}")
        return out, members


def _cascade_of(stack: Any, rows: int = 1, window: Optional[int] = None) -> Cascade:
    made: Cascade = stack.cascade(rows, window=window)
    return made


def _batch(found: c.GuardBatch) -> dict[str, Any]:
    """A batch of the guard with the keys and values of docs/json.md."""
    values = {name: getattr(found, name) for name, _ in found._fields_ if name not in ("condition", "pi")}
    for name in ("tested", "fired"):
        values[name] = bool(values[name])
    return {name: None if value != value else value for name, value in values.items()}


def _predictor_of(stack: Any, missing: bool = False, window: Optional[int] = None) -> Predictor:
    made: Predictor = stack.predictor("allow" if missing else None, window=window)
    return made
