#!/usr/bin/env python3
"""Segmentation beside a log-linear pool with weights of each class: two simulated pools, examples/segmentation, CamVid.

`/usr/bin/python3 experiments/tasks/maps.py` makes the simulated pools in a temporary folder, fits every method on split oof, scores
split test once, and writes experiments/tasks/maps.json and the table in docs/segmentation.md. The rival is written in NumPy and SciPy alone:
softmax_c(sum_k w_kc log max(p_kc, 1e-6) + b_c), L-BFGS on 50,000 pixels, a weak prior. Differences are of cases, by a paired bootstrap.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from scipy.ndimage import zoom
from scipy.optimize import minimize

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/segmentation.md"
FIGURES = Path(__file__).with_suffix(".json")
CLASSES, PIXELS, FLOOR = 19, 50000, 1e-6
METHODS = ("default", "compact", "paper", "average", "greedy", "class-wise")

# Of each network: skill, share of its noise that all have in common, spread of its classes' scales and biases, sharpness.
NETWORKS = {
    "calibration": [(1.0, .5, .5, .8, 1.0), (.95, .5, .5, .8, .6), (.9, .5, .5, .8, 2.0), (-.3, .2, .3, 1.0, 1.5)],  # the last is bad
    "correlated": [(.9, .85, .15, .3, 1.2), (.9, .85, .15, .3, 1.2), (.85, .85, .15, .3, 1.5), (.8, .0, .15, .3, .8)],
}


def field(rng, height, width, cell, channels):
    """A smooth random field of unit variance."""
    low = rng.standard_normal((height // cell + 1, width // cell + 1, channels)).astype(np.float32)
    high = zoom(low, (height / low.shape[0], width / low.shape[1], 1), order=1, grid_mode=True, mode="nearest")
    return high / high.std()


def simulate(folder, kind, seed, cases=30, height=96, width=160):
    """Scenes of 19 classes, of which some are fifty times as frequent as others, as networks with known faults see them."""
    fixed = np.random.default_rng([seed, 1])
    nets = [(*net, .35 * fixed.standard_normal(CLASSES), np.exp(net[2] * fixed.standard_normal(CLASSES)), net[3] * fixed.standard_normal(CLASSES))
            for net in NETWORKS[kind]]
    frequency = fixed.permutation(-1.2 * np.log(np.arange(1, CLASSES + 1))).astype(np.float32)
    for number, split in enumerate(("oof", "test")):
        rng = np.random.default_rng([seed, 2, number])
        labels = np.empty((cases, height, width), np.uint8)
        maps = np.empty((len(nets), cases, height, width, CLASSES), np.float32)
        for n in range(cases):
            scene = 1.5 * field(rng, height, width, 16, CLASSES) + frequency + .7 * rng.standard_normal(CLASSES).astype(np.float32)
            labels[n] = scene.argmax(-1)
            hit = np.eye(CLASSES, dtype=np.float32)[labels[n]]
            common = field(rng, height, width, 6, CLASSES)
            for k, (skill, share, _, _, sharp, more, scales, biases) in enumerate(nets):
                noise = np.sqrt(share) * common + np.sqrt(1 - share) * field(rng, height, width, 5, CLASSES)
                score = .5 * (scene - scene.max(-1, keepdims=True)) + 1.6 * hit * (1 + skill + more) + 2 * noise
                score = sharp * (score * scales + biases)
                maps[k, n] = np.exp(score - score.max(-1, keepdims=True))
        labels[rng.random(labels.shape) < .02] = 255
        np.save(folder / f"{split}_labels.npy", labels)
        for k in range(len(nets)):
            np.save(folder / f"net{k}_{split}.npy", maps[k] / maps[k].sum(-1, keepdims=True))
    splits = ("oof", "test")
    (folder / "pool.json").write_text(json.dumps({
        "corestack_pool": 1, "task": "segmentation", "classes": CLASSES, "ignore": 255, "layout": "channels-last",
        "splits": {s: {"labels": f"{s}_labels.npy"} for s in splits},
        "models": [{"name": f"net{k}", "predictions": {s: f"net{k}_{s}.npy" for s in splits}} for k in range(len(nets))]}))
    return folder / "pool.json"


def array(path):
    loaded = np.load(path)
    return loaded if path.suffix == ".npy" else loaded[loaded.files[0]]


def read(pool, split):
    """Masks [cases, pixels], -1 where nothing counts, and maps [cases, pixels, members, classes]."""
    manifest = json.loads(pool.read_text())
    classes = manifest["classes"] if isinstance(manifest["classes"], int) else len(manifest["classes"])
    masks = array(pool.parent / manifest["splits"][split]["labels"]).astype(np.int64)
    masks = np.where((masks == manifest.get("ignore", 255)) | (masks >= classes), -1, masks).reshape(len(masks), -1)
    maps = []
    for member in manifest["models"]:
        one = array(pool.parent / member["predictions"][split]).astype(np.float32)
        first = manifest.get("layout") == "channels-first"
        maps.append((np.moveaxis(one, 1, -1) if first else one).reshape(*masks.shape, classes))
    return masks, np.stack(maps, 2)


def probabilities(theta, logs):
    z = np.einsum("nkc,kc->nc", logs, theta[:-1]) + theta[-1]
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def rival(masks, maps, prior=1.0):
    """Weights [members, classes] and biases, in one array."""
    rows = np.flatnonzero(masks >= 0)
    rows = np.sort(np.random.default_rng(0).choice(rows, min(PIXELS, len(rows)), replace=False))
    y = masks.ravel()[rows]
    members, classes = maps.shape[2:]
    logs = np.log(np.maximum(maps.reshape(-1, members, classes)[rows], FLOOR)).astype(float)
    start = np.vstack([np.full((members, classes), 1 / members), np.zeros((1, classes))])

    def loss(theta):
        theta = theta.reshape(start.shape)
        p = probabilities(theta, logs)
        value = -np.log(p[np.arange(len(y)), y]).sum() + prior / 2 * ((theta - start) ** 2).sum()
        p[np.arange(len(y)), y] -= 1
        gradient = np.vstack([np.einsum("nkc,nc->kc", logs, p), p.sum(0)]) + prior * (theta - start)
        return value, gradient.ravel()

    return minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x.reshape(start.shape)


def tallies(masks, predict):
    """Of each case: confusion [classes, classes], sum of -log p of the label."""
    confusion, losses = [], []
    for n, y in enumerate(masks):
        p, guess = predict(n)
        keep = y >= 0
        classes = p.shape[-1]
        confusion.append(np.bincount(y[keep] * classes + guess[keep], minlength=classes ** 2).reshape(classes, classes))
        losses.append(-np.log(np.maximum(p[keep, y[keep]], 1e-15)).sum())
    return np.array(confusion, float), np.array(losses)


def scores(found, times=None):
    """mIoU in percent and NLL, of all cases or each `times` over."""
    confusion, losses = found
    times = np.ones(len(losses)) if times is None else times
    confusion = np.tensordot(times, confusion, 1)
    hit = np.diag(confusion)
    union = confusion.sum(0) + confusion.sum(1) - hit
    return np.array([100 * (hit[union > 0] / union[union > 0]).mean(), times @ losses / confusion.sum()])


def corestack(tool, *command):
    done = subprocess.run([tool, *map(str, command)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if "--json" in command else None


def measure(tool, pool, folder):
    masks, maps = read(pool, "test")
    theta = rival(*read(pool, "oof"))

    def of_rival(n):
        p = probabilities(theta, np.log(np.maximum(maps[n], FLOOR)).astype(float))
        return p, p.argmax(1)

    other = tallies(masks, of_rival)
    fit = corestack(tool, "fit", pool, "-o", folder / "m.cstack", "--json")
    for form in ("maps", "labels"):
        corestack(tool, "predict", folder / "m.cstack", pool, "--split", "test", "--guard", "off", "--format", form, "-o", folder / f"{form}.npy")
    told, labels = np.load(folder / "maps.npy"), np.load(folder / "labels.npy")
    ours = tallies(masks, lambda n: (told[n].reshape(masks.shape[1], -1), labels[n].ravel().astype(np.int64)))
    rng = np.random.default_rng(0)
    drawn = [rng.multinomial(len(masks), np.full(len(masks), 1 / len(masks))) for _ in range(1000)]
    change = np.array([scores(ours, t) - scores(other, t) for t in drawn])
    compared = corestack(tool, "compare", pool, "--split", "test", "--methods", ",".join(METHODS), "-r", 0, "--json")
    rows = {row["method"]: [100 * row["miou"], row["nll"], row["models"]] for row in compared["rows"]}
    rows["NumPy, class-wise"] = [*scores(other), maps.shape[2]]
    return {"rows": rows, "difference": list(scores(ours) - scores(other)), "se": list(change.std(0)), "decision": fit["decision"],
            "class_wise": fit["class_wise"], "nested": {"miou": 100 * fit["oof"]["miou"], "nll": fit["oof"]["nll"]}}


def table(figures):
    names = [*METHODS, "NumPy, class-wise"]
    lines = ["| test split: mIoU %, NLL | " + " | ".join(names) + " | default - NumPy |", "|---" * (len(names) + 2) + "|"]
    for pool, found in figures.items():
        cells = [f"{found['rows'][n][0]:.2f}, {found['rows'][n][1]:.4f}" for n in names]
        change = ", ".join(f"{d:+.{k}f} ± {s:.{k}f}" for d, s, k in zip(found["difference"], found["se"], (2, 4)))
        lines.append(f"| {pool} | " + " | ".join(cells) + f" | {change} |")
    return "\n".join(lines)


def write_page(figures):
    begin, end = "<!-- experiments/tasks/maps.py -->\n", "<!-- end -->"
    text = PAGE.read_text()
    before, rest = text.split(begin)
    PAGE.write_text(before + begin + table(figures) + "\n" + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build-gcc/corestack"))
    parser.add_argument("--pools", type=Path, default=ROOT / "data/pools", help="folder with camvid and camvid_recordings, where they were made")
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        pools = {"examples/segmentation": ROOT / "examples/segmentation/pool.json"}
        for name in ("camvid", "camvid_recordings"):
            if (options.pools / name / "pool.json").exists():
                pools[name] = options.pools / name / "pool.json"
        for seed, kind in enumerate(NETWORKS):
            (folder / kind).mkdir()
            pools[f"simulated: {kind}"] = simulate(folder / kind, kind, seed)
        for name, pool in pools.items():
            figures[name] = measure(options.tool, pool, folder)
            print(name, json.dumps(figures[name], indent=1), flush=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print(table(figures))
    write_page(figures)


if __name__ == "__main__":
    main()
