#!/usr/bin/python3
"""Corrupted images: mean error by family for every method (the paper's table "ImageNet-C robustness").

    experiments/corruptions/run.py [--pools DIR]... [--only POOL]... [--resamples N]
"""
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

PAPER = [  # mCE, noise, blur, weather, digital, difference to clean
    ("Best Single", "best-single", 64.2, 73.1, 59.8, 65.4, 58.5, 47.1),
    ("Deep Ensembles", "deep-ensemble", 58.7, 65.2, 55.3, 60.9, 53.4, 42.1),
    ("SWAG", "swag", 57.1, 62.4, 54.2, 59.3, 52.5, 40.8),
    ("CoRe-Stack (prototype)", "prototype", 56.1, 61.2, 53.4, 58.6, 51.2, 38.4),
    ("CoRe-Stack+", "paper", 53.5, 57.8, 50.9, 56.1, 49.2, 35.7),
]
FAMILIES = ["noise", "blur", "weather", "digital"]
NONNEGATIVE = "default, non-negative"
POOLS = ["cifar10", "vision"]


def families_of(row):
    return {name: error for name, error in row["families"].items() if not name.endswith("_ci")}


def one_pool(options, manifest, split):
    words = ["--split", split, "--clean", "test"]
    report = common.compare(options, manifest, *words)
    bounded = common.compare(options, manifest, *words, "--methods", "default", "--set", "loglinear.nonnegative=true")
    clean = common.compare(options, manifest, *common.test_words(manifest))
    clean_nll = {r["method"]: r["nll"] for r in clean["rows"]}
    bounded["rows"][0]["method"] = NONNEGATIVE
    rows = []
    for row in [*report["rows"], *bounded["rows"]]:
        difference = row.get("difference", {})
        rows.append({"method": row["method"], "mce": row["mce"], "mce_ci": row.get("mce_ci"),
                     "families": families_of(row), **families_of(row), "delta": row["mce_delta"], "delta_ci": row.get("mce_delta_ci"),
                     "difference": difference.get("mce"), "difference_ci": difference.get("mce_ci"), "models": row["models"],
                     "nll": row["nll"], "ece": row["ece"], "clean_nll": clean_nll.get(row["method"]),
                     "severities": row["severities"]})
    return report, rows


def robust_members(manifest, report, split):
    """The five members with the highest top-1 on corrupted rows: name, that top-1, weight in the log-linear pool."""
    pool = next(r for r in report["rows"] if r["method"] == "log-linear")
    found = []
    labels = common.array(manifest, common.split_of(manifest, split)["labels"])
    for model, weight in zip(json.loads(manifest.read_text())["models"], pool["weights"]):
        p = np.load(manifest.parent / model["predictions"][split], mmap_mode="r")
        found.append([model["name"], float((p.argmax(axis=2) == labels[None, :]).mean()), weight])
    return sorted(found, key=lambda f: -f[1])[:5]


def measure(options, pools):
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        split = common.worn_split(json.loads(manifest.read_text()))
        report, rows = one_pool(options, manifest, split)
        families = list(rows[0]["families"])
        figures[name] = {r["method"]: {k: v for k, v in r.items() if k not in ("severities", "families")} for r in rows}
        cells = [[r["method"], common.interval(r, "mce", 1, 100), *(common.number(r["families"][f], 1, 100) for f in families),
                  common.interval(r, "delta", 1, 100), common.interval(r, "difference", 1, 100),
                  common.number(r["nll"], 3), common.number(r["ece"], 3)] for r in rows]
        for column, of in enumerate([lambda r: r["mce"], *((lambda r, f=f: r["families"][f]) for f in families), lambda r: r["delta"]], 1):
            common.embolden(cells, [of(r) for r in rows], column, False)
        common.embolden(cells, [r["nll"] for r in rows], len(families) + 4, False)
        common.embolden(cells, [r["ece"] for r in rows], len(families) + 5, False)
        page["pools"][name] = {"shape": common.shape_of(report), "cells": cells, "severities": severities(rows), "families": families,
                               "robust": robust_members(manifest, report, split) if name in POOLS else []}
    return figures, page


def section(figures, page):
    return ["The paper reports, on ImageNet-C, with families normalised by AlexNet's errors:", "",
             *common.table(["method", "mCE", *FAMILIES, "delta to clean"], [[p[0], *p[2:]] for p in PAPER]),
             "Ours is the plain mCE: the mean error in % over severities, then over kinds of corruption, **not** normalised by a "
             "reference model, since none exists for these images. A family is the mean over its kinds. Intervals resample images, "
             "each with all its conditions. \"To clean\" is the difference to the split `test`, whose images are others and are "
             "resampled independently. \"To `default`\" is the paired difference of mCE in points. NLL and ECE are means over "
             "conditions. The corruptions are simple versions of those of ImageNet-C. "
             f"`{NONNEGATIVE}` is `default` with `loglinear.nonnegative=true`.", "",
            *tables(figures, page), "### Does the paper's order hold?", "", *[verdict(n, f) for n, f in figures.items()], "",
            *guarded(common.under_shift()),
            *finding(figures, {n: p["robust"] for n, p in page["pools"].items()}),
            common.conditions(page, ["compare POOL --split corrupted --clean test"])]


def tables(figures, page):
    lines = []
    for name, p in page["pools"].items():
        levels = p["severities"]["levels"]
        lines += [f"### {name}, corrupted", "", common.shape(p["shape"], name), "",
                  *common.table(["method", "plain mCE %", *p["families"], "to clean", "to `default`", "NLL", "ECE"], p["cells"]),
                  *(common.table(["method", *(f"{k} {v:g}" for k in ("error % at severity", "NLL at", "ECE at") for v in levels)],
                                 p["severities"]["cells"]) if levels else [])]
    return lines


def severities(rows):
    """Error and calibration by severity, of a few methods."""
    if not rows[0]["severities"]:
        return {"levels": [], "cells": []}
    shown = [r for r in rows if r["method"] in ("best-single", "average", "greedy", "prototype", "paper", "default", NONNEGATIVE)]
    cells = [[r["method"], *(common.number(s["error"], 1, 100) for s in r["severities"]),
              *(common.number(s["nll"], 2) for s in r["severities"]), *(common.number(s["ece"], 3) for s in r["severities"])]
             for r in shown]
    return {"levels": [s["severity"] for s in shown[0]["severities"]], "cells": cells}


def verdict(name, rows):
    ours = {m: r["mce"] for m, r in rows.items() if m != NONNEGATIVE}
    same, pairs, _ = common.agreement({p[1]: p[2] for p in PAPER}, ours)
    wins = [f for f in FAMILIES if rows["paper"][f] < rows["prototype"][f]]
    best = min(ours, key=ours.get)
    return (f"- `{name}`: {same} of {pairs} pairs are in the order of the paper's table. CoRe-Stack+ (`paper`) has an mCE of "
            f"{100 * ours['paper']:.1f}, its prototype {100 * ours['prototype']:.1f}; `paper` is lower in {len(wins)} of 4 families. "
            f"Lowest mCE: `{best}`, {100 * ours[best]:.1f}; `default`: {100 * ours['default']:.1f}.")



def guarded(shift):
    """Errors and NLL by family and severity with the guard and with labels, from the experiment shift."""
    lines = []
    for name, f in shift.items():
        cells = []
        for method in f["methods"]:
            cells.append([method, *(f"{100 * values[method][1]:.1f}" for values in f["families"].values()),
                          *(f"{100 * values[method][1]:.1f}" for values in f["severities"].values()),
                          *(f"{values[method][0]:.2f}" for values in f["severities"].values())])
        heads = [*(f"error %, {k}" for k in f["families"]), *(f"error %, severity {k}" for k in f["severities"]),
                 *(f"NLL at {k}" for k in f["severities"])]
        for column, _ in enumerate(heads, 1):
            common.embolden(cells, [float(c[column]) for c in cells], column, False)
        lines += [f"### {name}, with the guard and with labels", "", *common.table(["method", *heads], cells)]
    if lines:
        lines += ["These tables are of `experiments/shift/run.py` ([Under shift](#under-shift)): the guard acts on batches of 200 rows of one condition, and "
                  "labels are those of random rows of each condition, whose other rows are scored.", ""]
    return lines


def finding(figures, robust):
    """What a strong shift does to a stack that was chosen on clean rows."""
    if "vision" not in figures:
        return []
    rows = figures["vision"]

    def pair(method):
        return f"{100 * rows[method]['mce']:.1f}% error, NLL {rows[method]['nll']:.2f}"

    place = common.rank({m: r["clean_nll"] for m, r in rows.items() if m != NONNEGATIVE}, "default", False)
    weights = ", ".join(f"`{n}` {w:+.2f}" if w else f"`{n}` left out" for n, _, w in robust["vision"])
    against = [w for _, _, w in robust["vision"] if w <= 0]
    warm = rows["average+temperature"]
    other = ""
    if "cifar10" in figures:
        cifar = {m: f"{100 * r['mce']:.1f}%" for m, r in figures["cifar10"].items()}
        other = (f" `cifar10` does not show this: `default` {cifar['default']}, `average` {cifar['average']}, `prototype` "
                 f"{cifar['prototype']}.")
    shift = common.under_shift().get("vision")
    guard = "" if not shift else "; ".join(
        f"{said} {100 * shift['methods'][m]['error']:.1f}% error, NLL {shift['methods'][m]['nll']:.2f}" for said, m in
        (("The guard, which `predict` uses by default on files, tests whether a batch looks like the rows of the fit and otherwise leans on the average:", "default, guard"),
         ("with 50 labelled rows of each condition (`corestack adapt`)", "default, 50 labels"))) + ". "
    return ["### Under strong shift the best stack on clean rows is not the best one", "",
            f"On `vision`, `default` has rank {place} of {len(rows) - 1} methods by NLL on clean test rows. On corrupted rows it has "
            f"{pair('default')}; the plain average has {pair('average')} and the preset `prototype` {pair('prototype')}. The "
            "pools of `default` are fitted on clean rows. There the strong networks carry nearly all the information, and a weaker member "
            "serves as a correction, often with a negative weight. In `log-linear`, the five members that are most accurate under corruption "
            f"have these weights: {weights}; {len(against)} of 5 are at or below 0. Under shift their information is lost or counted with "
            "the wrong sign." + other, "",
            f"Non-negative weights (`--set loglinear.nonnegative=true`) take `default` to {pair(NONNEGATIVE)} on `vision`"
            + (f" and from {100 * figures['cifar10']['default']['mce']:.1f}% to "
               f"{100 * figures['cifar10'][NONNEGATIVE]['mce']:.1f}% error on `cifar10`" if "cifar10" in figures else "")
            + ". They raise the nested NLL on clean rows of nearly every pool ([robustness.md](../docs/robustness.md)), so they are an "
            "option and not the default.", "",
            f"{guard}[shift.md](../docs/shift.md) says what to do when data change. To choose between methods, compare them on a shifted split of "
            "your own (`corestack compare POOL --split SHIFTED`). A temperature fitted on clean rows does not carry over: here it takes the NLL "
            f"of the average from {rows['average']['nll']:.2f} to {warm['nll']:.2f}. No choice wins under every shift: in the table of Domain shift the best method differs from target to "
            "target.", ""]


if __name__ == "__main__":
    common.run(__doc__, "corruptions", "Corruptions", POOLS, measure, section, tables, common.needs(
        "classification", more=lambda d: None if common.worn_split(d) else "it has no labelled split with `conditions`"))
