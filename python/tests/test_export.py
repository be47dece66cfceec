"""python -m corestack.pool with PyTorch: pools of classification, segmentation and detection from tiny networks, runs that go on,
refusals, costs. Networks have no trained weights."""
from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
import warnings
from importlib.util import find_spec
from pathlib import Path

import dense_data
import numpy as np
from common import Folder, needs_tool, run_tool

import corestack

HAVE_TORCH = all(find_spec(package) for package in ("torch", "torchvision", "PIL"))
if HAVE_TORCH:
    import torch
    import torchvision
    from PIL import Image
    from torchvision.transforms.functional import normalize, resize, to_tensor

    from corestack.pool import _boxes, _command, _cost, _maps

needs_torch = unittest.skipUnless(HAVE_TORCH, "torch, torchvision and Pillow are not installed")
SMALL = ["--image-size", "32", "--batch-size", "4", "--threads", "1", "--passes", "1"]
STANDARD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODELS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, classes, scale=1.0):
        super().__init__()
        self.scale, self.last = scale, torch.nn.Linear(12, classes)
    def forward(self, x):
        return self.last(torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)) * self.scale

def net(classes):
    return Net(classes)
def wrong(classes):
    return Net(classes + 1)
def endless(classes):
    return Net(classes, 1e6)
def failing():
    raise ValueError("no such network")
def quits():
    raise SystemExit("no licence")
def other():
    return 7
def pair(classes):
    return Net(classes), None
def segment(classes):
    return torch.nn.Conv2d(3, classes, 4, 4)

class Data:
    targets = [i % 3 for i in range(9)]
    def __init__(self, **facts):
        for name, value in facts.items():
            setattr(self, name, value)
    def __len__(self):
        return 9
    def __getitem__(self, i):
        if i == getattr(self, "lost", None):
            raise KeyError("lost")
        return torch.full((3, 32 + (i == getattr(self, "large", None)), 32), i / 9), i % 3

def data(): return Data()
def numbers(): return Data(classes=3)
def same(): return Data(ids=list("abcdefgha"))
def lost(): return Data(lost=5)
def large(): return Data(large=5)
def empty(): return []
"""


def images(root, classes, per_class, seed, side=34):
    """Class folders of noise."""
    random = np.random.default_rng(seed)
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            pixels = random.integers(60 * c, 120 + 60 * c, (side + i % 3, side + 4, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i:03d}.png")


def export(*arguments):
    """(status, what was said)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = _command.main([str(a) for a in arguments])
    return status, said.getvalue()


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and ".export" not in p.parts}


class Export(Folder):
    def setUp(self):
        super().setUp()
        self.models = self.path / "models.py"
        self.models.write_text(MODELS)

    def classify(self, *arguments, models=("net",), source=None, pool="pool"):
        members = [m if "=" in m else f"{m}={self.models}:{m}" for m in models]
        return export("classify", self.path / pool, "--split", f"oof={source or self.path / 'val'}", "--models", *members, "--weights", "none",
                      "--no-timings", *SMALL, *arguments)  # fmt: skip

    def assertRefused(self, outcome, *words):
        status, said = outcome
        lines = [line for line in said.splitlines() if "error:" in line]
        self.assertEqual((status, len(lines)), (2, 1), said)
        for word in words:
            self.assertIn(word, lines[0])


@needs_torch
class Classified(unittest.TestCase):
    """One pool of ImageNet-1K, -C and -O, in small, and what corestack makes of it."""

    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.path = Path(held.name)
        cls.pool = cls.path / "pool"
        classes = ["n01", "n02", "n03"]
        images(cls.path / "val", classes, 10, 0)
        for kind in ("noise/gaussian_noise", "fog"):
            for severity in (1, 3):
                images(cls.path / "c" / kind / str(severity), classes, 10, severity)
        images(cls.path / "o", ["n99"], 3, 5)
        (cls.path / "models.py").write_text(MODELS)
        torch.manual_seed(5)
        cls.network = torchvision.models.squeezenet1_1(num_classes=3).eval()
        torch.save({"state_dict": {f"module.{k}": v for k, v in cls.network.state_dict().items()}}, cls.path / "r.pth")
        cls.command = ["imagenet", cls.pool, "--val", cls.path / "val", "--training-counts", cls.path / "val", "--weights", "none", "--models",
                       f"big=squeezenet1_1@{cls.path / 'r.pth'}", f"mine={cls.path / 'models.py'}:net", *SMALL]  # fmt: skip
        cls.outcomes = [
            export(*cls.command),
            export("imagenet-c", cls.pool, "--data", cls.path / "c", "--severities", "1", "3", *SMALL),
            export("imagenet-o", cls.pool, "--data", cls.path / "o", *SMALL),
        ]
        cls.manifest = json.loads((cls.pool / "pool.json").read_text()) if (cls.pool / "pool.json").exists() else None

    def array(self, name):
        return np.load(self.pool / name)

    def test_manifest(self):
        self.assertEqual([status for status, _ in self.outcomes], [0, 0, 0], self.outcomes)
        self.assertIn("4 of 38 conditions", self.outcomes[1][1])
        self.assertEqual(self.manifest["classes"], ["n01", "n02", "n03"])
        self.assertEqual((self.manifest["output"], self.manifest["training_counts"]), ("logit", [10, 10, 10]))
        self.assertEqual(list(self.manifest["splits"]), ["oof", "test", "corrupted", "imagenet-o"])
        self.assertEqual(self.manifest["splits"]["corrupted"]["clean"], "test")
        self.assertEqual(self.manifest["splits"]["corrupted"]["conditions"], [
            {"shift": "noise", "kind": "gaussian_noise", "severity": 1}, {"shift": "noise", "kind": "gaussian_noise", "severity": 3},
            {"shift": "weather", "kind": "fog", "severity": 1}, {"shift": "weather", "kind": "fog", "severity": 3}])  # fmt: skip
        self.assertEqual([m["name"] for m in self.manifest["models"]], ["big", "mine"])
        big, mine = self.manifest["models"]
        self.assertEqual((big["params"], big["family"]), (sum(p.numel() for p in self.network.parameters()), "squeezenet"))
        self.assertEqual((mine["flops"], mine["params"]), (12 * 3, 12 * 3 + 3))
        for member in self.manifest["models"]:
            self.assertGreater(member["latency_ms"], 0)
            self.assertGreater(member["memory_bytes"], 1e7)

    def test_rows(self):
        ids, labels, test = (self.array(f"{name}.npy").astype(str if name.endswith("ids") else int) for name in ("oof_ids", "oof_labels", "test_ids"))
        self.assertEqual((len(ids), len(test)), (24, 6))
        self.assertFalse(set(ids) & set(test))
        self.assertEqual(labels.tolist(), [int(i[2]) - 1 for i in ids])
        self.assertEqual(self.array("corrupted_ids.npy").astype(str).tolist(), test.tolist())
        self.assertEqual(self.array("imagenet-o_ids.npy").tolist(), [f"n99/{i:03d}.png".encode() for i in range(3)])

    def test_logits(self):
        def expected(paths):  # by torchvision's own pieces
            t = torchvision.transforms
            steps = t.Compose([t.Resize(37), t.CenterCrop(32), t.ToTensor(), t.Normalize(*STANDARD)])
            with torch.no_grad():
                return self.network(torch.stack([steps(Image.open(p)) for p in paths])).numpy()

        ids = self.array("oof_ids.npy").astype(str)
        np.testing.assert_allclose(self.array("big.oof.npy"), expected([self.path / "val" / i for i in ids]), rtol=0, atol=1e-5)
        corrupted, ids = self.array("big.corrupted.npy"), self.array("test_ids.npy").astype(str)
        self.assertEqual((corrupted.dtype, corrupted.shape), (np.float16, (4, 6, 3)))
        for number, folder in enumerate(("noise/gaussian_noise/1", "noise/gaussian_noise/3", "fog/1", "fog/3")):
            np.testing.assert_allclose(corrupted[number], expected([self.path / "c" / folder / i for i in ids]), rtol=1e-3, atol=1e-3)

    def test_the_same_command_again_changes_nothing(self):
        before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in self.pool.iterdir() if p.suffix in (".npy", ".json")}
        status, said = export(*self.command)
        self.assertEqual((status, said.count("rows")), (0, 0), said)
        self.assertEqual({p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in before}, before)

    def test_changed_settings_are_refused(self):
        before = contents(self.pool)
        torch.save(torchvision.models.squeezenet1_1(num_classes=3).state_dict(), self.path / "other.pth")
        base = ["imagenet", self.pool, "--val", self.path / "val", *SMALL]
        for arguments, words in (
            ([*base, "--dtype", "float16"], 'dtype was "float32" and is now "float16"'),
            ([*base, "--test-share", "0.5"], "rows was 24 and is now 15"),
            ([*base, "--seed", "1"], "seed was 0 and is now 1"),
            ([*base, "--models", f"big=squeezenet1_1@{self.path / 'other.pth'}"], "member big: weights was"),
            (["classify", self.pool, "--split", f"more={self.path / 'o'}", *SMALL], "class n99 is not one of the pool's 3"),
        ):
            status, said = export(*arguments)
            self.assertEqual((status, said.count("\n")), (2, 1), said)
            self.assertIn(words, said)
        self.assertEqual(contents(self.pool), before)

    @needs_tool
    def test_fit_and_evaluate(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about networks that nobody trained
            stack = corestack.fit(self.pool, evaluate_nested=False)
            self.assertEqual(set(stack.members), {"big", "mine"})
            stack.evaluate(self.pool, split="test", ood="imagenet-o")
            self.assertIn("average", json.dumps(corestack.compare(self.pool, split="corrupted", methods=["average"], evaluate_nested=False)))


@needs_torch
class Runs(Export):
    def test_a_run_goes_on_after_a_failure(self):
        """What is finished stays and is not computed again; the end has the same bytes as a run at once."""
        images(self.path / "val", ["a", "b"], 5, 0)
        self.assertEqual(self.classify(models=("net", "pair"), pool="whole")[0], 0)
        broken = self.models.read_text().replace("Net(classes), None", "1 / 0")
        good, place = self.models.read_text(), self.path / "later.py"
        place.write_text(broken)
        names = f"net={place}:net", f"pair={place}:pair"
        self.assertRefused(self.classify(models=names), "pair: ", "ZeroDivisionError")
        self.assertFalse((self.path / "pool" / "pool.json").exists())
        file = self.path / "pool" / "net.oof.npy"
        before = file.stat().st_mtime_ns
        (self.path / "pool" / ".export" / "pair.oof.npy").write_bytes(b"half a file, as a kill leaves it")
        place = self.path / "fixed.py"
        place.write_text(good)
        self.assertRefused(self.classify("--split", f"oof={self.path / 'val'}", models=names), "a split is named twice")
        self.assertRefused(self.classify(models=(f"net={place}:net",)), "member net: model was")
        status, said = self.classify(models=(names[0], f"pair={place}:pair"))
        self.assertEqual(status, 0, said)
        self.assertNotIn("net oof", said)
        self.assertEqual(file.stat().st_mtime_ns, before)
        self.assertEqual(contents(self.path / "pool"), contents(self.path / "whole"))
        # A file that is gone is made again; threads that read change no bytes.
        file.unlink()
        self.assertEqual(self.classify("--workers", "2", models=(names[0], f"pair={place}:pair"))[0], 0)
        self.assertEqual(contents(self.path / "pool"), contents(self.path / "whole"))

    def test_a_broken_image_ends_the_run(self):
        images(self.path / "val", ["a", "b"], 5, 0)
        path = self.path / "val" / "b" / "003.png"
        path.write_bytes(path.read_bytes()[:99])
        for workers in ("0", "2"):
            self.assertRefused(self.classify("--workers", workers), str(path), "not a readable image")
        self.assertFalse((self.path / "pool" / "pool.json").exists())

    def test_networks(self):
        images(self.path / "val", ["a", "b"], 3, 0)
        for name, words in {"wrong": "the data have 2 classes", "failing": "ValueError: no such network", "quits": "SystemExit: no licence",
                            "other": "not a torch.nn.Module", "absent": "no function absent"}.items():  # fmt: skip
            self.assertRefused(self.classify(models=(name,)), name, words)
        self.assertRefused(self.classify("--dtype", "float16", models=("endless",)), "--dtype float32")
        # None of these left settings that the next run must follow.
        status, said = self.classify("--seed", "5", models=("pair",))
        self.assertEqual(status, 0, said)
        self.assertNotIn("latency_ms", (self.path / "pool" / "pool.json").read_text())

    def test_names(self):
        images(self.path / "val", ["a", "b"], 2, 0)
        base = ["classify", self.path / "pool", "--split", f"oof={self.path / 'val'}", *SMALL, "--models"]
        torch.save(torchvision.models.squeezenet1_1(num_classes=3).state_dict(), self.path / "three.pth")
        (self.path / "text.pth").write_text("hello")
        for arguments, words in {
            ("resnet1",): "did you mean resnet", ("resnet18", "resnet18", "--weights", "none"): "same files",
            ("a.b=resnet18", "a_b=resnet18", "--weights", "none"): "same files", ("resnet18@nowhere.pth",): "no weights file nowhere.pth",
            ("resnet18@IMAGENET",): "it has IMAGENET1K_V1", (f"squeezenet1_1@{self.path / 'three.pth'}",): "size mismatch",
            (f"squeezenet1_1@{self.path / 'text.pth'}",): "not a checkpoint", ("resnet18", "--device", "gpu"): "--device: gpu",
            ("resnet18", "--compute", "float16"): "needs a GPU", ("resnet18", "--seed", "-1"): "whole number from 0",
        }.items():  # fmt: skip
            self.assertRefused(export(*base, *arguments), words)
        with unittest.mock.patch.dict("os.environ", TORCH_HOME=str(self.path / "hub")):
            self.assertRefused(export(*base, "resnet18"), "resnet18-f37072fd.pth", str(self.path / "hub"), "Nothing is downloaded")
        self.assertRefused(export("classify", self.path / "text.pth", *base[2:], "resnet18", "--weights", "none"), "a file, or a folder")
        self.assertRefused(export("classify", self.path / "val", *base[2:], "resnet18", "--weights", "none"), "did not make")

    def test_user_data(self):
        for name, words in {"empty": "without items", "absent": "absent", "numbers": "attribute classes", "same": "an id of its own",
                            "lost": "KeyError: 'lost'", "large": "equal size"}.items():  # fmt: skip
            self.assertRefused(self.classify(source=f"{self.models}:{name}"), words)
        status, said = self.classify(source=f"{self.models}:data")
        self.assertEqual(status, 0, said)
        np.testing.assert_array_equal(np.load(self.path / "pool" / "oof_labels.npy"), np.arange(9) % 3)
        manifest = json.loads((self.path / "pool" / "pool.json").read_text())
        self.assertEqual((manifest["classes"], "ids" in manifest["splits"]["oof"]), (["0", "1", "2"], False))

    def test_domains(self):
        for number, domain in enumerate(("real", "clipart", "painting", "sketch")):
            images(self.path / "data" / domain, ["ant", "bee", "cow"], 5, number)
        (self.path / "classes.txt").write_text("cow\nant\n")
        base = ["--data", self.path / "data", "--classes", self.path / "classes.txt", "--models", f"{self.models}:net", "--weights", "none", *SMALL]
        status, said = export("domainnet", self.path / "all", *base)
        self.assertEqual(status, 0, said)
        manifest = json.loads((self.path / "all" / "pool.json").read_text())
        self.assertEqual({k: v.get("domain") for k, v in manifest["splits"].items()},
                         {"oof": None, "real": "real", "clipart": "clipart", "painting": "painting", "sketch": "sketch"})  # fmt: skip
        domains, ids, labels = (np.load(self.path / "all" / f"oof_{what}.npy") for what in ("domains", "ids", "labels"))
        self.assertEqual([i.split(b"/")[0] for i in ids], domains.tolist())
        self.assertEqual([int(b"/ant/" in i) for i in ids], labels.tolist())
        self.assertEqual((len(ids), np.load(self.path / "all" / "net.sketch.npy").shape), (4 * 8, (2, 2)))
        status, said = export("domainnet", self.path / "real", *base, "--meta", "real")
        self.assertEqual((status, np.load(self.path / "real" / "net.sketch.npy").shape), (0, (10, 2)), said)
        self.assertRefused(export("domainnet", self.path / "no", *base, "--domains", "real", "quickdraw"), "quickdraw")


@needs_torch
class Dense(Export):
    @needs_tool
    def test_maps(self):
        data, pool = dense_data.ade20k(self.path / "ade20k", 8), self.path / "maps"
        torch.manual_seed(3)
        network = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=6).eval()
        torch.save(network.state_dict(), self.path / "a.pth")
        base = ["--data", data, "--classes", 6, "--weights", "none", *SMALL]
        status, said = export("ade20k", pool, *base, "--map-size", 16, "--models", f"a=lraspp_mobilenet_v3_large@{self.path / 'a.pth'}",
                              f"b={self.models}:segment")  # fmt: skip
        self.assertEqual(status, 0, said)
        # The same from torch alone: the network at the resized image, its map at the mask's size, 16 x 16 pixels of that.
        ids, maps, labels = np.load(pool / "test_ids.npy").astype(str), np.load(pool / "a.test.npy"), np.load(pool / "test_labels.npy")
        self.assertEqual((len(ids), maps.shape, maps.dtype), (2, (2, 16, 16, 6), np.float16))
        for case, kept, label in zip(ids, maps, labels):
            image = Image.open(data / "images/validation" / f"{case}.jpg")
            mask = np.asarray(Image.open(data / "annotations/validation" / f"{case}.png")).astype(int)
            small = resize(image, [round(n * 32 / min(image.size)) for n in (image.height, image.width)])
            with torch.no_grad():
                out = network(normalize(to_tensor(small), *STANDARD)[None])["out"]
            out = torch.nn.functional.interpolate(out, size=mask.shape, mode="bilinear", align_corners=False)[0].numpy()
            rows, columns = ([int((i + 0.5) * n / 16) for i in range(16)] for n in mask.shape)
            np.testing.assert_allclose(kept, out[:, rows][:, :, columns].transpose(1, 2, 0), atol=2e-3)
            np.testing.assert_array_equal(label, np.where(mask[rows][:, columns] == 0, 255, mask[rows][:, columns] - 1))
        report = json.loads(run_tool("compare", pool / "pool.json", "--methods", "average", "-r", 0, "--json", "-q", "--set", "checks=off"))
        self.assertTrue(0 <= report["rows"][0]["miou"] <= 1)
        self.assertRefused(export("ade20k", pool, *base, "--map-size", 8), "map_size was 16 and is now 8")
        # All pixels of the mask.
        large = self.path / "large"
        self.assertEqual(export("ade20k", large, *base, "--map-size", 0, "--split", "oof=validation", "--models", f"b={self.models}:segment")[0], 0)
        shapes = {np.load(large / "b.oof" / p.name).shape[:2] == np.load(p).shape for p in (large / "oof_labels").iterdir()}
        self.assertEqual((shapes, len(list((large / "b.oof").iterdir()))), ({True}, 8))

    def test_masks(self):
        root = dense_data.ade20k(self.path / "data", 3)
        case = _maps.cases(root, "validation")[0]
        raw = np.asarray(Image.open(case.mask)).astype(int)
        np.testing.assert_array_equal(_maps.read_mask(case, 6), np.where(raw == 0, 255, raw - 1))
        self.assertEqual(_maps.read_mask(case, 300).dtype, np.uint16)
        with self.assertRaisesRegex(ValueError, "but there are 4 classes"):
            _maps.read_mask(case, 4)
        Image.new("RGB", (4, 4)).save(case.mask)
        with self.assertRaisesRegex(ValueError, "a colour image"):
            _maps.read_mask(case, 6)
        case.mask.write_text("not an image")
        with self.assertRaisesRegex(ValueError, f"{case.name}.png: not a readable mask"):
            _maps.read_mask(case, 6)
        case.mask.unlink()
        with self.assertRaisesRegex(ValueError, f"{case.name}.jpg: no mask"):
            _maps.cases(root, "validation")
        with self.assertRaisesRegex(ValueError, "no images"):
            _maps.cases(root, "test")

    @needs_tool
    def test_boxes(self):
        data, finder, pool = dense_data.coco(self.path / "coco", 10), dense_data.finder(self.path), self.path / "boxes"
        models = ["ssdlite320_mobilenet_v3_large", f"sharp={finder}:sharp", f"shifted={finder}:shifted"]
        status, said = export("coco", pool, "--data", data, "--models", *models, "--weights", "none", "--lowest-score", 0, "--boxes", 30, *SMALL)
        self.assertEqual(status, 0, said)
        truth, known = json.loads((pool / "oof.json").read_text()), {c["id"] for c in dense_data.CATEGORIES}
        self.assertEqual((len(truth["images"]), len(json.loads((pool / "test.json").read_text())["images"])), (8, 2))
        for name in ("ssdlite320_mobilenet_v3_large", "sharp", "shifted"):
            found = json.loads((pool / f"{name}.oof.json").read_text())
            self.assertGreater(len(found), 8, name)
            self.assertTrue({b["category_id"] for b in found} <= known)
            self.assertTrue(all(sum(b["image_id"] == i["id"] for b in found) <= 30 for i in truth["images"]))
        # The finder names its labels in another order than the file has its categories: its boxes are right if these are matched.
        sharp = json.loads((pool / "sharp.oof.json").read_text())
        for box in truth["annotations"]:
            same = [b for b in sharp if b["image_id"] == box["image_id"] and b["category_id"] == box["category_id"]
                    and np.allclose(b["bbox"], box["bbox"] + np.array([0.4, 0, 0, 0]), atol=0.011)]  # fmt: skip
            self.assertEqual(len(same), 1, box)
        report = json.loads(run_tool("compare", pool / "pool.json", "--methods", "best-single", "-r", 0, "--json", "-q", "--set", "checks=off"))
        self.assertGreater(report["rows"][0]["AP"], 0.4)

    def test_boxes_in_coco_form(self):
        self.assertEqual(_boxes.category_of(None, ((3, "car"), (1, "person"))), {1: 1, 2: 3})
        self.assertEqual(_boxes.category_of(["none", "car", "N/A"], ((3, "car"), (1, "person"))), {0: None, 1: 3, 2: None})
        image = {"id": 7, "width": 40, "height": 30}
        output = {"boxes": torch.tensor([[-3.0, 4.0, 10.006, 50.0], [1, 1, 2, 2], [5, 5, 5, 9], [0, 0, 9, 9], [2, 2, 8, 8]]),
                  "scores": torch.tensor([0.5, 0.04, 0.9, 0.7, 0.6]), "labels": torch.tensor([1, 1, 1, 2, 3])}  # fmt: skip
        found = _boxes.results_of(image, output, {1: 10, 2: 20, 3: None}, 0.05, 100)
        self.assertEqual(found, [{"image_id": 7, "category_id": 20, "bbox": [0, 0, 9, 9], "score": 0.7},
                                 {"image_id": 7, "category_id": 10, "bbox": [0, 4, 10.01, 26], "score": 0.5}])  # fmt: skip
        self.assertEqual(_boxes.results_of(image, output, {1: 10, 2: 20, 3: None}, 0.05, 1), found[:1])
        with self.assertRaisesRegex(ValueError, "label 3, and the annotation file has 2"):
            _boxes.results_of(image, output, {1: 10, 2: 20}, 0.05, 100)
        for wrong in (None, [], [{"boxes": 1}]):
            with self.assertRaisesRegex(ValueError, "does not give a list with a dict of boxes, labels and scores"):
                _boxes.Detection(((1, "a"),)).rows((wrong, {}), [(None, image)], None)
        _boxes.Detection(((1, "a"),)).save(self.path / "b.json", None, None, iter([[found, []], [found[:1]]]))
        self.assertEqual(json.loads((self.path / "b.json").read_text()), found + found[:1])

    def test_mistakes(self):
        data, sharp = dense_data.coco(self.path / "coco", 5), ["--models", f"{dense_data.finder(self.path)}:sharp", "--weights", "none"]
        for name, documents in (("kinds", {"images": []}), ("size", [(5, "000000000000.png")]), ("gone", [(5, "gone.png")])):
            if isinstance(documents, list):
                documents = {"images": [{"id": 1, "file_name": f, "width": n, "height": n} for n, f in documents], "annotations": [],
                             "categories": dense_data.CATEGORIES}  # fmt: skip
            (self.path / f"{name}.json").write_text(json.dumps(documents))
        for arguments, words in (
            (["coco", "--data", self.path, *sharp], "instances_val2017.json"),
            (["coco", "--split", f"oof={self.path}/kinds.json@{data}/val2017", *sharp], "KeyError: 'annotations'"),
            (["coco", "--split", f"oof={self.path}/gone.json@{data}/val2017", *sharp], "gone.png: not a readable image"),
            (["coco", "--split", f"oof={self.path}/size.json@{data}/val2017", *sharp], "80 x 100 pixels, its annotation"),
            (["coco", "--data", data, "--models", "resnet50"], "torchvision has no model resnet50 for detection"),
            (["ade20k", "--data", data, *sharp], "ADE20K has folders images/PART"),
        ):
            self.assertRefused(export(arguments[0], self.path / "none", *arguments[1:], *SMALL), words)


@needs_torch
class Costs(unittest.TestCase):
    def test_layers(self):
        nn = torch.nn
        for network, shape, expected in (
            (nn.Conv2d(6, 8, 3, groups=2, padding=1), (2, 6, 5, 7), 2 * 8 * 5 * 7 * 3 * 9),
            (nn.ConvTranspose2d(6, 8, 2, stride=2), (2, 6, 5, 7), 2 * 6 * 5 * 7 * 8 * 4),
            (nn.Linear(10, 3), (4, 10), 4 * 10 * 3),
            (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), 2 * (5 * (4 * 64 + 2 * 128) + 2 * 25 * 8)),
            (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()), (2, 3, 4, 4), 0),
            (torchvision.models.resnet50(), (1, 3, 224, 224), 4089184256),  # torchvision's documentation has 4.09e9
        ):
            network.eval()
            self.assertEqual(_cost.flops(lambda: network(torch.zeros(shape))), expected)


if __name__ == "__main__":
    unittest.main()
