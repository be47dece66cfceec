"""The images of the experiment: Fashion-MNIST, its shifted and corrupted versions, and MNIST digits as what is none of them.

Stands before corestack: train.py writes the splits once, as plain npy files, and every evaluation maps what it needs of
them. Paper: the data sets of the experiments, at the size of a laptop.
"""
import json
from dataclasses import dataclass

import numpy as np

import network  # noqa: F401  first: puts experiments/pools on the path
import common
import vision


@dataclass
class Sizes:
    """Rows of the splits; `shifted` of each domain shift, `corrupted` under each of 75 conditions."""
    train: int = 12000
    oof: int = 5000
    test: int = 5000
    shifted: int = 1000
    corrupted: int = 200
    outside: int = 1500


QUICK = Sizes(train=600, oof=300, test=300, shifted=60, corrupted=10, outside=60)


def make(seed, sizes):
    """Splits of this experiment's own. They are drawn from the images that `vision` trains on or leaves alone: its test
    images, and those that it keeps back for later, are in none of them. Training rows come in a random order."""
    x, y, ids = vision.distinct_fashion()
    rest, _ = common.split_rows(y, vision.TEST_ROWS + vision.TEST_KEPT_BACK, 0)
    rest, test = (rest[part] for part in common.split_rows(y[rest], sizes.test, seed + 1))
    train, oof = (rest[part] for part in common.split_rows(y[rest], sizes.oof, seed + 2, sizes.train))
    train = np.random.default_rng([seed, 4]).permutation(train)
    data = vision.Data(x[train], y[train], {s: common.Split(y[r], ids[r]) for s, r in (("oof", oof), ("test", test))},
                       {"oof": x[oof], "test": x[test]})
    derived = vision.derived_splits(x[test], y[test], ids[test], seed, sizes.shifted, sizes.corrupted)
    outside, images = vision.outside_splits(seed)
    for name, split in outside.items():
        outside[name] = common.Split(None, split.ids[:sizes.outside])
        images[name] = images[name][:sizes.outside]
    for splits, scored in (derived, (outside, images)):
        data.splits.update(splits)
        data.scored.update(scored)
    return data


def write(folder, data):
    """The splits as npy files below a folder, images.json last."""
    folder.mkdir(parents=True, exist_ok=True)
    common.save(folder / "train.images.npy", data.x)
    common.save(folder / "train.labels.npy", data.y)
    for name, split in data.splits.items():
        common.save(folder / f"{name}.images.npy", data.scored[name].astype(np.float32))
        common.save(folder / f"{name}.ids.npy", split.ids)
        if split.labels is not None:
            common.save(folder / f"{name}.labels.npy", split.labels)
    facts = {"mean": float(data.x.mean()), "deviation": float(data.x.std()),
             "splits": {name: split.conditions for name, split in data.splits.items()}}
    (folder / "images.json").write_text(json.dumps(facts) + "\n")


def read(folder):
    """What write has left, as vision.Data whose images are mapped."""
    splits, scored = {}, {}
    for name, conditions in json.loads((folder / "images.json").read_text())["splits"].items():
        labels = folder / f"{name}.labels.npy"
        splits[name] = common.Split(np.load(labels) if labels.exists() else None, np.load(folder / f"{name}.ids.npy"),
                                    conditions=conditions)
        scored[name] = np.load(folder / f"{name}.images.npy", mmap_mode="r")
    return vision.Data(np.load(folder / "train.images.npy", mmap_mode="r"), np.load(folder / "train.labels.npy"), splits, scored)
