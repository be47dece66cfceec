"""corestack.pool without networks: files that survive a kill, lists of images, divisions, counts; and without PyTorch."""
from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import unittest

import numpy as np
from common import Folder

from corestack import InputError
from corestack.pool import _benchmarks, _classify, _data, _engine, _models
from corestack.pool._files import ArraySink, Journal, Lock, texts, write_whole
from corestack.pool._task import Member


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not looked at")


class Refusals(Folder):
    def refused(self, *words):
        """A context in which an InputError of one line with these words is raised."""
        test = self

        class Context:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace):
                test.assertIsNotNone(error, f"not refused: {words}")
                test.assertTrue(issubclass(kind, InputError), error)
                test.assertNotIn("\n", str(error))
                for word in words:
                    test.assertIn(word, str(error))
                return True

        return Context()


class Files(Refusals):
    def sink(self, shape=(7, 3), dtype="float32"):
        return ArraySink(self.path / "work.npy", self.path / "done.npy", shape, dtype)

    def filled(self, rows, upto):
        """States of batches of two rows, the first `upto` of them."""
        sink = self.sink(rows.shape, rows.dtype)
        self.assertEqual(sink.resume([]), 0)
        states = [sink.write(i, rows[i : i + 2]) for i in range(0, 2 * upto, 2)]
        sink.close()
        return states

    def test_same_bytes_as_numpy(self):
        for shape, dtype in (((7, 3), "float32"), ((2, 5, 4), "float16"), ((0, 3), "float32"), ((1, 10000), "float64")):
            rows = np.random.default_rng(0).normal(size=shape).astype(dtype)
            sink = self.sink(shape, dtype)
            sink.resume([])
            flat = rows.reshape(-1, shape[-1])
            for start in range(0, len(flat), 4):
                sink.write(start, flat[start : start + 4])
            sink.finish()
            np.save(self.path / "expected.npy", rows)
            self.assertEqual((self.path / "done.npy").read_bytes(), (self.path / "expected.npy").read_bytes())
            self.assertFalse((self.path / "work.npy").exists())

    def test_goes_on_after_the_last_good_batch(self):
        rows = np.arange(21, dtype=np.float32).reshape(7, 3)
        states = self.filled(rows, 3)
        with open(self.path / "work.npy", "r+b") as file:  # the second batch was torn
            file.seek(-7 * 12 + 2 * 12 + 5, 2)
            file.write(b"\xff")
        again = self.sink()
        self.assertEqual(again.resume(states), 1)
        for i in range(2, 7, 2):
            again.write(i, rows[i : i + 2])
        again.finish()
        np.testing.assert_array_equal(np.load(self.path / "done.npy"), rows)

    def test_a_file_that_shrank_or_is_gone_begins_again(self):
        rows = np.ones((7, 3), np.float32)
        states = self.filled(rows, 2)
        (self.path / "work.npy").write_bytes((self.path / "work.npy").read_bytes()[:-1])
        sink = self.sink()
        self.assertEqual(sink.resume(states), 0)
        sink.close()
        (self.path / "work.npy").unlink()
        sink = self.sink()
        self.assertEqual(sink.resume(states), 0)
        sink.close()

    def test_moved_but_not_recorded(self):
        rows = np.ones((7, 3), np.float32)
        states = self.filled(rows, 4)
        (self.path / "work.npy").rename(self.path / "done.npy")
        sink = self.sink()
        self.assertEqual(sink.resume(states), 4)
        sink.finish()
        np.testing.assert_array_equal(np.load(self.path / "done.npy"), rows)

    def test_journal(self):
        path = self.path / "journal"
        journal = Journal(path, "a")
        for number in range(3):
            journal.add({"number": number})
        journal.close()
        with open(path, "ab") as file:
            file.write(b'{"number": 3')  # killed while it was written
        journal = Journal(path, "a")
        self.assertEqual([s["number"] for s in journal.states], [0, 1, 2])
        journal.keep(2)
        journal.add({"number": 7})
        journal.close()
        again = Journal(path, "a")
        self.assertEqual([s["number"] for s in again.states], [0, 1, 7])
        again.close()
        with self.refused("other settings"):
            Journal(path, "b")
        path.write_bytes(b'{"sett')  # killed at the first line
        again = Journal(path, "b")
        again.close()
        self.assertEqual(again.states, [])

    def test_lock(self):
        with Lock(self.path / "pool" / "work" / "lock"):
            with self.refused("another export"):
                Lock(self.path / "pool" / "work" / "lock", patience=0.1)
        Lock(self.path / "pool" / "work" / "lock", patience=0.0).free()

    def test_write_whole(self):
        write_whole(self.path / "a" / "b", b"1")
        write_whole(self.path / "a" / "b", b"22")
        self.assertEqual((self.path / "a" / "b").read_bytes(), b"22")
        self.assertEqual(len(list((self.path / "a").iterdir())), 1)

    def test_ids(self):
        self.assertEqual(texts(["a", "bc"]).dtype, np.dtype("S2"))
        self.assertEqual(texts(["a", "é"]).tolist(), ["a", "é"])


class Sources(Refusals):
    def test_class_folders(self):
        touch(self.path, "cat/b.png", "cat/a.JPEG", "dog/x/1.jpg", "dog/notes.txt", "cat/._a.png")
        (self.path / "eel").mkdir()
        rows, classes = _classify.read(str(self.path), "oof", None)
        self.assertEqual(classes, ["cat", "dog", "eel"])  # an empty class counts
        self.assertEqual(rows.ids, ("cat/a.JPEG", "cat/b.png", "dog/x/1.jpg"))
        self.assertEqual(rows.labels, (0, 0, 1))
        rows, _ = _classify.read(str(self.path), "oof", ["dog", "emu", "cat"])
        self.assertEqual(rows.labels, (2, 2, 0))
        with self.refused("cat/a.JPEG", "cat", "not one of the pool's"):
            _classify.read(str(self.path), "oof", ["dog"])
        with self.refused("no class folders"):
            _classify.read(str(self.path / "eel"), "oof", None)
        with self.refused("nowhere"):
            _classify.read(str(self.path / "nowhere"), "oof", None)
        (self.path / "none" / "one").mkdir(parents=True)
        with self.refused("no images"):
            _classify.read(str(self.path / "none"), "oof", None)

    def test_links(self):
        touch(self.path, "one/cat/a.png", "one/dog/b.png", "two/c.png")
        (self.path / "one" / "cat" / "more").symlink_to(self.path / "two")
        self.assertEqual(_classify.read(str(self.path / "one"), "oof", None)[0].ids, ("cat/a.png", "cat/more/c.png", "dog/b.png"))
        (self.path / "one" / "dog" / "all").symlink_to("..")
        with self.refused("one/dog/all", "contains it"):
            _classify.read(str(self.path / "one"), "oof", None)

    def test_lists(self):
        touch(self.path, "images/real/bee/1.jpg", "images/real/ant/2 b.jpg", "images/real/ant/3.jpg")
        cases = {
            "a.txt": "real/bee/1.jpg 1\nreal/ant/2 b.jpg 0\n\nreal/ant/3.jpg 0\n",
            "b.tsv": "real/bee/1.jpg\t1\nreal/ant/2 b.jpg\t0\nreal/ant/3.jpg\t0\n",
            "c.csv": 'path,label\nreal/bee/1.jpg,1\n"real/ant/2 b.jpg",0\nreal/ant/3.jpg,0\n',
            "d.csv": "real/bee/1.jpg,bee\nreal/ant/2 b.jpg,ant\nreal/ant/3.jpg,ant\n",
        }
        for name, content in cases.items():
            (self.path / name).write_text(content)
            rows, classes = _classify.read(f"{self.path / name}@{self.path / 'images'}", "oof", None)
            self.assertEqual((rows.labels, classes), ((1, 0, 0), ["ant", "bee"]), name)
            self.assertEqual(rows.ids, ("real/bee/1.jpg", "real/ant/2 b.jpg", "real/ant/3.jpg"))
        with self.refused("there is no image", "LIST@FOLDER"):
            _classify.read(str(self.path / "a.txt"), "oof", None)
        (self.path / "images" / "twice.txt").write_text("real/bee/1.jpg 0\nreal/bee/1.jpg 0\n")
        with self.refused("twice"):
            _classify.read(str(self.path / "images" / "twice.txt"), "oof", None)
        (self.path / "images" / "twice.txt").write_text("real/bee/1.jpg 0\n./real/bee/1.jpg 0\n")
        with self.refused("twice"):
            _classify.read(str(self.path / "images" / "twice.txt"), "oof", None)
        (self.path / "images" / "bad.txt").write_text("real/bee/1.jpg 0\nreal/ant/3.jpg\n")
        with self.refused("line 2"):
            _classify.read(str(self.path / "images" / "bad.txt"), "oof", None)
        (self.path / "images" / "empty.txt").write_text("")
        with self.refused("empty"):
            _classify.read(str(self.path / "images" / "empty.txt"), "oof", None)

    def test_kaggle_list_of_imagenet(self):
        touch(self.path, "val/ILSVRC2012_val_00000001.JPEG", "val/ILSVRC2012_val_00000002.JPEG")
        (self.path / "LOC_val_solution.csv").write_text(
            "ImageId,PredictionString\nILSVRC2012_val_00000001,n02 1 2 3 4 n02 5 6 7 8 \nILSVRC2012_val_00000002,n01 1 2 3 4 \n"
        )
        rows, classes = _classify.read(f"{self.path}/LOC_val_solution.csv@{self.path}/val", "val", None)
        self.assertEqual((classes, rows.labels), (["n01", "n02"], (1, 0)))

    def test_training_counts(self):
        touch(self.path, "train/a/1.png", "train/a/2.png", "train/c/3.png")
        classes = ["a", "b", "c"]
        np.save(self.path / "n.npy", np.array([2, 0, 1]))
        (self.path / "n.txt").write_text("2\n0\n1\n")
        (self.path / "n.csv").write_text("c,1\na,2\nb,0\n")
        (self.path / "train.json").write_text(json.dumps({
            "categories": [{"id": 20}, {"id": 5}, {"id": 11}],
            "annotations": [{"category_id": 5}, {"category_id": 20}, {"category_id": 5}],
        }))  # fmt: skip
        for source in ("train", "n.npy", "n.txt", "n.csv", "train.json"):
            self.assertEqual(_data.training_counts(str(self.path / source), classes).tolist(), [2, 0, 1], source)
        for source, words in {"train": "class c", "n.npy": "2 whole numbers", "nowhere": "no folder or file"}.items():
            with self.refused(words):
                _data.training_counts(str(self.path / source), classes[:2])

    def test_divide(self):
        random = np.random.default_rng(1)
        labels = random.integers(0, 5, 503).tolist()
        keys = [f"image{i}" for i in range(503)]
        first, second = _data.divide(labels, keys, 0.2, 0)
        self.assertEqual(sorted(first + second), list(range(503)))
        self.assertEqual(len(second), round(0.2 * 503))
        for c in range(5):
            count = labels.count(c)
            self.assertLessEqual(abs(sum(labels[i] == c for i in second) - 0.2 * count), 1.0)
        # The same images, whatever their order; other ones with another seed.
        order = random.permutation(503).tolist()
        _, moved = _data.divide([labels[i] for i in order], [keys[i] for i in order], 0.2, 0)
        self.assertEqual({keys[order[i]] for i in moved}, {keys[i] for i in second})
        self.assertNotEqual(_data.divide(labels, keys, 0.2, 1)[1], second)
        # 10,000 classes of ten images: exactly two of each
        _, second = _data.divide([i // 10 for i in range(2000)], [str(i) for i in range(2000)], 0.2, 0)
        self.assertTrue(np.all(np.bincount([i // 10 for i in second]) == 2))
        with self.refused("without rows"):
            _data.divide([0, 0], ["a", "b"], 0.1, 0)


class FakePool:
    """What the benchmarks ask of a pool's folder."""

    def __init__(self, folder, head=None, splits=None):
        self.folder, self.head, self.content, self.entries = folder, head or {}, {"splits": splits or {}}, splits or {}

    def split(self, name):
        return {"entry": self.entries[name]} if name in self.entries else {}


class Benchmarks(Refusals):
    def corrupted(self, pool, **more):
        arguments = {"data": self.path / "c", "rows": None, "kinds": None, "severities": [1, 2], "name": "corrupted", "classes": None}
        with contextlib.redirect_stderr(io.StringIO()) as self.said:
            task, (split,) = _benchmarks._corrupted_prepare(argparse.Namespace(**{**arguments, **more}), pool)
        return task, split

    def test_corrupted_images_of_a_flat_test_split(self):
        """The validation images lie in one folder, those of ImageNet-C in class folders."""
        names = [f"n0{i % 2}/val_{i}.JPEG" for i in range(6)]
        for kind in ("fog", "noise/shot_noise"):
            for severity in (1, 2):
                touch(self.path / "c" / kind / str(severity), *names)
        np.save(self.path / "test_ids.npy", np.array([b"val_5.JPEG", b"val_0.JPEG", b"val_2.JPEG"]))
        np.save(self.path / "test_labels.npy", np.array([1, 0, 0]))
        pool = FakePool(self.path, {"classes": ["n00", "n01"]}, {"test": {"ids": "test_ids.npy", "labels": "test_labels.npy"}})
        _, split = self.corrupted(pool)
        self.assertEqual(split.source.data.paths, ("n01/val_5.JPEG", "n00/val_0.JPEG", "n00/val_2.JPEG"))
        self.assertEqual(split.source.ids, ("val_5.JPEG", "val_0.JPEG", "val_2.JPEG"))
        self.assertEqual((split.source.labels, split.entry["clean"]), ((1, 0, 0), "test"))
        self.assertEqual(split.source.data.folders, ("noise/shot_noise/1", "noise/shot_noise/2", "fog/1", "fog/2"))
        self.assertIn("2 of the 19 kinds", self.said.getvalue())
        task, split = self.corrupted(FakePool(self.path))
        self.assertEqual((len(split.source.labels), "clean" in split.entry, task.classes), (6, False, ("n00", "n01")))
        np.save(self.path / "test_labels.npy", np.array([1, 1, 0]))
        with self.refused("classes of its images differ"):
            self.corrupted(pool)
        np.save(self.path / "test_ids.npy", np.array([b"val_5.JPEG", b"val_9.JPEG", b"val_2.JPEG"]))
        with self.refused("no image val_9.JPEG"):
            self.corrupted(pool)
        (self.path / "c" / "fog" / "2" / "n00" / "val_0.JPEG").unlink()
        with self.refused("n00/val_0.JPEG is in only one of"):
            self.corrupted(pool)
        with self.refused("no folder fog/3"):
            self.corrupted(pool, kinds=["fog"], severities=[3])
        with self.refused("blur is not one of"):
            self.corrupted(pool, kinds=["blur"])

    def test_19_kinds(self):
        """Names and numbers of ImageNet-C; the library knows a reference error for each."""
        self.assertEqual((len(_benchmarks.KINDS), len(_benchmarks.SEVERITIES)), (19, 5))
        families = list(_benchmarks.KINDS.values())
        self.assertEqual({f: families.count(f) for f in families}, {"noise": 4, "blur": 5, "weather": 4, "digital": 6})

    def domains(self, **more):
        arguments = {"data": self.path, "domains": ["real", "sketch"], "domain": [], "meta": None, "test_share": 0.5, "seed": 0,
                     "classes": None, "training_counts": None}  # fmt: skip
        task, splits = _benchmarks._domain_prepare(argparse.Namespace(**{**arguments, **more}), FakePool(self.path))
        return task, {s.name: s for s in splits}

    def test_some_classes_of_domains(self):
        for domain in ("real", "sketch"):
            touch(self.path / domain, *(f"{c}/{i}.jpg" for c in ("ant", "bee", "cow") for i in range(4)))
        (self.path / "two.txt").write_text("cow\nant\n")
        task, splits = self.domains(classes=str(self.path / "two.txt"))
        self.assertEqual(task.classes, ("cow", "ant"))
        self.assertEqual((len(splits["oof"].source.labels), len(splits["real"].source.labels)), (8, 4))
        ids = splits["sketch"].source.ids
        self.assertTrue(all(i.startswith(("sketch/ant/", "sketch/cow/")) for i in ids), ids)
        self.assertEqual(splits["sketch"].source.labels, tuple(int("ant" in i) for i in ids))
        # The same from lists with numbers, whose names are the folders'.
        for domain in ("real", "sketch"):
            (self.path / f"{domain}_list.txt").write_text("".join(f"{domain}/{c}/{i}.jpg {n}\n" for n, c in enumerate(("cow", "ant")) for i in range(4)))
        listed, again = self.domains()
        self.assertEqual(listed.classes, task.classes)
        self.assertEqual(set(again["oof"].source.ids), set(splits["oof"].source.ids))


class Words(Refusals):
    def test_changed(self):
        self.assertIsNone(_engine.changed({"a": 1}, {"a": 1}))
        self.assertEqual(_engine.changed({"batch": 64}, {"batch": 32}), "batch was 64 and is now 32")
        self.assertEqual(_engine.changed({"classes": ["x" * 50] * 9}, {"classes": []}), "classes changed")

    def test_weights_count_by_content(self):
        first, second = self.path / "a.pth", self.path / "other" / "a.pth"
        touch(self.path, "a.pth", "other/a.pth")
        one, two = (_models.identity(Member("m", "resnet18", str(p))) for p in (first, second))
        self.assertEqual(one, two)
        second.write_bytes(b"other")
        self.assertNotEqual(one, _models.identity(Member("m", "resnet18", str(second))))

    def test_without_pytorch(self):
        program = "import sys; sys.modules['torch'] = None; from corestack.pool._command import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run([sys.executable, "-c", program, "classify", str(self.path / "pool"), "--split", f"oof={self.path}",
                               "--models", "resnet18"], capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("needs torch", done.stderr)
        self.assertFalse((self.path / "pool").exists())

    def test_broken_pytorch(self):
        (self.path / "torch").mkdir()
        (self.path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
        places = os.pathsep.join([str(self.path), *sys.path])
        done = subprocess.run([sys.executable, "-m", "corestack.pool", "classify", str(self.path / "pool"), "--split", f"oof={self.path}",
                               "--models", "resnet18"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places})  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("needs torch, which cannot be imported (libcudart.so.12", done.stderr)


if __name__ == "__main__":
    unittest.main()
