"""The one network whose weights are averaged and sampled: built, kept as safetensors, its statistics recomputed, its predictions.

Stands before corestack: train.py trains it and writes checkpoints, evaluate.py and make_pool.py read what `corestack soup`, `swa`
and `swag` made of them. Paper: the weight-space baselines of the experiments (model soups, SWAG, snapshots, MC dropout).
"""
import json
import os
import pathlib
import sys

import numpy as np
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CORESTACK_LIBRARY", str(ROOT / "build" / "libcorestack.so"))
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "experiments" / "pools")]
import corestack  # noqa: E402

FOLDER = ROOT / "data" / "weight-space"
CLASSES, SIDE = 10, 28
STATISTICS_ROWS = 4096  # training images behind the batch-norm statistics of whatever is evaluated


def build(width=16):
    """Three convolutions with batch normalisation and pooling, two linear maps with dropout before each. No batch
    normalisation comes after a dropout, so its statistics do not depend on whether dropout is on."""
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stage(1, width), *stage(width, 2 * width), *stage(2 * width, 4 * width), nn.Flatten(),
                         nn.Dropout(0.25), nn.Linear(4 * width * (SIDE // 8) ** 2, 64), nn.ReLU(), nn.Dropout(0.25),
                         nn.Linear(64, CLASSES))


def modules(net, kind):
    return [module for module in net.modules() if isinstance(module, kind)]


# ---- files ----------------------------------------------------------------------------------------------------------

def save(path, net, **metadata):
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in net.state_dict().items()}
    corestack.io.write_safetensors(path, tensors, metadata={name: str(value) for name, value in metadata.items()})


def load(path):
    """The network with the weights of a file, in evaluation mode. The file's batch-norm statistics are read but are of no
    use for mixed weights: see recompute."""
    net = build()
    net.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in corestack.io.read_safetensors(path).items()})
    return net.eval()


# ---- images and predictions -----------------------------------------------------------------------------------------

def tensor(folder, name, rows=None):
    """The images of a split, or of "train", as the network takes them: [rows, 1, 28, 28], standardised by the training
    images. Conditions come one after the other."""
    facts = json.loads((folder / "images.json").read_text())
    x = np.load(folder / f"{name}.images.npy", mmap_mode="r")[:rows]
    scaled = (np.asarray(x, dtype=np.float32) - np.float32(facts["mean"])) / np.float32(facts["deviation"])
    return torch.from_numpy(scaled).view(-1, 1, SIDE, SIDE)


@torch.no_grad()
def recompute(net, images):
    """Batch-norm statistics of these weights over `images`, which are training images as they are: each is the mean over
    batches of 512. Averaged or sampled weights have activations that no checkpoint's running statistics describe."""
    norms = modules(net.eval(), nn.BatchNorm2d)
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # cumulative mean
        norm.train()
    for part in images[:STATISTICS_ROWS].split(512):
        net(part)
    return net.eval()


@torch.no_grad()
def probabilities(net, images, passes=1, seed=0):
    """[rows, classes] float32; with `passes` > 1 the mean over that many passes with dropout on."""
    torch.manual_seed(seed)
    for module in modules(net, nn.Dropout):
        module.train(passes > 1)
    total = 0
    for _ in range(passes):
        total = total + torch.cat([net(part).double().softmax(1) for part in images.split(500)])
    net.eval()
    return (total / passes).float().numpy()
