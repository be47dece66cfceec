"""Predictions as tensors: the same models and predictions to the byte as from npy files."""

import importlib.util
import os
import unittest

import numpy as np

import support

spec = importlib.util.spec_from_file_location(
    "safetensors_format", os.path.join(support.SOURCES, "tests", "oracles", "safetensors_format.py")
)
tensors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tensors)
TYPES = {"f4": "F32", "f2": "F16", "f8": "F64", "i4": "I32", "i8": "I64"}


def save(path, arrays):
    """Writes arrays by the test's own writer."""
    with open(path, "wb") as file:
        file.write(tensors.save([(n, TYPES[a.dtype.str[1:]], a.shape, a.tobytes()) for n, a in arrays.items()]))


class Tensors(support.PoolCase):
    def use(self, kind):
        """Rewrites the pool's files in a type, and names tensors instead of them."""
        arrays = {}
        for (name, split), values in self.members.items():
            values = values.astype(kind)
            self.save(f"{name}.{split}.npy", values)
            arrays[f"{name}.{split}"] = values
        self.fit()
        wanted = self.read(self.model)
        self.works("predict", self.model, self.pool, "--split", "test", "-o", self.path("npy.npy"))
        for split, labels in self.labels.items():
            arrays[f"y.{split}"] = labels
        save(self.path("all.safetensors"), arrays)
        for split in ("oof", "test"):
            self.manifest["splits"][split]["labels"] = f"all.safetensors#y.{split}"
            for model in self.manifest["models"]:
                model["predictions"][split] = f"all.safetensors#{model['name']}.{split}"
        self.write_manifest()
        return wanted

    def test_the_same_bytes(self):
        for kind in ("f4", "f2", "f8"):
            self.setUp()
            wanted = self.use(kind)
            self.fit()
            self.assertEqual(self.read(self.model), wanted)
            out = self.path("tensors.npy")
            self.works("predict", self.model, self.pool, "--split", "test", "-o", out)
            self.assertEqual(self.read(out), self.read(self.path("npy.npy")))

    def test_files_without_a_manifest(self):
        self.use("f4")
        file = self.path("all.safetensors")
        names = [f"{file}#{name}.oof" for name in ("ada", "bob", "cyd")]
        self.works("fit", "--labels", f"{file}#y.oof", *names, "-o", self.model)
        arrays = [self.path(f"{name}.oof.npy") for name in ("ada", "bob", "cyd")]
        other = self.path("other.cstack")
        self.works("fit", "--labels", self.path("oof_labels.npy"), *arrays, "-o", other)
        self.assertEqual(self.read(self.model), self.read(other))
        one = self.path("one.safetensors")
        save(one, {"only": self.members["bob", "test"]})
        for given in (one, f"{one}#only", f"{file}#bob.test"):
            scores = self.works("evaluate", given, "--labels", f"{file}#y.test", "--json").json()
            self.assertEqual(scores["samples"], self.test_rows)
        self.fails("evaluate", file, "--labels", f"{file}#y.test", says=("choose one with FILE.safetensors#NAME",))
        self.fails("fit", "--labels", f"{file}#y.oof", *names, "-o", file, says=("this is", "an input of the command"))
        self.fails("evaluate", f"{file}#dan", "--labels", f"{file}#y.test", says=("has no tensor 'dan'",))

    def test_a_folder(self):
        for name in ("pool.json", "oof_labels.npy", "test_labels.npy"):
            os.unlink(self.path(name))
        for (name, split), values in self.members.items():
            os.unlink(self.path(f"{name}.{split}.npy"))
            save(self.path(f"{name}.{split}.safetensors"), {"p": values})
        save(self.path("labels.oof.safetensors"), {"y": self.labels["oof"]})
        found = self.works("inspect", self.folder, "--json").json()
        self.assertEqual(found["models"], ["ada", "bob", "cyd"])

    def test_broken_files(self):
        self.use("f4")
        whole = self.read(self.path("all.safetensors"))
        for content, says in ((whole[:-1], "truncated"), (whole + b"\0", "belong to no tensor"), (whole[:7], "an 8-byte length")):
            with open(self.path("all.safetensors"), "wb") as file:
                file.write(content)
            self.fit_fails("all.safetensors", says)

    def test_a_file_outside_the_folder(self):
        self.manifest["models"][0]["predictions"]["oof"] = "../all.safetensors#a"
        self.write_manifest()
        self.fit_fails("refers to a file outside the folder of the manifest")


if __name__ == "__main__":
    unittest.main()
