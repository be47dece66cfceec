"""What users do without a thought: pipes into head, quiet runs, mistyped splits, files without --task."""

import os
import subprocess
import unittest

import numpy as np
from support import SOURCES, TIMEOUT, TOOL, PoolCase

CONCRETE = os.path.join(SOURCES, "examples", "concrete", "pool.json")
DETECTION = os.path.join(SOURCES, "examples", "detection", "pool.json")


class Pipes(PoolCase):
    def closed(self, *words):
        """What the command says and gives when nobody reads its output."""
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            return subprocess.run([TOOL, *words], stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)

    def test_a_reader_that_has_enough(self):
        for words in (["options"], ["help"], ["--version"], ["compare", "--list-methods"], ["fit", "--help"],
                      ["compare", self.pool, "-m", "average"], ["fit", self.pool, "-o", self.model]):
            result = self.closed(*words)
            self.assertEqual((result.returncode, result.stderr), (0, b""), words)
        self.assertTrue(os.path.exists(self.model))

    def test_a_failure_stays_one(self):
        result = self.closed("fit", self.path("nowhere.json"), "-o", self.model)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"nowhere.json", result.stderr)


class Quiet(PoolCase):
    def test_no_notices(self):
        self.fit()
        words = ["evaluate", self.model, self.pool, "--split", "oof"]  # the rows of the fit: said in a notice
        loud = self.works(*words)
        self.assertIn("otice", loud.out + loud.err)
        quiet = self.works(*words, "-q")
        self.assertNotIn("otice", quiet.out + quiet.err)
        self.assertIn("notices", self.works(*words, "-q", "--json").json())

    def test_errors_are_told(self):
        self.fails("fit", self.pool, "-o", self.model, "-q", "--split", "tset", says=["no split 'tset'"])


class Splits(PoolCase):
    def test_names_are_listed_and_the_nearest_is_named(self):
        self.fit()
        for words in (["fit", self.pool, "-o", self.path("x")], ["predict", self.model, self.pool, "-o", self.path("x.npy")],
                      ["evaluate", self.model, self.pool], ["compare", self.pool], ["inspect", self.pool],
                      ["bound", self.model, self.pool], ["ablate", self.pool]):
            self.fails(*words, "--split", "tset", says=["no split 'tset'", "did you mean 'test'?", "'oof', 'test'"])
        self.fails("inspect", self.pool, "--split", "validation", says=["its splits are 'oof', 'test'"])
        self.fails("inspect", self.save("a.npy", self.members["ada", "oof"]), "--labels", self.path("oof_labels.npy"), "--split", "test",
                   says=["its only split is 'oof'"])

    def test_the_only_split_of_a_folder(self):
        """Files in a folder are split oof, wherever they come from."""
        self.fit()
        folder = self.path("new")
        os.makedirs(folder)
        for name in ("ada", "bob", "cyd"):
            np.save(os.path.join(folder, name + ".npy"), self.members[name, "test"])
        labels = ["--labels", self.path("test_labels.npy")]
        named = self.works("evaluate", self.model, self.pool, "--split", "test", "--json").json()
        only = self.works("evaluate", self.model, folder, *labels, "--json").json()
        self.assertEqual(only["nll"], named["nll"])
        self.works("predict", self.model, folder, "-o", self.path("x.npy"))

    def test_detections(self):
        self.fails("inspect", DETECTION, "--split", "val", says=["its splits are 'oof', 'test'"])


class TaskOfTheModel(PoolCase):
    def test_files_of_values(self):
        self.works("fit", CONCRETE, "-o", self.model, "--set", "evaluate.nested=false")
        folder = os.path.dirname(CONCRETE)
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".test.npy")]
        copies = []
        for file in files:
            name = os.path.basename(file).replace(".test.npy", ".npy")
            copies.append(self.save(name, np.load(file)))
        self.works("predict", self.model, *copies, "-o", self.path("files.npy"))
        self.works("predict", self.model, CONCRETE, "-o", self.path("pool.npy"))
        self.assertEqual(self.read(self.path("files.npy")), self.read(self.path("pool.npy")))
        scored = self.works("evaluate", self.model, *copies, "--labels", os.path.join(folder, "test_labels.npy"), "--json").json()
        self.assertEqual(scored["task"], "regression")
        os.mkdir(self.path("folder"))
        for file in files:
            os.symlink(file, self.path(os.path.join("folder", os.path.basename(file))))
        self.works("predict", self.model, self.path("folder"), "--allow-outside", "-o", self.path("folder.npy"))
        self.assertEqual(self.read(self.path("folder.npy")), self.read(self.path("pool.npy")))
        self.fails("predict", self.model, *copies, "--task", "classification", "-o", self.path("x.npy"),
                   says=["--task classification", "fitted for regression"])

    def test_a_manifest_says_otherwise(self):
        self.works("fit", CONCRETE, "-o", self.model, "--set", "evaluate.nested=false")
        self.fails("predict", self.model, self.pool, "-o", self.path("x.npy"), says=["fitted for regression", "pool is classification"])


if __name__ == "__main__":
    unittest.main()
