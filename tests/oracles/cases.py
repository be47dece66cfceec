"""Writes tests/data/cases.h: the guard's measures of images, and their levels, in NumPy and SciPy."""

import os

import numpy as np
from _c_header import array
from scipy import stats

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
MEMBERS, CLASSES, CASES, NEW, PIXELS, FOLDS = 3, 4, 12, 5, 24, 4
ALARMS = 0.005


def draw(rng, share, sharpness):
    """Maps of an image, float32 [members, pixels, classes]."""
    label = rng.choice(CLASSES, PIXELS, p=share)
    score = rng.normal(size=(MEMBERS, PIXELS, CLASSES)) * 0.8 + sharpness * np.eye(CLASSES)[label]
    p = np.exp(score)
    return (p / p.sum(-1, keepdims=True)).astype(np.float32)


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def measure(maps):
    """[1 + members + classes] of [members, pixels, classes]; members that are NaN are absent."""
    there = ~np.isnan(maps).any((1, 2))
    p = maps[there].astype(float)
    spread = entropy(p.mean(0)) - entropy(p).mean(0)
    if 1 < there.sum() < MEMBERS:
        spread = spread * (1 - 1 / MEMBERS) / (1 - 1 / there.sum())
    logs = np.full(MEMBERS, np.nan)
    logs[there] = np.log(entropy(p) + 1e-3).mean(1)
    share = np.bincount(p.mean(0).argmax(-1), minlength=CLASSES) / PIXELS
    return np.concatenate([[np.log(spread.mean() + 1e-4)], logs, np.log(share + 5e-3)])


PARTS = (slice(0, 1 + MEMBERS), slice(1 + MEMBERS, None))


class Part:
    def __init__(self, numbers, folds):
        distance = np.empty(len(numbers))
        for fold in np.unique(folds):
            self.moments(numbers[folds != fold])
            distance[folds == fold] = self.distance(numbers[folds == fold])
        self.moments(numbers)
        self.center, self.spread, self.cases = distance.mean(), distance.std(ddof=1), len(distance)
        self.limit = np.sort(distance)[-int(np.ceil(len(distance) / 100))]

    def moments(self, numbers):
        self.mean, self.scale = numbers.mean(0), numbers.std(0, ddof=1) + 0.05

    def distance(self, numbers):
        return np.log(np.nanmean(((numbers - self.mean) / self.scale) ** 2, -1) + 1e-9) / 2

    def level(self, numbers):
        distance = self.distance(numbers)
        t = (distance - self.center) / (self.spread * np.sqrt(1 + 1 / self.cases))
        return np.where(distance > self.limit, stats.t.sf(t, self.cases - 1), 1)


def main():
    rng = np.random.default_rng(26)
    shares = rng.dirichlet(np.full(CLASSES, 8.0), CASES)
    fitted = np.stack([draw(rng, share, 2.5) for share in shares])
    even = np.full(CLASSES, 1 / CLASSES)
    new = [draw(rng, even, 2.5), draw(rng, even, 0.3), draw(rng, even, 9.0), draw(rng, [0.97, 0.01, 0.01, 0.01], 2.5)]
    new.append(new[1].copy())
    new[4][1] = np.nan
    new = np.stack(new)
    folds = np.arange(CASES) % FOLDS
    numbers = np.stack([measure(maps) for maps in fitted])
    found = np.stack([measure(maps) for maps in new])
    parts = [Part(numbers[:, which], folds) for which in PARTS]
    level = np.min([2 * part.level(found[:, which]) for part, which in zip(parts, PARTS)], 0)
    level = np.minimum(level, 1)
    text = "/* Written by tests/oracles/cases.py. */\n/* clang-format off */\n"
    text += f"enum {{ CA_MEMBERS = {MEMBERS}, CA_CLASSES = {CLASSES}, CA_CASES = {CASES}, CA_NEW = {NEW}, CA_PIXELS = {PIXELS}, "
    text += f"CA_FOLDS = {FOLDS} }};\n/* of each member, case by case */\n"
    text += array("float", "CA_FITTED", fitted.swapaxes(0, 1)) + array("float", "CA_MAPS", new.swapaxes(0, 1))
    text += array("double", "CA_NUMBERS", numbers) + array("double", "CA_FOUND", found) + array("double", "CA_LEVEL", level)
    text += array("double", "CA_LAMBDA", 0.75 * np.maximum(0, 1 - level / ALARMS))
    text += array("double", "CA_CENTER", [part.center for part in parts])
    text += array("double", "CA_SPREAD", [part.spread for part in parts])
    text += array("double", "CA_LIMIT", [part.limit for part in parts])
    with open(os.path.join(FOLDER, "cases.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
