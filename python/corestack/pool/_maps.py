"""Images and masks in the layout of ADE20K, and the pixels of a map that a pool keeps.

    images/{training,validation}/CASE.jpg
    annotations/{training,validation}/CASE.png      0 = ignored, 1 to C = the classes
    objectInfo150.txt                               names of the classes, if it is there

A pool keeps a grid of pixels of each image: the middles of `size` x `size` equal cells, for the mask and for the maps.
What is kept is thus exactly what a map at the annotation's size has at these pixels.
Paper: the ADE20K benchmark of section "Dense Prediction".
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from .._errors import InputError

IMAGES = (".jpg", ".jpeg", ".png")
FOLDERS = ("", "ADEChallengeData2016")  # the benchmark's archive unpacks into a folder of this name
NAMES = "objectInfo150.txt"


@dataclass(frozen=True)
class Case:
    name: str
    image: Path
    mask: Path


def root_of(data: Path) -> Path:
    """The folder that has `images` and `annotations`: `data` itself or the benchmark's folder in it."""
    for folder in FOLDERS:
        if (data / folder / "images").is_dir() and (data / folder / "annotations").is_dir():
            return data / folder
    raise InputError(f"{data}: there are no folders images and annotations, as ADE20K has them; give the folder that "
                     f"holds them")


def cases(root: Path, part: str) -> list[Case]:
    """The cases of a part (training, validation), sorted by name. Every image needs its mask and the other way round."""
    images, masks = root / "images" / part, root / "annotations" / part
    for folder in (images, masks):
        if not folder.is_dir():
            have = ", ".join(sorted(p.name for p in folder.parent.iterdir() if p.is_dir())) or "none"
            raise InputError(f"{folder}: no such folder (there: {have})")
    found: dict[str, Path] = {}
    for path in sorted(images.iterdir()):
        if path.suffix.lower() in IMAGES and not path.name.startswith("."):
            if path.stem in found:
                raise InputError(f"{path}: a second image of the case {path.stem}; the first is {found[path.stem].name}")
            found[path.stem] = path
    if not found:
        raise InputError(f"{images}: no image ({', '.join(IMAGES)})")
    known = {path.stem: path for path in masks.iterdir() if path.suffix.lower() == ".png" and not path.name.startswith(".")}
    for name in found:
        if name not in known:
            raise InputError(f"{found[name]}: no mask {masks / (name + '.png')}")
    for name in sorted(known):
        if name not in found:
            raise InputError(f"{known[name]}: no image of this case in {images}")
    return [Case(name, found[name], known[name]) for name in sorted(found)]


def class_names(root: Path, classes: int) -> Optional[list[str]]:
    """The names in objectInfo150.txt (tab-separated, the name in the last column), or None if there is no such file."""
    path = root / NAMES
    if not path.is_file():
        return None
    lines = [line for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]
    names = [line.split("\t")[-1].strip() for line in lines]
    if len(names) != classes or len(set(names)) != classes:
        raise InputError(f"{path}: {len(set(names))} names for {classes} classes; remove the file or give --classes")
    return names


def ignored(classes: int) -> int:
    """The label of pixels that do not count: 255, or 65535 if there are more classes than that leaves."""
    return 255 if classes <= 255 else 65535


def mask_size(case: Case) -> tuple[int, int]:
    """(width, height)"""
    with _opened(case) as file:
        width, height = file.size
    return int(width), int(height)


@contextlib.contextmanager
def _opened(case: Case) -> Iterator[Any]:
    from PIL import Image

    try:
        with Image.open(case.mask) as file:
            yield file
    except InputError:
        raise
    except Exception as error:  # Pillow raises SyntaxError, struct.error and others for broken files
        raise InputError(f"{case.mask}: not a readable mask ({error}); replace the file, or take it and its image out of the "
                         f"data") from error


def read_mask(case: Case, classes: int) -> Any:
    """[height, width] of class numbers from 0; what the file has as 0 becomes ignored(classes)."""
    with _opened(case) as file:
        if file.mode not in ("L", "P", "I", "I;16", "1"):
            raise InputError(f"{case.mask}: a colour image (mode {file.mode}); masks are grey, a class number for each "
                                f"pixel")
        raw = np.asarray(file).astype(np.int64)
    if raw.max(initial=0) > classes or raw.min(initial=0) < 0:
        bad = int(raw.max() if raw.max() > classes else raw.min())
        row, column = (int(v[0]) for v in np.nonzero(raw == bad))
        raise InputError(f"{case.mask}: {bad} in row {row}, column {column}, but there are {classes} classes (0 is "
                            f"ignored); give --classes")
    kind = np.uint8 if classes <= 255 else np.uint16
    return np.where(raw == 0, ignored(classes), raw - 1).astype(kind)


def grid(length: int, size: int) -> Any:
    """The pixels of an axis that are kept: the middle of each of `size` equal cells."""
    return ((np.arange(size) + 0.5) * length / size).astype(np.int64)


def kept_mask(mask: Any, size: int) -> Any:
    """The mask at the pixels of the grid; size 0 keeps all."""
    if not size:
        return mask
    return mask[np.ix_(grid(mask.shape[0], size), grid(mask.shape[1], size))]


def scaled_size(height: int, width: int, shorter: int) -> tuple[int, int]:
    """(height, width) with the shorter side `shorter` and the longer at most four times that; 0 leaves both."""
    if not shorter:
        return height, width
    scale = min(shorter / min(height, width), 4 * shorter / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def kept_map(logits: Any, height: int, width: int, size: int) -> Any:
    """[size, size, C] (or [height, width, C] for size 0) of logits [C, h, w] of an image of height x width pixels.

    Equal to resizing to height x width (bilinear, align_corners=False) and taking the pixels of the grid, without making
    the large map."""
    import torch
    import torch.nn.functional as F

    logits = logits.float()
    if not size:
        found = logits if logits.shape[-2:] == (height, width) else F.interpolate(
            logits[None], size=(height, width), mode="bilinear", align_corners=False)[0]
        return found.permute(1, 2, 0)

    def weights(length: int, source: int) -> tuple[Any, Any, Any]:
        at = (torch.from_numpy(grid(length, size)).double() + 0.5) * source / length - 0.5
        at = at.clamp(min=0)
        low = at.floor().long().clamp(max=source - 1)
        return (low.to(logits.device), (low + 1).clamp(max=source - 1).to(logits.device),
                (at - low).clamp(0, 1).to(logits))

    top, bottom, down = weights(height, logits.shape[1])
    left, right, across = weights(width, logits.shape[2])
    rows = logits[:, top] * (1 - down)[:, None] + logits[:, bottom] * down[:, None]
    return (rows[:, :, left] * (1 - across) + rows[:, :, right] * across).permute(1, 2, 0)


def bytes_of_maps(shapes: list[tuple[int, int]], classes: int, size: int, width: int) -> int:
    """Bytes of a member's maps of images with these (height, width); `width` bytes a value."""
    pixels = len(shapes) * size * size if size else sum(h * w for h, w in shapes)
    return pixels * classes * width
