"""Files that are not the same when a command opens them again: another file is put in place of each file that a command
reads before its n-th opening, for every n, or written over it, also between two reads (tests/faults/io_fault.c).

Either the result is that of one of the two files, to the byte, or there is one line and exit 2 or 3, and nothing is written."""

import io
import json
import os
import random
import shutil
import threading
import time
import unittest

import numpy as np

from faults_io import UNSEEN, without_seconds
from support import PoolCase, run, sample
from test_segmentation import write_png
from test_soup import HOOK, tensors

LIBRARY = os.environ["CORESTACK_IO_FAULT"]
LONG = bool(os.environ.get("CORESTACK_LONG"))
EACH = 12 if LONG else 2  # other files that are tried at each opening
WRITTEN = 2 if LONG else 1  # of those that are written over the first
RACES = 300 if LONG else 40  # ordinary fits while files are renamed
LONG_AGO = 1_000_000_000  # seconds: when the files were written


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version)
    return out.getvalue()


def npz(packed=False, **arrays):
    out = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(out, **arrays)
    return out.getvalue()


def table(array, names=None, ids=None):
    head = [names] if names else []
    rows = [",".join(f"{x:.9g}" for x in np.atleast_1d(row)) for row in array]
    if ids is not None:
        rows = [f"{i},{row}" for i, row in zip(ids, rows)]
    return ("\n".join([*head, *rows]) + "\n").encode()


def with_one_more(array, axis):
    return np.concatenate([array, np.take(array, [0], axis)], axis)


def other_arrays(array):
    """Arrays of other shapes, types, orders and values than the one given."""
    array = np.asarray(array)
    for axis in range(array.ndim):
        yield f"longer axis {axis}", with_one_more(array, axis)
        yield f"much longer axis {axis}", np.concatenate([array] * 5, axis)
        yield f"shorter axis {axis}", np.take(array, range(array.shape[axis] - 1), axis)
        yield f"no axis {axis}", np.take(array, [], axis)
        yield f"turned axis {axis}", np.flip(array, axis)
    yield "axes turned round", array.T
    yield "Fortran order", np.asfortranarray(np.flip(array, 0))
    if array.ndim > 1:
        yield "axes 0 and 1 exchanged", np.swapaxes(array, 0, 1)
        yield "last axis first", np.moveaxis(array, -1, 0)
        yield "last axis second", np.moveaxis(array, -1, 1)
        yield "second axis last", np.moveaxis(array, 1, -1)
        yield "flat", array.ravel()
    yield "one axis more", array[..., None]
    yield "one axis before", array[None]
    yield "double", array.astype(np.float64)
    yield "half", array.astype(np.float16)
    yield "integers", (array * 3).astype(np.int64)
    yield "text", array.astype("U5")
    yield "bytes", array.astype("S3")
    yield "large values", array + 300
    yield "negative values", -1 - array
    if array.dtype.kind == "f":
        yield "not a number", np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, np.nan, array)


def junk(data):
    """What may lie there in place of any file. None: nothing; a dict: a folder."""
    yield "removed", None
    yield "empty", b""
    yield "a folder", {}
    yield "text", b"a,b,c\n0.2,0.3,0.5\n0.1,0.1,0.8\n"
    yield "half", data[:len(data) // 2]
    yield "all but a byte", data[:-1]
    yield "more", data + data
    yield "ones", b"\xff" * len(data)
    yield "zeros", bytes(len(data))
    yield "an npy", npy(np.zeros((2, 2)))
    yield "an npz", npz(a=np.zeros((2, 2)), b=np.ones(3))
    yield "json", b'{"corestack_pool": 1}'


def arrays_in(array, write):
    for name, other in other_arrays(array):
        try:
            yield name, write(other)
        except (ValueError, TypeError):
            continue


def coco(images, shift=0.0, results=False, categories=2):
    rng = np.random.default_rng(8)
    noise = np.random.default_rng(int(10 * shift))
    found = []
    for image in range(images):
        for k in range(3):
            x, y = rng.uniform(0, 60, 2) + noise.normal(0, 3, 2) * (shift > 0)
            box = [round(float(v), 3) for v in (x, y, 20 + noise.random(), 20)]
            found.append({"image_id": image + 1, "category_id": k % categories + 1, "bbox": box})
            found[-1].update({"score": round(float(rng.uniform(0.1, 0.9)), 3)} if results else
                             {"id": len(found), "area": box[2] * box[3], "iscrowd": 0})
    if results:
        return json.dumps(found).encode()
    return json.dumps({
        "images": [{"id": i + 1, "width": 100, "height": 100} for i in range(images)], "annotations": found,
        "categories": [{"id": c + 1, "name": f"c{c}"} for c in range(categories)]}).encode()


def as_npy(data):
    return np.load(io.BytesIO(data))


class Replaced(PoolCase):
    rows, test_rows = 40, 24
    ran = 0
    refused = 0

    def setUp(self):
        super().setUp()
        self.out = self.path("out")
        self.scratch = None
        os.mkdir(self.out)

    def write(self, name, data):
        """A file, or a folder of files, that was written long ago."""
        path = self.path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)  # its other names keep what they have
        if isinstance(data, dict):
            os.mkdir(path)
            for inside, bytes_of in data.items():
                self.write(os.path.join(name, inside), bytes_of)
        elif data is not None:
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, (LONG_AGO, LONG_AGO))
        return path

    def content(self, path):
        return {name: self.read(os.path.join(path, name)) for name in os.listdir(path)} if os.path.isdir(path) else \
            self.read(path)

    def outputs(self):
        return {os.path.relpath(os.path.join(folder, name), self.out): self.read(os.path.join(folder, name))
                for folder, _, files in os.walk(self.out) for name in files}

    def run_with(self, arguments, path=None, fault=None, other=None):
        """What it said, what it wrote, and how often the path was opened or read."""
        shutil.rmtree(self.out)
        os.mkdir(self.out)
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        count = self.path("count")
        env = {}
        if fault:
            asan = os.environ.get("ASAN_OPTIONS", "")
            env = {"LD_PRELOAD": LIBRARY, "CST_IO_FAULT": fault, "CST_IO_UNDER": path, "CST_IO_COUNT": count,
                   "ASAN_OPTIONS": asan + ":verify_asan_link_order=0"}
            if other is not None:
                env["CST_IO_OTHER"] = other
        result = run(*arguments, env=env)
        calls = int(self.read(count)) if fault else 0
        if os.path.exists(count):
            os.remove(count)
        return result, self.outputs(), calls

    @staticmethod
    def report(result):
        """What it printed, but for notices of what was not looked at."""
        text = without_seconds(result.out)
        if isinstance(text, dict) and "notices" in text:
            text["notices"] = [notice for notice in text["notices"] if UNSEEN not in notice]
        return text

    def attack(self, arguments, others, least=1):
        """others: for each path the other files, by name. least: of openings of each."""
        good, wrote, _ = self.run_with(arguments)
        self.assertEqual(good.code, 0, good.err)
        chosen = random.Random(" ".join([arguments[0], *map(os.path.basename, sorted(others))]))
        for path, makers in others.items():
            data = self.content(path)
            makers = list(makers)
            _, _, opened = self.run_with(arguments, path, "open=none:0")
            self.assertGreaterEqual(opened, least, f"{arguments[0]} does not open {path}")
            _, _, reads = self.run_with(arguments, path, "read=none:0")
            places = [("open=replace", n) for n in range(opened)]
            if not isinstance(data, dict):
                places += [("open=rewrite", n) for n in range(1, opened)]
                few = range(1, reads) if LONG and reads < 40 else sorted({n for n in (1, reads // 2, reads - 1) if 0 < n < reads})
                places += [(kind, n) for kind in ("read=write", "read=rewrite") for n in few]
            for kind, n in places:
                usable = [m for m in makers if kind == "open=replace" or isinstance(m[1], bytes)]
                count = min(len(usable), EACH if kind == "open=replace" else WRITTEN)
                for name, other in chosen.sample(usable, count):
                    with self.subTest(command=arguments[:2], file=os.path.basename(path), fault=kind, place=n, other=name):
                        self.put(arguments, path, data, f"{kind}:{n}", other, (good, wrote))
            self.write(os.path.relpath(path, self.folder), data)

    def put(self, arguments, path, data, fault, other, good):
        name = os.path.relpath(path, self.folder)
        self.write(name, data)
        place = self.write("other", other)
        if "write" in fault:
            time.sleep(0.01)  # two changes of a file within a tick of the clock look like one
        result, wrote, _ = self.run_with(arguments, path, fault, place if other is not None else None)
        self.write("other", None)
        if os.path.isdir(path + ".beside"):
            shutil.rmtree(path + ".beside")
        elif os.path.exists(path + ".beside"):
            os.remove(path + ".beside")
        type(self).ran += 1
        if result.code != 0:
            type(self).refused += 1
            self.assertIn(result.code, (2, 3), result.err)
            self.assertEqual(result.out, "")
            self.assertEqual(result.err.count("\n"), 1, result.err)
            self.assertTrue(result.err.startswith("corestack"), result.err)
            self.assertEqual(wrote, {})
            return
        if (self.report(result), wrote) == (self.report(good[0]), good[1]) or fault.startswith("read=rewrite"):
            return  # bytes written with the time put back between two reads: nobody can tell, and nothing breaks
        self.write(name, other)
        alone, wrote_alone, _ = self.run_with(arguments)
        self.assertEqual(alone.code, 0, f"exit 0 with a file that alone is refused: {alone.err}")
        self.assertEqual(self.report(result), self.report(alone))
        self.assertEqual(wrote, wrote_alone)

    @classmethod
    def tearDownClass(cls):
        if cls is not Replaced:
            print(f"{cls.__name__}: {cls.ran} runs with another file, {cls.refused} of them refused")

    def of_npy(self, *names):
        """Other files in place of npy files."""
        found = {}
        for name in names:
            data = self.read(self.path(name))
            found[self.path(name)] = [*arrays_in(as_npy(data), npy), *junk(data)]
        return found


class Classification(Replaced):
    def setUp(self):
        super().setUp()
        self.fit("--set", "folds.count=2")

    def of_manifest(self):
        data = self.read(self.pool)

        def changed(**keys):
            return json.dumps({**self.manifest, **keys}).encode()

        fewer = [*self.manifest["models"][:2]]
        return {self.pool: [("other classes", changed(classes=4)), ("fewer members", changed(models=fewer)),
                            ("logits", changed(output="logit")), ("regression", changed(task="regression")),
                            ("other order", changed(models=self.manifest["models"][::-1])), *junk(data)]}

    def of_model(self):
        data = self.read(self.model)
        other = self.path("o.cstack")
        self.works("fit", self.path("ada.oof.npy"), self.path("bob.oof.npy"), "-l", self.path("oof_labels.npy"), "-o", other)
        less = self.read(other)
        return {self.model: [("a model of fewer members", less), ("another model", self.fitted_otherwise()), *junk(data)]}

    def fitted_otherwise(self):
        other = self.path("o.cstack")
        self.works("fit", self.pool, "-o", other, "--preset", "prototype")
        data = self.read(other)
        os.remove(other)
        return data

    def test_fit(self):
        self.attack(["fit", self.pool, "-o", os.path.join(self.out, "m.cstack"), "--json", "--set", "folds.count=2"],
                    {**self.of_manifest(), **self.of_npy("oof_labels.npy", "ada.oof.npy", "cyd.oof.npy")})

    def test_inspect(self):
        self.attack(["inspect", self.pool, "--json"], self.of_npy("oof_labels.npy", "bob.oof.npy"))

    def test_predict(self):
        for name in ("p.npy", "p.csv"):
            self.attack(["predict", self.model, self.pool, "--split", "test", "-o", os.path.join(self.out, name)],
                        {**self.of_model(), **self.of_npy("ada.test.npy", "cyd.test.npy")})

    def test_evaluate(self):
        self.attack(["evaluate", self.model, self.pool, "--split", "test", "--json"],
                    {**self.of_model(), **self.of_npy("test_labels.npy", "ada.test.npy", "ada.oof.npy", "oof_labels.npy")})
        self.attack(["evaluate", self.path("ada.test.npy"), "-l", self.path("test_labels.npy"), "--json"],
                    self.of_npy("ada.test.npy", "test_labels.npy"))

    def test_compare(self):
        self.attack(["compare", self.pool, "--split", "test", "--methods", "average,best-single", "-r", "20", "--json",
                     "--save", os.path.join(self.out, "saved")], self.of_npy("cyd.oof.npy", "cyd.test.npy", "oof_labels.npy"))

    def test_ablate_and_sweep(self):
        self.attack(["ablate", self.pool, "--split", "test", "-r", "20", "--json"], self.of_npy("ada.oof.npy", "ada.test.npy"))
        self.attack(["sweep", self.pool, "--over", "pool.size=1:3:1", "--draws", "2", "--split", "test", "--json", "-m",
                     "average"], self.of_npy("ada.oof.npy", "bob.test.npy", "test_labels.npy"))

    def test_bound(self):
        self.attack(["bound", self.model, self.pool, "--split", "test", "--json"],
                    {**self.of_model(), **self.of_npy("ada.test.npy", "ada.oof.npy", "test_labels.npy")})

    def test_folds(self):
        groups = self.save("groups.npy", np.arange(self.rows) // 2)
        self.attack(["folds", "-l", self.path("oof_labels.npy"), "--groups", groups, "--count", "3", "-o",
                     os.path.join(self.out, "f.npy")], self.of_npy("oof_labels.npy", "groups.npy"))

    def test_what_stands_beside(self):
        rng = np.random.default_rng(2)
        ids = np.arange(self.rows) + 7
        for name, array in (("ids.npy", ids), ("folds.npy", np.arange(self.rows) % 3), ("w.npy", rng.random(self.rows)),
                            ("groups.npy", np.arange(self.rows) // 2)):
            self.save(name, array)
        files = [self.path(f"{name}.oof.npy") for name in ("ada", "bob")]
        self.attack(["fit", *files, "-l", self.path("oof_labels.npy"), "--ids", self.path("ids.npy"), "--folds",
                     self.path("folds.npy"), "--groups", self.path("groups.npy"), "--weights", self.path("w.npy"), "--json",
                     "-o", os.path.join(self.out, "m.cstack")],
                    self.of_npy("ids.npy", "folds.npy", "w.npy", "groups.npy", "ada.oof.npy"))

    def test_logits(self):
        """Normalisers of logits are read from the files once more."""
        self.manifest["output"] = "logit"
        rng = np.random.default_rng(3)
        for (name, split), p in self.members.items():
            self.save(f"{name}.{split}.npy", (np.log(p + 1e-9) + rng.normal(size=(len(p), 1))).astype(np.float32))
        self.write_manifest()
        self.attack(["compare", self.pool, "--split", "test", "--methods", "average", "-r", "0", "--json"],
                    self.of_npy("ada.oof.npy", "ada.test.npy"))
        self.manifest["splits"]["far"] = {}
        for model in self.manifest["models"]:
            model["predictions"]["far"] = f"{model['name']}.far.npy"
            self.save(model["predictions"]["far"], rng.normal(size=(30, self.classes)).astype(np.float32))
        self.write_manifest()
        self.fit("--set", "folds.count=2")
        self.attack(["evaluate", self.model, self.pool, "--split", "test", "--ood", "far", "--json"],
                    self.of_npy("ada.far.npy", "ada.test.npy"), least=2)

    def test_conditions(self):
        conditions = [{"shift": "corruption", "kind": kind, "severity": 1} for kind in ("noise", "blur")]
        labels, _ = sample(20, self.classes, 5)
        self.save("c_labels.npy", labels)
        self.manifest["splits"]["corrupted"] = {"labels": "c_labels.npy", "conditions": conditions}
        for k, model in enumerate(self.manifest["models"]):
            model["predictions"]["corrupted"] = f"{model['name']}.c.npy"
            self.save(f"{model['name']}.c.npy", np.stack([sample(20, self.classes, 50 + 2 * k + c, 2.0, labels)[1]
                                                          for c in range(2)]))
        self.write_manifest()
        reference = self.write("reference.json", b'{"noise": 0.9, "blur": 0.8}')
        data = self.read(reference)
        self.attack(["compare", self.pool, "--split", "corrupted", "--methods", "average", "-r", "0", "--json",
                     "--reference-errors", reference],
                    {**self.of_npy("ada.c.npy", "c_labels.npy"),
                     reference: [("other errors", b'{"noise": 0.5, "blur": 0.7}'), ("fewer", b'{"noise": 0.5}'), *junk(data)]})


class Formats(Replaced):
    """One archive, table or file of tensors for several things: all of it is of one state."""

    def setUp(self):
        super().setUp()
        self.y = self.labels["oof"]
        self.p = [self.members[name, "oof"] for name in ("ada", "bob")]

    def fit_of(self, *files, labels):
        return ["fit", *files, "-l", labels, "--json", "--set", "folds.count=2", "-o", os.path.join(self.out, "m.cstack")]

    def of_archive(self, packed):
        y, (ada, bob) = self.y, self.p

        def archive(**changed):
            arrays = {**{"y": y, "ada": ada, "bob": bob}, **changed}
            return npz(packed, **{name: array for name, array in arrays.items() if array is not None})

        return [("turned", archive(y=y[::-1], ada=ada[::-1], bob=bob[::-1])), ("without a member", archive(ada=None)),
                ("without labels", archive(y=None)), ("other labels", archive(y=y[::-1])), ("packed", npz(True, y=y, ada=bob, bob=ada)),
                ("more rows", archive(**{n: with_one_more(a, 0) for n, a in (("y", y), ("ada", ada), ("bob", bob))})),
                ("many rows", archive(ada=np.concatenate([ada] * 9))), ("wider", archive(bob=with_one_more(bob, 1))),
                ("double", archive(ada=ada.astype(float))), ("large labels", archive(y=y + 100)),
                ("text", archive(ada=ada.astype("U3")))]

    def test_archives(self):
        for packed in (False, True):
            data = npz(packed, y=self.y, ada=self.p[0], bob=self.p[1])
            path = self.write("all.npz", data)
            others = {path: [*self.of_archive(packed), *junk(data)]}
            self.attack(self.fit_of(path + "#ada", path + "#bob", labels=path + "#y"), others, least=4)
            self.attack(["evaluate", path + "#ada", "-l", path + "#y", "--json"], others, least=3)
            self.attack(["folds", "-l", path + "#y", "-o", os.path.join(self.out, "f.npy")], others)

    def test_tensors(self):
        def file_of(*arrays):
            kinds = {"<f4": "F32", "<i4": "I32", "<f8": "F64"}
            return tensors.save([(name, kinds[a.dtype.str], a.shape, np.ascontiguousarray(a).tobytes()) for name, a in arrays])

        y, (ada, bob) = self.y, self.p
        data = file_of(("y", y), ("ada", ada), ("bob", bob))
        path = self.write("all.safetensors", data)
        others = [("turned", file_of(("y", y[::-1]), ("ada", ada[::-1]), ("bob", bob[::-1]))),
                  ("members exchanged", file_of(("y", y), ("ada", bob), ("bob", ada))),
                  ("without a member", file_of(("y", y), ("ada", ada))), ("without labels", file_of(("ada", ada), ("bob", bob))),
                  ("wider", file_of(("y", y), ("ada", with_one_more(ada, 1)), ("bob", bob))),
                  ("more rows", file_of(("y", y), ("ada", np.concatenate([ada] * 7)), ("bob", bob))),
                  ("double", file_of(("y", y), ("ada", ada.astype(float)), ("bob", bob))), *junk(data)]
        self.attack(self.fit_of(path + "#ada", path + "#bob", labels=path + "#y"), {path: others}, least=4)

    def test_tables(self):
        names = "id,p0,p1,p2"
        ids = [f"row{i}" for i in range(self.rows)]
        data = table(self.p[0], names, ids)
        ada = self.write("ada.csv", data)
        bob = self.write("bob.csv", table(self.p[1], names, ids))
        y = self.write("y.csv", table(self.y, "id,label", ids))
        p = self.p[0]
        others = [("turned", table(p[::-1], names, ids)), ("other order", table(p[::-1], names, ids[::-1])),
                  ("without ids", table(p, "p0,p1,p2")), ("without names", table(p)), ("fewer rows", table(p[:-1], names, ids)),
                  ("more rows", table(np.concatenate([p, p]), names, ids + [f"x{i}" for i in ids])),
                  ("the same id twice", table(p, names, [ids[0], *ids[:-1]])), ("wider", table(with_one_more(p, 1), names + ",p3", ids)),
                  ("header alone", names.encode() + b"\n"), *junk(data)]
        labels = [("turned", table(self.y[::-1], "id,label", ids)), ("other order", table(self.y[::-1], "id,label", ids[::-1])),
                  ("without ids", table(self.y, "label")), ("large", table(self.y + 50, "id,label", ids)),
                  ("fewer", table(self.y[:-1], "id,label", ids)), *junk(self.read(y))]
        self.attack(self.fit_of(ada, bob, labels=y), {ada: others, y: labels})
        plain = self.write("plain.csv", table(p))
        second = self.write("second.csv", table(self.p[1]))
        self.attack(self.fit_of(plain, second, labels=self.path("oof_labels.npy")), {plain: others, second: others})

    def test_a_name_without_extension(self):
        """Its first bytes say what it is."""
        manifest = {**self.manifest, "models": [{"name": n, "predictions": {"oof": n}} for n in ("one", "two")],
                    "splits": {"oof": {"labels": "oof_labels.npy"}}}
        one = self.write("one", table(self.p[0]))
        two = self.write("two", npy(self.p[1]))
        pool = self.write("other_pool.json", json.dumps(manifest).encode())
        others = [("a table", table(self.p[0][::-1])), ("an array", npy(self.p[0])), ("a table with ids", table(
            self.p[0], "id,p0,p1,p2", range(self.rows))), *arrays_in(self.p[0], npy), *junk(self.read(one))]
        self.attack(["inspect", pool, "--json"], {one: others, two: others})

    def test_folder(self):
        files = {"ada.oof.npy": npy(self.p[0]), "bob.oof.npy": npy(self.p[1]), "oof_labels.npy": npy(self.y)}
        pool = self.write("folder", files)
        others = [("fewer", {name: files[name] for name in ("ada.oof.npy", "oof_labels.npy")}), ("none", {}), ("a file", b"x"),
                  ("turned", {name: npy(as_npy(data)[::-1]) for name, data in files.items()}), ("removed", None),
                  ("wider", {**files, "ada.oof.npy": npy(with_one_more(self.p[0], 1))})]
        self.attack(["inspect", pool, "--json"], {pool: others})


class Regression(Replaced):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(6)
        self.targets = rng.normal(size=self.rows)
        self.save("t.npy", self.targets)
        self.files = [self.save(f"{n}.npy", (self.targets + 0.5 * rng.normal(size=self.rows)).astype(np.float32)) for n in "ab"]
        self.works("fit", "--task", "regression", "-l", self.path("t.npy"), *self.files, "-o", self.model, "--set", "folds.count=2")

    def test_fit_and_predict(self):
        self.attack(["fit", "--task", "regression", "-l", self.path("t.npy"), *self.files, "--json", "-o",
                     os.path.join(self.out, "m.cstack"), "--set", "folds.count=2"], self.of_npy("t.npy", "a.npy", "b.npy"))
        names = [os.path.join(self.out, name) for name in ("p.npy", "v.npy", "i.npy")]
        self.attack(["predict", self.model, *self.files, "--task", "regression", "-o", names[0], "--variance", names[1],
                     "--intervals", names[2]], self.of_npy("a.npy", "b.npy"))

    def test_scores(self):
        self.attack(["evaluate", self.files[0], "--task", "regression", "-l", self.path("t.npy"), "--json"],
                    self.of_npy("a.npy", "t.npy"))
        self.attack(["compare", "--task", "regression", "-l", self.path("t.npy"), *self.files, "--methods", "average", "-r", "0",
                     "--json"], self.of_npy("a.npy", "t.npy"))
        self.attack(["folds", "--task", "regression", "-l", self.path("t.npy"), "-o", os.path.join(self.out, "f.npy")],
                    self.of_npy("t.npy"))


class Segmentation(Replaced):
    """Masks and maps as arrays, classes last and first, and as folders with a file for each case."""

    def setUp(self):
        super().setUp()
        self.make_maps(5, 6)
        self.masks = np.load(self.path("masks.npy"))
        self.maps = {name: np.load(self.path(f"{name}.npy")) for name in "ab"}

    def fit_of(self):
        return ["fit", self.pool, "-o", os.path.join(self.out, "m.cstack"), "--json", "--preset", "prototype"]

    def test_arrays(self):
        self.attack(self.fit_of(), self.of_npy("masks.npy", "a.npy", "b.npy"))
        self.attack(["evaluate", self.model, self.pool, "--split", "oof", "--json"], self.of_npy("masks.npy", "a.npy"))
        self.attack(["predict", self.model, self.pool, "--split", "oof", "-o", os.path.join(self.out, "maps")],
                    self.of_npy("a.npy"))
        self.attack(["evaluate", self.path("a.npy"), "--labels", self.path("masks.npy"), "--task", "segmentation", "--classes",
                     "3", "--json"], self.of_npy("a.npy", "masks.npy"))
        self.attack(["compare", self.pool, "--methods", "average", "-r", "0", "--json"], self.of_npy("a.npy", "masks.npy"))

    def test_label_maps(self):
        """Predicted labels instead of probabilities: one array, and a PNG for each case."""
        self.save("labels.npy", np.flip(self.masks, 0))
        for name, masks in (("masks", self.masks), ("labels", np.flip(self.masks, 0))):
            os.mkdir(self.path(name))
            for i, mask in enumerate(masks):
                write_png(self.path(f"{name}/case{i}.png"), mask)
        more = ["--task", "segmentation", "--classes", "3", "--json"]
        self.attack(["evaluate", self.path("labels.npy"), "--labels", self.path("masks.npy"), *more],
                    self.of_npy("labels.npy", "masks.npy"))
        one = self.path("labels/case2.png")
        others = [(name, self.png(array)) for name, array in (
            ("wider", with_one_more(self.masks[2], 1)), ("as many pixels", self.masks[2].reshape(9, 4)),
            ("large", np.tile(self.masks[2], (7, 7))), ("turned", self.masks[2][::-1]), ("labels beyond", self.masks[2] + 9))]
        folder = self.content(self.path("labels"))
        folders = [("fewer", {name: folder[name] for name in list(folder)[1:]}), ("other names", {"x" + n: b for n, b in folder.items()}),
                   ("none", {}), ("wider", {name: others[0][1] for name in folder})]
        self.attack(["evaluate", self.path("labels"), "--labels", self.path("masks"), *more],
                    {one: [*others, *junk(self.read(one))], self.path("labels"): folders})

    def png(self, array):
        write_png(self.path("made.png"), np.asarray(array))
        return self.read(self.path("made.png"))

    def test_classes_first(self):
        for name, array in self.maps.items():
            self.save(f"{name}.npy", np.moveaxis(array, -1, 1))
        self.attack(self.fit_of(), self.of_npy("a.npy", "b.npy"))
        archive = self.write("a.npz", npz(p=np.moveaxis(self.maps["a"], -1, 1)))
        self.manifest["models"][0]["predictions"]["oof"] = "a.npz"
        self.write_manifest()
        others = [*arrays_in(as_npy(self.read(self.path("a.npy"))), lambda a: npz(p=a)), *junk(self.read(archive)),
                  ("packed", npz(True, p=self.maps["a"])), ("two arrays", npz(p=self.maps["a"], q=self.masks))]
        self.attack(self.fit_of(), {archive: others})
        self.attack(["predict", self.model, self.pool, "--split", "oof", "-o", os.path.join(self.out, "maps")], {archive: others})

    def test_maps_without_masks(self):
        """The first member says what the cases are."""
        self.manifest["splits"] = {"oof": {"labels": "masks.npy"}, "test": {}}
        for model in self.manifest["models"]:
            model["predictions"]["test"] = model["predictions"]["oof"]
        self.write_manifest()
        self.attack(["predict", self.model, self.pool, "--split", "test", "-o", os.path.join(self.out, "maps")],
                    self.of_npy("a.npy", "b.npy"))

    def test_folders(self):
        cases = {f"case{i}": i for i in range(5)}
        os.mkdir(self.path("masks"))
        for name, i in cases.items():
            write_png(self.path(f"masks/{name}.png"), self.masks[i])
        for name, array in self.maps.items():
            self.write(name, {f"{case}.npy": npy(np.moveaxis(array[i], -1, 0)) for case, i in cases.items()})
        self.manifest["splits"]["oof"]["labels"] = "masks"
        for model in self.manifest["models"]:
            model["predictions"]["oof"] = model["name"]
        self.write_manifest()

        png = self.png
        mask = self.masks[1]
        mask_path = self.path("masks/case1.png")
        pngs = [("wider", png(with_one_more(mask, 1))), ("as many pixels", png(mask.reshape(4, 9))), ("large", png(np.tile(mask, (9, 9)))),
                ("turned", png(mask[::-1])), ("small", png(mask[:2, :2])), ("labels beyond", png(mask + 100)),
                *junk(self.read(mask_path))]
        data = self.content(self.path("a"))
        some = {name: data[name] for name in list(data)[:3]}
        folders = [("fewer cases", some), ("other names", {"x" + name: b for name, b in data.items()}), ("none", {}),
                   ("a file", data["case0.npy"]), ("removed", None),
                   ("other sizes", {name: npy(with_one_more(as_npy(b), 1)) for name, b in data.items()}),
                   ("packed", {name[:-1] + "z": npz(True, probabilities=as_npy(b)) for name, b in data.items()})]
        for command in (self.fit_of(), ["evaluate", self.model, self.pool, "--split", "oof", "--json"],
                        ["evaluate", self.path("a"), "--labels", self.path("masks"), "--task", "segmentation", "--classes", "3",
                         "--json"]):
            self.attack(command, {mask_path: pngs, **self.of_npy("a/case1.npy"), self.path("a"): folders})


@unittest.skipUnless(LONG, "a second or so for each run")
class OnDisk(Replaced):
    """Predictions beyond their share of the memory budget stay on disk."""

    def test_maps(self):
        self.make_maps(5, 6)
        rng = np.random.default_rng(1)
        for name in "ab":
            scores = rng.random((6, 512, 512, 3), dtype=np.float32)
            self.save(f"{name}.npy", scores / scores.sum(-1, keepdims=True))
        self.manifest["splits"]["test"] = {}
        for model in self.manifest["models"]:
            model["predictions"]["test"] = model["predictions"]["oof"]
        self.write_manifest()
        predict = ["predict", self.model, self.pool, "--split", "test", "--memory", "64MiB", "-o", os.path.join(self.out, "maps")]
        for first in (False, True):
            for name in "ab" if first else ():
                self.save(f"{name}.npy", np.moveaxis(np.load(self.path(f"{name}.npy")), -1, 1))
            array = np.load(self.path("b.npy"))
            others = [("wider", npy(with_one_more(array, 2))), ("more cases", npy(with_one_more(array, 0))),
                      ("fewer cases", npy(array[:4])), ("turned", npy(array[::-1])), ("Fortran order", npy(np.asfortranarray(array))),
                      ("classes moved", npy(np.moveaxis(array, 1 if first else -1, -1 if first else 1)))]
            self.attack(predict, {self.path("b.npy"): [*others, *junk(npy(array[:1]))]}, least=2)

    def test_tables_of_numbers(self):
        rows = 200_000
        p = np.random.default_rng(1).random((rows, 12), dtype=np.float32)
        p /= p.sum(1, keepdims=True)
        labels = self.save("y.npy", np.arange(rows) % 12)
        files = [self.save(f"{name}.npy", np.asfortranarray(p[::-1]) if name == "d" else p) for name in "abcd"]
        others = [("more rows", npy(np.concatenate([p, p]))), ("fewer rows", npy(p[:-1])), ("wider", npy(with_one_more(p, 1))),
                  ("Fortran order", npy(np.asfortranarray(p))), *junk(npy(p[:9]))]
        self.attack(["evaluate", *files[:1], "-l", labels, "--json", "--memory", "64MiB"], {files[0]: others})
        self.attack(["compare", *files, "-l", labels, "--methods", "average", "-r", "0", "--json", "--memory", "64MiB"],
                    {files[0]: others, files[3]: others}, least=2)


class Detection(Replaced):
    def test_commands(self):
        others = {}
        for name, images, shift, results in (("gt.json", 6, 0, False), ("a.json", 6, 1, True), ("b.json", 6, 2, True)):
            path = self.write(name, coco(images, shift, results))
            others[path] = [("fewer images", coco(images - 2, shift, results)), ("more images", coco(images + 9, shift, results)),
                            ("moved", coco(images, shift + 3, results)), ("more categories", coco(images, shift, results, 3)),
                            ("one category", coco(images, shift, results, 1)), ("the other kind", coco(images, shift, not results)),
                            *junk(self.read(path))]
        self.manifest = {"corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
                         "models": [{"name": n, "predictions": {"oof": f"{n}.json"}} for n in "ab"]}
        self.write_manifest()
        self.fit()
        self.attack(["fit", self.pool, "-o", os.path.join(self.out, "m.cstack"), "--json"], others)
        self.attack(["predict", self.model, self.pool, "--split", "oof", "-o", os.path.join(self.out, "p.json")],
                    {self.path("a.json"): others[self.path("a.json")]})
        self.attack(["evaluate", self.model, self.pool, "--split", "oof", "--json"], others)
        self.attack(["evaluate", self.path("a.json"), "--annotations", self.path("gt.json"), "--json"],
                    {path: others[path] for path in (self.path("a.json"), self.path("gt.json"))})
        self.attack(["compare", self.pool, "--methods", "average", "-r", "0", "--json"], others)


class Weights(Replaced):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)
        self.files = [self.write(f"epoch{i}.safetensors", self.checkpoint()) for i in range(4)]

    def checkpoint(self, rows=3, columns=5, bias="bias", **more):
        return tensors.save([("weight", "F32", (rows, columns), self.rng.normal(size=rows * columns).astype("f4").tobytes()),
                             (bias, "F32", (rows,), self.rng.normal(size=rows).astype("f4").tobytes())], **more)

    def of(self, *paths):
        return {path: [("other weights", self.checkpoint()), ("wider", self.checkpoint(columns=6)),
                       ("many rows", self.checkpoint(rows=40)), ("another name", self.checkpoint(bias="shift")),
                       *junk(self.read(path))] for path in paths}

    def test_averages(self):
        out = os.path.join(self.out, "average.safetensors")
        self.attack(["soup", "uniform", *self.files, "-o", out, "--json"], self.of(*self.files[:2]))
        self.attack(["swa", *self.files, "-o", out, "--json"], self.of(*self.files[:2]))
        part = self.path("part.safetensors")
        other = self.path("less.safetensors")
        self.works("swa", *self.files[:2], "-o", part)
        self.works("swa", *self.files[:1], "-o", other)
        of_part = self.of(part)
        of_part[part].insert(0, ("another average", self.read(other)))
        self.attack(["swa", *self.files[2:], "--from", part, "-o", out, "--json"], {**of_part, **self.of(self.files[3])})

    def test_swag(self):
        out = os.path.join(self.out, "swag.safetensors")
        self.attack(["swag", "fit", *self.files, "-o", out, "--rank", "2", "--json"], self.of(*self.files[:2]))
        swag = self.path("swag.safetensors")
        other = self.path("other.safetensors")
        self.works("swag", "fit", *self.files, "-o", swag, "--rank", "2")
        self.works("swag", "fit", *self.files[:3], "-o", other, "--rank", "2")
        others = self.of(swag)
        others[swag].insert(0, ("another distribution", self.read(other)))
        self.attack(["swag", "sample", swag, "-n", "2", "--json", "-o", os.path.join(self.out, "samples")], others)

    def test_soup(self):
        inputs = self.rng.normal(size=(20, 5))
        self.write("x.f64", np.array(inputs.shape, np.int64).tobytes() + inputs.tobytes())
        self.save("y.npy", np.arange(20, dtype=np.int32) % 3)
        hook = f"env -u LD_PRELOAD {HOOK} {self.path('x.f64')}"
        self.attack(["soup", "greedy", *self.files[:3], "--eval", hook, "--labels", self.path("y.npy"), "-o",
                     os.path.join(self.out, "soup.safetensors"), "--json"],
                    {**self.of(self.files[0]), **self.of_npy("y.npy")})


class Races(PoolCase):
    """Another process gives two files each other's name while ordinary fits run."""

    def race(self, arguments, paths, other):
        """Every fit is refused in one line, or of one of the two files."""
        out = self.path("race.cstack")
        beside = self.path("beside")
        good = set()
        first = self.read(paths)
        for data in (other, first):
            self.put_in_place(paths, data)
            result = run(*arguments, "-o", out)
            if result.code == 0:
                good.add(self.read(out))
        stop = threading.Event()

        def rename():
            current = [first, other]
            while not stop.is_set():
                current.reverse()
                with open(beside, "wb") as file:
                    file.write(current[0])
                os.replace(beside, paths)
                time.sleep(0.0005)

        thread = threading.Thread(target=rename)
        thread.start()
        try:
            codes = []
            for _ in range(RACES):
                if os.path.exists(out):
                    os.remove(out)
                result = run(*arguments, "-o", out)
                codes.append(result.code)
                self.assertIn(result.code, (0, 2), result.err)
                if result.code == 0:
                    self.assertIn(self.read(out), good)
                else:
                    self.assertEqual(result.err.count("\n"), 1, result.err)
                    self.assertFalse(os.path.exists(out))
        finally:
            stop.set()
            thread.join()
        return codes

    def put_in_place(self, path, data):
        with open(self.path("beside"), "wb") as file:
            file.write(data)
        os.replace(self.path("beside"), path)

    def test_maps(self):
        self.make_maps(6, 16)
        for name in "ab":
            self.save(f"{name}.npy", np.moveaxis(np.load(self.path(f"{name}.npy")), -1, 1))
        wide = np.concatenate([np.load(self.path("a.npy"))] * 6, -1)
        codes = self.race(["fit", self.pool, "--preset", "prototype", "-q"], self.path("a.npy"), npy(wide))
        self.assertIn(2, codes)

    def test_archive(self):
        y, ada, bob = self.labels["oof"], self.members["ada", "oof"], self.members["bob", "oof"]
        path = self.path("all.npz")
        np.savez(path, y=y, ada=ada, bob=bob)
        turned = npz(y=y[::-1], ada=ada[::-1], bob=bob[::-1])
        self.race(["fit", path + "#ada", path + "#bob", "-l", path + "#y", "-q", "--set", "folds.count=2"], path, turned)


if __name__ == "__main__":
    unittest.main()
