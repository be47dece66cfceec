"""Multilabel: every method of compare on rows that no fit saw, for two kinds of simulated pools.

Prints one table for `few` (8 labels of make_multilabel_classification, 500 rows) and one for `many` (60 labels, most of
them rare, 1,200 rows), each the mean over some draws. Run it as `/usr/bin/python3 experiments/tasks/multilabel.py
[TOOL] [DRAWS]`. docs/multilabel.md.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import make_multilabel_classification

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "multilabel"))

import make_pool  # noqa: E402

SCORES = ("log_loss", "macro_auc", "map", "macro_f1", "ece")


def few(draw):
    """8 labels of like shares."""
    x, y = make_multilabel_classification(4500, 20, n_classes=8, n_labels=2, length=25, random_state=draw)
    return x[:500], y[:500], x[500:], y[500:]


def many(draw):
    """60 labels with shares from a third to a hundredth, partly not linear in the features."""
    rng = np.random.default_rng(draw)
    rows, features, labels = 5200, 20, 60
    x = rng.normal(size=(rows, features))
    curved = np.concatenate([x, x[:, :10] * x[:, 10:], np.abs(x) - 0.8], axis=1)
    logits = curved @ (rng.normal(size=(curved.shape[1], labels)) * (rng.random((curved.shape[1], labels)) < 0.15) * 1.2)
    logits += np.linspace(-1, -5.5, labels)
    y = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    return x[:1200], y[:1200], x[1200:], y[1200:]


def table(tool, folder, *options):
    """{method: scores}, of compare on split test, and of each member."""
    with open(os.path.join(folder, "pool.json"), encoding="utf-8") as file:
        names = [model["name"] for model in json.load(file)["models"]]
    for name in names:
        options += ("--with", f"{name}={folder}/{name}.test.npy")
    command = [tool, "compare", folder, "--split", "test", "-r", "0", "--json", *options]
    rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rows"]
    return {row["method"]: [row[s] for s in SCORES] for row in rows}


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "..", "build", "corestack")
    draws = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    options = sys.argv[3:]
    for kind in (few, many):
        sums = {}
        wins = {}
        for draw in range(draws):
            x, y, x_test, y_test = kind(draw)
            with tempfile.TemporaryDirectory() as folder:
                kept = os.environ.get("POOLS")
                if kept:
                    folder = os.path.join(kept, f"{kind.__name__}{draw}")
                if not os.path.exists(os.path.join(folder, "pool.json")):
                    make_pool.write(folder, x, y, x_test, y_test, [f"l{i}" for i in range(y.shape[1])], seed=draw)
                found = table(tool, folder, *options)
            for name, row in found.items():
                sums[name] = sums.get(name, 0) + np.array(row) / draws
                better = [found["default"][0] < row[0], found["default"][1] > row[1]]
                wins[name] = wins.get(name, 0) + np.array(better, int)
        print(f"{kind.__name__}: means over {draws} draws; last: draws in which default is better in log loss, macro AUC")
        print(f"{'':20}" + "".join(f"{s:>11}" for s in SCORES))
        for name, row in sums.items():
            print(f"{name:20}" + "".join(f"{v:11.4f}" for v in row) + f"   {wins[name][0]} {wins[name][1]}")


if __name__ == "__main__":
    main()
