#!/usr/bin/env python3
"""Makes the frozen detection pool `bccd`: small detectors of blood cells on 320x240 images, three classes.

Stands before corestack: trains on the 205 training images, predicts the 87 of `oof` (the validation images) and the 72
of `test`. Members that are done are not trained again, and the manifest names those that are.
Paper: section "Dense Prediction", at the size of a laptop.
"""
import json
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import bccd_networks as networks
import common
import dense
import scores
from dense import DEVICE

MEAN, DEVIATION = 0.72, 0.10  # of all channels of the training images, rounded
PARTS = {"train": "train", "oof": "val", "test": "test"}
SCORE_FLOOR, KEPT_BEFORE, KEPT, OVERLAP = 0.02, 300, 80, 0.5  # of a member's own non-maximum suppression


@dataclass
class Member:
    """`size`: (height, width) at which the network sees the image."""
    name: str
    family: str
    build: Callable
    size: tuple
    epochs: int = 40
    rate: float = 3e-3
    offset: int = 0


def members():
    """center_a and center_b differ in their seed alone. Anchors are in pixels of the image."""
    shapes = [[(20, 20), (36, 36), (50, 42), (42, 50), (52, 52)], [(66, 66), (90, 90), (110, 80), (80, 110)]]
    coarse = [*shapes, [(120, 120)]]
    one = [[(20, 20), (38, 38), (52, 52), (70, 70), (100, 100)]]

    def build(kind, backbone, strides, anchors=None):
        return lambda classes: kind(classes, backbone(strides), anchors)

    return [Member("center_a", "centernet", build(networks.CenterNet, networks.Residual, (4,)), (144, 192)),
            Member("ssd", "ssd", build(networks.SSD, networks.Plain, (8, 16, 32), coarse), (192, 256)),
            Member("fcos", "fcos", build(networks.FCOS, networks.Residual, (8, 16)), (192, 256)),
            Member("retina", "retinanet", build(networks.RetinaNet, networks.Mobile, (8, 16), shapes), (192, 256)),
            Member("yolo", "yolo", build(networks.YOLO, networks.Dark, (8,), one), (192, 256)),
            Member("center_b", "centernet", build(networks.CenterNet, networks.Residual, (4,)), (144, 192), offset=1000)]


@dataclass
class Part:
    """Images float32 [N, 3, 240, 320] (normalised), per image boxes [G, 4] as corners and class numbers [G], and the COCO
    document they come from."""
    images: torch.Tensor
    truth: list
    document: dict


def load(folder, part):
    document = json.loads((folder / f"{part}.json").read_text())
    number = {category["id"]: i for i, category in enumerate(document["categories"])}
    images, truth = [], []
    for entry in document["images"]:
        image = np.asarray(Image.open(folder / "images" / entry["file_name"]).convert("RGB"), dtype=np.float32)
        images.append((image / 255 - MEAN) / DEVIATION)
        own = [a for a in document["annotations"] if a["image_id"] == entry["id"]]
        x, y, w, h = np.array([a["bbox"] for a in own], dtype=np.float32).reshape(-1, 4).T
        truth.append((torch.from_numpy(np.stack([x, y, x + w, y + h], 1)),
                      torch.tensor([number[a["category_id"]] for a in own], dtype=torch.int64)))
    return Part(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous(), truth, document)


def augmented(images, truth, size):
    """Each image mirrored on either axis, zoomed by 0.8 to 1.3 and moved, at `size`; boxes go with it, and those of which
    less than a third is left in the picture are dropped."""
    count, (height, width) = len(images), size
    scale = 0.77 + 0.48 * torch.rand(count)
    sign = torch.sign(torch.rand(count, 2) - 0.5)
    shift = (1 - scale).abs()[:, None] * (2 * torch.rand(count, 2) - 1)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = scale * sign[:, 0], scale * sign[:, 1], shift
    grid = F.affine_grid(theta, [count, 1, *size], align_corners=False)
    x = dense.colour_jitter(F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False))
    side = torch.tensor([images.shape[3], images.shape[2]], dtype=torch.float32)
    out = []
    for i, (boxes, classes) in enumerate(truth):
        corners = boxes.view(-1, 2, 2) / side * 2 - 1
        corners = ((corners - shift[i]) / (scale[i] * sign[i]) + 1) / 2 * torch.tensor([width, height])
        moved = torch.cat([corners.min(1).values, corners.max(1).values], 1)
        clipped = moved.clone()
        clipped[:, 0::2] = moved[:, 0::2].clamp(0, width)
        clipped[:, 1::2] = moved[:, 1::2].clamp(0, height)
        kept = networks.areas(clipped) > networks.areas(moved) / 3
        out.append((clipped[kept].to(DEVICE), classes[kept].to(DEVICE)))
    return x.to(DEVICE), out


def train(member, part, epochs, seed):
    torch.manual_seed(seed + member.offset)
    net = member.build(len(part.document["categories"])).to(DEVICE)
    return dense.fit(net, len(part.images),
                     lambda rows: net.loss(*augmented(part.images[rows], [part.truth[i] for i in rows], member.size)),
                     epochs, member.rate, say=member.name)


def image_results(score, boxes, image, categories):
    """COCO results of one image: score [P, classes], boxes [P, 4] in pixels of the image, clipped to it here."""
    limit = np.array([image["width"], image["height"]] * 2, dtype=np.float64)
    boxes, found = np.clip(boxes, 0, limit), []
    for number, category in enumerate(categories):
        rows = np.nonzero((score[:, number] > SCORE_FLOOR) & (np.min(boxes[:, 2:] - boxes[:, :2], axis=1) >= 2))[0]
        rows = rows[np.argsort(-score[rows, number], kind="stable")][:KEPT_BEFORE]
        for row in rows[networks.suppressed(boxes[rows], score[rows, number], OVERLAP)]:
            x0, y0, x1, y1 = np.round(boxes[row], 2)
            found.append({"image_id": image["id"], "category_id": category["id"],
                          "bbox": [round(float(v), 2) for v in (x0, y0, x1 - x0, y1 - y0)],
                          "score": round(float(min(score[row, number], 1.0)), 5)})
    return sorted(found, key=lambda f: -f["score"])[:KEPT]


@torch.no_grad()
def predict(net, part, size):
    """COCO results of all images, in their order."""
    out, height = [], part.images.shape[2]
    for start in range(0, len(part.images), 8):
        x = F.interpolate(part.images[start:start + 8].to(DEVICE), size=size, mode="bilinear", align_corners=False)
        score, boxes = net.decode(net(x))
        boxes = (boxes * (height / size[0])).double().cpu().numpy()
        for i, image in enumerate(part.document["images"][start:start + 8]):
            out += image_results(score[i].double().cpu().numpy(), boxes[i], image, part.document["categories"])
    return out


def write_manifest(folder, done):
    """pool.json with the members that are done."""
    models = [{"name": m.name, "family": m.family, "flops": f["flops"], "params": f["params"],
               "latency_ms": f["latency_ms"], "predictions": {s: f"{m.name}.{s}.json" for s in ("oof", "test")}}
              for m, f in done]
    dense.save_json(folder / "pool.json", {
        "corestack_pool": 1, "task": "detection",
        "splits": {s: {"annotations": f"{s}.json"} for s in ("oof", "test")}, "models": models}, indent=1)


def run(member, parts, folder, settings, seed):
    """Trains a member and writes its predictions, NAME.member.json last."""
    start = time.perf_counter()
    net = train(member, parts["train"], settings["epochs"], seed)
    seconds, ap50 = time.perf_counter() - start, {}
    for split in ("oof", "test"):
        results = predict(net, parts[split], member.size)
        ap50[split] = scores.average_precision(parts[split].document, results)
        dense.save_json(folder / f"{member.name}.{split}.json", results)
    image = torch.zeros(1, 3, *member.size, device=DEVICE)
    flops, params = dense.cost(net, image)
    mean = {split: round(float(np.mean(list(values.values()))), 4) for split, values in ap50.items()}
    dense.save_json(folder / f"{member.name}.member.json", {
        "flops": flops, "params": params, "latency_ms": dense.latency(net, image), "train_seconds": round(seconds, 1),
        "oof_ap50": mean["oof"], "test_ap50": mean["test"], "settings": settings})
    print(f"{member.name:12s} {seconds:6.0f} s, oof AP50 {mean['oof']:.4f}: "
          + ", ".join(f"{c}: {v:.3f}" for c, v in ap50["oof"].items()), flush=True)


def main():
    options = dense.arguments(__doc__.splitlines()[0], "data/raw/bccd").parse_args()
    torch.set_num_threads(options.threads)
    folder = options.out or common.default_folder("bccd")
    folder.mkdir(parents=True, exist_ok=True)
    settings = {m.name: {"epochs": options.epochs or m.epochs, "seed": options.seed} for m in members()}
    for member in members():  # before anything is written
        dense.finished(folder, member.name, settings[member.name])
    parts = {split: load(options.data, part) for split, part in PARTS.items()}
    for split in ("oof", "test"):
        dense.save_json(folder / f"{split}.json", parts[split].document)
    for member in members():
        if options.members and member.name not in options.members:
            continue
        if not dense.finished(folder, member.name, settings[member.name]):
            run(member, parts, folder, settings[member.name], options.seed)
        facts = ((m, dense.finished(folder, m.name, settings[m.name])) for m in members())
        write_manifest(folder, [(m, f) for m, f in facts if f])


if __name__ == "__main__":
    main()
