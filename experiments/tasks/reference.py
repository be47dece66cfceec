#!/usr/bin/env python3
"""Prints simple baselines of regression, segmentation and detection pools, computed without corestack (NumPy alone).

A reference for the figures of corestack: best single member on OOF, plain average, and for each task one simple
mix fitted on OOF. Run it as `/usr/bin/python3 experiments/tasks/reference.py POOL...`. Paper: section "Dense Prediction".
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pools"))
import scores  # noqa: E402

MATCH = 0.55  # IoU from which boxes of different members count as one


def array(path):
    """The array of an .npy file (mapped) or the only one of an .npz file."""
    loaded = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None)
    return loaded if path.suffix == ".npy" else loaded[loaded.files[0]]


def row(name, oof, test, digits=4):
    print(f"  {name:34s} {oof:9.{digits}f} {test:9.{digits}f}")


def simplex_weights(predictions, target, steps=3000):
    """Weights >= 0 with sum 1 of the least squared error, by exponentiated gradient. predictions [K, n], target [n]."""
    gram = predictions @ predictions.T / len(target)
    linear = predictions @ target / len(target)
    weights = np.full(len(predictions), 1 / len(predictions))
    rate = 0.5 / np.abs(gram - linear[:, None]).max()
    for _ in range(steps):
        weights = weights * np.exp(-rate * (gram @ weights - linear))
        weights /= weights.sum()
    return weights


def regression(folder, manifest):
    """RMSE over rows and outputs."""
    y = {s: array(folder / manifest["splits"][s]["labels"]).astype(np.float64) for s in ("oof", "test")}
    p = {s: np.stack([array(folder / m["predictions"][s]).astype(np.float64) for m in manifest["models"]]) for s in y}
    names = [m["name"] for m in manifest["models"]]
    rmse = {s: np.array([scores.rmse(one, y[s]) for one in p[s]]) for s in y}
    best = int(rmse["oof"].argmin())
    centre, spread = y["oof"].mean(0), y["oof"].std(0)
    weights = simplex_weights(((p["oof"] - centre) / spread).reshape(len(names), -1), ((y["oof"] - centre) / spread).reshape(-1))
    row(f"best single ({names[best]})", rmse["oof"][best], rmse["test"][best])
    row("average", *(scores.rmse(p[s].mean(0), y[s]) for s in y))
    inverse = 1 / rmse["oof"] / (1 / rmse["oof"]).sum()
    row("weights 1/RMSE", *(scores.rmse(np.tensordot(inverse, p[s], 1), y[s]) for s in y))
    row("least squares on the simplex", *(scores.rmse(np.tensordot(weights, p[s], 1), y[s]) for s in y))
    return "RMSE"


def mixed(maps, weights):
    """Mixed class maps, image by image."""
    for images in zip(*maps):
        yield sum(w * np.asarray(image, dtype=np.float32) for w, image in zip(weights, images))


def segmentation(folder, manifest):
    """Mean IoU, every image at its full size."""
    names, splits, ignore = [m["name"] for m in manifest["models"]], ("oof", "test"), manifest.get("ignore", 255)
    y = {s: array(folder / manifest["splits"][s]["labels"]) for s in splits}
    p = {s: [array(folder / m["predictions"][s]) for m in manifest["models"]] for s in splits}
    if manifest["layout"] == "channels-first":
        p = {s: [np.moveaxis(maps, 1, -1) for maps in p[s]] for s in splits}
    single = {s: [scores.mean_iou(one, y[s], ignore) for one in p[s]] for s in splits}
    for name, *values in zip(names, *(single[s] for s in splits)):
        row(name, *values)
    best = int(np.argmax(single["oof"]))
    row(f"best single ({names[best]})", single["oof"][best], single["test"][best])
    row("average", *(scores.mean_iou(mixed(p[s], np.full(len(names), 1 / len(names))), y[s], ignore) for s in splits))
    return "mean IoU"


def fused(members, count):
    """Weighted boxes fusion of one image and class: (box, score) of each cluster. members: rows (score, x, y, w, h)."""
    clusters = []
    for detection in sorted(members, key=lambda d: -d[0]):
        overlap = scores.box_iou([detection[1:]], [c["box"] for c in clusters])[0] if clusters else np.zeros(0)
        if len(overlap) and overlap.max() > MATCH:
            cluster = clusters[int(overlap.argmax())]
        else:
            cluster = {"rows": []}
            clusters.append(cluster)
        cluster["rows"].append(detection)
        rows = np.array(cluster["rows"])
        corners = np.column_stack([rows[:, 1:3], rows[:, 1:3] + rows[:, 3:]])
        mean = rows[:, 0] @ corners / rows[:, 0].sum()
        cluster["box"] = [*mean[:2], *(mean[2:] - mean[:2])]
    return [(c["box"], np.mean([r[0] for r in c["rows"]]) * min(len(c["rows"]), count) / count) for c in clusters]


def weighted_boxes_fusion(all_results):
    """COCO results of all members' results."""
    groups = {}
    for results in all_results:
        for r in results:
            groups.setdefault((r["image_id"], r["category_id"]), []).append((r["score"], *r["bbox"]))
    return [{"image_id": image, "category_id": category, "bbox": box, "score": score}
            for (image, category), rows in groups.items() for box, score in fused(rows, len(all_results))]


def detection(folder, manifest):
    """Mean AP at IoU 0.5, at most 100 boxes of a class in an image."""
    names, splits = [m["name"] for m in manifest["models"]], ("oof", "test")
    truth = {s: json.loads((folder / manifest["splits"][s]["annotations"]).read_text()) for s in splits}
    p = {s: [json.loads((folder / m["predictions"][s]).read_text()) for m in manifest["models"]] for s in splits}
    single = {s: [scores.mean_ap50(truth[s], one) for one in p[s]] for s in splits}
    for name, *values in zip(names, *(single[s] for s in splits)):
        row(name, *values)
    best = int(np.argmax(single["oof"]))
    row(f"best single ({names[best]})", single["oof"][best], single["test"][best])
    row("weighted boxes fusion", *(scores.mean_ap50(truth[s], weighted_boxes_fusion(p[s])) for s in splits))
    return "AP50"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pools", nargs="+", type=Path, metavar="POOL", help="a folder with pool.json")
    for folder in parser.parse_args().pools:
        manifest = json.loads((folder / "pool.json").read_text())
        task = manifest["task"]
        print(f"{folder.name}: {task}, {len(manifest['models'])} members; oof, test")
        metric = {"regression": regression, "segmentation": segmentation, "detection": detection}[task](folder, manifest)
        print(f"  ({metric})")


if __name__ == "__main__":
    main()
