#!/usr/bin/env python3
"""Makes the frozen segmentation pool `camvid`: small networks on driving scenes, 240x180 pixels, 11 classes.

Stands before corestack: trains on the 367 training frames, predicts the 101 of `oof` (the validation frames) and the 233
of `test`. Members that are done are not trained again, and the manifest names those that are.
Paper: section "Dense Prediction", at the size of a laptop.
"""
import io
import time
import zipfile
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import camvid_networks as networks
import common
import dense
import scores
from dense import DEVICE

CLASSES = ["sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist"]
VOID = 11
HEIGHT, WIDTH = 180, 240
MEAN, DEVIATION = 0.42, 0.30  # of all channels of the training frames, rounded


@dataclass
class Member:
    """`size`: (height, width) at which the network sees the frame, multiples of 16; `balanced`: the power of the median
    frequency weights of the classes in the loss (0: none, 1: SegNet's)."""
    name: str
    family: str
    build: Callable
    size: tuple
    epochs: int
    offset: int = 0
    balanced: float = 0.0
    zoom: tuple = (0.8, 1.6)


def members():
    """segnet_a and segnet_b differ in their seed alone."""
    half, middle, full = (96, 128), (144, 192), (192, 256)
    return [Member("unet", "unet", networks.UNet, half, 30),
            Member("segnet_a", "segnet", networks.SegNet, half, 60, balanced=1.0),
            Member("fast_scnn", "fast-scnn", networks.FastSCNN, full, 32, balanced=0.5),
            Member("fpn", "fpn", networks.Pyramid, half, 40, balanced=0.5),
            Member("aspp", "deeplab", networks.Dilated, half, 40, balanced=0.25, zoom=(1.0, 2.0)),
            Member("enet", "enet", networks.ENet, middle, 24, balanced=0.5),
            Member("segnet_b", "segnet", networks.SegNet, half, 60, offset=1000, balanced=1.0)]


def load(folder, part):
    """(images float32 [N, 3, 180, 240], normalised; labels uint8 [N, 180, 240], 11 = void)"""
    with zipfile.ZipFile(folder / f"{part}.zip") as archive:
        names = sorted(n[:-4] for n in archive.namelist() if n.endswith(".jpg"))

        def read(name, mode):
            return np.asarray(Image.open(io.BytesIO(archive.read(name))).convert(mode))
        images = np.stack([read(f"{n}.jpg", "RGB") for n in names])
        labels = np.stack([np.asarray(Image.open(io.BytesIO(archive.read(f"{n}.png")))) for n in names])
    assert images.shape[1:] == (HEIGHT, WIDTH, 3) and labels.shape[1:] == (HEIGHT, WIDTH) and labels.max() <= VOID
    images = (images.astype(np.float32) / 255 - MEAN) / DEVIATION
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), labels.astype(np.uint8)


def class_weights(labels, power):
    """Median frequency over frequency (of pixels), to `power`."""
    frequency = np.bincount(labels.reshape(-1), minlength=VOID + 1)[:VOID] / (labels != VOID).sum()
    return torch.tensor((np.median(frequency) / frequency) ** power, dtype=torch.float32)


def augmented(images, labels, size, zoom):
    """A mirrored, zoomed window of each frame, at `size`; labels outside the frame are void."""
    count = len(images)
    scale = 1 / (zoom[0] * (zoom[1] / zoom[0]) ** torch.rand(count))
    room = 1 - scale
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = scale * torch.sign(torch.rand(count) - 0.5)
    theta[:, 1, 1] = scale
    theta[:, :, 2] = room[:, None] * (2 * torch.rand(count, 2) - 1)
    grid = F.affine_grid(theta, [count, 1, *size], align_corners=False)
    images = dense.colour_jitter(F.grid_sample(images, grid, "bilinear", "zeros", align_corners=False))
    labels = F.grid_sample(labels[:, None].float() - VOID, grid, "nearest", "zeros", align_corners=False) + VOID
    return images, labels[:, 0].long()


def train(member, images, labels, epochs, seed):
    torch.manual_seed(seed + member.offset)
    net = member.build(len(CLASSES)).to(DEVICE)
    weights = class_weights(labels, member.balanced).to(DEVICE)
    targets = torch.from_numpy(labels)

    def loss(rows):
        x, y = augmented(images[rows], targets[rows], member.size, member.zoom)
        logits = net(x.to(DEVICE))
        if logits.shape[-2:] != y.shape[-2:]:
            logits = F.interpolate(logits, size=y.shape[-2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(logits, y.to(DEVICE), weights, ignore_index=VOID)

    return dense.fit(net, len(images), loss, epochs, say=member.name)


@torch.no_grad()
def predict(net, images, size):
    """float16 [N, 180, 240, 11]: softmax of the logits resized to the frame."""
    out = np.empty((len(images), HEIGHT, WIDTH, len(CLASSES)), dtype=np.float16)
    for start in range(0, len(images), 8):
        x = F.interpolate(images[start:start + 8].to(DEVICE), size=size, mode="bilinear", align_corners=False)
        logits = F.interpolate(net(x), size=(HEIGHT, WIDTH), mode="bilinear", align_corners=False)
        out[start:start + len(x)] = logits.softmax(1).permute(0, 2, 3, 1).cpu().numpy()
    return out


def write_manifest(folder, done):
    """pool.json with the members that are done."""
    models = []
    for member, facts in done:
        models.append({"name": member.name, "family": member.family, "flops": facts["flops"], "params": facts["params"],
                       "latency_ms": facts["latency_ms"],
                       "predictions": {s: f"{member.name}.{s}.npy" for s in ("oof", "test")}})
    dense.save_json(folder / "pool.json", {
        "corestack_pool": 1, "task": "segmentation", "classes": CLASSES, "output": "probability",
        "layout": "channels-last", "ignore": VOID,
        "splits": {s: {"labels": f"{s}_labels.npy"} for s in ("oof", "test")}, "models": models}, indent=1)


def run(member, parts, folder, settings, seed):
    """Trains a member and writes its predictions, NAME.member.json last."""
    start = time.perf_counter()
    net = train(member, *parts["train"], settings["epochs"], seed)
    seconds = time.perf_counter() - start
    miou = {}
    for split in ("oof", "test"):
        images, labels = parts[split]
        p = predict(net, images, member.size)
        miou[split] = scores.mean_iou(p, labels, VOID)
        common.save(folder / f"{member.name}.{split}.npy", p)
    image = torch.zeros(1, 3, *member.size, device=DEVICE)
    flops, params = dense.cost(net, image)
    dense.save_json(folder / f"{member.name}.member.json", {
        "flops": flops, "params": params, "latency_ms": dense.latency(net, image), "train_seconds": round(seconds, 1),
        "oof_miou": round(miou["oof"], 4), "test_miou": round(miou["test"], 4), "settings": settings})
    print(f"{member.name:12s} {seconds:6.0f} s, oof mIoU {miou['oof']:.4f}", flush=True)


def main():
    options = dense.arguments(__doc__.splitlines()[0], "data/raw/camvid").parse_args()
    torch.set_num_threads(options.threads)
    folder = options.out or common.default_folder("camvid")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [m for m in members() if not options.members or m.name in options.members]
    settings = {m.name: {"epochs": options.epochs or m.epochs, "seed": options.seed} for m in members()}
    for member in members():  # before anything is written
        dense.finished(folder, member.name, settings[member.name])
    parts = {split: load(options.data, part) for split, part in (("train", "train"), ("oof", "val"), ("test", "test"))}
    for split in ("oof", "test"):
        common.save(folder / f"{split}_labels.npy", parts[split][1])
    for member in chosen:
        if not dense.finished(folder, member.name, settings[member.name]):
            run(member, parts, folder, settings[member.name], options.seed)
        facts = ((m, dense.finished(folder, m.name, settings[m.name])) for m in members())
        write_manifest(folder, [(m, f) for m, f in facts if f])


if __name__ == "__main__":
    main()
