#!/usr/bin/python3
"""Condition number against top-1 (the paper's section "Condition Number as a Performance Predictor").

    experiments/kappa/run.py [--pools DIR]... [--only POOL]...
"""
import json
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

POOLS = ["cifar10", "vision", "fashion", "mnist", "digits"]
DRAWS = 20
# Points of the paper's figure, as its source gives them: eight baselines, four ablation rows, CoRe-Stack+.
PAPER = ([847, 847, 847, 847, 720, 310, 900, 290, 392, 281, 281, 281, 218],
         [83.9, 84.0, 84.2, 84.3, 84.1, 83.6, 83.8, 83.7, 84.5, 85.0, 85.2, 85.1, 85.4])


MATRICES = {"Gram": "kappa_gram", "CKA": "kappa_cka"}  # the paper's text says the one, its figure and table the other


def over_methods(report, key):
    """Correlation over the methods that mix members; one row of each group of equal methods is not taken out."""
    rows = [r for r in report["rows"] if r.get(key) is not None]
    kappa, top1 = [r[key] for r in rows], [r["top1"] for r in rows]
    many = [(k, t) for k, t, r in zip(kappa, top1, rows) if r["models"] > 1]
    return {"methods": len(rows), "rho": common.spearman(kappa, top1),
            "p": common.permutation_p(kappa, top1, common.spearman), "multi_methods": len(many),
            "multi_rho": common.spearman(*zip(*many)), "multi_p": common.permutation_p(*zip(*many), common.spearman)}


def over_subsets(report, method, key):
    """Pooled over all subsets, and the mean of the correlations within one size; p by permutation within sizes."""
    rows = [r for r in report["rows"] if r["method"] == method and r.get(key) is not None]
    sizes = sorted({r["value"] for r in rows}, key=int)
    groups = [([r[key] for r in rows if r["value"] == s], [r["top1"] for r in rows if r["value"] == s]) for s in sizes]
    within = [common.spearman(k, t) for k, t in groups]
    rng = np.random.default_rng(0)
    draws = np.array([np.mean([common.spearman(k, rng.permutation(t)) for k, t in groups]) for _ in range(2000)])
    mean = float(np.mean(within))
    return {"subsets": len(rows), "pooled": common.spearman([r[key] for r in rows], [r["top1"] for r in rows]),
            "within": dict(zip(sizes, within)), "mean": mean, "p": float((np.abs(draws) >= abs(mean) - 1e-12).sum() + 1) / 2001}


def measure(options, pools):
    figures = {"paper": common.spearman(*PAPER), "methods": {}, "subsets": {}}
    for name, manifest in pools.items():
        report = common.compare(options, manifest, *common.test_words(manifest))
        figures["methods"][name] = {label: over_methods(report, key) for label, key in MATRICES.items()}
    for name, manifest in pools.items():
        sizes = ",".join(map(str, range(4, len(json.loads(manifest.read_text())["models"]), 4)))
        report = common.corestack(options, "sweep", manifest, "--methods", "average,ridge", "--over", f"pool.size={sizes}",
                                  "--draws", DRAWS, "--split", "test", "--resamples", 0, "--seed", options.seed)
        for method in ("average", "ridge"):
            figures["subsets"][f"{name} {method}"] = {label: over_subsets(report, method, key) for label, key in MATRICES.items()}
    return figures, {}


def methods_table(figures):
    return common.table(["pool", "matrix", "methods", "Spearman", "p", "several", "Spearman", "p"],
                        [[name, matrix, f["methods"], f"{f['rho']:+.2f}", common.p_value(f["p"]), f["multi_methods"], f"{f['multi_rho']:+.2f}",
                          common.p_value(f["multi_p"])] for name, both in figures["methods"].items() for matrix, f in both.items()])


def subsets_table(figures):
    return common.table(["pool", "method", "matrix", "subsets", "all sizes", "within a size", "p", "by size"],
                        [[*case.split(), matrix, f["subsets"], f"{f['pooled']:+.2f}", f"{f['mean']:+.2f}", common.p_value(f["p"]),
                          ", ".join(f"{s}: {v:+.2f}" for s, v in f["within"].items())]
                         for case, both in figures["subsets"].items() for matrix, f in both.items()])


def tables(figures, page):
    return [*methods_table(figures), *subsets_table(figures)]


def section(figures, page):
    return ["The paper reports a Spearman rank correlation of kappa and top-1 of -0.91 (p < 0.001) over 16 points on one pool: the "
            "lower kappa, the higher the accuracy. Its figure has 13 points, which give "
            f"{common.spearman(*PAPER):+.2f} (p {common.permutation_p(*PAPER, common.spearman):.3f}); the eight baselines among them give "
            f"{common.spearman(PAPER[0][:8], PAPER[1][:8]):+.2f}, so the correlation is mostly due to the rows of its own method.", "",
            "First we measure it as the paper does, over all methods of the clean comparison, with kappa of the members that a method "
            "uses: of the Gram matrix of their out-of-fold columns (the paper's text) and of their CKA matrix (its figure and table). A single member has kappa 1; the columns after \"several\" leave out methods that use one member. p is by 10,000 "
            "permutations.", "",
            *methods_table(figures),
            f"Then over random subsets of the members ({DRAWS} for each size), one method at a time. This answers the user's question: of "
            "two sets of the same size, is the better conditioned one more accurate? \"Within a size\" is the mean of the correlations "
            "over subsets of one size, with p by permutation within sizes. The subsets of one draw are nested, so those of different "
            "sizes are not independent.", "",
            *subsets_table(figures),
            "### Does it hold?", "", verdict(figures), "",
            common.conditions(page, ["compare POOL --split test", "sweep POOL --methods average,ridge --over pool.size=... "
                                     f"--draws {DRAWS} --split test"], resamples=False)]


def verdict(figures):
    return " ".join(verdict_of(figures, matrix) for matrix in next(iter(figures["methods"].values())))


def verdict_of(figures, matrix):
    methods = [f[matrix] for f in figures["methods"].values()]
    negative = sum(f["multi_rho"] < 0 and f["multi_p"] < 0.05 for f in methods)
    positive = sum(f["multi_rho"] > 0 and f["multi_p"] < 0.05 for f in methods)
    subsets = [f[matrix] for f in figures["subsets"].values() if not math.isnan(f[matrix]["mean"])]
    low = sum(f["mean"] < 0 and f["p"] < 0.05 for f in subsets)
    high = sum(f["mean"] > 0 and f["p"] < 0.05 for f in subsets)
    lowest = min(f["multi_rho"] for f in methods)
    pooled = [f["pooled"] for f in subsets]
    return (f"{matrix} matrix: over methods that use several members, a higher kappa goes with a lower accuracy (p < 0.05) on {negative} of "
            f"{len(methods)} pools and with a higher one on {positive}; the lowest correlation is {lowest:+.2f} (the paper: -0.91). Over "
            f"subsets of one size, a higher kappa goes with a lower accuracy in {low} of {len(subsets)} cases and with a higher one in "
            f"{high}. Over subsets of all sizes the correlation is {min(pooled):+.2f} to {max(pooled):+.2f}: more members mean a higher "
            "kappa and, mostly, a higher accuracy.")


if __name__ == "__main__":
    common.run(__doc__, "kappa", "Condition number and accuracy", POOLS, measure, section, tables, common.needs(
        "classification", more=lambda d: "it has fewer than five members" if len(d["models"]) < 5 else None))
