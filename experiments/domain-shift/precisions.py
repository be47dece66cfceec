"""Chooses the defaults of domain.prior_scale and domain.prior_bias.

Of each pool only the split oof is read. One member is set aside, and its predictions divide the rows into domains: by its
class (domains differ in the frequency of classes and in what is confused), by its confidence (domains differ in how hard
they are), and at random (domains do not differ). The others' geometric mean with a temperature takes the place of the
stack. For each number of rows in a domain, the layer is fitted on that many rows of each domain and scored on the others.
Prints the change of the NLL in percent, mean over pools, domains and draws, for every pair of precisions.

Over cifar10, vision, exoplanet, stellar, transients and digits, the mean of all of these was -0.58% for 100 and 10, the
defaults (columns 1, 3, 10, 30, 100 of the biases: 1.30, -0.20, -0.58, -0.45, -0.21; scales of 10, 30 and 1000 with biases of
10: 0.23, -0.33, -0.67). 100 is preferred to 1000, since domains of these pools hardly differ in scale, and real ones may.

  python3 experiments/domain-shift/precisions.py POOL...
"""
import json
import pathlib
import sys

import numpy as np
from scipy.optimize import minimize, minimize_scalar

SCALES, BIASES = (1, 3, 10, 30, 100, 1000), (1, 3, 10, 30, 100)
ROWS = (10, 50, 200, 1000)
DRAWS = 2


def softmax(z):
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def read(folder):
    manifest = json.loads((folder / "pool.json").read_text())
    of = manifest["splits"]["oof"]
    labels = np.load(folder / of["labels"]).astype(int)
    logs = []
    for model in manifest["models"]:
        x = np.load(folder / model["predictions"]["oof"]).astype(float)
        x = softmax(x) if manifest.get("output") == "logit" else x
        x = x if x.ndim == 2 and x.shape[1] > 1 else np.column_stack([1 - x.ravel(), x.ravel()])
        logs.append(np.log(np.maximum(x / x.sum(1, keepdims=True), 1e-6)))
    return logs, labels


def nll(logs, labels):
    return -np.log(np.maximum(softmax(logs)[np.arange(len(labels)), labels], 1e-15))


def layer(logs, labels, scale, bias):
    """The scale and biases of one domain: the same objective as src/method/calibration/domains.c."""
    hot = np.eye(logs.shape[1])[labels]

    def loss(theta):
        q = softmax(theta[0] * logs + theta[1:])
        off = q - hot
        value = nll(theta[0] * logs + theta[1:], labels).sum() + scale / 2 * (theta[0] - 1) ** 2 + bias / 2 * (theta[1:] ** 2).sum()
        return value, np.concatenate([[(off * logs).sum() + scale * (theta[0] - 1)], off.sum(0) + bias * theta[1:]])

    return minimize(loss, np.concatenate([[1.0], np.zeros(logs.shape[1])]), jac=True, method="L-BFGS-B").x


def domains_of(aside, rng):
    confidence = aside.max(1)
    edges = np.quantile(confidence, [0.25, 0.5, 0.75])
    groups = aside.argmax(1) * 4 // aside.shape[1]
    return {"class": groups, "confidence": np.searchsorted(edges, confidence), "random": rng.integers(0, 4, len(aside))}


def main(folders):
    changes = {}
    for folder in map(pathlib.Path, folders):
        logs, labels = read(folder)
        rng = np.random.default_rng(0)
        take = rng.permutation(len(labels))[:12000]
        aside, logs, labels = logs[0][take], np.mean(logs[1:], 0)[take], labels[take]
        t = minimize_scalar(lambda s: nll(s * logs, labels).mean(), bounds=(0.2, 5), method="bounded").x
        logs = np.log(np.maximum(softmax(t * logs), 1e-15))
        for kind, of in domains_of(aside, rng).items():
            for rows in ROWS:
                for _ in range(DRAWS):
                    parts = []
                    for d in np.unique(of):
                        mine = rng.permutation(np.flatnonzero(of == d))
                        if len(mine) >= rows + 50:
                            parts.append((mine[:rows], mine[rows:]))
                    if not parts:
                        continue
                    before = np.mean([nll(logs[out], labels[out]).mean() for _, out in parts])
                    for scale in SCALES:
                        for bias in BIASES:
                            after = 0.0
                            for fit, out in parts:
                                theta = layer(logs[fit], labels[fit], scale, bias)
                                after += nll(theta[0] * logs[out] + theta[1:], labels[out]).mean() / len(parts)
                            changes.setdefault((kind, rows, scale, bias), {}).setdefault(folder.name, []).append(100 * (after / before - 1))
        print(folder.name, file=sys.stderr)
    mean = {key: float(np.mean([np.mean(v) for v in pools.values()])) for key, pools in changes.items()}
    for kind in ("class", "confidence", "random"):
        for rows in ROWS:
            print(f"\n{kind}, {rows} rows in a domain: change of the NLL in % (rows: precision of the scale; columns: of the biases)")
            print("        " + "".join(f"{b:>9}" for b in BIASES))
            for scale in SCALES:
                print(f"{scale:>8}" + "".join(f"{mean.get((kind, rows, scale, b), np.nan):>9.2f}" for b in BIASES))
    print("\nmean over all of these")
    for scale in SCALES:
        print(f"{scale:>8}" + "".join(f"{np.mean([v for k, v in mean.items() if k[2:] == (scale, b)]):>9.2f}" for b in BIASES))


main(sys.argv[1:])
