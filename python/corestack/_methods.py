"""Methods of the user's own for comparisons: functions of Python that the library calls in each session."""
from __future__ import annotations

import ctypes
import itertools
import threading
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np

from . import _library as c
from . import _values
from ._errors import ArgumentError

if TYPE_CHECKING:
    from ._session import Session

_CANCELLED = 9  # CST_ERROR_CANCELLED

Fit = Callable[[Any, Any, Any], Any]
Predict = Callable[[Any, Any], Any]


class _Method(NamedTuple):
    fit: Fit
    predict: Predict
    definition: Optional[str]


_registered: dict[str, _Method] = {}
_metrics: dict[str, tuple[Callable[..., float], bool]] = {}  # by name: the function, and whether higher is better


def register(name: str, fit: Fit, predict: Predict, *, definition: Optional[str] = None) -> None:
    """Make a combiner of your own a method of :func:`corestack.compare` and :func:`corestack.sweep` in this process.

    fit(predictions, y, weights) returns anything, which predict(fitted, predictions) gets. predictions: float32 of shape
    (rows, members, classes), for regression (rows, members) or with several outputs (rows, members, outputs); NaN where a
    member did not predict a row. y: classes 0, 1, ..., or values. weights: of the rows, None if all are alike. predict
    returns (rows, classes) probabilities, or values in the shape of y. The method is refitted without each fold as all
    are, several folds at a time in threads, so neither function may change what it did not make. An exception ends the
    comparison. definition: one sentence for the report. A name that is registered again is replaced.
    """
    for what, function in (("fit", fit), ("predict", predict)):
        if not callable(function):
            raise ArgumentError(f"{what}: is {_values.shown(function)}; it must be a function")
    from ._session import Session

    text, before = _values.text(name, "name").decode(), dict(_registered)
    _registered.pop(text, None)
    _registered[text] = _Method(fit, predict, definition)
    try:
        with Session():  # a name that is not valid shows now
            pass
    except BaseException:
        _registered.clear()
        _registered.update(before)
        raise


def unregister(name: str) -> None:
    """Remove a method of :func:`register`."""
    if name not in _registered:
        raise ArgumentError(f"name: '{name}' is not registered; registered: {', '.join(_registered) or 'none'}")
    del _registered[name]


def _array(address: Optional[int], kind: Any, shape: tuple[int, ...]) -> Any:
    """A copy of the library's memory."""
    return None if not address else np.ctypeslib.as_array((kind * int(np.prod(shape))).from_address(address)).reshape(shape).copy()


class _Calls:
    """One method as callbacks of a session. What fits returned is kept here until the library frees it."""

    def __init__(self, session: "Session", name: str, method: _Method) -> None:
        self.session, self.name, self.method = session, name, method
        self.kept: dict[int, Any] = {}
        self.number = itertools.count(1)
        self.ops = c.MethodOps(
            name=name.encode(),
            definition=None if method.definition is None else _values.text(method.definition, "definition"),
            fit=c.METHOD_FIT_FN(self._fit), predict=c.METHOD_PREDICT_FN(self._predict), free=c.METHOD_FREE_FN(self._free),
        )  # fmt: skip

    def _run(self, function: Callable[..., Any], *arguments: Any) -> int:
        """The status for the library; the exception is kept for the session."""
        try:
            if threading.current_thread() is threading.main_thread():
                self.session.run(function, *arguments)
            else:
                function(*arguments)
        except BaseException as error:
            self.session.keep_error(error)
            return _CANCELLED
        return 0

    def _predictions(self, rows: Any) -> Any:
        shape = (rows.rows, rows.members, rows.columns)
        return _array(rows.predictions, ctypes.c_float, shape[:2] if rows.columns == 1 else shape)

    def _fit(self, _user: object, rows: Any, fitted: Any) -> int:
        def fit() -> None:
            r = rows.contents
            y = _array(r.labels, ctypes.c_int32, (r.rows,))
            if y is None:
                y = _array(r.targets, ctypes.c_double, (r.rows,) if r.columns == 1 else (r.rows, r.columns))
            made = self.method.fit(self._predictions(r), y, _array(r.weights, ctypes.c_double, (r.rows,)))
            number = next(self.number)
            self.kept[number] = made
            fitted[0] = number

        return self._run(fit)

    def _predict(self, _user: object, fitted: int, rows: Any, out: Any) -> int:
        def predict() -> None:
            r = rows.contents
            found = np.asarray(self.method.predict(self.kept[fitted], self._predictions(r)), dtype=np.float32)
            shapes = [(r.rows, r.columns)] + [(r.rows,)] * (r.columns == 1)
            if found.shape not in shapes:
                raise ArgumentError(f"method '{self.name}': predict returned shape {found.shape}, not {shapes[-1]}")
            np.ctypeslib.as_array(out, (r.rows, r.columns))[:] = found.reshape(r.rows, r.columns)

        return self._run(predict)

    def _free(self, _user: object, fitted: int) -> None:
        self.kept.pop(fitted, None)


class _Metric:
    """A metric as a callback of a session."""

    def __init__(self, session: "Session", name: str, function: Callable[..., float], higher_is_better: bool) -> None:
        self.session, self.name, self.function = session, name, function
        self.ops = c.MetricOps(
            name=name.encode(), higher_is_better=int(higher_is_better), score=c.METRIC_SCORE_FN(self._score)
        )

    def _score(self, _user: object, rows: Any, out: Any) -> int:
        def score() -> None:
            r = rows.contents
            shape = (r.rows,) if r.columns == 1 else (r.rows, r.columns)
            y = _array(r.labels, ctypes.c_int32, (r.rows,))
            if y is None:
                y = _array(r.targets, ctypes.c_double, shape)
            weights = _array(r.weights, ctypes.c_double, (r.rows,))
            more = () if weights is None else (weights,)
            out[0] = float(self.function(y, _array(r.values, ctypes.c_float, shape), *more))

        try:
            self.session.run(score)
        except BaseException as error:
            self.session.keep_error(error)
            return _CANCELLED
        return 0


def metric_name(function: Callable[..., float]) -> str:
    """What a function given as a metric is called; one that is called like another metric is told apart."""
    name = str(getattr(function, "__name__", "metric")).strip("<>")[:32]
    known = any(c.lib.cst_metric_is_of(name.encode(), task) for task in (0, 1))
    return f"{name} (own)" if known else name


def add_to(session: "Session", metric: Any = None) -> list[Any]:
    """Adds what is registered, and the function given as a metric, to the session's context. The list must live as long."""
    methods = [_Calls(session, name, method) for name, method in list(_registered.items())]
    given = {metric_name(metric): (metric, getattr(metric, "higher_is_better", True))} if callable(metric) else {}
    metrics = [_Metric(session, name, *one) for name, one in {**_metrics, **given}.items()]
    for one in methods:
        session.check(c.lib.cst_context_add_method(session.context, ctypes.byref(one.ops)))
    for own in metrics:
        session.check(c.lib.cst_context_add_metric(session.context, ctypes.byref(own.ops)))
    return [*methods, *metrics]
