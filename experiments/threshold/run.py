#!/usr/bin/python3
"""The CKA threshold of the preset paper (the paper's table "CKA threshold sensitivity").

    experiments/threshold/run.py [--pools DIR]... [--only POOL]... [--resamples N]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAPER = {"0.70": (84.8, 4), "0.75": (85.0, 5), "0.80": (85.3, 5), "0.85": (85.4, 6), "0.90": (85.3, 7), "0.95": (85.1, 9)}
POOLS = ["cifar10", "vision", "digits"]
VALUES = "0.70,0.75,0.80,0.85,0.90,0.95,0.97,0.98,0.99,0.995"


def measure(options, pools):
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        report = common.corestack(options, "sweep", manifest, "--methods", "paper", "--over", f"cka.threshold={VALUES}",
                                  "--split", "test", "--resamples", options.resamples,
                                  "--seed", options.seed)
        rows = report["rows"]
        figures[name] = [{k: r[k] for k in ("value", "top1", "ece", "nll", "models", "kappa_gram", "kappa_cka")} for r in rows]
        cells = [[r["value"], common.interval(r, "top1", 2, 100), common.interval(r, "ece"), common.interval(r, "nll"),
                  f"{r['models']} of {report['models_in']}", common.number(r["kappa_gram"], 1), common.number(r["kappa_cka"], 1)] for r in rows]
        common.embolden(cells, [r["top1"] for r in rows], 1, True)
        common.embolden(cells, [r["nll"] for r in rows], 3, False)
        page["pools"][name] = {"shape": common.shape_of(report), "cells": cells}
    return figures, page


def section(figures, page):
    return ["The paper reports:", "",
             *common.table(["threshold", *PAPER], [["top-1 %", *(v[0] for v in PAPER.values())],
                                                   ["members", *(v[1] for v in PAPER.values())]]),
             "Ours is the preset `paper` at each threshold. Intervals are those of each value, not of differences.", "",
            *tables(figures, page), "### Is it flat in [0.80, 0.90]?", "", *verdict(figures), "",
            common.conditions(page, [f"sweep POOL --methods paper --over cka.threshold={VALUES} --split test"])]


def tables(figures, page):
    lines = []
    for name, p in page["pools"].items():
        lines += [f"### {name}", "", common.shape(p["shape"], name), "",
                  *common.table(["threshold", "top-1 %", "ECE", "NLL", "members", "kappa (Gram)", "kappa (CKA)"], p["cells"])]
    return lines


def flat(rows):
    """(spread of top-1 in points over [0.80, 0.90], best top-1 in %, best of the three, value of the best)."""
    inner = [100 * r["top1"] for r in rows if 0.7999 < float(r["value"]) < 0.9001]
    best = max(rows, key=lambda r: r["top1"])
    return max(inner) - min(inner), 100 * best["top1"], max(inner), best["value"]


def verdict(figures):
    lines = []
    for name, rows in figures.items():
        spread, best, inner, value = flat(rows)
        kept = [r["models"] for r in rows if 0.7999 < float(r["value"]) < 0.9001]
        lines.append(f"- `{name}`: in [0.80, 0.90] top-1 varies by {spread:.2f} points (the paper: 0.1), with {min(kept)} to {max(kept)} "
                     f"members. The best value in that range is {best - inner:.2f} points below the best of all thresholds, at {value}.")
    return lines


if __name__ == "__main__":
    common.run(__doc__, "threshold", "CKA threshold", POOLS, measure, section, tables, common.needs("classification"))
