"""Small segmentation networks from six families: U-Net, SegNet, FPN, dilated ASPP, Fast-SCNN and ENet.

Stands before corestack: members of the pool of camvid.py. Each maps images [N, 3, h, w] to logits at a resolution of
its own, which the caller resizes. Paper: the members of section "Dense Prediction".
"""
import torch
import torch.nn.functional as F
from torch import nn


def conv(inputs, outputs, size=3, stride=1, dilation=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, dilation * (size // 2), dilation, groups, bias=False),
        nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def separable(inputs, outputs, stride=1, dilation=1):
    return nn.Sequential(conv(inputs, inputs, 3, stride, dilation, inputs), conv(inputs, outputs, 1))


def resized(x, like):
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


class Block(nn.Module):
    """Two convolutions with a shortcut (projected where the shape changes)."""
    def __init__(self, inputs, outputs, stride=1, dilation=1):
        super().__init__()
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride, dilation),
                                  nn.Conv2d(outputs, outputs, 3, padding=dilation, dilation=dilation, bias=False),
                                  nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class UNet(nn.Module):
    """Encoder of four levels, decoder with the encoder's maps concatenated."""
    def __init__(self, classes, widths=(12, 24, 48, 96)):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(conv(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for number, level in enumerate(self.down):
            x = level(F.max_pool2d(x, 2, ceil_mode=True) if number else x)
            kept.append(x)
        kept.pop()
        for level in self.up:
            skip = kept.pop()
            x = level(torch.cat([resized(x, skip), skip], 1))
        return self.head(x)


class SegNet(nn.Module):
    """Decoder that puts each value back where the encoder's max-pooling found it; no maps are carried over."""
    def __init__(self, classes, widths=(16, 32, 56, 56)):
        super().__init__()
        self.down = nn.ModuleList(conv(a, b, 5 if a == 3 else 3) for a, b in zip((3, *widths), widths))
        self.middle = conv(widths[-1], widths[-1])
        self.up = nn.ModuleList(conv(a, b) for a, b in zip(widths[::-1], (*widths[-2::-1], widths[0])))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        places = []
        for level in self.down:
            x = level(x)
            shape = x.shape[-2:]
            x, place = F.max_pool2d(x, 2, return_indices=True)
            places.append((place, shape))
        x = self.middle(x)
        for level in self.up:
            place, shape = places.pop()
            x = level(F.max_unpool2d(x, place, 2, output_size=shape))
        return self.head(x)


class Pyramid(nn.Module):
    """Residual encoder; lateral maps of strides 4 to 16 are summed at stride 4 after a top-down pass (FPN)."""
    def __init__(self, classes, widths=(20, 40, 64, 96), lateral=40):
        super().__init__()
        self.stem = conv(3, widths[0], stride=2)
        self.down = nn.ModuleList(Block(a, b, 1 if a == widths[0] else 2) for a, b in zip((widths[0], *widths[1:]), widths[1:]))
        self.lateral = nn.ModuleList(nn.Conv2d(w, lateral, 1) for w in widths[1:])
        self.smooth = nn.ModuleList(conv(lateral, lateral) for _ in widths[1:])
        self.head = nn.Conv2d(lateral, classes, 1)

    def forward(self, x):
        x = self.stem(x)
        maps = []
        for level in self.down:
            x = level(x)
            maps.append(x)
        top, total = None, 0
        for number in range(len(maps) - 1, -1, -1):
            here = self.lateral[number](maps[number])
            top = here if top is None else here + resized(top, here)
            total = total + resized(self.smooth[number](top), maps[0])
        return self.head(total)


class Dilated(nn.Module):
    """Stride 4 kept, dilation 2 and 4, atrous spatial pyramid pooling with an image-wide branch (DeepLab)."""
    def __init__(self, classes, width=64, rates=(2, 4, 8)):
        super().__init__()
        self.low = nn.Sequential(conv(3, 24, stride=2), Block(24, 24))
        self.deep = nn.Sequential(Block(24, width, 2), Block(width, width, 1, 2), Block(width, width, 1, 4))
        self.branches = nn.ModuleList([conv(width, 32, 1), *(conv(width, 32, 3, 1, r) for r in rates)])
        self.wide = nn.Conv2d(width, 32, 1)
        self.merge = conv(32 * (len(rates) + 2), 48, 1)
        self.head = nn.Sequential(conv(48 + 24, 32), nn.Conv2d(32, classes, 1))

    def forward(self, x):
        low = self.low(x)
        x = self.deep(low)
        wide = F.relu(self.wide(x.mean((2, 3), keepdim=True))).expand(-1, -1, *x.shape[-2:])
        x = self.merge(torch.cat([*(branch(x) for branch in self.branches), wide], 1))
        return self.head(torch.cat([resized(x, low), low], 1))


class FastSCNN(nn.Module):
    """A shallow branch at stride 8 of the full image, a deep one of inverted bottlenecks, added; depth-wise throughout."""
    def __init__(self, classes, width=64):
        super().__init__()
        self.learn = nn.Sequential(conv(3, 16, stride=2), separable(16, 32, 2), separable(32, 48, 2))
        self.deep = nn.Sequential(self.bottleneck(48, 48, 2), self.bottleneck(48, 64, 1), self.bottleneck(64, 96, 2),
                                  self.bottleneck(96, 96, 1))
        self.deep_out, self.shallow_out = nn.Conv2d(96, width, 1), nn.Conv2d(48, width, 1)
        self.pool = nn.ModuleList(conv(96, 24, 1) for _ in (1, 2, 4))
        self.pooled = conv(96 + 72, 96, 1)
        self.head = nn.Sequential(separable(width, width), separable(width, width), nn.Conv2d(width, classes, 1))

    @staticmethod
    def bottleneck(inputs, outputs, stride, factor=4):
        wide = factor * inputs
        return nn.Sequential(conv(inputs, wide, 1), conv(wide, wide, 3, stride, 1, wide),
                             nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shallow = self.learn(x)
        x = self.deep(shallow)
        pooled = [resized(level(F.adaptive_avg_pool2d(x, side)), x) for level, side in zip(self.pool, (1, 2, 4))]
        x = self.pooled(torch.cat([x, *pooled], 1))
        return self.head(F.relu(resized(self.deep_out(x), shallow) + self.shallow_out(shallow)))


class Bottleneck(nn.Module):
    """ENet's: 1x1 down, a dilated or an asymmetric convolution, 1x1 up, dropout, shortcut."""
    def __init__(self, width, dilation=1, asymmetric=False):
        super().__init__()
        inner = width // 2
        middle = conv(inner, inner, 3, 1, dilation)
        if asymmetric:
            middle = nn.Sequential(nn.Conv2d(inner, inner, (5, 1), padding=(2, 0), bias=False),
                                   nn.Conv2d(inner, inner, (1, 5), padding=(0, 2), bias=False),
                                   nn.BatchNorm2d(inner), nn.PReLU())
        self.body = nn.Sequential(conv(width, inner, 1), middle, nn.Conv2d(inner, width, 1, bias=False),
                                  nn.BatchNorm2d(width), nn.Dropout2d(0.05))

    def forward(self, x):
        return F.relu(x + self.body(x))


class ENet(nn.Module):
    """Early stride 4, a long chain of cheap bottlenecks, and a short decoder of transposed convolutions."""
    def __init__(self, classes, width=64):
        super().__init__()
        self.stem = nn.Conv2d(3, 13, 3, 2, 1, bias=False)
        self.stem_norm = nn.Sequential(nn.BatchNorm2d(16), nn.PReLU())
        chain = []
        for _ in range(2):
            chain += [Bottleneck(width), Bottleneck(width, 2), Bottleneck(width, asymmetric=True), Bottleneck(width, 4)]
        self.body = nn.Sequential(conv(16, 48, stride=2), Bottleneck(48), conv(48, width, stride=2), *chain)
        self.up = nn.Sequential(nn.ConvTranspose2d(width, 32, 2, 2), nn.BatchNorm2d(32), nn.ReLU(), Bottleneck(32),
                                nn.ConvTranspose2d(32, 16, 2, 2), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Conv2d(16, classes, 3, padding=1)

    def forward(self, x):
        x = self.stem_norm(torch.cat([self.stem(x), F.max_pool2d(x, 2)], 1))
        return self.head(self.up(self.body(x)))
