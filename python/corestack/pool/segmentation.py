"""Pools of semantic segmentation: maps of every member on images in the layout of ADE20K.

The members are torchvision's segmentation networks or a user's. A network gives logits [images, classes, h, w], or an
object or dict that holds them as `logits` or `out`. The pool keeps logits at a grid of pixels of each image (_maps.py).
Paper: the ADE20K benchmark of section "Dense Prediction".
"""
from __future__ import annotations

import argparse
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

from .._errors import InputError
from . import _data, _dense, _files, _maps, _models
from ._command import Command, named, share
from ._engine import Pool
from ._files import ArraySink, Sink
from ._task import Loaded, Member, Options, Split, Task

SIDE = 512  # of the crops that UperNet is trained on


class Sample(NamedTuple):
    image: Any  # what the network takes, [3, h, w]
    height: int  # of the mask
    width: int


class Resize:
    """The shorter side to `side` pixels (the longer at most four times that), bilinear, then normalised by ImageNet's mean
    and deviation; 0 keeps the size."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, image: Any) -> Any:
        from torchvision.transforms import functional as F

        height, width = _maps.scaled_size(image.height, image.width, self.side)
        if (height, width) != (image.height, image.width):
            image = F.resize(image, [height, width])
        return F.normalize(F.to_tensor(image), _models.MEAN, _models.DEVIATION)


class Images:
    """The cases of a split, read."""

    def __init__(self, cases: tuple[_maps.Case, ...], transform: Any) -> None:
        self.cases, self.transform = cases, transform

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, i: int) -> Sample:
        case = self.cases[i]
        image = _data.read_image(str(case.image))
        width, height = _maps.mask_size(case)
        if image.size != (width, height):
            raise InputError(f"{case.image}: {image.width} x {image.height} pixels, its mask {case.mask.name} has {width} x "
                             f"{height}")
        return Sample(self.transform(image), height, width)


class MapSink(ArraySink):
    """One npy [cases, size, size, classes]; rows are cases."""

    def __init__(self, part: Path, final: Path, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(part, final, shape, dtype)
        self.pixels = shape[1] * shape[2]

    def write(self, start: int, rows: Any) -> dict[str, Any]:
        return super().write(start * self.pixels, np.concatenate([row.reshape(self.pixels, -1) for row in rows]))


class FolderSink(Sink):
    """A folder with CASE.npy [height, width, classes] for each case."""

    def __init__(self, part: Path, final: Path, names: list[str], dtype: str) -> None:
        super().__init__(part, final)
        self.names, self.dtype = names, np.dtype(dtype).newbyteorder("<")

    def resume(self, states: list[dict[str, Any]]) -> int:
        if states and not self.part.exists() and self.final.exists():
            return len(states)
        self.part.mkdir(parents=True, exist_ok=True)
        for number, state in enumerate(states):
            for name, crc in zip(self.names[state["start"]:state["stop"]], state["crc"]):
                path = self.part / f"{name}.npy"
                if not path.is_file() or zlib.crc32(path.read_bytes()) != crc:
                    return number
        return len(states)

    def write(self, start: int, rows: Any) -> dict[str, Any]:
        sums = []
        for name, row in zip(self.names[start:start + len(rows)], rows):
            path = self.part / f"{name}.npy"
            _files.write_npy(path, np.ascontiguousarray(row, self.dtype))
            sums.append(zlib.crc32(path.read_bytes()))
        return {"start": start, "stop": start + len(rows), "crc": sums}


def logits_of(outputs: Any, who: str = "the network") -> Any:
    """[images, classes, h, w] out of what a network gives."""
    found = outputs
    if isinstance(found, Mapping):
        found = found.get("out", found.get("logits"))
    elif hasattr(found, "logits"):
        found = found.logits
    elif isinstance(found, (tuple, list)) and found:
        found = found[0]
    if not hasattr(found, "shape") or len(found.shape) != 4:
        raise InputError(f"{who} gives {type(outputs).__name__}, not logits [images, classes, height, width], nor a dict or "
                         f"object that holds them as out or logits")
    return found


@dataclass(frozen=True)
class Segmentation(Task):
    """The source of a split is a tuple of cases. `names`: of the classes, if they are known. `size`: pixels kept per side,
    0 for all of the mask's."""

    classes: int = 150
    names: Optional[tuple[str, ...]] = None
    size: int = 128
    name = "segmentation"

    def head(self) -> dict[str, Any]:
        return {"task": "segmentation", "classes": list(self.names) if self.names else self.classes, "output": "logit",
                "layout": "channels-last", "ignore": _maps.ignored(self.classes)}

    def identity(self, split: Split) -> dict[str, Any]:
        listed = [f"{case.name} {case.image.stat().st_size} {case.mask.stat().st_size}" for case in split.source]
        return {"cases": len(listed), "images_and_masks": _data.digest(listed), "size": self.size}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        cases = split.source
        names = [case.name for case in cases]
        if not self.size:
            return {"labels": self._write_masks(split, folder, cases)}
        masks = np.stack([_maps.kept_mask(_maps.read_mask(case, self.classes), self.size) for case in cases])
        _files.write_npy(folder / f"{split.name}_labels.npy", masks)
        _files.write_npy(folder / f"{split.name}_ids.npy", _files.texts(names))
        return {"labels": f"{split.name}_labels.npy", "ids": f"{split.name}_ids.npy"}

    def _write_masks(self, split: Split, folder: Path, cases: tuple[_maps.Case, ...]) -> str:
        target = folder / f"{split.name}_labels"
        for case in cases:
            _files.write_npy(target / f"{case.name}.npy", _maps.read_mask(case, self.classes))
        return target.name

    def count(self, split: Split) -> int:
        return len(split.source)

    def extension(self) -> str:
        return ".npy" if self.size else ""

    def load(self, member: Member, options: Options) -> Loaded:
        found = _dense.network(member, options, "segmentation", (self.classes,), ({}, {"aux_loss": True}))
        side = SIDE if options.image_size is None else options.image_size
        transform = found.transform or Resize(side)
        if options.transform is not None:
            transform = _models.call(options.transform, image_size=side)
        return Loaded(found.network, transform, found.family)

    def dataset(self, split: Split, transform: Any) -> Images:
        return Images(split.source, transform)

    def collate(self, samples: list[Sample]) -> list[Sample]:
        return samples

    def inputs(self, batch: list[Sample], device: str) -> list[Any]:
        """Images of one size that follow each other go through the network together."""
        import torch

        groups: list[list[Any]] = []
        for sample in batch:
            if groups and groups[-1][0].shape == sample.image.shape:
                groups[-1].append(sample.image)
            else:
                groups.append([sample.image])
        return [torch.stack(group).to(device, non_blocking=True) for group in groups]

    def infer(self, network: Any, inputs: list[Any]) -> list[Any]:
        return [logits_of(network(group)) for group in inputs]

    def rows(self, outputs: list[Any], batch: list[Sample], options: Options) -> list[Any]:
        found: list[Any] = []
        for logits in (one for group in outputs for one in group):
            sample = batch[len(found)]
            if logits.shape[0] != self.classes:
                raise InputError(f"the network gives {logits.shape[0]} classes, the pool has {self.classes}")
            kept = _maps.kept_map(logits, sample.height, sample.width, self.size)
            values = kept.cpu().numpy()
            if not np.isfinite(values).all():
                raise InputError("the logits are not finite; are these the right weights, or is --compute float16 too narrow?")
            with np.errstate(over="ignore"):
                values = values.astype(options.dtype)
            if not np.isfinite(values).all():
                raise InputError("a logit is beyond the range of float16; use --dtype float32")
            found.append(values)
        return found

    def sink(self, part: Path, final: Path, split: Split, options: Options) -> Sink:
        cases = split.source
        if not self.size:
            return FolderSink(part, final, [case.name for case in cases], options.dtype)
        return MapSink(part, final, (len(cases), self.size, self.size, self.classes), options.dtype)


# ---- ade20k

_NOTE = (
    "Images are resized to a shorter side of --image-size pixels (512; the longer side is at most four times that). A pool keeps "
    "the logits of --map-size x --map-size pixels of each image, the middles of as many equal cells, and the mask there: 128 pixels "
    "and 150 classes in float16 are 4.9 MB an image. With --map-size 0 it keeps the logits at all pixels of the mask, 105 MB for "
    "512 x 683. Models are torchvision's segmentation networks, transformers:NAME, or factories; torchvision has no weights that "
    "were trained on ADE20K. FLOPs are those of the first image."
)


def _arguments(sub: argparse.ArgumentParser) -> None:
    sub.epilog = _NOTE
    add = sub.add_argument
    add("--data", type=Path, required=True, metavar="FOLDER", help="has images/PART/CASE.jpg and annotations/PART/CASE.png, in which "
        "0 is ignored and 1, 2, ... are the classes")  # fmt: skip
    add("--split", type=named, action="append", default=[], metavar="NAME=PART", help="a part as a split of the pool (oof=validation, "
        "divided by --test-share); can be repeated. Fit on images that no member was trained on")  # fmt: skip
    add("--test-share", type=share, metavar="S", help="share of the images of oof that become the split test (0.2 without --split)")
    add("--map-size", type=_size, metavar="PIXELS", help="pixels that are kept per side; 0: all of the mask's (128)")
    add("--classes", metavar="N", help="number of classes, or a file with one name a line (150, or the names in objectInfo150.txt)")


def _size(text: str) -> int:
    if not text.isdecimal() or not (int(text) == 0 or 2 <= int(text) <= 4096):
        raise argparse.ArgumentTypeError(f"{text!r} is not 0 or a number of pixels from 2 to 4096")
    return int(text)


def _classes(text: Optional[str], root: Path) -> tuple[int, Optional[list[str]]]:
    if text is None or text.isdecimal():
        count = int(text or 150)
        if not 2 <= count <= 65535:
            raise InputError(f"--classes: {count} is not a number of classes from 2 to 65535")
        return count, _maps.class_names(root, count)
    try:
        names = [line.strip() for line in Path(text).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"--classes: {text} cannot be read as a list of classes: {error}") from error
    if len(names) < 2 or len(set(names)) != len(names):
        raise InputError(f"--classes: {text} needs one name a line, each once, in the order of the numbers in the masks")
    return len(names), names


def held_setting(pool: Pool, key: str) -> Any:
    """A setting that all splits of a pool share, or None if the pool is new."""
    names = pool.content.get("splits", ())
    return pool.split(names[0]).get("settings", {}).get(key) if names else None


def _prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    root = _maps.root_of(arguments.data)
    count, names = _classes(arguments.classes, root)
    held = held_setting(pool, "size")
    size = arguments.map_size if arguments.map_size is not None else 128 if held is None else held
    if held is not None and size != held:
        raise InputError(f"{arguments.pool}: the pool has maps of --map-size {held}; give that, or a new folder")
    splits = divided(arguments, {name: _maps.cases(root, part) for name, part in arguments.split or [("oof", "validation")]},
                     lambda cases: [case.name for case in cases], lambda cases, rows: [cases[i] for i in rows])
    return (Segmentation(count, None if names is None else tuple(names), size),
            [Split(name, tuple(cases)) for name, cases in splits])


def divided(arguments: argparse.Namespace, sources: dict[str, Any], keys: Any, take: Any) -> list[tuple[str, Any]]:
    """The splits by name, oof divided into oof and test by --test-share, for which 0.2 is the default without --split."""
    part = arguments.test_share if arguments.test_share is not None or arguments.split else 0.2
    if part is not None and "test" in sources:
        raise InputError("--test-share: divides oof into oof and test, and --split names test as well; use one of the two")
    if part is not None and "oof" not in sources:
        raise InputError("--test-share: divides the split oof, which no --split names")
    found: list[tuple[str, Any]] = []
    for name, source in sources.items():
        if name != "oof" or part is None:
            found.append((name, source))
            continue
        listed = keys(source)
        first, second = _data.divide([0] * len(listed), listed, part, arguments.seed)
        found += [("oof", take(source, first)), ("test", take(source, second))]
    return found


COMMANDS = [
    Command("ade20k", "ADE20K, or masks in its layout: maps of semantic segmentation", _arguments, _prepare, "segmentation",
            {"batch_size": 4, "dtype": "float16"}),  # fmt: skip
]
