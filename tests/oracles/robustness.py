"""Writes tests/data/robustness.h: separation, member scores and corruption errors from NumPy, SciPy and scikit-learn."""
import pathlib

import numpy as np
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score, roc_curve

from _c_header import array

IN, OUT = 60, 45
ROWS, CLASSES, MEMBERS = 37, 4, 3
CONDITIONS = [("noise", "gaussian_noise", 1), ("noise", "gaussian_noise", 3), ("noise", "gaussian_noise", 5),
              ("noise", "shot_noise", 1), ("noise", "shot_noise", 5), ("weather", "fog", 1), ("weather", "fog", 5)]
REFERENCE = {"gaussian_noise": 0.88, "shot_noise": [0.7, 0.95], "fog": [0.6, 0.85], "clean": 0.43}


def separation(inside, outside):
    scores = np.concatenate([inside, outside])
    out = np.concatenate([np.zeros(IN), np.ones(OUT)])
    fpr, tpr, _ = roc_curve(out, scores, drop_intermediate=False)
    other_fpr, other_tpr, _ = roc_curve(1 - out, -scores, drop_intermediate=False)
    return [roc_auc_score(out, scores), average_precision_score(out, scores), fpr[np.argmax(tpr >= 0.95)],
            average_precision_score(1 - out, -scores), other_fpr[np.argmax(other_tpr >= 0.95)],
            (0.5 * (fpr + 1 - tpr)).min()]


def corruption(errors, clean):
    kinds = list(dict.fromkeys(k for _, k, _ in CONDITIONS))
    normalised, relative, plain = [], [], []
    families = {}
    for kind in kinds:
        own = np.array([e for e, c in zip(errors, CONDITIONS) if c[1] == kind])
        reference = np.broadcast_to(REFERENCE[kind], own.shape)
        plain.append(own.mean())
        normalised.append(own.sum() / reference.sum())
        relative.append((own - clean).sum() / (reference - REFERENCE["clean"]).sum())
        families.setdefault(next(f for f, k, _ in CONDITIONS if k == kind), []).append(normalised[-1])  # in the reference's units
    return [np.mean(plain), np.mean(normalised), np.mean(normalised) - clean, np.mean(relative),
            *(np.mean(v) for v in families.values()), *normalised]


def main():
    rng = np.random.default_rng(17)
    inside = np.round(rng.normal(0, 1, IN) * 2) / 2  # halves: many ties, within and across
    outside = np.round(rng.normal(0.8, 1.2, OUT) * 2) / 2
    pool = np.stack([softmax(rng.normal(0, s, (ROWS, CLASSES)), axis=1).astype(np.float32) for s in (1, 2, 3)])
    weights = np.array([0.5, 0.2, 0.3])
    stack = softmax(rng.normal(0, 1, (ROWS, CLASSES)), axis=1).astype(np.float32)
    wide = pool.astype(np.float64)
    disagreement = (weights[:, None] * (wide.argmax(2) != stack.argmax(1))).sum(0)
    wide /= wide.sum(2, keepdims=True)  # to what float32 rows are meant to be; a difference of 1e-8
    information = entropy(np.einsum("k,knc->nc", weights, wide), axis=1) - weights @ entropy(wide, axis=2)
    errors = np.round(rng.uniform(0.2, 0.7, len(CONDITIONS)), 3)
    labels = rng.choice(3, ROWS, p=[0.7, 0.2, 0.1])
    predicted = np.where(rng.random(ROWS) < 0.6, labels, rng.choice(3, ROWS))
    text = "/* Written by tests/oracles/robustness.py with NumPy, SciPy and scikit-learn. */\n"
    text += f"enum {{ OOD_IN = {IN}, OOD_OUT = {OUT}, ROB_ROWS = {ROWS}, ROB_CLASSES = {CLASSES}, ROB_MEMBERS = {MEMBERS}, "
    text += f"ROB_CONDITIONS = {len(CONDITIONS)} }};\n"
    text += array("double", "ood_in", inside, "%.17g") + array("double", "ood_out", outside, "%.17g")
    text += array("double", "ood_expected", separation(inside, outside), "%.17g")
    text += array("float", "rob_pool", pool, "%.9gF") + array("float", "rob_stack", stack, "%.9gF")
    text += array("double", "rob_weights", weights, "%.17g")
    text += array("double", "rob_disagreement", disagreement, "%.17g")
    text += array("double", "rob_information", information, "%.17g")
    text += array("double", "rob_errors", errors, "%.17g")
    text += "static const double rob_clean = 0.21;\n"
    text += array("double", "rob_corruption", corruption(errors, 0.21), "%.17g")
    text += array("int32_t", "rob_labels", labels, "%d") + array("double", "rob_right", predicted == labels, "%d")
    text += f"static const double rob_balanced = {balanced_accuracy_score(labels, predicted):.17g};\n"
    out = pathlib.Path(__file__).resolve().parents[1] / "data" / "robustness.h"
    out.write_text(text)


if __name__ == "__main__":
    main()
