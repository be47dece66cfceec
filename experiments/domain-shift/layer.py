#!/usr/bin/python3
"""The domain-aware layer on the domains of pool `vision`: with and without scales and biases of domains.

    experiments/domain-shift/layer.py [--pools DIR]... [--tool TOOL]

The rows of split oof and a random half of each shifted split are fitted on, with a column of domains; the other halves are
scored, once with their domains and once without, which gives the common scale and biases. Options are the defaults; those of the layer
were chosen on split oof of six pools (precisions.py). Writes layer.json, from which run.py writes its part of the section.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

TARGETS = ["rotated", "scaled", "translated"]
HALVES = 5


def write_pool(source, folder, seed):
    """A pool of the fitted rows and two splits of the same scored rows, with domains and without. Returns labels and domains
    of the scored rows."""
    manifest = json.loads(source.read_text())
    rng = np.random.default_rng(seed)
    labels = {s: np.load(source.parent / manifest["splits"][s]["labels"]) for s in ["oof", *TARGETS]}
    order = {s: rng.permutation(len(labels[s])) for s in TARGETS}
    fit = {s: np.sort(order[s][: len(order[s]) // 2]) for s in TARGETS}
    score = {s: np.sort(order[s][len(order[s]) // 2:]) for s in TARGETS}

    def joined(of):
        return np.concatenate([of["oof"]] + [of[s][fit[s]] for s in TARGETS]), np.concatenate([of[s][score[s]] for s in TARGETS])

    names = {s: np.full(len(labels[s]), s) for s in labels}
    for name, of in (("labels", labels), ("domains", names)):
        for split, array in zip(("oof", "test"), joined(of)):
            np.save(folder / f"{split}_{name}.npy", array)
    for model in manifest["models"]:
        one = {s: np.load(source.parent / model["predictions"][s]) for s in labels}
        for split, array in zip(("oof", "test"), joined(one)):
            np.save(folder / f"{model['name']}.{split}.npy", array)
        model.pop("ensemble", None)
        model["predictions"] = {"oof": f"{model['name']}.oof.npy", "test": f"{model['name']}.test.npy",
                                "plain": f"{model['name']}.test.npy"}
    manifest["splits"] = {"oof": {"labels": "oof_labels.npy", "domains": "oof_domains.npy"},
                          "test": {"labels": "test_labels.npy", "domains": "test_domains.npy"}, "plain": {"labels": "test_labels.npy"}}
    (folder / "pool.json").write_text(json.dumps({k: v for k, v in manifest.items() if k in
                                                  ("corestack_pool", "task", "classes", "output", "splits", "models")}))
    return joined(labels)[1], joined(names)[1]


def scores(probabilities, labels):
    top = probabilities.argmax(1)
    confidence = probabilities.max(1)
    bins = np.minimum((confidence * 15).astype(int), 14)
    gap = [abs((top[bins == b] == labels[bins == b]).sum() - confidence[bins == b].sum()) for b in range(15)]
    return {"top1": float((top == labels).mean()), "ece": float(sum(gap) / len(labels)),
            "nll": float(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-15)).mean())}


def measure(tool, source):
    def one(seed):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            labels, domains = write_pool(source, folder, seed)

            def run(*words):
                done = subprocess.run([tool, *map(str, words)], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(f"corestack {' '.join(map(str, words))}: {done.stderr.strip()}")
                return done.stdout

            report = json.loads(run("fit", folder / "pool.json", "-o", folder / "m.cstack", "--set", "evaluate.nested=false", "--json"))
            found = {"used": report["domains"]["used"], "layer": report["domains"]["list"]}
            for key, split in (("with", "test"), ("without", "plain")):
                run("predict", folder / "m.cstack", folder / "pool.json", "--split", split, "-o", folder / "out.npy", "--quiet")
                out = np.load(folder / "out.npy").astype(float)
                found[key] = {"all": scores(out, labels), **{s: scores(out[domains == s], labels[domains == s]) for s in TARGETS}}
            print(f"half {seed + 1} of {HALVES}", file=sys.stderr, flush=True)
            return found

    with concurrent.futures.ThreadPoolExecutor() as pool:
        halves = list(pool.map(one, range(HALVES)))
    return {"halves": halves, "version": subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip()}


def main():
    options = common.arguments(__doc__)
    source = common.find_pools(options, ["vision"])["vision"]
    path = pathlib.Path(__file__).parent / "layer.json"
    path.write_text(json.dumps(measure(options.tool, source), indent=1) + "\n")


if __name__ == "__main__":
    main()
