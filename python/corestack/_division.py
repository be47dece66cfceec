"""How the columns of X are divided among members, for the estimators."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ._errors import ArgumentError, MismatchError
from ._types import Array

_NEAR = 0.01  # from 1, of a row's sum of probabilities


def of_classes(X: Array, classes: int, members: Optional[int], declared: bool, output: str) -> tuple[int, int]:
    """Members and columns of each: as many as classes, or one, the probability of class 1 of two.

    declared: whether the number of classes was given; y may lack some otherwise. Where several divisions are possible,
    probabilities decide, whose rows sum to 1.
    """
    if X.ndim == 3:
        count, columns = X.shape[1:]
        if columns == classes or (columns == 1 and classes == 2):
            return int(count), int(columns)
        raise MismatchError(_no_division(f"shape {X.shape}", columns, classes, None))
    width = X.shape[1]
    if members is not None:
        columns = width // members if width % members == 0 else 0
        if columns == classes or (columns == 1 and classes == 2):
            return members, columns
        raise MismatchError(_no_division(f"{width} columns", columns, classes, members))
    possible = [d for d in range(2, width + 1) if width % d == 0 and (d == classes or (not declared and d > classes))]
    if output == "probability":
        sums = [d for d in possible if _sum_to_one(X, d)]
        if sums and sums[0] != classes:
            raise MismatchError(_no_division(f"{width} columns", sums[0], classes, None))
        if not sums and classes == 2:
            return width, 1
        possible = [classes] if width % classes == 0 else []
    else:
        possible = [d for d in possible if d == classes or d < width]  # a single member is no ensemble
        possible = [1] * (classes == 2) + possible
    if len(possible) > 1:
        ways = " or ".join(f"{width // d} of {d}" for d in possible)
        more = "" if declared else f", or n_classes if y has all {classes} classes"
        more = "" if classes == 2 else more
        raise ArgumentError(f"X: {width} columns can be divided into members and columns per member in several ways ({ways}); give n_members{more}")
    if not possible:
        raise MismatchError(_no_division(f"{width} columns", 0, classes, None))
    return width // possible[0], possible[0]


def _no_division(what: str, columns: int, classes: int, members: Optional[int]) -> str:
    text = f"X: has {what}, which do not fit {members or 'any number of'} members with {classes} classes; "
    if columns > classes:
        return text + f"if there are {columns} classes, of which y has {classes}, give classes=[...], all of them in the order of the columns"
    return text + (
        "X must hold predictions, one member after the other (give estimators=[...] to train on features)"
    )


def _sum_to_one(X: Array, columns: int) -> bool:
    """Whether most rows of each member do; the library tells those that do not."""
    sums = np.asarray(X, np.float64).reshape(len(X), -1, columns).sum(axis=2)
    with np.errstate(invalid="ignore"):
        return bool((np.abs(sums - 1) < _NEAR).mean(axis=0).min() > 0.5)


def codes_among(y: Array, classes: Any) -> tuple[Array, Array]:
    """Declared classes in the order of their columns, and the column of each label in y."""
    known: Array = np.asarray(classes)
    if known.ndim != 1 or len(known) < 2 or len(set(known.tolist())) < len(known):
        raise ArgumentError(f"classes: is {classes!r}; it must list two or more classes, each once, in the order of the columns")
    if known.dtype.kind in "US" and y.dtype.kind in "iu" and list(known) == sorted(known):
        known = np.arange(len(known))  # y was numbered in the order of the names, as cross_val_predict does
    places = {label: column for column, label in enumerate(known.tolist())}
    codes = np.array([places.get(label, -1) for label in y.tolist()], np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise MismatchError(f"y: row {row} is '{y[row]}', which is not one of the classes {', '.join(map(str, known))}")
    return known, codes
