"""Make this folder's tables from the pools in examples/concrete and examples/multilabel.

Stands before corestack: its output is what `corestack fit examples/csv/train.csv` reads. Run it as
`/usr/bin/python3 examples/csv/make_csv.py`.
"""

import csv
import os

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))


def load(pool, name):
    return np.load(os.path.join(FOLDER, "..", pool, f"{name}.npy"))


def write(name, header, *columns):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*columns))


def text(values, form):
    return [form % v for v in values]


def concrete():
    """Strength in MPa: regression."""
    members = ["ridge", "forest_b", "extra_trees", "gradient_boosting", "mlp_a"]
    oof, test = ([text(load("concrete", f"{m}.{split}"), "%.2f") for m in members] for split in ("oof", "test"))
    ids = load("concrete", "test_ids")
    write("train.csv", ["id", "y", "fold", *members], load("concrete", "oof_ids"), text(load("concrete", "oof_labels"), "%.2f"),
          load("concrete", "oof_folds"), *oof)
    write("test.csv", ["id", *members], ids, *test)
    write("sample_submission.csv", ["id", "y"], ids, [0] * len(ids))


def beach():
    """Whether a scene has the label `beach`, the first of six: two classes, given by the probability of yes."""
    members = ["logistic_a", "logistic_b", "forest", "extra_trees", "knn"]
    y = load("multilabel", "oof_labels")[:, 0]
    known = np.flatnonzero(y >= 0)
    rows = np.arange(250)  # of the test split
    write("beach_train.csv", ["id", "y", "fold", *members], known, np.array(["no", "yes"])[y[known]], load("multilabel", "oof_folds")[known],
          *(text(load("multilabel", f"{m}.oof")[known, 0], "%.4f") for m in members))
    ids = rows + len(y)
    write("beach_test.csv", ["id", *members], ids, *(text(load("multilabel", f"{m}.test")[rows, 0], "%.4f") for m in members))
    write("beach_sample.csv", ["id", "yes"], ids, [0] * len(ids))
    write("costs.csv", [0, 1], [5], [0])  # rows: the truth, no or yes; columns: the decision


concrete()
beach()
