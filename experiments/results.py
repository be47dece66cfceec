#!/usr/bin/python3
"""Fits every pool with the defaults and writes the table of docs/results.md.

    experiments/results.py [POOL.json ...] [--tool build/corestack] [--out docs/results.md]

Without pools: examples/digits and whatever experiments/pools/*.py have left in data/pools/. Everything is chosen on
the `oof` split; the `test` split is read by `corestack evaluate` alone, once a row.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESAMPLES = "5000"

# One row each: a name, and the arguments of `corestack fit` beyond the pool.
FITS = [
    ("**corestack**", []),
    ("log-linear, all members", ["--set", "redundancy.measure=none", "--set", "select.direction=none", "--set",
                                 "keep.fraction=0", "--set", "meta.learners=log-linear"]),
    ("four meta-learners, Laplace", ["--set", "meta.learners=ridge,elastic-net,lasso,log-linear"]),
    ("preset paper", ["--preset", "paper"]),
    ("preset prototype", ["--preset", "prototype"]),
]


def run(tool, *words):
    done = subprocess.run([tool, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(name, models, scores):
    def cell(key, scale=1.0, digits=4):
        low, high = scores[key + "_ci"]
        return f"{scores[key] * scale:.{digits}f} [{low * scale:.{digits}f}, {high * scale:.{digits}f}]"

    return f"| {name} | {models} | {cell('top1', 100, 2)} | {cell('nll')} | {cell('ece')} |"


def one_pool(tool, manifest, folder):
    lines = []
    verdict = {}
    base = None
    for number, (name, words) in enumerate(FITS):
        model = pathlib.Path(folder) / f"{number}.cstack"
        nested = [] if number == 0 else ["--set", "evaluate.nested=false"]
        fit = run(tool, "fit", manifest, "-o", model, "--json", *nested, *words)
        extra = ["--baselines"] if number == 0 else []
        scores = run(tool, "evaluate", model, manifest, "--split", "test", "--json", "--resamples", RESAMPLES, *extra)
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
    own, greedy = verdict["own"], verdict["baselines"]["greedy+temperature"]
    best_top1 = max(b["top1"] for b in verdict["baselines"].values())
    checks = [
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
    head = (f"{base['samples']} out-of-fold rows, {own['samples']} test rows, {base['classes']} classes, "
            f"{base['models_in']} members. Nested out-of-fold scores: top-1 {100 * base['oof']['top1']:.2f}%, "
            f"NLL {base['oof']['nll']:.4f}, ECE {base['oof']['ece']:.4f}. Fit with nested scores: "
            f"{base['seconds']['total']:.1f} s.")
    return head, lines, checks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="*")
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    parser.add_argument("--out", default=str(ROOT / "docs" / "results.md"))
    options = parser.parse_args()
    pools = [pathlib.Path(p) for p in options.pools] or [ROOT / "examples/digits/pool.json", *sorted(
        (ROOT / "data" / "pools").glob("*/pool.json"))]
    text = ["# Results on real pools", "",
            "Written by `experiments/results.py`. Everything is fitted and chosen on each pool's `oof` split; scores are "
            "those of its `test` split, with 95% percentile intervals from 5,000 bootstrap resamples of the test rows. "
            "ECE: top label, 15 equal-width bins.", ""]
    table = []
    failed = 0
    for manifest in pools:
        with tempfile.TemporaryDirectory() as folder:
            head, lines, checks = one_pool(options.tool, manifest, folder)
        name = manifest.parent.name
        text += [f"## {name}", "", head, "", "| method | members | top-1 % | NLL | ECE |", "|---|---|---|---|---|",
                 *lines, ""]
        text += [f"- {'yes' if ok else '**no**'}: {what} ({figure})" for what, ok, figure in checks] + [""]
        failed += sum(not ok for _, ok, _ in checks)
        table.append(f"{name}: " + ", ".join(f"{'ok' if ok else 'NO'} {figure}" for _, ok, figure in checks))
        print(table[-1], flush=True)
    text.append((ROOT / "experiments" / "results-notes.md").read_text())
    pathlib.Path(options.out).write_text("\n".join(text))
    print(f"{failed} of {5 * len(pools)} checks do not hold")


if __name__ == "__main__":
    main()
