"""Writes tests/data/segmentation.h and tests/data/segmentation/: label maps as PNG of every kind from a writer of our
own (zlib and nothing else), confusion scores, boundary scores by brute force (scipy.ndimage on every class by itself),
calibration of probability maps, sizes of samples, and half-precision numbers."""
import pathlib
import struct
import zlib

import numpy as np
from scipy import ndimage

from _c_header import array

HERE = pathlib.Path(__file__).resolve().parent.parent / "data"
FOLDER = HERE / "segmentation"


def integers(kind, name, values):
    return array(kind, name, values, "%d")


# ---- PNG ------------------------------------------------------------------------------------------------------------


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(values, bits):
    """[h, w] values as rows of bytes."""
    if bits == 16:
        return values.astype(">u2").view(np.uint8).reshape(values.shape[0], -1)
    if bits == 8:
        return values.astype(np.uint8)
    per = 8 // bits
    pad = -values.shape[1] % per
    wide = np.pad(values, ((0, 0), (0, pad))).astype(np.uint8).reshape(values.shape[0], -1, per)
    shifts = np.arange(per)[::-1] * bits
    return (wide << shifts).sum(2).astype(np.uint8)


def filtered(rows, unit):
    """Rows with each of the five filters in turn."""
    out = b""
    above = np.zeros(rows.shape[1], int)
    for y, row in enumerate(rows.astype(int)):
        left = np.concatenate([np.zeros(unit, int), row[:-unit]]) if len(row) > unit else np.zeros(len(row), int)
        corner = np.concatenate([np.zeros(unit, int), above[:-unit]]) if len(row) > unit else np.zeros(len(row), int)
        guess = left + above - corner
        paeth = np.where((abs(guess - left) <= abs(guess - above)) & (abs(guess - left) <= abs(guess - corner)), left,
                         np.where(abs(guess - above) <= abs(guess - corner), above, corner))
        kind = y % 5
        minus = [0, left, above, (left + above) // 2, paeth][kind]
        out += bytes([kind]) + ((row - minus) % 256).astype(np.uint8).tobytes()
        above = row
    return out


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def write_png(name, values, bits, kind=0, interlaced=False):
    """values [h, w], or [h, w, channels] for kinds 2 (RGB), 4 (grey and alpha) and 6 (RGBA)."""
    height, width = values.shape[:2]
    unit = max(1, bits // 8) * (values.shape[2] if values.ndim == 3 else 1)
    flat = values.reshape(height, -1)
    if interlaced:
        assert values.ndim == 2
        parts = [values[y::dy, x::dx] for y, x, dy, dx in ADAM7]
        data = b"".join(filtered(packed(p, bits), unit) for p in parts if p.size)
    else:
        data = filtered(packed(flat, bits), unit)
    blob = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0,
                                                             int(interlaced)))
    if kind == 3:
        blob += chunk(b"PLTE", bytes(range(3 * 2 ** bits)) if bits < 7 else bytes(i % 256 for i in range(768)))
    blob += chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    (FOLDER / name).write_bytes(blob)


def png_fixtures(out, rng):
    names = []
    for bits in (1, 2, 4, 8, 16):
        for kind in (0, 3):
            for interlaced in (False, True):
                if kind == 3 and bits == 16:
                    continue
                height, width = int(rng.integers(5, 12)), int(rng.integers(5, 14))
                values = rng.integers(0, 2 ** bits, (height, width))
                name = f"{'grey' if kind == 0 else 'palette'}{bits}{'i' if interlaced else ''}"
                write_png(name + ".png", values, bits, kind, interlaced)
                out.append(integers("int32_t", "png_" + name, values))
                names.append((name, height, width))
    out.append("static const struct { const char *name; int64_t height, width; const int32_t *labels; } pngs[] = {"
               + ", ".join(f'{{"{n}", {h}, {w}, png_{n}}}' for n, h, w in names) + "};\n")
    write_png("rgb.png", rng.integers(0, 256, (4, 5, 3)), 8, 2)
    write_png("rgba.png", rng.integers(0, 256, (4, 5, 4)), 8, 6)
    write_png("grey_alpha.png", rng.integers(0, 256, (4, 5, 2)), 8, 4)


# ---- scores ---------------------------------------------------------------------------------------------------------


def confusion_scores(confusion):
    confusion = confusion.astype(float)
    hit, label, guess = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    with np.errstate(all="ignore"):
        iou = hit / (label + guess - hit)
        dice = 2 * hit / (label + guess)
        accuracy = hit / label
    return {
        "iou": iou, "dice": dice, "accuracy": accuracy,
        "scores": [np.nanmean(iou), hit.sum() / confusion.sum(), np.nanmean(accuracy), np.nanmean(dice),
                   np.nansum(iou * label) / confusion.sum()],
    }


def inner_boundary(mask, distance):
    """As Cheng et al.'s code: the mask less its erosion by 3 x 3, `distance` times, outside counting as not in it."""
    eroded = ndimage.binary_erosion(np.pad(mask, 1), np.ones((3, 3)), distance, border_value=0)
    return mask & ~eroded[1:-1, 1:-1]


def boundary_scores(predicted, labels, classes, distance):
    """predicted, labels [n, h, w]; -1 does not count."""
    both, either = np.zeros(classes), np.zeros(classes)
    band = wrong = 0
    for guess, label in zip(predicted, labels):
        guess = np.where(label < 0, -1, guess)
        for c in range(classes):
            a, b = inner_boundary(label == c, distance), inner_boundary(guess == c, distance)
            both[c] += (a & b).sum()
            either[c] += (a | b).sum()
        height, width = label.shape
        for y in range(height):
            for x in range(width):
                window = label[max(0, y - distance):y + distance + 1, max(0, x - distance):x + distance + 1]
                if label[y, x] >= 0 and (window[window >= 0] != label[y, x]).any():
                    band += 1
                    wrong += guess[y, x] != label[y, x]
    with np.errstate(all="ignore"):
        return wrong / band if band else np.nan, np.nanmean(both / either)


def calibration_scores(probabilities, labels):
    keep = labels >= 0
    p, y = probabilities[keep].astype(float), labels[keep]
    truth = np.eye(p.shape[1])[y]
    top, hit = p.max(1), p.argmax(1) == y
    edges = np.arange(16) / 15
    bins = np.clip(np.searchsorted(edges, top, "right") - 1, 0, 14)
    ece = sum(abs(hit[bins == b].sum() - top[bins == b].sum()) for b in range(15)) / len(y)
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean(), ((p - truth) ** 2).sum(1).mean(), ece


def blobs(rng, images, height, width, classes, smooth):
    noise = rng.normal(size=(images, classes, height, width))
    return ndimage.gaussian_filter(noise, (0, 0, smooth, smooth)).argmax(1).astype(np.int32)


def score_fixtures(out, rng):
    images, height, width, classes = 3, 17, 23, 5
    labels = blobs(rng, images, height, width, classes - 1, 2)  # one class is never a label
    predicted = np.where(rng.random(labels.shape) < 0.75, labels, rng.integers(0, classes, labels.shape))
    predicted = np.where(rng.random(labels.shape) < 0.5, np.roll(labels, 1, 2), predicted).astype(np.int32)
    labels[rng.random(labels.shape) < 0.05] = -1
    labels[1, 3:9, 5:14] = -1
    keep = labels >= 0
    confusion = np.bincount(labels[keep] * classes + predicted[keep], minlength=classes ** 2)
    confusion = confusion.reshape(classes, classes)
    found = confusion_scores(confusion)
    out.append(f"enum {{ map_images = {images}, map_height = {height}, map_width = {width}, "
               f"map_classes = {classes} }};\n")
    out.append(integers("int32_t", "map_labels", np.where(labels < 0, 255, labels)))
    out.append(integers("int32_t", "map_predicted", predicted))
    out.append(integers("int64_t", "map_confusion", confusion))
    for key in ("iou", "dice", "accuracy", "scores"):
        out.append(array("double", "map_" + key, found[key]))
    rows = []
    for distance in (1, 2, 3, 5, 9, 30):
        rows.append((distance, *boundary_scores(predicted, labels, classes, distance)))
    out.append(f"enum {{ map_boundary_rows = {len(rows)} }};\n")
    out.append("/* distance, boundary error, boundary IoU */\n" + array("double", "map_boundary", rows))
    logits = np.eye(classes)[predicted] * 2 + rng.normal(size=(*labels.shape, classes))
    logits[0, 0, :, 0] = 800  # some as sure as they can be, some of them wrong
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p = (p / p.sum(-1, keepdims=True)).astype(np.float32)
    out.append(array("float", "map_probabilities", p, "%.9ef"))
    out.append("/* nll, brier, ece */\n" + array("double", "map_calibration", calibration_scores(p, labels)))


# ---- sampling -------------------------------------------------------------------------------------------------------


def sample_sizes(counts, pixels, balance):
    """min(count, t * share) with the t at which they sum to the pixels, by bisection."""
    counts = np.asarray(counts, float)
    present = counts > 0
    share = np.where(present, (1 - balance) * counts / counts.sum() + balance / present.sum(), 0)
    pixels = min(pixels, counts.sum())
    low, high = 0.0, 1e18
    for _ in range(400):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(counts, middle * share).sum() < pixels else (low, middle)
    return np.minimum(counts, high * share)


def sample_fixtures(out, rng):
    rows, expected = [], []
    for _ in range(60):
        counts = np.floor(10 ** rng.uniform(0, 6, 6)) * (rng.random(6) < 0.8)
        counts[rng.integers(6)] += 50
        pixels = float(np.floor(10 ** rng.uniform(2, 6)))
        balance = float(rng.choice([0, 0.25, 0.5, 1]))
        rows.append((*counts, pixels, balance))
        expected.append(sample_sizes(counts, pixels, balance))
    out.append(f"enum {{ size_rows = {len(rows)}, size_classes = 6 }};\n")
    out.append("/* pixels of each class, pixels wanted, balance */\n" + array("double", "size_given", rows))
    out.append(array("double", "size_expected", expected))


def half_fixtures(out, rng):
    bits = np.concatenate([rng.integers(0, 2 ** 32, 600, dtype=np.uint64),
                           [0, 0x80000000, 0x7F800000, 0xFF800000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001,
                            0x32FFFFFF, 0x387FFFFF, 0x38800000, 0x387FE000, 0x3F801000, 0x3F803000]]).astype(np.uint32)
    values = np.concatenate([bits.view(np.float32), rng.random(600).astype(np.float32),
                             (10 ** rng.uniform(-9, -3, 600)).astype(np.float32)])
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    out.append(f"enum {{ half_count = {len(values)} }};\n")
    out.append(integers("uint32_t", "half_given", values.view(np.uint32)))
    out.append(integers("uint16_t", "half_expected", halves.view(np.uint16)))


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    out = ["/* Written by tests/oracles/segmentation.py. */\n// clang-format off\n#include <math.h>\n#include <stdint.h>\n"]
    png_fixtures(out, rng)
    score_fixtures(out, rng)
    sample_fixtures(out, rng)
    half_fixtures(out, rng)
    (HERE / "segmentation.h").write_text("".join(out))


main()
