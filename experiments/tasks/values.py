#!/usr/bin/env python3
"""`--metric mae` and `--metric pinball=LEVEL` beside weights fitted by the same loss, on pools of one output.

`/usr/bin/python3 experiments/tasks/values.py POOL.json ... [--split test]` prints a table: the metric of preset default with its values for
the metric and without them, of non-negative weights and an intercept with the least loss (a linear program), and the paired difference
with its 95% interval. On split oof both are nested; on another split both are fitted on oof.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import linprog

ROOT = Path(__file__).resolve().parents[2]
TOOL = next(t for t in (ROOT / "build/corestack", ROOT / "build-gcc/corestack") if t.exists())


def fit(x, y, level):
    """Weights and intercept with the least pinball loss."""
    n, k = x.shape
    scale = y.std()
    design = sparse.hstack([sparse.csr_matrix(x / scale), np.ones((n, 1)), sparse.eye(n), -sparse.eye(n)])
    cost = np.concatenate([np.zeros(k + 1), np.full(n, level), np.full(n, 1 - level)])
    bounds = [(0, None)] * k + [(None, None)] + [(0, None)] * (2 * n)
    found = linprog(cost, A_eq=design, b_eq=y / scale, bounds=bounds, method="highs").x
    return found[:k], found[k] * scale


def read(pool, split):
    manifest = json.loads(pool.read_text())
    given = manifest["splits"][split]
    y = np.load(pool.parent / (given.get("labels") or given["targets"])).astype(float).ravel()
    members = [np.load(pool.parent / m["predictions"][split]).astype(float).ravel() for m in manifest["models"]]
    return np.stack(members, 1), y, given.get("folds")


def rival(pool, level, split):
    x, y, given = read(pool, "oof")
    if split != "oof":
        weights, intercept = fit(x, y, level)
        return read(pool, split)[0] @ weights + intercept
    with tempfile.TemporaryDirectory() as folder:
        labels, folds = Path(folder) / "y.npy", Path(folder) / "folds.npy"
        np.save(labels, y)
        subprocess.run([TOOL, "folds", "--task", "regression", "-l", labels, "-L", "5", "-o", folds, "-q"], check=True, capture_output=True)
        fold = np.load(pool.parent / given if given else folds)
    out = np.empty(len(y))
    for f in np.unique(fold):
        inside = fold != f
        weights, intercept = fit(x[inside], y[inside], level)
        out[~inside] = x[~inside] @ weights + intercept
    return out


def compare(pool, split, metric, *more):
    done = subprocess.run([TOOL, "compare", pool, "--split", split, "-m", "default", "--json", "-q", "--metric", metric, *more],
                          capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["rows"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=Path)
    parser.add_argument("--split", default="oof")
    given = parser.parse_args()
    for pool in given.pools:
        for metric, level in (("mae", 0.5), ("pinball=0.9", 0.9)):
            key = metric.split("=")[0]
            with tempfile.TemporaryDirectory() as folder:
                np.save(Path(folder) / "lp.npy", rival(pool, level, given.split).astype(np.float32))
                ours, lp = compare(pool, given.split, metric, "--with", f"lp={folder}/lp.npy", "-r", "1000")
                saved = Path(folder) / "saved"
                compare(pool, given.split, metric, "--save", saved, "-r", "0")
                mean = np.load(saved / f"default.{given.split}.npy").ravel().astype(float)
            off = read(pool, given.split)[1] - mean
            plain = np.mean(np.where(off > 0, level, level - 1) * off) * (2 if key == "mae" else 1)
            low, high = lp["difference"][f"{key}_ci"]
            print(f"| {pool.parent.name} | {metric} | {plain:.5g} | {ours[key]:.5g} | {lp[key]:.5g} | {ours[key] - lp[key]:+.3g} "
                  f"[{-high:+.3g}, {-low:+.3g}] |", flush=True)


if __name__ == "__main__":
    main()
