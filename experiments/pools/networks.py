"""Small PyTorch image classifiers behind scikit-learn's fit/predict_proba, so that they can be members of a pool.

Stands before corestack: members of the pools of fashion_mnist.py and mnist.py. Runs on a GPU where there is one.
Paper: the heterogeneous pool (convolutional, transformer and MLP families) of the experiments.
"""
import math
from functools import partial

import numpy as np
import torch
from torch import nn

from common import Member

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Residual(nn.Sequential):
    """x + f(x)"""
    def forward(self, x):
        return x + super().forward(x)


class Attention(nn.Module):
    """Multi-head self-attention on [rows, tokens, dim]."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(dim, 3 * dim)
        self.output = nn.Linear(dim, dim)

    def forward(self, x):
        rows, tokens, dim = x.shape
        q, k, v = self.inputs(x).view(rows, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(dim // self.heads)).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).reshape(rows, tokens, dim))


class Swap(nn.Module):
    """Exchanges the last two axes."""
    def forward(self, x):
        return x.transpose(-2, -1)


class Tokens(nn.Module):
    """[rows, 1, side, side] to [rows, 49, dim]: a 7x7 grid of patches, each through one linear map, plus a position."""
    def __init__(self, side, dim):
        super().__init__()
        self.patches = nn.Conv2d(1, dim, side // 7, side // 7)
        self.position = nn.Parameter(torch.randn(49, dim) * 0.02)

    def forward(self, x):
        return self.patches(x).flatten(2).transpose(1, 2) + self.position


class TokenMean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def hidden(dim, factor=2):
    return nn.Sequential(nn.Linear(dim, factor * dim), nn.GELU(), nn.Linear(factor * dim, dim))


def cnn(side, classes, width=16):
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stage(1, width), *stage(width, 2 * width), nn.Flatten(),
                         nn.Linear(2 * width * (side // 4) ** 2, 64), nn.ReLU(), nn.Linear(64, classes))


def resnet(side, classes, width=16):
    def block(dim):
        return Residual(nn.Conv2d(dim, dim, 3, padding=1, bias=False), nn.BatchNorm2d(dim), nn.ReLU(),
                        nn.Conv2d(dim, dim, 3, padding=1, bias=False), nn.BatchNorm2d(dim))
    return nn.Sequential(nn.Conv2d(1, width, 3, stride=2, padding=1), block(width), nn.ReLU(),
                         nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), block(2 * width), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes))


def convnext(side, classes, dim=32, depth=3):
    def block():
        return Residual(nn.Conv2d(dim, dim, 5, padding=2, groups=dim), nn.GroupNorm(1, dim),
                        nn.Conv2d(dim, 2 * dim, 1), nn.GELU(), nn.Conv2d(2 * dim, dim, 1))
    return nn.Sequential(nn.Conv2d(1, dim, side // 7, side // 7), *(block() for _ in range(depth)),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(dim), nn.Linear(dim, classes))


def vit(side, classes, dim=48, depth=3):
    def block():
        return [Residual(nn.LayerNorm(dim), Attention(dim, 4)), Residual(nn.LayerNorm(dim), hidden(dim))]
    layers = [layer for _ in range(depth) for layer in block()]
    return nn.Sequential(Tokens(side, dim), *layers, TokenMean(), nn.LayerNorm(dim), nn.Linear(dim, classes))


def mixer(side, classes, dim=48, depth=3):
    def block():
        return [Residual(nn.LayerNorm(dim), Swap(), hidden(49, 1), Swap()), Residual(nn.LayerNorm(dim), hidden(dim))]
    layers = [layer for _ in range(depth) for layer in block()]
    return nn.Sequential(Tokens(side, dim), *layers, TokenMean(), nn.LayerNorm(dim), nn.Linear(dim, classes))


def wide_mlp(side, classes, width=512):
    return nn.Sequential(nn.Flatten(), nn.Linear(side * side, width), nn.ReLU(), nn.Dropout(0.2),
                         nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, classes))


class Network:
    """Trains `build(side, classes)` with AdamW and a one-cycle rate on rows that are flattened square images."""
    def __init__(self, build, seed, epochs, rate=3e-3, batch=128):
        self.build, self.seed, self.epochs, self.rate, self.batch = build, seed, epochs, rate, batch

    def images(self, x):
        scaled = (np.asarray(x, dtype=np.float32) - self.mean) / self.deviation
        return torch.from_numpy(scaled).view(len(x), 1, self.side, self.side).to(DEVICE)

    def fit(self, x, y):
        torch.manual_seed(self.seed)
        self.classes_ = np.unique(y)
        self.side = math.isqrt(x.shape[1])
        self.mean, self.deviation = np.float32(x.mean()), np.float32(x.std())
        images, labels = self.images(x), torch.from_numpy(np.asarray(y)).to(DEVICE)
        self.net = self.build(self.side, len(self.classes_)).to(DEVICE)
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.rate, weight_decay=1e-2)
        steps = math.ceil(len(y) / self.batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, epochs=self.epochs, steps_per_epoch=steps)
        self.net.train()
        for _ in range(self.epochs):
            for rows in torch.randperm(len(y)).to(DEVICE).split(self.batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(self.net(images[rows]), labels[rows]).backward()
                optimizer.step()
                schedule.step()
        self.net.eval()
        return self

    @torch.no_grad()
    def predict_proba(self, x):
        return torch.cat([self.net(part).double().softmax(1) for part in self.images(x).split(200)]).cpu().numpy()

    @torch.no_grad()
    def cost(self):
        """(flops, params): two per multiply-add of the convolutions, linear maps and attention products."""
        count = 0

        def add(module, inputs, output):
            nonlocal count
            if isinstance(module, nn.Conv2d):
                count += 2 * output.numel() * module.weight[0].numel()
            elif isinstance(module, nn.Linear):
                count += 2 * output.numel() * module.in_features
            elif isinstance(module, Attention):
                count += 4 * output.numel() * output.shape[1]

        handles = [module.register_forward_hook(add) for module in self.net.modules()]
        self.net(torch.zeros(1, 1, self.side, self.side, device=DEVICE))
        for handle in handles:
            handle.remove()
        return count, sum(p.numel() for p in self.net.parameters())


def network_members(seed, epochs, names=("cnn_a", "cnn_b", "resnet", "convnext", "vit", "mixer", "wide_mlp")):
    """The named networks; cnn_a and cnn_b are near-duplicates that differ in their seed alone."""
    table = {"cnn_a": (cnn, "cnn", 0), "cnn_b": (cnn, "cnn", 1000), "resnet": (resnet, "cnn", 0),
             "convnext": (convnext, "cnn", 0), "vit": (vit, "transformer", 0), "mixer": (mixer, "mlp", 0),
             "wide_mlp": (wide_mlp, "mlp", 0)}
    return [Member(name, table[name][1], partial(Network, table[name][0], seed + table[name][2], epochs))
            for name in names]
