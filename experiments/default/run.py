#!/usr/bin/python3
"""The default stack against the baselines on every pool, with five checks (part of experiments/results.md).

    experiments/default/run.py [--pools DIR]... [--only POOL]... [--resamples N]

Everything is chosen on the `oof` split; the `test` split is read by `corestack evaluate` alone, once a row.
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


def row(name, models, scores):
    return (f"| {name} | {models} | {common.interval(scores, 'top1', 2, 100)} | {common.interval(scores, 'nll')} | "
            f"{common.interval(scores, 'ece')} |")


def one_pool(options, manifest, folder):
    lines = []
    verdict = {}
    base = None
    for number, (name, words) in enumerate(FITS):
        model = pathlib.Path(folder) / f"{number}.cstack"
        nested = [] if number == 0 else ["--set", "evaluate.nested=false"]
        fit = common.run_tool(options, "fit", manifest, "-o", model, "--seed", options.seed, *nested, *words)
        extra = ["--baselines"] if number == 0 else []
        scores = common.run_tool(options, "evaluate", model, manifest, "--split", "test", "--resamples",
                                 options.resamples, *extra)
        lines.append(row(name, fit["models_kept"], scores))
        if number == 0:
            base = fit
            verdict["own"] = scores
            verdict["baselines"] = {b["method"]: b for b in scores["baselines"]}
            for b in scores["baselines"]:
                label = f"{b['method']} ({b['detail']})" if b.get("detail") else b["method"]
                lines.append(row(label, b.get("models", ""), b))
        if number == 1:
            verdict["all"] = scores
    head = (f"{base['samples']} out-of-fold rows, {verdict['own']['samples']} test rows, {base['classes']} classes, "
            f"{base['models_in']} members. Nested out-of-fold scores: top-1 {100 * base['oof']['top1']:.2f}%, "
            f"NLL {base['oof']['nll']:.4f}, ECE {base['oof']['ece']:.4f}. Fit with nested scores: "
            f"{base['seconds']['total']:.1f} s.")
    return head, lines, checks(verdict, base)


def checks(verdict, base):
    """What is checked, whether it holds, and its figure, five times."""
    own, greedy = verdict["own"], verdict["baselines"]["greedy+temperature"]
    best_top1 = max(b["top1"] for b in verdict["baselines"].values())
    return [
        ("NLL at or below greedy selection with temperature", own["nll"] <= greedy["nll"],
         f"{own['nll']:.4f} against {greedy['nll']:.4f}"),
        ("NLL within 2% of the log-linear pool of all members", own["nll"] <= 1.02 * verdict["all"]["nll"],
         f"{100 * (own['nll'] / verdict['all']['nll'] - 1):+.2f}%"),
        ("at most 60% of the members", base["models_kept"] <= 0.6 * base["models_in"],
         f"{base['models_kept']} of {base['models_in']}"),
        ("top-1 within half a point of the best baseline", own["top1"] >= best_top1 - 0.005,
         f"{100 * (own['top1'] - best_top1):+.2f} points"),
        ("ECE not above the interval of greedy selection with temperature", own["ece"] <= greedy["ece_ci"][1],
         f"{own['ece']:.4f} against at most {greedy['ece_ci'][1]:.4f}"),
    ]


def main():
    options = common.arguments(__doc__, resamples=5000)
    pools = common.find_pools(options, common.EVERY_POOL)
    lines = ["`corestack fit` with the defaults beside the baselines of `corestack evaluate --baselines`, with five checks: a "
             "regression test of the defaults on real data.", ""]
    failed = 0
    for name, manifest in pools.items():
        with tempfile.TemporaryDirectory() as folder:
            head, rows, done = one_pool(options, manifest, folder)
        lines += [f"### {name} by default", "", head, "", "| method | members | top-1 % | NLL | ECE |", "|---|---|---|---|---|",
                  *rows, ""]
        lines += [f"- {'yes' if ok else '**no**'}: {what} ({figure})" for what, ok, figure in done] + [""]
        failed += sum(not ok for _, ok, _ in done)
        print(f"{name}: " + ", ".join(f"{'ok' if ok else 'NO'} {figure}" for _, ok, figure in done), flush=True)
    lines += [f"{5 * len(pools) - failed} of {5 * len(pools)} checks hold.", "",
              (pathlib.Path(__file__).with_name("notes.md")).read_text().rstrip(), "",
              common.conditions(options, ["fit POOL [--set ...]", "evaluate MODEL POOL --split test --baselines"])]
    common.write_section(options, "default", "Default against baselines", lines, None)
    print(f"{failed} of {5 * len(pools)} checks do not hold")


if __name__ == "__main__":
    main()
