#!/usr/bin/python3
"""Regression: RMSE, likelihood and coverage of every method. The paper has no such table; its prototype comes from here.

    experiments/regression/run.py [--pools DIR]... [--resamples N]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

POOLS = ["diabetes", "concrete", "ames", "meats", "diamonds"]
LEVEL = 0.9


def at_level(row, key):
    return row[key][row["levels"].index(LEVEL)]


def digits(value):
    """Decimals that show four figures of a value."""
    return 4 if value < 1 else 3 if value < 10 else 2


def one_pool(options, manifest):
    """Figures, and the cells and sizes that the page shows."""
    nested = {r["method"]: r for r in common.compare(options, manifest, resamples=0)["rows"]}
    report = common.compare(options, manifest, "--split", "test")
    test = {r["method"]: r for r in report["rows"]}
    against = {t["b"]: t["p_adjusted"] for t in report["tests"] if t["metric"] == "squared_error"}
    places = digits(test["default"]["rmse"])
    cells = [[f"{m} ({r['detail']})" if m == "best-single" else m, common.number(nested[m]["rmse"], places),
              common.interval(r, "rmse", places), common.p_value(against.get(m)), common.number(r["r2"], 3),
              common.number(r.get("nll"), 3), common.number(at_level(r, "coverage"), 3), r["models"]] for m, r in test.items()]
    common.embolden(cells, [nested[m]["rmse"] for m in test], 1, False)
    common.embolden(cells, [r["rmse"] for r in test.values()], 2, False)
    figures = {m: {"oof": nested[m]["rmse"], "test": r["rmse"], "test_ci": r.get("rmse_ci"), "nll": r.get("nll"),
                   "coverage": at_level(r, "coverage"), "models": r["models"]} for m, r in test.items()}
    return figures, {"cells": cells, "samples": report["samples"], "outputs": report["output_count"], "members": report["models_in"]}


def measure(options, pools):
    figures, page = {}, {"pools": {}}
    for name, manifest in pools.items():
        figures[name], page["pools"][name] = one_pool(options, manifest)
    return figures, page


def section(figures, page):
    return ["The paper has no regression table; its prototype comes from there. RMSE, R^2, NLL and coverage are means over the "
             "outputs. NLL is that of a normal distribution with the predicted mean and variance. Coverage is that of the 90% "
             "intervals. p is the p-value of a paired t-test of the squared errors against `default`, adjusted for the number of "
             "methods. The defaults of regression were chosen by the nested RMSE on these five pools, so that column is slightly "
             "optimistic for `default`; the test columns are not.", "",
            *tables(figures, page), common.conditions(page, ["compare POOL", "compare POOL --split test"])]


def tables(figures, page):
    lines = []
    for name, p in page["pools"].items():
        rows = figures[name]
        words = [f"{100 * (rows['default'][s] / rows[o][s] - 1):+.1f}% relative to {o} {'out of fold' if s == 'oof' else 'on test'}"
                 for o in ("average", "best-single") for s in ("oof", "test")]
        lines += [f"### {name}", "", f"`{name}`: {common.described(name)}. {p['samples']} rows in `test`, outputs: {p['outputs']}, "
                  f"K = {p['members']}.", "",
                  *common.table(["method", "RMSE, oof (nested)", "RMSE, test", "p", "R^2, test", "NLL, test", "coverage at 90%, test",
                                 "models"], p["cells"]), f"RMSE of `default`: {', '.join(words)}.", ""]
    return lines


if __name__ == "__main__":
    common.run(__doc__, "regression", "Regression", POOLS, measure, section, tables, common.needs("regression"))
