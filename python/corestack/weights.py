"""Weights of networks as members: soups, averages of checkpoints, samples around them (docs/weights.md)."""
from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _arrays, _values
from . import _library as c
from ._errors import ArgumentError
from ._report import Report, made
from ._session import Progress, Session
from ._types import Column, Matrix, Memory, Path, Targets

# What predicts with a candidate: the path of a safetensors file in, predictions of every row of y out.
Predict = Callable[[str], Matrix]

_OUTPUTS = {"probability": 0, "logit": 1}


def _paths(paths: Sequence[Path]) -> tuple[Any, int]:
    found = [_values.path(path, "paths") for path in _values.list_of(paths, "paths", "paths of safetensors files")]
    return (ctypes.c_char_p * max(len(found), 1))(*found), len(found)


def _hook(s: Session, predict: Predict) -> Any:
    """`predict` as the library calls it; what it raises is kept until the library is back."""

    def answer(candidate: bytes, predictions: bytes) -> None:
        found = np.asarray(predict(os.fsdecode(candidate)))
        with open(predictions, "wb") as file:
            np.save(file, found, allow_pickle=False)

    def ask(context: int, _user: object, candidate: bytes, predictions: bytes) -> int:
        try:
            s.run(answer, candidate, predictions)
            return 0
        except BaseException as error:
            s.keep_error(error)
            return int(c.lib.cst_soup_fail(context, 2, b"the function that predicts raised an exception"))

    return c.SOUP_HOOK(ask)


def _labels(y: Union[Column, Targets, Path], folder: str) -> bytes:
    """The path of a file with the labels; an array is written to one."""
    if _arrays.is_path(y):
        return _values.path(y, "y")
    found = np.asarray(_arrays.loaded(y, "y"))
    if found.dtype.kind not in "biuf":
        raise ArgumentError("y: labels of soups must be numbers: classes starting at 0, or targets")
    path = os.path.join(folder, "y.npy")
    np.save(path, found.astype(np.int64) if found.dtype.kind == "b" else found, allow_pickle=False)
    return os.fsencode(path)


def soup(
    paths: Sequence[Path],
    out: Path,
    *,
    kind: str = "uniform",
    predict: Optional[Predict] = None,
    y: Union[None, Column, Targets, Path] = None,
    task: str = "classification",
    output: str = "probability",
    metric: Optional[str] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
) -> Report:
    """Average the weights of safetensors files into one network, written to `out` (docs/json.md, "soup").

    kind: "uniform" averages all files; "greedy" averages the files that improve the score.
    predict: for greedy soups, a function that takes the path of a candidate and returns its predictions for
    every row of `y`, (rows, classes) or (rows,). Its exceptions are raised by this call.
    y: labels (rows,) or regression targets, or the path of a file with them.
    """
    files, count = _paths(paths)
    target = _values.path(out, "out")
    if kind not in ("uniform", "greedy"):
        raise ArgumentError(f"kind: is {_values.shown(kind)}; it must be 'uniform' or 'greedy'")
    with Session(threads, memory, progress) as s:
        if kind == "uniform":
            return made(s, lambda context, o: c.lib.cst_soup_uniform(context, files, count, target, o))
        if not callable(predict):
            raise ArgumentError(f"predict: is {_values.shown(predict)}; it must be a function that predicts with a candidate")
        if y is None:
            raise ArgumentError("y: labels are required to score candidates")
        with tempfile.TemporaryDirectory(prefix="corestack-") as folder:
            hook = _hook(s, predict)
            how = c.SoupConfig(
                hook=hook,
                labels=s.run(_labels, y, folder),
                task=_arrays.number_of(task, {"classification": 0, "regression": 1}, "task"),
                output=_arrays.number_of(output, _OUTPUTS, "output"),
                metric=_values.text_or_none(metric, "metric"),
            )
            return made(s, lambda context, o: c.lib.cst_soup_greedy(context, files, count, how, target, o))


def swa(
    paths: Sequence[Path],
    out: Path,
    *,
    start: Optional[Path] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
) -> None:
    """Write the mean of checkpoints of one run (stochastic weight averaging) to `out`.

    start: an earlier average to continue from; `out` may be the same file.
    """
    files, count = _paths(paths)
    before = None if start is None else _values.path(start, "start")
    with Session(threads, memory, progress) as s:
        s.check(c.lib.cst_swa_average(s.context, files, count, before, _values.path(out, "out")))


def swag_fit(
    paths: Sequence[Path],
    out: Path,
    *,
    rank: int = 20,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
) -> None:
    """Fit a normal distribution over weights to checkpoints in the order of training (SWAG), written to `out`.

    rank: number of last checkpoints whose deviations are kept; 0: diagonal only.
    """
    files, count = _paths(paths)
    columns = _values.integer(rank, "rank")
    with Session(threads, memory, progress) as s:
        s.check(c.lib.cst_swag_fit(s.context, files, count, columns, _values.path(out, "out")))


def swag_sample(
    model: Path,
    folder: Path,
    *,
    samples: int = 30,
    scale: float = 0.5,
    seed: int = 0,
    rank: Optional[int] = None,
    threads: Optional[int] = None,
    memory: Memory = None,
    progress: Progress = None,
) -> list[str]:
    """Draw networks from a file of :func:`swag_fit` into a new or empty folder; return the paths of their files.

    scale: factor of the covariance; 0.5 is the distribution of the SWAG paper, 0 gives the mean.
    rank: number of last deviations to use; None: all; 0: diagonal only.
    """
    source, target = _values.path(model, "model"), _values.path(folder, "folder")
    count = _values.integer(samples, "samples", least=1)
    columns = -1 if rank is None else _values.integer(rank, "rank")
    drawn = _values.real(scale, "scale"), _values.integer(seed, "seed", _values.UINT64)
    with Session(threads, memory, progress) as s:
        s.check(c.lib.cst_swag_sample(s.context, source, count, *drawn, columns, target))
    digits = max(2, len(str(count - 1)))
    return [os.path.join(os.fsdecode(target), f"sample_{i:0{digits}d}.safetensors") for i in range(count)]
