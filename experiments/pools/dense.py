"""What the scripts of the dense pools (camvid.py, bccd.py) share: resumable members, the training loop, costs, files.

Stands before corestack: small PyTorch networks are trained here and their predictions saved for it. Needs PyTorch and
Pillow. Paper: the members of section "Dense Prediction".
"""
import argparse
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from common import ROOT

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arguments(description, data):
    """The options of a dense pool; `data` is the default folder of the raw images, below the repository's root."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=ROOT / data, help=f"folder of the raw data (default: {data})")
    parser.add_argument("--out", type=Path, help="folder to write the pool into (default: data/pools/NAME)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the members")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch")
    parser.add_argument("--epochs", type=int, help="epochs of every member (default: each member's own)")
    parser.add_argument("--members", nargs="*", help="names of the members to train (default: all)")
    return parser


def save_json(path, document, indent=None):
    """Writes a JSON file that is whole or absent; compact unless `indent` is given."""
    partial = path.with_name(path.name + ".partial")
    separators = None if indent else (",", ":")
    partial.write_text(json.dumps(document, indent=indent, separators=separators) + "\n")
    os.replace(partial, path)


def finished(folder, name, settings):
    """What describes a member that is done, or None. Refuses one made with other settings."""
    path = folder / f"{name}.member.json"
    if not path.exists():
        return None
    facts = json.loads(path.read_text())
    if facts["settings"] != settings:
        raise SystemExit(f"{path}: made with {facts['settings']}, not {settings}; give another --out or remove it")
    return facts


def learning_rate(rate, step, steps):
    """Cosine from `rate` to zero after a linear warm-up over the first twentieth."""
    at = step / steps
    return rate * (at / 0.05 if at < 0.05 else 0.5 * (1 + math.cos(math.pi * (at - 0.05) / 0.95)))


def fit(net, rows, loss, epochs, rate=3e-3, batch=8, decay=1e-2, say=""):
    """Trains `net` in place with AdamW. loss(row numbers) is the mean loss of one augmented batch out of `rows` images."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
    steps, step, start = epochs * (rows // batch), 0, time.perf_counter()
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for numbers in torch.randperm(rows)[:rows // batch * batch].split(batch):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(rate, step, steps)
            optimizer.zero_grad()
            value = loss(numbers)
            value.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimizer.step()
            total += value.item()
            step += 1
        if epoch % 5 == 4 or epoch == epochs - 1:
            print(f"  {say} epoch {epoch + 1}: loss {total / (rows // batch):.4f}, {time.perf_counter() - start:.0f} s",
                  flush=True)
    return net.eval()


@torch.no_grad()
def cost(net, image):
    """(flops, params) of one image [1, 3, h, w]: two FLOPs per multiply-add of convolutions, the rest is left out."""
    count = 0

    def add(module, inputs, output):
        nonlocal count
        if isinstance(module, nn.ConvTranspose2d):
            count += 2 * inputs[0].numel() * module.weight[0].numel()
        else:
            count += 2 * output.numel() * module.weight[0].numel()

    handles = [m.register_forward_hook(add) for m in net.modules() if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d))]
    net.eval()(image)
    for handle in handles:
        handle.remove()
    return float(count), sum(p.numel() for p in net.parameters())


@torch.no_grad()
def latency(net, image, repeats=15):
    """Median milliseconds of one image on this machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        net(image)
        times.append(time.perf_counter() - start)
    return round(1e3 * float(np.median(times)), 2)


def colour_jitter(images, amount=0.2):
    """Brightness, contrast and a gain per channel, drawn per image; images [N, 3, h, w] with mean near zero."""
    shape = (len(images), 1, 1, 1)
    gain = 1 + amount * (2 * torch.rand(shape) - 1)
    channel = 1 + 0.5 * amount * (2 * torch.rand(len(images), 3, 1, 1) - 1)
    shift = 2 * amount * (2 * torch.rand(shape) - 1)
    return images * (gain * channel).to(images.device) + shift.to(images.device)
