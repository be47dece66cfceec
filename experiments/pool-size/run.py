#!/usr/bin/python3
"""Scores against the number of members in the pool (the paper's paragraph "Scaling behavior").

    experiments/pool-size/run.py [--pools DIR]... [--only POOL]...
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

METHODS = ["default", "average", "autogluon", "log-linear"]
SIZES = {"cifar10": "4:16:4", "vision": "4:24:4", "digits": "4:16:4"}
DRAWS = 5


def main():
    options = common.arguments(__doc__)
    pools = common.find_pools(options, list(SIZES))
    lines = ["What the paper reports: for pools of 4 to 20 models, 40 to 50% are kept; accuracy and ECE improve monotonically up to "
             "14 and then stay. It gives no table.", "",
             f"What we measure: {DRAWS} random orders of the members; along each the pool only grows. Mean and "
             "standard deviation over the draws; the last size is the whole pool, where there is one draw in effect. "
             "`autogluon` is greedy "
             "selection with temperature scaling.", ""]
    figures = {}
    for name, manifest in pools.items():
        over = f"pool.size={SIZES[name]}"
        report = common.corestack(options, "sweep", manifest, "--methods", ",".join(METHODS), "--over", over, "--draws", DRAWS,
                                  "--split", "test", "--resamples", 0, "--seed", options.seed)
        rows = report["summary"]
        figures[name] = rows
        cells = [[r["method"], r["value"], f"{100 * r['top1_mean']:.2f} ± {100 * r['top1_sd']:.2f}",
                  f"{r['ece_mean']:.4f} ± {r['ece_sd']:.4f}", f"{r['nll_mean']:.4f} ± {r['nll_sd']:.4f}",
                  f"{r['models_mean']:.1f}", f"{100 * r['models_mean'] / float(r['value']):.0f}"] for r in rows]
        lines += [f"### {name}", "", common.shape(report, name), "",
                  *common.table(["method", "members in the pool", "top-1 %", "ECE", "NLL", "kept", "kept %"], cells)]
    lines += ["### Did it hold?", "", *verdict(figures), "",
              common.conditions(options, [f"sweep POOL --methods {','.join(METHODS)} --over pool.size=... "
                                          f"--draws {DRAWS} --split test"], resamples=False)]
    common.write_section(options, "pool-size", "Pool size", lines, figures)


def verdict(figures):
    lines = []
    for name, rows in figures.items():
        parts = []
        for method in METHODS:
            own = [r for r in rows if r["method"] == method]
            top1 = [r["top1_mean"] for r in own]
            nll = [r["nll_mean"] for r in own]
            parts.append(f"`{method}` top-1 {100 * top1[0]:.1f} to {100 * top1[-1]:.1f}%, NLL {nll[0]:.3f} to {nll[-1]:.3f}"
                         + (" (top-1 rises at every step)" if all(b > a for a, b in zip(top1, top1[1:])) else
                            f" (highest top-1 at {own[top1.index(max(top1))]['value']})"))
        own = [100 * r["models_mean"] / float(r["value"]) for r in rows if r["method"] == "default"]
        lines.append(f"- `{name}`, from the smallest to the whole pool: " + "; ".join(parts) + f". `default` keeps "
                     f"{min(own):.0f} to {max(own):.0f}% (its cap is 60%, and at least three members).")
    return lines


if __name__ == "__main__":
    main()
