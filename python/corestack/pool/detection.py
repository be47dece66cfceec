"""Pools of object detection: boxes of every member on images with a COCO annotation file.

The members are torchvision's detectors or a user's with the same interface: a list of images [3, h, w] in [0, 1] in, for
each a dict of boxes (corners, in pixels of the image), labels and scores out.
Paper: the COCO benchmark of section "Dense Prediction".
"""
from __future__ import annotations

import hashlib
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError
from . import _boxes, _files
from ._files import Sink
from ._task import Loaded, Member, Options, Split, Task


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
        from PIL import Image

        entry, path = self.entries[i], self.paths[i]
        try:
            with Image.open(path) as file:
                size, image = file.size, file.convert("RGB")
        except (OSError, SyntaxError) as error:
            raise InputError(f"{path}: not an image that can be read ({error})") from error
        if size != (entry["width"], entry["height"]):
            raise InputError(f"{path}: {size[0]} x {size[1]} pixels, the annotation file says {entry['width']} x "
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


@dataclass(frozen=True)
class Source:
    """Where a split's images and boxes are."""

    images: Path
    annotations: Path


@dataclass(frozen=True)
class Detection(Task):
    """`floor`: boxes with lower scores are left out; `most`: boxes kept per image."""

    floor: float = 0.05
    most: int = 100
    limit: int = 0

    name = "detection"

    def document(self, split: Split) -> dict[str, Any]:
        return _boxes.read_document(split.source.annotations, self.limit)

    def head(self) -> dict[str, Any]:
        return {"task": "detection"}

    def identity(self, split: Split) -> dict[str, Any]:
        document = self.document(split)
        sizes = [path.stat().st_size for path in _boxes.find_images(document, split.source.images)]
        listed = json.dumps([document["images"], document["categories"], sizes], sort_keys=True)
        return {"images": hashlib.sha256(listed.encode()).hexdigest(), "count": len(sizes), "floor": self.floor,
                "most": self.most}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        document = self.document(split)
        pieces = ",\n".join(f'"{key}":[\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in records) + "\n]"
                            for key, records in document.items())
        _files.write_whole(folder / f"{split.name}.json", ("{" + pieces + "}\n").encode())
        return {"annotations": f"{split.name}.json"}

    def count(self, split: Split) -> int:
        return len(self.document(split)["images"])

    def extension(self) -> str:
        return ".json"

    def load(self, member: Member, options: Options) -> Loaded:
        raise NotImplementedError

    def dataset(self, split: Split, transform: Any) -> Images:
        document = self.document(split)
        return Images(document["images"], _boxes.find_images(document, split.source.images), transform)

    def collate(self, samples: list[Any]) -> list[Any]:
        return samples

    def inputs(self, batch: list[Any], device: str) -> list[Any]:
        return [image.to(device, non_blocking=True) for image, _ in batch]

    def rows(self, outputs: Any, batch: list[Any], options: Options) -> list[Any]:
        if not isinstance(outputs, (list, tuple)) or len(outputs) != len(batch):
            raise InputError("the detector does not give a list with a dict for each image")
        return [_boxes.results_of(entry, output, self.categories, self.floor, self.most)
                for output, (_, entry) in zip(outputs, batch)]

    def sink(self, part: Path, final: Path, split: Split, options: Options) -> Sink:
        return BoxSink(part, final)
