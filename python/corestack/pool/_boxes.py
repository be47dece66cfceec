"""Annotations and results in COCO's form, and what torchvision's detectors return turned into them.

Paper: the COCO benchmark of section "Dense Prediction".
"""
from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from .._errors import InputError

_ANNOTATION = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")
COCO_LABELS = 91  # torchvision's detectors of COCO: label i is COCO's category id i, 0 the background


def read_document(path: Path, rows: Optional[Sequence[int]] = None) -> dict[str, Any]:
    """The annotation file with what a pool needs of it, of the images at these places of its list (None: all)."""
    whole = _read_whole(path)
    if rows is None:
        return dict(whole)
    images = [whole["images"][i] for i in rows]
    kept = {entry["id"] for entry in images}
    boxes = [a for a in whole["annotations"] if a.get("image_id") in kept]
    return {"images": images, "annotations": boxes, "categories": whole["categories"]}


@functools.lru_cache(maxsize=4)  # a file of COCO takes seconds
def _read_whole(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; it is COCO's annotation file (instances_*.json)") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: not an object with the lists images, annotations and categories")
    for key in ("images", "annotations", "categories"):
        if not isinstance(document.get(key), list):
            raise InputError(f"{path}: no list {key}; it is COCO's annotation file of boxes (instances_*.json)")
    images = []
    for entry in document["images"]:
        if not isinstance(entry, dict) or not {"id", "file_name", "width", "height"} <= set(entry):
            raise InputError(f"{path}: an image without id, file_name, width or height")
        images.append({key: entry[key] for key in ("id", "file_name", "width", "height")})
    if not images or not document["categories"]:
        raise InputError(f"{path}: no images or no categories")
    if len({entry["id"] for entry in images}) != len(images):
        raise InputError(f"{path}: two images have the same id")
    boxes = [{key: a[key] for key in _ANNOTATION if key in a} for a in document["annotations"]]
    categories = [{key: c[key] for key in ("id", "name") if key in c} for c in document["categories"]]
    return {"images": images, "annotations": boxes, "categories": categories}


def find_images(document: Mapping[str, Any], folder: Path) -> list[Path]:
    """The path of every image, in the file's order; the first one missing is an error."""
    paths = []
    for entry in document["images"]:
        path = folder / entry["file_name"]
        if not path.is_file():
            raise InputError(f"{path}: no such image; the annotation file names it. The folder of the images is --images")
        paths.append(path)
    return paths


def categories_of(document: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """(id, name) of every category, by id."""
    return tuple(sorted((c["id"], str(c.get("name"))) for c in document["categories"]))


def category_of(labels: int, names: Optional[Sequence[str]], categories: Sequence[tuple[int, str]],
                who: str) -> dict[int, Optional[int]]:
    """{label of the detector: category id of the annotation file, or None for a label that the file lacks}.

    By name if the detector says the names of its labels (torchvision's weights do). Otherwise by the number of labels,
    background included: one more than the file has categories are these in the order of their ids, 91 are COCO's ids."""
    if names is not None:
        ids = {name: number for number, name in categories}
        found = {label: ids.get(name) for label, name in enumerate(names)}
        if not any(v is not None for v in found.values()):
            raise InputError(f"{who}: none of its categories ({', '.join(list(names)[1:4])}, ...) is in the annotation file "
                             f"({', '.join(list(ids)[:3])}, ...)")
        return found
    if labels == len(categories) + 1:
        return {i + 1: number for i, (number, _) in enumerate(sorted(categories))}
    if labels == COCO_LABELS:
        known = {number for number, _ in categories}
        return {label: label if label in known else None for label in range(1, labels)}
    raise InputError(f"{who}: {labels} labels (background included) for {len(categories)} categories; let the factory set "
                     f"network.categories, the names of the labels")


def results_of(image: Mapping[str, Any], output: Mapping[str, Any], categories: Mapping[int, Optional[int]], floor: float,
               most: int) -> list[dict[str, Any]]:
    """COCO results of one image, best first: boxes as [left, top, width, height] with two decimals, cut to the image."""
    boxes = output["boxes"].detach().double().cpu().tolist()
    scores = output["scores"].detach().double().cpu().tolist()
    labels = output["labels"].detach().cpu().tolist()
    width, height = float(image["width"]), float(image["height"])
    found = []
    for (x0, y0, x1, y1), score, label in zip(boxes, scores, labels):
        if int(label) not in categories:
            raise InputError(f"the detector gives label {int(label)}, and the annotation file has {len(categories)} "
                             f"categories; let the factory set network.categories, the names of the labels")
        category = categories[int(label)]
        if category is None:
            continue
        if not all(map(math.isfinite, (x0, y0, x1, y1, score))):
            raise InputError("a box or score is not finite; are these the right weights, or is --compute float16 too narrow?")
        x0, x1 = (round(min(max(v, 0.0), width), 2) for v in (x0, x1))
        y0, y1 = (round(min(max(v, 0.0), height), 2) for v in (y0, y1))
        score = round(min(max(score, 0.0), 1.0), 6)
        if score < floor or x1 <= x0 or y1 <= y0:
            continue
        found.append({"image_id": image["id"], "category_id": category,
                      "bbox": [x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)], "score": score})
    found.sort(key=lambda f: float(f["score"]), reverse=True)
    return found[:most] if most else found


def lines_of(results: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    """One line of text for each image, by which an interrupted file is continued."""
    return [json.dumps(list(one), separators=(",", ":")) + "\n" for one in results]


def joined(lines: Iterable[str]) -> Iterable[str]:
    """The pieces of a COCO results file, from the lines of its images."""
    yield "["
    first = True
    for line in lines:
        body = line.strip()[1:-1]
        if body:
            yield ("\n" if first else ",\n") + body
            first = False
    yield "\n]\n"
