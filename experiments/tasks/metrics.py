#!/usr/bin/env python3
"""`--metric` beside a hill climb on the metric itself, on pools of two classes.

`/usr/bin/python3 experiments/tasks/metrics.py POOL.json ... [--split test]` prints a table: the metric of preset default fitted with
`--metric`, of hill climbing on that metric in NumPy, the paired difference with its 95% interval and p value, and both log losses.
On split oof both are nested; on another split both are fitted on oof. The rival: start from the best member, move the weights towards
one member by the step that raises the metric most, stop when no step does; for F1 the threshold is searched at every step.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
TOOL = next(t for t in (ROOT / "build/corestack", ROOT / "build-gcc/corestack") if t.exists())
STEPS = (0.02, 0.05, 0.1, 0.2, 0.4, -0.05, -0.1)


def auc(p, y):
    order = np.argsort(p, kind="stable")
    _, inverse, counts = np.unique(p[order], return_inverse=True, return_counts=True)
    rank = np.empty(len(p))
    rank[order] = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = y.sum()
    return (rank[y == 1].sum() - n * (n + 1) / 2) / (n * (len(y) - n))


def f1_and_threshold(p, y):
    order = np.argsort(-p, kind="stable")
    right = np.cumsum(y[order])
    f1 = 2 * right / (np.arange(1, len(y) + 1) + y.sum())
    best = int(np.argmax(f1))
    after = p[order][min(best + 1, len(y) - 1)]
    return f1[best], (p[order][best] + after) / 2


SCORES = {"auc": auc, "f1": lambda p, y: f1_and_threshold(p, y)[0]}


def hill_climb(p, y, score):
    """Weights of members, p: [members][rows] probabilities of the second class."""
    weights = np.eye(len(p))[np.argmax([score(q, y) for q in p])]
    best = score(weights @ p, y)
    for _ in range(60):
        moves = [(1 - s) * weights + s * np.eye(len(p))[k] for k in range(len(p)) for s in STEPS]
        moves = [m for m in moves if m.min() >= 0]
        values = [score(m @ p, y) for m in moves]
        if max(values) <= best + 1e-6:
            break
        best, weights = max(values), moves[int(np.argmax(values))]
    return weights


def probabilities(p):
    return np.stack([1 - p, p], 1).astype(np.float32)


def moved(p, metric, p_in, y_in):
    """For F1, probabilities moved so that the threshold is one half."""
    if metric != "f1":
        return p
    t = min(max(f1_and_threshold(p_in, y_in)[1], 1e-6), 1 - 1e-6)
    odds = np.log(np.clip(p, 1e-9, 1) / np.clip(1 - p, 1e-9, 1)) - np.log(t / (1 - t))
    return 1 / (1 + np.exp(-odds))


def read(pool, split):
    manifest = json.loads(pool.read_text())
    y = np.load(pool.parent / manifest["splits"][split]["labels"])
    p = [np.load(pool.parent / m["predictions"][split]).astype(np.float64) for m in manifest["models"]]
    if manifest.get("output", "probability").startswith("logit"):
        p = [np.exp(q - q.max(1, keepdims=True)) for q in p]
        p = [q / q.sum(1, keepdims=True) for q in p]
    return np.array([q[:, 1] if q.ndim == 2 else q for q in p]), y.astype(np.int64)


def rival(pool, metric, split):
    p, y = read(pool, "oof")
    score = SCORES[metric]
    if split != "oof":
        weights = hill_climb(p, y, score)
        return moved(weights @ read(pool, split)[0], metric, weights @ p, y)
    given = json.loads(pool.read_text())["splits"]["oof"].get("folds")
    with tempfile.TemporaryDirectory() as folder:
        labels, folds = Path(folder) / "y.npy", Path(folder) / "folds.npy"
        np.save(labels, y)
        subprocess.run([TOOL, "folds", "-l", labels, "-L", "5", "-o", folds, "-q"], check=True, capture_output=True)
        fold = np.load(pool.parent / given if given else folds)
    out = np.empty(len(y))
    for f in np.unique(fold):
        inside = fold != f
        weights = hill_climb(p[:, inside], y[inside], score)
        out[~inside] = moved(weights @ p[:, ~inside], metric, weights @ p[:, inside], y[inside])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=Path)
    parser.add_argument("--split", default="oof")
    parser.add_argument("--resamples", default="2000")
    given = parser.parse_args()
    print(f"{'pool':<14}{'metric':<8}{'default':>9}{'climb':>9}   difference [95%]          p{'NLL default':>14}{'NLL climb':>12}")
    for pool in given.pools:
        for metric in SCORES:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "climb.npy"
                np.save(file, probabilities(rival(pool, metric, given.split)))
                done = subprocess.run([TOOL, "compare", pool, "--split", given.split, "-m", "default", "--metric", metric, "--with",
                                       f"climb={file}", "-r", given.resamples, "--json", "-q"], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            report = json.loads(done.stdout)
            ours, climb = report["rows"]
            low, high = climb["difference"][f"{metric}_ci"]
            p = next((t["p"] for t in report["tests"] if t["metric"] == metric), float("nan"))
            print(f"{pool.parent.name:<14}{metric:<8}{ours[metric]:>9.4f}{climb[metric]:>9.4f}   {ours[metric] - climb[metric]:+.4f} "
                  f"[{-high:+.4f}, {-low:+.4f}] {p:>7.3f}{ours['nll']:>14.4f}{climb['nll']:>12.4f}")


if __name__ == "__main__":
    main()
