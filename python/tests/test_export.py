"""python -m corestack.pool with PyTorch: folders to pools to fits, kills and resumption, refusals, costs."""
from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from common import FAST, TOOL, Folder, needs_tool

import corestack

HAVE_TORCH = find_spec("torch") is not None and find_spec("torchvision") is not None
if HAVE_TORCH:
    import torch
    import torchvision
    from PIL import Image

    from corestack.pool import _command, _cost
    from corestack.pool._classify import Classification

needs_torch = unittest.skipUnless(HAVE_TORCH, "torch and torchvision are not installed")
SMALL = ["--image-size", "32", "--batch-size", "16", "--threads", "1"]
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
def nothing(classes):
    return Net(classes, float("nan"))
def narrow(classes):
    return torch.nn.Linear(5, classes)
def failing():
    raise ValueError("no such network")
def other():
    return 7
def pair(classes):
    return Net(classes), None
def three(classes):
    return Net(classes), None, 1
def quits():
    raise SystemExit("no licence")
class Form(Net):
    def forward(self, x):
        return {"scores": super().forward(x)}
def form(classes):
    return Form(classes)
"""
TIMM = """
import torch, torchvision
def is_model(name):
    return name == "tiny_net"
def create_model(name, pretrained, num_classes):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, num_classes))
class data:
    def resolve_data_config(args, model):
        return {"input_size": (3, 24, 24)}
    def create_transform(input_size):
        t = torchvision.transforms
        return t.Compose([t.Resize(input_size[1:]), t.ToTensor()])
"""
SLOW = """
import time
import torch

class Slow:
    targets = [i % 3 for i in range(60)]
    classes = ["a", "b", "c"]
    ids = [f"row{i}" for i in range(60)]
    def __len__(self):
        return 60
    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(i)), i % 3

class Plain:
    def __len__(self):
        return 9
    def __getitem__(self, i):
        return torch.full((3, 32, 32), i / 9), i % 3

def slow():
    return Slow()
def plain(split):
    return Plain()
def sizes():
    return [(torch.zeros(3, 32 + i, 32), 0) for i in range(4)]
def empty():
    return []
def broken():
    class Broken(Plain):
        def __getitem__(self, i):
            if i == 5:
                raise KeyError("lost")
            return super().__getitem__(i)
    broken = Broken()
    broken.targets = [0] * 9
    return broken
def with_facts(**facts):
    found = Plain()
    found.targets = [i % 3 for i in range(9)]
    for name, value in facts.items():
        setattr(found, name, value)
    return found
def number():
    return with_facts(classes=3)
def same():
    return with_facts(ids=list("abcdefgha"))
def few():
    return with_facts(ids=list("abc"))
def quits():
    raise SystemExit(0)
"""


def images(root, classes, per_class, seed, side=40):
    """Class folders of noise around a colour of the class."""
    random = np.random.default_rng(seed)
    for c, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        colour = 40.0 + 160.0 * np.array([c & 1, c >> 1 & 1, c % 3 / 2])
        for i in range(per_class):
            pixels = random.normal(colour, 60.0, (side + i % 3, side + 4, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i:03d}.png")


def export(*arguments):
    """(status, what was said)"""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = _command.main([str(a) for a in arguments])
    return status, said.getvalue()


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(Path(folder).iterdir()) if p.is_file()}


def transformed(path):
    """By torchvision's own pieces, not by the package."""
    t = torchvision.transforms
    steps = [t.Resize(37), t.CenterCrop(32), t.ToTensor(), t.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return t.Compose(steps)(Image.open(path).convert("RGB"))


@needs_torch
class Exporting(Folder):
    def setUp(self):
        super().setUp()
        (self.path / "models.py").write_text(MODELS)
        (self.path / "sets.py").write_text(SLOW)

    def assertRefused(self, outcome, *words):
        status, said = outcome
        self.assertEqual(status, 2, said)
        lines = [line for line in said.splitlines() if "error:" in line]
        self.assertEqual(len(lines), 1, said)
        self.assertNotIn("Traceback", said)
        for word in words:
            self.assertIn(word, lines[0])


@needs_torch
class Whole(unittest.TestCase):
    """One pool of ImageNet-1K, -C and -O, in small, and what corestack makes of it."""

    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.path = Path(held.name)
        cls.pool = cls.path / "pool"
        classes = ["n01", "n02", "n03", "n04"]
        images(cls.path / "val", classes, 30, 0)
        for kind in ("noise/gaussian_noise", "fog"):
            for severity in (1, 3):
                images(cls.path / "c" / kind / str(severity), classes, 30, severity)
        images(cls.path / "o", ["n99"], 12, 5)
        (cls.path / "train" / "n01").mkdir(parents=True)
        (cls.path / "train" / "n01" / "1.jpg").write_bytes(b"")
        (cls.path / "models.py").write_text(MODELS)
        torch.manual_seed(5)
        cls.network = torchvision.models.resnet18(num_classes=4).eval()
        torch.save({"state_dict": {f"module.{k}": v for k, v in cls.network.state_dict().items()}}, cls.path / "r.pth")
        cls.members = ["squeezenet1_1", f"big=resnet18@{cls.path / 'r.pth'}", f"mine={cls.path / 'models.py'}:net"]
        cls.command = ["imagenet", cls.pool, "--val", cls.path / "val", "--training-counts", cls.path / "train", "--weights", "none",
                       "--models", *cls.members, "--jobs", "2", "--passes", "3", *SMALL]  # fmt: skip
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
        self.assertEqual(self.manifest["classes"], ["n01", "n02", "n03", "n04"])
        self.assertEqual((self.manifest["output"], self.manifest["training_counts"]), ("logit", [1, 0, 0, 0]))
        self.assertEqual(list(self.manifest["splits"]), ["oof", "test", "corrupted", "imagenet-o"])
        self.assertEqual(self.manifest["splits"]["corrupted"]["clean"], "test")
        self.assertEqual(self.manifest["splits"]["corrupted"]["conditions"][:3], [
            {"shift": "noise", "kind": "gaussian_noise", "severity": 1}, {"shift": "noise", "kind": "gaussian_noise", "severity": 3},
            {"shift": "weather", "kind": "fog", "severity": 1}])  # fmt: skip
        self.assertEqual([m["name"] for m in self.manifest["models"]], ["squeezenet1_1", "big", "mine"])
        big, mine = self.manifest["models"][1:]
        self.assertEqual((big["params"], big["family"]), (sum(p.numel() for p in self.network.parameters()), "resnet"))
        self.assertEqual((mine["flops"], mine["params"]), (12 * 4, 12 * 4 + 4))
        for member in self.manifest["models"]:
            self.assertGreater(member["latency_ms"], 0)
            self.assertGreater(member["memory_bytes"], 1e7)

    def test_rows(self):
        ids, labels = self.array("oof_ids.npy"), self.array("oof_labels.npy")
        test = self.array("test_ids.npy")
        self.assertEqual((len(ids), len(test)), (96, 24))
        self.assertFalse(set(ids) & set(test))
        self.assertEqual(labels.tolist(), [int(i.decode()[2]) - 1 for i in ids])
        self.assertTrue(np.all(np.bincount(labels) == 24))
        self.assertEqual(self.array("corrupted_ids.npy").tolist(), test.tolist())
        self.assertEqual(self.array("imagenet-o_ids.npy").tolist(), [f"n99/{i:03d}.png".encode() for i in range(12)])

    def test_logits(self):
        def expected(paths):
            with torch.no_grad():
                return self.network(torch.stack([transformed(p) for p in paths])).numpy()

        ids = [i.decode() for i in self.array("oof_ids.npy")]
        np.testing.assert_allclose(self.array("big.oof.npy"), expected([self.path / "val" / i for i in ids]), rtol=0, atol=1e-5)
        corrupted = self.array("big.corrupted.npy")
        self.assertEqual((corrupted.dtype, corrupted.shape), (np.float16, (4, 24, 4)))
        ids = [i.decode() for i in self.array("test_ids.npy")]
        for number, folder in enumerate(("noise/gaussian_noise/1", "noise/gaussian_noise/3", "fog/1", "fog/3")):
            logits = expected([self.path / "c" / folder / i for i in ids])
            np.testing.assert_allclose(corrupted[number], logits, rtol=1e-3, atol=1e-3)
        self.assertEqual(self.array("squeezenet1_1.imagenet-o.npy").shape, (12, 4))

    def test_the_same_command_again_changes_nothing(self):
        before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in self.pool.iterdir() if p.is_file()}
        status, said = export(*self.command)
        self.assertEqual(status, 0, said)
        self.assertNotIn("begun", said)
        self.assertEqual({p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in self.pool.iterdir() if p.is_file()}, before)

    def test_changed_settings_are_refused(self):
        before = digests(self.pool)
        other = self.path / "other.pth"
        torch.save(torchvision.models.resnet18(num_classes=4).state_dict(), other)
        base = ["imagenet", self.pool, "--val", self.path / "val"]
        cases = [
            ([*base, *SMALL, "--batch-size", "8"], "batch was 16 and is now 8"),
            ([*base, *SMALL, "--dtype", "float16"], 'dtype was "float32" and is now "float16"'),
            ([*base, *SMALL, "--test-share", "0.5"], "rows was 96 and is now 60"),
            ([*base, *SMALL, "--models", f"big=resnet18@{other}"], "member big was begun with other settings: weights"),
            (["classify", self.pool, "--split", f"more={self.path / 'o'}", *SMALL], "n99"),
        ]
        for arguments, words in cases:
            status, said = export(*arguments)
            self.assertEqual((status, said.count("\n")), (2, 1), said)
            self.assertIn(words, said)
        self.assertEqual(digests(self.pool), before)

    @needs_tool
    def test_fit_and_compare(self):
        held = warnings.catch_warnings()
        held.__enter__()
        self.addCleanup(held.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # about networks that nobody trained
        stack = corestack.fit(self.pool, evaluate_nested=False)
        self.assertEqual(set(stack.members), {"squeezenet1_1", "big", "mine"})
        report = stack.evaluate(self.pool, split="test", ood="imagenet-o")
        self.assertEqual(report["rows"] if "rows" in report else 24, 24)
        self.assertEqual(stack.predict(self.pool, split="test").shape, (24, 4))
        table = corestack.compare(self.pool, split="corrupted", methods=["average", "greedy"], evaluate_nested=False)
        self.assertIn("average", json.dumps(table))
        done = subprocess.run([TOOL, "compare", self.pool, "--split", "test", "--methods", "average,greedy,paper", "--latex", *FAST],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in (r"\toprule", "average &", "paper &", r"\bottomrule"):
            self.assertIn(words, done.stdout)


class Kills(Exporting):
    def command(self, pool):
        return ["classify", pool, "--split", f"oof={self.path / 'sets.py'}:slow", "--models", f"one={self.path / 'models.py'}:net",
                f"two={self.path / 'models.py'}:net", "--weights", "none", "--batch-size", "4", "--threads", "1", "--no-timings"]  # fmt: skip

    def lines(self, pool):
        """Finished batches of each member whose file is not finished."""
        return {p.name: p.read_bytes().count(b"\n") - 1 for p in (pool / ".export").glob("*.journal")}

    def test_same_bytes_after_kills(self):
        whole, pool = self.path / "whole", self.path / "killed"
        self.assertEqual(export(*self.command(whole))[0], 0)
        reached = []
        for member, batches in (("one", 4), ("two", 5)):
            process = subprocess.Popen([sys.executable, "-m", "corestack.pool", *map(str, self.command(pool))],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            until = time.monotonic() + 60
            while self.lines(pool).get(f"{member}.oof.journal", 0) < batches and time.monotonic() < until:
                self.assertIsNone(process.poll(), "it ended before it was killed")
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertFalse((pool / "pool.json").exists())
            time.sleep(0.3)
            reached.append(self.lines(pool))
            time.sleep(0.3)
            self.assertEqual(self.lines(pool), reached[-1], "a process goes on after the kill")
        self.assertTrue((pool / "one.oof.npy").exists())
        status, said = export(*self.command(pool))
        self.assertEqual(status, 0, said)
        self.assertIn("rows are there already", said)
        self.assertEqual(digests(pool), digests(whole))

    def test_timings_are_kept(self):
        pool = self.path / "pool"
        command = [a for a in self.command(pool) if a != "--no-timings"]
        self.assertEqual(export(*command)[0], 0)
        before = (pool / "pool.json").read_bytes()
        record = pool / ".export" / "members" / "two.json"
        content = json.loads(record.read_text())
        content["splits"] = {}  # as a kill before the end leaves it
        record.write_text(json.dumps(content))
        for name in ("pool.json", "two.oof.npy"):
            (pool / name).unlink()
        self.assertEqual(export(*command)[0], 0)
        self.assertEqual((pool / "pool.json").read_bytes(), before)

    def test_readers_and_jobs_change_no_bytes(self):
        first, second = self.path / "first", self.path / "second"
        self.assertEqual(export(*self.command(first))[0], 0)
        self.assertEqual(export(*self.command(second), "--workers", "2", "--devices", "cpu,cpu")[0], 0)
        self.assertEqual(digests(first), digests(second))


class Refused(Exporting):
    def classify(self, *arguments, models=("net",), source=None):
        return export("classify", self.path / "pool", "--split", f"oof={source or self.path / 'val'}", "--models",
                      *(f"{self.path / 'models.py'}:{m}" for m in models), "--weights", "none", *SMALL, "--no-timings", *arguments)  # fmt: skip

    def test_broken_image(self):
        images(self.path / "val", ["a", "b"], 20, 0)
        (self.path / "val" / "c").mkdir()
        good = (self.path / "val" / "b" / "007.png").read_bytes()
        (self.path / "val" / "b" / "007.png").write_bytes(good[: len(good) // 2])
        for workers in ("0", "1"):
            self.assertRefused(self.classify("--workers", workers), str(self.path / "val" / "b" / "007.png"), "not a readable image")
            self.assertFalse((self.path / "pool" / "pool.json").exists())
        (self.path / "val" / "b" / "007.png").write_bytes(good)
        status, said = self.classify()
        self.assertEqual(status, 0, said)
        self.assertIn("16 of 40 rows are there already", said)
        manifest = json.loads((self.path / "pool" / "pool.json").read_text())
        self.assertEqual(manifest["classes"], ["a", "b", "c"])  # c has no images
        self.assertNotIn("latency_ms", manifest["models"][0])

    def test_networks(self):
        images(self.path / "val", ["a", "b"], 3, 0)
        for name, words in {
            "wrong": "the data have 2 classes", "nothing": "not finite", "failing": "ValueError: no such network",
            "narrow": "RuntimeError: mat1 and mat2", "other": "not a torch.nn.Module", "absent": "no function absent",
            "three": "returned 3 values", "quits": "SystemExit: no licence", "form": "the network returns dict",
        }.items():  # fmt: skip
            self.assertRefused(self.classify(models=(name,)), name, words)
        self.assertRefused(self.classify("--dtype", "float16", models=("endless",)), "--dtype float32")
        # None of these left settings that the next run must follow.
        status, said = self.classify("--batch-size", "5")
        self.assertEqual(status, 0, said)
        # A member that fails leaves the others' work.
        status, said = self.classify("--batch-size", "5", models=("endless", "wrong"))
        self.assertEqual(status, 2)
        self.assertTrue((self.path / "pool" / "endless.oof.npy").exists())
        status, said = self.classify("--batch-size", "5", models=("pair",))  # no transform: the standard one
        self.assertEqual(status, 0, said)

    def test_names(self):
        images(self.path / "val", ["a", "b"], 3, 0)
        base = ["classify", self.path / "pool", "--split", f"oof={self.path / 'val'}", "--models"]
        torch.save(torchvision.models.resnet18(num_classes=3).state_dict(), self.path / "three.pth")
        (self.path / "text.pth").write_text("hello")
        cases = {
            ("resnet1",): "did you mean resnet",
            ("resnet18", "resnet18", "--weights", "none"): "named twice",
            ("resnet18@nowhere.pth",): "no weights file nowhere.pth",
            ("resnet18@IMAGENET",): "it has IMAGENET1K_V1",
            (f"resnet18@{self.path / 'three.pth'}",): "size mismatch",
            (f"resnet18@{self.path / 'text.pth'}",): "not a checkpoint",
            ("resnet18", "--weights", str(self.path)): "no resnet18.pth",
            ("resnet18", "--devices", "cuda:99"): "there is no cuda:99",
            ("resnet18", "--devices", "gpu"): "not a device",
            ("a.b=resnet18", "a_b=resnet18", "--weights", "none"): "would have the same files",
            ("resnet18", "--compute", "float16"): "needs a GPU",
            ("@x",): "[NAME=]MODEL[@WEIGHTS]",
            ("=resnet18",): "[NAME=]MODEL[@WEIGHTS]",
            ("resnet18", "--seed", "-1"): "whole number from 0",
            ("resnet18", "--seed", str(2**64)): "whole number from 0",
        }
        for arguments, words in cases.items():
            self.assertRefused(export(*base, *arguments), words)
        self.assertRefused(export("classify", self.path / "text.pth", *base[2:], "resnet18", "--weights", "none"), "is a file")
        below = self.path / "text.pth" / "pool"
        self.assertRefused(export("classify", below, *base[2:], "resnet18", "--weights", "none"), "error: " + str(below), "Not a directory")
        (self.path / "mine").mkdir()
        (self.path / "mine" / "oof_labels.npy").write_bytes(b"mine")
        self.assertRefused(export("classify", self.path / "mine", *base[2:], "resnet18", "--weights", "none"), "was not made by this command")
        self.assertEqual(digests(self.path / "mine"), {"oof_labels.npy": hashlib.sha256(b"mine").hexdigest()})
        os.environ["TORCH_HOME"] = str(self.path / "hub")
        self.addCleanup(os.environ.pop, "TORCH_HOME")
        self.assertRefused(export(*base, "resnet18"), "resnet18-f37072fd.pth", str(self.path / "hub"), "Nothing is downloaded")

    def test_timm(self):
        """The path of timm's models, with a package that has its functions."""
        images(self.path / "val", ["a", "b"], 3, 0)
        (self.path / "lib" / "timm").mkdir(parents=True)
        (self.path / "lib" / "timm" / "__init__.py").write_text(TIMM)
        command = ["classify", self.path / "pool", "--split", f"oof={self.path / 'val'}", *SMALL, "--no-timings", "--models"]
        if find_spec("timm") is None:
            self.assertRefused(export(*command, "timm:tiny_net"), "timm is not installed")
        sys.path.insert(0, str(self.path / "lib"))
        self.addCleanup(sys.path.remove, str(self.path / "lib"))
        self.addCleanup(sys.modules.pop, "timm", None)
        sys.modules.pop("timm", None)
        status, said = export(*command, "tiny_net.a1", "timm:tiny_net", "--weights", "none")
        self.assertEqual(status, 0, said)
        self.assertRefused(export(*command, "timm:huge_net"), "neither torchvision nor timm has a model huge_net")
        manifest = json.loads((self.path / "pool" / "pool.json").read_text())
        self.assertEqual([(m["name"], m["family"]) for m in manifest["models"]], [("tiny_net.a1", "tiny"), ("tiny_net", "tiny")])

    def test_user_data(self):
        for name, words in {"sizes": "shapes", "broken": "sample 5 cannot be read: KeyError: 'lost'", "empty": "has no items", "absent": "absent",
                            "number": "classes is 3", "same": "two items have the id a", "few": "one id for each item", "quits": "SystemExit: 0"}.items():
            self.assertRefused(self.classify(source=f"{self.path / 'sets.py'}:{name}"), words)
        status, said = self.classify(source=f"{self.path / 'sets.py'}:plain")
        self.assertEqual(status, 0, said)
        np.testing.assert_array_equal(np.load(self.path / "pool" / "oof_labels.npy"), np.arange(9) % 3)
        manifest = json.loads((self.path / "pool" / "pool.json").read_text())
        self.assertEqual((manifest["classes"], "ids" in manifest["splits"]["oof"]), (["0", "1", "2"], False))


class Domains(Exporting):
    def test_domains(self):
        for number, domain in enumerate(("real", "clipart", "painting", "sketch")):
            images(self.path / "data" / domain, ["ant", "bee", "cow"], 10, number)
        base = ["domainnet", "--data", self.path / "data", "--models", f"{self.path / 'models.py'}:net", "--weights", "none", *SMALL]
        status, said = export(*base[:1], self.path / "all", *base[1:])
        self.assertEqual(status, 0, said)
        manifest = json.loads((self.path / "all" / "pool.json").read_text())
        self.assertEqual({k: v.get("domain") for k, v in manifest["splits"].items()},
                         {"oof": None, "real": "real", "clipart": "clipart", "painting": "painting", "sketch": "sketch"})  # fmt: skip
        domains, ids = (np.load(self.path / "all" / f"oof_{what}.npy") for what in ("domains", "ids"))
        self.assertEqual(len(domains), 4 * 24)
        self.assertEqual([i.split(b"/")[0] for i in ids], domains.tolist())
        self.assertEqual(np.load(self.path / "all" / "net.sketch.npy").shape, (6, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about networks that nobody trained
            stack = corestack.fit(self.path / "all", evaluate_nested=False)
        self.assertEqual(stack.predict(self.path / "all", split="clipart").shape, (6, 3))
        status, said = export(*base[:1], self.path / "real", *base[1:], "--meta", "real")
        self.assertEqual(status, 0, said)
        self.assertEqual(np.load(self.path / "real" / "net.sketch.npy").shape, (30, 3))
        self.assertEqual(set(np.load(self.path / "real" / "oof_domains.npy")), {b"real"})
        self.assertRefused(export(*base[:1], self.path / "no", *base[1:], "--domains", "real", "quickdraw"), "domain quickdraw")


@needs_torch
class Costs(unittest.TestCase):
    def test_known_figures(self):
        """Multiply-adds and parameters that torchvision's documentation gives, in 10^9 and exactly."""
        task = Classification(("a",))
        for name, giga, params in (("resnet50", 4.089, 25557032), ("vit_b_16", 17.564, 86567656), ("swin_t", 4.491, 28288354)):
            network = torchvision.models.get_model(name, weights=None).eval()
            self.assertEqual(round(_cost.flops(task, network, torch.zeros(1, 3, 224, 224)) / 1e9, 3), giga, name)
            self.assertEqual(_cost.params(network), params, name)

    def test_layers(self):
        task, nn = Classification(("a",)), torch.nn
        for network, shape, expected in (
            (nn.Conv2d(6, 8, 3, groups=2, padding=1), (2, 6, 5, 7), 2 * 8 * 5 * 7 * 3 * 9),
            (nn.ConvTranspose2d(6, 8, 2, stride=2), (2, 6, 5, 7), 2 * 6 * 5 * 7 * 8 * 4),
            (nn.Linear(10, 3), (4, 10), 4 * 10 * 3),
            (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), 2 * (5 * (4 * 64 + 2 * 128) + 2 * 25 * 8)),
            (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()), (2, 3, 4, 4), 0),
        ):
            self.assertEqual(_cost.flops(task, network.eval(), torch.zeros(shape)), expected, network)


if __name__ == "__main__":
    unittest.main()
