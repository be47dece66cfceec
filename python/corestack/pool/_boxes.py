"""Detection: boxes as results in COCO's form, on images with a COCO annotation file.

Detectors take a list of images [3, h, w] in [0, 1] and give for each a dict of boxes (corners, in pixels of the image),
labels and scores, as torchvision's do.
"""
from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .._errors import InputError
from . import _data, _files, _networks
from ._task import Loaded, Member, Split, Task

KEYS = {"images": ("id", "file_name", "width", "height"), "categories": ("id", "name"),
        "annotations": ("id", "image_id", "category_id", "bbox", "area", "iscrowd")}  # fmt: skip
Categories = tuple[tuple[int, str], ...]


class Source(NamedTuple):
    """A folder of images and their annotation file; `rows`: the images that are used, by their places in the file."""

    images: Path
    annotations: Path
    rows: Optional[tuple[int, ...]] = None

    def read(self) -> dict[str, Any]:
        whole = _read(self.annotations)
        if self.rows is None:
            return whole
        images = [whole["images"][i] for i in self.rows]
        kept = {entry["id"] for entry in images}
        return {**whole, "images": images, "annotations": [a for a in whole["annotations"] if a.get("image_id") in kept]}

    def categories(self) -> Categories:
        return tuple(sorted((c["id"], str(c.get("name"))) for c in self.read()["categories"]))


@functools.lru_cache(maxsize=4)  # a file of COCO takes seconds
def _read(path: Path) -> dict[str, Any]:
    """What a pool needs of an annotation file."""
    try:
        document = json.loads(path.read_bytes())
        found = {key: [{k: e[k] for k in KEYS[key] if k in e} for e in document[key]] for key in ("images", "annotations", "categories")}
        ids = [entry["id"] for entry in found["images"]]
        right = all(len(entry) == 4 for entry in found["images"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not COCO's annotation file of boxes (instances_*.json) ({type(error).__name__}: {error})") from error
    if not ids or not right or not found["categories"] or len(set(ids)) < len(ids):
        raise InputError(f"{path}: no images or categories, or images without an id of their own, file_name, width or height")
    return found


def category_of(names: Optional[Sequence[str]], categories: Categories) -> dict[int, Optional[int]]:
    """{label of the detector: category id of the annotation file, or None for a label that the file lacks}: by name where the
    detector has names. Otherwise the labels from 1 on are the file's categories in the order of their ids."""
    ids = {name: number for number, name in categories}
    if names is None:
        return dict(enumerate((number for number, _ in sorted(categories)), 1))
    if set(ids).isdisjoint(names):
        raise InputError(f"none of the detector's categories {', '.join(list(names)[1:4])}, ... is in the annotation file")
    return {label: ids.get(name) for label, name in enumerate(names)}


def results_of(image: Mapping[str, Any], output: Mapping[str, Any], categories: Mapping[int, Optional[int]], floor: float,
               most: int) -> list[dict[str, Any]]:
    """COCO results of one image, best first: boxes as [left, top, width, height] with two decimals, cut to the image."""
    boxes, scores, labels = (output[key].detach().cpu().double().tolist() for key in ("boxes", "scores", "labels"))
    width, height = float(image["width"]), float(image["height"])
    found = []
    for (x0, y0, x1, y1), score, label in zip(boxes, scores, map(int, labels)):
        if label not in categories:
            raise InputError(f"the detector gives label {label}, and the annotation file has {len(categories)} categories; let the "
                             f"factory set network.categories, the names of the labels")
        if categories[label] is None:
            continue
        if not all(map(math.isfinite, (x0, y0, x1, y1, score))):
            raise InputError("a box or score is not finite; are these the right weights, or is --compute float16 too narrow?")
        x0, x1 = (round(min(max(v, 0.0), width), 2) for v in (x0, x1))
        y0, y1 = (round(min(max(v, 0.0), height), 2) for v in (y0, y1))
        score = round(min(max(score, 0.0), 1.0), 6)
        if score >= floor and x1 > x0 and y1 > y0:
            found.append({"image_id": image["id"], "category_id": categories[label],
                          "bbox": [x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)], "score": score})  # fmt: skip
    return sorted(found, key=lambda f: float(f["score"]), reverse=True)[:most]


@dataclass(frozen=True)
class Detection(Task):
    """The source of a split is a Source. `categories`: ids and names of the annotation files; `floor`: boxes with lower scores
    are left out; `most`: boxes kept per image."""

    categories: Categories
    floor: float = 0.05
    most: int = 100
    extension = ".json"

    def head(self) -> dict[str, Any]:
        return {"task": "detection"}

    def fixed(self) -> dict[str, Any]:
        return {"categories": [list(c) for c in self.categories], "lowest_score": self.floor, "boxes_per_image": self.most}

    def identity(self, split: Split) -> dict[str, Any]:
        images = split.source.read()["images"]
        return {"images": len(images), "image_files": _data.digest(f"{e['id']} {e['file_name']}" for e in images)}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        name = f"{_files.file_name(split.name)}.json"
        _files.write_whole(folder / name, json.dumps(split.source.read(), separators=(",", ":")).encode() + b"\n")
        return {"annotations": name}

    def load(self, member: Member, options: Any) -> Loaded:
        counts = [len(self.categories) + 1, 91]  # with the background; torchvision's detectors of COCO have 91
        found = _networks.load(member, options, "detection", counts, options.image_size)
        for part in (found.network, getattr(found.network, "roi_heads", None)):
            # Boxes as the pool keeps them, and no masks or keypoints: they cost time.
            for key, value in {"score_thresh": self.floor, "detections_per_img": self.most, "mask_roi_pool": None, "keypoint_roi_pool": None}.items():
                if hasattr(part, key):
                    setattr(part, key, value)
        found.network.category_ids = category_of(found.categories, self.categories)
        to_tensor = _networks.need("torchvision.transforms.functional", "torchvision").to_tensor  # detectors resize by themselves
        return found._replace(transform=found.transform or to_tensor)

    def dataset(self, split: Split, transform: Any) -> _data.Samples:
        entries = [{**e, "path": str(split.source.images / e["file_name"])} for e in split.source.read()["images"]]
        return _data.Samples(entries, functools.partial(_data.sized_image, transform=transform))

    def inputs(self, batch: list[Any], device: str) -> list[Any]:
        return [image.to(device, non_blocking=True) for image, _ in batch]

    def infer(self, network: Any, inputs: list[Any]) -> Any:
        return network(inputs), network.category_ids

    def rows(self, outputs: Any, batch: list[Any], options: Any) -> list[Any]:
        found, categories = outputs
        if not isinstance(found, (list, tuple)) or len(found) != len(batch) or not all(
                isinstance(one, Mapping) and {"boxes", "labels", "scores"} <= set(one) for one in found):  # fmt: skip
            raise InputError("the detector does not give a list with a dict of boxes, labels and scores for each image")
        return [results_of(entry, output, categories, self.floor, self.most) for output, (_, entry) in zip(found, batch)]

    def save(self, path: Path, split: Split, options: Any, batches: Iterator[Any]) -> None:
        lines = (json.dumps(box, separators=(",", ":")) for batch in batches for image in batch for box in image)
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
