"""Classification: logits [rows, classes], or [conditions, rows, classes] of inputs that were changed in several ways."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .._errors import InputError
from . import _data, _models
from ._files import ArraySink, Sink, file_name, texts, write_npy
from ._task import Loaded, Member, Options, Split, Task


@dataclass(frozen=True)
class Rows:
    """The source of a split: images or a user's data, with labels as class numbers (None for out-of-distribution rows)."""

    data: Any  # _data.Images or _data.UserData
    labels: Optional[tuple[int, ...]]
    ids: Optional[tuple[str, ...]]
    conditions: int = 0  # 0: one prediction for each row
    columns: tuple[tuple[str, tuple[str, ...]], ...] = ()  # more columns of the split, as texts, by their key in the manifest

    def take(self, rows: list[int]) -> Rows:
        return Rows(
            self.data.take(rows),
            None if self.labels is None else tuple(self.labels[i] for i in rows),
            None if self.ids is None else tuple(self.ids[i] for i in rows),
            self.conditions,
            tuple((key, tuple(values[i] for i in rows)) for key, values in self.columns),
        )

    def keys(self) -> list[str]:
        return [str(i) for i in range(len(self.labels or ()))] if self.ids is None else list(self.ids)

    @property
    def count(self) -> int:
        """Predictions of one member."""
        return len(self.data.open(None))


@dataclass(frozen=True)
class Classification(Task):
    classes: tuple[str, ...]
    counts: Optional[tuple[int, ...]] = None  # of training images
    name = "classification"

    def head(self) -> dict[str, Any]:
        head: dict[str, Any] = {"task": self.name, "classes": list(self.classes), "output": "logit"}
        if self.counts is not None:
            head["training_counts"] = list(self.counts)
        return head

    def check(self, member: Member) -> None:
        _models.check(member)

    def identity(self, split: Split) -> dict[str, Any]:
        rows: Rows = split.source
        found = {"rows": rows.count, "images_and_labels": _data.digest(rows.keys(), rows.labels or ())}
        if isinstance(rows.data, _data.UserData):
            found["data_set"] = rows.data.factory
        if rows.conditions:
            found["conditions"] = _data.digest(rows.data.folders)
        return found

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        rows: Rows = split.source
        entry: dict[str, Any] = {}
        if rows.labels is not None:
            entry["labels"] = f"{file_name(split.name)}_labels.npy"
            write_npy(folder / entry["labels"], np.array(rows.labels, np.int64))
        if rows.ids is not None:
            entry["ids"] = f"{file_name(split.name)}_ids.npy"
            write_npy(folder / entry["ids"], texts(list(rows.ids)))
        for key, values in rows.columns:
            entry[key] = f"{file_name(split.name)}_{key}.npy"
            write_npy(folder / entry[key], texts(list(values)))
        return entry

    def load(self, member: Member, options: Options) -> Loaded:
        return _models.load(member, options, len(self.classes))

    def dataset(self, split: Split, transform: Any) -> Any:
        return split.source.data.open(transform)

    def collate(self, samples: list[Any]) -> Any:
        import torch

        shapes = {tuple(s.shape) for s in samples}
        if len(shapes) > 1:
            raise InputError(f"images of one batch have the shapes {' and '.join(map(str, sorted(shapes)))}; the transform must make one size")
        return torch.stack(samples)

    def rows(self, outputs: Any, batch: Any, options: Options) -> Any:
        import torch

        if not isinstance(outputs, torch.Tensor):  # networks with further outputs
            outputs = outputs["logits"] if isinstance(outputs, dict) and "logits" in outputs else getattr(outputs, "logits", outputs)
            outputs = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        if not isinstance(outputs, torch.Tensor):
            raise InputError(f"the network returns {type(outputs).__name__}; logits are a tensor, the first of a tuple, or named logits")
        if outputs.ndim == 4 and outputs.shape[2:] == (1, 1):
            outputs = outputs[:, :, 0, 0]
        if tuple(outputs.shape) != (len(batch), len(self.classes)):
            raise InputError(
                f"the network gives {tuple(outputs.shape)} for {len(batch)} images; the data have {len(self.classes)} classes"
            )
        values = outputs.float().cpu().numpy()
        if not np.isfinite(values).all():
            raise InputError("the logits are not finite; are these the right weights, or is --compute float16 too narrow?")
        with np.errstate(over="ignore"):
            values = values.astype(options.dtype)
        if not np.isfinite(values).all():
            raise InputError("a logit is beyond the range of float16; use --dtype float32")
        return values

    def sink(self, part: Path, final: Path, split: Split, options: Options) -> Sink:
        rows: Rows = split.source
        count = rows.count
        shape = (rows.conditions, count // rows.conditions, len(self.classes)) if rows.conditions else (count, len(self.classes))
        return ArraySink(part, final, shape, options.dtype)


def read(text: str, split: str, classes: Optional[list[str]]) -> tuple[Rows, list[str]]:
    """Rows of a source that the user names, and the classes: those given, else those of the source."""
    data = _data.source(text, split)
    if isinstance(data, _data.UserData):
        facts = data.facts()
        names = facts.classes or [str(c) for c in range(max(facts.labels, default=-1) + 1)]
        if classes is not None and facts.classes is not None:
            facts.labels, names = [_place(facts.classes[c], classes, text) for c in facts.labels], classes
        if max(facts.labels, default=-1) >= len(classes or names):
            raise InputError(f"{text}: label {max(facts.labels)} with {len(classes or names)} classes; labels count from 0")
        return Rows(data, tuple(facts.labels), None if facts.ids is None else tuple(facts.ids)), classes or names
    names = classes or (
        _data.class_names(Path(text)) if Path(text).is_dir() else _data.list_classes(data.labels, data.paths)
    )
    return number(data, names, text), names


def number(images: Any, classes: list[str], where: str) -> Rows:
    """Names of classes to numbers; a list may have numbers already."""
    place = {c: i for i, c in enumerate(classes)}
    labels = []
    for path, label in zip(images.paths, images.labels):
        at = place.get(label, int(label) if label.isdecimal() and int(label) < len(classes) else None)
        if at is None:
            raise InputError(f"{where}: {path} is of class {label}, which is not one of the pool's {len(classes)} classes")
        labels.append(at)
    return Rows(images, tuple(labels), tuple(images.paths))


def _place(name: str, classes: list[str], where: str) -> int:
    if name not in classes:
        raise InputError(f"{where}: class {name} is not one of the pool's {len(classes)} classes")
    return classes.index(name)
