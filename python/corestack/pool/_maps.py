"""Segmentation: logits at a grid of pixels of each image, with images and masks in the layout of ADE20K:

    images/{training,validation}/CASE.jpg
    annotations/{training,validation}/CASE.png      0 = ignored, 1 to C = the classes
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

from .._errors import InputError
from . import _data, _files, _networks
from ._task import Loaded, Member, Split, Task

SIDE = 512  # of the crops that UperNet is trained on


class Case(NamedTuple):
    name: str
    image: Path
    mask: Path


def cases(root: Path, part: str) -> list[Case]:
    """Those of a part (training, validation), by name. Every image needs its mask and the other way round."""
    found = []
    for folder, ends in ((root / "images" / part, (".jpg", ".jpeg", ".png")), (root / "annotations" / part, (".png",))):
        paths = sorted(p for p in folder.glob("*") if p.suffix.lower() in ends and not p.name.startswith("."))
        found.append({p.stem: p for p in paths})
        if len(found[-1]) < max(1, len(paths)):
            raise InputError(f"{folder}: no images, or two of a case; ADE20K has folders images/PART and annotations/PART")
    images, masks = found
    if alone := sorted(set(images) ^ set(masks)):
        raise InputError(f"{images.get(alone[0]) or masks[alone[0]]}: no {'mask' if alone[0] in images else 'image'} of this case")
    return [Case(name, images[name], masks[name]) for name in sorted(images)]


def ignored(classes: int) -> int:
    """The label of pixels that do not count."""
    return 255 if classes <= 255 else 65535


def read_mask(case: Case, classes: int) -> Any:
    """[height, width] of class numbers from 0; what the file has as 0 becomes ignored(classes)."""
    from PIL import Image

    try:
        with Image.open(case.mask) as file:
            grey, raw = file.mode in ("L", "P", "I", "I;16", "1"), np.asarray(file).astype(np.int64)
    except Exception as error:  # Pillow raises SyntaxError, struct.error and others for broken files
        raise InputError(f"{case.mask}: not a readable mask ({error}); replace it, or take it and its image out of the data") from error
    if not grey:
        raise InputError(f"{case.mask}: a colour image; masks are grey, a class number for each pixel")
    if raw.max(initial=0) > classes or raw.min(initial=0) < 0:
        raise InputError(f"{case.mask}: has class {raw.max()}, but there are {classes} classes (0 is ignored); give --classes")
    return np.where(raw == 0, ignored(classes), raw - 1).astype(np.uint8 if classes <= 255 else np.uint16)


def grid(length: int, size: int) -> Any:
    """The pixels of an axis that are kept: the middle of each of `size` equal cells; all for size 0."""
    return ((np.arange(size or length) + 0.5) * length / (size or length)).astype(np.int64)


def kept_map(logits: Any, height: int, width: int, size: int) -> Any:
    """[rows, columns, C] of logits [C, h, w]: the pixels of the grid of a bilinear map of height x width, without making it."""
    import torch

    down, across = (torch.from_numpy(2 * (grid(n, size) + 0.5) / n - 1) for n in (height, width))
    points = torch.stack(torch.meshgrid(down, across, indexing="ij")[::-1], -1)[None].to(logits.device)
    sampled = torch.nn.functional.grid_sample(logits.double()[None], points, padding_mode="border", align_corners=False)
    return sampled[0].permute(1, 2, 0).float()


def resized(image: Any, side: int) -> Any:
    """The shorter side to `side` pixels, the longer at most four times that, then ImageNet's mean and deviation."""
    from torchvision.transforms import functional

    scale = min(side / min(image.size), 4 * side / max(image.size))
    size = [max(1, round(image.height * scale)), max(1, round(image.width * scale))]
    image = functional.resize(image, size) if size != [image.height, image.width] else image
    return functional.normalize(functional.to_tensor(image), _networks.MEAN, _networks.DEVIATION)


@dataclass(frozen=True)
class Segmentation(Task):
    """The source of a split is a list of cases. `names`: of the classes, if they are known. `size`: pixels kept per side, 0
    for all of the mask's."""

    classes: int = 150
    names: Optional[tuple[str, ...]] = None
    size: int = 128

    def __post_init__(self) -> None:
        object.__setattr__(self, "extension", ".npy" if self.size else "")

    def head(self) -> dict[str, Any]:
        return {"task": "segmentation", "classes": list(self.names) if self.names else self.classes, "output": "logit",
                "layout": "channels-last", "ignore": ignored(self.classes)}

    def fixed(self) -> dict[str, Any]:
        return {"map_size": self.size}

    def identity(self, split: Split) -> dict[str, Any]:
        listed = (f"{c.name} {c.image.stat().st_size} {c.mask.stat().st_size}" for c in split.source)
        return {"cases": len(split.source), "images_and_masks": _data.digest(listed)}

    def write_split(self, split: Split, folder: Path) -> dict[str, Any]:
        name = _files.file_name(split.name)
        if not self.size:
            for case in split.source:
                _files.write_npy(folder / f"{name}_labels" / f"{case.name}.npy", read_mask(case, self.classes))
            return {"labels": f"{name}_labels"}
        masks = (read_mask(case, self.classes) for case in split.source)
        kept = np.stack([m[np.ix_(grid(m.shape[0], self.size), grid(m.shape[1], self.size))] for m in masks])
        _files.write_npy(folder / f"{name}_labels.npy", kept)
        _files.write_column(folder / f"{name}_ids.npy", [case.name for case in split.source])
        return {"labels": f"{name}_labels.npy", "ids": f"{name}_ids.npy"}

    def load(self, member: Member, options: Any) -> Loaded:
        side = options.image_size or SIDE
        found = _networks.load(member, options, "segmentation", [self.classes], side, ({}, {"aux_loss": True}))
        return found._replace(transform=found.transform or partial(resized, side=side))

    def dataset(self, split: Split, transform: Any) -> _data.Samples:
        from PIL import Image

        entries = []
        for case in split.source:
            with Image.open(case.mask) as mask:
                entries.append({"path": str(case.image), "width": mask.width, "height": mask.height})
        return _data.Samples(entries, partial(_data.sized_image, transform=transform))

    def inputs(self, batch: list[Any], device: str) -> list[Any]:
        """Images of one size that follow each other go through the network together."""
        import torch

        groups: list[list[Any]] = []
        for image, _ in batch:
            if groups and groups[-1][0].shape == image.shape:
                groups[-1].append(image)
            else:
                groups.append([image])
        return [torch.stack(group).to(device, non_blocking=True) for group in groups]

    def infer(self, network: Any, inputs: list[Any]) -> list[Any]:
        return [_files.logits_of(network(group)) for group in inputs]

    def rows(self, outputs: list[Any], batch: list[Any], options: Any) -> list[Any]:
        maps = [one for group in outputs for one in group]
        if maps[0].ndim != 3 or len(maps[0]) != self.classes:
            raise InputError(f"the network gives {tuple(maps[0].shape)} for an image, not logits [{self.classes} classes, height, width]")
        kept = (kept_map(one, entry["height"], entry["width"], self.size) for one, (_, entry) in zip(maps, batch))
        return [_files.narrowed(one.cpu().numpy(), options.dtype) for one in kept]

    def save(self, path: Path, split: Split, options: Any, batches: Iterator[Any]) -> None:
        if self.size:
            shape = (len(split.source), self.size, self.size, self.classes)
            _files.save_array(path, shape, options.dtype, (row for batch in batches for row in batch))
            return
        path.mkdir(exist_ok=True)
        for case, row in zip(split.source, (row for batch in batches for row in batch)):
            np.save(path / f"{case.name}.npy", row)
