"""pandas objects as arrays: rows joined by index, columns by name. pandas itself is never imported here."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from ._errors import InputError, MismatchError


def is_frame(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def is_indexed(value: Any) -> bool:
    return hasattr(value, "iloc") and (hasattr(value, "columns") or hasattr(value, "index"))


_IDS = ("id", "sample_id", "image_id", "row_id")  # as the library knows them in csv
_ROLES = {
    **dict.fromkeys(("y_true", "ground_truth", "target", "targets", "label", "labels", "actual"), "y"),
    **dict.fromkeys(("fold", "folds", "fold_id", "kfold"), "folds"),
    **dict.fromkeys(("group", "groups", "group_id"), "groups"),
    **dict.fromkeys(("weight", "weights", "sample_weight"), "sample_weight"),
    **dict.fromkeys(("domain", "domains"), "domains"),
}  # what a column is given as instead


def _plain(name: Any) -> str:
    return str(name).strip().lower().replace(" ", "_").replace("-", "_")


def id_column(frame: Any, where: str) -> Any:
    """The column of sample ids, or None."""
    found = [name for name in frame.columns if _plain(name) in _IDS]
    if len(found) > 1:
        raise InputError(f"{where}: columns {found[0]!r} and {found[1]!r} may both hold the ids; drop one")
    return found[0] if found else None


def identified(value: Any, where: str) -> Any:
    """A frame with a column of ids as one with these as its index. Anything else as it is."""
    name = id_column(value, where) if is_frame(value) else None
    if name is None:
        return value
    if len(value.columns) == 1:
        raise InputError(f"{where}: has no column but {name!r}")
    found = value.set_index(name)
    if not found.index.is_unique:
        raise InputError(f"{where}: id {found.index[found.index.duplicated()][0]!r} occurs twice in column {name!r}")
    return found


def _refuse_roles(frame: Any, where: str, known: Optional[Sequence[Any]]) -> None:
    """Columns of labels, folds etc. are no predictions."""
    if known is not None and set(map(str, frame.columns)) <= set(map(str, known)):
        return
    for name in frame.columns:
        argument = _ROLES.get(_plain(name)) or ("y" if _plain(name) == "y" and where == "predictions" else None)
        if argument is not None and len(frame.columns) > 1:
            raise InputError(
                f"{where}: column {name!r} holds no predictions; drop it (frame.drop(columns={name!r})), or rename it, and give "
                f"it as {argument}"
            )


def joined(value: Any, index: Any, where: str) -> Any:
    """A series or frame in the order of `index`: each id of it once, and no other. Anything else as it is."""
    if index is not None:
        value = identified(value, where)
    elif is_frame(value) and id_column(value, where) is not None:
        raise InputError(
            f"{where}: has a column {id_column(value, where)!r}, but the predictions have no ids to join it by; give data frames "
            "with ids, or drop the column if the rows are in the same order"
        )
    if index is None or not is_indexed(value):
        return value
    for ids, owner in ((value.index, where), (index, "the first data frame")):
        if not ids.is_unique:
            raise InputError(f"{owner}: id {ids[ids.duplicated()][0]!r} occurs twice")
    if index.equals(value.index):
        return value
    places = value.index.get_indexer(index)
    if (places < 0).any():
        raise MismatchError(
            f"{where}: no row with id {index[places < 0][0]!r}; are its rows named by the same ids? "
            "frame.set_index('id')['column'] names them, and .to_numpy() takes them in their order"
        )
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


def in_order(value: Any, known: Optional[Sequence[str]], where: str) -> Any:
    """One member's frame with its columns in the order of a model's classes. Anything else as it is."""
    return ordered(value, order_of(value, known), where) if is_frame(value) and len(value.columns) > 1 else value


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
        preds = identified(preds, "predictions")
        _refuse_roles(preds, "predictions", known)
        names = [str(name) for name in preds.columns]
        if len(set(names)) < len(names):
            raise InputError("predictions: two columns of the data frame have the same name")
        return {name: preds.iloc[:, k] for k, name in enumerate(names)}, preds.index, classes
    items = list(preds.items()) if isinstance(preds, Mapping) else None
    if items is None and isinstance(preds, (list, tuple)):
        items = [(f"predictions[{k}]", value) for k, value in enumerate(preds)]
    if items is not None:
        named = [name for name, value in items if is_frame(value) and id_column(value, str(name)) is not None]
        other = [name for name, value in items if is_indexed(value) and name not in named]
        if named and other:
            raise MismatchError(
                f"{other[0]}: has no id column, but {named[0]} has one; give every data frame its ids, or none "
                "(frame.drop(columns='id')) if all rows are in the same order"
            )
        items = [(name, identified(value, str(name))) for name, value in items]
        for name, value in items:
            if is_frame(value):
                _refuse_roles(value, str(name), classes if classes is not None else known)
    first = next((value for _, value in items or [] if is_indexed(value)), None)
    if first is None:
        return preds, None, classes
    frame = next((value for _, value in items or [] if is_frame(value)), None)
    if known is None and classes is not None and not isinstance(classes, (int, str)):
        known = [str(name) for name in classes]
    order = None if frame is None or len(frame.columns) < 2 else order_of(frame, known)
    arrays = []
    for name, value in items or []:
        value = joined(value, first.index, str(name))
        arrays.append(ordered(value, order, str(name)) if is_frame(value) else value)
    if classes is None and order is not None and not _are_places(order):
        classes = order
    return (dict(zip(preds, arrays)) if isinstance(preds, Mapping) else arrays), first.index, classes
