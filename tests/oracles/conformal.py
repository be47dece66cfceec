"""Writes tests/data/conformal.h: split conformal sets in NumPy by sorted cumulative sums, as the authors of APS and RAPS
compute them, on rows with ties; and places of thresholds by exact arithmetic and SciPy."""

import os
from fractions import Fraction

import numpy as np
from scipy import stats

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
CALIBRATION, TEST, CLASSES, ALPHA, PENALTY, FREE = 70, 50, 6, 0.15, 0.02, 2


def class_scores(method, probabilities, u):
    """[rows, classes] of [rows, classes] and [rows]."""
    p = probabilities.astype(float)
    if method == "lac":
        return 1 - p
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    penalties = np.zeros(CLASSES)
    if method == "raps":
        penalties[FREE:] = PENALTY
    in_order = np.cumsum(ordered, axis=1) - ordered + u[:, None] * ordered + np.cumsum(penalties)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, in_order, axis=1)
    return scores


def pool(rng, rows):
    logits = rng.normal(size=(rows, CLASSES)) * 1.7
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(CLASSES, p=row) for row in p**0.7 / (p**0.7).sum(axis=1, keepdims=True)])
    p[::4] = np.round(p[::4] * 8) / 8  # ties
    p[::4, 0] += 1 - p[::4].sum(axis=1)
    p[::4] = np.where(p[::4].min(axis=1, keepdims=True) < 0, 1 / CLASSES, p[::4])
    return p.astype(np.float32), labels


def orders():
    """n, alpha, delta, place."""
    rows = []
    for n in (1, 5, 9, 10, 19, 20, 99, 100, 199, 1000, 12345):
        for text in ("0.5", "0.1", "0.05", "0.29", "0.01", "0.001"):
            alpha = Fraction(text)
            k = -((-(n + 1) * (1 - alpha)).__floor__())  # ceil
            rows.append((n, float(alpha), 0, k))
            for delta in (0.1, 0.01):
                places = np.arange(n + 2)
                tail = stats.binom.sf(places - 1, n, 1 - float(alpha))
                rows.append((n, float(alpha), delta, places[tail <= delta][0]))
    return rows


def main():
    rng = np.random.default_rng(21)
    probabilities, labels = pool(rng, CALIBRATION + TEST)
    u = rng.random(CALIBRATION + TEST)
    rows = orders()
    text = "/* Written by tests/oracles/conformal.py: sets by sorted cumulative sums in NumPy. */\n/* clang-format off */\n"
    text += f"enum {{ CF_CALIBRATION = {CALIBRATION}, CF_TEST = {TEST}, CF_CLASSES = {CLASSES}, CF_FREE = {FREE}, CF_ORDERS = {len(rows)} }};\n"
    text += f"static const double CF_ALPHA = {ALPHA}, CF_PENALTY = {PENALTY};\n"
    text += "/* n, alpha, delta, place */\n" + array("double", "CF_ORDER", rows)
    text += array("float", "CF_PROBABILITIES", probabilities) + array("int32_t", "CF_LABELS", labels) + array("double", "CF_UNIFORM", u)
    k = int(np.ceil((CALIBRATION + 1) * (1 - ALPHA)))
    thresholds, figures, all_sets, all_scores = [], [], [], []
    for method in ("lac", "aps", "raps"):
        for draws in (np.ones_like(u), u):
            scores = class_scores(method, probabilities, draws)
            of_labels = scores[np.arange(len(labels)), labels]
            threshold = np.sort(of_labels[:CALIBRATION])[k - 1]
            sets = scores[CALIBRATION:] <= threshold
            covered = sets[np.arange(TEST), labels[CALIBRATION:]]
            thresholds.append(threshold)
            figures.append((covered.mean(), sets.sum(axis=1).mean(), (sets.sum(axis=1) == 0).sum(), (sets.sum(axis=1) == 1).sum()))
            all_sets.append(sets)
            all_scores.append(of_labels)
    text += "/* lac, aps, raps; each without and with u */\n" + array("double", "CF_THRESHOLD", thresholds)
    text += "/* coverage, mean size, empty, single */\n" + array("double", "CF_FIGURES", figures)
    text += array("double", "CF_SCORES", all_scores) + array("unsigned char", "CF_SETS", all_sets)
    with open(os.path.join(FOLDER, "conformal.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
