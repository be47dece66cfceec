#!/usr/bin/python3
"""Is the ECE of a blend at most the largest ECE of what it blends? Counts over random blends of real predictions.

    experiments/ece/run.py [--pools DIR]... [--only POOL]...

The paper: proposition "Expected calibration error of the blender".
"""
import itertools
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

DRAWS = 500
MARGIN = 0.01  # an excess that sampling noise of a test split does not explain
SIZES = [2, 3, 5]
LEARNERS = ["ridge", "lasso", "elastic-net", "log-linear"]


def ece(probabilities, labels, bins=15):
    """Top-label ECE in l1: equal-width bins [lo, hi), the last one closed, as corestack defines it."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    at = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(at, weights=right, minlength=bins) - np.bincount(at, weights=confidence, minlength=bins)
    return float(np.abs(gap).sum() / labels.size)


def count(predictions, labels, size, rng, weights):
    """Blends of `size` random members: how often ECE(blend) is above the largest ECE, above the mean, by how much."""
    single = {n: ece(p, labels) for n, p in predictions.items()}
    names = list(predictions)
    above, above_mean, far, most = 0, 0, 0, 0.0
    sets = (rng.choice(len(names), size=size, replace=False) for _ in range(DRAWS))
    if weights == "equal" and math.comb(len(names), size) <= DRAWS:
        sets = itertools.combinations(range(len(names)), size)
    draws = 0
    for chosen in sets:
        draws += 1
        w = rng.dirichlet(np.ones(size)) if weights == "random" else np.full(size, 1 / size)
        blend = ece(sum(v * predictions[names[k]] for v, k in zip(w, chosen)), labels)
        parts = np.array([single[names[k]] for k in chosen])
        above += blend > parts.max() + 1e-12
        above_mean += blend > w @ parts + 1e-12
        far += blend > parts.max() + MARGIN
        most = max(most, blend - parts.max())
    return {"draws": draws, "above": int(above), "far": int(far), "above_mean": int(above_mean), "most": float(most)}


def learners(options, manifest, labels):
    """The same for fitted meta-learners: every subset of at least two, equal weights."""
    report, folder = common.corestack(options, "compare", manifest, "--methods", ",".join(LEARNERS), "--reference", "ridge",
                                      "--split", "test", "--resamples", 0, "--seed", options.seed, save=True)
    p = {r["method"]: np.load(folder / f"{r['method']}.test.npy").astype(np.float64) for r in report["rows"]}
    single = {n: ece(v, labels) for n, v in p.items()}
    for row in report["rows"]:  # a confidence on the edge of a bin may fall to the other side here
        if abs(single[row["method"]] - row["ece"]) > 2e-3:
            sys.exit(f"{row['method']}: ECE {single[row['method']]} here, {row['ece']} from corestack")
    above = total = 0
    for subset in range(1, 1 << len(p)):
        names = [n for i, n in enumerate(p) if subset >> i & 1]
        if len(names) < 2:
            continue
        total += 1
        above += ece(sum(p[n] for n in names) / len(names), labels) > max(single[n] for n in names) + 1e-12
    return {"draws": total, "above": int(above)}


def measure(options, pools):
    figures = {}
    for name, manifest in pools.items():
        labels = common.array(manifest, common.split_of(manifest, "test")["labels"])
        predictions = common.members(manifest)
        rng = np.random.default_rng(options.seed)
        own = {"members": [], "learners": learners(options, manifest, labels)}
        for size in [s for s in SIZES if s <= len(predictions)]:
            for weights in ("equal", "random"):
                own["members"].append({"size": size, "weights": weights, **count(predictions, labels, size, rng, weights)})
        figures[name] = own
    return figures, {}


def tables(figures, page):
    cells = []
    for name, own in figures.items():
        for m in own["members"]:
            cells.append([name, m["size"], m["weights"], f"{m['above']} of {m['draws']}", m["far"], f"{m['above_mean']} of {m['draws']}",
                          f"{m['most']:.3f}"])
        cells.append([name, "meta-learners", "equal", f"{own['learners']['above']} of {own['learners']['draws']}", "", "", ""])
    return common.table(["pool", "blended", "weights", "above the largest", "by over 0.01", "above the mean", "by at most"], cells)


def section(figures, page):
    return ["The paper says that the ECE of a blend is at most the weighted mean of the members' ECE, and so at most the largest one, "
            "because ECE is convex. Top-label ECE is not convex: a blend has other top labels and other confidences, and an average of "
            "well calibrated members is underconfident.", "",
            f"On each test split we take {DRAWS} random sets of members of each size (all sets where there are fewer and weights are "
            "equal), with equal weights and with weights drawn uniformly from the simplex. \"Above the largest\": the ECE of the blend "
            "is larger than that of each member. \"Above the mean\": it is larger than the weighted mean, the step in the paper's "
            "proof. \"By at most\": the largest excess over the largest member. \"Meta-learners\": the eleven equal blends of two or "
            f"more of {', '.join(f'`{x}`' for x in LEARNERS)}.", "",
            *tables(figures, page),
            "### Does it hold?", "", verdict(figures), "",
            common.conditions(page, [f"compare POOL --methods {','.join(LEARNERS)} --split test --save DIR"],
                              resamples=False) + " The rest is computed by the script."]


def verdict(figures):
    every = [m for f in figures.values() for m in f["members"]]
    above, draws = sum(m["above"] for m in every), sum(m["draws"] for m in every)
    mean = sum(m["above_mean"] for m in every)
    far = sum(m["far"] for m in every)
    la, ld = sum(f["learners"]["above"] for f in figures.values()), sum(f["learners"]["draws"] for f in figures.values())
    return (f"{'No. ' if above else ''}Of {draws:,} blends of members, {above:,} ({100 * above / draws:.0f}%) have a larger ECE than "
            f"each of their members, {far:,} ({100 * far / draws:.0f}%) by more than {MARGIN}, and {mean:,} "
            f"({100 * mean / draws:.0f}%) a larger one than the weighted mean. Of {ld} blends of meta-learners, {la} "
            f"({100 * la / ld:.0f}%) exceed the largest.")


if __name__ == "__main__":
    common.run(__doc__, "ece", "ECE of a blend", common.EVERY_POOL, measure, section, tables, common.needs("classification", more=common.plain_files))
