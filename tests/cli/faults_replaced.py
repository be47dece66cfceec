"""Input files that are replaced or overwritten while a command runs (tests/faults/io_fault.c), under AddressSanitizer.

Memory must stay safe: the command ends with exit status 0, or 2 or 3 and one line. Which file a result is of is not checked."""

import gzip
import io
import json
import os
import random
import shutil
import unittest

import numpy as np

from support import PoolCase, run

LIBRARY = os.environ["CORESTACK_IO_FAULT"]
LONG = bool(os.environ.get("CORESTACK_LONG"))
EACH = 12 if LONG else 1  # other files tried at each opening
PLACES = None if LONG else 4  # openings of each file


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def tensors(**arrays):
    header, content = {}, b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        kind = {"<f4": "F32", "<i4": "I32", "<f8": "F64"}[array.dtype.str]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(content), len(content) + len(data)]}
        content += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def table(array, ids):
    rows = (",".join([f"row{i}", *(f"{x:.9g}" for x in np.atleast_1d(row))]) for i, row in zip(ids, array))
    return ("\n".join(["id," + ",".join(f"p{c}" for c in range(np.atleast_2d(array).shape[1])), *rows]) + "\n").encode()


def coco(images, results, categories=2):
    rng, noise = np.random.default_rng(8), np.random.default_rng(images)
    found = []
    for image in range(images):
        for k in range(3):
            x, y = rng.uniform(0, 60, 2) + results * noise.normal(0, 6, 2)
            box = [round(float(value), 3) for value in (x, y, 20, 20)]
            found.append({"image_id": image + 1, "category_id": k % categories + 1, "bbox": box})
            found[-1].update({"score": 0.1 + 0.2 * k} if results else {"id": len(found), "area": 400, "iscrowd": 0})
    if results:
        return json.dumps(found).encode()
    return json.dumps({"images": [{"id": i + 1, "width": 100, "height": 100} for i in range(images)], "annotations": found,
                       "categories": [{"id": c + 1, "name": f"c{c}"} for c in range(categories)]}).encode()


def others_of(array, write):
    """The array with other shapes, orders and types."""
    for axis in range(array.ndim):
        yield write(np.concatenate([array] * 5, axis))
        yield write(np.take(array, range(array.shape[axis] - 1), axis))
        yield write(np.take(array, [], axis))
    yield write(array.T)
    yield write(np.moveaxis(array, -1, 0))
    yield write(array.ravel())
    yield write(array[None])
    yield write(array.astype(np.float64))
    yield write(array + array.dtype.type(300))


def junk(data):
    """What may be there in place of any file. None: nothing; a dict: a folder."""
    return [None, b"", {}, b"a,b\n1,2\n", data[:len(data) // 2], data[:-1], data + data, b"\xff" * len(data), bytes(len(data))]


class Replaced(PoolCase):
    rows, test_rows = 40, 24

    def put(self, path, data):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)  # other names of the file keep their content
        if isinstance(data, dict):
            os.mkdir(path)
        elif data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def run_with(self, arguments, path, fault, other):
        count = self.path("count")
        env = {"LD_PRELOAD": LIBRARY, "CST_IO_FAULT": fault, "CST_IO_UNDER": path, "CST_IO_COUNT": count,
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        if other is not None:
            env["CST_IO_OTHER"] = other
        result = run(*arguments, env=env)
        return result, int(self.read(count))

    def attack(self, arguments, others):
        """others: for each path, what replaces it."""
        for path, made in others.items():
            data = self.read(path)
            made = [*made, *junk(data)]
            chosen = random.Random(os.path.basename(path) + arguments[0])
            good, opened = self.run_with(arguments, path, "open=none:0", None)
            self.assertEqual(good.code, 0, good.err)
            self.assertGreater(opened, 0, f"{arguments[0]} does not open {path}")
            places = range(opened)
            if PLACES and opened > PLACES:
                places = sorted(chosen.sample(places, PLACES))
            faults = [("open=replace", n) for n in places] + [("read=write", 1)]
            for fault, n in faults:
                usable = [m for m in made if fault == "open=replace" or isinstance(m, bytes)]
                for other in chosen.sample(usable, min(EACH, len(usable))):
                    with self.subTest(command=arguments[0], file=os.path.basename(path), fault=fault, place=n):
                        self.check(arguments, path, data, f"{fault}:{n}", other)
            self.put(path, data)

    def check(self, arguments, path, data, fault, other):
        self.put(path, data)
        self.put(path + ".beside", None)
        place = self.put(self.path("other"), other)
        result, _ = self.run_with(arguments, path, fault, place if other is not None else None)
        self.assertNotIn("Sanitizer", result.err)
        self.assertNotIn("runtime error", result.err)
        self.assertIn(result.code, (0, 2, 3), result.err)
        if result.code != 0:
            self.assertEqual(result.err.count("\n"), 1, result.err)

    def fit_of(self, *files):
        return ["fit", *files, "-q", "-o", self.path("m.cstack"), "--set", "folds.count=2"]

    def of_npy(self, *names):
        return {self.path(name): others_of(np.load(self.path(name)), npy) for name in names}

    def test_arrays(self):
        self.attack(self.fit_of(self.pool), {**self.of_npy("oof_labels.npy", "ada.oof.npy"), self.pool: []})
        self.fit("--set", "folds.count=2")
        self.attack(["predict", self.model, self.pool, "--split", "test", "-o", self.path("p.npy")],
                    {**self.of_npy("ada.test.npy"), self.model: []})
        self.attack(["evaluate", self.model, self.pool, "--split", "test", "--json"],
                    self.of_npy("ada.oof.npy", "test_labels.npy"))

    def test_containers(self):
        y, (ada, bob) = self.labels["oof"].astype(np.int32), [self.members[name, "oof"] for name in ("ada", "bob")]
        for name, write in (("all.npz", npz), ("all.safetensors", tensors)):
            path = self.put(self.path(name), write(y=y, ada=ada, bob=bob))
            others = [*others_of(ada, lambda array, write=write: write(y=y, ada=array, bob=bob)), write(bob=bob, ada=ada, y=y),
                      write(y=y, bob=bob), write(y=np.tile(y, 9), ada=np.tile(ada, (9, 1)), bob=bob)]
            self.attack(self.fit_of(path + "#ada", path + "#bob", "-l", path + "#y"), {path: others})

    def test_tables(self):
        ids = range(self.rows)
        ada, bob = [self.members[name, "oof"] for name in ("ada", "bob")]
        others = [table(ada, reversed(ids)), table(ada[:-1], ids), table(np.tile(ada, (1, 2)), ids),
                  table(np.tile(ada, (2, 1)), range(2 * self.rows)), table(ada, [0, *range(self.rows - 1)])]
        files = [self.put(self.path("ada.csv"), table(ada, ids)), self.put(self.path("bob.csv.gz"), gzip.compress(table(bob, ids)))]
        y = self.put(self.path("y.csv"), table(self.labels["oof"][:, None], ids))
        self.attack(self.fit_of(*files, "-l", y), {files[0]: others, files[1]: map(gzip.compress, others), y: others})

    def test_segmentation(self):
        self.make_maps(5, 6)
        self.attack(self.fit_of(self.pool), self.of_npy("masks.npy", "a.npy"))
        self.attack(["predict", self.model, self.pool, "--split", "oof", "-o", self.path("p.npy")], self.of_npy("a.npy"))
        self.attack(["evaluate", self.path("a.npy"), "--labels", self.path("masks.npy"), "--task", "segmentation", "--classes",
                     "3", "--json"], self.of_npy("a.npy", "masks.npy"))

    def test_detection(self):
        files = {name: self.put(self.path(name), coco(6, results)) for name, results in
                 (("gt.json", False), ("a.json", True), ("b.json", True))}
        self.manifest = {"corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
                         "models": [{"name": n, "predictions": {"oof": f"{n}.json"}} for n in "ab"]}
        self.write_manifest()
        others = {files[name]: [coco(4, results), coco(15, results), coco(6, results, 3), coco(6, not results)]
                  for name, results in (("gt.json", False), ("a.json", True))}
        self.attack(self.fit_of(self.pool), others)


if __name__ == "__main__":
    unittest.main()
