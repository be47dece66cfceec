"""The functions: fit, inspect, cka, adapt, suggest, evaluate, folds, and the tables of names."""
from __future__ import annotations

import ctypes
import json
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _frames, _values
from . import _library as c
from ._arguments import like, taking
from ._convert import as_array, in_c_order
from ._errors import ArgumentError, InputError, MismatchError
from ._pools import config, of_pool, open_given, open_pool
from ._report import Report, made
from ._session import Progress, Session
from ._stack import Stack, fitted
from ._types import Array, Column, Costs, Floats, Matrix, Memory, Names, Options, OptionValue, Path, Predictions, Targets

_LAYOUTS = {"auto": 0, "channels-last": 1, "channels-first": 2}


def fit(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    task: Optional[str] = None,
    folds: Union[None, Column, Path] = None,
    groups: Union[None, Column, Path] = None,
    order: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    domains: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    classes: Union[None, int, Names] = None,
    positive: Union[None, str, int, bool] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    params: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    id_column: Union[None, str, int] = None,
    label_column: Union[None, str, int] = None,
    missing: Optional[str] = None,
    split: str = "oof",
    preset: str = "default",
    method: Optional[str] = None,
    label_noise: Union[None, str, float] = None,
    suspects: Optional[Path] = None,
    html: Optional[Path] = None,
    seed: Optional[int] = None,
    options: Optional[Options] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    comm: Any = None,
    **keywords: OptionValue,
) -> Stack:
    """Fit a stack on out-of-fold predictions.

    preds: a list or dict (by name) of arrays (rows, classes), one array (members, rows, classes), or the path of a pool
    (a manifest or a folder; docs/pool.md), whose files then replace the arguments up to `output`. With two classes an
    array may be (rows,), the probability of class 1. float16, float32 and float64 arrays with any strides, memory-mapped
    or not, are read in place; other types are converted. An array may be replaced by the path of an npy file. A list of
    paths is read like `corestack fit a.npy b.csv`. A pandas DataFrame has one column per member (the probability of class
    1 of two, or the regression value); DataFrames in a dict or list have one column per class or output. Rows of
    pandas objects are joined by index.
    y: labels (rows,): column numbers starting at 0, or names from `classes`. For files: the path of the file with labels.
    task: "classification" (default), "regression" (arrays are (rows,) or (rows, outputs), and y has targets of that
    shape) or "multilabel" (arrays are independent probabilities (rows, labels), and y has 0 and 1 in that shape, and -1 or
    NaN where a label is not known). For a path, the manifest gives the task; pools of "segmentation" and "detection" are always files.
    folds: fold of each row, if the members were trained in folds; by default folds are made from the seed. "time": folds in
    time, each scored by a fit on the rows before it; order: time of each row (numbers, dates or ISO texts), if the rows are not
    in the order of time. groups: group of each row; no group is split between folds. sample_weight: weight of each row in losses and scores; rows of weight 0
    are left out. domains: domain of each row, a name or a number; see the option domain.aware. flops, latency_ms, params: FLOPs and milliseconds of one prediction, and number of parameters, by member
    (a list or a dict), for the report and for keep_max_flops, keep_max_latency and keep_max_params. classes: names of the
    classes, or of the outputs for regression; their number where members list their likeliest classes, as (indices, logprobs) or
    (indices, logprobs, rest) each (docs/topk.md). positive: of two classes the label that is class 1, of which a single column is
    the probability; by default 1, or of texts "true", "yes", "pos" and the like.
    output: "probability" (default) or "logit".
    outside: for the path of a pool, allow the manifest or folder to refer to files outside it.
    id_column, label_column: for csv files, the column of the sample ids and of the labels, by name or number from 1.
    missing: "allow" accepts rows that a member did not predict (NaN in every column, ids that its file lacks) and folds of
    -1; by default they are errors.
    method: a method of :func:`compare` to fit instead of a preset, e.g. "hill-climbing" or "average+temperature".
    label_noise: "human" where the labels are known to have errors, or a share of the rows that at most have one: rows that
    confident learning finds are left out. suspects: a csv file to write the rows to whose label is probably wrong.
    html: a file to write the report to as one HTML page (docs/report.md).
    options and keywords: see docs/options.md; cka_threshold=0.9 or options={"cka.threshold": 0.9}. metric="auc", or a function
    (y, predictions), is reported beside the scores, and decisions are made for it (docs/metrics.md).
    threads, memory ("2GiB"): results do not depend on them. progress: True for tqdm, or a function (stage, done, total)
    that stops the fit if it returns a true value.

    comm: a communicator of mpi4py, e.g. MPI.COMM_WORLD. Its processes make the same call with the same arguments, share the
    work, and all get the result that a single process would get (docs/clusters.md). Each needs all rows: files that all can
    read, or arrays, which may be memory-mapped.

    What the checks of the data find is a warning (UserWarning), and in report["findings"]; checks="off" skips them.
    """
    given = dict(locals())
    if method is not None and preset != "default":
        raise ArgumentError("preset and method: give one of them")
    with Session.of(given) as s:
        chosen = s.options(preset, seed, _doubted(given), keywords)
        pool = open_given(s, "fit", given, split)
        call = c.lib.cst_fit if method is None else c.lib.cst_fit_method
        of = [_values.text(split, "split"), *([] if method is None else [_values.text(method, "method")])]
        stack = fitted(s, pool, lambda *made: call(s.context, pool, *of, chosen, *made), suspects, html)
        s.end_together()
    warn_of_findings(stack, 3)
    return stack


def _doubted(given: dict[str, Any]) -> Any:
    """The options of a function, with those of its label_noise."""
    noise = given.pop("label_noise")
    if noise is not None:
        rate = {} if noise == "human" else {"noise.rate": noise}
        if rate and (isinstance(noise, (str, bool)) or not 0 < noise < 1):
            raise ArgumentError(f'label_noise: is {_values.shown(noise)}; give "human" or a share between 0 and 1')
        given["options"] = {**(given["options"] or {}), "noise": "human", **rate}
    return given["options"]


def warn_of_findings(stack: Stack, stacklevel: int) -> None:
    """Warn of what the checks of the data found in a fit."""
    said = stack.report.get("notices") or []
    for finding in stack.report.get("findings") or []:
        if finding["text"] in said:
            warnings.warn(finding["text"], stacklevel=stacklevel)


@like(fit, without="method")
def inspect(**given: Any) -> Report:
    """Report redundancy, clusters, spectrum, the penalty under four rules, and data problems (docs/json.md, "inspect").

    Arguments are those of :func:`fit`.
    """
    with Session.of(given) as s:
        chosen = s.options(given["preset"], given["seed"], _doubted(given), given["keywords"])
        pool = open_given(s, "inspect", given, given["split"])
        return made(s, lambda context, o: c.lib.cst_inspect(context, pool, given["split"].encode(), chosen, o), given["suspects"], given["html"])


@like(fit, without="method html")
def cka(**given: Any) -> Floats:
    """Return the CKA of every pair of members, (members, members). Arguments are those of :func:`fit`."""
    matrix = inspect(**given.pop("keywords"), **given)["cka"]
    return np.array([[np.nan if v is None else v for v in row] for row in matrix], np.float64)


# ---- new data -----------------------------------------------------------------------------------


def _new_rows(s: Session, stack: Stack, preds: Any, y: Any, given: Mapping[str, Any]) -> tuple[Any, bytes]:
    """The pool with the new rows, and the name of their split."""
    split = given["split"]
    if split is not None and not _arrays.in_files(preds):
        raise ArgumentError("split: is for the path of a pool; remove it")
    name = split if split is not None else "oof" if _arrays.are_paths(preds) else "new"
    return stack._open(s, preds, y, name, **of_pool(given)), _values.text(name, "split")


def _row_numbers(values: Any, what: str) -> npt.NDArray[np.int64]:
    array = as_array(values, what)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentError(f"{what}: give row numbers, a list of integers from 0")
    return np.ascontiguousarray(array, dtype=np.int64)


def _picked_labels(values: Any, classes: Optional[list[str]], count: int) -> npt.NDArray[np.int32]:
    """Labels of rows that were picked, as numbers."""
    array = as_array(values, "y")
    if array.shape != (count,):
        raise ArgumentError(f"y: has shape {array.shape}; with rows it has one label for each of the {count} rows")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError("y: a label is NaN; leave rows without a label out of rows and y")
    return _arrays.labels(array, classes, True, "but the stack has no class names; give class numbers, starting at 0")


@taking(fit, without="split task folds order domains classes positive params missing preset method label_noise suspects html seed options comm keywords")
def adapt(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    split: Optional[str] = None,
    rows: Optional[Column] = None,
    unlabeled: Union[None, bool, str] = None,
    metric: Union[None, str, Callable[..., float]] = None,
    **arguments: Any,
) -> Stack:
    """Adapt a stack to new data with 10 to 10,000 labelled rows (docs/json.md, "adapt"). Classification only.

    preds: predictions of all members on the new rows, (rows, classes) each, as for :func:`corestack.fit`: members that the
    stack left out may come back, so give them as well; or the path of a pool, whose `split` ("new") has the rows. y: their
    labels (rows,), class numbers or names.
    rows: use only these rows (numbers from 0); y then has the labels of these rows alone, or is None for those of the
    split. unlabeled: True to use all rows, also those without labels, or for the path of a pool the name of a split with
    more rows: the mean prediction is kept near the class shares of the fit rows where that lowers the cross-validated loss;
    leave it out if the shares of the classes may have changed. The result is a new stack. If the labels give no reason for a
    change, it predicts as the one given, and ``report["adapted"]`` is False. Fewer than 10 labelled rows, or labels of one class
    only, are an InputError. metric: one to report (``report["metric"]``), by name or a function (y, predictions); by default that
    of the fit. Other arguments are those of :func:`corestack.fit`.
    """
    given = {**arguments, "split": split, "metric": metric}
    stack = model if isinstance(model, Stack) else Stack.load(model)
    options = c.AdaptOptions(metric=_values.metric(metric))
    picked = None if rows is None else _row_numbers(rows, "rows")
    labels = None if picked is None or y is None else _picked_labels(y, stack.classes, len(picked))
    if picked is None and y is None and not _arrays.in_files(preds):
        raise ArgumentError("y: labels are required to adapt to")
    with Session.of(given) as s:
        pool, options.split = _new_rows(s, stack, preds, y if picked is None else None, given)
        if picked is not None:
            options.rows = picked.ctypes.data
            options.row_count = len(picked)
        if unlabeled is not None and unlabeled is not False:
            options.unlabeled = options.split if unlabeled is True else _values.text(unlabeled, "unlabeled")
        if labels is not None:
            options.labels = labels.ctypes.data
        return fitted(s, pool, lambda *made: c.lib.cst_adapt(s.context, stack._model, pool, ctypes.byref(options), *made))


@taking(adapt, without="y rows unlabeled groups sample_weight flops latency_ms label_column")
def suggest(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    count: int = 50,
    **arguments: Any,
) -> npt.NDArray[np.int64]:
    """Rows (numbers from 0) that are worth labelling for :func:`corestack.adapt`, the most useful first.

    They are rows that the members are uncertain about and that differ from each other. preds and `split` as for
    :func:`corestack.adapt`; labels are not needed. Other arguments are those of :func:`corestack.fit`.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    number = _values.integer(count, "count", least=1)
    with Session.of(arguments) as s:
        pool, name = _new_rows(s, stack, preds, None, arguments)
        found = np.zeros(min(number, 1 << 40), dtype=np.int64)
        out = found.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
        s.check(c.lib.cst_adapt_suggest(s.context, stack._model, pool, name, number, out))
        return found


def top_k(probabilities: Matrix, k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Cut probabilities (rows, classes) to the k largest of each row: (indices, logprobs, rest), as :func:`fit` takes them for
    members with huge numbers of classes (docs/topk.md)."""
    p = _arrays.distribution(probabilities)
    wrong = np.argwhere(~((p >= 0) & (p <= 1.001)))
    if len(wrong):
        raise InputError(f"probabilities: row {wrong[0][0]} has {p[tuple(wrong[0])]}; probabilities are 0 to 1 (of logits take a softmax first)")
    k = min(_values.integer(k, "k", least=1), p.shape[1])
    chosen = np.argpartition(-p, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(p, chosen, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    with np.errstate(divide="ignore"):
        rest = np.log(np.maximum(1 - values.sum(axis=1, dtype=np.float64), 0)).astype(np.float32)
        return np.take_along_axis(chosen, order, axis=1).astype(np.int32), np.log(values), rest


# ---- scores of predictions -------------------------------------------------------------------------


def evaluate(
    predicted: Union[Matrix, Path, Sequence[Mapping[str, Any]]],
    y: Union[Column, Targets, Path, Mapping[str, Any]],
    *,
    task: Optional[str] = None,
    sample_weight: Union[None, Column, Path] = None,
    classes: Union[None, int, Names] = None,
    positive: Union[None, str, int, bool] = None,
    output: Optional[str] = None,
    outside: bool = False,
    ignore: Union[None, int, Sequence[int]] = None,
    layout: str = "auto",
    boundary: float = 0,
    against: Union[None, Path, Sequence[Mapping[str, Any]]] = None,
    metric: Union[None, str, Callable[..., float]] = None,
    resamples: int = 0,
    seed: int = 0,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    comm: Any = None,
) -> Report:
    """Score predictions against labels, targets or annotations (docs/json.md, "evaluate").

    predicted, y: probabilities (rows, classes) and labels (rows,); with task="regression" values and targets (rows,) or
    (rows, outputs), with task="multilabel" probabilities and labels (rows, labels); either may also be the path of a file. For detection a COCO results file or its list of dicts, and the
    annotations as a file or dict. With task="segmentation" the paths of maps and masks, `classes` (how many), `ignore`,
    `layout` and `boundary` as for `corestack evaluate`; outside: allow links in the folders to lead outside them.
    sample_weight: weight of each row. positive: as for :func:`fit`. metric: one to report beside the other scores, by name or a
    function (y, predictions) (docs/metrics.md), for classification and regression.
    against: other detections or maps, whose figures are the row of "baselines", with paired differences from the first.
    resamples: if positive, add 95% bootstrap intervals. seed: seed of the resamples.
    comm: as for :func:`fit`; a list of detections or a dict of annotations is the same on every process.
    """
    given = dict(locals())
    resamples = _values.integer(resamples, "resamples")
    seed = _values.integer(seed, "seed", _values.UINT64)
    with Session.of(given) as s:
        s.same("evaluate", given)
        boxes = task == "detection" or (task is None and (_is_coco(predicted) or _is_coco(y)))
        if sample_weight is not None and (boxes or task == "segmentation"):
            raise ArgumentError("sample_weight: is for classification and regression; remove it")
        if against is not None and not boxes and task != "segmentation":
            raise ArgumentError("against: is for detections and maps; compare other predictions with compare(own=...)")
        if outside and task != "segmentation":
            raise ArgumentError("outside: is for folders of maps and masks; remove it")
        if task != "segmentation":
            for what, used in (("ignore", ignore is not None), ("layout", layout != "auto"), ("boundary", boundary != 0)):
                if used:
                    raise ArgumentError(f"{what}: is for segmentation maps; remove it")
        if boxes:
            return _evaluate_boxes(s, predicted, y, against, resamples, seed)
        if task == "segmentation":
            return _evaluate_maps(s, given, resamples, seed)
        name_of_metric = _values.metric(metric)
        if _arrays.is_path(predicted):
            pool = open_pool(s, [predicted], y, "oof", task, output, classes=classes, positive=positive, sample_weight=sample_weight)
            s.check(c.lib.cst_pool_load(s.context, pool, b"oof"))
        else:
            name = "values" if task == "regression" else "probabilities"
            pool = open_pool(s, {name: predicted}, y, "oof", task, output, classes=classes, positive=positive, sample_weight=sample_weight)
        return made(s, lambda context, o: c.lib.cst_evaluate_member(context, pool, b"oof", 0, name_of_metric, resamples, seed, o))


@taking(Stack.bound, without="self")
def bound(
    model: Union[Stack, Path], preds: Union[Predictions, Sequence[Path]], y: Union[None, Column, Path] = None, **arguments: Any
) -> Report:
    """Compute high-probability bounds for a stack or a model file; see :meth:`Stack.bound`."""
    return (model if isinstance(model, Stack) else Stack.load(model)).bound(preds, y, **arguments)


def _is_coco(value: Any) -> bool:
    if _arrays.is_path(value):
        return str(os.fspath(value)).endswith(".json")
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) and "images" in value


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"detections: {type(value).__name__} is not a number, string, list or dict")


def _evaluate_boxes(s: Session, detections: Any, annotations: Any, against: Any, resamples: int, seed: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        files: list[bytes | None] = []
        for name, given in (("detections", detections), ("annotations", annotations), ("against", against)):
            if given is None:
                files.append(None)
                continue
            path = given
            if not _arrays.is_path(given):
                path = os.path.join(folder, f"{name}.json")
                with open(path, "w", encoding="utf-8") as file:
                    s.run(partial(json.dump, default=_plain), list(given) if isinstance(given, tuple) else given, file)
            files.append(_values.path(path, name))
        return made(s, lambda context, o: c.lib.cst_evaluate_detections_against(context, *files, resamples, seed, o))


def _evaluate_maps(s: Session, given: Mapping[str, Any], resamples: int, seed: int) -> Report:
    if not _arrays.is_path(given["predicted"]) or not _arrays.is_path(given["y"]):
        raise ArgumentError("maps and masks must be paths of files or folders; for arrays use metrics.map_scores")
    classes, ignore, layout = given["classes"], given["ignore"], given["layout"]
    if layout not in _LAYOUTS:
        raise ArgumentError(f"layout is '{layout}'; it must be 'auto', 'channels-last' or 'channels-first'")
    ignored = [0] if ignore is None else _values.labels(ignore, "ignore")
    further = (ctypes.c_int32 * (len(ignored) - 1))(*ignored[1:])
    how = config(
        "segmentation",
        given["output"],
        labels=given["y"],
        outside=int(given["outside"]),
        classes=None if classes is None else _values.integer(classes, "classes"),
        ignore=None if ignore is None else ignored[0],
        ignore_given=int(ignore is not None),
        ignore_also=ctypes.addressof(further),
        ignored_also=len(further),
        layout=_LAYOUTS[layout],
    )
    maps, boundary = _values.path(given["predicted"], "predicted"), _values.real(given["boundary"], "boundary")
    other = None if given["against"] is None else _values.path(given["against"], "against")
    evaluate_maps = c.lib.cst_segmentation_evaluate_file
    return made(s, lambda context, o: evaluate_maps(context, maps, how, other, boundary, resamples, seed, o))


def scored(probabilities: Any, y: Any, classes: Optional[Sequence[str]]) -> tuple[Array, Array]:
    """Probabilities and labels of equal length; rows of pandas objects are joined by index."""
    found, index, classes = _frames.unframed({"probabilities": probabilities}, classes)
    p = _arrays.distribution(found["probabilities"])
    given = _frames.joined(_arrays.loaded(y, "y"), index, "y")
    labels = _arrays.labels(given if classes else _arrays.without_signs(given, p.shape[1]), classes)
    if len(labels) != len(p):
        raise InputError(f"y: has {len(labels)} labels, but there are {len(p)} rows of probabilities")
    return p, labels


# ---- folds and tables ------------------------------------------------------------------------------


def folds(
    y: Union[Column, Targets], count: int = 5, *, groups: Optional[Column] = None, task: str = "classification", seed: int = 0,
    time: bool = False, order: Optional[Column] = None,
) -> npt.NDArray[np.int32]:
    """Return folds (rows,) from 0 to count - 1, stratified by label, or by quantiles of regression targets.

    y: labels of any type (only equality matters); with task="regression" targets (rows,) or (rows, outputs).
    groups: group of each row; no group is split between folds.
    time: folds in time, count + 1 blocks of neighbouring rows, 0 to count, of which fit scores those from 1 on; order: times of
    the rows, if they are not in the order of time.
    """
    if task not in ("classification", "regression"):
        raise ArgumentError(f"task is '{task}'; it must be 'classification' or 'regression'")
    count, seed = _values.integer(count, "count"), _values.integer(seed, "seed", _values.UINT64)
    values = _arrays.targets(y) if task == "regression" else None
    found = as_array(y, "y")
    if values is None and found.ndim != 1 and not (found.ndim == 2 and found.shape[1] == 1):
        raise MismatchError(f"y: has shape {found.shape}; there must be one label per row")
    labels = in_c_order(np.unique(found, return_inverse=True)[1].reshape(-1), np.int32)
    count_of_rows = len(found)
    out = np.empty(count_of_rows, np.int32)
    rows = _arrays.numbered(groups, "groups", count_of_rows)
    when = _arrays.times(order, count_of_rows)
    if (time or order is not None) and groups is not None:
        raise ArgumentError("groups: is for random folds; leave it or time out")
    with Session(threads=1) as s:
        where = (count_of_rows, count, seed, out.ctypes.data)
        if time or when is not None:
            at = None if when is None else when.ctypes.data
            s.check(c.lib.cst_folds_time(s.context, at, count_of_rows, count, out.ctypes.data))
        elif values is not None:
            among = None if rows is None else rows.ctypes.data
            s.check(c.lib.cst_folds_quantile(s.context, values.ctypes.data, values.shape[1], among, *where))
        elif rows is None:
            s.check(c.lib.cst_folds_stratified(s.context, labels.ctypes.data, *where))
        else:
            s.check(c.lib.cst_folds_grouped(s.context, labels.ctypes.data, rows.ctypes.data, *where))
    return out


def option_table() -> list[dict[str, Any]]:
    """Return every option: key, keyword, default, bounds or choices, and description (docs/options.md)."""
    kinds = ("integer", "real", "boolean", "choice", "list")
    table = []
    for i in range(c.lib.cst_option_count()):
        spec = c.lib.cst_option_at(i).contents
        row = {
            "key": spec.key.decode(),
            "keyword": spec.key.decode().replace(".", "_").replace("-", "_"),
            "type": kinds[spec.type] if spec.type < len(kinds) else "other",
            "default": spec.initial.decode(),
            "help": spec.help.decode(),
        }
        if spec.type < 2:
            row.update(least=spec.least, most=spec.most)
        elif spec.choices:
            row["choices"] = spec.choices.decode().replace("|", ",").split(",")
        table.append(row)
    return table


def presets() -> list[str]:
    """Return the names of the presets."""
    return c.listed(c.lib.cst_preset_at)


def methods(task: Optional[str] = None) -> list[str]:
    """Return the names of the methods of :func:`compare`; task="detection" adds those for detection only."""
    _arrays.number_of(task, _arrays.TASKS, "task")
    return c.listed(c.lib.cst_method_name) + (c.listed(c.lib.cst_detection_method_name) if task == "detection" else [])
