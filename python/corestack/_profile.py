"""What a stack costs when it predicts."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Optional, Union

from . import _arrays, _values
from . import _library as c
from ._errors import ArgumentError
from ._pools import fits, open_pool, predicted_split
from ._report import Report, made
from ._session import Progress, Session
from ._stack import Stack
from ._types import Column, Costs, Memory, Names, Options, OptionValue, Path, Predictions


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
    folds: Union[None, Column, Path] = None,
    groups: Union[None, Column, Path] = None,
    sample_weight: Union[None, Column, Path] = None,
    names: Optional[Sequence[str]] = None,
    classes: Optional[Names] = None,
    flops: Costs = None,
    latency_ms: Costs = None,
    params: Costs = None,
    memory_bytes: Costs = None,
    output: Optional[str] = None,
    outside: bool = False,
    missing: Optional[str] = None,
    seed: int = 0,
    options: Optional[Options] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
    **keywords: OptionValue,
) -> Report:
    """Measure what a stack or a model file costs when it predicts, next to other methods (docs/json.md, "profile").

    preds: the path of a pool, whose `split` ("test") is predicted; or arrays, on which the methods are fitted as well.
    methods: names from :func:`corestack.methods`, fitted on split "oof"; None for those of the paper's table and "greedy",
    as far as they apply; [] for the stack alone.
    batch: samples of a call with many. seconds: how long calls of each size are timed (0.5); calls: how many instead.
    flops, latency_ms, params, memory_bytes: costs of one prediction by member, as for :func:`corestack.fit`, and its peak
    memory in bytes; for the path of a pool they come from the manifest. parallel: members run at the same time, so that
    latency and memory are the largest member's instead of the sum.
    options and keywords: set in every preset that is fitted. Other arguments are those of :func:`corestack.compare`.
    """
    stack = model if isinstance(model, Stack) else Stack.load(model)
    rows = predicted_split(preds, split)
    if not _arrays.is_path(preds) and not _arrays.are_paths(preds):
        rows = "oof"
        names = stack._named(preds, names)
        classes = stack.classes if classes is None else classes
    if seconds is not None and calls is not None:
        raise ArgumentError("seconds and calls both say how long to measure; give one of them")
    chosen = fits(methods, {"options": options, "keywords": keywords})
    if methods is not None and chosen["methods"] is None:
        chosen["methods"] = _arrays.texts([""], "methods")  # none, and not those of the table
    with Session(threads, memory, progress) as s:
        pool = open_pool(
            s, preds, y, "oof", stack.task, output, outside, missing, folds=folds, groups=groups,
            sample_weight=sample_weight, names=names, classes=classes, flops=flops, latency_ms=latency_ms, params=params, memory_bytes=memory_bytes,
        )  # fmt: skip
        how = c.ProfileOptions(
            split=rows.encode(),
            **chosen,
            batch=_values.integer(batch, "batch", least=1),
            calls=0 if calls is None else _values.integer(calls, "calls", least=1),
            seconds=0 if seconds is None else _values.real(seconds, "seconds"),
            parallel=int(parallel),
            seed=_values.integer(seed, "seed", _values.UINT64),
        )
        return made(s, lambda context, o: c.lib.cst_profile(context, stack._model, pool, ctypes.byref(how), o))
