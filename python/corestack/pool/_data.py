"""Images of a split: folders of classes, list files, a user's data set; divisions of a split in two; counts of classes."""
from __future__ import annotations

import csv
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .._errors import InputError
from .._types import Array
from ._models import call, is_factory, need

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")  # those of torchvision's ImageFolder


@dataclass(frozen=True)
class Images:
    """Image files below `root`. `folders` are prefixes that each list of paths is read with (conditions), [""] for none."""

    root: str
    paths: tuple[str, ...]  # relative, with /
    labels: tuple[str, ...]  # names of classes; empty if there are none
    folders: tuple[str, ...] = ("",)

    def take(self, rows: list[int]) -> Images:
        labels = tuple(self.labels[i] for i in rows) if self.labels else ()
        return Images(self.root, tuple(self.paths[i] for i in rows), labels, self.folders)

    def open(self, transform: Any) -> ImageFiles:
        return ImageFiles(self, transform)

    @property
    def ids(self) -> Optional[list[str]]:
        return list(self.paths)


class ImageFiles:
    """The rows of all folders, one folder after the other."""

    def __init__(self, images: Images, transform: Any) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images.paths) * len(self.images.folders)

    def __getitem__(self, number: int) -> Any:
        folder, row = divmod(number, len(self.images.paths))
        return self.transform(read_image(os.path.join(self.images.root, self.images.folders[folder], self.images.paths[row])))


def read_image(path: str) -> Any:
    """RGB, or an InputError that names the file."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except FileNotFoundError:
        raise InputError(f"{path}: the image is gone, or is a link to a file that is not there") from None
    except Exception as error:  # Pillow raises SyntaxError, struct.error and others for broken files
        raise InputError(f"{path}: not a readable image ({error}); replace the file, or take it out of the data") from error


@dataclass(frozen=True)
class UserData:
    """A data set that module:function returns, or a division of its rows."""

    factory: str
    split: str
    rows: Optional[tuple[int, ...]] = None

    def take(self, rows: list[int]) -> UserData:
        return UserData(self.factory, self.split, tuple(rows if self.rows is None else [self.rows[i] for i in rows]))

    def open(self, transform: Any) -> UserRows:
        return UserRows(user_set(self.factory, self.split, transform), transform, self.rows)

    def facts(self) -> UserFacts:
        return UserFacts(self)


def user_set(factory: str, split: str, transform: Any) -> Any:
    try:
        found = call(factory, split=split, transform=transform)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{factory} failed for split {split}: {type(error).__name__}: {error}") from error
    if not hasattr(found, "__len__") or not hasattr(found, "__getitem__"):
        raise InputError(f"{factory} returned {type(found).__name__}; a data set has a length and items (image, label)")
    return found


class UserRows:
    """Images of a user's data set: transformed here where they are still PIL images."""

    def __init__(self, dataset: Any, transform: Any, rows: Optional[tuple[int, ...]]) -> None:
        self.dataset, self.transform, self.rows = dataset, transform, rows

    def __len__(self) -> int:
        return len(self.dataset) if self.rows is None else len(self.rows)

    def __getitem__(self, number: int) -> Any:
        import torch
        from PIL import Image

        item = self.dataset[number if self.rows is None else self.rows[number]]
        image = item[0] if isinstance(item, (tuple, list)) else item
        if isinstance(image, Image.Image):
            image = self.transform(image.convert("RGB"))
        if isinstance(image, np.ndarray):
            image = torch.from_numpy(np.ascontiguousarray(image))
        if not isinstance(image, torch.Tensor):
            raise InputError(f"sample {number}: the image is of type {type(image).__name__}, not a PIL image, array or tensor")
        return image


class UserFacts:
    """Labels, class names and ids of a user's data set, from its attributes where it has them, else by reading every item."""

    def __init__(self, source: UserData) -> None:
        dataset = user_set(source.factory, source.split, None)
        rows = list(range(len(dataset)) if source.rows is None else source.rows)
        if not rows:
            raise InputError(f"{source.factory}: the data set of split {source.split} has no items")
        labels = getattr(dataset, "targets", None)
        labels = getattr(dataset, "labels", None) if labels is None else labels
        if labels is None:
            labels = {i: _label(dataset[i], i, source.factory) for i in rows}
        try:
            self.labels = [_integer(labels[i]) for i in rows]
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise InputError(f"{source.factory}: the labels are not one number for each item ({error})") from error
        names = getattr(dataset, "classes", None)
        try:
            self.classes = None if names is None else [str(c) for c in names]
        except TypeError:
            raise InputError(f"{source.factory}: the attribute classes is {names!r}, not a list of names") from None
        ids = getattr(dataset, "ids", None)
        if ids is None and hasattr(dataset, "samples"):
            ids = [str(s[0]) for s in dataset.samples]
            root = getattr(dataset, "root", None)
            ids = [os.path.relpath(i, root) for i in ids] if root else ids
        try:
            self.ids = None if ids is None else [str(ids[i]) for i in rows]
        except (TypeError, IndexError, KeyError) as error:
            raise InputError(f"{source.factory}: the attribute ids has not one id for each item ({error})") from error
        if (twice := _repeated(self.ids or [])) is not None:
            raise InputError(f"{source.factory}: two items have the id {twice}; ids differ")


def _label(item: Any, number: int, factory: str) -> Any:
    if not isinstance(item, (tuple, list)) or len(item) < 2:
        raise InputError(f"{factory}: item {number} is not (image, label), and the data set has no attribute targets or labels")
    return item[1]


def _integer(value: Any) -> int:
    number = int(value)
    if number != value or number < 0:
        raise ValueError(f"{value} is not a class number from 0")
    return number


def source(text: str, split: str) -> Any:
    """Images or UserData that the user names: a folder of class folders, a list file, or module:function. A list of a
    folder's files is LIST@FOLDER, or lies in the folder that its paths are relative to."""
    if is_factory(text) and not os.path.exists(text):
        return UserData(text, split)
    path, _, root = text.partition("@") if not os.path.exists(text) else (text, "", "")
    if os.path.isdir(path):
        return class_folders(Path(path))
    if os.path.isfile(path):
        return from_list(Path(path), Path(root) if root else Path(path).parent)
    raise InputError(f"{text}: there is no folder or list file {path}")


def image_files(folder: Path) -> list[str]:
    """Relative paths of images in a folder and below, sorted."""
    found = []
    for where, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in folders:
            link = os.path.join(where, name)
            if os.path.islink(link) and os.path.realpath(where + "/.").startswith(os.path.join(os.path.realpath(link), "")):
                raise InputError(f"{link}: this link leads to a folder that contains it; take it out of the data")
        inside = os.path.relpath(where, folder).replace(os.sep, "/")
        found += [n if inside == "." else f"{inside}/{n}" for n in names if n.lower().endswith(EXTENSIONS) and not n.startswith("._")]
    for name in found:
        _utf8(name, folder)
    return sorted(found)


def _utf8(name: str, folder: Path) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{folder}: the file name {name.encode(errors='replace').decode()!r} is not UTF-8; rename the file") from None


def class_names(folder: Path) -> list[str]:
    try:
        names = sorted(e.name for e in os.scandir(folder) if e.is_dir() and not e.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; name the folder of the images") from error
    for name in names:
        _utf8(name, folder)
    if not names:
        raise InputError(f"{folder}: no class folders here; the images of a class lie in a folder with its name")
    return names


def class_folders(folder: Path) -> Images:
    """The layout of torchvision's ImageFolder: FOLDER/CLASS/.../image."""
    paths, labels = [], []
    for name in class_names(folder):
        files = image_files(folder / name)
        paths += [f"{name}/{f}" for f in files]
        labels += [name] * len(files)
    if not paths:
        raise InputError(f"{folder}: no images in its class folders; files end in {', '.join(EXTENSIONS)}")
    return Images(str(folder), tuple(paths), tuple(labels))


def from_list(path: Path, root: Path) -> Images:
    """Lines `path label`, separated by space, tab or comma; Kaggle's LOC_val_solution.csv of ImageNet."""
    paths, labels = [], []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a list of images: {error}") from error
    kaggle = bool(lines) and lines[0].startswith("ImageId,PredictionString")
    for number, line in enumerate(lines[1:] if kaggle else lines, 2 if kaggle else 1):
        if not line.strip():
            continue
        fields = next(csv.reader([line])) if "," in line else line.rsplit("\t" if "\t" in line else None, 1)
        fields = [f.strip() for f in fields]
        if number == 1 and len(fields) == 2 and not fields[0].lower().endswith(EXTENSIONS):
            continue  # a header
        if len(fields) < 2 or not fields[1]:
            raise InputError(f"{path}, line {number}: not a path and a label: {line[:60]!r}")
        paths.append(f"{fields[0]}.JPEG" if kaggle else fields[0])
        labels.append(fields[1].split()[0] if kaggle else fields[1])
    if not paths:
        raise InputError(f"{path}: the list is empty")
    gone = next((p for p in paths if not os.path.isfile(os.path.join(root, p))), None)
    if gone is not None:
        raise InputError(f"{path}: there is no image {os.path.join(root, gone)}; LIST@FOLDER names the folder of the images")
    if (twice := _repeated([os.path.normpath(p) for p in paths])) is not None:
        raise InputError(f"{path}: {twice} is in the list twice")
    return Images(str(root), tuple(paths), tuple(labels))


def _repeated(texts: list[str]) -> Optional[str]:
    """The first text that was there before."""
    seen: set[str] = set()
    return next((t for t in texts if t in seen or seen.add(t)), None)  # type: ignore[func-returns-value]


def list_classes(labels: tuple[str, ...], paths: tuple[str, ...]) -> list[str]:
    """Sorted names; numbers by value. Numbered classes whose files lie in folders of one class each take the folder's name."""
    folders: dict[str, set[str]] = {}
    for label, path in zip(labels, paths):
        folders.setdefault(label, set()).add(os.path.basename(os.path.dirname(path)))
    found = sorted(folders, key=lambda c: (0, int(c), c) if c.isdecimal() else (1, 0, c))
    if not all(c.isdecimal() for c in found):
        return found
    names = {c: next(iter(f)) for c, f in folders.items() if len(f) == 1}
    if len(names) == len(found) == len(set(names.values())) and "" not in names.values():
        return [names.get(str(c), str(c)) for c in range(int(found[-1]) + 1)]
    return [str(c) for c in range(int(found[-1]) + 1)]


def divide(labels: list[Any], keys: list[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Rows of the first part and of the second, which has `share` of each class (rounded, over all classes exact to one
    row). Which rows is decided by hashes of the seed and of the keys, so it is the same for every version of every library."""
    if not 0.0 < share < 1.0:
        raise InputError(f"the share of the second split must lie between 0 and 1, not {share}")
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
    chosen = set(second)
    first = [r for r in range(len(labels)) if r not in chosen]
    if not first or not second:
        raise InputError(f"a share of {share} of {len(labels)} rows leaves a split without rows; use another share or more images")
    return first, sorted(second)


def training_counts(text: str, classes: list[str]) -> Array:
    """Training images of each class: from the training folder, a COCO-style json, or a file with a number for each class."""
    path = Path(text)
    if path.is_dir():
        names = class_names(path)
        unknown = next((n for n in names if n not in set(classes)), None)
        if unknown is not None:
            raise InputError(f"{path}: class {unknown} is not one of the data's; is it the training folder of the same data?")
        return np.array([len(image_files(path / c)) if (path / c).is_dir() else 0 for c in classes], np.int64)
    if not path.is_file():
        raise InputError(f"{text}: there is no folder or file with the training counts")
    if path.suffix == ".json":
        counts = _json_counts(path, classes)
    elif path.suffix == ".npy":
        from .. import _npy

        counts = _npy.read(path)
    else:
        counts = _text_counts(path, classes)
    if counts.shape != (len(classes),) or not np.all(counts == counts.astype(np.int64)) or np.any(counts < 0):
        raise InputError(f"{path}: needs {len(classes)} whole numbers, one for each class, not an array of shape {counts.shape}")
    return counts.astype(np.int64)


def _json_counts(path: Path, classes: list[str]) -> Array:
    try:
        held = json.loads(path.read_bytes())
        order = {number: i for i, number in enumerate(sorted(int(c["id"]) for c in held["categories"]))}
        return np.bincount([order[a["category_id"]] for a in held["annotations"]], minlength=len(classes))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a file of categories and annotations as iNaturalist has them ({error!r})") from error


def _text_counts(path: Path, classes: list[str]) -> Array:
    """Numbers, or lines class,number."""
    rows = [r for r in csv.reader(path.read_text(encoding="utf-8").splitlines()) if r]
    try:
        if all(len(r) == 1 for r in rows):
            return np.array([float(r[0]) for r in rows])
        numbers = {r[0].strip(): r[-1] for r in rows}
        return np.array([float(numbers[c]) for c in classes])
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: needs a number for each class, or lines class,number ({error})") from error


def digest(*lists: Any) -> str:
    """A hash of lists of texts, for settings."""
    total = hashlib.sha256()
    for values in lists:
        for value in values:
            total.update(str(value).encode() + b"\n")
        total.update(b"\0")
    return total.hexdigest()[:16]


def found_modules() -> None:
    """torch, torchvision and Pillow, or one line on what is missing."""
    need("torch", "torch")
    need("torchvision", "torchvision")
    need("PIL", "pil")
