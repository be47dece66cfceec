"""A monitor of a fitted stack: batches without labels against the fit rows."""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from . import _values
from . import _library as c
from ._arguments import taking
from ._errors import ArgumentError
from ._outputs import StateFile, locked
from ._pools import predicted_split
from ._report import Report, made, write_page
from ._session import Owner, Session
from ._stack import Stack
from ._types import Column, Memory, Names, Path, Predictions


class Monitor(Owner):
    """Test whether batches of rows without labels look like the fit rows, like `corestack monitor`. Calls from several threads
    wait for each other.

    model: a classification stack or the path of its file. state: a file from which the test continues, if it is there,
    and where :meth:`save` writes it. alpha: probability of a false alarm over all batches (0.01); None: 0.01, or that of the
    state. in_order: rows of a batch are in time order; otherwise they are tested in a fixed random order.
    metric: one to report of labelled rows, by name or a function (y, predictions); by default that of the fit.
    """

    def __init__(
        self,
        model: Union[Stack, Path],
        *,
        state: Optional[Path] = None,
        alpha: Optional[float] = None,
        in_order: bool = False,
        metric: Union[None, str, Callable[..., float]] = None,
        threads: Optional[int] = None,
        memory: Memory = None,
    ) -> None:
        self._lock = threading.RLock()  # a context serves one thread at a time
        self._stack = model if isinstance(model, Stack) else Stack.load(model)
        self._state = StateFile(None if state is None else _values.path(state, "state"))
        options = c.MonitorOptions(
            alpha=0 if alpha is None else _values.real(alpha, "alpha"), in_order=int(in_order),
            metric=_values.metric(metric),
        )
        if alpha is not None and not 0 < options.alpha < 1:
            raise ArgumentError(f"alpha: is {_values.shown(alpha)}; it must be between 0 and 1")
        path = self._state.path
        there = path is not None and os.path.exists(path)
        make = (c.lib.cst_monitor_load, self._stack._model, path) if there else (c.lib.cst_monitor_create, self._stack._model)
        session = Session(threads, memory, interrupts=False, metric=metric)
        self._monitor = self._hold(session, lambda s: s.make(c.lib.cst_monitor_free, *make, options), self._stack)

    def __reduce__(self) -> Any:
        raise TypeError("a Monitor does not pickle: save() its state to a file, and make a Monitor with state= that file")

    def __repr__(self) -> str:
        return f"<corestack.Monitor: {self.rows} rows, evidence {self.evidence:.3g}{', alarm' if self.alarm else ''}>"

    def batch(
        self,
        preds: Union[Predictions, Sequence[Path]],
        y: Union[None, Column, Path] = None,
        *,
        split: Union[None, str, Sequence[str]] = None,
        name: Optional[str] = None,
        names: Optional[Sequence[str]] = None,
        classes: Optional[Names] = None,
        output: Optional[str] = None,
        outside: bool = False,
        missing: Optional[str] = None,
    ) -> bool:
        """Add a batch and return whether there was an alarm, in this batch or before.

        preds: predictions of the members as for :meth:`Stack.predict_proba`, or the path of a pool, of which each of `split`
        ("test") and each condition is a batch. y: labels, only compared with what was expected. name: of the batch, in
        reports. Other arguments are those of :meth:`Stack.predict_proba`.
        """
        session = self._session
        splits = [split] if split is None or isinstance(split, str) else _values.list_of(split, "split", "names")
        if not splits:
            raise ArgumentError("split: is an empty list; name a split")
        with self._lock:
            kept = len(session._to_free)
            try:
                rows = [predicted_split(preds, one) for one in splits]
                pool = self._stack._open(
                    session, preds, y, rows[0], output=output, outside=outside, missing=missing, names=names,
                    classes=classes, unlabelled=2 if y is None else 0,
                )  # fmt: skip
                alarm = ctypes.c_int()
                for one in rows:
                    shown = _values.text_or_none(name, "name")
                    call = c.lib.cst_monitor_batch
                    session.check(call(session.context, self._monitor, pool, one.encode(), shown, ctypes.byref(alarm)))
                return bool(alarm.value)
            finally:
                while len(session._to_free) > kept:
                    free, pointer = session._to_free.pop()
                    free(session.context, pointer)
                session.arrays = None

    @property
    def alarm(self) -> bool:
        """Whether there was an alarm; it stays."""
        with self._lock:
            return bool(c.lib.cst_monitor_alarm(self._monitor))

    @property
    def evidence(self) -> float:
        """Evidence that rows are not like the fit rows, after the last row; an alarm is 1 / alpha."""
        with self._lock:
            return float(c.lib.cst_monitor_evidence(self._monitor))

    @property
    def rows(self) -> int:
        """Number of rows tested so far, with those of the state."""
        with self._lock:
            return int(c.lib.cst_monitor_rows(self._monitor))

    @property
    def report(self) -> Report:
        """Report of the batches added to this object (docs/json.md, "monitor")."""
        with self._lock:
            return made(self._session, lambda context, o: c.lib.cst_monitor_report(context, self._monitor, o))

    def report_html(self, path: Path) -> None:
        """Write that report as one HTML page, like `corestack monitor --html` (docs/report.md)."""
        with self._lock, Session(threads=1) as s:
            found = s.make_with(c.lib.cst_report_free, lambda context, o: c.lib.cst_monitor_report(context, self._monitor, o))
            write_page(s, path, found, self._stack._shown(s))

    def save(self, path: Optional[Path] = None) -> None:
        """Write the state of the test, completely or not at all; path: None for that of `state`.

        FileError where another program has changed that file since it was read or written here.
        """
        where = self._state.path if path is None else _values.path(path)
        if where is None:
            raise ArgumentError("path: name a file, or make the monitor with a state")
        with locked(where), self._lock:
            self._state.save(where, self._write)

    def _write(self, path: bytes) -> None:
        self._session.check(c.lib.cst_monitor_save(self._session.context, self._monitor, path))


@taking(Monitor.__init__, Monitor.batch, without="self")
def monitor(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    state: Optional[Path] = None,
    html: Optional[Path] = None,
    **arguments: Any,
) -> Report:
    """Test whether rows without labels look like the fit rows, like `corestack monitor` (docs/json.md, "monitor").

    The report's "alarm" says whether they do not. state: a file that makes calls hours apart one test: read if it is there,
    and written; a call waits for others that use it. html: a file to write the report to as one HTML page. Other arguments are those of :class:`Monitor` and :meth:`Monitor.batch`.
    """
    where = None if state is None else _values.path(state, "state")
    with locked(where):
        test = {name: arguments.pop(name) for name in ("alpha", "in_order", "metric", "threads", "memory")}
        found = Monitor(model, state=state, **test)
        found.batch(preds, y, **arguments)
        report = found.report
        if html is not None:
            found.report_html(html)
        if where is not None:
            found._state.save(where, found._write)
    return report
