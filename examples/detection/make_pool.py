#!/usr/bin/env python3
"""Makes the pool in this folder: the best boxes of the members of the pool `bccd`, rounded.

Stands before corestack: its output is what `corestack fit examples/detection` reads. Paper: section "Dense Prediction".
Run it as `/usr/bin/python3 examples/detection/make_pool.py`, after experiments/pools/bccd.py.
"""
import argparse
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGES = {"oof": 40, "test": 30}
MEMBERS = ("center_a", "ssd", "fcos", "yolo")
BOXES, SCORE_FLOOR = 20, 0.05


def short(value, digits):
    """A number as JSON writes it shortest: 12 for 12.0."""
    value = round(value, digits)
    return int(value) if value == int(value) else value


def thinned_truth(document, count):
    """The first `count` images and their boxes, with the keys that COCO's evaluation reads."""
    images = document["images"][:count]
    kept = {image["id"] for image in images}
    boxes = [{"id": b["id"], "image_id": b["image_id"], "category_id": b["category_id"],
              "bbox": [short(v, 2) for v in b["bbox"]], "area": short(b["area"], 2), "iscrowd": b["iscrowd"]}
             for b in document["annotations"] if b["image_id"] in kept]
    return {"images": images, "annotations": boxes, "categories": document["categories"]}, kept


def thinned_results(results, kept):
    """The best boxes of each image that is kept, best first."""
    out = []
    for image in sorted(kept):
        own = sorted((r for r in results if r["image_id"] == image), key=lambda r: -r["score"])[:BOXES]
        out += [{"image_id": image, "category_id": r["category_id"], "bbox": [short(v, 1) for v in r["bbox"]],
                 "score": short(r["score"], 4)} for r in own if r["score"] >= SCORE_FLOOR]
    return out


def save(path, document):
    """One record a line, so that a difference can be read."""
    def lines(records):
        return "[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in records) + "\n]"
    if isinstance(document, dict):
        text = "{" + ",\n".join(f'"{key}":{lines(records)}' for key, records in document.items()) + "}"
    else:
        text = lines(document)
    path.write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pool", type=Path, default=HERE.parents[1] / "data" / "pools" / "bccd",
                        help="the full pool (default: data/pools/bccd)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write the pool into (default: this one)")
    options = parser.parse_args()
    manifest = json.loads((options.pool / "pool.json").read_text())
    manifest["models"] = [m for m in manifest["models"] if m["name"] in MEMBERS]
    for split, count in IMAGES.items():
        document = json.loads((options.pool / manifest["splits"][split]["annotations"]).read_text())
        truth, kept = thinned_truth(document, count)
        save(options.out / f"{split}.json", truth)
        for member in manifest["models"]:
            results = json.loads((options.pool / member["predictions"][split]).read_text())
            save(options.out / member["predictions"][split], thinned_results(results, kept))
    (options.out / "pool.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
