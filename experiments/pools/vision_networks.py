"""The networks of the vision pools: more families than networks.py, and training with augmentation, snapshots, MC dropout.

Stands before corestack: members of the pools of vision.py. Runs on a GPU where there is one. Paper: the heterogeneous
pool (ResNet, RegNet, EfficientNet, ConvNeXt, ViT, Swin, MLP-Mixer) of the experiments, at 28x28 pixels.
"""
import copy
import math

import numpy as np
import torch
from torch import nn

from networks import DEVICE, Attention, Network, Residual, TokenMean, hidden


class Gate(nn.Module):
    """Squeeze and excitation: x times a weight in (0, 1) per channel, computed from the channel means."""
    def __init__(self, dim, inner):
        super().__init__()
        self.weights = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(dim, inner, 1), nn.ReLU(),
                                     nn.Conv2d(inner, dim, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.weights(x)


class Shortcut(nn.Module):
    """skip(x) + f(x) followed by `last`; skip is a strided 1x1 convolution where the shape changes."""
    def __init__(self, inputs, outputs, stride, body, last):
        super().__init__()
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else conv(inputs, outputs, 1, stride)
        self.body, self.last = body, last

    def forward(self, x):
        return self.last(self.skip(x) + self.body(x))


class WindowAttention(Attention):
    """Self-attention inside windows of window x window tokens, on [rows, side, side, dim], with a learned bias for each
    relative position. `shift` > 0 moves the windows cyclically; tokens that only the wrap brought together do not see each
    other. Paper of the model: Swin, arXiv 2103.14030."""
    def __init__(self, dim, heads, side, window, shift):
        super().__init__(dim, heads)
        self.window, self.shift = window, shift
        self.bias = nn.Parameter(torch.zeros(heads, (2 * window - 1) ** 2))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offset = at[:, :, None] - at[:, None, :] + window - 1
        self.register_buffer("offsets", offset[0] * (2 * window - 1) + offset[1])
        region = torch.zeros(1, side, side, 1)
        for i, rows in enumerate((slice(0, side - window), slice(side - window, side - shift), slice(side - shift, side))):
            for j, columns in enumerate((slice(0, side - window), slice(side - window, side - shift),
                                         slice(side - shift, side))):
                region[:, rows, columns] = 3 * i + j
        region = self.split(region)[:, :, 0]
        apart = region[:, :, None] != region[:, None, :]
        self.register_buffer("mask", apart.float() * -100.0 if shift else torch.zeros(1, 1, 1))

    def split(self, x):
        """[rows, side, side, dim] to [rows * windows, window * window, dim]"""
        rows, side, _, dim = x.shape
        count = side // self.window
        x = x.view(rows, count, self.window, count, self.window, dim).transpose(2, 3)
        return x.reshape(rows * count ** 2, self.window ** 2, dim)

    def attend(self, x, windows):
        rows, tokens, dim = x.shape
        q, k, v = self.inputs(x).view(rows, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q / math.sqrt(dim // self.heads)) @ k.transpose(-2, -1) + self.bias[:, self.offsets]
        if self.shift:
            scores = scores.view(-1, windows, self.heads, tokens, tokens) + self.mask[:, None]
            scores = scores.view(rows, self.heads, tokens, tokens)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, tokens, dim))

    def forward(self, x):
        rows, side, _, dim = x.shape
        count = side // self.window
        x = self.split(torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x)
        x = self.attend(x, count ** 2).view(rows, count, count, self.window, self.window, dim).transpose(2, 3)
        x = x.reshape(rows, side, side, dim)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


class PatchMerge(nn.Module):
    """[rows, side, side, dim] to [rows, side / 2, side / 2, 2 dim]: four neighbours through one linear map."""
    def __init__(self, dim):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        corners = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
        return self.map(self.norm(torch.cat(corners, dim=-1)))


class ChannelsLast(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1)


def conv(inputs, outputs, kernel, stride=1, groups=1):
    """Convolution and batch normalisation, same size up to the stride."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs))


def head(dim, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(dim, classes)]


def stages(block, first, widths, depth):
    """`depth` blocks per width; the first of every width but the first halves the image."""
    layers, inputs = [], first
    for number, width in enumerate(widths):
        for repeat in range(depth):
            layers.append(block(inputs, width, 2 if number > 0 and repeat == 0 else 1))
            inputs = width
    return layers


def resnet(side, classes, widths=(20, 40, 80), depth=1):
    """Residual blocks of two 3x3 convolutions."""
    def block(inputs, outputs, stride):
        body = nn.Sequential(conv(inputs, outputs, 3, stride), nn.ReLU(), conv(outputs, outputs, 3))
        return Shortcut(inputs, outputs, stride, body, nn.ReLU())
    return nn.Sequential(conv(1, widths[0], 3, 2), nn.ReLU(), *stages(block, widths[0], widths, depth),
                         *head(widths[-1], classes))


def regnet(side, classes, widths=(24, 56, 96), depth=1, group=8):
    """RegNetY: bottleneck-free residual blocks with a grouped 3x3 convolution and a gate."""
    def block(inputs, outputs, stride):
        body = nn.Sequential(conv(inputs, outputs, 1), nn.ReLU(), conv(outputs, outputs, 3, stride, outputs // group),
                             nn.ReLU(), Gate(outputs, max(4, inputs // 4)), conv(outputs, outputs, 1))
        return Shortcut(inputs, outputs, stride, body, nn.ReLU())
    return nn.Sequential(conv(1, widths[0], 3, 2), nn.ReLU(), *stages(block, widths[0], widths, depth),
                         *head(widths[-1], classes))


def efficientnet(side, classes, widths=(16, 24, 40), depth=1, expand=4):
    """EfficientNet's MBConv blocks: widen by a 1x1 convolution, depthwise 3x3, gate, narrow, with a shortcut where the
    shape stays."""
    def block(inputs, outputs, stride):
        inner = expand * inputs
        body = [*conv(inputs, inner, 1), nn.SiLU(), *conv(inner, inner, 3, stride, inner), nn.SiLU(),
                Gate(inner, max(4, inputs // 4)), *conv(inner, outputs, 1)]
        return Residual(*body) if inputs == outputs and stride == 1 else nn.Sequential(*body)
    last = 4 * widths[-1]
    return nn.Sequential(conv(1, widths[0], 3, 2), nn.SiLU(), *stages(block, widths[0], widths, depth),
                         conv(widths[-1], last, 1), nn.SiLU(), *head(last, classes))


def swin(side, classes, dim=32, pairs=1):
    """Two stages of Swin blocks: side/2 x side/2 tokens of 2x2 pixels in windows of 7x7 (every second block shifted),
    then, after merging patches, one window."""
    def block(width, tokens, shift):
        return [Residual(nn.LayerNorm(width), WindowAttention(width, width // 32, tokens, 7, shift)),
                Residual(nn.LayerNorm(width), hidden(width))]
    first = [layer for _ in range(pairs) for shift in (0, 3) for layer in block(dim, side // 2, shift)]
    second = [layer for _ in range(pairs) for layer in block(2 * dim, side // 4, 0)]
    return nn.Sequential(nn.Conv2d(1, dim, 2, 2), ChannelsLast(), nn.LayerNorm(dim), *first, PatchMerge(dim), *second,
                         nn.LayerNorm(2 * dim), nn.Flatten(1, 2), TokenMean(), nn.Linear(2 * dim, classes))


def dropout_cnn(side, classes, width=16):
    """The small CNN with dropout after each stage and before the last layer."""
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2),
                nn.Dropout(0.25)]
    return nn.Sequential(*stage(1, width), *stage(width, 2 * width), nn.Flatten(),
                         nn.Linear(2 * width * (side // 4) ** 2, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, classes))


def augmented(images):
    """A batch [rows, 1, side, side], each image mirrored or not and moved by up to two pixels either way."""
    rows, _, side, _ = images.shape
    mirrored = torch.where(torch.rand(rows, 1, 1, 1, device=images.device) < 0.5, images.flip(3), images)
    padded = nn.functional.pad(mirrored, (2, 2, 2, 2), mode="replicate")
    moves = torch.randint(0, 5, (2, rows, 1), device=images.device)
    down, right = moves + torch.arange(side, device=images.device)
    return padded[torch.arange(rows, device=images.device)[:, None, None], 0, down[:, :, None], right[:, None, :]][:, None]


class VisionNetwork(Network):
    """`Network` with augmentation, and a cosine rate that starts again `cycles` times: a snapshot of the network is kept at
    the end of each cycle. `balanced`: rows are drawn so that all classes come equally often. `passes` > 1: the
    prediction is the mean of that many passes with dropout on (MC dropout)."""
    def __init__(self, build, seed, epochs, rate=2e-3, batch=64, cycles=1, balanced=False, passes=1):
        super().__init__(build, seed, epochs, rate, batch)
        self.cycles, self.balanced, self.passes = cycles, balanced, passes

    def order(self, labels):
        """Row numbers of one epoch."""
        if not self.balanced:
            return torch.randperm(len(labels)).to(DEVICE)
        weights = 1.0 / torch.bincount(labels).double()
        return torch.multinomial(weights[labels], len(labels), replacement=True)

    def learning_rate(self, step, steps):
        """Cosine from `rate` to zero in each cycle of `steps` steps, after a linear warm-up over its first tenth."""
        at = step % steps / steps
        return self.rate * (at / 0.1 if at < 0.1 else 0.5 * (1 + math.cos(math.pi * (at - 0.1) / 0.9)))

    def fit(self, x, y):
        torch.manual_seed(self.seed)
        self.classes_ = np.unique(y)
        self.side = math.isqrt(x.shape[1])
        self.mean, self.deviation = np.float32(x.mean()), np.float32(x.std())
        images, labels = self.images(x), torch.from_numpy(np.asarray(y)).to(DEVICE)
        self.net = self.build(self.side, len(self.classes_)).to(DEVICE)
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=self.rate, weight_decay=2e-2)
        steps, step = self.epochs // self.cycles * math.ceil(len(y) / self.batch), 0
        self.snapshots = []
        for _ in range(self.cycles):
            self.net.train()
            for _ in range(self.epochs // self.cycles):
                for rows in self.order(labels).split(self.batch):
                    optimizer.param_groups[0]["lr"] = self.learning_rate(step, steps)
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(self.net(augmented(images[rows])), labels[rows]).backward()
                    optimizer.step()
                    step += 1
            self.net.eval()
            self.snapshots.append(copy.deepcopy(self.net))
        return self

    @torch.no_grad()
    def predict_proba(self, x):
        if self.passes == 1:
            return super().predict_proba(x)
        torch.manual_seed(self.seed + 1)
        for module in self.net.modules():
            if isinstance(module, nn.Dropout):
                module.train()
        total = sum(super(VisionNetwork, self).predict_proba(x) for _ in range(self.passes))
        self.net.eval()
        return total / self.passes
