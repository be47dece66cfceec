#!/usr/bin/python3
"""Regret: how far the default is behind the best of all methods, over random divisions of the rows of many pools.

    experiments/regret/run.py [--pools DIR]... [--only POOL]... [--divisions N]                   # figures, and the section
    experiments/regret/run.py --table [--divisions 4] [--tools NAME=PATH]... [--set KEY=VALUE]... [--preset-only]  # a table alone

--rows N and --members N look at smaller pools.

Every classification and regression pool that is found takes part. The labelled rows of its `oof` split are divided at random,
two thirds to fit on and one third to judge on; all methods see the same rows. scikit-learn's stacking gets the same predictions.
Pools ordered in time (ORDERED) are divided by the blocks of their folds: three of five to fit on, in each of the ten ways. With a
pool-true.json beside the manifest, the labels of `oof` are partly wrong, and the methods are judged on the `test` split. Predictions
in a folder reference/ are the field's own ensembles: rows of their own, apart from the regret.
What was measured is kept in --cache and not measured again.
"""
import concurrent.futures
import copy
import hashlib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
from figure import draw  # noqa: E402

PRESETS = ["default", "compact", "best"]
CALIBRATED = ["average+temperature", "average+vector", "ridge+temperature", "ridge+vector", "elastic-net+temperature", "greedy+temperature",
              "greedy+vector", "greedy-brier+temperature", "minimum-variance+temperature", "log-linear+temperature",
              "hill-climbing+temperature"]
NOT_LISTED = {"deep-ensemble", "snapshot", "mc-dropout", "soup", "swag", "wbf", "nms", "soft-nms", "soft-nms-linear",
              "temperature", "vector", "isotonic", "platt"}
NOT_WITHOUT = {"mlp"}  # cannot predict rows on which a member is missing
CLASSES_ONLY = {"greedy-top1", "greedy-brier", "log-linear", "mlp", "autogluon"}
STACKING = "scikit-learn"
ALL, TRUE, OFFICIAL = "all members", "default, true labels", "official: "  # rows that are not methods of `compare`
ORDERED = {"flusight", "epf-de"}  # the folds are blocks of time
SIMPLE = ["average", "best-single", "greedy+temperature", "hill-climbing"]  # what the default must never be behind
MOST_MISSING = 0.1  # of a reference's rows
RIVALS = {"classification": ["autogluon", "log-linear", STACKING], "regression": ["ridge", "average", STACKING]}
KEPT = ["nll", "top1", "ece", "rmse", "levels", "coverage", "width", "models", "flops_rel", "seconds"]
FLOOR = 1e-15  # a true-class probability below it counts as it, as in corestack


def more(parser):
    parser.add_argument("--split", default="oof", help="the split whose rows are divided (oof); A+B: the rows of both")
    parser.add_argument("--divisions", type=int, default=10)
    parser.add_argument("--share", type=float, default=2 / 3, help="share of the rows to fit on")
    parser.add_argument("--least-rows", type=int, default=150, metavar="N", help="leave out pools with fewer rows (150): their losses "
                        "are those of a few rows, and near 0 a ratio says nothing")
    parser.add_argument("--rows", type=int, metavar="N", help="at most N rows in every division, drawn at random")
    parser.add_argument("--members", type=int, metavar="N", help="at most N members in every division, drawn at random")
    parser.add_argument("--methods", help="these methods alone, separated by commas")
    parser.add_argument("--presets", default=",".join(PRESETS), help="the presets to measure, separated by commas (%(default)s)")
    parser.add_argument("--preset-only", action="store_true", help="run the presets alone; the others only where they are cached")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="passed on to the presets")
    parser.add_argument("--baselines", metavar="TOOL", help="the tool whose baselines are used (--tool): with a --cache that has "
                        "them, a new tool runs its presets alone")
    parser.add_argument("--tools", action="append", default=[], metavar="NAME=PATH", help="another tool, whose presets are shown as "
                        "default@NAME; may be repeated")
    parser.add_argument("--kind", choices=("classification", "regression"), help="pools of this task alone")
    parser.add_argument("--folders", dest="exactly", action="store_true", help="search the folders of --pools alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="threads of each run of the tool")
    parser.add_argument("--cache", default=str(common.ROOT / "data" / "experiments" / "regret"))
    parser.add_argument("--table", action="store_true", help="print the tables alone and store nothing but the cache")


# ---- pools and divisions --------------------------------------------------------------------------------------------

class Pool:
    """A pool's manifest and arrays of the rows that are divided."""

    def __init__(self, manifest, splits):
        self.manifest, self.name = manifest, manifest.parent.name
        document = json.loads(manifest.read_text())
        self.task = document.get("task", "classification")
        self.logits = document.get("output") == "logit"
        self.head = {k: v for k, v in document.items() if k not in ("splits", "models", "training_counts")}
        self.columns = len(document.get("classes", document.get("outputs", [])))
        self.models = [{k: v for k, v in m.items() if k != "predictions"} for m in document["models"]]
        noisy = manifest.with_name("pool-true.json")
        splits = [*splits, "test"] if noisy.exists() else splits
        entries = [{**document["splits"][s], "labels": labels_of(document, s)} for s in splits]
        self.rows = {key: np.concatenate([common.array(manifest, e[key]) for e in entries])
                     for key in ("labels", "ids", "folds", "groups", "weights") if all(e.get(key) for e in entries)}
        self.beside = {}  # by row, not written into a division
        if noisy.exists():
            sizes = [len(common.array(manifest, e["labels"])) for e in entries]
            true = json.loads(noisy.read_text())
            self.beside["judged"] = np.repeat(np.arange(len(splits)) == len(splits) - 1, sizes)
            self.beside["truth"] = np.concatenate([common.array(manifest, labels_of(true, s)) for s in splits])
        for file in sorted((manifest.parent / "reference").glob(f"*.{splits[0]}.npy")):
            parts = [file.with_name(file.name.replace(f".{splits[0]}.npy", f".{s}.npy")) for s in splits]
            if all(f.exists() for f in parts):
                self.beside[OFFICIAL + file.name.split(".")[0]] = np.concatenate([np.load(f) for f in parts])
        self.members = [np.concatenate([common.array(manifest, m["predictions"][s]) for s in splits]) for m in document["models"]]
        text = hashlib.sha256(manifest.read_bytes())
        for array in (*self.rows.values(), *self.members):
            text.update(np.ascontiguousarray(array))
        self.key = text.hexdigest()[:32]
        self.missing = any(np.isnan(m).any() for m in self.members if m.dtype.kind == "f")
        self.same = hashlib.sha256(self.rows["labels"].tobytes() + json.dumps([m["name"] for m in self.models]).encode()).hexdigest()

    def sample(self, seed, number, rows, members):
        """The pool with at most so many random rows and members; None: all."""
        random = np.random.default_rng([seed, number, 1])
        out = copy.copy(self)
        if rows and rows < len(self.rows["labels"]):
            kept = np.sort(random.permutation(len(self.rows["labels"]))[:rows])
            out.rows = {key: values[kept] for key, values in self.rows.items()}
            out.members = [m[kept] for m in self.members]
            out.beside = {key: values[kept] for key, values in self.beside.items()}
        if members and members < len(self.members):
            kept = np.sort(random.permutation(len(self.members))[:members])
            out.members, out.models = [out.members[i] for i in kept], [self.models[i] for i in kept]
        return out

    def height(self):
        """Rows that are divided."""
        return len(self.rows["labels"]) - int(np.sum(self.beside.get("judged", 0)))

    def divide(self, seed, number, share):
        """(rows to fit on, rows to judge on), ascending; each class is divided in proportion, and a single row is fitted on. Groups
        and blocks of time are not divided."""
        random = np.random.default_rng([seed, number])
        labels = self.rows["labels"]
        if self.name in ORDERED:
            blocks = np.unique(self.rows["folds"])
            ways = list(itertools.combinations(blocks, max(1, round(share * len(blocks)))))
            order = np.random.default_rng(seed).permutation(len(ways))
            chosen = np.isin(self.rows["folds"], ways[order[number % len(ways)]])
            return np.flatnonzero(chosen), np.flatnonzero(~chosen)
        if "groups" in self.rows:
            groups = np.unique(self.rows["groups"])
            chosen = np.isin(self.rows["groups"], random.permutation(groups)[:int(np.ceil(share * len(groups)))])
            return np.flatnonzero(chosen), np.flatnonzero(~chosen)
        strata = labels if self.task == "classification" else np.zeros(len(labels), np.int64)
        judged = self.beside.get("judged", np.zeros(len(labels), bool))
        fitted = []
        for stratum in np.unique(strata[~judged]):
            rows = random.permutation(np.flatnonzero((strata == stratum) & ~judged))
            fitted.append(rows[:1 if len(rows) == 1 else max(1, min(len(rows) - 1, int(share * len(rows) + random.random())))])
        fitted = np.sort(np.concatenate(fitted))
        return fitted, np.flatnonzero(judged) if judged.any() else np.setdiff1d(np.arange(len(labels)), fitted)

    def official(self, judge):
        """Scores of the field's own ensembles. The few rows that one lacks get the mean of the members."""
        mean, out = None, {}
        for name, values in self.beside.items():
            lacking = np.isnan(values[judge].reshape(len(judge), -1)).any(axis=1) if name.startswith(OFFICIAL) else np.ones(1)
            if lacking.mean() > MOST_MISSING:
                continue
            mean = np.mean(filled(self), axis=0)[judge] if mean is None else mean
            y = self.rows["labels"][judge]
            if self.task == "regression":
                p, y = values[judge].reshape(len(judge), -1).astype(np.float64), y.reshape(len(judge), -1)
                out[name] = {"rmse": float(np.sqrt(np.mean((np.where(lacking[:, None], mean, p) - y) ** 2, axis=0)).mean())}
            else:
                p = common.probabilities(values[judge], False)
                out[name] = scores(np.where(lacking[:, None], mean, p), y)
        return out

    def write(self, folder, parts):
        """A pool whose splits `oof` and `test` are these rows."""
        document = {**self.head, "splits": {}, "models": [{**m, "predictions": {}} for m in self.models]}
        for split, rows in zip(("oof", "test"), parts):
            entry = document["splits"][split] = {}
            for key, values in self.rows.items():
                kept = values[rows]
                if key == "folds" and self.name in ORDERED:
                    kept = np.unique(kept, return_inverse=True)[1].astype(np.int32)
                elif key == "folds" and len(np.unique(kept)) < len(np.unique(values)):
                    continue
                if key == "folds" and split == "test":
                    continue
                entry[key] = f"{split}_{key}.npy"
                np.save(folder / entry[key], kept)
            for number, model in enumerate(document["models"]):
                model["predictions"][split] = f"{number}.{split}.npy"
                np.save(folder / model["predictions"][split], np.ascontiguousarray(self.members[number][rows]))
        (folder / "pool.json").write_text(json.dumps(document))


def labels_of(document, split):
    """The manifest's file of the labels or targets of a split."""
    entry = document["splits"].get(split, {})
    return entry.get("labels") or entry.get("targets")


def filled(pool):
    """[rows, columns] float64 of every member; where one has no prediction, the mean of the others."""
    found = [common.probabilities(m, pool.logits) if pool.task == "classification" else m.reshape(len(m), -1).astype(np.float64)
             for m in pool.members]
    if pool.missing:
        mean = np.nanmean(found, axis=0)
        found = [np.where(np.isnan(p), mean, p) for p in found]
    return found


def given_pool(options, manifest):
    """A pool of --pool, or a ToolError that says why it cannot take part."""
    document = json.loads(manifest.read_text())
    if options.split not in document["splits"]:
        raise common.ToolError(f"it has no split `{options.split}`")
    pool = Pool(manifest, [options.split])
    if len(pool.rows["labels"]) < options.least_rows:
        raise common.ToolError(f"it has fewer than {options.least_rows} rows (--least-rows)")
    return pool


def pools_of(options):
    """The pools of all folders in order of name, each once; those that cannot take part are left out."""
    folders = [pathlib.Path(p) for p in options.pools] if options.exactly else options.folders
    found, seen = {}, set()
    for manifest in (m for f in folders for m in sorted(f.glob("*/pool.json"))):
        name = manifest.parent.name
        if name in found or options.only and name not in options.only:
            continue
        document = json.loads(manifest.read_text())
        splits = options.split.split("+")
        task = document.get("task", "classification")
        if task not in RIVALS or options.kind not in (None, task):
            continue
        if any(not labels_of(document, s) or document["splits"][s].get("conditions") for s in splits):
            continue
        pool = Pool(manifest, splits)
        if pool.same not in seen and len(pool.rows["labels"]) >= options.least_rows:
            found[name] = pool
            seen.add(pool.same)
    return dict(sorted(found.items(), key=lambda item: (item[1].task, item[0])))


# ---- methods --------------------------------------------------------------------------------------------------------

def listed(tool):
    """Names of the methods that a tool knows, without those for tagged members or detection."""
    text = subprocess.run([tool, "compare", "--list-methods"], capture_output=True, text=True, check=True).stdout
    return [n for n in re.findall(r"^  ([a-z][a-z0-9-]*) ", text, re.M) if n not in NOT_LISTED]


class Tool:
    """A binary, with the hash that stands for it in the cache."""

    def __init__(self, path, words=(), presets=PRESETS):
        self.path, self.words = str(path), list(words)
        self.key = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:32]
        known = listed(self.path)
        self.presets = [m for m in presets if m in known]
        self.others = [m for m in known if m not in PRESETS] + [m for m in CALIBRATED if m.split("+")[0] in known]

    def methods(self, task, presets):
        names = self.presets if presets else self.others
        return names if task == "classification" else [m for m in names if m not in CLASSES_ONLY and "+" not in m]

    def compare(self, options, folder, methods, missing=False):
        words = [*(["--missing", "allow"] if missing else []), "--split", "test", "--resamples", "0", "--seed", options.seed, "--threads", options.threads,
                 "--methods", ",".join(methods), *self.words]
        done = subprocess.run([self.path, "compare", str(folder / "pool.json"), *map(str, words), "--json", "--quiet"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise common.ToolError(f"{self.path} compare {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")
        rows = json.loads(done.stdout)["rows"]
        return {r["method"]: {k: r[k] for k in KEPT if r.get(k) is not None} for r in rows}


def scores(p, y):
    """NLL, top-1 and ECE of probabilities, as corestack defines them."""
    confidence, hit = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((confidence * 15).astype(int), 14)
    gaps = [abs(np.sum(confidence[bins == b] - hit[bins == b])) for b in range(15)]
    return {"nll": float(-np.log(np.maximum(p[np.arange(len(y)), y], FLOOR)).mean()), "top1": float(hit.mean()),
            "ece": float(sum(gaps) / len(y))}


def stacking(pool, parts):
    """Scores of scikit-learn's final estimators on the members' predictions, as StackingClassifier (probabilities, without the
    first of two columns) and StackingRegressor would pass them on."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    fit, judge = parts
    labels = pool.rows["labels"]
    start = time.perf_counter()
    if pool.task == "regression":
        x = np.concatenate(filled(pool), axis=1)
        y = labels.reshape(len(labels), -1)
        errors = [RidgeCV().fit(x[fit], y[fit, d]).predict(x[judge]) - y[judge, d] for d in range(y.shape[1])]
        return {"rmse": float(np.mean([np.sqrt(np.mean(e * e)) for e in errors])), "models": len(pool.members),
                "seconds": time.perf_counter() - start}
    x = np.concatenate([p[:, 1:] if p.shape[1] == 2 else p for p in filled(pool)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=1000).fit(x[fit], labels[fit])
    p = np.zeros((len(judge), pool.columns))
    p[:, model.classes_] = model.predict_proba(x[judge])
    seconds = time.perf_counter() - start
    return {**scores(p, labels[judge]), "models": len(pool.members), "seconds": seconds}


# ---- measuring ------------------------------------------------------------------------------------------------------

def cached(options, *key):
    return pathlib.Path(options.cache) / (hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24] + ".json")


def read(file):
    return json.loads(file.read_text()) if file.exists() and file.stat().st_size else {}


def store(file, known):
    """Writes a file of the cache whole; others may write it at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as out:
        json.dump({**read(file), **known}, out)
    pathlib.Path(out.name).replace(file)


def measure_division(options, tools, pool, number):
    """{method: scores} of one division of a pool."""
    pool = pool.sample(options.seed, number, options.rows, options.members)
    parts = pool.divide(options.seed, number, options.share)
    where = [pool.key, options.split, options.seed, number, round(options.share, 6)]
    where += [options.rows, options.members] if options.rows or options.members else []
    wanted = set(options.methods.split(",")) if options.methods else None
    found = pool.official(parts[1])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for label, tool, presets in tools:
            if label == TRUE and "truth" not in pool.beside:
                continue
            methods = [m for m in tool.methods(pool.task, presets) if (not wanted or m in wanted or m == "default")
                       and not (pool.missing and m in NOT_WITHOUT)]
            file = cached(options, *where, *([TRUE] if label == TRUE else []), tool.key, tool.words)
            known = {} if options.fresh else read(file)
            missing = [m for m in methods if m not in known]
            if missing and (presets or not options.preset_only):
                source = pool
                if label == TRUE:
                    source = copy.copy(pool)
                    source.rows = {**pool.rows, "labels": pool.beside["truth"]}
                place = folder / str(label == TRUE)
                if not place.exists():
                    place.mkdir()
                    source.write(place, parts)
                known.update(tool.compare(options, place, missing, pool.missing))
                store(file, known)
            found.update({label.format(m): known[m] for m in methods if m in known})
        if not wanted or STACKING in wanted:
            file = cached(options, *where, STACKING)
            known = {} if options.fresh else read(file)
            if not known and not options.preset_only:
                known = stacking(pool, parts)
                store(file, known)
            if known:
                found[STACKING] = known
    return found


def tools_of(options):
    """(label of a method, tool, whether its presets) of all that is run."""
    words = [w for s in options.set for w in ("--set", s)]
    tools = [("{}", Tool(options.baselines or options.tool), False), ("{}", Tool(options.tool, words, options.presets.split(",")), True)]
    if "default" in options.presets.split(","):
        tools += [(ALL, Tool(options.tool, [*words, "--set", "select.direction=none"], ["default"]), True),
                  (TRUE, Tool(options.tool, words, ["default"]), True)]
    for text in options.tools:
        name, _, path = text.rpartition("=")
        tools.append(("{}@" + (name or pathlib.Path(path).name), Tool(path, (), options.presets.split(",")), True))
    return tools


def measure_pools(options, given=None):
    """{pool: {facts, rows: [{method: scores}] by division}}"""
    pools, tools = {n: given_pool(options, m) for n, m in given.items()} if given else pools_of(options), tools_of(options)
    if not pools:
        sys.exit("no pool was found: name folders with --pools")
    found = {name: {"task": p.task, "rows": min(p.height(), options.rows or p.height()), "columns": p.columns,
                    "members": min(len(p.members), options.members or len(p.members)), "divisions": []}
             for name, p in pools.items()}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
        for name, pool in pools.items():
            if sys.stderr.isatty():
                print(name, file=sys.stderr)
            found[name]["divisions"] = list(executor.map(lambda n: measure_division(options, tools, pool, n), range(options.divisions)))
    return found


# ---- figures --------------------------------------------------------------------------------------------------------

def series(divisions, method, key):
    return np.array([d[method][key] for d in divisions])


def paired(a, b):
    """Mean of a - b and its standard error over the divisions."""
    d = a - b
    return float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else 0.0


def against(divisions, method, other, key):
    """Of a method against another: mean difference, standard error, divisions with a loss at most the other's."""
    a, b = series(divisions, method, key), series(divisions, other, key)
    mean, error = paired(a, b)
    return {"difference": mean, "error": error, "ahead": int(np.sum(a <= b)), "of": len(a)}


def summarise(found):
    """What the tables and the checks need of each pool. The best method is that of least mean loss over the divisions."""
    out = {}
    for name, pool in found.items():
        divisions = pool["divisions"]
        methods = [m for m in divisions[0] if all(m in d for d in divisions)]
        key = "nll" if pool["task"] == "classification" else "rmse"
        own = [m for m in methods if "@" not in m and m not in (ALL, TRUE) and not m.startswith(OFFICIAL)]
        means = {m: float(series(divisions, m, key).mean()) for m in methods}
        best = min(own, key=means.get)
        f = out[name] = {k: pool[k] for k in ("task", "rows", "columns", "members")}
        f.update({"best": best, "loss": means, "ratio": {m: means[m] / means[best] for m in methods},
                  "divisions": len(divisions), "presets": {}})
        for k, what in (("models", "models"), ("flops", "flops_rel"), ("seconds", "seconds")):
            f[k] = {m: float(series(divisions, m, what).mean()) for m in methods if all(what in d[m] for d in divisions)}
        for preset in (m for m in methods if m.split("@")[0] in PRESETS):
            p = f["presets"][preset] = {"best": against(divisions, preset, best, key),
                                        **{r: against(divisions, preset, r, key) for r in (*RIVALS[pool["task"]], *SIMPLE, ALL, TRUE)
                                           if r in methods}}
            if key == "rmse":
                p["levels"] = divisions[0][preset].get("levels", [])
                for k in ("coverage", "width"):
                    p[k] = series(divisions, preset, k).mean(axis=0).tolist()
                continue
            top = max(own, key=lambda m: series(divisions, m, "top1").mean())
            p["top1"] = {"best": top, **against(divisions, preset, top, "top1")}
            calibrated = [m for m in ("greedy+temperature", "log-linear") if m in methods]
            if calibrated:
                reference = min(calibrated, key=lambda m: series(divisions, m, "ece").mean())
                p["ece"] = {"best": reference, **against(divisions, preset, reference, "ece"),
                            "value": float(series(divisions, preset, "ece").mean())}
    return out


def checks_of(pools, preset="default"):
    """[what, whether it holds, the figures]."""
    pools = {n: f for n, f in pools.items() if preset in f["presets"]}
    classes = {n: f for n, f in pools.items() if f["task"] == "classification"}
    numbers = {n: f for n, f in pools.items() if f["task"] == "regression"}
    checks = []

    def check(what, failed, text=None):
        checks.append([what, not failed, text or (", ".join(failed) if failed else "")])

    def behind(other, limit, preset=preset):
        """Pools whose loss is more than 1 + limit times the other's, by more than one standard error of the difference."""
        cases = [(n, f, f["presets"][preset].get(other)) for n, f in pools.items() if preset in f["presets"]]
        return [f"{n} {a['difference'] / (f['loss'][preset] - a['difference']):+.2%}" for n, f, a in cases
                if a and a["difference"] > max(a["error"], limit * (f["loss"][preset] - a["difference"]))]

    def costs(preset, models, flops):
        """The mean shares that are kept."""
        for what, key, limit in (("kept share of the members", "share", models), ("FLOPs over those of all members", "flops", flops)):
            values = [f["models"][preset] / f["members"] if key == "share" else f.get("flops", {}).get(preset) for f in pools.values()
                      if preset in f["models"]]
            values = [v for v in values if v is not None]
            if values:
                check(f"`{preset}`: mean {what} at most {limit:.0%}", np.mean(values) > limit, f"{np.mean(values):.1%} on {len(values)} pools")

    if not pools:
        return checks
    mean = float(np.mean([f["ratio"][preset] for f in pools.values()])) - 1
    check("mean regret over all pools at most 0.5%", mean > 0.005, f"{mean:.2%}")
    check("regret at most 2% on every pool, or within one standard error", behind("best", 0.02))
    for other in SIMPLE:
        if any(other in f["presets"][preset] for f in pools.values()):
            check(f"not behind {other} by more than one standard error on any pool", behind(other, 0))
    costs(preset, 0.65, 0.6)
    if any(ALL in f["loss"] for f in pools.values()):
        check("not behind the stack of all members by more than 0.3% and one standard error on any pool", behind(ALL, 0.003))
    costs("compact", 0.5, 0.4)
    if any(ALL in f["presets"].get("compact", {}) for f in pools.values()):
        check("`compact`: not behind the stack of all members by more than 1% and one standard error on any pool", behind(ALL, 0.01, "compact"))
    noisy = [f"{n} {f['loss'][preset] / f['loss'][TRUE] - 1:+.1%}" for n, f in pools.items() if TRUE in f["loss"]]
    if noisy:
        check("with wrong labels, at most 10% behind the fit on true labels",
              any(f["loss"][preset] > 1.1 * f["loss"][TRUE] for f in pools.values() if TRUE in f["loss"]), ", ".join(noisy))
    if classes:
        check("top-1 within .3 points of the best method, or within one standard error",
              [f"{n} {100 * t['difference']:+.2f}" for n, f in classes.items()
               for t in [f["presets"][preset]["top1"]] if t["difference"] < -0.003 and t["difference"] < -t["error"]])
        check("ECE not above the better of greedy + temperature and log-linear by more than two standard errors",
              [f"{n} {e['difference']:+.4f}" for n, f in classes.items() for e in [f["presets"][preset].get("ece")]
               if e and e["difference"] > 2 * e["error"]])
    if numbers:
        check("coverage of the 90% and 95% intervals within 1.5 points",
              [f"{n} {100 * c:.1f} for {100 * level:.0f}" for n, f in numbers.items()
               for level, c in zip(f["presets"][preset]["levels"], f["presets"][preset]["coverage"])
               if level in (0.9, 0.95) and abs(c - level) > 0.015])
    for other in sorted({m for f in pools.values() for m in f["seconds"] if m.startswith(preset + "@")}):
        both = [f["seconds"] for f in pools.values() if preset in f["seconds"] and other in f["seconds"]]
        ratio = sum(s[preset] for s in both) / sum(s[other] for s in both)
        check(f"at most 1.5 times the seconds of {other}", ratio > 1.5, f"{ratio:.2f}")
    return checks


# ---- tables ---------------------------------------------------------------------------------------------------------

def columns_of(pools):
    """Methods that have a column in the tables of the pools."""
    present = {m for f in pools.values() for m in f["ratio"]}
    presets = [m for m in present if m.split("@")[0] in PRESETS]
    presets.sort(key=lambda m: (m.partition("@")[2], PRESETS.index(m.split("@")[0])))
    others = dict.fromkeys((*RIVALS[next(iter(pools.values()))["task"]], "average", "hill-climbing"))
    return presets + [m for m in others if m in present]


def record(against_):
    return "" if not against_ else f"{against_['ahead']}/{against_['of']}"


def pools_table(pools, task):
    """Heads and rows of one task: ratio of each method to the best one."""
    chosen = {n: f for n, f in pools.items() if f["task"] == task}
    methods = columns_of(chosen)
    rivals = [r for r in RIVALS[task] if r in methods]
    heads = ["pool", "rows", "C" if task == "classification" else "D", "K", "kept", *methods, "best",
             *[f"ahead of {r}" for r in rivals]]
    heads += ["top-1", "ECE"] if task == "classification" else ["cover 90", "cover 95", "width 90"]
    rows = []
    for name, f in chosen.items():
        p = f["presets"].get("default", {})
        row = [name, f["rows"], f["columns"], f["members"], common.number(f["models"].get("default"), 1),
               *[common.number(f["ratio"].get(m)) for m in methods], f["best"], *[record(p.get(r)) for r in rivals]]
        if task == "classification":
            row += [f"{100 * p['top1']['difference']:+.2f}" if "top1" in p else "", f"{p['ece']['difference']:+.4f}" if "ece" in p else ""]
        else:
            cover = dict(zip(p.get("levels", []), zip(p.get("coverage", []), p.get("width", []))))
            row += [common.number(cover[v][0], 1, 100) if v in cover else "" for v in (0.9, 0.95)]
            row += [f"{cover[0.9][1]:.4g}" if 0.9 in cover else ""]
        rows.append(row)
    return heads, rows


def methods_table(pools, task):
    """Heads and rows of all methods by mean ratio, over the pools that have it, at least half of them: mean, median and worst ratio,
    pools on which it is the best, members, FLOPs, seconds."""
    every = {n: f for n, f in pools.items() if f["task"] == task}
    rows = []
    for m in dict.fromkeys(m for f in every.values() for m in f["models"]):
        chosen = {n: f for n, f in every.items() if m in f["models"]}
        if 2 * len(chosen) < len(every):
            continue
        ratios = np.array([f["ratio"][m] for f in chosen.values()])
        flops = [f["flops"][m] for f in chosen.values() if m in f.get("flops", {})]
        worst = list(chosen)[int(ratios.argmax())]
        rows.append([m, *(f"{v:.4f}" for v in (ratios.mean(), np.median(ratios), ratios.max())), worst,
                     sum(f["best"] == m for f in chosen.values()),
                     f"{100 * np.mean([f['models'][m] / f['members'] for f in chosen.values()]):.0f}",
                     f"{100 * np.mean(flops):.0f}" if flops else "",
                     f"{np.mean([f['seconds'][m] for f in chosen.values()]):.3f}"])
    heads = ["method", "mean", "median", "worst", "on pool", "best on", "members %", "FLOPs %", "seconds"]
    return heads, sorted(rows, key=lambda row: float(row[1]))


def differences_table(pools, preset="default"):
    """Heads and rows: NLL of the preset minus that of each rival with one standard error, by pool."""
    chosen = {n: f for n, f in pools.items() if f["task"] == "classification" and preset in f["presets"]}
    rivals = [r for r in RIVALS["classification"] if any(r in f["presets"][preset] for f in chosen.values())]
    cell = lambda a: f"{a['difference']:+.4f} ± {a['error']:.4f}" if a else ""  # noqa: E731
    return ["pool", *rivals, "best"], [[n, *[cell(f["presets"][preset].get(r)) for r in rivals], cell(f["presets"][preset]["best"])]
                                       for n, f in chosen.items()]


def kept_table(pools):
    """Heads and rows: share of the members and of their FLOPs that the presets keep, and the loss over that of the stack of all."""
    presets = [m for m in PRESETS if any(m in f["models"] for f in pools.values())]
    heads = ["pool", "K", *(f"{m}: {what}" for m in presets for what in ("members %", "FLOPs %", "loss"))]
    rows = [[n, f["members"]] + [c for m in presets for c in (
        common.number(f["models"][m] / f["members"], 0, 100) if m in f["models"] else "", common.number(f.get("flops", {}).get(m), 0, 100),
        common.number(f["loss"][m] / f["loss"][ALL]) if m in f["loss"] and ALL in f["loss"] else "")] for n, f in pools.items()]
    means = ["mean", ""]
    for column in range(2, len(heads)):
        values = [float(row[column]) for row in rows if row[column]]
        means.append(f"{np.mean(values):.{4 if heads[column].endswith('loss') else 0}f}" if values else "")
    return heads, [*rows, means]


def official_table(pools):
    """Heads and rows: loss of the field's own ensembles beside that of the default and of the best method."""
    rows = []
    for n, f in pools.items():
        own = {m: v for m, v in f["loss"].items() if m.startswith(OFFICIAL)}
        shown = {**own, **{m: f["loss"][m] for m in ("default", "average", f["best"]) if m in f["loss"]}} if own else {}
        rows += [[n, m + (" (best method)" if m == f["best"] else ""), f"{v:.4f}", f"{v / f['loss'][f['best']]:.4f}"]
                 for m, v in sorted(shown.items(), key=lambda item: item[1])]
    return ["pool", "", "loss", "over the best method"], rows


def plain(heads, rows):
    """A table for the terminal."""
    lines = [list(map(str, r)) for r in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))) for line in lines)


def print_tables(pools):
    for task in ("classification", "regression"):
        if any(f["task"] == task for f in pools.values()):
            divisions = max(f["divisions"] for f in pools.values())
            print(f"\n{task}: mean loss over that of the best method in hindsight, {divisions} divisions")
            print(plain(*pools_table(pools, task)))
            print()
            print(plain(*methods_table(pools, task)))
            if task == "classification":
                print("\nNLL of default minus that of others, with one standard error")
                print(plain(*differences_table(pools)))
    print()
    print(plain(*kept_table(pools)))
    if official_table(pools)[1]:
        print()
        print(plain(*official_table(pools)))
    print()
    for what, held, text in checks_of(pools):
        print(f"{'yes' if held else 'NO '} {what}" + (f" ({text})" if text else ""))


# ---- the section ----------------------------------------------------------------------------------------------------

def measure(options, given):
    pools = summarise(measure_pools(options, given))
    print_tables(pools)
    if options.table:
        sys.exit(0)
    return pools, {"split": options.split, "divisions": options.divisions, "share": options.share, "least_rows": options.least_rows,
                   "baselines": bool(options.baselines)}


def section(figures, page):
    draw(figures, pathlib.Path(__file__).with_name("regret.svg"))
    lines = [f"The labelled rows of `{page['split']}` of every pool are divided {page['divisions']} times at random: "
             f"{100 * page['share']:.0f}% to fit on, stratified by class, the rest to judge on. The figures are mean losses over the divisions, divided by that of the best "
             f"method on that pool in hindsight (1 = the best). Pools with fewer than {page['least_rows']} rows are left out. "
             "scikit-learn's stacking is its logistic regression on the members' probabilities, or its ridge regression, fitted on the "
             "same rows; where a member has no prediction, it gets the mean of the others. `flusight` and `epf-de` are ordered in time and "
             "divided by blocks: three of five to fit on, in each of the ten ways. `cifar-noise20` is fitted on labels of which 20% are wrong "
             "and judged on the true labels of its `test` split. Standard errors are of paired differences over divisions; the divisions overlap, so they are somewhat too "
             "small.", "",
             "`books`, `cifar-noise20`, `cifar-votes`, `cooling`, `epf-de`, `exoplanet`, `flavivirus`, `flusight`, `forest-digits`, `genres`, "
             "`parkinson`, `stellar`, `traffic`, `transients` and `waste` are other people's saved predictions, `NAME_few` has six members of NAME, and "
             "[pools/README.md](pools/README.md) describes the rest.", "", "![Regret on every pool](regret/regret.svg)", ""]
    lines += tables(figures, page)
    lines += ["### What is kept", "", "Means over the divisions: share of the members and of the FLOPs of all members, and loss over that of the "
              "stack of all members (`default --set select.direction=none`).", "", *common.table(*kept_table(figures))]
    heads, rows = official_table(figures)
    if rows:
        lines += ["### The field's own ensembles", "", "Ensembles that the fields published, on the same rows. The few rows that one lacks have "
                  "the mean of the members.", "", *common.table(heads, rows)]
    tried = pathlib.Path(__file__).with_name("tried.md").read_text().strip()
    if tried:
        lines += ["### What was tried and not kept", "", tried, ""]
    lines += ["### Checks", ""]
    checks = checks_of(figures)
    lines += [*(f"- {'yes' if held else '**no**'}: {what}" + (f" ({text})" if text else "") for what, held, text in checks), "",
              f"{sum(h for _, h, _ in checks)} of {len(checks)} checks hold.", "",
              "The choices of the default were made on the `oof` rows of these pools; other people's pools decide.", "",
              *(["The baselines were measured with an earlier build.", ""] if page["baselines"] else []),
              common.conditions(page, ["compare DIVISION --split test --methods ..."], resamples=False)]
    return lines


def tables(figures, page):
    lines = []
    for task, loss in (("classification", "NLL"), ("regression", "RMSE")):
        if not any(f["task"] == task for f in figures.values()):
            continue
        lines += [f"### {loss} over that of the best method", "", *common.table(*pools_table(figures, task)),
                  *common.table(*methods_table(figures, task))]
        if task == "classification":
            lines += ["NLL of the default minus that of others, with one standard error:", "", *common.table(*differences_table(figures))]
    return lines


if __name__ == "__main__":
    common.run(__doc__, "regret", "Regret", None, measure, section, tables, common.needs("classification", "regression", split="oof",
               more=common.plain_files), more)
