#!/usr/bin/env python3
"""Divides the held-out frames of the pool `camvid` anew, into the pool `camvid_recordings`: no network is trained.

CamVid's validation frames are one drive and its test frames others, and no network has seen either. Here the 334 frames
stand in a row, and blocks of ten go to `oof` and to `test` in turn, so that both splits hold every recording. A block is a
group: no fold divides it. Stands before corestack, after camvid.py. Paper: section "Dense Prediction".
"""
import argparse
import json
from pathlib import Path

import numpy as np

BLOCK = 10


def main():
    pools = Path(__file__).resolve().parents[2] / "data" / "pools"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=Path, default=pools / "camvid", help="the full pool (default: data/pools/camvid)")
    parser.add_argument("--out", type=Path, default=pools / "camvid_recordings", help="folder to write the pool into")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = json.loads((options.pool / "pool.json").read_text())

    def joined(files):
        return np.concatenate([np.load(options.pool / files[split], mmap_mode="r") for split in ("oof", "test")])

    labels = joined({split: manifest["splits"][split]["labels"] for split in ("oof", "test")})
    block = np.arange(len(labels)) // BLOCK
    rows = {"oof": block % 2 == 0, "test": block % 2 == 1}
    for split, chosen in rows.items():
        np.save(options.out / f"{split}_labels.npy", labels[chosen])
        manifest["splits"][split] = {"labels": f"{split}_labels.npy"}
    np.save(options.out / "oof_groups.npy", block[rows["oof"]])
    manifest["splits"]["oof"]["groups"] = "oof_groups.npy"
    for member in manifest["models"]:
        maps = joined(member["predictions"])
        for split, chosen in rows.items():
            member["predictions"][split] = f"{member['name']}.{split}.npy"
            np.save(options.out / member["predictions"][split], maps[chosen])
    (options.out / "pool.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
