#!/usr/bin/python3
"""Scores against the number of members in the pool (the paper's paragraph "Scaling behavior").

    experiments/pool-size/run.py [--pools DIR]... [--only POOL]...
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

METHODS = ["default", "average", "autogluon", "log-linear"]
POOLS = ["cifar10", "vision", "digits"]
DRAWS = 5


def sizes(members):
    """Every fourth size, and that of the whole pool."""
    return ",".join(map(str, [*range(4, members, 4), members]))


def measure(options, pools):
    figures, page = {}, {"shapes": {}}
    for name, manifest in pools.items():
        over = f"pool.size={sizes(len(json.loads(manifest.read_text())['models']))}"
        report = common.corestack(options, "sweep", manifest, "--methods", ",".join(METHODS), "--over", over,
                                  "--draws", DRAWS, "--split", "test", "--resamples", 0, "--seed", options.seed)
        figures[name] = report["summary"]
        page["shapes"][name] = common.shape_of(report)
    return figures, page


def section(figures, page):
    return ["The paper reports, without a table, that 40 to 50% of the members are kept for pools of 4 to 20 models, and that "
             "accuracy and ECE improve with every model up to 14 and then stay the same.", "",
             f"Ours are {DRAWS} random orders of the members; along each order the pool grows. The table has mean and standard deviation "
             "over the orders. The last size is the whole pool, where all orders are the same. `autogluon` is greedy selection with "
             "temperature scaling.", "",
            *tables(figures, page), "### Does it hold?", "", *verdict(figures), "",
            common.conditions(page, [f"sweep POOL --methods {','.join(METHODS)} --over pool.size=... --draws {DRAWS} --split test"],
                              resamples=False)]


def tables(figures, page):
    lines = []
    for name, rows in figures.items():
        cells = [[r["method"], r["value"], f"{100 * r['top1_mean']:.2f} ± {100 * r['top1_sd']:.2f}",
                  f"{r['ece_mean']:.4f} ± {r['ece_sd']:.4f}", f"{r['nll_mean']:.4f} ± {r['nll_sd']:.4f}",
                  f"{r['models_mean']:.1f}", f"{100 * r['models_mean'] / float(r['value']):.0f}"] for r in rows]
        lines += [f"### {name}", "", common.shape(page["shapes"][name], name), "",
                  *common.table(["method", "members in the pool", "top-1 %", "ECE", "NLL", "kept", "kept %"], cells)]
    return lines


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
        lines.append(f"- `{name}`, from the smallest pool to the whole one: " + "; ".join(parts) + f". `default` keeps "
                     f"{min(own):.0f} to {max(own):.0f}%.")
    return lines


if __name__ == "__main__":
    common.run(__doc__, "pool-size", "Pool size", POOLS, measure, section, tables, common.needs(
        "classification", more=lambda d: "it has fewer than five members" if len(d["models"]) < 5 else None))
