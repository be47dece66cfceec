"""Make this folder's pool: 6 labels of simulated rows, predicted by 5 members of scikit-learn, out-of-fold and on a test split.

Stands before corestack: its output is what `corestack fit examples/multilabel` reads. Run it as
`/usr/bin/python3 examples/multilabel/make_pool.py`.
"""

import json
import os

import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Constant:
    """The share of a label of which a fit sees one value only."""

    def fit(self, x, y):
        self.share = float(y.mean())
        return self

    def predict(self, x):
        return np.full(len(x), self.share)


def members(features, seed=0):
    """name: (model of one label, columns that it sees)"""
    half = features // 2
    return {
        "logistic_a": (lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.3)), slice(0, half + half // 2)),
        "logistic_b": (lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.03)), slice(half // 2, features)),
        "forest": (lambda: RandomForestClassifier(60, min_samples_leaf=3, random_state=seed), slice(0, features)),
        "extra_trees": (lambda: ExtraTreesClassifier(60, min_samples_leaf=2, random_state=seed + 1), slice(half // 2, features)),
        "knn": (lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(25)), slice(0, features)),
    }


def predict(make, x, y, x_new):
    """Probabilities (rows, labels), one model for each label."""
    out = np.empty((len(x_new), y.shape[1]))
    for label in range(y.shape[1]):
        if y[:, label].min() == y[:, label].max():
            out[:, label] = Constant().fit(x, y[:, label]).predict(x_new)
        else:
            out[:, label] = make().fit(x, y[:, label]).predict_proba(x_new)[:, 1]
    return out.astype(np.float32)


def write(folder, x, y, x_test, y_test, names, seed=0, unknown=0.0):
    """The pool of these rows. unknown: share of the labels of the first rows that are hidden."""
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    folds = np.empty(len(x), np.int64)
    for fold, (_, held) in enumerate(KFold(5, shuffle=True, random_state=seed).split(x)):
        folds[held] = fold
    models = []
    for name, (make, columns) in members(x.shape[1], seed).items():
        oof = np.empty(y.shape, np.float32)
        for fold in range(5):
            inside = folds != fold
            oof[~inside] = predict(make, x[inside][:, columns], y[inside], x[~inside][:, columns])
        np.save(os.path.join(folder, f"{name}.oof.npy"), oof)
        np.save(os.path.join(folder, f"{name}.test.npy"), predict(make, x[:, columns], y, x_test[:, columns]))
        models.append({"name": name, "predictions": {s: f"{name}.{s}.npy" for s in ("oof", "test")}})
    known = y.astype(np.int8)
    known[rng.random(y.shape) < unknown] = -1
    np.save(os.path.join(folder, "oof_labels.npy"), known)
    np.save(os.path.join(folder, "oof_folds.npy"), folds)
    np.save(os.path.join(folder, "test_labels.npy"), y_test.astype(np.int8))
    manifest = {
        "corestack_pool": 1,
        "task": "multilabel",
        "outputs": names,
        "splits": {"oof": {"labels": "oof_labels.npy", "folds": "oof_folds.npy"}, "test": {"labels": "test_labels.npy"}},
        "models": models,
    }
    with open(os.path.join(folder, "pool.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    x, y = make_multilabel_classification(900, 20, n_classes=6, n_labels=2, length=20, random_state=0)
    write(os.path.dirname(os.path.abspath(__file__)), x[:400], y[:400], x[400:], y[400:],
          ["beach", "city", "forest", "people", "snow", "water"], unknown=0.05)
