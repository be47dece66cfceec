#!/usr/bin/python3
"""Components one after the other (the paper's table "Cumulative component ablation").

    experiments/ablation/run.py [--pools DIR]... [--only POOL]... [--resamples N]
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAPER = [  # top-1, ECE, kappa, members, seconds
    ("prototype", 84.5, 0.026, 392, 9, 612), ("+ S1 CKA projection", 85.0, 0.024, 281, 7, 618),
    ("+ S2 gate", 85.2, 0.022, 281, 7, 625), ("+ S3 lambda*", 85.1, 0.023, 281, 7, 194),
    ("+ S4 Laplace blend", 85.4, 0.018, 218, 6, 201),
]

POOLS = ["cifar10", "vision", "fashion", "digits", "dna", "letter"]


def measure(options, pools):
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        report = common.corestack(options, "ablate", manifest, "--split", "test", "--resamples", options.resamples,
                                  "--seed", options.seed)
        figures[name] = [{k: r.get(k) for k in ("stage", "top1", "ece", "nll", "kappa_gram", "kappa_cka", "models", "seconds", "difference")}
                         for r in report["rows"]]
        ridge = common.corestack(options, "ablate", manifest, "--split", "test", "--resamples", 0, "--seed", options.seed,
                                 "--set", "meta.learners=ridge")
        page.setdefault("penalties", {})[name] = {key: [{k: r[k] for k in ("top1", "brier", "nll")} for r in of["rows"][2:4]]
                                                  for key, of in (("all", report), ("ridge", ridge))}
        figures[name][4].update(of_folds(options, manifest))
        cells = []
        for r in report["rows"]:
            d = r.get("difference") or {}
            cells.append([r["stage"], common.interval(r, "top1", 2, 100), common.interval(d, "top1", 2, 100),
                          common.interval(r, "ece"), common.interval(d, "ece"), common.number(r["nll"]),
                          common.number(r["kappa_gram"], 1), common.number(r["kappa_cka"], 1), r["models"], common.number(r["seconds"], 2)])
        page["pools"][name] = {"shape": common.shape_of(report), "cells": cells}
    return figures, page


def of_folds(options, manifest):
    """Of preset paper: how many aggregators the gate suppresses without each fold, and each meta-learner's log curvature per coefficient."""
    place = common.stored_folder(options, manifest, "gates", options.seed)
    document = place / "document.json"
    if options.fresh or not document.exists():
        place.mkdir(parents=True, exist_ok=True)
        found = common.run_tool(options, "fit", manifest, "--preset", "paper", "-o", place / "stack.cstack", "--set", "evaluate.nested=false",
                                "--seed", options.seed)
        document.write_text(json.dumps({key: found.get(key) for key in ("gate", "learners")}))
    found = json.loads(document.read_text())
    passed = [a["folds"] for a in found["gate"]["aggregators"]]
    return {"suppressed": [sum(share < 0.25 for share in fold) for fold in zip(*passed)],
            "curvature": {m["name"]: [2 * f["half_logdet"] / max(f["coefficients"], 1) for f in m["folds"]] for m in found["learners"]}}


def section(figures, page):
    return ["The paper reports:", "",
             *common.table(["configuration", "top-1 %", "ECE", "kappa", "members", "seconds"], PAPER),
             "Each row adds one stage to the row above; row S4 is the preset `paper`. Differences to the row above are paired, "
             "with intervals. kappa is the condition number of the kept members' out-of-fold Gram matrix and of their CKA matrix; the paper "
             "says both. Row S5, our drop-and-refit (`refit.drop`), is not in the paper. Seconds are of the fit, on a shared machine.", "",
            *tables(figures, page), "### Do the paper's gains hold?", "", *verdict(figures), "", *neutral(figures, page),
            common.conditions(page, ["ablate POOL --split test"])]


def neutral(figures, page):
    """What S3, lambda* in place of the cross-validated penalty, changes: with all learners of the paper, and with the ridge alone."""
    cells, nats = [], {}
    for name, pairs in page.get("penalties", {}).items():
        cells.append([name])
        for before, after in pairs.values():
            cells[-1] += [f"{100 * (after['top1'] - before['top1']):+.2f}", *(f"{100 * (after[k] / before[k] - 1):+.1f}%" for k in ("brier", "nll"))]
        before, after = pairs["all"]
        nats[name] = (after["nll"] / before["nll"] - 1, (after["nll"] - before["nll"]) * page["pools"][name]["shape"]["samples"])
    over = [f"{name} {change:+.1%}, {total:.1f} nats in all" for name, (change, total) in nats.items() if abs(change) > 0.01]
    return ["#### S3: lambda* in place of the cross-validated penalty", "", "Change of top-1 in points, of the Brier score and of the NLL, with the paper's three "
            "learners and with the ridge alone. Both penalties are for the squared error. A score that is clipped to 1e-6 costs 13.8 nats where it belongs to "
            "the true class, so that single rows can move the NLL" + (f": by more than 1% on {'; '.join(over)}." if over else ", but by no more than 1% here."), "",
            *common.table(["pool", "top-1", "Brier", "NLL", "top-1, ridge", "Brier, ridge", "NLL, ridge"], cells)]


def tables(figures, page):
    lines = []
    for name, p in page["pools"].items():
        lines += [f"### {name}", "", common.shape(p["shape"], name), "",
                  *common.table(["configuration", "top-1 %", "to the row above", "ECE", "to the row above", "NLL", "kappa (Gram)", "kappa (CKA)",
                                 "members", "seconds"], p["cells"])]
    return lines


def verdict(figures):
    steps = [("S1", 1, "top-1 +0.5 and kappa -28%"), ("S2", 2, "top-1 +0.2, ECE -0.002"),
             ("S3", 3, "top-1 -0.1, time a third"), ("S4", 4, "top-1 +0.3, ECE -0.005, one member fewer"), ("S5", 5, "no such row")]
    lines = []
    for label, at, paper in steps:
        parts = []
        for name, rows in figures.items():
            if at >= len(rows):
                continue
            above, row = rows[at - 1], rows[at]
            parts.append(f"{name} top-1 {100 * (row['top1'] - above['top1']):+.2f}, ECE {row['ece'] - above['ece']:+.4f}, "
                         f"kappa of Gram {above['kappa_gram']:.0f} to {row['kappa_gram']:.0f}, of CKA {common.number(above.get('kappa_cka'), 0)} to "
                         f"{common.number(row.get('kappa_cka'), 0)}, members {above['models']} to "
                         f"{row['models']}, seconds {above['seconds']:.2f} to {row['seconds']:.2f}")
        lines.append(f"- {label} (the paper: {paper}): " + "; ".join(parts) + ".")
    return lines


if __name__ == "__main__":
    common.run(__doc__, "ablation", "Component ablation", POOLS, measure, section, tables, common.needs("classification"))
