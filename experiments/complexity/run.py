#!/usr/bin/python3
"""What the paper says of time and sizes: CKA's cost over rows, hashing, the gate's share of a prediction, members kept as a pool grows.

    experiments/complexity/run.py [--pools DIR]... [--only POOL]...

Leaves experiments/complexity/figures.json, whose key `table` is that of table.py. Seconds are user seconds of `corestack inspect`, less those of the same command with the
cheapest similarity; they are of a shared machine, and only their growth is used.
"""
import json
import pathlib
import resource
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

ROWS = {"exact": (2000, 4000, 8000), "nystrom": (2000, 8000, 32000)}
MEMBERS = 24
HIDDEN, AGGREGATORS = 32, 12
POOLS = ["cifar10", "vision", "fashion", "mnist", "digits"]
DRAWS = 40


def planted(rng, rows, bases, copies, noise, classes=3):
    """Softmax predictions: copies of some members with noise. Labels follow the first."""
    z = 2 * rng.standard_normal((bases, rows, classes))
    out = []
    for b in range(bases):
        for _ in range(copies):
            e = np.exp(z[b] + 0.7 * z[0] + noise * rng.standard_normal((rows, classes)))
            out.append((e / e.sum(axis=1, keepdims=True)).astype(np.float32))
    return out, z[0].argmax(axis=1).astype(np.int64)


def inspect(options, predictions, labels, *words):
    """The document, and user seconds."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        np.save(folder / "labels.npy", labels)
        files = []
        for k, p in enumerate(predictions):
            np.save(folder / f"m{k:03d}.npy", p)
            files.append(str(folder / f"m{k:03d}.npy"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        report = common.run_tool(options, "inspect", files[0], *files[1:], "--labels", folder / "labels.npy", "--seed", options.seed,
                                 "--threads", 1, *words)
        return report, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    finally:
        shutil.rmtree(folder)


def growth(options):
    """User seconds of CKA over rows: exact, and with ceil(sqrt N) uniform landmarks as in the paper; the power of N of the last step."""
    words = {"exact": ["--set", "cka.estimator=exact"],
             "nystrom": ["--set", "cka.estimator=nystrom", "--set", "cka.landmark_rule=uniform"]}
    out = {rule: [] for rule in words}
    for rule, sizes in ROWS.items():
        for rows in sizes:
            predictions, labels = planted(np.random.default_rng(options.seed), rows, MEMBERS, 1, 0.3)
            report, seconds = inspect(options, predictions, labels, *words[rule])
            _, none = inspect(options, predictions, labels, *words["nystrom"], "--set", "cka.landmarks=1")
            out[rule].append({"rows": rows, "seconds": max(seconds - none, 1e-3), "landmarks": report["cka_info"]["landmarks_max"]})
    slopes = {rule: float(np.log(v[-1]["seconds"] / v[-2]["seconds"]) / np.log(v[-1]["rows"] / v[-2]["rows"])) for rule, v in out.items()}
    return {"members": MEMBERS, **out, "slopes": slopes}


def hashing(options):
    predictions, labels = planted(np.random.default_rng(options.seed), 600, 24, 10, 0.02)
    own, _ = inspect(options, predictions, labels, "--set", "cka.lsh=on")
    every, _ = inspect(options, predictions, labels, "--set", "cka.lsh=off")
    cka = np.array(every["cka"], dtype=float)
    tau = every["cluster_threshold"]
    pairs = np.triu_indices(len(cka), 1)
    near = cka[pairs] > tau
    found = np.array(own["cka"], dtype=float)[pairs] > tau
    return {"members": len(cka), "pairs": int(near.sum()), "found": int((near & found).sum()), "info": own["cka_info"]}


def gates(manifest):
    """Operations of the gate for one sample, relative to those of the members if their FLOPs are known."""
    pool = json.loads(manifest.read_text())
    flops = [m["flops"] for m in pool["models"] if m.get("flops")]
    classes, kept = len(pool["classes"]), len(pool["models"])
    parameters = kept * HIDDEN + HIDDEN + AGGREGATORS * HIDDEN + AGGREGATORS
    if len(flops) < kept:
        return None
    return {"members": kept, "parameters": parameters, "gate": 2 * parameters * classes, "flops": float(sum(flops)),
            "share": 2 * parameters * classes / float(sum(flops))}


def kept_of(cka, order, tau):
    chosen = []
    for k in order:
        if all(not cka[k, j] > tau for j in chosen):
            chosen.append(k)
    return len(chosen)


def retained(options, manifest, rng):
    """Share of members that a threshold of 0.85 keeps, of random subsets of a size."""
    report = common.corestack(options, "inspect", manifest, "--seed", options.seed)
    cka = np.array(report["cka"], dtype=float)
    risk = np.array([m["nll"] for m in report["members"]])
    out = {}
    for size in range(4, len(cka) + 1, 4):
        shares = []
        for _ in range(DRAWS):
            chosen = rng.choice(len(cka), size, replace=False)
            shares.append(kept_of(cka, chosen[np.argsort(risk[chosen], kind="stable")], 0.85) / size)
        out[str(size)] = float(np.mean(shares))
    return out


def landmarks(options, manifest):
    """CKA with ceil(sqrt N) uniform landmarks against the exact one."""
    own, true = (np.array(common.corestack(options, "inspect", manifest, "--seed", options.seed, *words)["cka"], dtype=float)
                 for words in (["--set", "cka.estimator=nystrom", "--set", "cka.landmark_rule=uniform"], ["--set", "cka.estimator=exact"]))
    pairs = np.triu_indices(len(true), 1)
    far = np.abs(own - true)[pairs]
    return {"pairs": len(far), "most": float(far.max()), "median": float(np.median(far)),
            "crossed": int(((own > 0.85) != (true > 0.85))[pairs].sum())}


def measure(options, pools):
    rng = np.random.default_rng(options.seed)
    return {"growth": growth(options), "hashing": hashing(options), "gates": {n: gates(m) for n, m in pools.items()},
            "landmarks": {n: landmarks(options, m) for n, m in pools.items()},
            "retained": {n: retained(options, m, rng) for n, m in pools.items()},
            **{k: v for k, v in common.read_json(pathlib.Path(__file__).parent / "figures.json").items() if k == "table"}}


if __name__ == "__main__":
    common.run_figures(__doc__, "complexity", POOLS, measure)
