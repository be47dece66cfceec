"""experiments/paper.sh on small folders of all benchmarks, with members that are not trained. `make check` runs it."""
from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import dense_data
import numpy as np
from common import ROOT, TOOL, needs_tool

HAVE = all(importlib.util.find_spec(package) for package in ("torch", "torchvision", "PIL", "matplotlib"))
MODELS = ["--models", "a=shufflenet_v2_x0_5 b=shufflenet_v2_x0_5 squeezenet1_1", "--segmenters",
          "a=lraspp_mobilenet_v3_large b=lraspp_mobilenet_v3_large --map-size 16 --classes 6"]  # fmt: skip
DETECTORS = ["fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large"]
QUICK = ["--weights", "none", "--splits", "2", "--methods", "best-single,average,ridge,paper", "--export",
         "--image-size 32 --batch-size 16 --passes 1 --threads 1 --quiet", "--tables", "--set checks=off"]  # fmt: skip
TABLES = ["imagenet/table", "imagenet-c/table", "ade20k/table", "coco/table", "inaturalist/table", "domainnet/table",
          "domainnet/without", "domainnet/real", "imagenet/ablation", "imagenet/ood", "imagenet/pool-size", "imagenet/threshold"]  # fmt: skip


def images(folder, classes=4, each=12, seed=0, change=0):
    """CLASS/IMAGE.png, whose colours depend on the class."""
    from PIL import Image

    draw = np.random.default_rng(seed)
    for c in range(classes):
        (folder / f"n{c}").mkdir(parents=True, exist_ok=True)
        for i in range(each):
            pixels = draw.integers(0, 120, (24, 24, 3)) + np.array([40 * c, 160 - 40 * c, 20 * (c % 3)]) - change
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"n{c}" / f"{i:03d}.png")


@unittest.skipUnless(HAVE, "torch, torchvision, Pillow and matplotlib are needed")
class Paper(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "out"

    def run_script(self, *arguments):
        return subprocess.run(["sh", ROOT / "experiments/paper.sh", self.folder / "data", "--out", self.out, *arguments],
                              capture_output=True, text=True, env={**os.environ, "CORESTACK_TOOL": TOOL})  # fmt: skip

    @needs_tool
    def test_whole(self):
        data = self.folder / "data"
        images(data / "imagenet/val")
        for number, kind in enumerate(("gaussian_noise", "fog")):
            for severity in range(1, 6):
                images(data / "imagenet-c" / kind / str(severity), change=8 * severity + number)
        images(data / "imagenet-o", each=3, seed=1)
        images(data / "inaturalist/val")
        images(data / "inaturalist/train", each=2)
        for number, domain in enumerate(("real", "clipart", "painting", "sketch")):
            images(data / "domainnet" / domain, seed=number, change=10 * number)
        (data / "domainnet/classes.txt").write_text("n0\nn1\nn2\n")  # without n3
        dense_data.ade20k(data / "ade20k", 12)
        dense_data.coco(data / "coco", 20)
        finder = dense_data.finder(self.folder)
        arguments = [*MODELS, "--detectors", f"{' '.join(DETECTORS)} {finder}:sharp", *QUICK]
        done = self.run_script(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Not there", done.stderr)
        for name in TABLES:
            report = json.loads((self.out / f"{name}.json").read_text())
            self.assertGreater(len(report["rows"]), 1, name)
            self.assertIn("\\toprule", (self.out / f"{name}.tex").read_text())
            self.assertGreater(len((self.out / f"{name}.csv").read_text().splitlines()), 2)
        self.assertIn("paper", (self.out / "imagenet/deployment.txt").read_text())
        for figure in ("kappa", "pareto", "tau", "pool-size", "ablation"):
            for end, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
                self.assertTrue((self.out / "figures" / (figure + end)).read_bytes().startswith(head), figure)
        for name in DETECTORS:  # the scores of networks that are not trained are near 1 / 4
            boxes = json.loads((self.out / f"pools/coco/{name}.oof.json").read_text())
            self.assertEqual(len({box["image_id"] for box in boxes}), 16, name)
        # Again: nothing is computed, and a table that is gone is written again.
        before = {p: p.stat().st_mtime_ns for p in self.out.rglob("*.json") if ".export" not in p.parts}
        gone = self.out / "coco/table.json"
        content = json.loads(gone.read_text())
        gone.unlink()
        for folder in data.iterdir():
            if folder.name != "coco":
                shutil.rmtree(folder)
        done = self.run_script(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ade20k: table Dense prediction", done.stderr)
        after = {p: p.stat().st_mtime_ns for p in before}
        self.assertEqual([p for p in before if before[p] != after[p]], [gone])
        self.assertEqual(len(json.loads(gone.read_text())["rows"]), len(content["rows"]))

    @needs_tool
    def test_what_is_missing(self):
        (self.folder / "data/inaturalist/val").mkdir(parents=True)
        done = self.run_script()
        self.assertEqual(done.returncode, 2, done.stderr)
        for words in ("imagenet/val: tables", "ade20k: table", "coco: table", "domainnet: table",
                      "inaturalist: no package has weights trained on it", "nothing to do"):  # fmt: skip
            self.assertIn(words, done.stderr)
        for name in ("ade20k", "coco"):  # folders of weights without any
            (self.folder / "data" / name).mkdir()
            (self.folder / "weights" / name).mkdir(parents=True)
        done = self.run_script("--weights", self.folder / "weights")
        self.assertEqual(done.returncode, 2, done.stderr)
        for words in ("ade20k: no network of an installed package has weights for it", "with coco/NAME.pth", "not the paper's members: none"):
            self.assertIn(words, done.stderr)
        self.assertEqual(self.run_script("--models").returncode, 2)
        self.assertIn("DATA_ROOT has some of", self.run_script("--what", "else").stderr)


if __name__ == "__main__":
    unittest.main()
