"""Labels, folds and weights in memory beside predictions in files."""
from __future__ import annotations

import csv
import unittest

import numpy as np
from common import QUICK, Folder, toy

import corestack

try:
    import pandas as pd
except ImportError:
    pd = None


class Beside(Folder):
    def setUp(self):
        super().setUp()
        self.preds, self.y = toy()
        self.ids = [f"row,{i}" for i in range(len(self.y))]
        for folder in ("tables", "arrays"):
            (self.path / folder).mkdir()
        for name, p in self.preds.items():
            np.save(self.path / "arrays" / f"oof_{name}.npy", p)
            with open(self.path / "tables" / f"oof_{name}.csv", "w", newline="") as file:
                table = csv.writer(file)
                table.writerow(["id", "a", "b", "c"])
                table.writerows([one, *map(repr, row)] for one, row in zip(self.ids, p.tolist()))
        corestack.io.write_safetensors(self.path / "p.safetensors", self.preds)
        self.folds, self.weights = self.y % 4, np.linspace(0.5, 2, len(self.y))
        self.expected = corestack.fit(self.preds, self.y, **QUICK).to_bytes()
        self.full = corestack.fit(self.preds, self.y, folds=self.folds, sample_weight=self.weights, **QUICK).to_bytes()

    def test_arrays(self):
        for preds in (
            self.path / "arrays",
            str(self.path / "tables"),
            [self.path / "arrays" / f"oof_{name}.npy" for name in self.preds],
            [f"{self.path}/p.safetensors#{name}" for name in self.preds],
        ):
            with self.subTest(preds):
                stack = corestack.fit(preds, self.y, **QUICK)
                expected = corestack.Stack.from_bytes(self.expected)
                self.assertEqual(list(stack.weights.values()), list(expected.weights.values()))
                full = corestack.fit(preds, self.y, folds=self.folds, sample_weight=self.weights, **QUICK)
                expected = corestack.Stack.from_bytes(self.full)
                self.assertEqual(list(full.weights.values()), list(expected.weights.values()))
                names = np.array(["a", "b", "c"])  # those of the tables
                self.assertEqual(
                    corestack.fit(preds, names[self.y], classes=list(names), **QUICK).weights, stack.weights
                )
        with self.assertRaisesRegex(corestack.MismatchError, "columns are called a, b, c, but the classes are x, y, z"):
            corestack.fit(self.path / "tables", self.y, classes=["x", "y", "z"], **QUICK)
        with self.assertRaisesRegex(corestack.MismatchError, "y: has 3 rows, but the files have 240"):
            corestack.fit(self.path / "tables", [0, 1, 2], **QUICK)

    def test_files_that_are_no_arrays(self):
        for place in ("p.csv", "p.npz"):
            with self.assertRaisesRegex(corestack.FormatError, "array, give an npy file or a tensor"):
                corestack.fit({"a": self.path / place}, self.y, **QUICK)
            with self.assertRaisesRegex(corestack.FormatError, "array, give an npy file or a tensor"):
                corestack.fit(self.preds, str(self.path / place), **QUICK)

    def test_scores(self):
        path = f"{self.path}/p.safetensors#model3"
        self.assertEqual(corestack.evaluate(path, self.y), corestack.evaluate(self.preds["model3"], self.y))
        stack = corestack.Stack.from_bytes(self.expected)
        scores = stack.evaluate(self.path / "tables", self.y, split="oof")
        self.assertEqual(scores["nll"], stack.evaluate(self.preds, self.y)["nll"])

    def test_no_column(self):
        for name in ("folds", "groups", "sample_weight"):
            for value, shape in ((3, r"\(\)"), (np.ones((2, 240)), r"\(2, 240\)")):
                text = rf"^{name}: has shape {shape}; give one per row$"
                with self.subTest(name, value=value), self.assertRaisesRegex(corestack.MismatchError, text):
                    corestack.fit(self.path / "tables", self.y, **{name: value}, **QUICK)

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_series_are_joined_by_id(self):
        y, folds = pd.Series(self.y, self.ids), pd.Series(self.folds, self.ids)
        expected = corestack.fit(self.path / "tables", self.y, folds=self.folds, **QUICK)
        turned = corestack.fit(self.path / "tables", y.iloc[::-1], folds=folds.sample(frac=1, random_state=0), **QUICK)
        self.assertEqual(turned.to_bytes(), expected.to_bytes())
        with self.assertRaisesRegex(corestack.MismatchError, "no row with id 'row,0'"):
            corestack.fit(self.path / "tables", y.iloc[1:], **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "twice"):
            corestack.fit(self.path / "tables", pd.concat([y, y.iloc[:1]]), **QUICK)


if __name__ == "__main__":
    unittest.main()
