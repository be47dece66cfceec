#!/usr/bin/python3
"""Long-tailed classes: accuracy on head, mid and tail (the paper's table "iNaturalist-2021 long-tail recognition").

    experiments/long-tail/run.py [--pools DIR]... [--resamples N]
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAPER = [  # all, head, mid, tail
    ("Best Single", "best-single", 70.1, 78.4, 68.2, 57.1),
    ("Simple Averaging", "average", 71.8, 79.3, 70.1, 59.8),
    ("Ridge Stacking", "ridge", 72.3, 79.6, 70.5, 60.5),
    ("CoRe-Stack (prototype)", "prototype", 73.1, 79.9, 71.4, 62.1),
    ("CoRe-Stack+", "paper", 74.2, 80.5, 72.6, 64.4),
]


def groups_of(counts):
    """Classes of each group, by training images: above 100, 20 to 100, below 20."""
    groups = {"head": np.flatnonzero(counts > 100), "mid": np.flatnonzero((counts >= 20) & (counts <= 100)),
              "tail": np.flatnonzero(counts < 20)}
    return {g: c for g, c in groups.items() if c.size}


def main():
    options = common.arguments(__doc__)
    pools = common.find_pools(options, ["vision_longtail"])
    lines = ["What the paper reports (top-1 %):", "",
             *common.table(["method", "all", "head", "mid", "tail"], [[p[0], *p[2:]] for p in PAPER])]
    figures = {}
    for name, manifest in pools.items():
        counts = common.array(manifest, "training_counts.npy")
        groups = groups_of(counts)
        labels = common.array(manifest, common.split_of(manifest, "test")["labels"])
        report, folder = common.compare(options, manifest, "--split", "test", save=True)
        rng = np.random.default_rng(options.seed)
        rows = {}
        for r in report["rows"]:
            right = np.load(folder / f"{r['method']}.test.npy").argmax(axis=1) == labels
            rows[r["method"]] = {"all": r["top1"], "all_ci": r["top1_ci"], "nll": r["nll"], "ece": r["ece"]}
            for g, classes in groups.items():
                part = right[np.isin(labels, classes)]
                sums = rng.binomial(part.size, part.mean(), size=options.resamples)  # resampled 0/1 rows
                rows[r["method"]][g] = float(part.mean())
                rows[r["method"]][g + "_ci"] = common.percentile(sums / part.size)
        figures[name] = {"rows": rows, "groups": {g: [int(c) for c in v] for g, v in groups.items()}}
        columns = ["all", *groups]
        cells = [[m, *(common.interval(r, c, 1, 100) for c in columns), common.number(r["nll"], 3), common.number(r["ece"], 3)]
                 for m, r in rows.items()]
        for i, c in enumerate(columns, 1):
            common.embolden(cells, [r[c] for r in rows.values()], i, True)
        common.embolden(cells, [r["nll"] for r in rows.values()], len(columns) + 1, False)
        common.embolden(cells, [r["ece"] for r in rows.values()], len(columns) + 2, False)
        lines += ["What we measure. Head, mid and tail: classes with more than 100, 20 to 100 and fewer than 20 training images "
                  f"(these have {', '.join(str(int(c)) for c in counts)}). "
                  + " ".join(f"No class is in {g}." for g in ("head", "mid", "tail") if g not in groups)
                  + " `oof` has the same long tail and `test` is balanced, so calibration is for other shares of the classes.", "",
                  f"### {name}", "", common.shape(report, name), "",
                  *common.table(["method", *columns, "NLL", "ECE"], cells), "### Did the paper's order hold?", "",
                  verdict(rows, groups), ""]
    lines.append(common.conditions(options, ["compare POOL --split test --save DIR"]))
    common.write_section(options, "long-tail", "Long tail", lines, figures)


def verdict(rows, groups):
    ours = {m: r["all"] for m, r in rows.items()}
    same, pairs, _ = common.agreement({p[1]: p[2] for p in PAPER}, ours)
    last = [g for g in ("tail", "mid") if g in groups][:1]
    gain = {g: 100 * (rows["paper"][g] - rows["prototype"][g]) for g in ("head", last[0])}
    best = max(ours, key=ours.get)

    def ahead(group):
        return 100 * (rows["default"][group] - rows["average"][group])

    return (f"{same} of {pairs} pairs of the paper's table come in its order. CoRe-Stack+ (`paper`) against its prototype: "
            f"{gain['head']:+.1f} points on head, {gain[last[0]]:+.1f} on {last[0]} (the paper: +0.6 on head, +1.2 on "
            f"mid, +2.3 on tail). Highest top-1 over all: `{best}`, {100 * ours[best]:.1f}%"
            + ("" if best == "default" else f"; `default`: {100 * ours['default']:.1f}%") + ". "
            f"`default` against the average: {ahead('head'):+.1f} on head, {ahead(last[0]):+.1f} on "
            f"{last[0]}.")


if __name__ == "__main__":
    main()
