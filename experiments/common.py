"""What the experiments share: finding pools, running corestack, Markdown tables, sections of experiments/results.md.

Each experiments/NAME/run.py measures and writes one section of experiments/results.md. It stores its figures in
experiments/NAME/figures.json, from which experiments/claims/run.py writes experiments/claims.md, and what its section shows
besides (rows of tables, conditions of the run) in experiments/NAME/page.json. Pools that are not found keep their stored
figures, with the version and date of their measurement. Pools given with --pool are stored apart, in
experiments/NAME/given.json, and have subsections of their own. With --write-only nothing is measured and the section is
written again from these files.
"""
import argparse
import datetime
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Of a row of `paper`, whose landmarks are random.
SEEDS = 10

# Sections in the order of experiments/results.md.
SECTIONS = ["clean", "weight-space", "regression", "corruptions", "dense", "long-tail", "domain-shift", "shift", "ablation", "threshold", "pool-size", "ood", "kappa",
            "lambda", "ece", "bounds", "complexity", "seeds", "default", "regret"]

INTRODUCTION = """# Results on real pools

This page is generated. The command in the marker above each section writes it; `make experiments` writes all of them.
[docs/results.md](../docs/results.md) is a one-page summary, [claims.md](claims.md) has the verdict on each claim of the
paper.

Each section says when and with which version its pools were measured. Figures from before 23 November 2026 have an earlier
`default`, one log-linear pool of at most 60% of the members, and earlier presets `paper` and `prototype`.

In every experiment, all fitting and all choices use a pool's `oof` split, and the `test` split is only scored. The paper's
figures are for its own models and data sets, such as ImageNet, whose predictions are not public. Ours are for the small
pools described below, so compare orders and signs, not values. The paper's CoRe-Stack is our preset `prototype`, its
CoRe-Stack+ is `paper`, and `default` is this project's own; [baselines.md](../docs/baselines.md) defines the other methods.

The landmarks of `paper` are random, so its scores are means over ten seeds with the standard error (±) in comparisons of methods;
tests, and what is drawn from saved predictions, are of the first seed.

ECE is the top-label error in l1 with 15 equal-width bins. Intervals [low, high] are 95% percentile bootstrap intervals over
samples. Resampling increases a binned ECE, so its value may lie at the lower end of its interval or below it. Members were
trained once, so intervals and tests do not cover the variation between trainings.
"""

# How each pool was made, and the command that makes it again.
POOLS = {
    "cifar10": ("CIFAR-10: sixteen small networks trained for a few epochs, frozen",
                "no script here makes it; use --pools to name a folder with a pool of the same splits"),
    "vision": ("Fashion-MNIST: 22 of the 24 networks and classical models of experiments/pools/vision.py, without `swin` and `cnn_dropout`, frozen",
               "made by experiments/pools/vision.py vision"),
    "vision_longtail": ("Fashion-MNIST with long-tailed training classes and a balanced test split: 15 members, frozen",
                        "made by experiments/pools/vision.py vision_longtail"),
    "weight_space": ("Fashion-MNIST: one small CNN trained, fine-tuned, averaged and sampled in many ways, and five other models, frozen",
                     "made by experiments/weight-space/train.py, then run.py"),
    "mnist_c": ("MNIST: 12 classical models, out-of-fold predictions, with the corruptions of `vision`",
                "made by experiments/pools/mnist_corrupted.py"),
    "fashion": ("Fashion-MNIST: 18 members, frozen", "made by experiments/pools/fashion_mnist.py"),
    "mnist": ("noisy MNIST at 14x14: 18 members, out-of-fold predictions", "made by experiments/pools/mnist.py"),
    "union20": ("MNIST and Fashion-MNIST together: 16 classical models, out-of-fold predictions",
                "made by experiments/pools/union.py --classes 20"),
    "union40": ("as `union20`, with rotated images as further classes: 16 classical models, out-of-fold predictions",
                "made by experiments/pools/union.py --classes 40"),
    "dna": ("splice junctions of DNA, of R's mlbench: 16 classical models, out-of-fold predictions", "made by experiments/pools/tables.py dna"),
    "letter": ("letters of 20 fonts, of R's mlbench: 16 classical models, out-of-fold predictions", "made by experiments/pools/tables.py letter"),
    "digits_hard": ("scikit-learn's digits with strong noise: 16 classical models, out-of-fold predictions",
                    "made by experiments/pools/classic.py digits_hard"),
    "breast_cancer": ("scikit-learn's Wisconsin breast cancer set: 17 classical models, out-of-fold predictions",
                      "made by experiments/pools/classic.py breast_cancer"),
    "wine": ("scikit-learn's wine set: 17 classical models, out-of-fold predictions", "made by experiments/pools/classic.py wine"),
    "camvid": ("CamVid: seven small networks on 240x180 frames of driving, frozen; CamVid's own splits, whose validation and test "
               "frames come from different drives", "made by experiments/pools/camvid.py"),
    "camvid_recordings": ("the same networks and held-out frames as `camvid`, divided so that both splits contain every recording",
                          "made by experiments/pools/camvid_recordings.py"),
    "segmentation": ("32 frames of CamVid at 40x30, four of the networks (examples/segmentation)", "made by examples/segmentation/make_pool.py"),
    "bccd": ("BCCD blood cells: six small detectors, frozen", "made by experiments/pools/bccd.py"),
    "detection": ("70 images of BCCD, four of the detectors (examples/detection)", "made by examples/detection/make_pool.py"),
    "diabetes": ("scikit-learn's diabetes set: 18 regressors, out-of-fold predictions", "made by experiments/pools/regression.py"),
    "concrete": ("strength of concrete: 18 regressors, out-of-fold predictions (examples/concrete)", "made by experiments/pools/regression.py"),
    "ames": ("log prices of houses in Ames: 18 regressors, out-of-fold predictions", "made by experiments/pools/regression.py"),
    "meats": ("water, fat and protein of meat from spectra: 22 regressors, out-of-fold predictions", "made by experiments/pools/regression.py"),
    "diamonds": ("log prices of diamonds: 17 regressors, out-of-fold predictions", "made by experiments/pools/regression.py"),
    "digits": ("scikit-learn's digits with noise: 16 classical models, out-of-fold predictions (examples/digits)",
               "made by examples/digits/make_pool.py"),
}
EVERY_POOL = ["digits", "breast_cancer", "digits_hard", "fashion", "mnist", "union20", "union40", "vision",
              "vision_longtail", "wine", "cifar10"]

# The paper's names of methods that its tables share with ours.
PAPER_METHODS = {
    "Best Single": "best-single", "Simple Averaging": "average", "Performance-Wtd. Avg.": "performance-weighted",
    "Ridge Stacking": "ridge", "Greedy Selection": "greedy", "Deep Ensembles": "deep-ensemble", "Model Soups": "soup",
    "SWAG": "swag", "AutoGluon Stacker": "autogluon", "CoRe-Stack": "prototype", "CoRe-Stack+": "paper",
}


# ---- command line and pools -----------------------------------------------------------------------------------------

class ToolError(Exception):
    """The tool failed; the text says how."""


def arguments(document, more=None):
    """The options that all scripts take, and those that more(parser) adds. Folders of --pools are searched before the default
    ones."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--pools", action="append", default=[], metavar="DIR",
                        help="a folder with pools in it; may be repeated (data/pools, ../shared/pools, examples)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="measure this known pool again; may be repeated")
    parser.add_argument("--pool", action="append", default=[], metavar="[NAME=]PATH",
                        help="a pool of your own, a folder or a manifest, which gets a subsection; may be repeated. Without --pools and "
                        "--only the known pools are not measured again")
    parser.add_argument("--forget", action="append", default=[], metavar="NAME", help="remove the subsection of a pool of your own")
    parser.add_argument("--tool", default=str(ROOT / "build" / "corestack"))
    parser.add_argument("--out", default=str(ROOT / "experiments" / "results.md"))
    parser.add_argument("--resamples", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="do not reuse results of earlier runs of the same tool")
    parser.add_argument("--write-only", action="store_true", help="write the section again from the stored figures")
    if more:
        more(parser)
    options = parser.parse_args()
    options.folders = [pathlib.Path(p) for p in options.pools] + [ROOT / "data" / "pools", ROOT.parent / "shared" / "pools",
                                                                  ROOT / "examples"]
    options.given = given_pools(parser, options.pool)
    options.known = not options.given and not options.forget or options.pools or options.only
    if not options.write_only and (options.known or options.given) and not pathlib.Path(options.tool).exists():
        sys.exit(f"{options.tool} does not exist: build it with `make`, or name another with --tool")
    return options


def given_pools(parser, texts):
    """{name: manifest} of the pools of --pool. A name is that of the folder, unless NAME= says another."""
    found = {}
    for text in texts:
        name, path = "", pathlib.Path(text)
        if not path.exists() and "=" in text:
            name, _, rest = text.partition("=")
            path = pathlib.Path(rest)
        manifest = path / "pool.json" if path.is_dir() else path
        if not manifest.exists():
            parser.error(f"--pool {text}: {manifest} does not exist; name a folder with a pool.json, or a manifest")
        try:
            document = json.loads(manifest.read_text())
            known = isinstance(document["splits"], dict) and isinstance(document["models"], list)
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            parser.error(f"--pool {text}: {manifest} is not the manifest of a pool (docs/pool.md)")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name or manifest.resolve().parent.name)
        name += "-given" if name in POOLS else ""
        if name in found:
            parser.error(f"--pool {text}: another pool is named {name}; give this one a name, as in --pool NAME={path}")
        found[name] = manifest.resolve()
    return found


def find_pools(options, names):
    """{name: manifest} of the known pools that were found, in the order of names; reports the others."""
    found = {}
    for name in names:
        if options.only and name not in options.only:
            continue
        places = [f / name / "pool.json" for f in options.folders if (f / name / "pool.json").exists()]
        if places:
            found[name] = places[0]
        else:
            print(f"pool {name} was not found: {POOLS[name][1]}", file=sys.stderr)
    return found


def worn_split(document):
    """Name of the first labelled split of several conditions."""
    return next((name for name, entry in document["splits"].items() if entry.get("conditions") and labelled(entry)), None)


def domain_splits(document):
    """The labelled splits of a pool besides `oof` and `test`, without those of several conditions."""
    return [name for name, entry in document["splits"].items()
            if name not in ("oof", "test") and labelled(entry) and not entry.get("conditions") and not entry.get("ood")]


def described(name):
    return POOLS[name][0] if name in POOLS else "a pool given with `--pool`"


def needs(*tasks, split="test", more=None):
    """A function that says why a manifest cannot take part, or nothing: another task, no labels of the split, what more(document)
    says."""
    def reason(document):
        task, splits = document.get("task", "classification"), document["splits"]
        if task not in tasks:
            return f"this experiment is of {' and '.join(tasks)}, the pool of {task}"
        if split and not labelled(splits.get(split, {})):
            return f"it has no labelled split `{split}` (splits: {', '.join(splits)})"
        return more(document) if more else None
    return reason


def plain_files(document):
    """Why the files of a pool cannot be read by NumPy alone, or nothing."""
    paths = [path for m in document["models"] for path in m["predictions"].values()]
    if not all(isinstance(path, str) and path.endswith(".npy") for path in paths):
        return "this experiment reads its predictions by itself, which must be .npy files in the order of the labels"
    return None


def labelled(entry):
    return any(entry.get(key) is not None for key in ("labels", "targets", "boxes", "annotations"))


def ood_splits(manifest):
    """Names of the splits with out-of-distribution rows."""
    return [name for name, entry in json.loads(manifest.read_text())["splits"].items() if entry.get("ood")]


def test_words(manifest):
    """The words of the comparison that several experiments share: split test, with the first out-of-distribution split."""
    ood = ood_splits(manifest)
    return ["--split", "test", *(["--ood", ood[0]] if ood else [])]


def split_of(manifest, split):
    """The manifest's entry of a split."""
    return json.loads(manifest.read_text())["splits"][split]


def array(manifest, name):
    return np.load(manifest.parent / name)


def probabilities(values, logits):
    """[rows, classes] float64 whose rows sum to 1; a single column is that of the second class."""
    p = np.asarray(values, np.float64).reshape(len(values), -1)
    if p.shape[1] == 1:
        p = np.concatenate([np.zeros_like(p) if logits else 1 - p, p], axis=1)
    if logits:
        p = np.exp(p - p.max(axis=1, keepdims=True))
    return p / np.maximum(p.sum(axis=1, keepdims=True), 1e-300)


def members(manifest, split="test"):
    """{name: probabilities} of all members on a split."""
    pool = json.loads(manifest.read_text())
    return {m["name"]: probabilities(array(manifest, m["predictions"][split]), pool.get("output") == "logit") for m in pool["models"]}


# ---- running the tool -----------------------------------------------------------------------------------------------

def stamp(path):
    return [str(path), path.stat().st_size, path.stat().st_mtime_ns]


def stamps(manifest):
    """Names, sizes and times of the manifest and of the files and folders that it names, which tell whether a stored result is of
    this pool."""
    def files(value):
        if isinstance(value, (dict, list)):
            return [f for v in (value.values() if isinstance(value, dict) else value) for f in files(v)]
        if not isinstance(value, str) or not value:
            return []
        path = manifest.parent / value.split("#")[0]
        try:
            return [path] if path.is_file() else [p for p in path.glob("*") if p.is_file()] if path.is_dir() else []
        except OSError:  # a text that is too long for a name
            return []
    return sorted(stamp(p) for p in {manifest, *files(json.loads(manifest.read_text()))})


def run_tool(options, command, manifest, *words):
    """The document of one run of the tool."""
    words = [str(w) for w in words]
    done = subprocess.run([options.tool, command, str(manifest), *words, "--json", "--quiet"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise ToolError(f"corestack {command} {manifest} {' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def stored_folder(options, manifest, *key, program=None):
    """The folder in data/experiments/ of what a run of the tool, or of another program, gave for the pool."""
    text = json.dumps([hashlib.sha256(pathlib.Path(program or options.tool).read_bytes()).hexdigest(), *key, stamps(manifest)])
    return ROOT / "data" / "experiments" / hashlib.sha256(text.encode()).hexdigest()[:24]


def corestack(options, command, manifest, *words, save=False):
    """The document of `corestack COMMAND MANIFEST WORDS --json`; with save also the folder of predictions. What the same
    tool gave for the same files and words is read again from data/experiments/."""
    words = [str(w) for w in words]
    place = stored_folder(options, manifest, command, words, save)
    document = place / "document.json"
    if options.fresh or not document.exists():
        place.mkdir(parents=True, exist_ok=True)
        more = ["--save", str(place / "predictions")] if save else []
        print(f"corestack {command} {manifest.parent.name} {' '.join(words)}", file=sys.stderr, flush=True)
        document.write_text(json.dumps(run_tool(options, command, manifest, *words, *more)))
    report = json.loads(document.read_text())
    return (report, place / "predictions") if save else report


def fit_and_bound(options, manifest, preset, *words):
    """The document of `corestack bound` of a fresh fit of the preset, kept as that of `corestack` is."""
    words = [str(w) for w in words]
    place = stored_folder(options, manifest, "bound", preset, words, options.seed)
    document = place / "document.json"
    if options.fresh or not document.exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"corestack fit, bound {manifest.parent.name} {preset} {' '.join(words)}", file=sys.stderr, flush=True)
        run_tool(options, "fit", manifest, "--preset", preset, "-o", place / "stack.cstack", "--set", "evaluate.nested=false",
                 "--seed", options.seed)
        document.write_text(json.dumps(run_tool(options, "bound", place / "stack.cstack", manifest, *words, "--seed", options.seed)))
    return json.loads(document.read_text())


def compare(options, manifest, *words, save=False, resamples=None):
    """The document of a comparison. The landmarks of `paper` are drawn by the seed: its row has means over ten seeds, and standard
    errors KEY_se in place of intervals."""
    found = corestack(options, "compare", manifest, "--resamples", options.resamples if resamples is None else resamples,
                      "--seed", options.seed, *words, save=save)
    report = found[0] if save else found
    rows = report.get("rows", [])
    at = next((i for i, row in enumerate(rows) if row["method"] == "paper"), None)
    if at is not None and not any("redundancy.measure=none" in str(w) for w in words):
        own = [w for i, w in enumerate(words) if not {"--methods", "--reference"} & {w, words[i - 1] if i else None}]
        others = [corestack(options, "compare", manifest, "--resamples", 0, "--seed", options.seed + s, *own, "--methods", "paper",
                            "--reference", "paper")["rows"][0] for s in range(1, SEEDS)]
        rows[at] = over_seeds([rows[at], *others])
    return found


def over_seeds(rows):
    """One row of the means of several: numbers KEY with KEY_se, their standard error; the rest of the first."""
    out = {}
    for key, first in rows[0].items():
        values = [row.get(key) for row in rows]
        if isinstance(first, dict) and all(isinstance(v, dict) for v in values):
            out[key] = over_seeds(values)
        elif all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            out[key] = statistics.mean(values)
            out[key + "_se"] = statistics.stdev(values) / len(values) ** 0.5
        elif not key.endswith("_ci"):
            out[key] = first
    return out


def version(options):
    return subprocess.run([options.tool, "--version"], capture_output=True, text=True, check=True).stdout.strip()


# ---- text -----------------------------------------------------------------------------------------------------------

def number(value, digits=4, scale=1.0):
    return "" if value is None else f"{value * scale:.{digits}f}"


def interval(row, key, digits=4, scale=1.0):
    """A score with its interval, or its standard error over seeds, where there is one."""
    text = number(row.get(key), digits, scale)
    if row.get(key + "_se") is not None:
        return f"{text} ± {number(row[key + '_se'], digits, scale)}"
    ends = row.get(key + "_ci")
    return text if not ends else f"{text} [{number(ends[0], digits, scale)}, {number(ends[1], digits, scale)}]"


def p_value(value):
    return "" if value is None else "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


def embolden(rows, values, column, highest):
    """Sets the best cell of a column in bold; values are the numbers behind it, None where there is none."""
    known = [v for v in values if v is not None]
    best = (max if highest else min)(known) if known else None
    for row, value in zip(rows, values):
        if value is not None and value == best:
            row[column] = f"**{row[column]}**"


CALIBRATED_MARK = "† followed by a calibration map, fitted on the same rows; `autogluon` is `greedy+temperature`."


def models_cell(row):
    """The number of models, marked as in the paper's table where a calibration map follows."""
    marked = "+" in row["method"] or row["method"] == "autogluon"
    return f"{row['models']:.3g}{'†' if marked else ''}"


SCORES_HEADS = ["method", "top-1 %", "ECE", "NLL", "models", "FLOPs", "p (NLL)"]


def scores_cells(report):
    """All methods of a comparison: scores, members, FLOPs, adjusted p of the NLL against the reference."""
    against = {t["b"]: t["p_adjusted"] for t in report.get("tests", []) if t["metric"] == "nll"}
    rows = report["rows"]
    cells = [[r["method"], interval(r, "top1", 2, 100), interval(r, "ece"), interval(r, "nll"), models_cell(r),
              number(r["flops_rel"], 2), p_value(against.get(r["method"]))] for r in rows]
    for column, key, highest in ((1, "top1", True), (2, "ece", False), (3, "nll", False)):
        embolden(cells, [r[key] for r in rows], column, highest)
    return cells


def shape_of(report):
    """Of a report, what `shape` says."""
    return {key: report.get(key) for key in ("samples", "conditions", "classes", "models_in")}


def shape(size, name):
    """One sentence on the data behind a report."""
    conditions = f" under each of {size['conditions']} conditions" if size["conditions"] else ""
    return (f"`{name}`: {described(name)}. N = {size['samples']}{conditions}, C = {size['classes']}, "
            f"K = {size['models_in']}.")


def agreement(paper, ours, highest=True):
    """(pairs in the paper's order, pairs, pairs tied here) among methods that both have; paper and ours: {method: value}."""
    names = [m for m in paper if m in ours]
    same = pairs = ties = 0
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            if paper[a] == paper[b]:
                continue
            pairs += 1
            ties += ours[a] == ours[b]
            same += (paper[a] - paper[b]) * (ours[a] - ours[b]) > 0
    return same, pairs, ties


def rank(ours, method, highest=True):
    """Place of a method among those in ours, 1 the best; equal ones share the better place."""
    return 1 + sum((v > ours[method]) if highest else (v < ours[method]) for v in ours.values())


def spearman(x, y):
    """Rank correlation with mean ranks for ties."""
    def ranks(values):
        values = np.asarray(values, dtype=float)
        return np.array([(values < v).sum() + 0.5 * ((values == v).sum() + 1) for v in values])
    a, b = ranks(x), ranks(y)
    a, b = a - a.mean(), b - b.mean()
    norm = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / norm) if norm > 0 else float("nan")


def permutation_p(x, y, statistic, seed=0, draws=10000):
    """Two-sided permutation p-value of a correlation."""
    rng = np.random.default_rng(seed)
    y = np.asarray(y, dtype=float)
    value = abs(statistic(x, y))
    hits = sum(abs(statistic(x, rng.permutation(y))) >= value - 1e-12 for _ in range(draws))
    return (hits + 1) / (draws + 1)


def under_shift():
    """What experiments/shift/run.py measured: {pool: figures}."""
    return read_json(ROOT / "experiments" / "shift" / "figures.json")


def percentile(samples):
    return [float(v) for v in np.percentile(samples, [2.5, 97.5])]


# ---- sections ------------------------------------------------------------------------------------------------------

def merged(new, old, measured, known):
    """new, with what old has of the known pools that were not measured. Keys that are or begin with the name of a pool are of
    that pool."""
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    of = {key: next((p for p in known if key.split(" ")[0] == p), None) for key in (*new, *old)}
    out = {key: merged(value, old.get(key), measured, known) if of[key] is None else value for key, value in new.items()}
    out.update({key: value for key, value in old.items() if of[key] and of[key] not in measured})
    return dict(sorted(out.items(), key=lambda item: known.index(of[item[0]]) if of[item[0]] else -1))


def read_json(path):
    return json.loads(path.read_text()) if path.exists() else {}


def write_json(path, content):
    path.write_text(json.dumps(content, indent=1, default=lambda v: v.item()) + "\n")


def measured_with(options):
    return {"version": version(options), "date": datetime.date.today().isoformat(), "seed": options.seed, "resamples": options.resamples}


def measure_known(options, folder, pools, measure):
    """Measures the known pools that are found and stores their figures; the others keep theirs."""
    if pools is None:
        figures, page = measure(options, None)
        page["measured"] = {name: measured_with(options) for name in figures}
    else:
        found = find_pools(options, pools)
        if pools and not found:
            print(f"no pool of experiment {folder.name} was found: its figures are unchanged", file=sys.stderr)
            return
        figures, page = json.loads(json.dumps(measure(options, found), default=lambda v: v.item()))
        page["measured"] = {name: measured_with(options) for name in found or ["simulations"]}
        figures, page = (merged(new, read_json(folder / file), list(found), pools)
                         for new, file in ((figures, "figures.json"), (page, "page.json")))
    write_json(folder / "figures.json", figures)
    write_json(folder / "page.json", page)


def measure_given(options, folder, measure, reason):
    """Measures and stores the pools of --pool, each by itself. Returns whether all went well."""
    stored, well = read_json(folder / "given.json"), True
    for name, manifest in options.given.items():
        why = reason(json.loads(manifest.read_text()))
        if why:
            print(f"{folder.name}: pool {name} is left out: {why}", file=sys.stderr)
            continue
        try:
            figures, page = measure(options, {name: manifest})
        except ToolError as error:
            print(f"{folder.name}: pool {name} is left out: {error}", file=sys.stderr)
            well = False
            continue
        page["measured"] = {name: measured_with(options)}
        stored[name] = {"figures": figures, "page": page}
    for name in options.forget:
        stored.pop(name, None)
    if stored:
        write_json(folder / "given.json", stored)
    elif options.forget:
        (folder / "given.json").unlink(missing_ok=True)
    return well


def run(document, name, title, pools, measure, section, tables, reason, more=None, before=None):
    """One experiment. pools: names of the known ones; measure(options, {name: manifest}) returns (figures, page);
    section(figures, page) returns the lines of the section, tables(figures, page) those of one subsection; reason(document)
    says why the pool of a manifest given with --pool cannot take part. more(parser) adds options; before(options) is called
    before pools are searched. Everything goes through JSON, so that --write-only sees what a run sees."""
    options = arguments(document, more)
    folder = ROOT / "experiments" / name
    well = True
    if not options.write_only:
        try:
            if options.known:
                if before:
                    before(options)
                measure_known(options, folder, pools, measure)
        except ToolError as error:
            sys.exit(str(error))
        well = measure_given(options, folder, measure, reason)
    figures, page = (read_json(folder / file) for file in ("figures.json", "page.json"))
    lines = section(figures, page)
    for pool, own in read_json(folder / "given.json").items():
        part = tables(own["figures"], own["page"])
        head = [] if part[0].startswith("### ") else [f"### {pool}, given with --pool", ""]
        lines += ["", *head, *part, *([] if part[-1] == "" else [""]), f"Measured: {measured_text(own['page']['measured'], False)}."]
    write_section(options, name, title, lines)
    sys.exit(0 if well else 1)


def run_figures(document, name, pools, measure):
    """An experiment without a section: its figures are for experiments/claims.md. measure(options, {name: manifest}) returns
    them."""
    options = arguments(document)
    folder = ROOT / "experiments" / name
    for pool in options.given:
        print(f"{name}: pool {pool} is left out: this experiment has no section, its figures are for claims.md", file=sys.stderr)
    if options.known and not options.write_only:
        try:
            measure_known(options, folder, pools, lambda o, found: (measure(o, found), {}))
        except ToolError as error:
            sys.exit(str(error))


def measured_text(measured, resamples=True):
    """When and by which version pools were measured; one clause for each run, the latest first."""
    runs = {}
    for name, m in measured.items():
        text = f"{m['version']} on {m['date']}, seed {m['seed']}" + (f", {m['resamples']:,} resamples" if resamples else "")
        runs.setdefault((m["date"], text), []).append(name)
    latest, *others = sorted(runs.items(), key=lambda run: run[0], reverse=True)
    if not others:
        return latest[0][1]
    return "; ".join(f"{', '.join(f'`{n}`' for n in names)}: {text}" for (_, text), names in (latest, *others))


def conditions(page, lines, resamples=True):
    """The paragraph on the conditions of a run: command lines, and what was measured when."""
    measured = page["measured"]
    text = "Conditions: " + "; ".join(f"`corestack {line}`" for line in lines) + f". Measured: {measured_text(measured, resamples)}."
    if len({(m["date"], m["version"]) for m in measured.values()}) > 1:
        text += " Figures with an earlier date are of the tool of that day and were not measured again."
    return text


def write_section(options, name, title, lines, script="run.py"):
    """Puts a section, which this script of experiments/NAME writes, between its markers, in the order of SECTIONS."""
    out = pathlib.Path(options.out)
    begin, end = f"<!-- begin {name}: experiments/{name}/{script} -->", f"<!-- end {name} -->"
    old = out.read_text() if out.exists() else ""
    sections = {m[1]: m[0] for m in re.finditer(r"<!-- begin ([a-z-]+):.*?<!-- end \1 -->", old, re.S)}
    body = "\n".join([f"## {title}", "", *lines]).rstrip()
    sections[name] = f"{begin}\n{body}\n\n{end}"
    out.write_text(INTRODUCTION + "\n" + "\n\n".join(sections[s] for s in SECTIONS if s in sections) + "\n")
    print(f"section {name} of {out.name} is written")
