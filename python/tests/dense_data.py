"""Small folders in the layouts of ADE20K and COCO, and a detector in the interface of torchvision's."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

CATEGORIES = [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}, {"id": 18, "name": "dog"}]
# Finds bright rectangles by thresholds: a factory for --models.
FINDER = '''
import torch

class Finder(torch.nn.Module):
    def __init__(self, floor, shift):
        super().__init__()
        self.floor, self.shift = floor, shift
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.categories = ["background", "car", "person", "unknown", "dog"]  # another order than the annotation file

    def forward(self, images):
        found = []
        for image in images:
            boxes, labels = [], []
            for label, level in ((2, 0.4), (1, 0.65), (4, 0.9)):
                inside = (image.mean(0) - level).abs() < self.floor
                rows, columns = inside.any(1).nonzero()[:, 0], inside.any(0).nonzero()[:, 0]
                if len(rows) > 4 and len(columns) > 4:
                    boxes.append([columns[0] + self.shift, rows[0], columns[-1] + 1 + self.shift, rows[-1] + 1.0])
                    labels.append(label)
                boxes.append([1.0, 2.0 + level, 20.0 + self.shift, 24.0])
                labels.append(label)
            scores = [0.9 if i % 2 == 0 else 0.1 + self.shift / 50 for i in range(len(boxes))]
            found.append({"boxes": torch.tensor(boxes), "labels": torch.tensor(labels), "scores": torch.tensor(scores)})
        return found

def sharp():
    return Finder(0.05, 0.4)

def shifted():
    return Finder(0.1, 3)
'''


def ade20k(root, images=10, classes=6, seed=0, parts=("validation",)):
    """Images of two sizes, whose colours are those of blocks of classes; 0 is ignored."""
    from PIL import Image

    draw = np.random.default_rng(seed)
    for part in parts:
        for folder in ("images", "annotations"):
            (root / folder / part).mkdir(parents=True, exist_ok=True)
        for i in range(images):
            height, width = (48, 64) if i % 3 else (64, 56)
            blocks = draw.integers(0, classes + 1, (height // 8, width // 8), dtype=np.uint8)
            mask = blocks.repeat(8, 0).repeat(8, 1)
            image = np.stack([mask * 35, 255 - mask * 30, mask * 83 % 256], -1).astype(np.uint8)
            Image.fromarray(image).save(root / "images" / part / f"ADE_{part[:3]}_{i:08d}.jpg")
            Image.fromarray(mask).save(root / "annotations" / part / f"ADE_{part[:3]}_{i:08d}.png")
    return root


def coco(root, images=10, seed=0, part="val2017"):
    """A bright rectangle for each of one to three categories on a dark ground."""
    from PIL import Image

    draw = np.random.default_rng(seed)
    (root / part).mkdir(parents=True, exist_ok=True)
    (root / "annotations").mkdir(exist_ok=True)
    entries, boxes = [], []
    for i in range(images):
        height, width = (90, 120) if i % 2 else (100, 80)
        pixels = draw.integers(0, 60, (height, width, 3)).astype(np.uint8)
        entries.append({"id": 100 + i, "file_name": f"{i:012d}.png", "width": width, "height": height, "license": 1})
        for j, category in enumerate(draw.permutation(3)[: 1 + i % 3]):
            w, h = (int(v) for v in draw.integers(18, 26, 2))
            x, y = int(draw.integers(26 * (j % 3), 26 * (j % 3) + 2)), int(draw.integers(26, height - h))
            pixels[y : y + h, x : x + w] = (102, 166, 230)[category]
            boxes.append({"id": len(boxes) + 1, "image_id": 100 + i, "category_id": CATEGORIES[category]["id"], "area": w * h,
                          "bbox": [x, y, w, h], "iscrowd": 0, "segmentation": [[x, y, x + w, y, x, y + h]]})  # fmt: skip
        Image.fromarray(pixels).save(root / part / f"{i:012d}.png")
    document = {"info": {}, "images": entries, "annotations": boxes, "categories": CATEGORIES[::-1]}
    (root / "annotations" / f"instances_{part}.json").write_text(json.dumps(document))
    return root


def finder(folder):
    path = Path(folder) / "finder.py"
    path.write_text(FINDER)
    return path
