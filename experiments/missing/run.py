#!/usr/bin/python3
"""What is lost when members lack predictions: absent members in a prediction, absent rows in a fit.

    experiments/missing/run.py [POOL...]

POOL: folders with a pool.json, whose figures are printed. Without any, the examples, and experiments/missing/figures.json is written. Only split "oof" is read: a random
half of it is fitted on and the other half is scored, by the mean NLL or the mean squared error over the variance of the targets.

- Prediction: for each kept member, and pairs of them, the loss without it: weights solved again, weights only scaled (the same model
  without section ABSE), and a new fit of the members that are present.
- Fit: 5, 20 and 50% of the rows of one member, or of every member, are deleted, at random or as one block; the loss of a fit with
  --missing allow, of one on complete rows only, of one without the member, and of one on the complete data.
"""
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("CORESTACK_TOOL", str(ROOT / "build" / "corestack"))
sys.path.insert(0, str(ROOT / "tests" / "cli"))
os.environ.setdefault("CORESTACK_TOOL", TOOL)
os.environ.setdefault("CORESTACK_SOURCES", str(ROOT))
from test_missing import read_refits, without_refits  # noqa: E402

EVERY = ["select.direction=none", "redundancy.measure=none", "refit.drop=false", "keep.fraction=1"]
PAIRS, DRAWS = 10, 3


class Pool:
    """Halves of the out-of-fold rows of a pool, as folders that the tool reads."""

    def __init__(self, path):
        manifest = json.loads((path / "pool.json").read_text())
        self.name, self.task = path.name, manifest["task"]
        self.options = ["--task", self.task] + (["--values", manifest["output"]] if "output" in manifest else [])
        split = manifest["splits"]["oof"]
        self.y = np.load(path / split.get("labels", split.get("targets")))
        files = {m["name"]: m["predictions"]["oof"] for m in manifest["models"]}
        self.members = {n: np.load(path / (f if isinstance(f, str) else f["path"])) for n, f in files.items()}
        order = np.random.default_rng(0).permutation(len(self.y))
        self.fitted, self.scored = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])

    def tool(self, *arguments):
        done = subprocess.run([TOOL, *map(str, arguments), *self.options, "-q"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def fit(self, members, rows, model, settings=()):
        """members: {name: [fitted rows]}, of which `rows` are used."""
        with tempfile.TemporaryDirectory() as folder:
            for name, values in members.items():
                np.save(f"{folder}/oof_{name}.npy", values[rows])
            np.save(f"{folder}/oof_labels.npy", self.y[self.fitted][rows])
            sets = [x for s in ("evaluate.nested=false", *settings) for x in ("--set", s)]
            self.tool("fit", folder, "-o", model, "--missing", "allow", *sets)

    def loss(self, model, present):
        with tempfile.TemporaryDirectory() as folder:
            for name in present:
                np.save(f"{folder}/test_{name}.npy", self.members[name][self.scored])
            self.tool("predict", model, folder, "-o", f"{folder}/out.npy", "--missing", "allow")
            p, y = np.load(f"{folder}/out.npy").astype(float), self.y[self.scored]
        if self.task == "regression":
            y = y.reshape(p.shape)
            return float(np.mean((p - y) ** 2 / y.var(0)))
        return float(-np.log(np.maximum(p[np.arange(len(y)), y.astype(int)], 1e-15)).mean())


def absent_members(pool, folder):
    model, half = folder / "model", {n: v[pool.fitted] for n, v in pool.members.items()}
    everything = np.arange(len(pool.fitted))
    pool.fit(half, everything, model)
    kept = read_refits(model)[0]
    scaled = without_refits(model, folder / "scaled")
    gone = [(k,) for k in kept] + list(itertools.combinations(kept, 2))[:PAIRS]
    rows = []
    for names in gone:
        present = [k for k in kept if k not in names]
        if present:
            pool.fit({k: half[k] for k in present}, everything, folder / "again", EVERY)
            rows.append([pool.loss(m, present) for m in (model, scaled, folder / "again")])
    return {"kept": len(kept), "all": pool.loss(model, kept), "cases": len(rows),
            **dict(zip(("solved", "scaled", "fitted"), np.mean(rows, 0).tolist()))}  # fmt: skip


def delete(random, values, share, block):
    rows, count = len(values), int(share * len(values))
    start = random.integers(0, rows - count + 1)
    where = slice(start, start + count) if block else random.permutation(rows)[:count]
    found = values.astype(np.float64, copy=True)
    found[where] = np.nan
    return found


def absent_rows(pool, folder):
    half = {n: v[pool.fitted].astype(np.float64) for n, v in pool.members.items()}
    everything = np.arange(len(pool.fitted))

    def score(members, rows):
        pool.fit(members, rows, folder / "model")
        return pool.loss(folder / "model", list(members))

    found = {"complete": score(half, everything), "cases": []}
    for share, block, who in itertools.product((0.05, 0.2, 0.5), (False, True), ("one", "all")):
        losses = []
        for draw in range(DRAWS):
            random = np.random.default_rng(draw)
            one = list(half)[random.integers(len(half))]
            part = {n: delete(random, v, share, block) if who == "all" or n == one else v for n, v in half.items()}
            whole = np.flatnonzero(~np.any([np.isnan(v.reshape(len(v), -1)[:, 0]) for v in part.values()], 0))
            losses.append([
                score(part, everything),
                score(half, whole) if len(whole) > 50 else np.nan,
                score({n: v for n, v in half.items() if n != one}, everything) if who == "one" else np.nan,
            ])  # fmt: skip
        mean = np.mean(losses, 0)
        case = {"share": share, "block": block, "members": who, "allowed": mean[0], "complete_rows": mean[1], "without": mean[2]}
        found["cases"].append({k: None if isinstance(v, float) and np.isnan(v) else v for k, v in case.items()})
    return found


def main():
    given = [pathlib.Path(p) for p in sys.argv[1:]] or [ROOT / "examples" / n for n in ("digits", "regression", "concrete")]
    figures, folder = {}, pathlib.Path(tempfile.mkdtemp())
    for path in given:
        pool = Pool(path)
        one, two = absent_members(pool, folder), absent_rows(pool, folder)
        figures[pool.name] = {"absent_members": one, "absent_rows": two}
        print(f"{pool.name}: {one['kept']} kept, all {one['all']:.5f}; without one or two ({one['cases']} cases): solved again "
              f"{one['solved']:.5f}, scaled {one['scaled']:.5f}, fitted again {one['fitted']:.5f}")  # fmt: skip
        print(f"  fits on {len(pool.fitted)} rows, complete {two['complete']:.5f}")
        for case in two["cases"]:
            texts = [f"{case[k]:.5f}" if case[k] is not None else "-" for k in ("allowed", "complete_rows", "without")]
            print(f"  {case['share']:4.0%} of {case['members']:3}, {'block ' if case['block'] else 'random'}: allowed {texts[0]}, "
                  f"complete rows {texts[1]}, without the member {texts[2]}", flush=True)  # fmt: skip
    shutil.rmtree(folder)
    if not sys.argv[1:]:
        (pathlib.Path(__file__).parent / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
