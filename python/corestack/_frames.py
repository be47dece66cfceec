"""pandas objects as arrays: rows joined by index, columns by name. pandas itself is never imported here."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from ._errors import InputError, MismatchError


def is_frame(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def is_series(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "index") and not hasattr(value, "columns")


def is_indexed(value: Any) -> bool:
    return is_frame(value) or is_series(value)


def joined(value: Any, index: Any, where: str) -> Any:
    """A series or frame in the order of `index`: each id of it once, and no other. Anything else as it is."""
    if index is None or not is_indexed(value):
        return value
    for ids, owner in ((value.index, where), (index, "the first data frame")):
        if not ids.is_unique:
            raise InputError(f"{owner}: id {ids[ids.duplicated()][0]!r} occurs twice")
    if index.equals(value.index):
        return value
    places = value.index.get_indexer(index)
    if (places < 0).any():
        raise MismatchError(f"{where}: no row with id {index[places < 0][0]!r}")
    if len(value.index) > len(index):
        raise MismatchError(f"{where}: id {value.index.difference(index)[0]!r} is extra")
    return value.iloc[places]


def ordered(frame: Any, order: Optional[Sequence[Any]], where: str) -> Any:
    """A frame with its columns in the order of these names; of others it is an error."""
    if order is None or list(frame.columns) == list(order):
        return frame
    names = [str(name) for name in frame.columns]
    wanted = [str(name) for name in order]
    if len(set(names)) < len(names):
        raise InputError(f"{where}: two columns of the data frame are called '{next(n for n in names if names.count(n) > 1)}'")
    if set(names) != set(wanted):
        raise MismatchError(f"{where}: has columns {names}, expected {wanted}")
    return frame.iloc[:, [names.index(name) for name in wanted]]


def order_of(frame: Any, known: Optional[Sequence[str]]) -> list[Any]:
    """The order that a member's columns are brought into: of `known`, a model's classes, where they are called so; of the
    numbers where they are 0, 1, 2, ...; else their own."""
    columns = list(frame.columns)
    if known is not None and len(set(map(str, columns))) == len(columns) and set(map(str, columns)) == set(known):
        places = {name: place for place, name in enumerate(known)}
        return sorted(columns, key=lambda name: places[str(name)])
    return sorted(columns) if _are_places(columns) else columns


def _are_places(columns: Sequence[Any]) -> bool:
    whole = all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in columns)
    return whole and sorted(columns) == list(range(len(columns)))


def unframed(
    preds: Any, classes: Optional[Sequence[Any]], known: Optional[Sequence[str]] = None
) -> tuple[Any, Any, Optional[Sequence[Any]]]:
    """Predictions as arrays, the index that rows are joined by (or None), and the names of the classes.

    A frame has a column for each member: the probability of class 1 of two. Frames in a dict or list have a column for
    each class, and are brought into one order, that of a model's classes (`known`) where it has some. Columns that are
    not numbered from 0 on name the classes.
    """
    if is_frame(preds):
        names = [str(name) for name in preds.columns]
        if len(set(names)) < len(names):
            raise InputError("predictions: two columns of the data frame have the same name")
        return {name: preds.iloc[:, k] for k, name in enumerate(names)}, preds.index, classes
    items = list(preds.items()) if isinstance(preds, Mapping) else None
    if items is None and isinstance(preds, (list, tuple)):
        items = [(f"predictions[{k}]", value) for k, value in enumerate(preds)]
    first = next((value for _, value in items or [] if is_indexed(value)), None)
    if first is None:
        return preds, None, classes
    frame = next((value for _, value in items or [] if is_frame(value)), None)
    order = None if frame is None or len(frame.columns) < 2 else order_of(frame, known)
    arrays = []
    for name, value in items or []:
        value = joined(value, first.index, str(name))
        arrays.append(ordered(value, order, str(name)) if is_frame(value) else value)
    if classes is None and order is not None and not _are_places(order):
        classes = order
    return (dict(zip(preds, arrays)) if isinstance(preds, Mapping) else arrays), first.index, classes
