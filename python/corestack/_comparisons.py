"""Methods side by side: compare, ablate, sweep."""
from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _arrays, _values
from . import _library as c
from ._errors import ArgumentError
from ._pools import fits, open_given, scoring
from ._report import Report, made
from ._session import Progress, Session, option_text
from ._types import Column, Costs, Memory, Names, Options, OptionValue, Path, Predictions


def _how(methods: Any, given: Mapping[str, Any]) -> c.CompareOptions:
    return c.CompareOptions(
        split=_values.text(given["split"], "split"), resamples=_values.integer(given["resamples"], "resamples"),
        seed=_values.integer(given["seed"], "seed", _values.UINT64), **fits(methods, given),
    )  # fmt: skip


def compare(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    methods: Union[None, str, Sequence[str]] = None,
    reference: Optional[str] = None,
    ood: Optional[str] = None,
    clean: Optional[str] = None,
    reference_errors: Optional[str] = None,
    head_above: int = 0,
    tail_below: int = 0,
    task: Optional[str] = None,
    folds: Union[None, Column, Path] = None,
    groups: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    domains: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Names] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    params: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    missing: Optional[str] = None,
    split: str = "oof",
    resamples: Optional[int] = None,
    seed: int = 0,
    options: Optional[Options] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    comm: Any = None,
    splits: int = 1,
    holdout: float = 0.0,
    **keywords: OptionValue,
) -> Report:
    """Compare methods on the same rows, with intervals and tests (docs/json.md, "compare").

    methods: names from :func:`corestack.methods`; None for all that apply but "compact" and "best". For arrays every
    score is nested; for the path of a pool, a `split` other than "oof" is scored by fits on "oof".
    splits: repetitions with the seeds seed, seed + 1, ...; each score is then their mean, and "top1_se" and the like its
    standard error. holdout: the share of split "oof" that each repetition draws at random, leaves out of the fits and
    scores. resamples: None for 5000, with several splits 0.
    ood, clean, reference_errors, head_above, tail_below: for the path of a pool; see `corestack compare --help`.
    comm: as for :func:`corestack.fit`.
    """
    given = dict(locals())
    repetitions = _values.integer(splits, "splits", least=1)
    with Session(threads, memory, progress, comm=comm) as s:
        pool = open_given(s, "compare", given, "oof")
        if resamples is None:
            given["resamples"] = 0 if repetitions > 1 else 5000
        how = c.CompareOptions(
            split=_values.text(split, "split"), reference=_values.text_or_none(reference, "reference"), splits=repetitions,
            holdout=_values.real(holdout, "holdout"), **fits(methods, given), **scoring(given),
        )  # fmt: skip
        return made(s, lambda context, o: c.lib.cst_compare(context, pool, how, o))


def ablate(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    task: Optional[str] = None,
    folds: Union[None, Column, Path] = None,
    groups: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    domains: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Names] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    params: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    missing: Optional[str] = None,
    split: str = "oof",
    resamples: int = 5000,
    seed: int = 0,
    options: Optional[Options] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    comm: Any = None,
    **keywords: OptionValue,
) -> Report:
    """Run the ablation of the paper: preset "prototype" with the stages of "paper" switched on one after the other, and last our own drop and refit.

    Arguments and keys of the result are those of :func:`compare`.
    """
    given = dict(locals())
    with Session(threads, memory, progress, comm=comm) as s:
        pool = open_given(s, "ablate", given, "oof")
        how = _how(None, given)
        return made(s, lambda context, o: c.lib.cst_ablate(context, pool, how, o))


def sweep(
    preds: Union[Predictions, Sequence[Path]],
    y: Union[None, Column, Path] = None,
    *,
    over: str,
    values: Sequence[Any],
    draws: int = 5,
    methods: Union[None, str, Sequence[str]] = None,
    task: Optional[str] = None,
    folds: Union[None, Column, Path] = None,
    groups: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    domains: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Names] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    params: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    missing: Optional[str] = None,
    split: str = "oof",
    resamples: int = 0,
    seed: int = 0,
    options: Optional[Options] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    comm: Any = None,
    **keywords: OptionValue,
) -> Report:
    """Score methods over the values of an option, or over the size of the pool (docs/json.md, "sweep").

    over: an option's key, with presets as methods; or "pool.size", with any methods on `draws` random subsets of the
    members for each size. Other arguments are those of :func:`compare`.
    """
    given = dict(locals())
    key = _values.text(over, "over")
    texts = [option_text(value) for value in _values.list_of(values, "values", "values of the option")]
    if not texts:
        raise ArgumentError("values: the list is empty; give the values of the option")
    with Session(threads, memory, progress, comm=comm) as s:
        if over != "pool.size":  # a value that is not valid shows before any work is done
            for text in texts:
                s.options("default", None, {over: text}, {})
        pool = open_given(s, "sweep", given, "oof", values=texts)
        how = _how(methods, given)
        swept = c.SweepOptions(
            key=key, values=_arrays.texts(texts, "values"), value_count=len(texts), draws=_values.integer(draws, "draws")
        )
        return made(s, lambda context, o: c.lib.cst_sweep(context, pool, ctypes.byref(swept), how, o))
