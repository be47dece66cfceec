#!/usr/bin/python3
"""Segmentation and detection: the task's score of every method (the paper's table "Dense prediction").

    experiments/dense/run.py [--pools DIR]... [--resamples N]
"""
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
SEGMENTATION = ["segmentation", "camvid_recordings", "camvid"]
DETECTION = ["detection", "bccd"]
METHODS = {
    "segmentation": "best-single,average,performance-weighted,ridge,greedy,log-linear,prototype,paper,default",
    "detection": "best-single,average,performance-weighted,ridge,greedy,wbf,nms,soft-nms,prototype,paper,default",
}
KEYS = {"segmentation": ("miou", "mIoU"), "detection": ("AP", "AP")}


def rows_of(report):
    return {row["method"]: row for row in report["rows"]}


def one_pool(options, name, manifest, task, figures):
    key, label = KEYS[task]
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
    figures[name] = {m: {"oof": oof.get(m, {}).get(key), "test": r[key], "test_ci": r.get(key + "_ci"),
                         "difference": r.get("difference", {}).get(key), "difference_ci": r.get("difference", {}).get(key + "_ci"),
                         "models": r["models"]} for m, r in test.items()}
    cases = f"{nested.get('cases', nested.get('images'))} and {held.get('cases', held.get('images'))} images"
    other = "NLL" if task == "segmentation" else "AP50 %"
    return [f"### {name}", "", f"`{name}`: {common.POOLS[name][0]}. {cases} in `oof` and `test`, C = {held['classes']}, "
            f"K = {held['models_in']}.", "",
            *common.table(["method", f"{label} %, oof (nested)", f"{label} %, test", "less `default`", f"{other}, test", "models",
                           "FLOPs"], cells), verdict(figures[name], label), ""]


def verdict(rows, label):
    default = rows["default"]
    words = []
    for other in ("average", "best-single"):
        low, high = rows[other]["difference_ci"]
        points = 100 * (default["test"] - rows[other]["test"])
        sure = "the interval excludes 0" if low > 0 or high < 0 else "the interval includes 0"
        words.append(f"{points:+.2f} points of {label} against {other} ({sure})")
    same, pairs, _ = common.agreement({p[1]: p[2 if label == "mIoU" else 4] for p in PAPER}, {m: r["test"] for m, r in rows.items()})
    return f"`default` on test: {' and '.join(words)}. {same} of {pairs} pairs of the paper's table come in its order."


def main():
    options = common.arguments(__doc__, resamples=2000)
    pools = common.find_pools(options, SEGMENTATION + DETECTION)
    lines = ["What the paper reports (ADE20K mIoU %, COCO box AP %):", "",
             *common.table(["method", "mIoU", "models", "AP", "models"], [[p[0], *p[2:]] for p in PAPER]),
             "What we measure. mIoU: mean over classes of the IoU of all pixels of the split. AP: COCO's, over IoU 0.50 to 0.95. The best "
             "single member is the one of highest mIoU out of fold in a segmentation and of highest AP in a detection. \"less `default`\": "
             "paired difference to `default`, 95% bootstrap interval over images. Label maps of `default` take offsets "
             "chosen for mIoU ([segmentation.md](../docs/segmentation.md)); some of the settings of detection were chosen on the nested AP of `bccd` and "
             "`detection`, so their oof columns are a little optimistic for `default`.", ""]
    figures = {}
    for name, manifest in pools.items():
        lines += one_pool(options, name, manifest, "segmentation" if name in SEGMENTATION else "detection", figures)
    lines.append(common.conditions(options, ["compare POOL --methods ...", "compare POOL --split test --methods ..."]))
    common.write_section(options, "dense", "Dense prediction", lines, figures)


if __name__ == "__main__":
    main()
