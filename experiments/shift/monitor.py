"""What `corestack monitor` finds: false alarms over clean streams, shifts found, error of the expected accuracy.

    monitor.py POOL... [--streams 1000] [--rows 2000]

POOL: a folder with a pool.json whose splits are oof, test and corrupted (with conditions); without the last, false alarms only.
A clean stream is rows of split test, drawn with replacement. A shift is found if the first 200 rows of a condition, in a random
order, raise an alarm. Kinds are halved by the alphabet: the rule for the expected accuracy was chosen on the first, third, ...
"""

import argparse
import json
import os

import numpy as np

import corestack


def members(folder, manifest, names, split):
    found = {}
    for model in manifest["models"]:
        if model["name"] in names:
            p = np.load(os.path.join(folder, model["predictions"][split])).astype(float)
            if manifest.get("output") == "logit":
                p = np.exp(p - p.max(axis=-1, keepdims=True))
            found[model["name"]] = (p / p.sum(axis=-1, keepdims=True)).astype(np.float32)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    for folder in arguments.pools:
        with open(os.path.join(folder, "pool.json")) as file:
            manifest = json.load(file)
        stack = corestack.fit(os.path.join(folder, "pool.json"), evaluate_nested=False)
        test = members(folder, manifest, stack.kept, "test")
        rows, random = len(next(iter(test.values()))), np.random.default_rng(0)
        alarms = 0
        for _ in range(arguments.streams):
            chosen = random.integers(0, rows, arguments.rows)
            watch = corestack.Monitor(stack, in_order=True)
            alarms += watch.batch({name: p[chosen] for name, p in test.items()})
        print(f"{folder}: {alarms} false alarms in {arguments.streams} streams of {arguments.rows} rows")
        conditions = manifest["splits"].get("corrupted", {}).get("conditions", [])
        if not conditions:
            continue
        shifted = members(folder, manifest, stack.kept, "corrupted")
        labels = np.load(os.path.join(folder, manifest["splits"]["corrupted"]["labels"]))
        kinds = sorted({condition["kind"] for condition in conditions})
        found, errors = {}, {True: [], False: []}
        for c, condition in enumerate(conditions):
            for seed in range(5):
                chosen = np.random.default_rng(seed).permutation(len(labels))[:200]
                watch = corestack.Monitor(stack, in_order=True)
                alarm = watch.batch({name: p[c][chosen] for name, p in shifted.items()}, labels[chosen])
                batch = watch.report["batches"][0]
                half = kinds.index(condition["kind"]) % 2 == 0
                errors[half].append([batch["expected"][k] - batch["observed"][k] for k in ("top1", "ece")])
                if condition["severity"] >= 3:
                    found.setdefault((condition["kind"], condition["severity"]), []).append(alarm)
        missed = [f"{kind} {severity:g}" for (kind, severity), alarms in found.items() if np.mean(alarms) <= 0.5]
        print(f"  severity 3 and above found within 200 rows: {np.mean([np.mean(a) for a in found.values()]):.3f}; missed: {missed}")
        for half, name in ((True, "chosen on"), (False, "others")):
            error = np.abs(errors[half]).mean(axis=0)
            print(f"  expected accuracy and ECE, {name}: mean absolute error {error[0]:.3f}, {error[1]:.3f}")


if __name__ == "__main__":
    main()
