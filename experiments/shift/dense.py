#!/usr/bin/python3
"""The guard of segmentations, and why detections have none: cases that fired, mIoU and NLL of guard, default and average.

    experiments/shift/dense.py [--pools DIR]... [--tool FILE] [--resamples N]

Uses the pools camvid, camvid_recordings and bccd (experiments/pools) as far as they are there, with every split that is not `oof`,
and examples/segmentation divided as CamVid's own splits are: the first drive to fit on, the others to test.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_DRIVE = 101  # of the 334 frames that no network was trained on, of which the example has 32


def tool(options, *words):
    done = subprocess.run([options.tool, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout) if "--json" in words else None


def drives(folder):
    """examples/segmentation with the frames of the first drive as `oof` and the others as `test`."""
    example = ROOT / "examples" / "segmentation"
    manifest = json.loads((example / "pool.json").read_text())
    fitted = np.linspace(0, 333, 32).round() < FIRST_DRIVE

    def divide(files, name):
        parts = [np.load(example / files[split])[np.load(example / files[split]).files[0]] for split in ("oof", "test")]
        frames = np.stack(parts, 1).reshape(-1, *parts[0].shape[1:])  # they go to both splits in turn
        for split, rows in (("oof", fitted), ("test", ~fitted)):
            np.save(folder / f"{name}.{split}.npy", frames[rows])
        return {split: f"{name}.{split}.npy" for split in ("oof", "test")}

    labels = divide({split: manifest["splits"][split]["labels"] for split in ("oof", "test")}, "labels")
    for split, file in labels.items():
        manifest["splits"][split]["labels"] = file
    for model in manifest["models"]:
        model["predictions"] = divide(model["predictions"], model["name"])
    (folder / "pool.json").write_text(json.dumps(manifest))
    return folder / "pool.json"


def predicted(options, pool, manifest, model, split, folder, mode):
    """(mIoU, NLL, cases that fired) of a model's label maps and maps."""
    masks = pathlib.Path(pool).parent / manifest["splits"][split]["labels"]
    about = ["--labels", masks, "--task", "segmentation", "--classes", len(manifest["classes"]), "--ignore", manifest.get("ignore", 255),
             "-r", 0, "--json"]
    words = ["predict", model, pool, "--split", split, "--guard", mode, "--json"]
    found = tool(options, *words, "--format", "labels", "-o", folder / "labels.npy")
    tool(options, *words, "--format", "maps", "-o", folder / "maps.npy")
    miou = tool(options, "evaluate", folder / "labels.npy", *about)["miou"]
    nll = tool(options, "evaluate", folder / "maps.npy", "--layout", "channels-last", *about)["nll"]
    return miou, nll, found.get("guard", {})


def segmentation(options, name, pool, folder):
    manifest = json.loads(pathlib.Path(pool).read_text())
    models = {key: folder / f"{key}.cstack" for key in ("default", "average")}
    tool(options, "fit", pool, "-o", models["default"], "--set", "evaluate.nested=false", "-q")
    tool(options, "fit", pool, "-o", models["average"], "--method", "average", "-q")
    for split in (s for s in manifest["splits"] if s != "oof"):
        cells = []
        for key, mode in (("default", "auto"), ("default", "off"), ("average", "off")):
            miou, nll, found = predicted(options, pool, manifest, models[key], split, folder, mode)
            fired = f"{found['fired']} of {found['tested']}" if found else fired
            cells.append(f"{100 * miou:.1f}, {nll:.3f}")
        print(f"| {name}, {split} | {fired} | {' | '.join(cells)} |", flush=True)


def detection(options, name, pool):
    manifest = json.loads(pathlib.Path(pool).read_text())
    for split in (s for s in manifest["splits"] if s != "oof"):
        report = tool(options, "compare", pool, "--split", split, "--methods", "average,wbf,default", "-r", options.resamples, "--json")
        score = {row["method"]: 100 * row["AP"] for row in report["rows"]}
        print(f"| {name}, {split} | {score['average']:.2f} | {score['wbf']:.2f} | {score['default']:.2f} | "
              f"{score['default'] - score['average']:+.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=pathlib.Path, action="append", default=[], help="folders of pools (data/pools)")
    parser.add_argument("--tool", default=ROOT / "build-gcc" / "corestack")
    parser.add_argument("--resamples", type=int, default=0)
    options = parser.parse_args()
    there = {path.parent.name: path for folder in [ROOT / "data" / "pools", *options.pools] for path in sorted(folder.glob("*/pool.json"))}
    print("| pool, split | cases that fired | guarded: mIoU %, NLL | default | average |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        segmentation(options, "examples/segmentation by drives", drives(folder), folder)
        segmentation(options, "examples/segmentation", ROOT / "examples" / "segmentation" / "pool.json", folder)
        for name in (n for n in there if n.startswith("camvid")):
            segmentation(options, name, there[name], folder)
    print("\n| pool, split | average: AP | wbf | default | difference |\n|---|---|---|---|---|")
    for name in (n for n in there if n.startswith("bccd")):
        detection(options, name, there[name])


if __name__ == "__main__":
    main()
