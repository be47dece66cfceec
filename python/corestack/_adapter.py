"""A stack on a stream: rows come, labels come later or never."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _library as c
from . import _values
from ._convert import as_array
from ._errors import ArrayTypeError, ArgumentError, InputError, MismatchError
from ._outputs import StateFile, locked
from ._prediction import rows_of
from ._session import Owner, Session
from ._stack import Stack
from ._types import Array, Path


class AdapterState(NamedTuple):
    """What an :class:`Adapter` has seen.

    Losses are mean NLLs (nats) over the rows with a label, each as it was predicted when it came. coverage, set_size: share of
    the labels in their prediction set, and the mean number of classes there. The four shares say what the next prediction is
    made of: the stack, its refitted weights, single members, and averages.
    """

    observed: int
    labelled: int
    waiting: int
    dropped: int
    loss: float
    stack_loss: float
    average_loss: float
    best_member_loss: float
    best_member: Optional[str]
    coverage: float
    set_size: float
    stack_share: float
    newton_share: float
    members_share: float
    average_share: float


class Adapter(Owner):
    """Predict a stream of rows with a stack, and learn from the labels that come. Classification only.

    >>> adapter = corestack.Adapter(stack, members=names)
    >>> p, ticket = adapter.observe(preds)
    >>> adapter.label(ticket, 3)

    members: names of all members whose predictions will come, in that order: those of the stack and any others; None for
    those of the stack. pending: the last so many rows can be given a label (10,000, or what fits into 8 MiB). alpha: share of
    the labels that may be outside their prediction set (0.1). Calls from several threads wait for each other.
    """

    def __init__(
        self, stack: Union[Stack, Path], members: Optional[Sequence[str]] = None, *, pending: Optional[int] = None,
        alpha: float = 0.1,
    ) -> None:  # fmt: skip
        options = c.AdapterOptions(
            pending=0 if pending is None else _values.integer(pending, "pending", least=1), alpha=_values.real(alpha, "alpha")
        )
        if not 0 < options.alpha < 1:
            raise ArgumentError(f"alpha: is {alpha}; it must be between 0 and 1")
        given = None if members is None else _values.list_of(members, "members", "names")
        names = None if given is None else [_values.text(name, "members") for name in given]
        texts = None if names is None else (ctypes.c_char_p * max(len(names), 1))(*names)
        count = 0 if names is None else len(names)
        self._open(
            stack,
            lambda context, out, model: c.lib.cst_adapter_create(context, out, model, texts, count, ctypes.byref(options)),
        )

    def _open(self, stack: Any, make: Any) -> None:
        self._stack = stack if isinstance(stack, Stack) else Stack.load(stack)  # the model's owner
        self._lock = threading.Lock()
        self._file = StateFile()
        self._made = self._hold(
            Session(threads=1, interrupts=False),
            lambda s: s.make_with(c.lib.cst_adapter_free, lambda context, o: make(context, o, self._stack._model)),
            self._stack,
        )
        self._members = c.listed(c.lib.cst_adapter_member_name, self._made)
        self._classes = c.lib.cst_model_classes(self._stack._model)

    def __reduce__(self) -> Any:
        raise TypeError("an Adapter does not pickle: save it to a file with save(), and load it with Adapter.load()")

    def _call(self, function: Any, *arguments: Any) -> None:
        self._session.check(function(self._session.context, self._made, *arguments))

    @property
    def members(self) -> list[str]:
        """Names of the members whose predictions it takes, in order."""
        return list(self._members)

    def _arrays(self, preds: Any) -> list[Array]:
        if isinstance(preds, Mapping):
            missing = next((name for name in self._members if name not in preds), None)
            if missing is not None:
                raise MismatchError(f"predictions: member '{missing}' is missing")
            preds = [preds[name] for name in self._members]
        arrays = rows_of(preds, self._members, self._stack.classes, "members")
        shape = arrays[0].shape
        if any(a.shape != shape for a in arrays) or len(shape) not in (1, 2) or shape[-1] != self._classes or 0 in shape:
            raise MismatchError(
                f"predictions: have shapes {sorted({a.shape for a in arrays})}; each must be ({self._classes},) or "
                f"(rows, {self._classes}), at least one row"
            )
        return arrays

    def observe(self, preds: Any) -> tuple[Array, Any]:
        """Predict one row, or several with what is known now; return probabilities and tickets.

        preds: probabilities of the members, by name or in the order of `members`: (classes,) for one row, whose ticket is a
        number, or (rows, classes), whose tickets are an array.
        """
        arrays = self._arrays(preds)
        shape, first = arrays[0].shape, ctypes.c_int64()
        rows = 1 if len(shape) == 1 else shape[0]
        out = np.empty(shape, np.float32)
        places = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        with self._lock:
            self._call(c.lib.cst_adapter_observe, places, rows, out.ctypes.data, ctypes.byref(first))
        return out, first.value if len(shape) == 1 else np.arange(first.value, first.value + rows)

    def label(self, ticket: Any, label: Any) -> None:
        """Learn the label (a class number, or its name if the stack has names) of a row by its ticket, or of several rows.

        If one of several is wrong, those before it are learned.
        """
        tickets, labels = np.atleast_1d(as_array(ticket, "ticket")), self._numbers(np.atleast_1d(as_array(label, "label")))
        for what, given in (("ticket", tickets), ("label", labels)):
            if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
                raise ArrayTypeError(f"{what}: must be a whole number, or one for each row")
        if tickets.shape != labels.shape:
            raise MismatchError(f"{len(tickets)} tickets, but {len(labels)} labels")
        with self._lock:
            for one, y in zip(tickets.tolist(), labels.tolist()):
                if not -(2**31) <= y < 2**31 or not -(2**63) <= one < 2**63:
                    raise ArgumentError(f"ticket {one}: label {y} is no class")
                self._call(c.lib.cst_adapter_label, one, y)

    def _numbers(self, labels: Array) -> Array:
        """Names of classes as their numbers; anything else as it is."""
        if labels.dtype.kind not in "USO" or labels.ndim != 1 or not labels.size:
            return labels
        known = {name: k for k, name in enumerate(self._stack.classes or [])}
        for name in labels.tolist():
            if str(name) not in known:
                what = "is no class of the stack" if known else "is a name, but the stack has no class names"
                raise InputError(f"label: {_values.shown(name)} {what}")
        return np.array([known[str(name)] for name in labels.tolist()], np.int64)

    def prediction_set(self, ticket: int) -> Array:
        """Which classes are in the prediction set of a row that waits for its label: booleans (classes,)."""
        out = np.empty(self._classes, np.uint8)
        with self._lock:
            self._call(c.lib.cst_adapter_set, _values.integer(ticket, "ticket"), out.ctypes.data, None)
        return out.astype(bool)

    @property
    def state(self) -> AdapterState:
        """What it has seen so far."""
        found = c.AdapterState()
        with self._lock:
            self._call(c.lib.cst_adapter_get_state, ctypes.byref(found))
        values = {name: getattr(found, name) for name, _ in c.AdapterState._fields_}
        best = values["best_member"]
        values["best_member"] = None if best < 0 else self._members[best]
        return AdapterState(**{name: values[name] for name in AdapterState._fields})

    def save(self, path: Path) -> None:
        """Write what was learned, with the rows that wait for their label, to a file; whole or not at all.

        FileError where another program has changed the file since it was read or written here.
        """
        where = _values.path(path, "path")
        with locked(where), self._lock:
            self._file.save(where, lambda to: self._call(c.lib.cst_adapter_save, to))

    @classmethod
    def load(cls, path: Path, stack: Union[Stack, Path]) -> "Adapter":
        """Go on from a file of :meth:`save`, or of `corestack online --state`, with the same stack."""
        file = _values.path(path, "path")
        made, read = cls.__new__(cls), StateFile(file)
        made._open(stack, lambda context, out, model: c.lib.cst_adapter_load(context, out, model, file))
        made._file = read
        return made
