#!/usr/bin/python3
"""Out-of-distribution rows: AUROC, AUPR, FPR@95 (the paper's paragraph "OOD detection").

    experiments/ood/run.py [--pools DIR]... [--only POOL]... [--resamples N]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

POOLS = ["cifar10", "vision"]
SCORES = ["max_probability", "predictive_entropy", "energy", "disagreement", "mutual_information"]
COLUMNS = [("ood_auroc", "AUROC", True), ("ood_aupr", "AUPR", True), ("ood_fpr95", "FPR@95", False),
           ("ood_auroc_entropy", "AUROC, entropy", True), ("ood_aupr_entropy", "AUPR, entropy", True),
           ("ood_fpr95_entropy", "FPR@95, entropy", False), ("ood_auroc_energy", "AUROC, energy", True),
           ("ood_auroc_disagreement", "AUROC, disagreement", True),
           ("ood_auroc_mutual_information", "AUROC, mutual information", True)]
FURTHER = ["default", "paper", "prototype", "average", "best-single"]  # methods whose every score is shown

DEFINITIONS = [*SCORES, "auroc_out_positive", "aupr_out_positive", "aupr_in_positive", "fpr95_out_positive",
               "fpr95_in_positive", "detection_error"]


def every_score(rows):
    """Cells of both conventions, with intervals of AUROC."""
    return [[r["method"], o["score"], common.interval(o, "auroc", 1, 100),
             *(common.number(o[k], 1, 100) for k in ("aupr_out_positive", "aupr_in_positive", "fpr95_out_positive",
                                                      "fpr95_in_positive", "detection_error"))]
            for r in rows if r["method"] in FURTHER for o in r["ood_scores"]]


def measure(options, pools):
    figures, page = {}, {"pairs": {}, "definitions": {}}
    for name, ood in [(name, ood) for name, manifest in pools.items() for ood in common.ood_splits(manifest)]:
        report = common.compare(options, pools[name], "--split", "test", "--ood", ood)
        page["definitions"].update({k: report["definitions"][k] for k in DEFINITIONS if k in report["definitions"]})
        rows = [r for r in report["rows"] if r.get("ood_auroc") is not None]
        figures[f"{name} against {ood}"] = {r["method"]: {"models": r["models"], **{k: r.get(k) for k, _, _ in COLUMNS}} for r in rows}
        cells = [[r["method"], *(common.number(r.get(k), 2, 100) for k, _, _ in COLUMNS)] for r in rows]
        for i, (key, _, highest) in enumerate(COLUMNS, 1):
            common.embolden(cells, [r.get(key) for r in rows], i, highest)
        page["pairs"][f"{name} against {ood}"] = {"name": name, "ood": ood, "shape": common.shape_of(report), "cells": cells,
                                                  "every": every_score(rows)}
    return figures, page


def section(figures, page):
    return ["The paper reports in its text, on ImageNet-O by predictive entropy, that the AUROC of CoRe-Stack+ is 3.1 above that of deep "
             "ensembles and close to SWAG's (83.9 and 84.5), and that its FPR@95 is 55.9, against 62.1 of deep ensembles.", "",
             "In the first table of each pair, out-of-distribution rows are the positive class and the score is `max_probability` "
             "unless the heading names another. Definitions:", "",
            *(f"- {k}: {v}" for k, v in page["definitions"].items()), "",
            *tables(figures, page), "### Does it hold?", "", *verdict(figures), "",
            common.conditions(page, ["compare POOL --split test --ood mnist", "compare POOL --split test --ood noise"])]


def tables(figures, page):
    lines = []
    for p in page["pairs"].values():
        lines += [f"### {p['name']}, test rows against {p['ood']}", "", common.shape(p["shape"], p["name"]) + " All values in %.", "",
                  *common.table(["method", *(c[1] for c in COLUMNS)], p["cells"]),
                  *common.table(["method", "score", "AUROC", "AUPR, out positive", "AUPR, in positive", "FPR@95, out positive",
                                 "FPR@95, in positive", "detection error"], p["every"])]
    return lines


def best_score(rows):
    """Which score separates best for `default`."""
    keys = {"max_probability": "ood_auroc", **{k: "ood_auroc_" + k.removeprefix("predictive_") for k in SCORES[1:]}}
    own = {k: rows["default"][v] for k, v in keys.items() if rows["default"].get(v) is not None}
    best = max(own, key=own.get)
    return f"The best of the five scores for `default` is `{best}`, with an AUROC of {100 * own[best]:.1f}."


def verdict(figures):
    lines = []
    for name, rows in figures.items():
        auroc = {m: r["ood_auroc_entropy"] for m, r in rows.items()}
        best = max(auroc, key=auroc.get)
        against = [m for m in ("deep-ensemble", "prototype", "average", "best-single") if m in auroc]
        lines.append(f"- {name}, AUROC by predictive entropy: `paper` {100 * auroc['paper']:.1f}, `default` {100 * auroc['default']:.1f}; "
                     + ", ".join(f"`{m}` {100 * auroc[m]:.1f}" for m in against) + f"; highest `{best}` "
                     f"{100 * auroc[best]:.1f}. " + best_score(rows))
    return lines


if __name__ == "__main__":
    common.run(__doc__, "ood", "Out-of-distribution rows", POOLS, measure, section, tables, common.needs(
        "classification", more=lambda d: None if any(s.get("ood") for s in d["splits"].values()) else "it has no split with `ood`"))
