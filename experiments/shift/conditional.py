#!/usr/bin/python3
"""Coverage of sets and intervals calibrated together, and for each class or group on its own (Mondrian).

    experiments/shift/conditional.py [--tool build/corestack] [POOL.json...]

Preset default, calibrated on its nested predictions of split `oof`, which fits without each row's fold gave, at level 0.9;
measured on split `test`. Classes of a classification; of a regression groups of equal size by the predicted value, whose
limits are those of `oof`. Without pools: those of examples/. Writes Markdown. Needs the Python package.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

import corestack

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALPHA, GROUPS = 0.1, 5


def predictions(tool, manifest):
    """The stack's predictions of both splits: nested, and by a fit on oof."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for split in ("oof", "test"):
            subprocess.run([tool, "compare", manifest, "--methods", "default", "-r", "0", "--split", split, "--save", f"{folder}/{split}", "--quiet",
                            "--allow-outside"], check=True, stdout=subprocess.DEVNULL)
            found[split] = np.load(f"{folder}/{split}/default.{split}.npy").astype(float)
    return found



def row(name, covered, part, size):
    """Overall, and the least of parts with 20 rows or more."""
    parts = [covered[part == k].mean() for k in np.unique(part) if (part == k).sum() >= 20]
    return name, covered.mean(), min(parts, default=np.nan), len(parts), size


def classes_of(p, y):
    scores = 1 - p["oof"][np.arange(len(y["oof"])), y["oof"]]
    for name, parts in (("together", None), ("by class", y["oof"])):
        limits = corestack.metrics.conformal_thresholds(scores, ALPHA, parts=parts)
        limits = limits if parts is None else np.append(limits, np.full(p["test"].shape[1] - len(limits), np.inf))
        sets = 1 - p["test"] <= limits
        yield row(name, sets[np.arange(len(sets)), y["test"]], y["test"], sets.sum(1).mean())


def groups_of(p, y):
    edges = np.quantile(p["oof"], np.arange(1, GROUPS) / GROUPS)
    part = {split: np.searchsorted(edges, p[split]).astype(np.int32) for split in p}
    scores = np.abs(y["oof"] - p["oof"])
    for name, parts in (("together", None), (f"by {GROUPS} groups of the prediction", part["oof"])):
        limits = corestack.metrics.conformal_thresholds(scores, ALPHA, parts=parts)
        half = np.broadcast_to(limits, len(p["test"])) if parts is None else limits[part["test"]]
        yield row(name, np.abs(y["test"] - p["test"]) <= half, part["test"], 2 * half.mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="*", type=pathlib.Path, metavar="POOL.json")
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    options = parser.parse_args()
    pools = options.pools or [ROOT / "examples" / name / "pool.json" for name in ("digits", "cifar10", "concrete", "regression")]
    print("| pool | calibrated | coverage % | worst part % | parts | classes in a set, or width |\n|---|---|---|---|---|---|")
    for manifest in pools:
        pool = json.loads(manifest.read_text())
        p = predictions(options.tool, manifest)
        values = pool.get("task") == "regression"
        y = {split: (np.load(manifest.parent / pool["splits"][split]["labels"]).astype(float if values else int)).reshape(-1) for split in p}
        if values:
            p = {split: p[split].reshape(-1) for split in p}
        for name, coverage, worst, count, size in (groups_of if values else classes_of)(p, y):
            print(f"| {manifest.parent.name} | {name} | {100 * coverage:.1f} | {100 * worst:.1f} | {count} | {size:.3g} |", flush=True)


if __name__ == "__main__":
    main()
