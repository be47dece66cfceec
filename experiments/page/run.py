#!/usr/bin/python3
"""Writes docs/results.md and docs/benchmarks.md, and every figure that README.md and the pages of docs/ take from elsewhere, or checks that
they are up to date.

    experiments/page/run.py            # writes
    experiments/page/run.py --check    # exit code 1 if one of them is not up to date

A page has `<!-- figure: NAME -->...<!-- end -->`, and FIGURES below says what is between: text of one line, or a block of lines.
Figures come from experiments/*/figures.json, bench/results.json, golden files, generated tables and the sources.
"""
import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "experiments"))
sys.path.insert(0, str(ROOT / "experiments" / "claims"))
sys.path.append(str(ROOT / "bench"))
import common  # noqa: E402
import page as bench  # noqa: E402
import run as claims  # noqa: E402

MEASURED = ["clean", "weight-space", "ablation", "lambda", "corruptions", "shift", "domain-shift", "long-tail", "dense", "regression", "default", "kappa"]
MARKER = re.compile(r"(<!-- figure: (.*?) -->)(.*?)(<!-- end -->)", re.S)
WRONG_LABELS = "cifar-noise20"  # of the regret study: fitted on labels of which 20% are wrong, which only the presets allow for


def figures(name):
    return json.loads((ROOT / "experiments" / name / "figures.json").read_text())


def cell(row, keys=(("top1", 100, 2), ("nll", 1, 3))):
    return ", ".join(f"{row[k] * scale:.{digits}f}" + (f" ± {row[k + '_se'] * scale:.{digits}f}" if row.get(k + "_se") else "")
                     for k, scale, digits in keys)


def table(heads, rows):
    return "\n".join(common.table(heads, rows)).rstrip()


def listed(parts):
    parts = list(parts)
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# ---- sections -------------------------------------------------------------------------------------------------------

def clean():
    methods = ["best-single", "average", "autogluon", "autogluon, stacking layer", "prototype", "paper", "default"]
    pools = {n: f["rows"] for n, f in figures("clean").items()}
    pools["weight_space"] = figures("weight-space")["rows"]
    first = sum(max((m for m in methods if m in rows), key=lambda m: rows[m]["top1"]) == "default" for rows in pools.values())
    least = sum(min((m for m in methods if m in rows), key=lambda m: rows[m]["nll"]) == "default" for rows in pools.values())
    beats = sum(rows["paper"]["nll"] < rows["prototype"]["nll"] for rows in pools.values())
    rows = [[n, *(cell(r[m]) if m in r else "" for m in methods)] for n, r in pools.items()]
    return (f"**Clean classification** (test top-1 % and NLL). Of these methods `default` has the best top-1 on {first} of {len(pools)} pools and the "
            f"lowest NLL on {least}. The NLL of `paper` is below that of `prototype` on {beats}; the paper has CoRe-Stack+ 0.9 points of top-1 ahead of its "
            "prototype. \"Stacking layer\" is AutoGluon's second level by scikit-learn.\n\n"
            + table(["pool", "best-single", "average", "autogluon", "stacking layer", "`prototype`", "`paper`", "`default`"], rows))


def ablation():
    f = figures("ablation")
    total = [f"{100 * (r[4]['top1'] - r[0]['top1']):+.2f} ({n})" for n, r in f.items()]
    steps = table(["pool", "`prototype`", "+S1 CKA", "+S2 gate", "+S3 λ\\*", "+S4 Laplace", "+S5 refit (ours)"],
                  [[n, *(f"{cell(s)} ({s['models']})" for s in r)] for n, r in f.items()])
    return (f"**Component ablation** (test top-1 % and NLL, and members). From `prototype` to `paper`, top-1 changes by {listed(total)} points; the paper "
            "gains 0.9. The CKA threshold of 0.85 drops useful members, because most pairs of these pools are above it (S1).\n\n" + steps)


def penalty():
    f = {n: v for n, v in figures("lambda").items() if "nll_mean" in v}
    star, mean = ([100 * (v[k] / v["nll_cv"] - 1) for v in f.values()] for k in ("nll_star", "nll_mean"))
    return (f"**λ\\***. The paper adds λ\\* to X'X in its formula of the ridge, and to X'X/n in its proof. Preset `paper` does the first "
            f"(`lambda.scale=sum`): on {len(f)} pools test NLL then differs from that with the cross-validated penalty by {min(star):+.1f}% to {max(star):+.1f}% "
            f"(median {claims.median(star):+.1f}%). With the second it differs by {min(mean):+.1f}% to {max(mean):+.1f}% (median {claims.median(mean):+.1f}%).")


def corruption():
    f, shift = figures("corruptions"), figures("shift")
    order = ("default", "paper", "prototype", "average")
    text = " ".join(f"{n}: " + ", ".join(f"`{m}` {100 * rows[m]['mce']:.1f}" for m in sorted(order, key=lambda m: rows[m]["mce"])) + "." for n, rows in f.items())
    names = {"average": "average", "default": "`default`", "default, guard": "with the guard", "paper, guard": "`paper` with it", "default, guard, shuffled, fixed shares": "fixed shares",
             "default, 10 labels": "10 labels",
             "default, 50 labels": "50 labels"}
    rows = [[n, *(cell(s["methods"][m], (("error", 100, 1), ("nll", 1, 2))) if m in s["methods"] else "" for m in names)] for n, s in shift.items()]
    return (f"**Corruption** (plain mCE %, lower is better). {text}\nWith the guard of `predict`, which tests batches without labels (200 rows here), with the guard and the "
            "class shares of the fit (`--label-shift fixed`, rows in random order), and with a few labelled rows of each condition ([shift.md](shift.md)), error and NLL:\n\n" + table(["pool", *names.values()], rows))


def domains():
    rows = figures("domain-shift")["vision"]
    order = sorted(("paper", "prototype", "average", "default", "deep-ensemble"), key=lambda m: -rows[m]["average"])
    return "**Domain shift** (vision, mean top-1 % over three shifts): " + ", ".join(f"`{m}` {100 * rows[m]['average']:.1f}" for m in order) + "."


def tail():
    rows = figures("long-tail")["vision_longtail"]["rows"]
    return "**Long tail** (vision_longtail, top-1 % on head and mid classes): " + "; ".join(
        f"{name} {100 * rows[m]['head']:.1f} and {100 * rows[m]['mid']:.1f}" for name, m in
        (("`default`", "default"), ("with `fit.balance=1`", "default, balanced"), ("`prototype`", "prototype"), ("`paper`", "paper"))) + "."


def dense():
    f, methods = figures("dense"), ["best-single", "average", "prototype", "paper", "default"]
    rows = [[n, *(f"{100 * f[n][m]['test']:.2f}" for m in methods)] for n in ("camvid_recordings", "camvid", "bccd") if n in f]
    return "**Dense prediction** (test mIoU % or AP %):\n\n" + table(["pool", *(f"`{m}`" for m in methods)], rows)


def regression():
    f = figures("regression")
    average, single = ([n for n, r in f.items() if r["default"]["test"] >= r[m]["test"]] for m in ("average", "best-single"))

    def but(names):
        return f"all {len(f)} pools" if not names else f"all of {len(f)} pools but {listed(f'`{n}`' for n in names)}"

    return (f"**Regression** (not in the paper). On test splits `default` has a lower RMSE than the average on {but(average)}, and than the best single member on "
            f"{but(single)}.")


def default():
    f = figures("default")
    passed = [sum(r["checks"][i][0] for r in f.values()) for i in range(4)]
    return (f"On {len(f)} classification pools the test NLL of `default` is at or below that of greedy selection with temperature scaling on {passed[0]}, and its top-1 "
            f"within half a point of the best baseline on {passed[2]} ([experiments/results.md](../experiments/results.md)).")


def regret(task, score, names):
    """A table of the loss over that of the best method on each pool, and the pools with the methods' ratios."""
    pools = {n: v for n, v in figures("regret").items() if v["task"] == task and n != WRONG_LABELS}
    rows = []
    for method, name in {"default": "**corestack** (`default`)", **names}.items():
        over = [100 * (v["ratio"][method] - 1) for v in pools.values()]
        kept = 100 * sum(v["models"].get(method, v["members"]) / v["members"] for v in pools.values()) / len(pools)
        rows.append([name, f"{claims.median(over):.1f}%", f"{sum(over) / len(over):.1f}%", f"{max(over):,.0f}%", f"{kept:.0f}%"])
    return table([f"{score} on held-out rows, above the lowest of all methods on the same pool ({len(pools)} pools)", "median", "mean", "worst pool", "members used"], rows), pools


def first_screen():
    text, pools = regret("classification", "log loss (NLL)", {
        "log-linear": "log-linear pool: logistic regression on log-probabilities",
        "autogluon": "AutoGluon's ensemble selection with temperature, reimplemented here", "scikit-learn": "scikit-learn's stacking", "average": "plain average"})
    behind = {m: [n for n, v in pools.items() if v["ratio"]["default"] >= v["ratio"][m]] for m in ("autogluon", "average")}
    return (f"{text}\n\n`default` had a lower NLL than ensemble selection on {len(pools) - len(behind['autogluon'])} of {len(pools)} pools. It was tuned on these pools "
            f"({sum(n.endswith('_few') for n in pools)} of them are six-member subsets of another), and the baselines were run with an earlier build: "
            "[every pool, all\ncaveats](experiments/results.md#regret). The plain average had a lower NLL than `default` on "
            f"{listed(f'`{n}`' for n in behind['average'])}.\nA pool with wrong labels, which only corestack looks for, is left out (`{WRONG_LABELS}`).")


def rivals():
    text, _ = regret("regression", "RMSE", {"hill-climbing": "hill climbing", "greedy": "AutoGluon's ensemble selection, reimplemented here",
                                            "scikit-learn": "scikit-learn's stacking (ridge regression)", "average": "plain average"})
    return f"{text}\n\nThe caveats of README's table hold here too ([every pool](../experiments/results.md#regret))."


def counts():
    missing = []
    return {what: claims.judge_all(rows, missing) for what, rows in (("statements", claims.STATEMENTS), ("measurements", claims.MEASURED))}


def counted(judged):
    text = "; ".join(f"of {len(rows)} {what} {claims.counted(rows)}" for what, rows in judged.items())
    return text.replace("false as written, holds as intended", "are false as written but hold as intended")


def page(judged):
    subsets = [v["mean"] for both in figures("kappa")["subsets"].values() for v in both.values()]
    chosen = [(t, s) for rows in judged.values() for t, s, _, _ in rows]
    pairs = table(["claim", "verdict"], [[t, s] for t, s in chosen])
    return f"""# Results in one page

`experiments/page/run.py` writes this page from the stored figures. [experiments/results.md](../experiments/results.md) has every table with intervals
and tests, and [experiments/claims.md](../experiments/claims.md) the verdict on each claim of the paper, with its rule and figures. `make experiments` measures
again; `make claims` writes the three pages again. `experiments/all.sh --pool PATH` adds a pool of your own.

All choices were made on out-of-fold rows, and the test splits were only scored. Our pools are small: networks of a few hundred thousand parameters and
classical models on small images and tables. The paper's own predictions are not public, so orders and signs can be compared, values cannot. Figures of `paper`
are means over ten seeds ± standard error where the page gives one, because its landmarks are random. {claims.earlier(MEASURED)} Below, `paper` is CoRe-Stack+ and `prototype` is CoRe-Stack.

## The paper's tables

{clean()}

{ablation()}

{penalty()}

{corruption()}

{domains()}

{tail()}

{dense()}

{regression()}

## Where `default` wins and loses

{default()} It loses under strong shift if its guard is off, where weights fitted on clean rows are wrong, and in out-of-distribution detection by entropy, where
averages are better.

## The claims

Every claim of the paper that can be judged here was judged: {counted(judged)}. "Held" means that no case we examined is an exception; a claim that fails on our small pools may hold elsewhere.
For the condition number as a predictor of accuracy, the mean correlation over subsets of members is {min(subsets):+.2f} to {max(subsets):+.2f}, for the Gram and the CKA matrix alike.

{pairs}
"""


# ---- figures of other pages -----------------------------------------------------------------------------------------

def regressions():
    return {n: v for n, v in figures("regret").items() if v["task"] == "regression"}


def regression_coverage():
    found = [100 * v["presets"]["default"]["coverage"][v["presets"]["default"]["levels"].index(0.9)] for v in regressions().values()]
    return f"{min(found):.0f} to {max(found):.0f}"


def line(path, start, heading=""):
    """Cells of the first table row with this start, below a heading."""
    text = (ROOT / path).read_text()
    found = next(x for x in text[text.index(heading):].splitlines() if x.startswith(f"| {start} |"))
    return [x.strip() for x in found.strip("|").split("|")]


def golden(name, pattern):
    return re.search(pattern, (ROOT / "tests" / "golden" / name).read_text(), re.S).group(1)


def metrics():
    """The list of src/stats/metric_list.c."""
    text = (ROOT / "src" / "stats" / "metric_list.c").read_text()
    text = text[text.index("METRICS[] = {"):text.index("enum { METRICS_COUNT")]
    blocks = []
    for task in ("classification", "regression"):
        rows = []
        part = text.split(f"/* ---- {task} ---- */")[1].split("/* ----")[0]
        for entry in re.split(r"\n    (?=[A-Z]+\(|\{)", part)[1:]:
            words = re.findall(r'"((?:[^"\\]|\\.)*)"', re.sub(r'"\s*\n\s*"', "", entry))
            # name, other names, key, label, and definition and value after = in any order
            value, meaning = ["", *sorted(words[4:], key=len)][-2:]
            higher = bool(re.match("RANKS|DECISIONS", entry)) or bool(re.search(r"\d, true[,)]", entry))
            value = f"={value.upper()}" if value else ""
            decides = " (d)" if entry.startswith("DECISIONS") or words[0] == "cost" else ""
            other = ", ".join(f"`{x}`" for x in words[1].split("|") if x)
            rows.append([f"`{words[0]}{value}`{decides}", other, "higher" if higher else "lower", meaning.replace("|", "\\|")])
        blocks.append(f"{task.capitalize()}:\n\n" + table(["name", "other names", "better", "meaning"], rows))
    return "\n\n".join(blocks)


def nested_times():
    stages = [r["stages"] for r in bench.rows_of(json.loads((ROOT / "bench" / "results.json").read_text())) if r["stages"] and r["stages"]["nested"]]
    times = [s["nested"] / (s["total"] - s["nested"]) for s in stages]
    return f"{min(times):.1f} to {max(times):.1f}"


def shift_table():
    names = {"default": "`default`, guard off", "average": "average of all members", "default, guard": "`default` with the guard",
             "default, guard, shuffled, fixed shares": "guard, `--label-shift fixed`", "default, 10 labels": "`default`, 10 labels", "default, 50 labels": "`default`, 50 labels"}
    pools = figures("shift")
    return table(["", *(f"`{n}`" for n in pools)], [[text, *(cell({k: v for k, v in f["methods"][m].items() if not k.endswith("_se")}, (("nll", 1, 2), ("error", 100, 1)))
                                                            for f in pools.values())] for m, text in names.items()])


def shifted(what):
    pools = figures("shift")
    conditions = sum(f["conditions"] for f in pools.values())
    monitors = [f["monitor"] for f in pools.values()]
    unchanged = sum(round(f["clean"]["batches"] * f["clean"]["unchanged"]) for f in pools.values())
    return {
        "clean": lambda: f"{unchanged:,} of {sum(f['clean']['batches'] for f in pools.values()):,}",
        "time": lambda: f"{100 * max(f['time']['share'] for f in pools.values()):.0f}",
        "false alarms": lambda: f"{100 * max(m['false_alarms'] for m in monitors):.1f}",
        "found": lambda: f"{sum(m['conditions_found'] for m in monitors)} of {sum(m['conditions'] for m in monitors)}",
        "worse": lambda: listed(f"{100 * f['worse']['nll']['share']:.0f}% (`{n}`)" for n, f in pools.items()),
        "labels worse": lambda: f"{sum(len(f['adapt']['10']['nll_worse_than_stack']) for f in pools.values())} of {conditions}",
    }[what]()


CONDITIONAL, SHIFTED, TUNED = "experiments/shift/conditional.md", "experiments/shift/coverage.md", "docs/appendix/metrics.md"
FIGURES = {
    "regret": first_screen,
    "regret of regression": rivals,
    "claims": lambda: (f"The claims of the paper, judged on simulated data, small cases and our pools, which are small: {counted(counts())}.\n"
                       "[docs/results.md](docs/results.md) has the results on one page, including where `default` loses."),
    "metrics": metrics,
    "regression regret": lambda: regret("regression", "RMSE", {"minimum-variance": "`minimum-variance`", "ridge": "`ridge`", "best-single": "`best-single`",
                                                               "scikit-learn": "scikit-learn's stacking", "average": "`average`"})[0],
    "regression pools": lambda: str(len(regressions())),
    "regression coverage": regression_coverage,
    "model bytes": lambda: f"{int(golden('show.digits.txt', r'([0-9]+) bytes')) / 1000:.0f}",
    "model bytes of 1,000 classes": lambda: re.search(r"([0-9.]+) kB with 14 members", (ROOT / "experiments" / "results.md").read_text()).group(1),
    "model kept": lambda: golden("fit.digits.txt", r"Members +(\d+) of"),
    "digits members": lambda: golden("fit.digits.txt", r"Members +(\d+ of \d+) kept"),
    "nested times": nested_times,
    "bounds lac": lambda: f"{100 * float(line('docs/appendix/bounds.md', 'LAC sets')[3]):.1f}",
    "shift coverage plain": lambda: line(SHIFTED, "corrupted, all", "### cifar10")[2].split()[0],
    "shift coverage weighted": lambda: line(SHIFTED, "corrupted, all", "### cifar10")[3].split()[0],
    "shift coverage adaptive": lambda: line(SHIFTED, "corrupted, all", "### cifar10")[7].split()[0],
    "shift": shift_table,
    **{f"shift {what}": lambda what=what: shifted(what) for what in ("clean", "time", "false alarms", "found", "worse", "labels worse")},
    "genres together": lambda: line(CONDITIONAL, "genres | together")[3],
    "genres by class": lambda: line(CONDITIONAL, "genres | by class")[3],
    "digits together": lambda: line(CONDITIONAL, "digits | together")[3],
    "digits by class": lambda: line(CONDITIONAL, "digits | by class")[3],
    "transients auc": lambda: line(TUNED, "transients | auc")[2],
    "transients auc climbed": lambda: line(TUNED, "transients | auc")[3],
}


def filled(path):
    def fill(found):
        begin, name, _, end = found.groups()
        if name not in FIGURES:
            sys.exit(f"{path.relative_to(ROOT)}: no figure '{name}'; FIGURES in experiments/page/run.py has them")
        text = FIGURES[name]()
        return begin + (f"\n{text}\n" if "\n" in text else text) + end
    return MARKER.sub(fill, path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    docs = ROOT / "docs"
    measured = json.loads((ROOT / "bench" / "results.json").read_text())
    wanted = {docs / "results.md": page(counts()), docs / "benchmarks.md": bench.page(measured), docs / "appendix" / "benchmarks.md": bench.appendix(measured)}
    wanted.update({path: filled(path) for path in [ROOT / "README.md", *docs.glob("*.md"), *docs.glob("appendix/*.md")] if path not in wanted})
    for path, content in wanted.items():
        if options.check and (not path.exists() or path.read_text() != content):
            sys.exit(f"{path.relative_to(ROOT)} is not up to date: run experiments/page/run.py")
        if not options.check and (not path.exists() or path.read_text() != content):
            path.write_text(content)


if __name__ == "__main__":
    main()
