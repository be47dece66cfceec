"""Rows in several files: lists in a manifest and folders of parts give the same bytes as single files."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from support import SOURCES, TOOL, PoolCase, run, slow, small
from test_ranks import MPI_TOOL, RankCase

NOT_NESTED = ("--set", "evaluate.nested=false")
SIDES = ("labels", "targets", "ids", "folds", "groups", "weights", "domains")


def write_safetensors(path, name, array):
    types = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "int32": "I32"}
    header = json.dumps({name: {"dtype": types[str(array.dtype)], "shape": array.shape, "data_offsets": [0, array.nbytes]}}).encode()
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + array.tobytes())


def write_part(folder, stem, form, array):
    """One part; returns its name in a manifest."""
    name = f"{stem}.{form.split('-')[0]}"
    path = os.path.join(folder, name)
    if form == "npy-fortran":
        np.save(path, np.asfortranarray(array))
    elif form == "npy":
        np.save(path, array)
    elif form == "npy-wide":
        np.save(path, array.astype(np.float64))
    elif form == "npz":
        np.savez_compressed(path, probs=array)
        return name + "#probs"
    elif form == "safetensors":
        write_safetensors(path, "probs", np.ascontiguousarray(array))
        return name + "#probs"
    else:
        with open(path, "w", encoding="utf-8") as file:
            for row in array.reshape(len(array), -1):
                file.write(",".join("%.17g" % v if array.dtype.kind == "f" else str(v) for v in row) + "\n")
    return name


def read(path):
    with open(path, "rb") as file:
        return file.read()


def into_parts(source, target, forms, seed=1):
    """A copy of a pool whose files of rows are all in parts, cut at rows that differ from file to file. Text stays npy."""
    rng = np.random.default_rng(seed)
    with open(os.path.join(source, "pool.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    count = 0

    def divide(name):
        nonlocal count
        array = np.load(os.path.join(source, name))
        count += 1
        parts = int(rng.integers(2, 13))
        cuts = np.sort(rng.choice(np.arange(1, len(array)), parts - 1, replace=False))
        form = forms[count % len(forms)] if array.dtype.kind == "f" and array.ndim == 2 else "npy"
        mixed = {"mixed": ("npy", "safetensors", "npy-wide", "npz", "npy-fortran")}.get(form, (form,))
        folder = f"files{count}"
        os.mkdir(os.path.join(target, folder))
        names = [
            write_part(os.path.join(target, folder), f"part-{k}", mixed[k % len(mixed)], part) for k, part in enumerate(np.split(array, cuts))
        ]
        if len(set(mixed)) == 1 and count % 2 == 0:
            open(os.path.join(target, folder, ".hidden.csv"), "w", encoding="utf-8").close()
            return folder + "/"
        return [f"{folder}/{name}" for name in names]

    for split in manifest["splits"].values():
        for key in SIDES:
            if key in split:
                split[key] = divide(split[key])
    for model in manifest["models"]:
        for split, name in model["predictions"].items():
            model["predictions"][split] = divide(name)
    with open(os.path.join(target, "pool.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    return os.path.join(target, "pool.json")


class SameBytes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-parts-")
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, task, forms, *more):
        source = os.path.dirname(small(task, 5, 3))
        pool = into_parts(source, self.folder, forms)
        files = {}
        for name, where in (("one", os.path.join(source, "pool.json")), ("parts", pool)):
            model, out = (os.path.join(self.folder, name + end) for end in (".cstack", ".npy"))
            for line in (("fit", where, "-o", model, *NOT_NESTED), ("predict", model, where, "--split", "test", "-o", out)):
                result = run(*line, *more)
                self.assertEqual(result.code, 0, result.err)
            files[name] = [read(path) for path in (model, out)]
        self.assertEqual(files["one"], files["parts"])

    def test_arrays_of_any_kind(self):
        self.check("digits", ("npy", "mixed", "safetensors"))

    @slow
    def test_tables_and_archives(self):
        self.check("digits", ("csv", "npz"))
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        self.check("concrete", ("npy", "mixed"))


class Ranks(RankCase):
    @slow
    def test_same_bytes(self):
        source = os.path.join(SOURCES, "examples", "digits", "pool.json")
        pool = into_parts(os.path.dirname(source), self.folder, ("npy", "mixed"))
        self.assertEqual(run("fit", source, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        for ranks in (1, 3):
            self.works(ranks, "fit", pool, "-o", f"of{ranks}", "--threads", 1, *NOT_NESTED)
            self.assertEqual(self.bytes_of(f"of{ranks}"), self.bytes_of("one"))


class Streamed(PoolCase):
    """More than the budget holds: parts are read where they are, also where few files may be open."""

    rows, test_rows, classes = 300000, 60, 8

    @slow
    def test_streamed(self):
        single = os.path.join(self.folder, "single")
        quick = ("--preset", "prototype", *NOT_NESTED, "--memory", "64MiB")
        self.works("fit", self.pool, "-o", single, *quick)
        for model in self.manifest["models"]:
            name = model["name"]
            folder = self.path(name)
            os.mkdir(folder)
            cuts = np.arange(1, 60) * 5000 + (len(name) + ord(name[0])) % 7
            for k, part in enumerate(np.split(self.members[name, "oof"], cuts)):
                np.save(os.path.join(folder, f"p{k}.npy"), part)
            model["predictions"]["oof"] = name
        labels = np.split(self.labels["oof"], [100, 250000])
        self.manifest["splits"]["oof"]["labels"] = [os.path.basename(self.save(f"y{k}.npy", part)) for k, part in enumerate(labels)]
        self.write_manifest()
        self.fit(*quick)
        self.assertEqual(read(single), read(self.model))
        words = f"ulimit -n 40; exec {TOOL} fit {self.pool} -o {self.model} {' '.join(quick)}"
        finished = subprocess.run(["sh", "-c", words], capture_output=True, check=False)
        self.assertEqual(finished.returncode, 0, finished.stderr.decode())
        self.assertEqual(read(single), read(self.model))


class Refused(PoolCase):
    """One clear line for parts that are no good."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("ada"))
        for k, part in enumerate(np.split(self.members["ada", "oof"], [50, 90])):
            self.save(f"ada/part-{k}.npy", part)
        self.parts = [f"ada/part-{k}.npy" for k in range(3)]
        self.use(self.parts)

    def use(self, value, key=None):
        if key:
            self.manifest["splits"]["oof"][key] = value
        else:
            self.manifest["models"][0]["predictions"]["oof"] = value
        self.write_manifest()

    def test_good_ones(self):
        self.fit()
        single = read(self.model)
        for value in ("ada", "ada/", {"path": "ada"}, {"path": self.parts}, "ada.oof.npy", ["ada.oof.npy"]):
            self.use(value)
            self.fit()
            self.assertEqual(single, read(self.model), value)
        for k in range(3):  # numbers are compared as numbers
            os.rename(self.path(self.parts[k]), self.path(f"ada/part-{8 + k}.npy"))
        self.use("ada")
        self.fit()
        self.assertEqual(single, read(self.model))

    def test_files(self):
        part = self.path(self.parts[1])
        good = read(part)
        os.remove(part)
        self.fit_fails("ada/part-1.npy: cannot open")
        for content, says in ((b"", "empty"), (good[:-8], "ada/part-1.npy"), (b"\x93NUMPX" + good[6:], "ada/part-1.npy")):
            with open(part, "wb") as file:
                file.write(content)
            self.fit_fails("ada/part-1.npy", says)
        for array, says in (
            (np.zeros((0, 3), np.float32), "has shape (0, 3), no rows; remove it"),
            (np.full((40, 4), 0.25), "shape (40, 4) does not match shape (50, 3) of"),
            (np.full(40, 0.25), "parts may differ only in the number of rows"),
            (np.full((40, 3), "x"), "contains strings, but"),
            (self.members["ada", "oof"][50:80], "shape (110, 3) "),
        ):
            self.save(self.parts[1], array)
            self.fit_fails(says)
        bad = self.members["ada", "oof"][50:90].copy()
        bad[7, 1] = np.nan
        self.save(self.parts[1], bad)
        self.fit_fails("ada/part-1.npy: row 7, column 1 is NaN")
        self.fit_fails("ada/part-1.npy: row 7, column 1 is NaN")
        bad[7] = 3
        self.save(self.parts[1], bad)
        self.fit_fails("ada/part-1.npy: row 7 sums to 9")

    def test_sides(self):
        self.save("y0.npy", self.labels["oof"][:100])
        self.save("y1.npy", np.append(self.labels["oof"][100:119], 3))
        self.use(["y0.npy", "y1.npy"], "labels")
        self.fit_fails("y1.npy: row 19 is label 3;")
        self.save("y1.npy", self.labels["oof"][100:])
        for key, bad in (("weights", -1.0), ("folds", -2)):
            values = np.arange(120) % 5
            values[110] = bad
            self.save("s0.npy", values[:99])
            self.save("s1.npy", values[99:])
            self.use(["s0.npy", "s1.npy"], key)
            self.fit_fails("s1.npy: row 11 is")
            del self.manifest["splits"]["oof"][key]

    def test_folders(self):
        os.mkdir(self.path("none"))
        self.use("none/")
        self.fit_fails("none/: the folder has no parts")
        self.use("nothing/")
        self.fit_fails("nothing/: ")
        self.save("ada/part-3.npz", self.labels["oof"])
        os.rename(self.path("ada/part-3.npz.npy"), self.path("ada/part-3.npz"))
        self.use("ada")
        self.fit_fails("different endings")
        os.rename(self.path("ada/part-3.npz"), self.path("ada/_SUCCESS"))
        self.fit_fails("_SUCCESS: is not a file of rows")

    def test_lists(self):
        for value, says in (
            ([], "models[0].predictions.oof must be a file name, or a list"),
            ([self.parts[0], 3], "models[0].predictions.oof[1] must be a file name"),
            ([self.parts[0], [self.parts[1]]], "models[0].predictions.oof[1] must be a file name"),
            ([self.parts[0], "../x.npy"], "models[0].predictions.oof[1] refers to a file outside"),
            ([self.parts[0], self.parts[1], self.parts[0]], "part 0 and part 2 are the same file"),
        ):
            self.use(value)
            self.fit_fails(says)
        os.remove(self.path(self.parts[2]))
        with tempfile.TemporaryDirectory() as outside:
            np.save(os.path.join(outside, "x.npy"), self.members["ada", "oof"][90:])
            os.symlink(os.path.join(outside, "x.npy"), self.path(self.parts[2]))
            for value in (self.parts, "ada"):
                self.use(value)
                self.fit_fails("ada/part-2.npy: is outside the folder")
            self.fit("--allow-outside")

    def test_one_file_by_two_names(self):
        """A link to a part, or another way to it, would stand for the rows that it replaced."""
        parts = [self.path(part) for part in self.parts]
        for k, part in enumerate(np.split(self.members["ada", "oof"], [40, 80])):
            self.save(self.parts[k], part)
        self.fit()
        self.use(["ada/part-0.npy", "ada/./part-0.npy", "ada/part-2.npy"])
        self.fit_fails("ada/part-0.npy and ", "ada/./part-0.npy are the same file by two names")
        for link in (os.link, os.symlink):
            os.remove(parts[1])
            link(parts[0], parts[1])
            for value in (self.parts, "ada"):
                self.use(value)
                self.fit_fails("ada/part-0.npy and ", "ada/part-1.npy are the same file by two names")
        np.savez(self.path("all.npz"), p=self.members["ada", "oof"][:60], q=self.members["ada", "oof"][60:])
        self.use(["all.npz#p", "all.npz#q"])  # two arrays of one file
        self.fit()
        ids = np.array([f"r{i}" for i in range(120)])
        self.save("ids0.npy", ids[:60])
        os.symlink("ids0.npy", self.path("ids1.npy"))
        self.use(["ids0.npy", "ids1.npy"], "ids")
        self.fit_fails("ids0.npy and ", "ids1.npy are the same file by two names")

    def test_tables(self):
        names = []
        for k, part in enumerate(np.split(self.members["ada", "oof"].astype(np.float64), [50, 90])):
            names.append(f"t{k}.csv")
            with open(self.path(names[k]), "w", encoding="utf-8") as file:
                file.write("id,0,1,2\n")
                for i, row in enumerate(part):
                    file.write(f"r{(0, 50, 90)[k] + i}," + ",".join("%.17g" % v for v in row) + "\n")
        ids = np.array([f"r{i}" for i in range(120)])
        self.save("ids0.npy", ids[:70])
        self.save("ids1.npy", ids[70:])
        self.fit()
        single = read(self.model)
        self.use(["ids0.npy", "ids1.npy"], "ids")
        self.use([names[1], names[0], names[2]])  # joined by id
        self.fit()
        self.assertEqual(single, read(self.model))
        text = read(self.path("t1.csv"))
        for change, says in (
            (text.replace(b"id,0,1,2", b"id,0,2,1"), "t1.csv: line 1 differs from that of"),
            (text[: text.index(b"\n") + 1], "t1.csv: has no rows"),
            (text.replace(b"\nr55,", b"\nr55,9"), "t1.csv: row 5 (line 7) sums to"),
            (text.replace(b"\nr55,", b"\n,"), "t1.csv: line 7, column 1 is empty"),
        ):
            with open(self.path("t1.csv"), "wb") as file:
                file.write(change)
            self.use(names)
            self.fit_fails(says)
        self.use([names[0], *self.parts[1:]])
        self.fit_fails("parts must be all tables or all arrays")

    def test_other_pools(self):
        self.manifest["splits"]["oof"]["conditions"] = [{"kind": "fog"}]
        self.write_manifest()
        self.fit_fails("is in parts, but split 'oof' has conditions")
        self.make_maps(6, 4)
        self.manifest["models"][0]["predictions"]["oof"] = ["a.npy", "b.npy"]
        self.write_manifest()
        self.fit_fails("is a list of files, which pools of task 'segmentation' do not support")


if __name__ == "__main__":
    unittest.main()
