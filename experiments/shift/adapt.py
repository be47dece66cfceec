#!/usr/bin/python3
"""Adaptation with a few labels on pools with a split `corrupted` of several conditions: mean NLL and error.

    experiments/shift/adapt.py POOL... [--labels 10,50,200] [--draws 2] [--kinds first|second|all] [--json FILE]

For each condition and draw, labelled rows are drawn at random from one half of the rows, or picked there by
`corestack.suggest`, and the stack is adapted to them; scores are of the other half. The same is done with the clean split
`test`, where a stack should stay as it is. Rows of conditions that are worse than the stack are counted. `first`: every
second kind in alphabetical order, starting with the first, on which choices of the method were made.
Needs the Python package (CORESTACK_LIBRARY names a library that is not installed).
"""
import argparse
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
import corestack  # noqa: E402


def probabilities(folder, manifest, split):
    """{member: [conditions][rows][classes]}"""
    out = {}
    for model in manifest["models"]:
        if split not in model["predictions"]:
            continue
        x = np.load(folder / model["predictions"][split]).astype(np.float64)
        if model.get("output", manifest.get("output")) == "logit":
            x = np.exp(x - x.max(-1, keepdims=True))
            x /= x.sum(-1, keepdims=True)
        x = x.astype(np.float32)
        out[model["name"]] = x if x.ndim == 3 else x[None]
    return out


def scores(p, y):
    return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)), p.argmax(1) != y


def average(preds):
    return np.mean([preds[name].astype(np.float64) for name in preds], axis=0)


def condition(stack, preds, y, wanted, draws, number, suggest, shares):
    """Results of one condition: {(way, labels): [(nll, error, difference of NLL, its standard error)]}"""
    found = {}

    def note(way, n, p, base):
        loss, wrong = scores(p, base[1])
        difference = loss - base[0]
        found.setdefault((way, n), []).append(
            (loss.mean(), wrong.mean(), difference.mean(), difference.std(ddof=1) / np.sqrt(len(loss))))

    for draw in range(draws):
        rng = np.random.default_rng([number, draw])
        order = rng.permutation(len(y))
        if shares:  # other class shares, the same in both halves
            weight = rng.dirichlet(np.full(y.max() + 1, shares))[y] + 1e-9
            order = rng.permutation(rng.choice(len(y), len(y) // 2, replace=False, p=weight / weight.sum()))
        source, rest = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        there = {name: p[source] for name, p in preds.items()}
        left = {name: p[rest] for name, p in preds.items()}
        base = scores(stack.predict(left), y[rest])[0], y[rest]
        note("stack", 0, stack.predict(left), base)
        note("average", 0, average(left), base)
        first = np.random.default_rng([number, draw, 1]).permutation(len(source))
        for n in wanted:
            ways = {"random": first[:n]}
            if suggest and n <= 50:
                ways["suggested"] = corestack.suggest(stack, there, n)
            for way, rows in ways.items():
                if len(rows) < n or len(set(y[source][rows])) < 2:
                    continue
                made = corestack.adapt(stack, {name: p[rows] for name, p in there.items()}, y[source][rows])
                note(way, n, made.predict({name: left[name] for name in made.kept}), base)
                if way == "random":  # the other rows of the half without their labels
                    made = corestack.adapt(stack, there, y[source][rows], rows=rows, unlabeled=True)
                    note("unlabeled", n, made.predict({name: left[name] for name in made.kept}), base)
    return found


def run(path, arguments):
    path = pathlib.Path(path)
    path = path / "pool.json" if path.is_dir() else path
    manifest = json.loads(path.read_text())
    stack = corestack.fit(path, evaluate_nested=False)
    results = {}
    for split in ("corrupted", "test"):
        about = manifest["splits"][split]
        y = np.load(path.parent / about["labels"]).ravel().astype(np.int32)
        preds = probabilities(path.parent, manifest, split)
        conditions = about.get("conditions")
        kinds = sorted({c["kind"] for c in conditions}) if conditions else []
        kept = {"first": kinds[::2], "second": kinds[1::2], "all": kinds}[arguments.kinds]
        numbers = [i for i, c in enumerate(conditions) if c["kind"] in kept] if conditions else [0]
        draws = arguments.draws if conditions else 10 * arguments.draws
        total = {}
        for i in numbers:
            one = {name: p[i] for name, p in preds.items()}
            truth = y if len(y) == len(next(iter(one.values()))) else y.reshape(len(conditions), -1)[i]
            for key, values in condition(stack, one, truth, arguments.labels, draws, i, conditions is not None, arguments.shares).items():
                total.setdefault(key, []).extend(values)
        results[split] = {
            f"{way} {n}": {"nll": float(np.mean([v[0] for v in values])), "error": float(np.mean([v[1] for v in values])),
                           "worse": float(np.mean([v[2] > 2 * v[3] for v in values])),
                           "worst": float(max(v[2] for v in values)), "runs": len(values)}
            for (way, n), values in total.items()
        }
        print(f"{path.parent.name}, split {split}, {len(numbers)} conditions")
        print("  labels            NLL   error %   worse by 2 s.e. %   largest loss of NLL")
        for name, r in results[split].items():
            print(f"  {name:14s} {r['nll']:7.4f} {100 * r['error']:8.1f} {100 * r['worse']:12.1f} {r['worst']:20.3f}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--labels", default="10,50,200", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--draws", default=2, type=int)
    parser.add_argument("--kinds", default="all", choices=("first", "second", "all"))
    parser.add_argument("--shares", type=float, help="class shares from a Dirichlet distribution with this parameter")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = {pool: run(pool, arguments) for pool in arguments.pools}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1))


main()
