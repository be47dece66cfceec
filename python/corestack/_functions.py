"""The functions: fit, inspect, cka, compare, evaluate, folds."""
from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import _arrays
from . import _library as c
from ._errors import ArgumentError, InputError
from ._report import Report
from ._session import Progress, Session, settings
from ._stack import Stack, model_bytes

Flops = Union[None, Sequence[float], Mapping[str, float]]
Memory = Union[None, int, str]


def _open(s: Session, preds: Any, y: Any, split: str, **about: Any) -> ctypes.c_void_p:
    """The pool of arrays, or of a path, which brings everything itself."""
    if not _arrays.is_path(preds):
        arrays = _arrays.Arrays(preds, y, split=split, **about)
        s.arrays = arrays  # read until the pool is freed
        return s.make(c.lib.cst_pool_free, c.lib.cst_pool_from_arrays, arrays.struct)
    usual = about.pop("output") == "probability"
    given = [name for name, value in (("y", y), *about.items()) if value is not None] + ["output"] * (not usual)
    if given:
        raise ArgumentError(f"{given[0]}: a pool's files say it; leave it out, or change the pool")
    return s.open_pool(preds)


def _names(s: Session, pool: ctypes.c_void_p) -> list[str]:
    return [c.lib.cst_pool_member_name(pool, k).decode() for k in range(c.lib.cst_pool_members(pool))]


def fit(
    preds: Any,
    y: Any = None,
    *,
    folds: Any = None,
    groups: Any = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Sequence[str]] = None,
    flops: Flops = None,
    output: str = "probability",
    split: str = "oof",
    preset: str = "default",
    seed: Optional[int] = None,
    options: Optional[Mapping[str, Any]] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    **keywords: Any,
) -> Stack:
    """Fits a stack on out-of-fold predictions.

    preds: a list or dict (by name) of arrays (rows, classes), one array (members, rows, classes), or the path of a pool
    (a manifest or a folder; docs/pool.md), whose files then say everything up to `output`. Of two classes an array may
    be (rows,), the probability of class 1. float16, float32 and float64 of any strides, memory-mapped or not, are read
    where they are; other types are converted. A pandas DataFrame has a column for each member, the probability of class 1
    of two; DataFrames in a dict or list have a column for each class. Rows of pandas objects are joined by index.
    y: labels (rows,): columns from 0 on, or names out of `classes`.
    folds: fold of each row, where the members were trained in folds; made from the seed otherwise. groups: rows that
    must not be separated. flops: of one prediction, by member.
    output: "probability" or "logit".
    options and keywords: docs/options.md; cka_threshold=0.9 or options={"cka.threshold": 0.9}.
    threads, memory ("2GiB"): results depend on neither. progress: True for tqdm, or a function (stage, done, total),
    which stops the fit by returning something true.
    """
    with Session(threads, memory, progress) as s:
        chosen = s.options(preset, seed, options, keywords)
        pool = _open(
            s, preds, y, split, folds=folds, groups=groups, names=names, classes=classes, flops=flops, output=output
        )
        model, report = ctypes.c_void_p(), ctypes.c_void_p()
        status = c.lib.cst_fit(
            s.context, pool, split.encode(), chosen, ctypes.byref(model), ctypes.byref(report)
        )
        s.keep(c.lib.cst_model_free, model)
        s.keep(c.lib.cst_report_free, report)
        s.check(status)
        return Stack(model_bytes(s, model), Report(*s.report(report)), _names(s, pool))


def inspect(
    preds: Any,
    y: Any = None,
    *,
    folds: Any = None,
    groups: Any = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Sequence[str]] = None,
    flops: Flops = None,
    output: str = "probability",
    split: str = "oof",
    preset: str = "default",
    seed: Optional[int] = None,
    options: Optional[Mapping[str, Any]] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    **keywords: Any,
) -> Report:
    """Redundancy, clusters, spectrum, the four penalties and data problems (docs/json.md, "inspect")."""
    with Session(threads, memory, progress) as s:
        chosen = s.options(preset, seed, options, keywords)
        pool = _open(
            s, preds, y, split, folds=folds, groups=groups, names=names, classes=classes, flops=flops, output=output
        )
        return _made(s, lambda context, o: c.lib.cst_inspect(context, pool, split.encode(), chosen, o))


def cka(preds: Any, y: Any = None, **arguments: Any) -> np.ndarray:
    """CKA of every pair of members, (members, members), as :func:`inspect` with the same arguments."""
    matrix = inspect(preds, y, **arguments)["cka"]
    return np.array([[np.nan if v is None else v for v in row] for row in matrix], np.float64)


def compare(
    preds: Any,
    y: Any = None,
    *,
    methods: Union[None, str, Sequence[str]] = None,
    reference: Optional[str] = None,
    ood: Optional[str] = None,
    clean: Optional[str] = None,
    reference_errors: Optional[str] = None,
    head_above: int = 0,
    tail_below: int = 0,
    folds: Any = None,
    groups: Any = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Sequence[str]] = None,
    flops: Flops = None,
    output: str = "probability",
    split: str = "oof",
    resamples: int = 5000,
    seed: int = 0,
    options: Optional[Mapping[str, Any]] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    **keywords: Any,
) -> Report:
    """Methods side by side, with intervals and tests (docs/json.md, "compare").

    methods: names, as `corestack compare --list-methods` has them; None for all that apply. On arrays every score is
    nested; of a pool's path, another `split` than "oof" is scored by fits on "oof".
    ood, clean, reference_errors, head_above, tail_below: of a pool's path, as the options of `corestack compare`.
    """
    with Session(threads, memory, progress) as s:
        pool = _open(
            s, preds, y, "oof", folds=folds, groups=groups, names=names, classes=classes, flops=flops, output=output
        )
        wanted = [methods] if isinstance(methods, str) else list(methods or [])
        pairs = [f"{key}={value}" for key, value in settings(None, options, keywords).items()]
        struct = c.CompareOptions(
            split=split.encode(),
            methods=_arrays._texts(wanted) if wanted else None,
            method_count=len(wanted),
            reference=None if reference is None else reference.encode(),
            ood=None if ood is None else ood.encode(),
            settings=_arrays._texts(pairs) if pairs else None,
            setting_count=len(pairs),
            resamples=resamples,
            seed=seed,
            clean=None if clean is None else clean.encode(),
            reference_errors=None if reference_errors is None else reference_errors.encode(),
            head_above=head_above,
            tail_below=tail_below,
        )
        return _made(s, lambda context, o: c.lib.cst_compare(context, pool, struct, o))


def evaluate(
    probabilities: Any,
    y: Any,
    *,
    classes: Optional[Sequence[str]] = None,
    output: str = "probability",
    resamples: int = 0,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: Progress = None,
) -> Report:
    """Scores probabilities (rows, classes) against labels (docs/json.md, "evaluate").

    With 95% bootstrap intervals where resamples > 0.
    """
    with Session(threads, None, progress) as s:
        pool = _open(s, {"probabilities": probabilities}, y, "test", classes=classes, output=output)
        return _made(
            s, lambda context, o: c.lib.cst_evaluate_member(context, pool, b"test", 0, resamples, seed, o)
        )


def scored(probabilities: Any, y: Any, classes: Optional[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    p = _arrays.distribution(probabilities)
    labels = _arrays.labels(y, classes)
    if len(labels) != len(p):
        raise InputError(f"y: has {len(labels)} labels where there are {len(p)} rows of probabilities")
    return p, labels


def _made(s: Session, call: Any) -> Report:
    out = ctypes.c_void_p()
    status = call(s.context, ctypes.byref(out))
    s.keep(c.lib.cst_report_free, out)
    s.check(status)
    return Report(*s.report(out))


def folds(y: Any, count: int = 5, *, groups: Any = None, seed: int = 0) -> np.ndarray:
    """Stratified folds (rows,) from 0 to count - 1; with groups, rows of a group stay together.

    y: labels of any kind: only which are equal matters.
    """
    labels = np.ascontiguousarray(np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1), np.int32)
    out = np.empty(len(labels), np.int32)
    rows = _arrays.numbered(groups, "groups", len(labels))
    with Session(threads=1) as s:
        where = (len(labels), count, seed, out.ctypes.data)
        if rows is None:
            s.check(c.lib.cst_folds_stratified(s.context, labels.ctypes.data, *where))
        else:
            s.check(c.lib.cst_folds_grouped(s.context, labels.ctypes.data, rows.ctypes.data, *where))
    return out


def option_table() -> list[dict[str, Any]]:
    """Every option: key, keyword, default, bounds or choices, and what it does (docs/options.md)."""
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
    """Names of the presets."""
    found: list[str] = []
    while (name := c.lib.cst_preset_at(len(found))) is not None:
        found.append(name.decode())
    return found


def methods() -> list[str]:
    """Names of the methods that :func:`compare` knows."""
    found: list[str] = []
    while (name := c.lib.cst_method_name(len(found))) is not None:
        found.append(name.decode())
    return found
