#!/usr/bin/env python3
"""Simulates detection pools with known faults of the detectors, as COCO files; and compares methods on them.

`detectors.py FOLDER --kind bad` writes annotations, results and pool.json. `detectors.py --table` prints the table of docs/detection.md: AP on the
test split of every kind and of the real pools that are there, by build/corestack (--tool). Every true object has a
difficulty that all detectors share, every image some clutter that looks like objects. A detector finds an object with a
chance that falls with difficulty, moves its box, and gives a score that its own calibration bends.
"""
import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

WIDTH, HEIGHT = 640, 480
# Per detector: skill (higher finds more), sharpness of scores, error of edges (share of a side), bias of edges, power of
# the scores (1: as they come), share of the noise in common with the other detectors, false boxes an image.
PLAIN = dict(skill=0.6, sharp=1.4, error=0.05, shift=0.0, power=1.0, common=0.3, wrong=4.0)


def detector(**changes):
    return {**PLAIN, **changes}


KINDS = {
    # what the detectors of the pool have wrong
    "localisation": [detector(error=0.03), detector(error=0.07), detector(error=0.12), detector(error=0.04, shift=0.07),
                     detector(error=0.06, skill=1.0)],
    "calibration": [detector(power=1.0), detector(power=0.25), detector(power=3.0), detector(power=0.5, sharp=1.0),
                    detector(power=2.0, skill=0.9)],
    "bad": [detector(skill=0.8), detector(), detector(skill=0.5, error=0.06),
            detector(skill=-1.2, sharp=0.5, error=0.1, wrong=12.0, power=0.3), detector(skill=0.3)],
    "correlated": [detector(common=0.9), detector(common=0.9, skill=0.7), detector(common=0.9, skill=0.5),
                   detector(common=0.05, skill=0.3), detector(common=0.9, error=0.07)],
    "mixed": [detector(skill=0.9, error=0.04), detector(skill=0.7, power=0.4), detector(skill=0.5, power=2.5),
              detector(skill=-0.8, sharp=0.6, error=0.1, wrong=10.0), detector(skill=0.2, shift=0.04, common=0.8)],
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sample_truth(rng, images, classes):
    """Objects (image, class, box, difficulty) and clutter of the same form; classes are Zipf-distributed."""
    share = 1 / np.arange(1, classes + 1) ** 0.7
    share /= share.sum()
    lists = []
    for mean in (6, 4):
        image = np.repeat(np.arange(images), rng.poisson(mean, images))
        count = len(image)
        size = np.exp(rng.normal(np.log(70), 0.8, count)).clip(8, 400)
        aspect = np.exp(rng.normal(0, 0.35, count))
        w, h = np.minimum(size * aspect, WIDTH - 1), np.minimum(size / aspect, HEIGHT - 1)
        x, y = rng.random(count) * (WIDTH - w), rng.random(count) * (HEIGHT - h)
        lists.append(dict(image=image, label=rng.choice(classes, count, p=share), box=np.stack([x, y, w, h], 1),
                          hard=rng.normal(0, 1, count) + 0.4 * (size < 32)))
    return lists


def detect(rng, setting, truth, clutter, shared, images, classes):
    """Boxes [n, 4], images, classes and scores of one detector. shared: noise in common for objects and clutter."""
    out = []
    own_share = np.sqrt(1 - setting["common"])
    for objects, level, common in ((truth, setting["skill"], shared[0]), (clutter, setting["skill"] - 1.6, shared[1])):
        count = len(objects["image"])
        noise = np.sqrt(setting["common"]) * common["score"] + own_share * rng.normal(0, 1, count)
        logit = setting["sharp"] * (level - 1.1 * objects["hard"] + noise)
        found = logit > -2.2
        edges = np.sqrt(setting["common"]) * common["edge"] + own_share * rng.normal(0, 1, (count, 4))
        side = objects["box"][:, [2, 3, 2, 3]]
        corners = np.concatenate([objects["box"][:, :2], objects["box"][:, :2] + objects["box"][:, 2:]], 1)
        corners = corners + side * (setting["error"] * edges + setting["shift"])
        label = np.where(rng.random(count) < 0.06, rng.integers(0, classes, count), objects["label"])
        out.append((corners[found], objects["image"][found], label[found], logit[found]))
    count = rng.poisson(setting["wrong"] * images)
    size = np.exp(rng.normal(np.log(60), 0.8, count)).clip(8, 400)
    x, y = rng.random(count) * WIDTH, rng.random(count) * HEIGHT
    out.append((np.stack([x - size / 2, y - size / 2, x + size / 2, y + size / 2], 1), rng.integers(0, images, count),
                rng.integers(0, classes, count), setting["sharp"] * rng.normal(-1.6, 0.7, count)))
    corners, image, label, logit = (np.concatenate(part) for part in zip(*out))
    corners[:, [0, 2]] = corners[:, [0, 2]].clip(0, WIDTH)
    corners[:, [1, 3]] = corners[:, [1, 3]].clip(0, HEIGHT)
    good = (corners[:, 2] - corners[:, 0] > 2) & (corners[:, 3] - corners[:, 1] > 2)
    score = sigmoid(logit) ** setting["power"]
    return corners[good], image[good], label[good], score[good]


def write(path, document):
    path.write_text(json.dumps(document, separators=(",", ":")))


def make(folder, kind, images, classes, seed, boxes=None):
    """Writes the pool. boxes: false boxes are added up to so many an image (to measure speed); None: as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = KINDS[kind]
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    splits, models = {}, [{"name": f"d{k + 1}", "flops": 1e9 * (1 + k), "predictions": {}} for k in range(len(settings))]
    for split in ("oof", "test"):
        truth, clutter = sample_truth(rng, images, classes)
        write(folder / f"{split}.json", {
            "images": [{"id": i + 1, "width": WIDTH, "height": HEIGHT} for i in range(images)],
            "categories": [{"id": c + 1, "name": f"class {c + 1}"} for c in range(classes)],
            "annotations": [{"id": n + 1, "image_id": int(i) + 1, "category_id": int(c) + 1, "iscrowd": 0,
                             "bbox": [round(v, 2) for v in b.tolist()], "area": round(float(b[2] * b[3]), 2)}
                            for n, (i, c, b) in enumerate(zip(truth["image"], truth["label"], truth["box"]))]})
        splits[split] = {"annotations": f"{split}.json"}
        shared = [dict(score=rng.normal(0, 1, len(o["image"])), edge=rng.normal(0, 1, (len(o["image"]), 4)))
                  for o in (truth, clutter)]
        for model, setting in zip(models, settings):
            if boxes:
                setting = {**setting, "wrong": boxes - 8}
            corners, image, label, score = detect(rng, setting, truth, clutter, shared, images, classes)
            name = f"{model['name']}.{split}.json"
            write(folder / name, [
                {"image_id": int(i) + 1, "category_id": int(c) + 1,
                 "bbox": [round(b[0], 2), round(b[1], 2), round(b[2] - b[0], 2), round(b[3] - b[1], 2)],
                 "score": round(s, 5)}
                for i, c, b, s in zip(image.tolist(), label.tolist(), corners.tolist(), score.tolist())])
            model["predictions"][split] = name
    write(folder / "pool.json", {"corestack_pool": 1, "task": "detection", "splits": splits, "models": models})


ROOT = Path(__file__).resolve().parents[2]
METHODS = ("default", "compact", "paper", "wbf-tuned", "wbf", "soft-nms", "nms", "best-single")


def compared(tool, pool, methods, reference):
    output = subprocess.run([tool, "compare", pool, "--split", "test", "-m", ",".join(methods), "--reference", reference, "-r", "1000",
                             "--json"], check=True, capture_output=True, text=True).stdout
    return {row["method"]: row for row in json.loads(output)["rows"]}


def equal_weights(tool, pool, count):
    """AP on test of equal fusion of the `count` detectors with the highest AP on oof."""
    manifest = json.loads((pool / "pool.json").read_text())
    score = {}
    for model in manifest["models"]:
        output = subprocess.run([tool, "evaluate", pool / model["predictions"]["oof"], "--annotations",
                                 pool / manifest["splits"]["oof"]["annotations"], "--json"], check=True, capture_output=True, text=True).stdout
        score[model["name"]] = json.loads(output)["AP"]
    best = sorted(score, key=score.get)[-count:]
    with tempfile.TemporaryDirectory() as folder:
        manifest["models"] = [model for model in manifest["models"] if model["name"] in best]
        for part in (*manifest["splits"].values(), *(model["predictions"] for model in manifest["models"])):
            for name in part.values():
                shutil.copy(pool / name, folder)
        (Path(folder) / "pool.json").write_text(json.dumps(manifest))
        return compared(tool, folder, ["wbf"], "wbf")["wbf"]["AP"]


def table(tool):
    print("| pool | " + " | ".join(METHODS) + " | equal weights, as many as compact |\n|" + "---|" * (len(METHODS) + 2))
    with tempfile.TemporaryDirectory() as folder:
        pools = [Path(folder) / kind for kind in KINDS]
        for pool in pools:
            make(pool, pool.name, 1000, 20, 0)
        pools += [pool for pool in (ROOT / "examples" / "detection", ROOT / "data" / "pools" / "bccd") if pool.exists()]
        for pool in pools:
            rows = compared(tool, pool, METHODS, "default")
            cells = []
            for name in METHODS:
                cell = f"{100 * rows[name]['AP']:.2f}"
                if name != "default":
                    low, high = (-100 * x for x in reversed(rows[name]["difference"]["AP_ci"]))  # default less this method
                    cell += f" [{low:.2f}, {high:.2f}]"
                if name in ("default", "compact"):
                    cell += f" ({rows[name]['models']})"
                cells.append(cell)
            cells.append(f"{100 * equal_weights(tool, pool, rows['compact']['models']):.2f}")
            print(f"| {pool.name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--table", action="store_true", help="compare methods on every kind")
    parser.add_argument("--tool", default=ROOT / "build" / "corestack")
    parser.add_argument("--kind", choices=sorted(KINDS), default="mixed")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--boxes", type=int, help="false boxes up to about so many an image and detector")
    args = parser.parse_args()
    if args.table:
        return table(args.tool)
    if not args.folder:
        parser.error("a folder or --table is needed")
    make(args.folder, args.kind, args.images, args.classes, args.seed, args.boxes)


if __name__ == "__main__":
    main()
