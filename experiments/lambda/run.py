#!/usr/bin/python3
"""lambda* against cross-validation: the values, the time, and what the choice costs in held-out loss.

    experiments/lambda/run.py [--pools DIR]... [--only POOL]...

The paper: section "Spectrum-adaptive regularization" and the row S3 of its ablation.
"""
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

REPEATS = 7
RULES = ("star", "cv")
# The paper's linear stack with the prototype's features: no gate, so that the seconds are those of the penalty.
PLAIN = ["--set", "gate.mode=prototype", "--set", "refit.drop=false"]


def times(options, manifest, folder):
    """For each rule the medians of the seconds of the stage that finds the penalty and fits, and of the whole fit. The rules
    take turns, so that what else the machine does hits both."""
    seconds = {rule: ([], []) for rule in RULES}
    for repeat in range(REPEATS):
        for rule in RULES:
            report = common.run_tool(options, "fit", manifest, "-o", pathlib.Path(folder) / "model.cstack", "--threads", 1,
                                     "--preset", "paper", *PLAIN, "--set", "evaluate.nested=false", "--set",
                                     f"lambda.rule={rule}", "--seed", options.seed + repeat)
            seconds[rule][0].append(report["seconds"]["ridge"])
            seconds[rule][1].append(report["seconds"]["total"])
    return {rule: [statistics.median(s) for s in both] for rule, both in seconds.items()}


def main():
    options = common.arguments(__doc__)
    pools = common.find_pools(options, common.EVERY_POOL)
    lines = ["What the paper reports: lambda* is within 5% of the penalty that cross-validation finds, and saves 3 to 5 times the "
             "training time (3.2 in its ablation).", "",
             "What we measure: the four rules side by side on the members of each pool (`corestack inspect`); the "
             "test NLL of the preset `paper` with `lambda.rule=star` and `=cv` (the prototype's features instead of "
             "the gate, all else the same, `refit.drop=false`); and, in the same run, seconds of the ridge stage and "
             f"of the whole fit, one thread, median of {REPEATS} seeds, the rules taking turns. Our cross-validation "
             "decomposes one d x d matrix in each fold, with d about 10 to 30, so it costs "
             "little to begin with.", ""]
    figures = {}
    cells = []
    for name, manifest in pools.items():
        found = common.corestack(options, "inspect", manifest, "--seed", options.seed)["lambda"]
        with tempfile.TemporaryDirectory() as folder:
            seconds = times(options, manifest, folder)
        loss = {}
        for rule in RULES:
            report = common.corestack(options, "compare", manifest, "--methods", "paper", "--reference", "paper", "--split", "test",
                                      *PLAIN, "--set", f"lambda.rule={rule}", "--resamples", 0, "--seed", options.seed)
            loss[rule] = report["rows"][0]["nll"]
        f = figures[name] = {**found, "ratio": found["star"] / found["cv"] if found["star"] and found["cv"] else None,
                             "nll_star": loss["star"], "nll_cv": loss["cv"],
                             "ridge_ratio": seconds["cv"][0] / seconds["star"][0],
                             "total_ratio": seconds["cv"][1] / seconds["star"][1],
                             "ridge_seconds": [seconds["star"][0], seconds["cv"][0]]}
        cells.append([name, *("" if found[k] is None else f"{found[k]:.3g}" for k in ("star", "cv", "gcv", "evidence")),
                      "" if f["ratio"] is None else f"{f['ratio']:.3g}", common.number(loss["star"]), common.number(loss["cv"]),
                      f"{1000 * seconds['star'][0]:.1f} / {1000 * seconds['cv'][0]:.1f}",
                      f"{f['ridge_ratio']:.2f}", f"{f['total_ratio']:.2f}"])
    lines += [*common.table(["pool", "lambda*", "CV", "GCV", "evidence", "lambda*/CV", "NLL with lambda*", "NLL with CV",
                             "ridge stage ms, lambda* / CV", "ratio", "ratio of the whole fit"], cells),
              "### Did it hold?", "", verdict(figures), "",
              common.conditions(options, ["inspect POOL", "fit POOL --preset paper " + " ".join(PLAIN) + " --set "
                                          "evaluate.nested=false --set lambda.rule=star|cv --threads 1",
                                          "compare POOL --methods paper --split test " + " ".join(PLAIN) +
                                          " --set lambda.rule=star|cv"], resamples=False)]
    common.write_section(options, "lambda", "lambda* against cross-validation", lines, figures)


def verdict(figures):
    ratios = [f["ratio"] for f in figures.values() if f["ratio"]]
    near = sum(abs(r - 1) <= 0.05 for r in ratios)
    ridge = [f["ridge_ratio"] for f in figures.values()]
    total = [f["total_ratio"] for f in figures.values()]
    worse = [100 * (f["nll_star"] / f["nll_cv"] - 1) for f in figures.values()]
    return (f"lambda* is within 5% of CV on {near} of {len(ratios)} pools; the ratio goes from {min(ratios):.3g} to "
            f"{max(ratios):.3g}, its median is {statistics.median(ratios):.3g}. In test NLL, lambda* is between "
            f"{min(worse):+.1f}% and {max(worse):+.1f}% of CV. The ridge stage is {min(ridge):.1f} to "
            f"{max(ridge):.1f} times as fast (median {statistics.median(ridge):.1f}), the whole fit {min(total):.2f} "
            f"to {max(total):.2f} times.")


if __name__ == "__main__":
    main()
