"""Writes tests/data/metrics.h: two sets of probabilities and their scores from NumPy, SciPy and scikit-learn.

The second set has probabilities in 32nds: ties between classes, equal confidences, zeros and exact ones.
"""
import pathlib

import numpy as np
from scipy.special import entr, softmax
from scipy.stats import foldnorm
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import (accuracy_score, average_precision_score, brier_score_loss, log_loss, roc_auc_score,
                             roc_curve)

from _c_header import array

BINS = 15


def histogram_error(p, hit, bins, debias=False):
    """sum n_b/N |mean hit - mean p| over equal-width bins [lo, hi), the last one closed."""
    edges = np.arange(1, bins) / bins
    index = np.searchsorted(edges, p, side="right")
    total = bias = 0.0
    for b in range(bins):
        inside = index == b
        if not inside.any():
            continue
        accuracy, gap = hit[inside].mean(), hit[inside].mean() - p[inside].mean()
        sd = np.sqrt(accuracy * (1 - accuracy) / inside.sum())
        total += inside.mean() * abs(gap)
        if sd > 0:
            bias += inside.mean() * (foldnorm.mean(abs(gap) / sd, scale=sd) - abs(gap))
    return max(total - bias, 0) if debias else total


def reliability(p32, labels, bins):
    """[bins][4]: count, mean confidence, accuracy, and the bin's upper edge; zeros in bins without samples."""
    confidence, hit = p32.astype(np.float64).max(1), p32.argmax(1) == labels
    edges = np.append(np.arange(bins) / bins, np.inf)
    count, _ = np.histogram(confidence, edges)
    total, _ = np.histogram(confidence, edges, weights=confidence)
    right, _ = np.histogram(confidence, edges, weights=hit.astype(float))
    some = np.maximum(count, 1)
    return np.stack([count, total / some, right / some, (np.arange(bins) + 1) / bins], axis=1)


def equal_mass_error(p, hit, bins):
    order = np.sort(p)
    ranks = [-(-(b + 1) * len(p) // bins) for b in range(bins)]
    upper = np.unique(order[[r - 1 for r in ranks]])
    index = np.searchsorted(upper, p, side="left")
    return sum((index == b).mean() * abs(hit[index == b].mean() - p[index == b].mean()) for b in np.unique(index))


def scores(p32, labels):
    p = p32.astype(np.float64)
    n, classes = p.shape
    target = np.eye(classes)[labels]
    confidence, hit = p.max(1), (p.argmax(1) == labels).astype(float)
    nll = -np.log(np.maximum(p[np.arange(n), labels], 1e-15)).mean()
    top1 = accuracy_score(labels, p.argmax(1))
    brier = ((p - target) ** 2).sum(1).mean()
    assert abs(brier - sum(brier_score_loss(target[:, c], p[:, c].clip(0, 1)) for c in range(classes))) < 1e-12
    classwise = np.mean([histogram_error(p[:, c], target[:, c], BINS) for c in range(classes)])
    recalibrated = IsotonicRegression().fit_transform(confidence, hit)
    corp = np.mean((confidence - hit) ** 2) - np.mean((recalibrated - hit) ** 2)
    if len(np.unique(confidence)) == n and n % BINS == 0:
        assert abs(nll - log_loss(labels, p / p.sum(1, keepdims=True), labels=range(classes))) < 1e-7
        true, predicted = calibration_curve(hit, confidence, n_bins=BINS, strategy="quantile")
        assert abs(np.mean(np.abs(true - predicted)) - equal_mass_error(confidence, hit, BINS)) < 1e-12
    return [top1, nll, brier, histogram_error(confidence, hit, BINS), equal_mass_error(confidence, hit, BINS),
            classwise, histogram_error(confidence, hit, BINS, debias=True), corp]


def separation(inside, outside):
    """Out of distribution is positive, higher scores stand for it."""
    positive = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    both = np.r_[inside, outside]
    false, true, _ = roc_curve(positive, both, drop_intermediate=False)
    return [roc_auc_score(positive, both), average_precision_score(positive, both), false[true >= 0.95].min()]


def main():
    rng = np.random.default_rng(8)
    logits = rng.normal(size=(600, 4)) * 2
    smooth = softmax(logits * 1.6, axis=1).astype(np.float32)
    smooth_labels = np.array([rng.choice(4, p=q) for q in softmax(logits, axis=1)])
    parts = np.sort(rng.integers(0, 33, size=(90, 2)), axis=1)
    coarse = np.diff(np.c_[np.zeros(90), parts, np.full(90, 32)], axis=1).astype(np.float32) / 32
    coarse[:4] = [[1, 0, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 0.5, 0.5]]
    coarse_labels = np.array([rng.choice(3, p=q) for q in coarse])
    coarse_labels[1] = 0
    text = "/* Written by tests/oracles/metrics.py. */\n// clang-format off\n#include <stdint.h>\n"
    for name, p, labels in (("smooth", smooth, smooth_labels), ("coarse", coarse, coarse_labels)):
        text += (f"enum {{ {name}_rows = {p.shape[0]}, {name}_classes = {p.shape[1]} }};\n"
                 + array("float", f"{name}_probabilities", p, "%.9gF").replace("{0F", "{0.0F").replace(" 0F", " 0.0F")
                 .replace("{1F", "{1.0F").replace(" 1F", " 1.0F")
                 + array("int32_t", f"{name}_labels", labels, "%d")
                 + "/* top1, nll, brier, ece, ece_mass, ece_classwise, ece_debiased, corp */\n"
                 + array("double", f"{name}_scores", scores(p, labels), "%.17g")
                 + "/* [bins][4]: count, confidence, accuracy, upper edge */\n"
                 + array("double", f"{name}_reliability", reliability(p, labels, BINS), "%.17g"))
    for name, p in (("smooth", smooth), ("coarse", coarse)):
        text += array("double", f"{name}_entropy", entr(p.astype(np.float64)).sum(1), "%.17g")
    cases = {"apart": (rng.normal(size=300), rng.normal(1.3, 1, size=140)),
             "tied": (np.round(rng.normal(size=120), 1), np.round(rng.normal(0.8, 1.5, size=60), 1)),
             "reversed": (np.round(rng.normal(1, 1, size=33), 1), np.round(rng.normal(size=40), 1))}
    for name, (inside, outside) in cases.items():
        text += (f"enum {{ {name}_inside_rows = {len(inside)}, {name}_outside_rows = {len(outside)} }};\n"
                 + array("double", f"{name}_inside", inside, "%.17g") + array("double", f"{name}_outside", outside, "%.17g")
                 + "/* AUROC, AUPR, FPR at a TPR of 95%; outside is positive */\n"
                 + array("double", f"{name}_separation", separation(inside, outside), "%.17g"))
    (pathlib.Path(__file__).parent.parent / "data" / "metrics.h").write_text(text)


if __name__ == "__main__":
    main()
