#!/usr/bin/python3
"""Regression: RMSE, likelihood and coverage of every method. The paper has no such table; its prototype comes from here.

    experiments/regression/run.py [--pools DIR]... [--resamples N]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

LEVEL = 0.9


def at_level(row, key):
    return row[key][row["levels"].index(LEVEL)]


def digits(value):
    """Decimals that show four figures of a value."""
    return 4 if value < 1 else 3 if value < 10 else 2


def one_pool(options, name, manifest, figures):
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
    figures[name] = {m: {"oof": nested[m]["rmse"], "test": r["rmse"], "test_ci": r.get("rmse_ci"), "nll": r.get("nll"),
                         "coverage": at_level(r, "coverage"), "models": r["models"]} for m, r in test.items()}
    rows = figures[name]
    words = [f"{100 * (rows['default'][s] / rows[o][s] - 1):+.1f}% of the RMSE of {o} {'out of fold' if s == 'oof' else 'on test'}"
             for o in ("average", "best-single") for s in ("oof", "test")]
    count = next(iter(nested.values()))
    return [f"### {name}", "", f"`{name}`: {common.POOLS[name][0]}. {report['samples']} rows in `test`, outputs: "
            f"{report['output_count']}, K = {report['models_in']}.", "",
            *common.table(["method", "RMSE, oof (nested)", "RMSE, test", "p", "R^2, test", "NLL, test", "coverage at 90%, test",
                           "models"], cells), f"`default`: {', '.join(words)}.", ""] if count else []


def main():
    options = common.arguments(__doc__, resamples=2000)
    pools = common.find_pools(options, ["diabetes", "concrete", "ames", "meats", "diamonds"])
    lines = ["RMSE, R^2, NLL and coverage are means over the outputs. NLL: of a normal distribution with the predicted mean and variance. "
             "Coverage: of the intervals at 90%. p: paired t-test of the squared errors against `default`, adjusted for the number of methods. "
             "The defaults of regression were chosen on the nested RMSE of these five pools, so that column is a little optimistic for "
             "`default`; the test columns are not.", ""]
    figures = {}
    for name, manifest in pools.items():
        lines += one_pool(options, name, manifest, figures)
    lines.append(common.conditions(options, ["compare POOL", "compare POOL --split test"]))
    common.write_section(options, "regression", "Regression", lines, figures)


if __name__ == "__main__":
    main()
