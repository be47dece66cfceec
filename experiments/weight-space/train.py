#!/usr/bin/python3
"""Trains everything that experiments/weight-space needs, on Fashion-MNIST: checkpoints of one small network, and other models.

    nice experiments/weight-space/train.py [--out FOLDER] [--threads N] [--quick]

Stands before corestack; `make_pool.py` goes on from here. What is done is not done again. Leaves in the folder
(data/weight-space): images/, checkpoints/NAME.safetensors, others/ (predictions of the other models). Choices that the paper
leaves open (rates, epochs) are round numbers; none was tuned on the test splits. Paper: the weight-space baselines.
"""
import argparse
import json
import math
import pathlib
import time
from functools import partial

import network  # first: puts experiments/pools on the path
import numpy as np
import splits
import torch
import vision
import vision_networks
from images import image_members
from threadpoolctl import threadpool_limits
from torch import nn

SEED = 0
# Epochs: `start` from scratch; `rest` from a start to a finished network; a fine-tuning; the tail; a cycle of the snapshots.
EPOCHS = {"start": 10, "rest": 6, "finetune": 6, "tail": 12, "cycle": 4, "others": 8}
QUICK = {"start": 1, "rest": 1, "finetune": 1, "tail": 4, "cycle": 1, "others": 1}
SEEDS, CYCLES, RATE, TAIL_RATE, BATCH = 5, 5, 0.05, 0.02, 128
# Fine-tunings of seed 0's start: rate, augmentation, label smoothing, mixup.
FINETUNINGS = [(0.05, "shift", 0.0, 0.0), (0.02, "shift", 0.0, 0.0), (0.02, "none", 0.0, 0.0), (0.05, "none", 0.0, 0.0),
               (0.02, "erase", 0.0, 0.0), (0.02, "shift", 0.05, 0.0)]
PARTS = ("seeds", "finetunings", "tail", "snapshots", "others")
OTHERS = ("resnet", "convnext", "mlp", "extra_trees", "logistic")


def erased(images):
    """Each image with a square of 8x8 pixels at a random place set to its smallest value."""
    rows, _, side, _ = images.shape
    corner = torch.randint(0, side - 7, (2, rows, 1))
    down, right = (((torch.arange(side) >= c) & (torch.arange(side) < c + 8)) for c in corner)
    return torch.where((down[:, :, None] & right[:, None, :])[:, None], images.amin((2, 3), keepdim=True), images)


AUGMENTATIONS = {"none": lambda images: images, "shift": vision_networks.augmented,
                 "erase": lambda images: erased(vision_networks.augmented(images))}


def batch_loss(net, images, labels, smoothing, mixup):
    if not mixup:
        return nn.functional.cross_entropy(net(images), labels, label_smoothing=smoothing)
    share, other = float(np.random.beta(mixup, mixup)), torch.randperm(len(labels))
    scores = net(share * images + (1 - share) * images[other])
    return (share * nn.functional.cross_entropy(scores, labels, label_smoothing=smoothing)
            + (1 - share) * nn.functional.cross_entropy(scores, labels[other], label_smoothing=smoothing))


def descend(net, images, labels, epochs, rate, seed, after=None, augment="shift", smoothing=0.0, mixup=0.0):
    """SGD with Nesterov momentum, in batches of 128. `rate` is a function of the share of the steps that are done, in [0, 1);
    after(epoch), counted from 1, is called when an epoch ends."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps, step = epochs * math.ceil(len(labels) / BATCH), 0
    for epoch in range(1, epochs + 1):
        net.train()
        for rows in torch.randperm(len(labels)).split(BATCH):
            optimizer.param_groups[0]["lr"] = rate(step / steps)
            optimizer.zero_grad()
            batch_loss(net, AUGMENTATIONS[augment](images[rows]), labels[rows], smoothing, mixup).backward()
            optimizer.step()
            step += 1
        if after:
            after(epoch)
    return net.eval()


def warm(rate, share):
    """`rate`, reached linearly over the first `share` of the steps."""
    return lambda at: rate * min(1.0, (at + 1e-3) / share)


def cosine(rate):
    """From `rate` down to 0."""
    return lambda at: 0.5 * rate * (1 + math.cos(math.pi * at))


class Trainer:
    """Trains into a folder of checkpoints; a run whose NAME.run.json exists with the same settings is not repeated."""
    def __init__(self, folder, epochs, settings):
        self.folder, self.epochs, self.settings = folder / "checkpoints", epochs, settings
        self.folder.mkdir(parents=True, exist_ok=True)
        self.images = network.tensor(folder / "images", "train")
        self.labels = torch.from_numpy(splits.read(folder / "images").y)

    def path(self, name):
        return self.folder / f"{name}.safetensors"

    def save(self, net, name, epoch):
        network.save(self.path(name), net, name=name, epoch=epoch)

    def run(self, name, start, epochs, rate, seed, after=None, **changes):
        """One training run; without `after` its end is saved as `name`."""
        note = self.folder / f"{name}.run.json"
        if note.exists():
            if json.loads(note.read_text())["settings"] != self.settings:
                raise SystemExit(f"{note}: made with other settings; give another --out or remove {self.folder}")
            return
        began = time.process_time()
        torch.manual_seed(seed)
        net = network.load(self.path(start)) if start else network.build()
        descend(net, self.images, self.labels, epochs, rate, seed, partial(after, net) if after else None, **changes)
        if not after:
            self.save(net, name, epochs)
        seconds = round(time.process_time() - began, 1)
        note.write_text(json.dumps({"seconds": seconds, "epochs": epochs, "settings": self.settings}) + "\n")
        print(f"{name:14s} {seconds:7.1f} s", flush=True)

    def seeds(self):
        """start_I at a constant rate, seed_I the finished network: the deep ensemble, and where all else starts (start_0)."""
        for i in range(SEEDS):
            self.run(f"start_{i}", None, self.epochs["start"], warm(RATE, 0.1), SEED + 1000 * i)
            self.run(f"seed_{i}", f"start_{i}", self.epochs["rest"], cosine(RATE), SEED + 1000 * i + 1)

    def finetunings(self):
        for number, (rate, augment, smoothing, mixup) in enumerate(FINETUNINGS, 1):
            self.run(f"finetune_{number}", "start_0", self.epochs["finetune"], cosine(rate), SEED + 100 + number,
                     augment=augment, smoothing=smoothing, mixup=mixup)

    def tail(self):
        """One checkpoint an epoch at a constant rate, for SWA and SWAG."""
        self.run("tail", "start_0", self.epochs["tail"], lambda at: TAIL_RATE, SEED + 200,
                 lambda net, epoch: self.save(net, f"tail_{epoch:02d}", epoch))

    def snapshots(self):
        """From scratch, the rate falling to 0 in each cycle and starting again; the end of every cycle but the first."""
        cycle = self.epochs["cycle"]

        def rate(at):
            return cosine(2 * RATE)(at * CYCLES % 1.0) * min(1.0, 0.1 + at * CYCLES * cycle)

        def keep(net, epoch):
            if epoch % cycle == 0 and epoch > cycle:
                self.save(net, f"snapshot_{epoch // cycle - 1}", epoch)

        self.run("snapshots", None, CYCLES * cycle, rate, SEED + 300, keep)


def other_runs(epochs):
    """Models of other kinds, as the pool `vision` has them."""
    runs = vision.network_runs(SEED + 400, epochs)
    models = {m.name: m for m in image_members(784, SEED)}
    return [runs[name] if name in runs else vision.Run([name], models[name].family, models[name].make) for name in OTHERS]


def train_others(folder, data, epochs, settings):
    folder.mkdir(exist_ok=True)
    settings = {**settings, "epochs": epochs}
    for run in other_runs(epochs):
        if not all(vision.finished(folder, name, settings) for name in run.names):
            vision.train(run, data, folder, settings)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=network.FOLDER)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts alone, which other processes may add to")
    parser.add_argument("--quick", action="store_true", help="a few images and epochs: to see that everything works")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    epochs, sizes = (QUICK, splits.QUICK) if options.quick else (EPOCHS, splits.Sizes())
    settings = {"epochs": epochs, "train_rows": sizes.train, "seed": SEED}
    if not (options.out / "images" / "images.json").exists():
        splits.write(options.out / "images", splits.make(SEED, sizes))
    data = splits.read(options.out / "images")
    trainer = Trainer(options.out, epochs, settings)
    parts = {"seeds": trainer.seeds, "finetunings": trainer.finetunings, "tail": trainer.tail, "snapshots": trainer.snapshots,
             "others": partial(train_others, options.out / "others", data, epochs["others"], settings)}
    with threadpool_limits(options.threads):
        for part in options.only or PARTS:
            parts[part]()


if __name__ == "__main__":
    main()
