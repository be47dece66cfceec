#!/usr/bin/env python3
"""Makes the frozen pools `vision` and `vision_longtail` on Fashion-MNIST: networks, ensembles of them, classical models.

Stands before corestack. `vision` brings corruptions at five severities, domain shifts and out-of-distribution images;
`vision_longtail` is trained on classes of 30 to 3,000 images. Members that are done are not trained again.
Paper: the ImageNet pool, its distribution shifts and long-tailed training of the experiments, at the size of a laptop.
"""
import json
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Callable

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import common
import networks
import vision_corruptions
import vision_networks
from images import FASHION_CLASSES, image_members, load_fashion, load_mnist
from vision_networks import VisionNetwork

OOF_ROWS, TEST_ROWS, TEST_KEPT_BACK = 5000, 5000, 5000
CORRUPTED_ROWS, SHIFTED_ROWS, MNIST_ROWS, NOISE_ROWS = 500, 1000, 1500, 500
IMBALANCE, LONGTAIL_OOF_ROWS = 100, 2500
# training images (vision_longtail: of the largest class) and epochs, quick and full
SIZES = {"vision": {"quick": (16000, 6), "full": (50000, 30)},
         "vision_longtail": {"quick": (3000, 10), "full": (3000, 60)}}
ID_OFFSET = 1_000_000  # added to the row numbers of MNIST, so that ids are unique


@dataclass
class Run:
    """One training run: the names of the members that it leaves, and make(), an unfitted classifier."""
    names: list
    family: str
    make: Callable
    ensemble: dict = None


@dataclass
class Data:
    """Training rows, and for each split its description and its images [rows, 784] in [0, 1]."""
    x: np.ndarray
    y: np.ndarray
    splits: dict
    scored: dict


def network_runs(seed, epochs):
    """Every network of `vision`, by name. cnn_a, cnn_b and cnn_c differ in their seed alone."""
    def run(name, family, build, offset=0, ensemble=None, **settings):
        return Run([name], family, partial(VisionNetwork, build, seed + offset, epochs, **settings), ensemble)

    deep = {"kind": "deep-ensemble", "of": "cnn", "passes": 1}
    runs = [run(f"cnn_{letter}", "cnn", networks.cnn, 1000 * i, deep) for i, letter in enumerate("abc")]
    runs += [
        run("resnet", "resnet", vision_networks.resnet),
        run("resnet_deep", "resnet", partial(vision_networks.resnet, depth=2)),
        run("regnet", "regnet", vision_networks.regnet),
        run("efficientnet", "efficientnet", vision_networks.efficientnet),
        run("convnext", "convnext", networks.convnext),
        run("convnext_wide", "convnext", partial(networks.convnext, dim=56, depth=4)),
        run("vit", "vit", networks.vit, rate=1e-3),
        run("vit_wide", "vit", partial(networks.vit, dim=64), rate=1e-3),
        run("swin", "swin", vision_networks.swin, rate=1e-3),
        run("mixer", "mixer", networks.mixer),
        run("mixer_wide", "mixer", partial(networks.mixer, dim=80, depth=4)),
        run("mlp", "mlp", networks.wide_mlp, rate=1e-3),
        run("cnn_dropout", "cnn", vision_networks.dropout_cnn, passes=10,
            ensemble={"kind": "mc-dropout", "of": "cnn_dropout", "passes": 10}),
        Run([f"resnet_snapshot_{i}" for i in (1, 2, 3)], "resnet",
            partial(VisionNetwork, vision_networks.resnet, seed + 2000, 3 * max(1, epochs // 2), cycles=3),
            {"kind": "snapshot", "of": "resnet_snapshots", "passes": 1})]
    return {run.names[0]: run for run in runs}


def runs_of(pool, seed, epochs):
    """The training runs of a pool, cheap and dear ones mixed."""
    runs = network_runs(seed, epochs)
    classical = ["logistic", "extra_trees", "knn_5", "gradient_boosting", "nystroem"]
    if pool == "vision_longtail":
        names = ("cnn_a", "cnn_b", "cnn_c", "resnet", "regnet", "efficientnet", "convnext", "vit", "swin", "mixer")
        runs = {name: runs[name] for name in names}
        for name, build in (("cnn_balanced", networks.cnn), ("resnet_balanced", vision_networks.resnet)):
            runs[name] = Run([name], name.split("_")[0],
                             partial(VisionNetwork, build, seed + 3000, epochs, balanced=True))
        classical = ["logistic", "extra_trees", "gradient_boosting"]
    models = {member.name: member for member in image_members(784, seed)}
    return [*runs.values(), *(Run([name], models[name].family, models[name].make) for name in classical)]


def distinct_fashion():
    """(images [N, 784] in [0, 1], labels, row numbers) of the package, without images that repeat an earlier one."""
    images, labels = load_fashion()
    seen, rows = set(), []
    for row, image in enumerate(images):
        data = image.tobytes()
        if data not in seen:
            seen.add(data)
            rows.append(row)
    rows = np.array(rows)
    return images[rows].astype(np.float32) / 255, labels[rows], rows


def derived_splits(x, y, ids, seed, shifted=SHIFTED_ROWS, corrupted=CORRUPTED_ROWS):
    """Splits made from the test images: corrupted, rotated, scaled, translated, no image in two of them. An id is that of
    the clean image."""
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    starts = np.cumsum([0, shifted, shifted, shifted, corrupted])
    parts = [np.sort(order[a:b]) for a, b in zip(starts, starts[1:])]
    splits, scored = {}, {}
    shifts = (vision_corruptions.rotated, vision_corruptions.scaled, vision_corruptions.translated)
    for shift, rows in zip(shifts, parts):
        name = shift.__name__
        splits[name] = common.Split(y[rows], ids[rows])
        scored[name] = shift(x[rows].reshape(-1, 28, 28), seed).reshape(-1, 784).astype(np.float32)
    rows = parts[-1]
    splits["corrupted"] = common.Split(y[rows], ids[rows], conditions=vision_corruptions.CONDITIONS)
    scored["corrupted"] = vision_corruptions.corrupted(x[rows].reshape(-1, 28, 28), seed).reshape(-1, 784)
    return splits, scored


def outside_splits(seed):
    """Images of no class: MNIST digits, and uniform noise."""
    rng = np.random.default_rng([seed, 2])
    images, _ = load_mnist()
    rows = np.sort(rng.choice(len(images), MNIST_ROWS, replace=False))
    splits = {"mnist": common.Split(None, ID_OFFSET + rows),
              "noise": common.Split(None, 2 * ID_OFFSET + np.arange(NOISE_ROWS))}
    noise = rng.random((NOISE_ROWS, 784), dtype=np.float32)
    return splits, {"mnist": images[rows].astype(np.float32) / 255, "noise": noise}


def longtail_counts(largest, labels):
    """Training and oof images of each class: largest * 100^(-class / 9), and in the same proportions LONGTAIL_OOF_ROWS."""
    classes = len(FASHION_CLASSES)
    train = np.rint(largest * float(IMBALANCE) ** (-np.arange(classes) / (classes - 1))).astype(np.int64)
    oof = np.rint(train * LONGTAIL_OOF_ROWS / train.sum()).astype(np.int64)
    if (train + oof > np.bincount(labels)).any():
        raise SystemExit(f"--train-rows {largest}: a class has too few images for it")
    return train, oof


def load(pool, size, seed):
    """The rows of a pool. Both pools have the same test images; as many more are kept back and never looked at."""
    x, y, ids = distinct_fashion()
    rest, held = common.split_rows(y, TEST_ROWS + TEST_KEPT_BACK, seed)
    _, test = (held[part] for part in common.split_rows(y[held], TEST_ROWS, seed))
    if pool == "vision_longtail":
        shuffled = np.random.default_rng([seed, 3]).permutation(rest)
        parts = [np.split(shuffled[y[shuffled] == c], [n, n + m])[:2]
                 for c, (n, m) in enumerate(zip(*longtail_counts(size, y[rest])))]
        train, oof = (np.sort(np.concatenate(rows)) for rows in zip(*parts))
    else:
        train, oof = (rest[part] for part in common.split_rows(y[rest], OOF_ROWS, seed, size))
    data = Data(x[train], y[train], {s: common.Split(y[r], ids[r]) for s, r in (("oof", oof), ("test", test))},
                {"oof": x[oof], "test": x[test]})
    if pool == "vision":
        for splits, scored in (derived_splits(x[test], y[test], ids[test], seed), outside_splits(seed)):
            data.splits.update(splits)
            data.scored.update(scored)
    return data


def predict(model, data):
    """Predictions by split: float32 [rows, classes]; under conditions float16 [conditions, rows, classes]."""
    predictions = {}
    for name, split in data.splits.items():
        p = common.probabilities(model, data.scored[name])
        if split.conditions:
            p = p.reshape(len(split.conditions), len(split.ids), -1).astype(np.float16)
        predictions[name] = p
    return predictions


def finished(folder, name, settings):
    """What describes a member that is done, or None. Refuses one made with other settings."""
    path = folder / f"{name}.member.json"
    if not path.exists():
        return None
    facts = json.loads(path.read_text())
    if facts["settings"] != settings:
        raise SystemExit(f"{path}: made with {facts['settings']}, not {settings}; give another --out or remove it")
    return facts


def train(run, data, folder, settings):
    """Fits a run and writes the predictions of its members, each with a NAME.member.json, which comes last. The seconds of
    a run are shared out evenly."""
    start = time.perf_counter()
    model = run.make().fit(data.x, data.y)
    fitted = time.perf_counter() - start
    for number, name in enumerate(run.names):
        if len(run.names) > 1:
            model.net = model.snapshots[number]
        start = time.perf_counter()
        for split, p in predict(model, data).items():
            common.save(folder / f"{name}.{split}.npy", p)
        flops, params = common.cost(model, data.x.shape[1])
        facts = {"flops": float(flops), "params": int(params), "train_seconds": round(fitted / len(run.names), 1),
                 "predict_seconds": round(time.perf_counter() - start, 1), "settings": settings}
        partial_file = folder / f"{name}.member.json.partial"
        partial_file.write_text(json.dumps(facts) + "\n")
        os.replace(partial_file, folder / f"{name}.member.json")
        print(f"{name:18s} {facts['train_seconds']:7.1f} s to train, {facts['predict_seconds']:6.1f} s to predict",
              flush=True)


def trained(folder, name, run, splits, facts):
    predictions = {split: np.load(folder / f"{name}.{split}.npy") for split in splits}
    return common.Trained(name, run.family, predictions, facts["flops"], facts["params"], run.ensemble)


def parse():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("pool", choices=sorted(SIZES), help="vision_longtail: trained on long-tailed classes")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="sizes for one CPU core (the default without a GPU)")
    size.add_argument("--full", action="store_true", help="sizes for a GPU (the default with one)")
    parser.add_argument("--train-rows", type=int, help="training images; vision_longtail: those of the largest class")
    parser.add_argument("--epochs", type=int, help="epochs of the networks")
    options = parser.parse_args()
    full = options.full or (not options.quick and torch.cuda.is_available())
    rows, epochs = SIZES[options.pool]["full" if full else "quick"]
    return options, options.train_rows or rows, options.epochs or epochs


def main():
    options, rows, epochs = parse()
    torch.set_num_threads(options.threads)
    folder = options.out or common.default_folder(options.pool)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"pool": options.pool, "train_rows": rows, "epochs": epochs, "seed": options.seed}
    runs = runs_of(options.pool, options.seed, epochs)
    for run in runs:  # before anything is written
        for name in run.names:
            finished(folder, name, settings)
    data = load(options.pool, rows, options.seed)
    counts = np.bincount(data.y, minlength=len(FASHION_CLASSES))
    common.save(folder / "training_counts.npy", counts)
    print(f"{len(data.y)} training images ({', '.join(map(str, counts))}), {epochs} epochs, {networks.DEVICE}", flush=True)
    with threadpool_limits(options.threads):
        for run in runs:
            if not all(finished(folder, name, settings) for name in run.names):
                train(run, data, folder, settings)
    pool = common.Pool(FASHION_CLASSES, data.splits)
    pool.training_counts = counts
    for run in runs:
        for name in run.names:
            pool.members.append(trained(folder, name, run, data.splits, finished(folder, name, settings)))
    common.finish(folder, pool)


if __name__ == "__main__":
    main()
