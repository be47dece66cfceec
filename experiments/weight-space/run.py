#!/usr/bin/python3
"""Averaged and sampled weights: the paper's table "ImageNet-1K classification", with its weight-space methods.

    experiments/weight-space/run.py [--pools DIR]... [--resamples N]

If train.py has left checkpoints, make_pool.py first makes the pool `weight_space` from them, unless it is up to date.
"""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

NAME = "weight_space"
# Top-1 %, ECE, NLL, models, relative FLOPs, as the paper prints them; the last three have no row there.
PAPER = [
    ("Best Single", "best-single", 83.1, 0.042, 0.681, 1, 0.07), ("Simple Averaging", "average", 83.9, 0.038, 0.644, 14, 1.00),
    ("Performance-Wtd. Avg.", "performance-weighted", 84.0, 0.037, 0.638, 14, 1.00),
    ("Ridge Stacking", "ridge", 84.2, 0.035, 0.629, 14, 1.00), ("Greedy Selection", "greedy", 84.1, 0.036, 0.632, 9, 0.64),
    ("Deep Ensembles", "deep-ensemble+temperature", 83.6, 0.038, 0.652, "5†", 0.36), ("Model Soups", "soup", 83.8, 0.041, 0.658, 1, 0.07),
    ("SWAG", "swag", 83.7, 0.029, 0.621, 1, 0.07), ("AutoGluon Stacker", "autogluon", 84.3, 0.033, 0.624, 14, 1.00),
    ("CoRe-Stack (prototype)", "prototype", 84.5, 0.026, 0.611, 9, 0.64), ("CoRe-Stack+", "paper", 85.4, 0.018, 0.583, 6, 0.59),
    ("without temperature", "deep-ensemble", None, None, None, None, None),
    ("Snapshots", "snapshot", None, None, None, None, None), ("MC Dropout", "mc-dropout", None, None, None, None, None),
    ("(this project)", "default", None, None, None, None, None)]
# Members that are methods but have no tag, so that the row "Model Soups" is the greedy soup.
SINGLES = [("soup of all (uniform)", "soup_uniform"), ("SWA", "swa"),
           ("one network, seed 0", "seed_0"), ("best fine-tuning on oof", None)]
WEIGHT_SPACE = ["best-single", "average", "deep-ensemble+temperature", "soup", "swag"]
KINDS = {"deep-ensemble", "snapshot", "mc-dropout", "soup", "swag"}
METHODS = ["best-single", "average", "greedy", "autogluon", "log-linear", "deep-ensemble", "deep-ensemble+temperature", "snapshot", "mc-dropout", "soup", "swag",
           "prototype", "paper", "default"]
SCORES = (("top1", True, 2), ("ece", False, 3), ("nll", False, 4))


def make_pool(options):
    """Makes the pool of what train.py has left, unless it is newer than all of that."""
    work, pool = common.ROOT / "data" / "weight-space", common.ROOT / "data" / "pools" / NAME / "pool.json"
    made = [p.stat().st_mtime for part in ("checkpoints", "others") for p in (work / part).glob("*.*")]
    if (work / "checkpoints" / "snapshots.run.json").exists() and not (pool.exists() and pool.stat().st_mtime > max(made)):
        subprocess.run([HERE / "make_pool.py", "--tool", options.tool], check=True)


def passes_of(models):
    """Forward passes behind each member; all members of the one network cost the same a pass."""
    return {m["name"]: 1 if m.get("ensemble", {}).get("kind") == "soup" else m.get("ensemble", {}).get("passes", 1)
            for m in models}


def single_rows(options, manifest, models):
    """Scores of members by themselves, with intervals: [title, member, row]."""
    if NAME != manifest.parent.name:
        return []
    labels = manifest.parent / "test_labels.npy"
    oof = common.array(manifest, "oof_labels.npy")
    tuned = [m["name"] for m in models if m["name"].startswith("finetune_")]
    best = max(tuned, key=lambda n: (common.array(manifest, f"{n}.oof.npy").argmax(1) == oof).mean())
    rows = []
    for title, name in SINGLES:
        name = name or best
        document = common.run_tool(options, "evaluate", manifest.parent / f"{name}.test.npy", "--labels", labels, "-r",
                                   options.resamples, "--seed", options.seed)
        rows.append([title, name, document])
    return rows


def passes_behind(row, models, passes):
    """Passes of a method's members: of those that it weighs, or None where no weights are reported."""
    if row.get("weights") is None:
        return None
    return sum(passes[m["name"]] for m, w in zip(models, row["weights"]) if w)


def table_cells(report, singles, models):
    """Cells of the paper's table, with our figures and its own."""
    rows = {r["method"]: r for r in report["rows"]}
    passes = passes_of(models)
    whole = sum(m.get("flops", 0) * passes[m["name"]] for m in models)
    cells, values = [], []
    for title, method, *paper in PAPER:
        if method not in rows:
            continue
        r = rows[method]
        count = passes_behind(r, models, passes)
        cells.append([f"{title}: `{method}`", common.interval(r, "top1", 2, 100), common.interval(r, "ece"),
                      common.interval(r, "nll"), common.models_cell(r), common.number(r["flops_rel"], 3), "" if count is None else count,
                      *("" if p is None else form.format(p) for p, form in zip(paper, ("{:.1f}", "{:.3f}", "{:.3f}", "{}", "{:.2f}")))])
        values.append(r)
    for title, name, r in singles:
        flops = next(m["flops"] for m in models if m["name"] == name)
        cells.append([f"*{title}: {name}*", common.interval(r, "top1", 2, 100), common.interval(r, "ece"),
                      common.interval(r, "nll"), 1, common.number(flops / whole, 3), 1, "", "", "", "", ""])
        values.append(r)
    for column, key, highest in ((1, "top1", True), (2, "ece", False), (3, "nll", False)):
        common.embolden(cells, [v[key] for v in values], column, highest)
    return cells


def orders(report):
    """Pairs in the paper's order: all methods that both have, and the weight-space methods with single and average."""
    figures = {}
    for key, _, column in SCORES:
        ours = {r["method"]: r[key] for r in report["rows"]}
        paper = {p[1]: p[column] for p in PAPER if p[column] is not None}
        few = {m: paper[m] for m in WEIGHT_SPACE}
        figures[key] = {"all": common.agreement(paper, ours), "weight_space": common.agreement(few, ours)}
    return figures


def verdict(figures):
    rows = figures["rows"]

    def by(key, highest):
        names = [m for m in (*WEIGHT_SPACE[2:], "deep-ensemble", "snapshot", "mc-dropout", "best-single") if m in rows]
        names.sort(key=lambda m: rows[m][key], reverse=highest)
        form, scale = ("{:.2f}", 100) if key == "top1" else ("{:.4f}", 1)
        return ", ".join(f"`{m}` {form.format(scale * rows[m][key])}" for m in names)

    few = {k: figures["orders"][k]["weight_space"] for k, _, _ in SCORES}
    return ["Of the pairs among " + ", ".join(f"`{m}`" for m in WEIGHT_SPACE) + " that the paper's table orders, these are in the same "
            "order here: " + ", ".join(f"{k} {v[0]} of {v[1]}" for k, v in few.items()) + ". From best to worst by top-1: "
            + by("top1", True) + "; by NLL: " + by("nll", False) + "; by ECE: " + by("ece", False) + ". The paper's table lists SWAG "
            "with one model and 0.07 of the FLOPs, but its text says that SWAG takes 5 to 30 passes; here each sample of SWAG counts as "
            "one pass.", ""]


def chosen(manifest):
    """The soups that were chosen, and by how much their own score on oof is optimistic."""
    path = manifest.parent / "choices.json"
    if not path.exists():
        return None
    c = json.loads(path.read_text())
    return {**c, "gap": sum(h["own"] - h["other"] for h in c["halves"]) / len(c["halves"])}


def choices_lines(c):
    if c is None:
        return []
    alone = (f"No mean of `{c['greedy'][0]}` and another file scored higher, so `soup` is that file. It was tuned without augmentation, "
             "like the held-out images; the networks of the seeds, the tail and the snapshots were trained with it, so the rows compare "
             "recipes as well as methods. ") if len(c["greedy"]) == 1 else ""
    return [f"The greedy soup contains {len(c['greedy'])} of {c['files']} fine-tunings ({', '.join(c['greedy'])}). " + alone
            + "It was chosen on `oof`, so its score there is slightly optimistic, and what is fitted on `oof` trusts it slightly "
            "too much. To measure this, we chose the soup greedily on one half of `oof`; its top-1 is "
            + "; ".join(f"{100 * h['own']:.2f}% there and {100 * h['other']:.2f}% on the other half" for h in c["halves"])
            + f", a mean difference of {100 * c['gap']:+.2f} points (the difference of two halves has a standard error of "
            f"{100 * c['standard_error']:.2f}).", ""]


def shift(options, manifest, methods):
    """Figures, and the cells and number of conditions that the page shows."""
    splits = json.loads(manifest.read_text())["splits"]
    targets = [s for s, e in splits.items() if s not in ("oof", "test") and common.labelled(e) and not e.get("conditions") and not e.get("ood")]
    worn = next((s for s, e in splits.items() if e.get("conditions") and common.labelled(e)), None)
    if len(targets) < 2 or not worn:
        return {}, None
    moved = common.compare(options, manifest, "--split", ",".join(targets), *methods)
    worn = common.compare(options, manifest, "--split", worn, "--clean", "test", *methods)
    families = [f for f in worn["rows"][0]["families"] if not f.endswith("_ci")]
    figures = {}
    for r, w in zip(moved["rows"], worn["rows"]):
        figures[r["method"]] = {**{t: r["on"][t] for t in targets}, "average": r["top1"], "mce": w["mce"], **{f: w["families"][f] for f in families}}
    both = {r["method"]: (r, w) for r, w in zip(moved["rows"], worn["rows"])}
    cells = [[f"`{m}`", common.interval(r, "top1", 1, 100), *(common.number(r["on"][t], 1, 100) for t in targets),
              common.interval(w, "mce", 1, 100), *(common.number(w["families"][f], 1, 100) for f in families)]
             for m, (r, w) in both.items()]
    for column, key in enumerate(["average", *targets, "mce", *families], 1):
        common.embolden(cells, [f[key] for f in figures.values()], column, column <= 1 + len(targets))
    return figures, {"cells": cells, "conditions": worn["conditions"], "targets": targets, "families": families}


def shift_lines(page):
    if page is None:
        return []
    return ["### Under shift", "", "The table has top-1 % on images that were rotated, scaled to half the resolution and shifted, and the "
            f"plain mean corruption error (lower is better) over {page['conditions']} conditions, in total and by family. The paper has "
            "model soups at 62.3 and deep ensembles at 61.9 on average over its domains, and SWAG at an mCE of 57.1 and deep ensembles at "
            "58.7.", "",
            *common.table(["method", "top-1 %, average", *page["targets"], "mCE %", *page["families"]], page["cells"])]


def ood_lines(figures):
    if not figures:
        return []
    methods = [m for m in next(iter(figures.values())) if m in METHODS]
    cells = [[f"`{m}`", *(common.number(figures[o].get(m), 2, 100) for o in figures)] for m in methods]
    for column, o in enumerate(figures, 1):
        common.embolden(cells, [figures[o].get(m) for m in methods], column, True)
    return ["### Out-of-distribution rows", "", "AUROC % by predictive entropy. The paper has SWAG at 84.5, CoRe-Stack+ at 83.9 and deep "
            "ensembles 3.1 below CoRe-Stack+.", "",
            *common.table(["method", *(f"against {o}" for o in figures)], cells)]


def measure(options, pools):
    name, manifest = next(iter(pools.items()))
    models = json.loads(manifest.read_text())["models"]
    report = common.compare(options, manifest, *common.test_words(manifest))
    methods = ["--methods", ",".join(r["method"] for r in report["rows"] if r["method"] in METHODS)]
    ood = {s: report if i == 0 else common.compare(options, manifest, "--split", "test", "--ood", s, *methods)
           for i, s in enumerate(common.ood_splits(manifest))}
    singles = single_rows(options, manifest, models)
    figures = {"rows": {r["method"]: {**{k: r[k] for k in ("top1", "ece", "nll", "models", "flops_rel")},
                                      **{f"{k}_ci": r.get(f"{k}_ci") for k in ("top1", "ece", "nll")}} for r in report["rows"]},
               "singles": {t: {"member": n, **{k: r[k] for k in ("top1", "ece", "nll")}} for t, n, r in singles},
               "orders": orders(report), "choices": chosen(manifest),
               "ood": {ood: {r["method"]: r["ood_auroc_entropy"] for r in of["rows"] if r.get("ood_auroc_entropy") is not None}
                       for ood, of in ood.items()}}
    figures["shift"], moved = shift(options, manifest, methods)
    return figures, {"name": name, "shape": common.shape_of(report), "cells": table_cells(report, singles, models), "shift": moved}


def tables(figures, page):
    return [common.shape(page["shape"], page["name"]), "",
            *common.table(["method", "top-1 %", "ECE", "NLL", "models", "FLOPs (rel.)", "passes", "paper: top-1 %", "ECE", "NLL",
                           "models", "FLOPs"], page["cells"]), common.CALIBRATED_MARK, "",
            *verdict(figures), *choices_lines(figures["choices"]), *shift_lines(page["shift"]), *ood_lines(figures["ood"])]


def section(figures, page):
    return [f"{common.shape(page['shape'], NAME)} One small CNN was trained from five seeds (`deep-ensemble`), fine-tuned six times from "
            "one start (soups), trained on at a constant rate with a checkpoint each epoch (SWA, and SWAG with 30 samples), trained with "
            "cycles (`snapshot`), and used with dropout on (20 passes). Five other models complete the pool. `corestack soup`, `swa` and "
            "`swag` made the soups, SWA and SWAG from the checkpoint files; batch-norm statistics were recomputed on training images for "
            "all files. experiments/weight-space/README.md describes the training.", "",
            "### The paper's first table", "",
            "Our figures, with the paper's (14 ImageNet backbones) on the right. Rows in italics are single members of the pool that are "
            "not methods of `compare`. FLOPs are passes times cost, relative to all members; most of them are the samples of SWAG and the "
            "dropout passes. Passes are the forward passes of networks behind a prediction, where the method reports its weights.", "",
            *tables(figures, page)[2:], common.conditions(page, ["compare POOL --split test --ood mnist", "compare POOL --split rotated,scaled,translated",
                                     "compare POOL --split corrupted --clean test"])]


if __name__ == "__main__":
    common.run(__doc__, "weight-space", "Averaged and sampled weights", [NAME], measure, section, tables, common.needs("classification", more=lambda d: None
               if any((m.get("ensemble") or {}).get("kind") in KINDS for m in d["models"]) else "no member is tagged as an ensemble, a soup or SWAG"),
               before=make_pool)
