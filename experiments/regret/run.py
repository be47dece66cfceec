#!/usr/bin/python3
"""Regret: how far the default is behind the best of all methods, over random divisions of the rows of many pools.

    experiments/regret/run.py [--pools DIR]... [--only POOL]... [--divisions N]                   # figures, and the section
    experiments/regret/run.py --table [--divisions 4] [--tools NAME=PATH]... [--set KEY=VALUE]... [--preset-only]  # a table alone

--rows N and --members N look at smaller pools.

Every classification and regression pool that is found takes part. The labelled rows of its `oof` split are divided at random,
two thirds to fit on and one third to judge on; all methods see the same rows. scikit-learn's stacking gets the same predictions.
What was measured is kept in --cache and not measured again.
"""
import concurrent.futures
import copy
import hashlib
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
CLASSES_ONLY = {"greedy-top1", "greedy-brier", "log-linear", "mlp", "autogluon"}
STACKING = "scikit-learn"
RIVALS = {"classification": ["autogluon", "log-linear", STACKING], "regression": ["ridge", "average", STACKING]}
KEPT = ["nll", "top1", "ece", "rmse", "levels", "coverage", "width", "models", "seconds"]
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
        entries = [document["splits"][s] for s in splits]
        self.rows = {key: np.concatenate([common.array(manifest, e[key]) for e in entries])
                     for key in ("labels", "ids", "folds", "groups", "weights") if all(e.get(key) for e in entries)}
        self.members = [np.concatenate([common.array(manifest, m["predictions"][s]) for s in splits]) for m in document["models"]]
        text = hashlib.sha256(manifest.read_bytes())
        for array in (*self.rows.values(), *self.members):
            text.update(np.ascontiguousarray(array))
        self.key = text.hexdigest()[:32]
        self.same = hashlib.sha256(self.rows["labels"].tobytes() + json.dumps([m["name"] for m in self.models]).encode()).hexdigest()

    def sample(self, seed, number, rows, members):
        """The pool with at most so many random rows and members; None: all."""
        random = np.random.default_rng([seed, number, 1])
        out = copy.copy(self)
        if rows and rows < len(self.rows["labels"]):
            kept = np.sort(random.permutation(len(self.rows["labels"]))[:rows])
            out.rows = {key: values[kept] for key, values in self.rows.items()}
            out.members = [m[kept] for m in self.members]
        if members and members < len(self.members):
            kept = np.sort(random.permutation(len(self.members))[:members])
            out.members, out.models = [out.members[i] for i in kept], [self.models[i] for i in kept]
        return out

    def divide(self, seed, number, share):
        """(rows to fit on, rows to judge on), ascending; each class is divided in proportion, and a single row is fitted on. Groups
        are not divided."""
        random = np.random.default_rng([seed, number])
        labels = self.rows["labels"]
        if "groups" in self.rows:
            groups = np.unique(self.rows["groups"])
            chosen = np.isin(self.rows["groups"], random.permutation(groups)[:int(np.ceil(share * len(groups)))])
            return np.flatnonzero(chosen), np.flatnonzero(~chosen)
        strata = labels if self.task == "classification" else np.zeros(len(labels), np.int64)
        fitted = []
        for stratum in np.unique(strata):
            rows = random.permutation(np.flatnonzero(strata == stratum))
            fitted.append(rows[:1 if len(rows) == 1 else max(1, min(len(rows) - 1, int(share * len(rows) + random.random())))])
        fitted = np.sort(np.concatenate(fitted))
        return fitted, np.setdiff1d(np.arange(len(labels)), fitted)

    def write(self, folder, parts):
        """A pool whose splits `oof` and `test` are these rows."""
        document = {**self.head, "splits": {}, "models": [{**m, "predictions": {}} for m in self.models]}
        for split, rows in zip(("oof", "test"), parts):
            entry = document["splits"][split] = {}
            for key, values in self.rows.items():
                if key == "folds" and (split == "test" or len(np.unique(values[rows])) < len(np.unique(values))):
                    continue
                entry[key] = f"{split}_{key}.npy"
                np.save(folder / entry[key], values[rows])
            for number, model in enumerate(document["models"]):
                model["predictions"][split] = f"{number}.{split}.npy"
                np.save(folder / model["predictions"][split], np.ascontiguousarray(self.members[number][rows]))
        (folder / "pool.json").write_text(json.dumps(document))


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
        if any(not document["splits"].get(s, {}).get("labels") or document["splits"][s].get("conditions") for s in splits):
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

    def compare(self, options, folder, methods):
        words = ["--split", "test", "--resamples", "0", "--seed", options.seed, "--threads", options.threads,
                 "--methods", ",".join(methods), *self.words]
        done = subprocess.run([self.path, "compare", str(folder / "pool.json"), *map(str, words), "--json", "--quiet"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise common.ToolError(f"{self.path} compare {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")
        rows = json.loads(done.stdout)["rows"]
        return {r["method"]: {k: r[k] for k in KEPT if k in r} for r in rows}


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
        x = np.concatenate([m.reshape(len(m), -1) for m in pool.members], axis=1).astype(np.float64)
        y = labels.reshape(len(labels), -1)
        errors = [RidgeCV().fit(x[fit], y[fit, d]).predict(x[judge]) - y[judge, d] for d in range(y.shape[1])]
        return {"rmse": float(np.mean([np.sqrt(np.mean(e * e)) for e in errors])), "models": len(pool.members),
                "seconds": time.perf_counter() - start}
    x = np.concatenate([p[:, 1:] if p.shape[1] == 2 else p for p in (common.probabilities(m, pool.logits) for m in pool.members)], axis=1)
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
    scores = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for label, tool, presets in tools:
            methods = [m for m in tool.methods(pool.task, presets) if not wanted or m in wanted or m == "default"]
            file = cached(options, *where, tool.key, tool.words)
            known = {} if options.fresh else read(file)
            missing = [m for m in methods if m not in known]
            if missing and (presets or not options.preset_only):
                if not (folder / "pool.json").exists():
                    pool.write(folder, parts)
                known.update(tool.compare(options, folder, missing))
                store(file, known)
            scores.update({m + label: known[m] for m in methods if m in known})
        if not wanted or STACKING in wanted:
            file = cached(options, *where, STACKING)
            known = {} if options.fresh else read(file)
            if not known and not options.preset_only:
                known = stacking(pool, parts)
                store(file, known)
            if known:
                scores[STACKING] = known
    return scores


def tools_of(options):
    """(label, tool, whether its presets) of all that is run."""
    own = Tool(options.tool, [w for s in options.set for w in ("--set", s)], options.presets.split(","))
    tools = [("", Tool(options.baselines or options.tool), False), ("", own, True)]
    for text in options.tools:
        name, _, path = text.rpartition("=")
        tools.append(("@" + (name or pathlib.Path(path).name), Tool(path, (), options.presets.split(",")), True))
    return tools


def measure_pools(options, given=None):
    """{pool: {facts, rows: [{method: scores}] by division}}"""
    pools, tools = {n: given_pool(options, m) for n, m in given.items()} if given else pools_of(options), tools_of(options)
    if not pools:
        sys.exit("no pool was found: name folders with --pools")
    found = {name: {"task": p.task, "rows": min(len(p.rows["labels"]), options.rows or len(p.rows["labels"])), "columns": p.columns,
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
        own = [m for m in methods if "@" not in m]
        means = {m: float(series(divisions, m, key).mean()) for m in methods}
        best = min(own, key=means.get)
        f = out[name] = {k: pool[k] for k in ("task", "rows", "columns", "members")}
        f.update({"best": best, "loss": means, "ratio": {m: means[m] / means[best] for m in methods},
                  "divisions": len(divisions), "presets": {}})
        f["models"] = {m: float(series(divisions, m, "models").mean()) for m in methods}
        f["seconds"] = {m: float(series(divisions, m, "seconds").mean()) for m in methods}
        for preset in (m for m in methods if m.split("@")[0] in PRESETS):
            p = f["presets"][preset] = {"best": against(divisions, preset, best, key),
                                        **{r: against(divisions, preset, r, key) for r in RIVALS[pool["task"]] if r in methods}}
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
    classes = {n: f for n, f in pools.items() if f["task"] == "classification" and preset in f["presets"]}
    numbers = {n: f for n, f in pools.items() if f["task"] == "regression" and preset in f["presets"]}

    def behind(kind, limit):
        """Pools that are further behind the best than the limit, and than one standard error."""
        return [f"{n} {f['ratio'][preset]:.4f}" for n, f in kind.items()
                if f["ratio"][preset] > limit and f["presets"][preset]["best"]["difference"] > f["presets"][preset]["best"]["error"]]

    checks = []

    def check(what, failed, text=None):
        checks.append([what, not failed, text or (", ".join(failed) if failed else "")])

    greedy = {n: f["presets"][preset]["autogluon"] for n, f in classes.items() if "autogluon" in f["presets"][preset]}
    if greedy:
        ahead, of = sum(g["ahead"] for g in greedy.values()), sum(g["of"] for g in greedy.values())
        check("NLL at or below autogluon's in at least 95 of 100 divisions", ahead < 0.95 * of, f"{ahead} of {of}, {100 * ahead / of:.1f}%")
        check("mean NLL at or below autogluon's on every pool",
              [f"{n} {g['difference']:+.4f}" for n, g in greedy.items() if g["difference"] > 0])
    if classes:
        mean = float(np.mean([f["ratio"][preset] for f in classes.values()]))
        check("mean over the pools of NLL over that of the best method at most 1.005", mean > 1.005, f"{mean:.4f}")
        check("NLL at most 1.02 times that of the best method on every pool, or within one standard error", behind(classes, 1.02))
        check("top-1 within .3 points of the best method, or within one standard error",
              [f"{n} {100 * t['difference']:+.2f}" for n, f in classes.items()
               for t in [f["presets"][preset]["top1"]] if t["difference"] < -0.003 and t["difference"] < -t["error"]])
        check("ECE not above the better of greedy + temperature and log-linear by more than two standard errors",
              [f"{n} {e['difference']:+.4f}" for n, f in classes.items() for e in [f["presets"][preset].get("ece")]
               if e and e["difference"] > 2 * e["error"]])
    if numbers:
        check("RMSE at most 1.005 times that of the best method on every pool, or within one standard error", behind(numbers, 1.005))
        check("coverage of the 90% and 95% intervals within 1.5 points",
              [f"{n} {100 * c:.1f} for {100 * level:.0f}" for n, f in numbers.items()
               for level, c in zip(f["presets"][preset]["levels"], f["presets"][preset]["coverage"])
               if level in (0.9, 0.95) and abs(c - level) > 0.015])
    some = [f for f in pools.values() if "compact" in f["models"]]
    if some:
        check("`compact` keeps at most 60% of the members (three if that is more)",
              [f"{n} {f['models']['compact']:.1f} of {f['members']}" for n, f in pools.items()
               if "compact" in f["models"] and f["models"]["compact"] > max(3, np.floor(0.6 * f["members"]))])
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
    """Heads and rows of all methods by mean ratio: mean, median and worst ratio, pools on which it is the best, members, seconds."""
    chosen = {n: f for n, f in pools.items() if f["task"] == task}
    methods = [m for m in next(iter(chosen.values()))["ratio"] if all(m in f["ratio"] for f in chosen.values())]
    rows = []
    for m in methods:
        ratios = np.array([f["ratio"][m] for f in chosen.values()])
        worst = list(chosen)[int(ratios.argmax())]
        rows.append([m, *(f"{v:.4f}" for v in (ratios.mean(), np.median(ratios), ratios.max())), worst,
                     sum(f["best"] == m for f in chosen.values()),
                     f"{100 * np.mean([f['models'][m] / f['members'] for f in chosen.values()]):.0f}",
                     f"{np.mean([f['seconds'][m] for f in chosen.values()]):.3f}"])
    heads = ["method", "mean", "median", "worst", "on pool", "best on", "members %", "seconds"]
    return heads, sorted(rows, key=lambda row: float(row[1]))


def differences_table(pools, preset="default"):
    """Heads and rows: NLL of the preset minus that of each rival with one standard error, by pool."""
    chosen = {n: f for n, f in pools.items() if f["task"] == "classification" and preset in f["presets"]}
    rivals = [r for r in RIVALS["classification"] if any(r in f["presets"][preset] for f in chosen.values())]
    cell = lambda a: f"{a['difference']:+.4f} ± {a['error']:.4f}" if a else ""  # noqa: E731
    return ["pool", *rivals, "best"], [[n, *[cell(f["presets"][preset].get(r)) for r in rivals], cell(f["presets"][preset]["best"])]
                                       for n, f in chosen.items()]


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
             "same rows. Standard errors are of paired differences over divisions; the divisions overlap, so they are somewhat too "
             "small.", "",
             "`books`, `exoplanet`, `stellar` and `transients` are other people's saved predictions, `NAME_few` has six members of NAME, and "
             "[pools/README.md](pools/README.md) describes the rest.", "", "![Regret on every pool](regret/regret.svg)", ""]
    lines += tables(figures, page)
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
