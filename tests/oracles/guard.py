"""Writes tests/data/guard.h: levels, pi and lambda of two batches against a reference, in NumPy by docs/model-format.md
(section NOVE). Levels and pi must agree bit for bit: they are counts over counts. The rows are made from integers, here
and in tests/novelty/guard.c."""
import pathlib

import numpy as np

from _c_header import array

MEMBERS, CLASSES, REFERENCE, BATCH, FOLDS, FINE = 4, 11, 900, 120, 5, 128
F = np.float32


# ---- rows --------------------------------------------------------------------------------------------------------

def mixed(*parts):
    with np.errstate(over="ignore"):
        h = np.uint32(0)
        for part, factor in zip(parts, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)):
            h = h ^ (np.asarray(part).astype(np.uint32) * np.uint32(factor))
        for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
        return (h ^ (h >> np.uint32(15))).astype(np.int64)


def rows(first, count, noise):
    """[members, rows, classes]"""
    i = np.arange(first, first + count)
    y = mixed(i, 99, 7) % 13
    y = np.where(y < 9, y % 3, y - 2)
    i, c = i[:, None], np.arange(CLASSES)[None, :]
    members = []
    for k in range(MEMBERS):
        v = 1 + mixed(i, 50, c) % 60 + mixed(i, k, c) % noise + 400 * (y[:, None] == c)
        members.append((v / v.sum(1, keepdims=True)).astype(F))
    return np.stack(members)


# ---- what is measured, in float32 --------------------------------------------------------------------------------

def log_short(x):
    bits = x.view(np.uint32).astype(np.int64)
    power = (bits + (0x3F800000 - 0x3F3504F3)) >> 23
    f = (bits - (power << 23) + 0x3F800000).astype(np.uint32).view(F) - F(1)
    e = (power - 127).astype(F)
    series = np.full_like(f, F(0.11986405402421951))
    for constant in (-0.18761718273162842, 0.20492568612098694, -0.2489776611328125, 0.33315545320510864,
                     -0.5000148415565491):
        series = series * f + F(constant)
    return e * F(0.69314718) + (f + f * f * series)


def entropy(p):
    x = np.abs(p) + F(1e-30)
    term = -x * log_short(x)
    lane = np.zeros((len(p), 8), F)
    for c in range(0, CLASSES - CLASSES % 8, 8):
        lane = lane + term[:, c:c + 8]
    rest = CLASSES % 8
    lane[:, :rest] = lane[:, :rest] + term[:, CLASSES - rest:]
    a = lane.T
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))


def measure(p):
    total = np.zeros_like(p[0])
    entropies = np.zeros(p.shape[1], F)
    logs = []
    for member in p:
        h = entropy(member)
        total, entropies = total + member, entropies + h
        logs.append(log_short(h + F(1e-3)))
    mean = total * (F(1) / F(len(p)))
    return np.maximum(entropy(mean) - entropies / F(len(p)), F(0)), np.stack(logs, 1), mean.argmax(1)


def moments(logs):
    x = logs.astype(float)
    mean = np.cumsum(x, axis=0)[-1] / len(x)
    d = x - mean
    covariance = np.cumsum(d[:, :, None] * d[:, None, :], axis=0)[-1] / (len(x) - 1)
    return mean, covariance + 1e-3 * np.eye(x.shape[1])


def distance(logs, mean, covariance):
    d = logs.astype(float) - mean
    return (np.linalg.solve(np.linalg.cholesky(covariance), d.T) ** 2).sum(0).astype(F)


# ---- tables ------------------------------------------------------------------------------------------------------

def table(keys):
    keys, rank, ranks = np.sort(keys), 1, [1]
    while rank < len(keys):
        rank = min(rank + max(1, rank // FINE), len(keys))
        ranks.append(rank)
    return len(keys), np.array(ranks), keys[np.array(ranks) - 1]


def counted(of, key):
    n, rank, kept = of
    below = np.searchsorted(kept, key, side="right")
    return np.where(below < len(rank), rank[np.minimum(below, len(rank) - 1)] - 1, n)


class Reference:
    def __init__(self, p, fold):
        spread, logs, predicted = measure(p)
        far = np.zeros(len(spread), F)
        for f in range(FOLDS):
            far[fold == f] = distance(logs[fold == f], *moments(logs[fold != f]))
        self.moments = moments(logs)
        self.spread, self.far = table(-spread), table(-far)  # small: unlike
        score = self.score_of(spread, far)
        many = np.bincount(predicted, minlength=CLASSES) >= 100
        rest = score[~many[predicted]]
        rest = rest if len(rest) >= 100 else score
        self.tables = [table(score[predicted == c] if many[c] else rest) for c in range(CLASSES)]

    def score_of(self, spread, far):
        return (1 + counted(self.spread, -spread)) * (1 + counted(self.far, -far))

    def levels(self, p):
        spread, logs, predicted = measure(p)
        score = self.score_of(spread, distance(logs, *self.moments))
        return np.array([(1 + counted(self.tables[c], s)) / (self.tables[c][0] + 1) for c, s in zip(predicted, score)])


# ---- a batch -----------------------------------------------------------------------------------------------------

def bound(u):
    above = float((u > 0.5).sum() + 1)
    return min(1.0, 1.25 * (above + 1.645 * np.sqrt(above)) / (len(u) / 2))


def density(u):
    """Slopes of the least concave majorant of the distribution function, by the definition of a majorant."""
    x, n = np.concatenate([[0], np.unique(u), [1]]), len(u)
    y = np.array([(u <= one).sum() / n for one in x])
    out = np.empty(n)
    for i, one in enumerate(u):
        left, right = np.flatnonzero(x < one), np.flatnonzero(x >= one)
        right = right[x[right] > 0]
        out[i] = min(max((y[b] - y[a]) / (x[b] - x[a]) for b in right) for a in left)
    return out


def main():
    fold = mixed(np.arange(REFERENCE), 3, 3) % FOLDS
    reference = Reference(rows(0, REFERENCE, 40), fold)
    text = '/* Written by tests/oracles/guard.py. */\n#ifndef CST_DATA_GUARD_H\n#define CST_DATA_GUARD_H\n\n'
    text += "enum { GUARD_MEMBERS = %d, GUARD_CLASSES = %d, GUARD_REFERENCE = %d, GUARD_BATCH = %d, GUARD_FOLDS = %d };\n" % (
        MEMBERS, CLASSES, REFERENCE, BATCH, FOLDS)
    for name, first, noise in (("CLEAN", 5000, 40), ("SHIFTED", 9000, 260)):
        u = reference.levels(rows(first, BATCH, noise))
        pi = bound(u)
        f = density(u) if pi < 1 else np.ones(BATCH)
        assert (pi < 1) == (name == "SHIFTED"), (name, pi)
        text += array("double", "GUARD_%s_LEVEL" % name, u)
        text += array("double", "GUARD_%s_PI" % name, np.array([pi]))
        text += array("double", "GUARD_%s_LAMBDA" % name, np.maximum(0, 1 - pi / f) if pi < 1 else np.zeros(BATCH))
    (pathlib.Path(__file__).parent.parent / "data" / "guard.h").write_text(text + "\n#endif\n")


main()
