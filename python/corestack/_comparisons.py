"""Methods side by side, by their scores (compare, ablate, sweep) and by their costs (profile)."""
from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _arrays, _values
from . import _library as c
from ._arguments import like, taking
from ._errors import ArgumentError
from ._functions import fit
from ._pools import fits, of_pool, open_given, predicted_split, scoring
from ._report import Report, made
from ._session import Session, option_text
from ._stack import Stack
from ._types import Column, Costs, Matrix, Path, Predictions


def _how(given: Mapping[str, Any], **more: Any) -> c.CompareOptions:
    found = {
        "split": _values.text(given["split"], "split"), "resamples": _values.integer(given["resamples"], "resamples"),
        "seed": _values.integer(given["seed"], "seed", _values.UINT64), **fits(given.get("methods"), given), **more,
    }  # fmt: skip
    return c.CompareOptions(**found)


def _own(given: Any, split: str) -> Any:
    """Predictions of methods of the user's own as structs; None without any. split: what is scored."""
    if not given:
        return None
    if not isinstance(given, Mapping):
        raise ArgumentError(f"own: is a {type(given).__name__}; give a dict of names and predictions")
    found = (c.OwnPredictions * len(given))()
    found.arrays = []  # as long as the structs
    for one, (name, value) in zip(found, given.items()):
        one.name = _values.text(name, "own")
        if isinstance(value, Mapping) and all(_arrays.is_path(path) for path in value.values()):
            one.path = _values.text(",".join(f"{part}:{os.fspath(path)}" for part, path in value.items()), "own")
            continue
        if isinstance(value, Mapping):
            if split not in value:
                raise ArgumentError(f"own['{name}']: has no predictions of split '{split}', which is scored")
            value = value[split]
        if isinstance(value, Stack):
            file = tempfile.NamedTemporaryFile(prefix="corestack-", suffix=".cstack")
            value.save(file.name)
            one.path = _values.path(file.name, "own")
            found.arrays.append(file)
            continue
        if _arrays.is_path(value):
            one.path = _values.path(value, "own")
            continue
        array = _arrays.values(value, f"own['{name}']")
        one.values, (one.rows, one.columns) = array.ctypes.data, array.shape
        found.arrays.append(array)
    return found


@taking(fit, Stack.evaluate, without="self preset method label_noise suspects html id_column label_column baselines metric")
def compare(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    methods: Union[None, str, Sequence[str]] = None,
    reference: Optional[str] = None,
    resamples: Optional[int] = None,
    seed: int = 0,
    splits: int = 1,
    holdout: float = 0.0,
    own: Optional[Mapping[str, Union[Stack, Matrix, Path, Mapping[str, Union[Matrix, Path]]]]] = None,
    html: Optional[Path] = None,
    **arguments: Any,
) -> Report:
    """Compare methods on the same rows, with intervals and tests (docs/json.md, "compare").

    methods: names from :func:`corestack.methods`; None for all that apply but "compact" and "best". For arrays every
    score is nested; for the path of a pool, a `split` other than "oof" is scored by fits on "oof".
    splits: repetitions with the seeds seed, seed + 1, ...; each score is then their mean, and "top1_se" and the like its
    standard error. holdout: the share of split "oof" that each repetition draws at random, leaves out of the fits and
    scores. resamples: None for 5000, with several splits 0.
    own: {name: predictions} of methods of your own, (rows, classes) or for regression (rows,) or (rows, outputs), for all
    rows of the split in their order, or the path of such a file (of detections, a COCO results file; of maps, a file or folder); each is a row of the report. Of split "oof" they must be
    out-of-fold. {name: {split: predictions}} has those of several splits, of which the scored one's are taken. A
    :class:`Stack`, or the path of its file, is scored as it is, on a split that its fit did not see.
    html: a file to write the report to as one HTML page (docs/report.md).
    ood, clean, reference_errors, head_above, tail_below: for the path of a pool; see `corestack compare --help`.
    Other arguments are those of :func:`corestack.fit`.
    """
    given = {**arguments, **locals()}
    repetitions = _values.integer(splits, "splits", least=1)
    if resamples is None:
        given["resamples"] = 0 if repetitions > 1 else 5000
    with Session.of(given) as s:
        pool = open_given(s, "compare", given, "oof")
        rows = _own(own, given["split"])
        how = _how(given, reference=_values.text_or_none(reference, "reference"), splits=repetitions,
                   holdout=_values.real(holdout, "holdout"), own=rows, own_count=0 if rows is None else len(rows),
                   **scoring(given))  # fmt: skip
        return made(s, lambda context, o: c.lib.cst_compare(context, pool, how, o), html=html)


@like(compare, without="methods reference ood clean reference_errors head_above tail_below splits holdout own html")
def ablate(**given: Any) -> Report:
    """Run the ablation of the paper: preset "prototype" with the stages of "paper" switched on one after the other, and last our own drop and refit.

    Arguments and keys of the result are those of :func:`compare`.
    """
    if given["resamples"] is None:
        given["resamples"] = 5000
    with Session.of(given) as s:
        pool = open_given(s, "ablate", given, "oof")
        return made(s, lambda context, o: c.lib.cst_ablate(context, pool, _how(given), o))


@taking(compare, without="reference ood clean reference_errors head_above tail_below splits holdout own")
def sweep(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    over: str,
    values: Sequence[Any],
    draws: int = 5,
    resamples: int = 0,
    **arguments: Any,
) -> Report:
    """Score methods over the values of an option, or over the size of the pool (docs/json.md, "sweep").

    over: an option's key, with presets as methods; or "pool.size", with any methods on `draws` random subsets of the
    members for each size. Other arguments are those of :func:`compare`.
    """
    given = {**arguments, **locals()}
    key = _values.text(over, "over")
    texts = [option_text(value) for value in _values.list_of(values, "values", "values of the option")]
    if not texts:
        raise ArgumentError("values: the list is empty; give the values of the option")
    with Session.of(given) as s:
        if over != "pool.size":  # a value that is not valid shows before any work is done
            for text in texts:
                s.options("default", None, {over: text}, {})
        pool = open_given(s, "sweep", given, "oof", values=texts)
        how = c.SweepOptions(
            key=key, values=_arrays.texts(texts, "values"), value_count=len(texts), draws=_values.integer(draws, "draws")
        )
        return made(s, lambda context, o: c.lib.cst_sweep(context, pool, ctypes.byref(how), _how(given), o), html=given["html"])


@taking(fit, without="task domains preset method label_noise suspects html id_column label_column comm")
def profile(
    model: Union[Stack, Path],
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    split: Optional[str] = None,
    methods: Union[None, str, Sequence[str]] = None,
    batch: int = 256,
    seconds: Optional[float] = None,
    calls: Optional[int] = None,
    parallel: bool = False,
    memory_bytes: Costs = None,
    seed: int = 0,
    **arguments: Any,
) -> Report:
    """Measure what a stack or a model file costs when it predicts, next to other methods (docs/json.md, "profile").

    preds: the path of a pool, whose `split` ("test") is predicted; or arrays, on which the methods are fitted as well.
    methods: names from :func:`corestack.methods`, fitted on split "oof"; None for those of the paper's table and "greedy",
    as far as they apply; [] for the stack alone.
    batch: samples of a call with many. seconds: how long calls of each size are timed (0.5); calls: how many instead.
    flops, latency_ms, params, memory_bytes: costs of one prediction by member, as for :func:`corestack.fit`, and its peak
    memory in bytes; for the path of a pool they come from the manifest. parallel: members run at the same time, so that
    latency and memory are the largest member's instead of the sum.
    options and keywords: set in every preset that is fitted. Other arguments are those of :func:`corestack.fit`.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    given = {**arguments, **locals()}
    rows = predicted_split(preds, split)
    if seconds is not None and calls is not None:
        raise ArgumentError("seconds and calls both say how long to measure; give one of them")
    chosen = fits(methods, given)
    if methods is not None and chosen["methods"] is None:
        chosen["methods"] = _arrays.texts([""], "methods")  # none, and not those of the table
    with Session.of(given) as s:
        pool = stack._open(s, preds, y, "oof", **of_pool(given))
        how = c.ProfileOptions(
            split=rows.encode() if _arrays.in_files(preds) else b"oof",
            **chosen,
            batch=_values.integer(batch, "batch", least=1),
            calls=0 if calls is None else _values.integer(calls, "calls", least=1),
            seconds=0 if seconds is None else _values.real(seconds, "seconds"),
            parallel=int(parallel),
            seed=_values.integer(seed, "seed", _values.UINT64),
        )
        return made(s, lambda context, o: c.lib.cst_profile(context, stack._model, pool, ctypes.byref(how), o))
