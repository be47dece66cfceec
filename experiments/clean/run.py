#!/usr/bin/python3
"""Clean classification: every method on the test splits (the paper's table "ImageNet-1K classification").

    experiments/clean/run.py [--pools DIR]... [--only POOL]... [--resamples N]
"""
import collections
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

STACKING = "autogluon, stacking layer"
# Top-1 %, ECE, NLL, models, relative FLOPs, as the paper prints them.
PAPER = [
    ("Best Single (ConvNeXt-B)", "best-single", 83.1, 0.042, 0.681, 1, 0.07),
    ("Simple Averaging", "average", 83.9, 0.038, 0.644, 14, 1.00),
    ("Performance-Wtd. Avg.", "performance-weighted", 84.0, 0.037, 0.638, 14, 1.00),
    ("Ridge Stacking", "ridge", 84.2, 0.035, 0.629, 14, 1.00),
    ("Greedy Selection", "greedy", 84.1, 0.036, 0.632, 9, 0.64),
    ("Deep Ensembles", "deep-ensemble+temperature", 83.6, 0.038, 0.652, "5†", 0.36),
    ("Model Soups", "soup", 83.8, 0.041, 0.658, 1, 0.07),
    ("SWAG", "swag", 83.7, 0.029, 0.621, 1, 0.07),
    ("AutoGluon Stacker", STACKING, 84.3, 0.033, 0.624, 14, 1.00),
    ("CoRe-Stack (prototype)", "prototype", 84.5, 0.026, 0.611, 9, 0.64),
    ("CoRe-Stack+", "paper", 85.4, 0.018, 0.583, 6, 0.59),
]
PROTOCOL = ["--splits", "3", "--holdout", "0.2"]
POOLS = ["cifar10", "vision", "fashion", "mnist", "digits"]
METRICS = [("top1", True, 2), ("ece", False, 3), ("nll", False, 4)]


def orders(report):
    """For each metric: pairs in the paper's order, and the places of paper, prototype and default."""
    figures = {}
    for key, highest, column in METRICS:
        ours = {r["method"]: r[key] for r in report["rows"]}
        same, pairs, ties = common.agreement({p[1]: p[column] for p in PAPER}, ours)
        figures[key] = {"same": same, "pairs": pairs, "ties": ties, "methods": len(ours),
                        **{m: common.rank(ours, m, highest) for m in ("paper", "prototype", "default")}}
    return figures


def more(parser):
    parser.add_argument("--quick", action="store_true", help="without the three divisions of the paper's protocol, and AutoGluon's second level "
                        "only where it was measured before: these take most of the time")


def stacking_row(options, manifest):
    """The row of AutoGluon's second level on the members' predictions (autogluon_stack.py), and its paired tests against `default`; None
    where it cannot read the files."""
    document = json.loads(manifest.read_text())
    if common.plain_files(document):
        return None
    program = pathlib.Path(__file__).with_name("autogluon_stack.py")
    place = common.stored_folder(options, manifest, options.seed, program=program)
    if options.quick and not (place / "weights.json").exists():
        return None
    if options.fresh or not (place / "weights.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"autogluon_stack.py {manifest.parent.name}", file=sys.stderr, flush=True)
        done = subprocess.run([program, manifest, "-o", place / "test.npy", "--seed", str(options.seed)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise common.ToolError(f"autogluon_stack.py {manifest}: {done.stderr.strip()}")
        (place / "weights.json").write_text(done.stdout)
    report = common.corestack(options, "compare", manifest, "--split", "test", "--methods", "default", "--resamples", options.resamples,
                              "--seed", options.seed, "--with", f"{STACKING}={place / 'test.npy'}")
    row = {**report["rows"][-1], "models": len(document["models"]), "flops_rel": 1.0 if "flops" in document["models"][0] else None,
           **json.loads((place / "weights.json").read_text())}
    return row, report["tests"]


def insert(report, row, tests):
    """Adds the row after that of `autogluon`, and its tests to the others, which are adjusted for one more method."""
    report["rows"].insert(1 + next(i for i, r in enumerate(report["rows"]) if r["method"] == "autogluon"), row)
    report["tests"] = report["tests"] + tests
    counts = collections.Counter(t["metric"] for t in report["tests"])
    for test in report["tests"]:
        test["p_adjusted"] = min(1.0, test["p"] * counts[test["metric"]])


def protocol(options, manifest):
    """{method: scores with standard errors}: the paper's protocol, three meta-training splits of `oof`, 80% to fit on and 20% to score."""
    report = common.corestack(options, "compare", manifest, *PROTOCOL, "--resamples", 0, "--seed", options.seed)
    return {r["method"]: {k: r[k] for key in ("top1", "ece", "nll") for k in (key, f"{key}_se")} for r in report["rows"]}


def measure(options, pools):
    figures, page = {}, {"shapes": {}, "scores": {}, "stacking": {}}
    for name, manifest in pools.items():
        report = common.compare(options, manifest, *common.test_words(manifest))
        found = stacking_row(options, manifest)
        if found:
            row, tests = found
            insert(report, row, tests)
            page["stacking"][name] = [row["weights"], row["temperature"]]
        figures[name] = {"orders": orders(report), "rows": {r["method"]: {
            k: r[k] for k in ("top1", "ece", "nll", "models", "flops_rel")} for r in report["rows"]}}
        if not options.quick:
            figures[name]["protocol"] = protocol(options, manifest)
        page["shapes"][name] = common.shape_of(report)
        page["scores"][name] = common.scores_cells(report)
    return figures, page


def section(figures, page):
    lines = ["The paper reports, for 14 ImageNet backbones († with temperature scaling, without which its ECE is above 0.04):", "",
             *common.table(["method", "top-1 %", "ECE", "NLL", "models", "FLOPs"],
                           [[p[0], f"{p[2]:.1f}", f"{p[3]:.3f}", f"{p[4]:.3f}", p[5], f"{p[6]:.2f}"] for p in PAPER]),
             "Our figures follow. p is the p-value of a paired t-test of the NLL against `default`, Bonferroni-adjusted. FLOPs are "
             "relative to all members. " + common.CALIBRATED_MARK + " In `vision`, some members are tagged as `deep-ensemble` and "
             "`snapshot`. Soups and SWAG are in the next section.", "",
             f"`{STACKING}` is AutoGluon's second level as far as scikit-learn has it (`experiments/clean/autogluon_stack.py`): forests, "
             "extremely randomised trees, k-nearest neighbours, gradient boosting, a neural network and a logistic regression on the "
             "members' probabilities, then greedy selection over members and learners, with a temperature. LightGBM, CatBoost, XGBoost, "
             "FastAI and a search over hyperparameters are missing. `autogluon` is the weighted ensemble of the members alone.", "",
             *tables(figures, page),
             "### Does the paper's order hold?", "",
             "The table counts the pairs of methods that come in the paper's order here, of all pairs that the paper's table "
             "orders, and gives the ranks (1 is best) of CoRe-Stack+ (`paper`), CoRe-Stack (`prototype`) and `default` among all "
             "methods:", ""]
    rows = []
    for name, f in figures.items():
        for key, label in (("top1", "top-1"), ("ece", "ECE"), ("nll", "NLL")):
            o = f["orders"][key]
            rows.append([name, label, f"{o['same']} of {o['pairs']}", o["paper"], o["prototype"], o["default"], o["methods"]])
    lines += common.table(["pool", "score", "pairs in the paper's order", "`paper`", "`prototype`", "`default`", "of"], rows)
    return [*lines, verdict(figures), "", common.conditions(page, ["compare POOL --split test"])]


def tables(figures, page):
    lines = []
    for name, cells in page["scores"].items():
        lines += [f"### {name}", "", common.shape(page["shapes"][name], name), "", *common.table(common.SCORES_HEADS, cells)]
        if name in page.get("stacking", {}):
            weights, temperature = page["stacking"][name]
            lines += [f"`{STACKING}`: " + ", ".join(f"{n} {w:.2f}" for n, w in sorted(weights.items(), key=lambda i: -i[1]))
                      + f"; temperature {temperature:.2f}.", ""]
        lines += protocol_lines(name, figures[name])
    return lines


def protocol_lines(name, f):
    if "protocol" not in f:
        return []
    rows = f["protocol"]
    cells = [[m, f"{100 * r['top1']:.2f} ± {100 * r['top1_se']:.2f}", f"{r['ece']:.4f} ± {r['ece_se']:.4f}", f"{r['nll']:.4f} ± {r['nll_se']:.4f}"]
             for m, r in rows.items()]
    for column, (key, highest, _) in enumerate(METRICS, 1):
        common.embolden(cells, [r[key] for r in rows.values()], column, highest)
    return [f"#### {name} by the paper's protocol", "", "Mean and standard error over three divisions of `oof`, 80% to fit on and 20% to score (`"
            f"corestack compare POOL {' '.join(PROTOCOL)}`):", "", *common.table(["method", "top-1 %", "ECE", "NLL"], cells)]


def verdict(figures):
    pools = len(figures)

    def count(test):
        return sum(bool(test(f["rows"])) for f in figures.values())

    def places(method):
        found = sorted({common.rank({m: v["nll"] for m, v in f["rows"].items()}, method, False) for f in figures.values()})
        return " or ".join(str(p) for p in found)

    beats = {key: count(lambda r, k=key, s=sign: s * (r["paper"][k] - r["prototype"][k]) > 0)
             for key, sign in (("top1", 1), ("nll", -1), ("ece", -1))}
    ridge = count(lambda r: r["ridge"]["top1"] > r["best-single"]["top1"])
    between = count(lambda r: r["ridge"]["top1"] > r["average"]["top1"] > r["best-single"]["top1"])
    same = sum(f["orders"]["top1"]["same"] for f in figures.values())
    pairs = sum(f["orders"]["top1"]["pairs"] for f in figures.values())
    kept = sorted(f["rows"]["paper"]["models"] for f in figures.values())
    return (f"The paper's order {'holds' if same == pairs else 'does not hold'}: {same} of {pairs} pairs over the {pools} pools agree "
            "with it by top-1, where chance would give half. CoRe-Stack+ (`paper`) is better than its prototype in top-1 on "
            f"{beats['top1']} of {pools} pools, in NLL on {beats['nll']} and in ECE on {beats['ece']}. With its threshold of 0.85 it "
            f"keeps {kept[0]} to {kept[-1]} members; where it keeps one, its ECE is that of one calibrated member. Ridge stacking beats "
            f"the best single model on {ridge} of {pools}, as in the paper; the average lies between the two on {between}. Ranks by NLL: "
            f"`log-linear` {places('log-linear')}, `default` {places('default')}.")


if __name__ == "__main__":
    common.run(__doc__, "clean", "Clean classification", POOLS, measure, section, tables, common.needs("classification"), more)
