"""Pools of maps and boxes from models: python -m corestack.pool ade20k and coco. Needs torch and torchvision; `make check`
runs it. Networks have no trained weights."""
from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from unittest import mock

import dense_data
import numpy as np
from common import needs_tool, run_tool

HAVE = all(importlib.util.find_spec(package) for package in ("torch", "torchvision", "PIL"))
SMALL = ["--image-size", "64", "--passes", "1", "--threads", "1", "--quiet"]
LRASPP = "lraspp_mobilenet_v3_large"


def command(*arguments):
    return [sys.executable, "-m", "corestack.pool", *map(str, arguments)]


def run(*arguments):
    """The exit code, and what is said. In this process, for torch takes long to import."""
    from corestack.pool._command import main

    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main([str(a) for a in arguments])
    return code, said.getvalue()


def export(*arguments):
    code, said = run(*arguments)
    if code:
        raise AssertionError(said)
    return said


def refused(*arguments):
    """The line that is printed, without its beginning."""
    code, said = run(*arguments)
    assert code == 2, (code, said)
    return [line for line in said.splitlines() if "error: " in line][-1].partition("error: ")[2]


def contents(folder):
    """Bytes of the files of a pool, without the timings and what the exporter keeps for itself."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith(".export"):
            found[name] = path.read_bytes()
    return found


@unittest.skipUnless(HAVE, "torch, torchvision and Pillow are needed")
class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_kept_pixels_are_those_of_the_large_map(self):
        import torch
        import torch.nn.functional as functional

        from corestack.pool import _maps

        torch.manual_seed(0)
        for h, w, rows, columns, size in ((97, 131, 24, 33, 16), (50, 60, 50, 60, 64), (7, 9, 20, 30, 16), (30, 40, 1, 1, 5)):
            logits = torch.randn(5, rows, columns)
            full = functional.interpolate(logits[None], size=(h, w), mode="bilinear", align_corners=False)[0].permute(1, 2, 0)
            at = [[min(n - 1, int((i + 0.5) * n / size)) for i in range(size)] for n in (h, w)]
            kept = _maps.kept_map(logits, h, w, size)
            np.testing.assert_allclose(kept, full[at[0]][:, at[1]], atol=1e-5)
            np.testing.assert_array_equal(_maps.kept_map(logits, h, w, 0), full)
            mask = np.arange(h * w).reshape(h, w)
            np.testing.assert_array_equal(_maps.kept_mask(mask, size), mask[at[0]][:, at[1]])

    def test_masks(self):
        from PIL import Image

        from corestack.pool import _maps

        root = dense_data.ade20k(self.folder / "ADEChallengeData2016", 3)
        self.assertEqual(_maps.root_of(self.folder), root)
        case = _maps.cases(root, "validation")[0]
        raw = np.asarray(Image.open(case.mask)).astype(int)
        np.testing.assert_array_equal(_maps.read_mask(case, 6), np.where(raw == 0, 255, raw - 1))
        wide = _maps.read_mask(case, 300)
        self.assertEqual((wide.dtype, int(wide.max())), (np.uint16, 65535))
        with self.assertRaisesRegex(ValueError, "but there are 4 classes"):
            _maps.read_mask(case, 4)
        Image.new("RGB", (4, 4)).save(case.mask)
        with self.assertRaisesRegex(ValueError, "a colour image"):
            _maps.read_mask(case, 6)
        case.mask.write_text("not an image")
        with self.assertRaisesRegex(ValueError, f"{case.name}.png: not a readable mask"):
            _maps.mask_size(case)
        case.mask.unlink()
        with self.assertRaisesRegex(ValueError, f"{case.name}.jpg: no mask"):
            _maps.cases(root, "validation")
        case.image.unlink()
        self.assertEqual(len(_maps.cases(root, "validation")), 2)
        with self.assertRaisesRegex(ValueError, r"no such folder \(there: validation\)"):
            _maps.cases(root, "test")
        (root / "objectInfo150.txt").write_text("Idx\tRatio\tName\n1\t0.5\twall\n2\t.2\tbuilding, edifice\n")
        self.assertEqual(_maps.class_names(root, 2), ["wall", "building, edifice"])
        with self.assertRaisesRegex(ValueError, "2 names for 150 classes"):
            _maps.class_names(root, 150)

    def test_labels_of_detectors(self):
        from corestack.pool import _boxes

        categories = ((1, "person"), (3, "car"), (18, "dog"))
        self.assertEqual(_boxes.category_of(4, None, categories, "m"), {1: 1, 2: 3, 3: 18})
        by_id = _boxes.category_of(91, None, categories, "m")
        self.assertEqual({k: v for k, v in by_id.items() if v}, {1: 1, 3: 3, 18: 18})
        self.assertIsNone(by_id[2])
        named = _boxes.category_of(91, ["__background__", "dog", "N/A", "person"], categories, "m")
        self.assertEqual(named, {0: None, 1: 18, 2: None, 3: 1})
        with self.assertRaisesRegex(ValueError, "m: 21 labels"):
            _boxes.category_of(21, None, categories, "m")
        with self.assertRaisesRegex(ValueError, "none of its categories"):
            _boxes.category_of(3, ["background", "zebra", "cow"], categories, "m")

    def test_boxes_in_coco_form(self):
        import torch

        from corestack.pool import _boxes, detection

        image = {"id": 7, "width": 40, "height": 30}
        output = {"boxes": torch.tensor([[-3.0, 4.0, 10.006, 50.0], [1, 1, 2, 2], [5, 5, 5, 9], [0, 0, 9, 9], [2, 2, 8, 8]]),
                  "scores": torch.tensor([0.5, 0.04, 0.9, 0.7, 0.6]), "labels": torch.tensor([1, 1, 1, 2, 3])}  # fmt: skip
        found = _boxes.results_of(image, output, {1: 10, 2: 20, 3: None}, 0.05, 100)
        self.assertEqual(found, [{"image_id": 7, "category_id": 20, "bbox": [0, 0, 9, 9], "score": 0.7},
                                 {"image_id": 7, "category_id": 10, "bbox": [0, 4, 10.01, 26], "score": 0.5}])  # fmt: skip
        self.assertEqual(len(_boxes.results_of(image, output, {1: 10, 2: 20, 3: None}, 0.05, 1)), 1)
        with self.assertRaisesRegex(ValueError, "label 3, and the annotation file has 2"):
            _boxes.results_of(image, output, {1: 10, 2: 20}, 0.05, 100)
        for wrong in (None, [], [torch.zeros(3)], [{"boxes": 1}]):
            with self.assertRaisesRegex(ValueError, "does not give a list with a dict of boxes, labels and scores"):
                detection.Detection(((1, "a"),)).rows((wrong, {}), [(None, image)], None)
        lines = _boxes.lines_of([found, [], found[:1]])
        self.assertEqual(json.loads("".join(_boxes.joined(lines))), found + found[:1])
        self.assertEqual(json.loads("".join(_boxes.joined(["[]\n"]))), [])

    def test_sinks_go_on_after_the_last_unharmed_batch(self):
        from corestack.pool import detection, segmentation

        rows = [np.full((2, 2, 3), i, np.float16) for i in range(6)]
        boxes = [[{"image_id": i, "score": 0.5}] * (i % 3) for i in range(6)]
        names = [f"c{i}" for i in range(6)]
        makers = {
            "grid": lambda part, end: segmentation.MapSink(part, end, (6, 2, 2, 3), "float16"),
            "folder": lambda part, end: segmentation.FolderSink(part, end, names, "float16"),
            "boxes": lambda part, end: detection.BoxSink(part, end),
        }
        for name, make in makers.items():
            content = boxes if name == "boxes" else rows
            results = []
            for harm in (None, "half a batch", "last batch"):
                place = self.folder / f"{name} {harm}"
                part, end = place / "part", place / "end"
                sink, states = make(part, end), []
                self.assertEqual(sink.resume([]), 0)
                for start in (0, 2):
                    states.append(sink.write(start, content[start : start + 2]))
                if harm == "half a batch":
                    sink.write(4, content[5:6] * 2)  # on disk, not in the journal
                sink.close()
                if harm == "last batch":
                    path = part / "c2.npy" if name == "folder" else part
                    data = bytearray(path.read_bytes())
                    at = {"grid": -60, "folder": -3, "boxes": -4}[name]  # in the second of three batches
                    data[at] ^= 1
                    path.write_bytes(data)
                sink = make(part, end)
                good = sink.resume(states)
                self.assertEqual(good, 1 if harm == "last batch" else 2, (name, harm))
                for start in range(2 * good, 6, 2):
                    sink.write(start, content[start : start + 2])
                sink.finish()
                self.assertFalse(part.exists())
                results.append(contents(place))
            self.assertEqual(results[0], results[1], name)
            self.assertEqual(results[0], results[2], name)

    def test_outputs_of_networks(self):
        import torch

        from corestack.pool import segmentation

        logits = torch.zeros(1, 2, 3, 4)
        for outputs in (logits, {"out": logits}, {"logits": logits}, types.SimpleNamespace(logits=logits), (logits, 1)):
            self.assertIs(segmentation.logits_of(outputs), logits)
        with self.assertRaisesRegex(ValueError, "not logits"):
            segmentation.logits_of({"features": logits})

    def test_transformers(self):
        """The package is not in Debian; what is asked of it is."""
        import torch

        from corestack.pool import _dense
        from corestack.pool._task import Member, Options

        asked = {}

        class UperNet(torch.nn.Conv2d):
            config = types.SimpleNamespace(num_labels=6)

            @classmethod
            def from_pretrained(cls, name, **keywords):
                asked.update(keywords, name=name)
                return cls(3, 6, 1)

        member = Member("upernet_swin_t", "transformers:openmmlab/upernet-swin-tiny", "default")
        with self.assertRaisesRegex(ValueError, "transformers is not installed"):
            with mock.patch.dict(sys.modules, {"transformers": None}):
                _dense.network(member, Options(), "segmentation", (6,))
        with mock.patch.dict(sys.modules, {"transformers": types.SimpleNamespace(UperNetForSemanticSegmentation=UperNet)}):
            found = _dense.network(member, Options(), "segmentation", (6,))
            self.assertEqual(asked, {"name": "openmmlab/upernet-swin-tiny", "local_files_only": True})
            self.assertEqual(found.family, "upernet")
            with self.assertRaisesRegex(ValueError, "has 6 classes, the data have 150"):
                _dense.network(member, Options(), "segmentation", (150,))

    def test_members_of_the_paper(self):
        import torchvision

        from corestack.pool import backbones

        self.assertEqual([len(members) for members in backbones.LISTS.values()], [14, 8, 7])
        for members in backbones.LISTS.values():
            self.assertEqual(len({m.name for m in members}), len(members))
            for member in members:
                if member.torchvision:
                    weights = torchvision.models.get_model_weights(member.torchvision)
                    self.assertTrue(len(weights), member)
        with mock.patch.object(backbones, "installed", lambda package: package == "torchvision"):
            found, absent = backbones.chosen(backbones.CLASSIFIERS)
            self.assertEqual([m.title for m in absent], ["RegNet-Y-040", "DeiT-S"])
            self.assertEqual(len(found), 12)
            line = backbones.missing_line(backbones.CLASSIFIERS, absent)
            self.assertEqual(line, "12 of the paper's 14 members: RegNet-Y-040, DeiT-S need timm (not installed)")
        with mock.patch.object(backbones, "installed", lambda package: True):
            found, absent = backbones.chosen(backbones.CLASSIFIERS)
            self.assertEqual({m.name: s for m, s in found}["deit_s"], "timm:deit_small_patch16_224")
            self.assertEqual([len(backbones.chosen(m)[1]) for m in backbones.LISTS.values()], [0, 2, 6])


@unittest.skipUnless(HAVE, "torch, torchvision and Pillow are needed")
class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.ade = dense_data.ade20k(cls.folder / "ade20k", 15)
        cls.coco = dense_data.coco(cls.folder / "coco", 20)
        cls.finder = dense_data.finder(cls.folder)

    @needs_tool
    def test_segmentation(self):
        import torch
        import torch.nn.functional as functional
        import torchvision
        from PIL import Image
        from torchvision.transforms.functional import normalize, resize, to_tensor

        weights, pool = self.folder / "weights", self.folder / "maps"
        weights.mkdir()
        torch.manual_seed(3)
        network = torchvision.models.get_model(LRASPP, weights=None, weights_backbone=None, num_classes=6).eval()
        torch.save({"state_dict": network.state_dict()}, weights / "a.pth")
        export("ade20k", pool, "--data", self.ade, "--classes", 6, "--map-size", 16, "--models", f"a={LRASPP}@{weights / 'a.pth'}",
               f"b={LRASPP}", "--weights", "none", *SMALL)  # fmt: skip
        manifest = json.loads((pool / "pool.json").read_text())
        self.assertEqual([m["name"] for m in manifest["models"]], ["a", "b"])
        self.assertEqual(manifest["models"][0]["params"], sum(p.numel() for p in network.parameters()))
        for key in ("flops", "latency_ms", "memory_bytes"):
            self.assertGreater(manifest["models"][0][key], 0)
        # The same from torch alone: the network at the resized image, its map at the mask's size, 16 x 16 pixels of that.
        ids = [i.decode() for i in np.load(pool / "test_ids.npy")]
        self.assertEqual(len(ids), 3)
        maps, labels = np.load(pool / "a.test.npy"), np.load(pool / "test_labels.npy")
        self.assertEqual((maps.shape, maps.dtype), ((3, 16, 16, 6), np.float16))
        for case, kept, label in zip(ids, maps, labels):
            image = Image.open(self.ade / "images/validation" / f"{case}.jpg")
            mask = np.asarray(Image.open(self.ade / "annotations/validation" / f"{case}.png")).astype(int)
            scale = 64 / min(image.size)
            small = resize(image, [round(image.height * scale), round(image.width * scale)])
            with torch.no_grad():
                out = network(normalize(to_tensor(small), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))[None])["out"]
            out = functional.interpolate(out, size=mask.shape, mode="bilinear", align_corners=False)[0].numpy()
            rows, columns = ([int((i + 0.5) * n / 16) for i in range(16)] for n in mask.shape)
            np.testing.assert_allclose(kept, out[:, rows][:, :, columns].transpose(1, 2, 0), atol=2e-3)
            picked = mask[rows][:, columns]
            np.testing.assert_array_equal(label, np.where(picked == 0, 255, picked - 1))
        run_tool("fit", pool / "pool.json", "-o", self.folder / "maps.cstack", "-q", "--set", "checks=off")
        report = json.loads(run_tool("compare", pool / "pool.json", "--split", "test", "--methods", "best-single,average,paper",
                                     "-r", 50, "--json", "-q", "--set", "checks=off"))  # fmt: skip
        self.assertTrue(all(0 <= row["miou"] <= 1 for row in report["rows"]), report)
        self.assertIn("the pool has maps of --map-size 16", refused("ade20k", pool, "--data", self.ade, "--classes", 6, "--map-size", 8))

    @needs_tool
    def test_maps_at_the_size_of_the_masks(self):
        pool = self.folder / "large"
        export("ade20k", pool, "--data", self.ade, "--classes", 6, "--map-size", 0, "--models", f"a={LRASPP}", f"b={LRASPP}", "--weights",
               "none", "--split", "oof=validation", "--dtype", "float32", "--jobs", 2, *SMALL)  # fmt: skip
        shapes = {np.load(p).shape for p in (pool / "a.oof").glob("*.npy")}
        self.assertEqual(shapes, {(48, 64, 6), (64, 56, 6)})
        report = json.loads(run_tool("compare", pool / "pool.json", "--methods", "average", "-r", 0, "--json", "-q", "--set", "checks=off"))
        self.assertEqual(report["rows"][0]["method"], "average")

    @needs_tool
    def test_detection(self):
        pool = self.folder / "boxes"
        models = ["ssdlite320_mobilenet_v3_large", f"sharp={self.finder}:sharp", f"shifted={self.finder}:shifted"]
        export("coco", pool, "--data", self.coco, "--models", *models, "--weights", "none", "--lowest-score", 0, "--boxes", 30, *SMALL)
        manifest = json.loads((pool / "pool.json").read_text())
        truth = json.loads((pool / "oof.json").read_text())
        self.assertEqual(len(truth["images"]) + len(json.loads((pool / "test.json").read_text())["images"]), 20)
        known = {c["id"] for c in dense_data.CATEGORIES}
        for model in manifest["models"]:
            found = json.loads((pool / model["predictions"]["oof"]).read_text())
            self.assertGreater(len(found), 15, model["name"])
            self.assertTrue({b["category_id"] for b in found} <= known)
            self.assertTrue({b["image_id"] for b in found} <= {i["id"] for i in truth["images"]})
            self.assertTrue(all(len([b for b in found if b["image_id"] == i["id"]]) <= 30 for i in truth["images"]))
        # The finder names its labels in another order than the file has its categories: its boxes are right if these are matched.
        sharp = json.loads((pool / "sharp.oof.json").read_text())
        for box in truth["annotations"]:
            same = [b for b in sharp if b["image_id"] == box["image_id"] and b["category_id"] == box["category_id"]
                    and np.allclose(b["bbox"], box["bbox"] + np.array([0.4, 0, 0, 0]), atol=0.011)]  # fmt: skip
            self.assertEqual(len(same), 1, box)
        run_tool("fit", pool / "pool.json", "-o", self.folder / "boxes.cstack", "-q")
        report = json.loads(run_tool("compare", pool / "pool.json", "--split", "test", "--methods", "best-single,average,paper",
                                     "-r", 50, "--json", "-q"))  # fmt: skip
        scores = {row["method"]: row["AP"] for row in report["rows"]}
        self.assertGreater(scores["best-single"], 0.4)

    def test_killed_and_gone_on_with(self):
        whole, killed = self.folder / "whole", self.folder / "killed"
        arguments = ["--data", self.coco, "--models", f"slow={self.finder}:slow", "--weights", "none", "--batch-size", 2, "--no-timings",
                     "--threads", 1]  # fmt: skip
        export("coco", whole, *arguments)
        process = subprocess.Popen(command("coco", killed, *arguments), stderr=subprocess.DEVNULL)
        journal = killed / ".export" / "slow.oof.journal"
        end = time.monotonic() + 60
        while not (journal.exists() and len(journal.read_bytes().splitlines()) >= 3) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertFalse((killed / "pool.json").exists())
        said = export("coco", killed, *arguments)
        self.assertRegex(said, "slow oof: [0-9]+ of 16 rows are there already")
        self.assertEqual(contents(killed), contents(whole))

    def test_mistakes(self):
        pool = self.folder / "none"
        documents = {
            "no categories": {"images": [], "annotations": []},
            "of other sizes": {"images": [{"id": 1, "file_name": "000000000000.png", "width": 5, "height": 5}], "annotations": [],
                               "categories": dense_data.CATEGORIES},
            "gone": {"images": [{"id": 1, "file_name": "gone.png", "width": 5, "height": 5}], "annotations": [],
                     "categories": dense_data.CATEGORIES},
        }  # fmt: skip
        for name, document in documents.items():
            (self.folder / f"{name}.json").write_text(json.dumps(document))
        images = self.coco / "val2017"
        sharp = ["--models", f"{self.finder}:sharp", "--weights", "none", "--quiet"]
        for arguments, words in (
            (["coco", pool, "--data", self.folder, *sharp], "instances_val2017.json: no such file"),
            (["coco", pool, "--split", f"oof={self.folder}/no categories.json@{images}", *sharp], "no list categories"),
            (["coco", pool, "--split", f"oof={self.folder}/gone.json@{images}", *sharp], "gone.png: no such image"),
            (["coco", pool, "--split", f"oof={self.folder}/of other sizes.json@{images}", *sharp], "80 x 100 pixels, the annotation"),
            (["coco", pool, "--data", self.coco, "--models", "resnet50"], "torchvision has no model resnet50 for detection"),
            (["ade20k", pool, "--data", self.coco, "--models", LRASPP], "no folders images and annotations"),
            (["ade20k", pool, "--data", self.ade, "--models", LRASPP], "the weights COCO_WITH_VOC_LABELS_V1 have 21 classes"),
        ):
            self.assertIn(words, refused(*arguments), arguments)
            shutil.rmtree(pool, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
