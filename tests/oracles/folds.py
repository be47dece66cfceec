"""Writes tests/data/folds.h: labels, groups, and scikit-learn's class counts per fold for them."""
import pathlib

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from _c_header import array

ROWS, CLASSES, FOLDS = 400, 6, 5


def counts(splits, labels):
    return np.array([np.bincount(labels[test], minlength=CLASSES) for _, test in splits])


def main():
    rng = np.random.default_rng(5)
    groups = (60 * rng.random(ROWS) ** 2).astype(int) * 7 - 100
    labels = (groups % 4 + rng.integers(0, 3, ROWS)) % CLASSES
    x = np.zeros((ROWS, 1))
    stratified = counts(StratifiedKFold(FOLDS).split(x, labels), labels)
    grouped = counts(StratifiedGroupKFold(FOLDS).split(x, labels, groups), labels)
    unevenness = np.std(grouped / np.bincount(labels), axis=0).mean()
    out = pathlib.Path(__file__).parent.parent / "data" / "folds.h"
    out.write_text(
        "/* Written by tests/oracles/folds.py. */\n// clang-format off\n#include <stdint.h>\n"
        f"enum {{ FOLDS_ROWS = {ROWS}, FOLDS_CLASSES = {CLASSES}, FOLDS_COUNT = {FOLDS} }};\n"
        + array("int32_t", "folds_labels", labels)
        + array("int64_t", "folds_groups", groups)
        + array("int32_t", "folds_stratified_counts", stratified)
        + f"static const double folds_grouped_unevenness = {unevenness:.17g};\n")


if __name__ == "__main__":
    main()
