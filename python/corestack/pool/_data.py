"""Classification: images in class folders or users' data sets, divisions in two, counts of classes, and logits."""
from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

from .._errors import InputError
from . import _files, _networks
from ._networks import call, need
from ._task import Loaded, Member, Split, Task

LISTS = ("items", "labels", "ids", "domains")  # of rows
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Rows:
    """The rows of a split: paths of images below the folder `place`, or numbers of items of the data set that the factory
    `place` returns. `folders`: each row is read once in each of these (conditions)."""

    place: str
    items: Sequence[Any]
    labels: Optional[Sequence[Any]]  # names of classes, after `numbered` their numbers; None: out of distribution
    ids: Optional[Sequence[str]]
    domains: Optional[Sequence[str]] = None
    folders: Sequence[str] = ()
    split: Optional[str] = None  # what the factory is asked for; None: images in files

    def take(self, rows: Sequence[int]) -> Rows:
        lists = {k: getattr(self, k) for k in LISTS if getattr(self, k) is not None}
        return replace(self, **{k: [held[i] for i in rows] for k, held in lists.items()})

    def keys(self) -> Sequence[str]:
        return [str(i) for i in range(len(self.items))] if self.ids is None else self.ids

    def numbered(self, classes: Sequence[str], where: str) -> Rows:
        """With classes by number."""
        at: dict[Any, int] = {**{str(i): i for i in range(len(classes))}, **{c: i for i, c in enumerate(classes)}}
        if wrong := sorted(set(self.labels or ()) - set(at)):
            raise InputError(f"{where}: class {wrong[0]} is not one of the pool's {len(classes)} classes")
        return replace(self, labels=[at[c] for c in self.labels or ()])


class Samples:
    """What `read` makes of each item, when it is asked for."""

    def __init__(self, items: Sequence[Any], read: Callable[[Any], Any]) -> None:
        self.items, self.read = items, read

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.read(self.items[number])


def read_image(path: str) -> Any:
    """RGB, or an InputError that names the file."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except Exception as error:  # Pillow raises SyntaxError, struct.error and others for broken files
        raise InputError(f"{path}: not a readable image ({error}); replace the file, or take it out of the data") from error


def sized_image(entry: dict[str, Any], transform: Any) -> tuple[Any, dict[str, Any]]:
    """The image of an entry, which has its path, width and height, transformed."""
    image = read_image(entry["path"])
    if image.size != (entry["width"], entry["height"]):
        raise InputError(f"{entry['path']}: {image.width} x {image.height} pixels, its annotation has {entry['width']} x {entry['height']}")
    return transform(image), entry


def source(text: str, split: str) -> tuple[Rows, list[str]]:
    """Rows with names of classes, and all classes, of FOLDER/CLASS/.../image or of module:function of a data set."""
    if ":" in text and not os.path.exists(text):
        return _user_rows(text, split)
    found = need("torchvision.datasets", "torchvision").ImageFolder(text)
    paths = [os.path.relpath(p, text) for p, _ in found.samples]
    return Rows(text, paths, [found.classes[c] for c in found.targets], paths), found.classes


def unlabelled(text: str, split: str) -> Rows:
    """Out-of-distribution rows: all images in a folder and below, or another source."""
    paths = sorted(str(p.relative_to(text)) for p in Path(text).rglob("*") if p.suffix.lower() in EXTENSIONS)
    return Rows(text, paths, None, paths) if paths else replace(source(text, split)[0], labels=None)


def text_lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _user_set(factory: str, split: str, transform: Any) -> Any:
    found = call(factory, split=split, transform=transform)
    if not getattr(found, "__len__", int)():
        raise InputError(f"{factory}: no data set, or one of split {split} without items; it has a length and items (image, label)")
    return found


def _user_rows(factory: str, split: str) -> tuple[Rows, list[str]]:
    """Labels, classes and ids from attributes of the data set where it has them; else labels from every item."""
    dataset = _user_set(factory, split, None)
    labels, ids, names = (getattr(dataset, name, None) for name in ("targets", "ids", "classes"))
    count = len(dataset)
    what = "attribute targets, or the second of each item, has a class number from 0 for each item"
    try:
        numbers = [int(labels[i] if labels is not None else dataset[i][1]) for i in range(count)]
        what = "attribute classes has a name for each label"
        classes = [str(c) for c in (range(max(numbers) + 1) if names is None else names)]
        at = dict(enumerate(classes))
        shown = [at[c] for c in numbers]
        what = "attribute ids has an id of its own for each item"
        texts = None if ids is None else list({str(ids[i]): None for i in range(count)})
        if texts is not None and len(texts) < count:
            raise ValueError("some are the same")
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise InputError(f"{factory}: {what}, which is not so: {error}") from error
    return Rows(factory, range(count), shown, texts, split=split), classes


def divide(labels: Sequence[Any], keys: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Rows of the first part and of the second, which has `share` of each class, over all classes exact to one row. Hashes of
    the seed and of the keys decide, so the division is the same with every version of every library."""
    by_class: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        by_class.setdefault(label, []).append(row)
    second: list[int] = []
    owed = 0.0
    for label in sorted(by_class, key=str):
        rows = sorted(by_class[label], key=lambda r: hashlib.sha256(f"{seed}\0{keys[r]}".encode()).digest())
        owed += share * len(rows)
        count = min(len(rows), max(0, round(owed)))
        owed -= count
        second += rows[:count]
    first = sorted(set(range(len(labels))) - set(second))
    if not first or not second:
        raise InputError(f"a share of {share} of {len(labels)} rows leaves a split without rows; use another share or more images")
    return first, sorted(second)


def training_counts(text: str, classes: Sequence[str]) -> tuple[int, ...]:
    """Training images of each class, from the training folder, iNaturalist's train.json or a text file with a number a line."""
    if os.path.isdir(text):
        rows, _ = source(text, "train")
        counts = Counter(rows.numbered(classes, text).labels or ())
        return tuple(counts[i] for i in range(len(classes)))
    try:
        if text.endswith(".json"):
            held = json.loads(Path(text).read_bytes())
            order = {number: i for i, number in enumerate(sorted(int(c["id"]) for c in held["categories"]))}
            found = np.bincount([order[a["category_id"]] for a in held["annotations"]], minlength=len(classes)).tolist()
        else:
            found = [int(line) for line in text_lines(Path(text))]
        if len(found) != len(classes) or min(found) < 0:
            raise ValueError(f"{len(found)} numbers for {len(classes)} classes")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{text}: has no number for each class, nor categories and annotations as iNaturalist ({error})") from error
    return tuple(found)


def digest(*lists: Iterable[Any]) -> str:
    """A short hash of lists."""
    return hashlib.sha256(json.dumps([list(map(str, values)) for values in lists]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Classification(Task):
    """The source of a split is Rows."""

    classes: tuple[str, ...]
    counts: Optional[tuple[int, ...]] = None  # of training images

    def head(self) -> dict[str, Any]:
        head: dict[str, Any] = {"task": "classification", "classes": list(self.classes), "output": "logit"}
        return head if self.counts is None else {**head, "training_counts": list(self.counts)}

    def identity(self, split: Split) -> dict[str, Any]:
        rows: Rows = split.source
        return {"rows": len(rows.items), "images_and_labels": digest(rows.keys(), rows.labels or ()),
                "conditions": digest(rows.folders), "data_set": None if rows.split is None else rows.place}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        rows: Rows = split.source
        entry: dict[str, Any] = {}
        for key, values in (("labels", rows.labels), ("ids", rows.ids), ("domains", rows.domains)):
            if values is not None:
                entry[key] = f"{_files.file_name(split.name)}_{key}.npy"
                _files.write_column(folder / entry[key], values)
        return entry

    def load(self, member: Member, options: Any) -> Loaded:
        size = options.image_size or 224
        extra = {"image_size": size} if options.image_size and member.model.startswith("vit_") else {}  # their weights are for one size
        found = _networks.load(member, options, "classification", [len(self.classes)], size, [extra])
        # Shorter side to size * 256 / 224, the middle square, ImageNet's mean and deviation.
        presets = _networks.need("torchvision.transforms._presets", "torchvision")
        standard = presets.ImageClassification(crop_size=size, resize_size=round(size * 256 / 224), mean=_networks.MEAN, std=_networks.DEVIATION)
        return found._replace(transform=found.transform or standard)

    def dataset(self, split: Split, transform: Any) -> Any:
        rows: Rows = split.source
        if rows.split is None:
            paths = [os.path.join(rows.place, below, item) for below in rows.folders or [""] for item in rows.items]
            return Samples(paths, lambda path: transform(read_image(path)))
        own = _user_set(rows.place, rows.split, transform)

        def read(number: int) -> Any:
            item = own[number]
            image = item[0] if isinstance(item, (tuple, list)) else item
            return image if hasattr(image, "shape") else transform(image.convert("RGB"))  # tensors and arrays stay

        return Samples(rows.items, read)

    def collate(self, samples: list[Any]) -> Any:
        import torch

        return torch.stack([torch.as_tensor(s) for s in samples])

    def inputs(self, batch: Any, device: str) -> Any:
        return batch.to(device, non_blocking=True)

    def rows(self, outputs: Any, batch: Any, options: Any) -> Any:
        found = _files.logits_of(outputs)
        if tuple(found.shape) != (len(batch), len(self.classes)):
            raise InputError(f"the network gives {tuple(found.shape)} for {len(batch)} images; the data have {len(self.classes)} classes")
        return _files.narrowed(found.float().cpu().numpy(), options.dtype)

    def save(self, path: Path, split: Split, options: Any, batches: Iterator[Any]) -> None:
        rows: Rows = split.source
        shape = (len(rows.folders),) * bool(rows.folders) + (len(rows.items), len(self.classes))
        _files.save_array(path, shape, options.dtype, batches)
