"""Scores by the names of the library's fields: of probabilities, of regression values, of label maps.

``scores`` has all of probabilities (rows, classes) against labels (rows,), ``value_scores`` those of values against targets,
``map_scores`` those of label maps against masks. Each score of the first two is also a function that returns a float.
Labels that are text are looked up among ``classes``, the names in the order of the columns. Rows of pandas objects are joined
by index. ``definition`` says in a sentence what a score is. Detections are scored by :func:`corestack.evaluate`.
"""
from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Union, overload

import numpy as np

from . import _arrays, _frames, _methods, _values
from . import _library as c
from ._arguments import like
from ._convert import as_array, in_c_order
from ._errors import ArgumentError, MismatchError, OutOfMemoryError
from ._functions import scored
from ._session import Session
from ._types import Array, Column, Matrix, Path, SupportsArray, Targets

if TYPE_CHECKING:
    from ._arguments import P

__all__ = [
    "score", "names", "register", "scores", "reliability", "value_scores", "map_scores", "conformal_thresholds", "definition",
    "top1", "nll", "brier", "ece", "ece_mass", "ece_classwise", "ece_debiased", "corp",
    "rmse", "mae", "median_ae", "r2", "nll_gaussian",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_TASKS = {"classification": 0, "regression": 1}
_BINS_MAX = 10_000  # that the library takes


def names(task: str = "classification") -> list[str]:
    """Return the names of the metrics that `score` and ``metric=`` take, of classification or regression."""
    if task not in _TASKS:
        raise ArgumentError(f"task: is {task!r}; it must be 'classification' or 'regression'")
    all_names = c.listed(lambda index: c.lib.cst_metric_name(index, None))
    return [name for name in all_names if c.lib.cst_metric_is_of(name.encode(), _TASKS[task])]


def register(name: str, function: Callable[..., float], *, higher_is_better: bool = True) -> None:
    """Make a function a metric of this process: `metric=name` in fit, compare, ablate, sweep and evaluate.

    function(y, predictions), with a third argument where rows have weights, returns a number. y: classes 0, 1, ..., or
    values; predictions: (rows, classes) probabilities, or values in the shape of y. It is reported without intervals.
    """
    if not callable(function):
        raise ArgumentError(f"function: is {_values.shown(function)}; it must be a function")
    text = _values.text(name, "name").decode()
    before = dict(_methods._metrics)
    _methods._metrics[text] = (function, higher_is_better)
    try:
        with Session():  # a name that is not valid shows now
            pass
    except BaseException:
        _methods._metrics.clear()
        _methods._metrics.update(before)
        raise


def score(
    metric: str,
    predictions: Matrix,
    y: Targets,
    *,
    weights: Optional[Column] = None,
    classes: Optional[Sequence[str]] = None,
) -> float:
    """Return one metric by name: "auc", "f1-macro", "top-k=5", "rmsle"; NaN where it is not defined on these rows.

    predictions: probabilities (rows, classes), or those of the second of two classes (rows,); of a metric of regression,
    values (rows,) or (rows, outputs). weights: of the rows, 0 or more.
    """
    key = _values.text(metric, "metric")
    shown = as_array(_arrays.loaded(_frames.identified(predictions, "predictions"), "predictions"), "predictions")
    wide = shown.ndim == 2 and shown.shape[1] > 1
    labelled = c.lib.cst_metric_is_of(key, 0) or wide
    if c.lib.cst_metric_is_of(key, 1):
        labelled = labelled and wide and np.ndim(y) == 1
    if labelled:
        if shown.ndim == 1:
            predictions = np.stack([1 - shown.astype(np.float64), shown], axis=1)
        values, targets = scored(predictions, y, classes)
    else:
        values = _arrays.values(predictions)
        targets = _arrays.targets(y, values.shape[1])
    given = None if weights is None else in_c_order(as_array(weights, "weights"), np.float64)
    for name, other in (("y", targets), ("weights", given)):
        if other is not None and len(other) != len(values):
            raise MismatchError(f"{name}: has {len(other)} rows, but there are {len(values)} rows of predictions")
    rows = c.ScoredRows(
        rows=values.shape[0], columns=values.shape[1], values=values.ctypes.data,
        labels=targets.ctypes.data if labelled else None, targets=None if labelled else targets.ctypes.data,
        weights=None if given is None else given.ctypes.data,
    )  # fmt: skip
    out = ctypes.c_double()
    with Session() as s:
        s.check(c.lib.cst_metric_score(s.context, key, ctypes.byref(rows), ctypes.byref(out)))
    return out.value


def scores(probabilities: Matrix, y: Column, *, bins: int = 15, classes: Optional[Sequence[str]] = None) -> dict[str, float]:
    """Return all scores by name, unrounded. bins: number of bins of the calibration errors."""
    bins = _values.integer(bins, "bins", least=-_values.INT32 - 1)
    p, labels = scored(probabilities, y, classes)
    out = c.Metrics()
    with Session() as s:
        s.check(
            c.lib.cst_metrics_evaluate(
                s.context, p.ctypes.data, p.shape[0], p.shape[1], labels.ctypes.data, bins, ctypes.byref(out)
            )
        )
    return {name: getattr(out, name) for name, _ in c.Metrics._fields_}


def reliability(
    probabilities: Matrix, y: Column, *, bins: int = 15, classes: Optional[Sequence[str]] = None
) -> list[dict[str, Any]]:
    """Return the bins that `ece` is made of: lower, upper, confidence, accuracy and count of each.

    Confidence and accuracy are means over the `count` rows, None for an empty bin.
    """
    bins = _values.integer(bins, "bins", least=-_values.INT32 - 1)
    p, labels = scored(probabilities, y, classes)
    with Session() as s:
        # The library says what is wrong with any other number of bins, before it writes any.
        out = (c.ReliabilityBin * (bins or 15 if 0 <= bins <= _BINS_MAX else 1))()
        s.check(c.lib.cst_metrics_reliability(s.context, p.ctypes.data, p.shape[0], p.shape[1], labels.ctypes.data, bins, out))
    found = [{name: getattr(b, name) for name in ("lower", "upper", "confidence", "accuracy", "count")} for b in out]
    return [b if b["count"] else {**b, "confidence": None, "accuracy": None} for b in found]


@overload
def value_scores(
    values: Matrix,
    y: Targets,
    *,
    variance: Optional[Matrix] = None,
    half_width: Optional[Mapping[float, Matrix]] = None,
    each: Literal[False] = False,
) -> dict[str, Any]: ...


@overload
def value_scores(
    values: Matrix,
    y: Targets,
    *,
    variance: Optional[Matrix] = None,
    half_width: Optional[Mapping[float, Matrix]] = None,
    each: Literal[True],
) -> list[dict[str, Any]]: ...


def value_scores(
    values: Matrix,
    y: Targets,
    *,
    variance: Optional[Matrix] = None,
    half_width: Optional[Mapping[float, Matrix]] = None,
    each: bool = False,
) -> Union[dict[str, Any], list[dict[str, Any]]]:
    """Return all scores of regression values (rows,) or (rows, outputs) by name; means over the outputs.

    variance: variances of the values, in the same shape; adds `nll_gaussian`. half_width: {level: half-widths of the
    intervals around the values}; adds `coverage` and `width` by level. each: return a list with one dict per output.
    """
    values = _frames.identified(values, "values")
    index = getattr(values, "index", None) if _frames.is_indexed(values) else None
    mean = _arrays.values(values)
    y = _frames.joined(y, index, "y")
    variance = _frames.joined(variance, index, "variance")
    half_width = {level: _frames.joined(width, index, "half_width") for level, width in (half_width or {}).items()}
    targets = _arrays.targets(y, mean.shape[1])
    if len(targets) != len(mean):
        raise MismatchError(f"y: has {len(targets)} targets, but there are {len(mean)} rows of values")
    widths = {float(level): _arrays.values(width, "half_width") for level, width in (half_width or {}).items()}
    if len(widths) > c.LEVELS_MAX:
        raise ArgumentError(f"half_width: has {len(widths)} levels; the limit is {c.LEVELS_MAX}")
    spread = None if variance is None else _arrays.values(variance, "variance")
    for name, other in (("variance", spread), *(("half_width", width) for width in widths.values())):
        if other is not None and other.shape != mean.shape:
            raise MismatchError(f"{name}: has shape {other.shape}, but the values have {mean.shape}")
    levels = np.array(list(widths), np.float64)
    predicted = c.PredictedValues(
        rows=mean.shape[0],
        outputs=mean.shape[1],
        mean=mean.ctypes.data,
        variance=None if spread is None else spread.ctypes.data,
        levels=len(widths),
        level=levels.ctypes.data,
        half_width=(ctypes.c_void_p * max(len(widths), 1))(*[width.ctypes.data for width in widths.values()]),
    )
    average, single = c.ValueMetrics(), (c.ValueMetrics * max(mean.shape[1], 1))()
    with Session() as s:
        s.check(
            c.lib.cst_value_metrics_evaluate(
                s.context, ctypes.byref(predicted), targets.ctypes.data, ctypes.byref(average), single
            )
        )
    return [_of_values(one, variance) for one in single] if each else _of_values(average, variance)


def _of_values(found: c.ValueMetrics, variance: Any) -> dict[str, Any]:
    out: dict[str, Any] = {name: getattr(found, name) for name in ("samples", "rmse", "mae", "median_ae", "r2")}
    if variance is not None:
        out["nll_gaussian"] = found.nll
    if found.levels:
        levels = found.level[: found.levels]
        out["coverage"] = dict(zip(levels, found.coverage))
        out["width"] = dict(zip(levels, found.width))
    return out


def map_scores(
    predicted: Union[SupportsArray, Path],
    labels: Union[SupportsArray, Path],
    classes: int,
    *,
    ignore: Union[int, Sequence[int]] = 255,
    boundary: float = 0,
) -> dict[str, Any]:
    """Return all scores of label maps (images, height, width), or of one (height, width), and the confusion matrix.

    ignore: label of pixels to ignore, or several. boundary: width of the band along label boundaries, in pixels if at
    least 1, else as a fraction of the image diagonal; 0: 0.0075. Scores that cannot be computed are NaN.
    """
    classes = _values.integer(classes, "classes")
    ignored = _values.labels(ignore, "ignore")
    boundary = _values.real(boundary, "boundary")
    maps = []
    for name, given in (("predicted", predicted), ("labels", labels)):
        found = as_array(_arrays.loaded(given, name), name)
        if found.dtype.kind not in "iub" or found.ndim not in (2, 3):
            raise MismatchError(
                f"{name}: has dtype {found.dtype} and shape {found.shape}; label maps must be integers (images, height, width)"
            )
        if found.size and (found.min() < -(2**31) or found.max() >= 2**31):
            raise ArgumentError(f"{name}: has labels that are not class numbers: {found.min()} to {found.max()}")
        maps.append(in_c_order(found[None] if found.ndim == 2 else found, np.int32))
    if maps[0].shape != maps[1].shape:
        raise MismatchError(f"predicted: has shape {maps[0].shape}, but labels have {maps[1].shape}")
    if len(ignored) > 1:
        maps[1] = np.where(np.isin(maps[1], ignored), np.int32(ignored[0]), maps[1])
    out, confusion = c.SegmentationScores(), _square(max(classes, 1))
    with Session() as s:
        s.check(
            c.lib.cst_segmentation_evaluate_labels(
                s.context, maps[0].ctypes.data, maps[1].ctypes.data, *maps[0].shape, classes, ignored[0], boundary,
                ctypes.byref(out), confusion.ctypes.data,
            )
        )  # fmt: skip
    of_probabilities = ("nll", "brier", "ece")
    scores = {name: getattr(out, name) for name, _ in c.SegmentationScores._fields_ if name not in of_probabilities}
    return {**scores, "confusion": confusion}


def _square(classes: int) -> Array:
    try:
        return np.zeros((classes, classes), np.int64)
    except (MemoryError, ValueError):  # it is the latter where no memory could ever hold it
        raise OutOfMemoryError(
            f"classes: is {classes}; out of memory for their confusion matrix of {8 * classes * classes} bytes"
        ) from None


def conformal_thresholds(
    scores: Column, alpha: float, *, parts: Optional[Column] = None, costs: Optional[Column] = None, most: Optional[float] = None
) -> Any:
    """Return the thresholds of split conformal prediction (docs/bounds.md#by-class-domain-or-cost).

    scores: of the rows of calibration (rows,): 1 - the probability of the label, or the distance of a value from its
    target. New rows with a score of at most the threshold are covered: classes with 1 - p at most it, or values within it.
    parts: number of each row's class or group, from 0 (negative: none); then an array with a threshold for each, inf for
    those with fewer than 1 / alpha - 1 rows. costs: of each row if it is not covered, 0 to `most` (None: the largest);
    then alpha is the acceptable expected cost of a row.
    """
    given = np.ascontiguousarray(scores, dtype=np.float64).reshape(-1)
    part = None if parts is None else np.ascontiguousarray(parts, dtype=np.int32).reshape(-1)
    cost = None if costs is None else np.ascontiguousarray(costs, dtype=np.float64).reshape(-1)
    for name, array in (("parts", part), ("costs", cost)):
        if array is not None and len(array) != len(given):
            raise MismatchError(f"{name}: are of {len(array)} rows, but there are {len(given)} scores")
    out = np.empty(1 if part is None else max(int(part.max(initial=0)) + 1, 1))
    limit = 1.0 if cost is None else _values.real(cost.max(initial=0) if most is None else most, "most")
    with Session() as s:
        s.check(
            c.lib.cst_conformal_thresholds(
                s.context, given.ctypes.data, None if cost is None else cost.ctypes.data, None if part is None else part.ctypes.data,
                len(given), len(out), _values.real(alpha, "alpha"), limit, out.ctypes.data,
            )  # fmt: skip
        )
    return float(out[0]) if part is None else out


def definition(name: str) -> str:
    """Return the definition of a score in one sentence."""
    key = _values.text(name, "name")
    text = c.lib.cst_metric_definition(key) or c.lib.cst_segmentation_definition(key)
    if text is None:
        raise ArgumentError(f"unknown score '{name}'")
    return str(text.decode())


def _one(of: Callable[P, Any], name: str, meaning: str, without: str = "") -> Callable[P, float]:
    """The function that returns one of the scores that `of` returns."""

    @like(of, without=without)
    def score(**given: Any) -> float:
        return float(of(**given)[name])

    score.__name__ = score.__qualname__ = name
    score.__doc__ = meaning
    return score


top1 = _one(scores, "top1", "Fraction of rows whose largest probability is the label's.", "bins")
nll = _one(scores, "nll", "Mean negative log-likelihood, nats.", "bins")
brier = _one(scores, "brier", "Mean over rows of sum_c (p_c - y_c)^2, in [0, 2].", "bins")
ece = _one(scores, "ece", "Calibration error of the top label, bins of equal width.")
ece_mass = _one(scores, "ece_mass", "Calibration error of the top label, bins of equal counts.")
ece_classwise = _one(scores, "ece_classwise", "Mean over classes of the calibration error of each class's probability.")
ece_debiased = _one(scores, "ece_debiased", "`ece` minus the bias of finite bins.")
corp = _one(scores, "corp", "Miscalibration part of the top label's Brier score, bin-free.", "bins")

_OTHERS = "variance half_width each"
rmse = _one(value_scores, "rmse", "Root of the mean squared error.", _OTHERS)
mae = _one(value_scores, "mae", "Mean absolute error.", _OTHERS)
median_ae = _one(value_scores, "median_ae", "Median absolute error.", _OTHERS)
r2 = _one(value_scores, "r2", "1 - squared error / squared deviation of the targets from their mean.", _OTHERS)


def nll_gaussian(values: Matrix, y: Targets, variance: Matrix) -> float:
    """Mean negative log of the normal density at the targets, nats."""
    return float(value_scores(values, y, variance=variance)["nll_gaussian"])
