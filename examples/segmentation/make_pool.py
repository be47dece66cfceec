#!/usr/bin/env python3
"""Makes the pool in this folder: 16 + 16 frames of the pool `camvid` at a sixth of its resolution.

No network was trained on the frames of either split of `camvid`. They are put in a row, and of 32 evenly spread ones the
first, third, ... become `oof` and the others `test`, so that both hold all recordings.

Stands before corestack: its output is what `corestack fit examples/segmentation` reads. Paper: section "Dense
Prediction". Run it as `/usr/bin/python3 examples/segmentation/make_pool.py`, after experiments/pools/camvid.py.
"""
import argparse
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FACTOR, FRAMES, LEVELS = 6, 16, 128
MEMBERS = ("unet", "fast_scnn", "fpn", "enet")


def blocks(maps):
    """[N, H, W, ...] as [N, H / 6, W / 6, 36, ...]."""
    n, h, w = maps.shape[:3]
    cut = maps.reshape(n, h // FACTOR, FACTOR, w // FACTOR, FACTOR, *maps.shape[3:])
    return np.moveaxis(cut, 2, 3).reshape(n, h // FACTOR, w // FACTOR, FACTOR * FACTOR, *maps.shape[3:])


def shrunk_labels(labels, classes):
    """The label that most pixels of a block have; the smallest of those that tie."""
    votes = np.stack([(blocks(labels) == c).sum(-1) for c in range(classes + 1)], axis=-1)
    return votes.argmax(-1).astype(np.uint8)


def shrunk_maps(maps):
    """[N, C, H / 6, W / 6]: mean of each block, rounded to multiples of 1/128 that sum to 1 exactly; float16 holds them
    without loss, and with the classes first they pack well."""
    mean = blocks(maps.astype(np.float64)).mean(3)
    scaled = LEVELS * mean / mean.sum(-1, keepdims=True)
    whole = np.floor(scaled)
    short = np.rint(LEVELS - whole.sum(-1)).astype(int)[..., None]
    place = np.argsort(np.argsort(whole - scaled, axis=-1, kind="stable"), axis=-1)
    rounded = (whole + (place < short)) / LEVELS
    return np.ascontiguousarray(np.moveaxis(rounded, -1, 1), dtype=np.float16)


def chosen(folder, files):
    """The 2 * FRAMES evenly spread frames of the files' frames in a row."""
    arrays = [np.load(folder / file, mmap_mode="r") for file in files]
    frames = np.linspace(0, sum(map(len, arrays)) - 1, 2 * FRAMES).round().astype(int)
    picked = []
    for array in arrays:
        picked.append(array[frames[(frames >= 0) & (frames < len(array))]])
        frames = frames - len(array)
    return np.concatenate(picked)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=Path, default=HERE.parents[1] / "data" / "pools" / "camvid",
                        help="the full pool (default: data/pools/camvid)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write the pool into (default: this one)")
    options = parser.parse_args()
    manifest = json.loads((options.pool / "pool.json").read_text())
    manifest["models"] = [m for m in manifest["models"] if m["name"] in MEMBERS]
    manifest["layout"] = "channels-first"
    splits = ("oof", "test")
    labels = chosen(options.pool, [manifest["splits"][split]["labels"] for split in splits])
    for first, split in enumerate(splits):
        manifest["splits"][split]["labels"] = f"{split}_labels.npz"
        np.savez_compressed(options.out / f"{split}_labels.npz", shrunk_labels(labels[first::2], len(manifest["classes"])))
    for member in manifest["models"]:
        maps = chosen(options.pool, [member["predictions"][split] for split in splits])
        for first, split in enumerate(splits):
            member["predictions"][split] = f"{member['name']}.{split}.npz"
            np.savez_compressed(options.out / member["predictions"][split], shrunk_maps(maps[first::2]))
    (options.out / "pool.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
