"""Small one-stage detectors: CenterNet, FCOS, SSD, RetinaNet and YOLO heads on four backbones, with losses and decoding.

Stands before corestack: members of the pool of bccd.py. Boxes are [x0, y0, x1, y1] in pixels of the network's input.
Paper: the members of section "Dense Prediction".
"""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from camvid_networks import Block, conv, resized, separable


class Residual(nn.Module):
    """Maps of strides 4, 8 and 16; those of `strides` come back, each with `out` channels, after a top-down pass."""
    def __init__(self, strides, out=48, widths=(24, 48, 80)):
        super().__init__()
        self.strides, self.out = strides, out
        self.stem = conv(3, 16, stride=2)
        self.down = nn.ModuleList(Block(a, b, 2) for a, b in zip((16, *widths), widths))
        self.lateral = nn.ModuleList(nn.Conv2d(w, out, 1) for w in widths)
        self.smooth = nn.ModuleList(conv(out, out) for _ in strides)

    def forward(self, x):
        x, maps = self.stem(x), {}
        for stride, level in zip((4, 8, 16), self.down):
            x = maps[stride] = level(x)
        top = None
        for number, stride in ((2, 16), (1, 8), (0, 4)):
            if stride >= min(self.strides):
                here = self.lateral[number](maps[stride])
                top = maps[stride] = here if top is None else here + resized(top, here)
        return [smooth(maps[stride]) for stride, smooth in zip(self.strides, self.smooth)]


class Plain(nn.Module):
    """VGG: convolutions and max-pooling; each stride in `strides` has its own map, without top-down connections."""
    def __init__(self, strides, out=64, widths=(16, 32, 64, 64, 64)):
        super().__init__()
        self.strides, self.out = strides, out
        self.levels = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2, ceil_mode=True) if a != 3 else nn.Identity(), conv(a, b, stride=2 if a == 3 else 1),
                          *([conv(b, b)] if b == 64 else []))
            for a, b in zip((3, *widths), widths))

    def forward(self, x):
        maps = []
        for number, level in enumerate(self.levels):
            x = level(x)
            if 2 << number in self.strides:
                maps.append(x)
        return maps


class Mobile(nn.Module):
    """Depth-wise separable convolutions, top-down sums at the strides in `strides`."""
    def __init__(self, strides, out=48):
        super().__init__()
        self.strides, self.out = strides, out
        self.stem = nn.Sequential(conv(3, 16, stride=2), separable(16, 32), separable(32, 48, 2))
        self.eight = nn.Sequential(separable(48, 80, 2), separable(80, 80), separable(80, 80))
        self.sixteen = nn.Sequential(separable(80, 128, 2), separable(128, 128), separable(128, 128, 1, 2))
        self.lateral = nn.ModuleList((nn.Conv2d(80, out, 1), nn.Conv2d(128, out, 1)))
        self.smooth = nn.ModuleList(separable(out, out) for _ in range(2))

    def forward(self, x):
        eight = self.eight(self.stem(x))
        top = self.lateral[1](self.sixteen(eight))
        eight = self.lateral[0](eight)
        return [self.smooth[0](eight + resized(top, eight)), self.smooth[1](top)]


class Dark(nn.Module):
    """Alternating 1x1 and 3x3 convolutions; one map at stride 8 that sees stride 16 by concatenation."""
    def __init__(self, strides, out=64):
        super().__init__()
        self.strides, self.out = strides, out
        self.low = nn.Sequential(conv(3, 16, stride=2), conv(16, 32, stride=2), conv(32, 16, 1), conv(16, 32),
                                 conv(32, 64, stride=2), conv(64, 32, 1), conv(32, 64))
        self.deep = nn.Sequential(conv(64, 112, stride=2), conv(112, 56, 1), conv(56, 112), conv(112, 56, 1))
        self.merge = conv(64 + 56, out, 1)

    def forward(self, x):
        low = self.low(x)
        return [self.merge(torch.cat([low, resized(self.deep(low), low)], 1))]


def areas(boxes):
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def iou_matrix(a, b):
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = (high - low).clamp(min=0).prod(-1)
    return inner / (areas(a)[:, None] + areas(b)[None] - inner).clamp(min=1e-6)


def giou_loss(a, b):
    """1 - GIoU of paired boxes."""
    inner = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(-1)
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp(min=0).prod(-1).clamp(min=1e-6)
    union = (areas(a) + areas(b) - inner).clamp(min=1e-6)
    return 1 - inner / union + (hull - union) / hull


def focal(logits, targets, alpha=0.25, gamma=2.0):
    """Sum of the focal loss of sigmoid outputs."""
    p = torch.sigmoid(logits)
    right = p * targets + (1 - p) * (1 - targets)
    weight = alpha * targets + (1 - alpha) * (1 - targets)
    return (weight * (1 - right) ** gamma * F.binary_cross_entropy_with_logits(logits, targets, reduction="none")).sum()


class Detector(nn.Module):
    """A backbone and one head per level. Subclasses say what the `outputs` numbers at each location (and anchor) mean.

    `anchors`: per level a list of (width, height) in pixels of a 320-pixel-wide frame; one dummy anchor where there are
    none. forward gives [N, P, outputs]; `places` gives P rows (x, y, stride, anchor width, anchor height)."""
    outputs = 0
    prior = 0.01  # what the class outputs say at the start

    def __init__(self, classes, backbone, anchors=None):
        super().__init__()
        self.classes, self.backbone = classes, backbone
        self.anchors = anchors or [[(0, 0)] for _ in backbone.strides]
        self.per_place = self.outputs + classes
        self.heads = nn.ModuleList(
            nn.Sequential(conv(backbone.out, backbone.out), nn.Conv2d(backbone.out, len(a) * self.per_place, 1))
            for a in self.anchors)
        for head in self.heads:
            bias = head[-1].bias.data.view(-1, self.per_place)
            bias.zero_()
            bias[:, :self.confident()] = -np.log((1 - self.prior) / self.prior)

    def confident(self):
        """How many of the leading outputs start at the prior."""
        return self.classes

    def forward(self, x):
        self.shape = x.shape[-2:]
        out, places = [], []
        for stride, feature, head, anchors in zip(self.backbone.strides, self.backbone(x), self.heads, self.anchors):
            n, _, h, w = feature.shape
            out.append(head(feature).view(n, len(anchors), self.per_place, h, w).permute(0, 3, 4, 1, 2)
                       .reshape(n, -1, self.per_place))
            y, x0 = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            grid = torch.stack([x0 * stride, y * stride, torch.full_like(y, stride)], -1)
            size = torch.tensor(anchors, dtype=torch.float32) * self.shape[1] / 320
            places.append(torch.cat([grid[:, :, None].expand(h, w, len(anchors), 3),
                                     size.expand(h, w, len(anchors), 2)], -1).reshape(-1, 5))
        self.places = torch.cat(places).to(x.device)
        return torch.cat(out, 1)

    def anchor_boxes(self):
        middle, size = self.places[:, :2], self.places[:, 3:]
        return torch.cat([middle - size / 2, middle + size / 2], 1)

    def from_anchors(self, raw):
        """Boxes of offsets relative to the anchors (variances 0.1 and 0.2, as SSD has them)."""
        middle = self.places[:, :2] + 0.1 * raw[..., :2] * self.places[:, 3:]
        size = self.places[:, 3:] * torch.exp((0.2 * raw[..., 2:]).clamp(max=4))
        return torch.cat([middle - size / 2, middle + size / 2], -1)

    def to_anchors(self, boxes, rows):
        """The inverse of from_anchors for paired boxes and places."""
        anchor = self.places[rows]
        middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
        return torch.cat([(middle - anchor[:, :2]) / anchor[:, 3:] / 0.1, torch.log(size / anchor[:, 3:]) / 0.2], 1)

    def matched(self, boxes, high=0.5, low=0.4):
        """[P]: the box whose IoU with the anchor is at least `high`, or the anchor's if it is a box's best; -1 below
        `low`, -2 in between."""
        anchors = self.anchor_boxes()
        if not len(boxes):
            return torch.full((len(anchors),), -1)
        overlap = iou_matrix(anchors, boxes)
        best, which = overlap.max(1)
        out = torch.where(best >= high, which, torch.where(best < low, -1, -2))
        out[overlap.argmax(0)] = torch.arange(len(boxes), device=out.device)
        return out

    def loss(self, x, truth):
        """Mean over the batch; truth: per image (boxes [G, 4], classes [G])."""
        raw = self(x)
        return sum(self.image_loss(raw[i], *t) for i, t in enumerate(truth)) / len(truth)


class CenterNet(Detector):
    """A heat map per class that peaks at box centres; size and offset are read at the peak."""
    outputs, prior = 4, 0.05

    def image_loss(self, raw, boxes, classes):
        target = torch.zeros(len(raw), self.classes, device=raw.device)
        middle, size = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
        near = ((self.places[:, None, :2] - middle[None]) ** 2 / (2 * (size[None] * 0.09) ** 2 + 2)).sum(-1)
        rows = ((self.places[:, None, :2] - middle[None]) ** 2).sum(-1).argmin(0)
        for g, c in enumerate(classes.tolist()):
            target[:, c] = torch.maximum(target[:, c], torch.exp(-near[:, g]))
        target[rows, classes] = 1.0
        logits = raw[:, :self.classes]
        p = torch.sigmoid(logits)
        hit = target == 1
        heat = -(F.logsigmoid(logits) * (1 - p) ** 2)[hit].sum() \
            - (F.logsigmoid(-logits) * p ** 2 * (1 - target) ** 4)[~hit].sum()
        if not len(boxes):
            return heat
        return heat / len(boxes) + 2 * giou_loss(self.boxes(raw)[rows], boxes).mean()

    def boxes(self, raw):
        middle = self.places[:, :2] + raw[..., -4:-2] * self.places[:, 2:3]
        size = 24 * torch.exp(raw[..., -2:].clamp(-4, 3))
        return torch.cat([middle - size / 2, middle + size / 2], -1)

    def decode(self, raw):
        heat = torch.sigmoid(raw[..., :self.classes])
        h, w = (side // self.backbone.strides[0] for side in self.shape)
        grid = heat.view(len(raw), h, w, self.classes).permute(0, 3, 1, 2)
        peak = F.max_pool2d(grid, 3, 1, 1) == grid
        return heat * peak.permute(0, 2, 3, 1).reshape(heat.shape), self.boxes(raw)


class FCOS(Detector):
    """Distances to the four sides at the locations near a box's centre, and a centre-ness that multiplies the score."""
    outputs = 5

    def boxes(self, raw):
        reach = self.places[:, 2:3] * 2 * torch.exp(raw[..., -4:].clamp(-4, 4))
        return torch.cat([self.places[:, :2] - reach[..., :2], self.places[:, :2] + reach[..., 2:]], -1)

    def image_loss(self, raw, boxes, classes):
        target = torch.zeros(len(raw), self.classes, device=raw.device)
        if not len(boxes):
            return focal(raw[:, :self.classes], target)
        x, y, stride = (self.places[:, i:i + 1] for i in range(3))
        sides = torch.stack([x - boxes[:, 0], y - boxes[:, 1], boxes[:, 2] - x, boxes[:, 3] - y], -1)  # [P, G, 4]
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = (sides.min(-1).values > 0) & ((x - middle[:, 0]).abs() < 1.5 * stride) & ((y - middle[:, 1]).abs() < 1.5 * stride)
        longest, small = sides.max(-1).values, stride == min(self.backbone.strides)
        edge = 40 * self.shape[1] / 320  # longer sides belong to the coarser level
        inside &= torch.where(small, longest <= edge, longest > edge) if len(self.backbone.strides) > 1 else inside
        size = torch.where(inside, areas(boxes)[None], torch.full_like(longest, 1e9))
        least, which = size.min(1)
        rows = torch.nonzero(least < 1e9)[:, 0]
        target[rows, classes[which[rows]]] = 1.0
        value = focal(raw[:, :self.classes], target) / max(1, len(rows))
        if not len(rows):
            return value
        own = sides[rows, which[rows]]
        ratio = own[:, [0, 1]].minimum(own[:, [2, 3]]) / own[:, [0, 1]].maximum(own[:, [2, 3]])
        centre = ratio.prod(1).clamp(min=0).sqrt()
        return value + giou_loss(self.boxes(raw)[rows], boxes[which[rows]]).mean() \
            + F.binary_cross_entropy_with_logits(raw[rows, self.classes], centre)

    def decode(self, raw):
        scores = torch.sigmoid(raw[..., :self.classes]) * torch.sigmoid(raw[..., self.classes:self.classes + 1])
        return scores.sqrt(), self.boxes(raw)


class SSD(Detector):
    """Anchors, a softmax over the classes and the background, three hard negatives for each positive."""
    outputs = 5  # the last class output is the background

    def confident(self):
        return 0

    def image_loss(self, raw, boxes, classes):
        which = self.matched(boxes)
        target = torch.where(which >= 0, classes[which.clamp(min=0)] if len(boxes) else which, self.classes)
        value = F.cross_entropy(raw[:, :self.classes + 1], target, reduction="none")
        rows = torch.nonzero(which >= 0)[:, 0]
        negative = value[which == -1]
        hard = negative.topk(min(len(negative), max(20, 3 * len(rows)))).values.sum()
        if not len(rows):
            return hard / 20
        place = F.smooth_l1_loss(raw[rows, -4:], self.to_anchors(boxes[which[rows]], rows), reduction="sum")
        return (value[rows].sum() + hard + place) / len(rows)

    def decode(self, raw):
        return raw[..., :self.classes + 1].softmax(-1)[..., :-1], self.from_anchors(raw[..., -4:])


class RetinaNet(Detector):
    """Anchors with one sigmoid per class and the focal loss."""
    outputs = 4

    def image_loss(self, raw, boxes, classes):
        which = self.matched(boxes)
        rows = torch.nonzero(which >= 0)[:, 0]
        target = torch.zeros(len(raw), self.classes, device=raw.device)
        if len(rows):
            target[rows, classes[which[rows]]] = 1.0
        kept = which != -2
        value = focal(raw[kept, :self.classes], target[kept]) / max(1, len(rows))
        if not len(rows):
            return value
        place = F.smooth_l1_loss(raw[rows, -4:], self.to_anchors(boxes[which[rows]], rows), reduction="sum", beta=0.5)
        return value + 0.5 * place / len(rows)

    def decode(self, raw):
        return torch.sigmoid(raw[..., :self.classes]), self.from_anchors(raw[..., -4:])


class YOLO(Detector):
    """One anchor per box, an objectness that multiplies the class probabilities, GIoU for the box."""
    outputs = 5

    def confident(self):
        return 0

    def image_loss(self, raw, boxes, classes):
        which = self.matched(boxes, high=0.6, low=0.5)
        rows = torch.nonzero(which >= 0)[:, 0]
        known = which != -2
        objectness = raw[:, self.classes]
        value = F.binary_cross_entropy_with_logits(objectness[known], (which >= 0).float()[known], reduction="sum")
        if not len(rows):
            return value / 10
        own = F.cross_entropy(raw[rows, :self.classes], classes[which[rows]])
        return value / len(rows) + own + 2 * giou_loss(self.from_anchors(raw[rows, -4:], rows), boxes[which[rows]]).mean()

    def from_anchors(self, raw, rows=slice(None)):
        """Offsets of at most one stride, sizes up to e^1.5 times the anchor's."""
        place = self.places[rows]
        middle = place[:, :2] + torch.tanh(raw[..., :2]) * place[:, 2:3]
        size = place[:, 3:] * torch.exp(1.5 * torch.tanh(raw[..., 2:]))
        return torch.cat([middle - size / 2, middle + size / 2], -1)

    def decode(self, raw):
        scores = raw[..., :self.classes].softmax(-1) * torch.sigmoid(raw[..., self.classes:self.classes + 1])
        return scores, self.from_anchors(raw[..., -4:])


def suppressed(boxes, scores, threshold):
    """Non-maximum suppression: row numbers that stay, best score first. boxes [n, 4] as corners, NumPy."""
    order, kept = np.argsort(-scores, kind="stable"), []
    size = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        inner = np.prod(np.clip(np.minimum(boxes[best, 2:], boxes[order, 2:])
                                - np.maximum(boxes[best, :2], boxes[order, :2]), 0, None), axis=1)
        order = order[inner / (size[best] + size[order] - inner) <= threshold]
    return kept
