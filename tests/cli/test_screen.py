"""The screen of `fit`: few lines of at most 100 columns for every task, and the page in full behind --verbose."""

import json
import os
import shutil
import tempfile
import unittest

import numpy as np

from support import SOURCES, run, sample, small

LINES, COLUMNS = 25, 100
FEW = {"segmentation": ("--set", "segment.pixels=300")}
# What the page in full has of each example.
HEADINGS = {
    "digits": "Members by out-of-fold NLL,Pools of each size,Held-out loss that sets,Stack,Blend,Out-of-fold scores,Cost",
    "concrete": "Members by out-of-fold RMSE,Dropped,Held-out squared error,Stack,Out-of-fold scores",
    "regression": "Members by out-of-fold RMSE,Dropped,Held-out squared error,Stack,Out-of-fold scores",
    "segmentation": "Members by out-of-fold NLL,Pools of each size,Held-out loss that sets,Stack,Blend,Out-of-fold scores,Cost",
    "detection": "Members by out-of-fold NLL,Held-out loss by size,Held-out loss that sets,Stack,Blend,Out-of-fold scores,Cost",
    "multilabel": "Members by out-of-fold log-loss,Stack,Out-of-fold scores,Labels",
}


class Screen(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-screen-")
        self.addCleanup(shutil.rmtree, self.folder)

    def fit(self, pool, *arguments):
        result = run("fit", pool, "-o", "m.cstack", *arguments, cwd=self.folder)
        self.assertEqual(result.code, 0, result.err)
        return result

    def check(self, text):
        lines = text.splitlines()
        self.assertLessEqual(len(lines), LINES, text)
        self.assertLessEqual(max(len(line) for line in lines), COLUMNS, text)
        for part in ("> this model", "Members  ", "Next  ", "--verbose", "--html"):
            self.assertIn(part, text)
        self.assertNotIn("nan", text)
        return text

    def test_examples(self):
        for example, headings in HEADINGS.items():
            pool = small(example, 6) if example == "digits" else os.path.join(SOURCES, "examples", example, "pool.json")
            with self.subTest(example):
                self.check(self.fit(pool, *FEW.get(example, ())).out)
                full = self.fit(pool, *FEW.get(example, ()), "--verbose").out
                for heading in headings.split(","):
                    self.assertRegex(full, f"(?m)^{heading}")

    def test_what_comes_next_works(self):
        for example in ("digits", "segmentation", "detection"):
            pool = small(example, 6) if example == "digits" else os.path.join(SOURCES, "examples", example, "pool.json")
            more = ("--set", "evaluate.nested=false", *FEW.get(example, ()))
            text = self.fit(pool, *more).out
            next_ones = [line.split("corestack ")[1] for line in text.split("Next  ")[1].splitlines() if "corestack " in line]
            self.assertEqual([line.split()[0] for line in next_ones], ["predict", "evaluate"])
            for line in next_ones:
                done = run(*line.replace("POOL", pool).split(), cwd=self.folder)
                self.assertEqual(done.code, 0, done.err)
            if "--preset compact" in text:
                self.fit(pool, *more, "--preset", "compact")

    def test_many_members_with_long_names(self):
        rng = np.random.default_rng(0)
        labels, _ = sample(200, 4, 0)
        names = [f"a member with a long name, number {k}, of the \u00e9nsemble " + "x" * 90 for k in range(40)]
        np.save(os.path.join(self.folder, "y.npy"), labels)
        models = []
        for k, name in enumerate(names):
            _, p = sample(200, 4, k + 1, rng.uniform(0.5, 2), labels)
            if k % 4 == 3:  # probability 0 for a label, and twins: notices and members that leave
                p[:, 0] = 0
                p /= p.sum(axis=1, keepdims=True)
            np.save(os.path.join(self.folder, f"{k}.npy"), p)
            models.append({"name": name, "predictions": {"oof": f"{k - k % 8 // 7}.npy"}})
        pool = os.path.join(self.folder, "pool.json")
        with open(pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": 4, "output": "probability",
                       "splits": {"oof": {"labels": "y.npy"}}, "models": models}, file)
        text = self.check(self.fit(pool).out)
        for part in (" more", "a member with a long", "Look at"):
            self.assertIn(part, text)
        full = " ".join(self.fit(pool, "--verbose").out.split())  # names are wrapped too
        for name in names:
            self.assertTrue(name in full, name)

    def test_a_method(self):
        text = self.check(self.fit(small("digits", 6), "--method", "greedy").out)
        self.assertIn("method greedy", text)
        self.assertRegex(text, r"kept, by weight: [a-z_]+ 0\.\d\d, ")

    def test_without_nested_scores(self):
        pool = small("digits", 6)
        text = self.fit(pool, "--set", "evaluate.nested=false").out
        self.assertIn("this model: not computed, because evaluate.nested is false", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), COLUMNS)


if __name__ == "__main__":
    unittest.main()
