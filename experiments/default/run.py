#!/usr/bin/python3
"""The default stack against the baselines on every pool, with four checks.

    experiments/default/run.py [--pools DIR]... [--only POOL]... [--resamples N]

All choices are made on the `oof` split; only `corestack evaluate` reads the `test` split.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

# One row each: a name, and the arguments of `corestack fit` beyond the pool.
FITS = [
    ("**corestack**", []),
    ("log-linear, all members", ["--set", "redundancy.measure=none", "--set", "select.direction=none", "--set",
                                 "keep.fraction=0", "--set", "meta.learners=log-linear"]),
    ("four meta-learners, Laplace", ["--set", "meta.learners=ridge,elastic-net,lasso,log-linear"]),
    ("preset paper", ["--preset", "paper"]),
    ("preset prototype", ["--preset", "prototype"]),
]


CHECKS = ["NLL at or below that of greedy selection with temperature", "NLL within 2% of the log-linear pool of all members",
          "top-1 within half a point of the best baseline",
          "ECE not above the interval of greedy selection with temperature"]


def row(name, models, scores):
    return [name, models, common.interval(scores, "top1", 2, 100), common.interval(scores, "nll"), common.interval(scores, "ece")]


def one_pool(options, manifest, folder):
    """Figures, and the cells of the table."""
    cells = []
    found = {}
    base = None
    for number, (name, words) in enumerate(FITS):
        model = pathlib.Path(folder) / f"{number}.cstack"
        nested = [] if number == 0 else ["--set", "evaluate.nested=false"]
        fit = common.run_tool(options, "fit", manifest, "-o", model, "--seed", options.seed, *nested, *words)
        extra = ["--baselines"] if number == 0 else []
        scores = common.run_tool(options, "evaluate", model, manifest, "--split", "test", "--resamples",
                                 options.resamples, *extra)
        cells.append(row(name, fit["models_kept"], scores))
        if number == 0:
            base = fit
            found["own"] = scores
            found["baselines"] = {b["method"]: b for b in scores["baselines"]}
            for b in scores["baselines"]:
                label = f"{b['method']} ({b['detail']})" if b.get("detail") else b["method"]
                cells.append(row(label, b.get("models", ""), b))
        if number == 1:
            found["all"] = scores
    return {"oof_rows": base["samples"], "test_rows": found["own"]["samples"], "classes": base["classes"], "members": base["models_in"],
            "oof": {k: base["oof"][k] for k in ("top1", "nll", "ece")}, "seconds": base["seconds"]["total"],
            "checks": [list(c) for c in checks(found, base)]}, cells


def checks(found, base):
    """For each of CHECKS whether it holds, and its figure."""
    own, greedy = found["own"], found["baselines"]["greedy+temperature"]
    best_top1 = max(b["top1"] for b in found["baselines"].values())
    return [
        (own["nll"] <= greedy["nll"], f"{own['nll']:.4f} against {greedy['nll']:.4f}"),
        (own["nll"] <= 1.02 * found["all"]["nll"], f"{100 * (own['nll'] / found['all']['nll'] - 1):+.2f}%"),
        (own["top1"] >= best_top1 - 0.005, f"{100 * (own['top1'] - best_top1):+.2f} points"),
        (own["ece"] <= greedy["ece_ci"][1], f"{own['ece']:.4f} against at most {greedy['ece_ci'][1]:.4f}"),
    ]


def measure(options, pools):
    figures, page = {}, {"cells": {}}
    for name, manifest in pools.items():
        with tempfile.TemporaryDirectory() as folder:
            figures[name], page["cells"][name] = one_pool(options, manifest, folder)
    return figures, page


def section(figures, page):
    held = [h for f in figures.values() for h, _ in f["checks"]]
    return ["`corestack fit` with its defaults, compared with the baselines of `corestack evaluate --baselines`. Four checks on every "
             "pool guard the defaults against regressions.", "",
            *tables(figures, page), f"{sum(held)} of {len(held)} checks hold.", "",
            pathlib.Path(__file__).with_name("notes.md").read_text().rstrip(), "",
            common.conditions(page, ["fit POOL [--set ...]", "evaluate MODEL POOL --split test --baselines"])]


def tables(figures, page):
    lines = []
    for name, f in figures.items():
        lines += [f"### {name} by default", "",
                  f"{f['oof_rows']} out-of-fold rows, {f['test_rows']} test rows, {f['classes']} classes, {f['members']} members. Nested "
                  f"out-of-fold scores: top-1 {100 * f['oof']['top1']:.2f}%, NLL {f['oof']['nll']:.4f}, ECE {f['oof']['ece']:.4f}. The fit "
                  f"with nested scores takes {f['seconds']:.1f} s.", "",
                  *common.table(["method", "members", "top-1 %", "NLL", "ECE"], page["cells"][name]),
                  *(f"- {'yes' if held else '**no**'}: {what} ({figure})" for what, (held, figure) in zip(CHECKS, f["checks"])), ""]
    return lines


if __name__ == "__main__":
    common.run(__doc__, "default", "Default against baselines", common.EVERY_POOL, measure, section, tables, common.needs("classification"))
