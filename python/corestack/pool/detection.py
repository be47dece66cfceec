"""Pools of object detection: boxes of every member on images with a COCO annotation file.

The members are torchvision's detectors or a user's with the same interface: a list of images [3, h, w] in [0, 1] in, for
each a dict of boxes (corners, in pixels of the image), labels and scores out.
Paper: the COCO benchmark of section "Dense Prediction".
"""
from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from . import _boxes, _data, _dense, _files, _models
from ._command import Command, named, share
from ._engine import Pool
from ._files import Sink
from ._task import Loaded, Member, Options, Split, Task
from .segmentation import divided, held_setting


class Scaled:
    """Values in [0, 1]; the detectors resize and normalise by themselves."""

    def __call__(self, image: Any) -> Any:
        from torchvision.transforms import functional as F

        return F.to_tensor(image)


class Images:
    """(image, entry of the annotation file) for each image of it."""

    def __init__(self, entries: list[dict[str, Any]], paths: list[Path], transform: Any) -> None:
        self.entries, self.paths, self.transform = entries, paths, transform

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, i: int) -> tuple[Any, dict[str, Any]]:
        entry, path = self.entries[i], self.paths[i]
        image = _data.read_image(str(path))
        if image.size != (entry["width"], entry["height"]):
            raise InputError(f"{path}: {image.width} x {image.height} pixels, the annotation file says {entry['width']} x "
                             f"{entry['height']}")
        return self.transform(image), entry


class BoxSink(Sink):
    """Results in COCO's form. Until all are there, `part` has one line for each image."""

    def resume(self, states: list[dict[str, Any]]) -> int:
        if states and not self.part.exists() and self.final.exists():
            return len(states)
        self.part.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.part, "a+b")
        self.file.seek(0)
        good = 0
        for state in states:
            held = self.file.read(state["stop"] - state["start"])
            if len(held) != state["stop"] - state["start"] or zlib.crc32(held) != state["crc"]:
                break
            good += 1
        self.file.truncate(states[good - 1]["stop"] if good else 0)
        self.file.flush()
        os.fsync(self.file.fileno())
        return good

    def write(self, start: int, rows: Any) -> dict[str, Any]:
        content = "".join(_boxes.lines_of(rows)).encode()
        begin = self.file.seek(0, os.SEEK_END)
        self.file.write(content)
        self.file.flush()
        os.fsync(self.file.fileno())
        return {"start": begin, "stop": begin + len(content), "crc": zlib.crc32(content)}

    def close(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def finish(self) -> None:
        self.close()
        if self.part.exists():
            with open(self.part, encoding="utf-8") as lines:
                _files.write_whole(self.final, "".join(_boxes.joined(lines)).encode())
            self.part.unlink()


def labels_of(network: Any, otherwise: int) -> int:
    """The number of labels of a detector of torchvision, background included."""
    predictor: Any = getattr(getattr(network, "roi_heads", None), "box_predictor", None)
    if hasattr(predictor, "cls_score"):
        return int(predictor.cls_score.out_features)
    head = getattr(getattr(network, "head", None), "classification_head", None)
    for key in ("num_classes", "num_columns"):
        if isinstance(getattr(head, key, None), int):
            return int(getattr(head, key))
    return otherwise


def prepare(network: Any, floor: float, most: int) -> None:
    """Boxes as the pool keeps them, and no masks or keypoints: they cost time and are not kept."""
    for part in (network, getattr(network, "roi_heads", None)):
        for key, value in (("score_thresh", floor), ("detections_per_img", most)):
            if hasattr(part, key) and value:
                setattr(part, key, value)
        for key in ("mask_roi_pool", "keypoint_roi_pool"):
            if hasattr(part, key):
                setattr(part, key, None)


@dataclass(frozen=True)
class Source:
    """Where a split's images and boxes are. `rows`: the images that are used, by their places in the file; None for all."""

    images: Path
    annotations: Path
    rows: Optional[tuple[int, ...]] = None

    def read(self) -> dict[str, Any]:
        return _boxes.read_document(self.annotations, self.rows)


def category_digest(categories: tuple[tuple[int, str], ...]) -> str:
    return _data.digest(f"{number} {name}" for number, name in categories)


@dataclass(frozen=True)
class Detection(Task):
    """`categories`: ids and names of the annotation files; `floor`: boxes with lower scores are left out; `most`: boxes
    kept per image, 0 for all."""

    categories: tuple[tuple[int, str], ...]
    floor: float = 0.05
    most: int = 100
    name = "detection"

    def head(self) -> dict[str, Any]:
        return {"task": "detection"}


    def identity(self, split: Split) -> dict[str, Any]:
        document = split.source.read()
        paths = _boxes.find_images(document, split.source.images)
        listed = [f"{entry['id']} {entry['file_name']} {path.stat().st_size}" for entry, path in zip(document["images"], paths)]
        return {"images": len(listed), "image_files": _data.digest(listed), "categories": category_digest(self.categories),
                "lowest_score": self.floor, "boxes_per_image": self.most}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        document = split.source.read()
        pieces = ",\n".join(f'"{key}":[\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in records) + "\n]"
                            for key, records in document.items())
        _files.write_whole(folder / f"{split.name}.json", ("{" + pieces + "}\n").encode())
        return {"annotations": f"{split.name}.json"}

    def count(self, split: Split) -> int:
        return len(split.source.read()["images"])

    def extension(self) -> str:
        return ".json"

    def load(self, member: Member, options: Options) -> Loaded:
        counts = (len(self.categories) + 1, _boxes.COCO_LABELS)
        if member.weights == "default":
            counts = counts[::-1]
        found = _dense.network(member, options, "detection", counts)
        network = found.network
        prepare(network, self.floor, self.most)
        network.category_ids = _boxes.category_of(labels_of(network, counts[0]), found.categories, list(self.categories),
                                                  member.name)
        transform = found.transform or Scaled()
        if options.transform is not None:
            transform = _models.call(options.transform, image_size=options.image_size)
        return Loaded(network, transform, found.family)

    def dataset(self, split: Split, transform: Any) -> Images:
        document = split.source.read()
        return Images(document["images"], _boxes.find_images(document, split.source.images), transform)

    def collate(self, samples: list[Any]) -> list[Any]:
        return samples

    def inputs(self, batch: list[Any], device: str) -> list[Any]:
        return [image.to(device, non_blocking=True) for image, _ in batch]

    def infer(self, network: Any, inputs: list[Any]) -> Any:
        return network(inputs), network.category_ids

    def rows(self, outputs: Any, batch: list[Any], options: Options) -> list[Any]:
        found, categories = outputs
        right = isinstance(found, (list, tuple)) and len(found) == len(batch) and all(
            isinstance(one, Mapping) and {"boxes", "labels", "scores"} <= set(one) for one in found)
        if not right:
            raise InputError("the detector does not give a list with a dict of boxes, labels and scores for each image")
        return [_boxes.results_of(entry, output, categories, self.floor, self.most)
                for output, (_, entry) in zip(found, batch)]

    def sink(self, part: Path, final: Path, split: Split, options: Options) -> Sink:
        return BoxSink(part, final)


# ---- coco

_NOTE = (
    "Models are torchvision's detectors or factories of networks with their interface. Detectors resize images themselves, so "
    "--image-size is ignored, as is --dtype: boxes are text. Masks and keypoints are not computed. FLOPs are those of the first image."
)


def _arguments(sub: argparse.ArgumentParser) -> None:
    sub.epilog = _NOTE
    add = sub.add_argument
    add("--data", type=Path, metavar="FOLDER", help="has PART/*.jpg and annotations/instances_PART.json")
    add("--split", type=named, action="append", default=[], metavar="NAME=SOURCE", help="SOURCE: a part, or FILE.json@FOLDER with the "
        "images; (oof=val2017, divided by --test-share); can be repeated. Fit on images that no member was trained on")  # fmt: skip
    add("--test-share", type=share, metavar="S", help="share of the images of oof that become the split test (0.2 without --split)")
    add("--lowest-score", type=_score, default=0.05, metavar="S", help="boxes with lower scores are left out (0.05)")
    add("--boxes", type=_count, default=100, metavar="N", help="kept per image, the best ones (100)")


def _score(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to below 1")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _source(text: str, data: Optional[Path]) -> Source:
    file, at, folder = text.rpartition("@")
    if at:
        return Source(Path(folder), Path(file))
    if data is None:
        raise InputError(f"--split: {text} is a part of --data FOLDER, which is missing; or give FILE.json@FOLDER")
    return Source(data / text, data / "annotations" / f"instances_{text}.json")


def _prepare(arguments: argparse.Namespace, pool: Pool) -> tuple[Task, list[Split]]:
    sources = {name: _source(text, arguments.data) for name, text in arguments.split or [("oof", "val2017")]}
    read = {name: source.read() for name, source in sources.items()}
    first = next(iter(read))
    categories = _boxes.categories_of(read[first])
    for name, document in read.items():
        if _boxes.categories_of(document) != categories:
            raise InputError(f"{sources[name].annotations}: has other categories than {sources[first].annotations}")
    held = held_setting(pool, "categories")
    if held is not None and held != category_digest(categories):
        raise InputError(f"{sources[first].annotations}: has other categories than the pool in {arguments.pool}")
    splits = divided(arguments, sources, lambda source: [str(i["id"]) for i in source.read()["images"]],
                     lambda source, rows: replace(source, rows=tuple(rows)))
    return Detection(categories, arguments.lowest_score, arguments.boxes), [Split(name, source) for name, source in splits]


COMMANDS = [
    Command("coco", "COCO, or boxes in its form: detection", _arguments, _prepare, "detection", {"batch_size": 4}),
]
