#!/usr/bin/python3
"""Packs pools, so that what was measured on them can be measured again without training.

    experiments/pools/pack.py POOL... [--out DIR]          # DIR/NAME.tar.gz of each, and DIR/SHA256SUMS (data/archives)
    experiments/pools/pack.py POOL --to DIR [--half] [--conditions KIND:SEVERITY,...]

A POOL is a folder with pool.json. The same pool gives the same archive, byte for byte. `--to` copies the pool to a folder
instead: --half stores predictions in float16, --conditions keeps these of a split with conditions.
"""
import argparse
import gzip
import hashlib
import json
import pathlib
import sys
import tarfile

import numpy as np

from common import ROOT, save


def files_of(manifest):
    """All files that a manifest names, relative to it."""
    names = set()
    for split in manifest["splits"].values():
        names.update(split[key] for key in ("labels", "ids", "folds", "weights", "targets", "group") if isinstance(split.get(key), str))
    for model in manifest["models"]:
        names.update(model["predictions"].values())
    return sorted(names)


def archive(folder, out):
    """Writes out/NAME.tar.gz and returns its SHA-256."""
    manifest = json.loads((folder / "pool.json").read_text())
    notes = [name for name in ("README.md", "SOURCE.txt") if (folder / name).exists()]
    path = out / f"{folder.name}.tar.gz"
    partial = path.with_name(path.name + ".partial")
    # No names, times or owners of this machine.
    with open(partial, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ["pool.json", *notes, *files_of(manifest)]:
            entry = tarfile.TarInfo(f"{folder.name}/{name}")
            entry.size, entry.mode = (folder / name).stat().st_size, 0o644
            with open(folder / name, "rb") as file:
                tar.addfile(entry, file)
    partial.replace(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def copy(folder, to, half, conditions):
    """A smaller copy of a pool."""
    manifest = json.loads((folder / "pool.json").read_text())
    to.mkdir(parents=True, exist_ok=True)
    kept = {}
    for name, split in manifest["splits"].items():
        if conditions and split.get("conditions"):
            wanted = [tuple(one.split(":")) for one in conditions.split(",")]
            found = [(c["kind"], str(c["severity"])) for c in split["conditions"]]
            kept[name] = [found.index(one) for one in wanted]
            split["conditions"] = [split["conditions"][i] for i in kept[name]]
    for model in manifest["models"]:
        for split, file in model["predictions"].items():
            values = np.load(folder / file)
            values = values[kept[split]] if split in kept else values
            save(to / file, values.astype(np.float16) if half else values)
    for file in set(files_of(manifest)) - {f for m in manifest["models"] for f in m["predictions"].values()}:
        save(to / file, np.load(folder / file))
    (to / "pool.json").write_text(json.dumps(manifest, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "data" / "archives")
    parser.add_argument("--to", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--conditions", default="", metavar="KIND:SEVERITY,...")
    options = parser.parse_args()
    if options.to:
        if len(options.pool) != 1:
            sys.exit("--to takes one pool")
        copy(options.pool[0].resolve(), options.to, options.half, options.conditions)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    sums = {}
    for folder in options.pool:
        folder = folder.resolve()
        sums[f"{folder.name}.tar.gz"] = archive(folder, options.out)
        print(f"{options.out / folder.name}.tar.gz", flush=True)
    (options.out / "SHA256SUMS").write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


if __name__ == "__main__":
    main()
