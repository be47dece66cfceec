#!/usr/bin/python3
"""Segmentation and detection: the task's score of every method (the paper's table "Dense prediction").

    experiments/dense/run.py [--pools DIR]... [--resamples N]
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAPER = [  # mIoU and AP, models of 8 and of 7
    ("Best Single", "best-single", 49.3, 1, 45.2, 1),
    ("Simple Averaging", "average", 51.2, 8, 47.8, 7),
    ("Ridge Stacking", "ridge", 51.6, 8, 48.1, 7),
    ("Greedy Selection", "greedy", 51.5, 6, 48.0, 5),
    ("CoRe-Stack (prototype)", "prototype", 52.1, 6, 48.4, 5),
    ("CoRe-Stack+", "paper", 53.0, 5, 49.7, 4),
]
POOLS = ["segmentation", "camvid_recordings", "camvid", "detection", "bccd"]
METHODS = {
    "segmentation": "best-single,average,performance-weighted,ridge,greedy,log-linear,prototype,paper,default",
    "detection": "best-single,average,performance-weighted,ridge,greedy,wbf,nms,soft-nms,prototype,paper,default",
}
KEYS = {"segmentation": ("miou", "mIoU"), "detection": ("AP", "AP")}


def rows_of(report):
    return {row["method"]: row for row in report["rows"]}


def one_pool(options, manifest, task):
    """Figures, and the cells and sizes that the page shows."""
    key, _ = KEYS[task]
    nested = common.compare(options, manifest, "--methods", METHODS[task], resamples=0)
    held = common.compare(options, manifest, "--split", "test", "--methods", METHODS[task])
    oof, test = rows_of(nested), rows_of(held)
    cells = []
    for method, row in test.items():
        difference = row.get("difference", {})
        cells.append([f"{method} ({row['detail']})" if method == "best-single" else method,
                      common.number(oof.get(method, {}).get(key), 2, 100), common.interval(row, key, 2, 100),
                      common.interval(difference, key, 2, 100),
                      common.number(row.get("nll" if task == "segmentation" else "AP50"), *((3, 1) if task == "segmentation" else (2, 100))),
                      row["models"], common.number(row["flops_rel"], 2)])
    common.embolden(cells, [oof.get(m, {}).get(key) for m in test], 1, True)
    common.embolden(cells, [row[key] for row in test.values()], 2, True)
    figures = {m: {"oof": oof.get(m, {}).get(key), "test": r[key], "test_ci": r.get(key + "_ci"),
                   "difference": r.get("difference", {}).get(key), "difference_ci": r.get("difference", {}).get(key + "_ci"),
                   "models": r["models"]} for m, r in test.items()}
    images = [report.get("cases", report.get("images")) for report in (nested, held)]
    return figures, {"task": task, "cells": cells, "images": images, "classes": held["classes"], "members": held["models_in"]}


def pool_lines(name, rows, p):
    task = p["task"]
    label = KEYS[task][1]
    return [f"### {name}", "", f"`{name}`: {common.described(name)}. {p['images'][0]} images in `oof`, {p['images'][1]} in `test`, "
            f"C = {p['classes']}, K = {p['members']}.", "",
            *common.table(["method", f"{label} %, oof (nested)", f"{label} %, test", "difference to `default`",
                           f"{'NLL' if task == 'segmentation' else 'AP50 %'}, test", "models", "FLOPs"], p["cells"]),
            verdict(rows, label), ""]


def verdict(rows, label):
    default = rows["default"]
    words = []
    for other in ("average", "best-single"):
        low, high = rows[other]["difference_ci"]
        points = 100 * (default["test"] - rows[other]["test"])
        sure = "the interval excludes 0" if low > 0 or high < 0 else "the interval includes 0"
        words.append(f"{points:+.2f} points of {label} against {other} ({sure})")
    same, pairs, _ = common.agreement({p[1]: p[2 if label == "mIoU" else 4] for p in PAPER}, {m: r["test"] for m, r in rows.items()})
    return f"`default` on test: {' and '.join(words)}. {same} of {pairs} pairs are in the order of the paper's table."


def measure(options, pools):
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        figures[name], page["pools"][name] = one_pool(options, manifest, json.loads(manifest.read_text())["task"])
    return figures, page


def section(figures, page):
    return ["The paper reports, in mIoU % on ADE20K and box AP % on COCO:", "",
             *common.table(["method", "mIoU", "models", "AP", "models"], [[p[0], *p[2:]] for p in PAPER]),
             "mIoU is the mean over classes of the IoU over all pixels of the split. AP is COCO's, over IoU 0.50 to 0.95. The best "
             "single member is chosen by out-of-fold mIoU or AP. Differences to `default` are paired, with 95% bootstrap intervals "
             "over images. The label maps of `default` use class offsets chosen for mIoU ([segmentation.md](../docs/segmentation.md)). "
             "Some settings of detection were chosen by nested AP on `bccd` and `detection`, so their oof columns are slightly "
             "optimistic for `default`.", "",
            *tables(figures, page), common.conditions(page, ["compare POOL --methods ...", "compare POOL --split test --methods ..."])]


def tables(figures, page):
    return [line for name, p in page["pools"].items() for line in pool_lines(name, figures[name], p)]


if __name__ == "__main__":
    common.run(__doc__, "dense", "Dense prediction", POOLS, measure, section, tables, common.needs("segmentation", "detection"))
