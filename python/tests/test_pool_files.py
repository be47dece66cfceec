"""corestack.pool without networks: divisions, counts of classes, names of members, files; and without PyTorch."""
from __future__ import annotations

import json
import os
import subprocess
import runpy
import sys
import threading
from unittest import mock

import numpy as np
from common import ROOT, Folder

from corestack import InputError
from corestack.pool import _command, _data, _export, _files, _networks
from corestack.pool._task import Member


class Files(Folder):
    def test_arrays_in_batches(self):
        rows = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float16)
        _files.save_array(self.path / "a.npy", rows.shape, "float16", (rows.reshape(-1, 4)[i : i + 3] for i in range(0, 10, 3)))
        np.testing.assert_array_equal(np.load(self.path / "a.npy"), rows)
        with self.assertRaisesRegex(InputError, "--dtype float32"):
            _files.narrowed(np.array([1e6]), "float16")
        with self.assertRaisesRegex(InputError, "not finite"):
            _files.narrowed(np.array([np.nan]), "float32")

    def test_texts(self):
        for values, kind in ((["a", "bc"], "S"), (["a", "é"], "U")):
            _files.write_column(self.path / "t.npy", values)
            self.assertEqual(np.load(self.path / "t.npy").dtype.kind, kind)
        self.assertEqual([p.name for p in self.path.iterdir()], ["t.npy"])

    def test_lock(self):
        done = []
        with _files.locked(self.path / "pool" / "lock", wait=False):
            with self.assertRaisesRegex(InputError, "another export"):
                with _files.locked(self.path / "pool" / "lock", wait=False):
                    pass
            other = threading.Thread(target=lambda: done.append(_files.locked(self.path / "pool" / "lock", wait=True).__enter__()))
            other.start()
            self.assertFalse(done)
        other.join()
        self.assertEqual(len(done), 1)

    def test_divide(self):
        labels = np.random.default_rng(1).integers(0, 5, 203).tolist()
        keys = [f"image{i}" for i in range(203)]
        first, second = _data.divide(labels, keys, 0.2, 0)
        self.assertEqual((sorted(first + second), len(second)), (list(range(203)), 41))
        for c in range(5):
            self.assertLessEqual(abs(sum(labels[i] == c for i in second) - 0.2 * labels.count(c)), 1.0)
        # The same images whatever their order, other ones with another seed.
        moved = _data.divide(labels[::-1], keys[::-1], 0.2, 0)[1]
        self.assertEqual({202 - i for i in moved}, set(second))
        self.assertNotEqual(_data.divide(labels, keys, 0.2, 1)[1], second)
        with self.assertRaisesRegex(InputError, "without rows"):
            _data.divide([0, 0], ["a", "b"], 0.1, 0)

    def test_training_counts(self):
        (self.path / "n.txt").write_text("2\n0\n1\n")
        (self.path / "train.json").write_text(json.dumps({
            "categories": [{"id": 20}, {"id": 5}, {"id": 11}],
            "annotations": [{"category_id": 5}, {"category_id": 20}, {"category_id": 5}],
        }))  # fmt: skip
        for name in ("n.txt", "train.json"):
            self.assertEqual(_data.training_counts(str(self.path / name), ["a", "b", "c"]), (2, 0, 1))
        (self.path / "bad.txt").write_bytes(b"\xff\xfe")
        (self.path / "bad.json").write_text("{}")
        for name, words in {"n.txt": "3 numbers for 2 classes", "bad.txt": "no number for each class", "bad.json": "no number for each class"}.items():
            with self.assertRaisesRegex(InputError, words):
                _data.training_counts(str(self.path / name), ["a", "b"])

    def test_members(self):
        self.assertEqual(_command.members(["resnet18", "a=f.py:net@x.pth"], "none"), [Member("resnet18", "resnet18"), Member("a", "f.py:net", "x.pth")])
        (self.path / "small.pth").write_bytes(b"1")
        (found,) = _command.members(["small=resnet18"], str(self.path))
        self.assertEqual(found.weights, str(self.path / "small.pth"))
        first = _networks.identity(found)
        (self.path / "small.pth").write_bytes(b"2")  # weights count by their content
        self.assertNotEqual(_networks.identity(found), first)
        for texts, weights, words in ((["@x"], "none", "form"), (["=a"], "none", "form"), (["a"], str(self.path), "no a.pth"),
                                      (["a", "b"], found.weights, "one file for 2 models")):  # fmt: skip
            with self.assertRaisesRegex(InputError, words):
                _command.members(texts, weights)

    def test_members_of_the_paper(self):
        """Those of timm and transformers, with what is asked of the packages, which Debian does not have."""
        paper = runpy.run_path(str(ROOT / "experiments" / "paper_members.py"))
        self.assertEqual([len(members) for members in paper["LISTS"].values()], [14, 8, 7])
        with mock.patch.dict(paper["chosen"].__globals__, installed=lambda package: package == "torchvision"):
            found, absent = paper["chosen"]("classification")
        self.assertEqual((len(found), [a.partition(" ")[0] for a in absent]), (12, ["RegNet-Y-040", "DeiT-S"]))
        with mock.patch.dict(paper["chosen"].__globals__, installed=lambda package: True):
            (deit,) = (m for m in paper["chosen"]("classification")[0] if m.startswith("deit_s="))
            self.assertEqual([len(paper["chosen"](kind)[0]) for kind in paper["LISTS"]], [14, 6, 1])
            self.assertEqual(paper["stand_ins"]("segmentation", "default", [])[0], [])
            (self.path / "fcn_resnet50.pth").write_bytes(b"1")
            self.assertEqual(paper["stand_ins"]("segmentation", str(self.path), [])[0], ["fcn_resnet50"])
            having, bare = paper["stand_ins"]("detection", "none", ["maskrcnn_resnet50_fpn"])
            self.assertEqual((len(having), bare), (8, []))
            found, absent = paper["chosen"]("detection", str(self.path))
            self.assertEqual((found, len(absent)), ([], 7))
        timm, transformers, environment = mock.MagicMock(), mock.MagicMock(), dict(os.environ)
        with mock.patch.dict(sys.modules, timm=timm, transformers=transformers), mock.patch.dict(os.environ, environment):
            network, transform = _networks.call(deit.partition("=")[2], classes=5, trained=True, image_size=32)
            _networks.call(f"{ROOT}/experiments/paper_members.py:upernet_swin_t", classes=150, trained=True)
        timm.create_model.assert_called_once_with("deit_small_patch16_224", pretrained=True, num_classes=5)
        self.assertIs(transform, timm.data.create_transform.return_value)
        transformers.UperNetForSemanticSegmentation.from_pretrained.assert_called_once_with("openmmlab/upernet-swin-tiny", local_files_only=True)

    def test_changes_in_words(self):
        _export.refuse_change("p", {"a": 1, "b": 2}, {"a": 1})
        with self.assertRaisesRegex(InputError, 'p: dtype was "a" and is now "b"'):
            _export.refuse_change("p", {"dtype": "a"}, {"dtype": "b"})

    def test_19_kinds(self):
        families = list(_command.KINDS.values())
        self.assertEqual({f: families.count(f) for f in families}, {"noise": 4, "blur": 5, "weather": 4, "digital": 6})

    def test_without_pytorch(self):
        (self.path / "torch").mkdir()
        (self.path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
        done = subprocess.run([sys.executable, "-m", "corestack.pool", "classify", str(self.path / "pool"), "--split", f"oof={self.path}",
                               "--models", "resnet18"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join([str(self.path), *sys.path])})  # fmt: skip
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("needs torch, which cannot be imported (libcudart.so.12", done.stderr)
        self.assertFalse((self.path / "pool").exists())
