"""Writes tests/data/calibration_bound.h: an interval of the calibration error by the inequalities of
src/stats/calibration_bound.h with SciPy's root finding, and certified bins with SciPy's beta quantiles."""

import itertools
import math
import os

import numpy as np
from scipy import optimize, stats

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
ROWS, CLASSES, BINS, DELTA, MASS_BINS = 600, 4, 15, 0.05, 6


def kl(p, q):
    return stats.entropy([p, 1 - p], [q, 1 - q])


def main():
    rng = np.random.default_rng(22)
    logits = rng.normal(size=(ROWS, CLASSES)) * 2
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(CLASSES, p=row / row.sum()) for row in p**0.4])
    p = p.astype(np.float32)
    confidence = p.max(axis=1).astype(float)
    correct = p.argmax(axis=1) == labels
    which = np.minimum(np.searchsorted(np.arange(BINS + 1) / BINS, confidence, side="right") - 1, BINS - 1)
    value = sum(abs((correct - confidence)[which == b].sum()) for b in range(BINS)) / ROWS
    price = np.log(3 / DELTA)
    mean = np.mean((correct - confidence) ** 2)
    moment = optimize.brentq(lambda q: kl(mean, q) - price / ROWS, mean, 1 - 1e-12, xtol=1e-15)

    def deviation(cost):
        return np.sqrt(2 * moment * cost / ROWS) + cost / 3 / ROWS

    gaps = np.array([(correct - confidence)[which == b].sum() for b in range(BINS)]) / ROWS
    lower = 0
    for signs in itertools.product((-1, 1), repeat=BINS):
        changes = sum(a != b for a, b in zip(signs, signs[1:]))
        ways = np.log(2 * BINS * math.comb(BINS - 1, changes))
        lower = max(lower, np.dot(signs, gaps) - deviation(price + ways))
    text = "/* Written by tests/oracles/calibration_bound.py. */\n/* clang-format off */\n"
    text += f"enum {{ CB_ROWS = {ROWS}, CB_CLASSES = {CLASSES}, CB_BINS = {BINS}, CB_MASS_BINS = {MASS_BINS} }};\n"
    text += f"static const double CB_DELTA = {DELTA};\n"
    text += array("float", "CB_PROBABILITIES", p) + array("int32_t", "CB_LABELS", labels)
    text += "/* value, lower, upper, bound of the second moment */\n"
    text += array("double", "CB_ECE", [value, lower, value + deviation(price), moment])

    # Edges on the first third, bins on the rest.
    third = ROWS // 3
    ranked = np.sort(confidence[:third])
    edges = np.array([0.0, *(ranked[third * b // MASS_BINS] for b in range(1, MASS_BINS)), 1.0])
    bins = []
    for b in range(MASS_BINS):
        inside = (confidence[third:] >= edges[b]) & ((confidence[third:] < edges[b + 1]) | (b == MASS_BINS - 1))
        n, k = inside.sum(), correct[third:][inside].sum()
        side = DELTA / 2 / MASS_BINS
        lower = stats.beta.ppf(side, k, n - k + 1) if k else 0
        upper = stats.beta.isf(side, k + 1, n - k) if k < n else 1
        bins.append((edges[b], edges[b + 1], n, k, k / n, lower, upper))
    bins = np.array(bins)
    epsilon = max((bins[:, 4] - bins[:, 5]).max(), (bins[:, 6] - bins[:, 4]).max())
    hoeffding = np.sqrt(np.log(2 * MASS_BINS / DELTA) / 2 / bins[:, 2].min())
    text += "/* [bins]: from, to, count, correct, value, lower, upper; then the worst bin, and by Hoeffding */\n"
    text += array("double", "CB_BIN", bins) + array("double", "CB_EPSILON", [epsilon, hoeffding])
    with open(os.path.join(FOLDER, "calibration_bound.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
