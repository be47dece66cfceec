"""Whether nested scores with folds in time rank methods as the next season does, better than random folds.

    experiments/tasks/time_folds.py POOL... [--missing]

POOL: folders with a pool.json whose ids begin with a date, split "oof" before split "test". For each: Spearman's rank correlation,
over the methods of `corestack compare`, of the nested scores on "oof" with the scores on "test", whose methods are fitted on "oof"
with the same folds: random folds (mean over seeds 0 to 4), the folds of the pool where it has some, and folds in time; and how far
the test score of the method that the nested scores put first is above that of the best one.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

TOOL = os.environ.get("CORESTACK_TOOL", "build/corestack")


def ranks(values):
    values = np.asarray(values)
    return np.array([((values < v).sum() + (values <= v).sum() - 1) / 2 for v in values])


def scores(folder, split, key, *more):
    command = [TOOL, "compare", folder, "--split", split, "--resamples", "0", "--json", "--quiet", *more]
    rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout)["rows"]
    return {row["method"]: row[key] for row in rows}


def agreement(nested, test):
    names = sorted(set(nested) & set(test))
    a, b = ([one[name] for name in names] for one in (nested, test))
    return np.corrcoef(ranks(a), ranks(b))[0, 1], b[int(np.argmin(a))] / min(b) - 1, len(names)


def measure(path, missing):
    with open(os.path.join(path, "pool.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    key = "rmse" if manifest["task"] == "regression" else "nll"
    more = ("--missing", "allow") if missing else ()
    with tempfile.TemporaryDirectory() as folder:
        whole = shutil.copytree(path, os.path.join(folder, "pool"))
        oof = manifest["splits"]["oof"]
        ids = np.load(os.path.join(whole, oof["ids"]))
        np.save(os.path.join(whole, "days.npy"), np.array([text[:10] for text in ids]))
        given = oof.pop("folds", None)
        oof["order"] = "days.npy"
        for name, folds in (("own.json", {"folds": given}), ("pool.json", {})):
            oof.pop("folds", None)
            oof.update(folds)
            with open(os.path.join(whole, name), "w", encoding="utf-8") as file:
                json.dump(manifest, file)
        cases = [("random", "pool.json", [("--seed", str(seed)) for seed in range(5)])]
        if given:
            cases.append(("of the pool", "own.json", [()]))
        for count in (5, 10):
            cases.append((f"time, {count}", "pool.json", [("--folds", "time", "--set", f"folds.count={count}")]))
        for name, file, settings in cases:
            found = []
            for setting in settings:
                pool = os.path.join(whole, file)
                found.append(agreement(scores(pool, "oof", key, *more, *setting), scores(pool, "test", key, *more, *setting)))
            rho, regret, methods = np.mean(found, 0)
            spread = np.std([one[0] for one in found])
            print(f"{os.path.basename(path):12} {name:12} {rho:8.3f} +- {spread:.3f} {100 * regret:9.2f} % {methods:8.0f}", flush=True)


if __name__ == "__main__":
    print("pool         folds        Spearman          regret      methods")
    for pool in [word for word in sys.argv[1:] if not word.startswith("--")]:
        measure(pool.rstrip("/"), "--missing" in sys.argv)
