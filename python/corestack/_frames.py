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


def joined(value: Any, index: Any, where: str) -> Any:
    """A series or frame in the order of `index`: each id of it once, and no other. Anything else as it is."""
    if index is None or not (is_series(value) or is_frame(value)) or index.equals(value.index):
        return value
    for ids, owner in ((value.index, where), (index, "the first data frame")):
        if not ids.is_unique:
            raise InputError(f"{owner}: id {ids[ids.duplicated()][0]!r} is there twice")
    places = value.index.get_indexer(index)
    if (places < 0).any():
        raise MismatchError(f"{where}: there is no row with id {index[places < 0][0]!r}")
    if len(value.index) > len(index):
        raise MismatchError(f"{where}: id {value.index.difference(index)[0]!r} is one too many")
    return value.iloc[places]


def unframed(preds: Any, classes: Optional[Sequence[str]]) -> tuple[Any, Any, Optional[Sequence[str]]]:
    """Predictions as arrays, the index that rows are joined by (or None), and the names of the classes.

    A frame has a column for each member: the probability of class 1 of two. Frames in a dict or list have a column for
    each class, and are brought into the order of the first one.
    """
    if is_frame(preds):
        names = [str(name) for name in preds.columns]
        if len(set(names)) < len(names):
            raise InputError("predictions: two columns of the data frame have one name")
        return {name: preds.iloc[:, k].to_numpy() for k, name in enumerate(names)}, preds.index, classes
    items = list(preds.items()) if isinstance(preds, Mapping) else None
    if items is None and isinstance(preds, (list, tuple)):
        items = [(f"predictions[{k}]", value) for k, value in enumerate(preds)]
    first = next((value for _, value in items or [] if is_frame(value) or is_series(value)), None)
    if first is None:
        return preds, None, classes
    columns: Any = next((value.columns for _, value in items or [] if is_frame(value)), None)
    arrays = []
    for name, value in items or []:
        value = joined(value, first.index, str(name))
        if is_frame(value) and not value.columns.equals(columns):
            if len(value.columns) != len(columns) or set(value.columns) != set(columns):
                raise MismatchError(
                    f"{name}: has columns {list(map(str, value.columns))} where another has {list(map(str, columns))}"
                )
            value = value[list(columns)]
        arrays.append(value.to_numpy() if is_frame(value) or is_series(value) else np.asanyarray(value))
    if classes is None and columns is not None and len(columns) > 1 and all(isinstance(c, str) for c in columns):
        classes = list(columns)
    return (dict(zip(preds, arrays)) if isinstance(preds, Mapping) else arrays), first.index, classes
