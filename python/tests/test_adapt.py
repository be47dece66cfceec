"""adapt and suggest: arrays and pools, rows by number, the command line's bytes, labels that are none."""
import json
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
from common import QUICK, needs_tool, run_tool

import corestack

try:
    import pandas
except ImportError:
    pandas = None

ROWS, CLASSES = 400, 3
NAMES = ["a", "b", "c", "d"]


def world(seed, skill):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS).astype(np.int32)
    z = np.array(skill)[:, None, None] * np.eye(CLASSES)[y] + rng.normal(size=(len(skill), ROWS, CLASSES))
    p = np.exp(z)
    return dict(zip(NAMES, (p / p.sum(-1, keepdims=True)).astype(np.float32))), y


class Adapt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.oof, cls.y = world(1, [2.5, 2, 0.5, 0])
        cls.new, cls.labels = world(2, [0, 0, 1, 3])
        cls.stack = corestack.fit({k: cls.oof[k] for k in "abc"}, cls.y, **QUICK)  # d comes later

    def test_arrays(self):
        made = corestack.adapt(self.stack, {k: p[:60] for k, p in self.new.items()}, self.labels[:60])
        self.assertTrue(made.report["adapted"])
        self.assertEqual(made.report["samples"], 60)
        self.assertIn("d", made.kept)
        rest = {name: self.new[name][60:] for name in made.kept}
        before = corestack.metrics.nll(self.stack.predict({k: self.new[k][60:] for k in self.stack.kept}), self.labels[60:])
        after = corestack.metrics.nll(made.predict(rest), self.labels[60:])
        self.assertLess(after, 0.7 * before)
        again = corestack.Stack.from_bytes(made.to_bytes())
        np.testing.assert_array_equal(again.predict(rest), made.predict(rest))
        one = made.predictor()([rest[name][0] for name in made.kept])
        np.testing.assert_array_equal(np.ravel(one), made.predict(rest)[0])
        with self.assertRaisesRegex(corestack.UnsupportedError, "adapted to 60 rows before"):
            corestack.adapt(made, self.new, self.labels)

    def test_the_formula(self):
        made = corestack.adapt(self.stack, {k: p[:60] for k, p in self.new.items()}, self.labels[:60])
        stack = self.stack.predict({k: self.new[k] for k in self.stack.kept}).astype(np.float64)
        z = made.report["scale"] * np.log(stack * (1 - 1e-9) + 1e-9 / CLASSES) + np.array(made.report["biases"])
        for member in made.report["members"]:
            z += member["weight"] * np.log(self.new[member["name"]].astype(np.float64) * (1 - 1e-3) + 1e-3 / CLASSES)
        p = np.exp(z - z.max(1, keepdims=True))
        np.testing.assert_allclose(
            made.predict({k: self.new[k] for k in made.kept}), p / p.sum(1, keepdims=True), atol=2e-6
        )

    @unittest.skipIf(pandas is None, "pandas is not installed")
    def test_frames_with_columns_in_another_order(self):
        names = ["ant", "bee", "cat"]
        stack = corestack.fit({k: self.oof[k] for k in "abc"}, np.array(names)[self.y], classes=names, **QUICK)
        y = np.array(names)[self.labels[:60]]
        rows = {k: p[:60] for k, p in self.new.items()}
        frames = {k: pandas.DataFrame(p, columns=names)[["cat", "ant", "bee"]] for k, p in rows.items()}
        made, wanted = (corestack.adapt(stack, given, y) for given in (frames, rows))
        self.assertEqual(made.report["nll"], wanted.report["nll"])
        np.testing.assert_array_equal(corestack.suggest(stack, frames, 9), corestack.suggest(stack, rows, 9))
        numbered = corestack.fit({k: self.oof[k] for k in "abc"}, self.y, **QUICK)
        for how in ({}, {"rows": range(60)}):
            with self.assertRaisesRegex(corestack.ArgumentError, "the stack has no class names"):
                corestack.adapt(numbered, rows, y, **how)

    def test_a_stack_that_is_right_stays(self):
        same, labels = world(3, [2.5, 2, 0.5, 0])
        made = corestack.adapt(self.stack, {k: p[:50] for k, p in same.items()}, labels[:50])
        self.assertFalse(made.report["adapted"])
        self.assertEqual(made.to_bytes(), self.stack.to_bytes())

    def test_rows(self):
        rows = corestack.suggest(self.stack, self.new, 30)
        self.assertEqual(len(set(rows.tolist())), 30)
        np.testing.assert_array_equal(corestack.suggest(self.stack, self.new, 10, threads=2), rows[:10])
        made = corestack.adapt(self.stack, self.new, self.labels[rows], rows=rows)
        direct = corestack.adapt(self.stack, {k: p[rows] for k, p in self.new.items()}, self.labels[rows])
        self.assertEqual(made.report["candidates"], direct.report["candidates"])

    def test_rows_without_labels(self):
        rows = np.arange(0, 100, 5)
        made = corestack.adapt(self.stack, self.new, self.labels[rows], rows=rows, unlabeled=True)
        about = made.report["unlabeled"]
        self.assertEqual(about["samples"], ROWS)
        self.assertEqual(about["used"], made.report["nll"]["cross_validated"] < about["nll_without"])
        alone = corestack.adapt(self.stack, self.new, self.labels[rows], rows=rows)
        self.assertNotIn("unlabeled", alone.report)
        self.assertEqual(about["used"], made.to_bytes() != alone.to_bytes())

    def test_labels_that_are_none(self):
        rows = np.arange(20)
        wrong = self.labels[:20].astype(float)
        wrong[3] = np.nan
        some = {k: p[:20] for k, p in self.new.items()}
        for call, says in (
            (lambda: corestack.adapt(self.stack, self.new, wrong, rows=rows), "NaN"),
            (lambda: corestack.adapt(self.stack, some, wrong), "label"),
            (lambda: corestack.adapt(self.stack, self.new, self.labels[:20] * 0, rows=rows), "are of class 0"),
            (lambda: corestack.adapt(self.stack, self.new, self.labels[:9], rows=rows[:9]), "too few"),
            (lambda: corestack.adapt(self.stack, self.new, self.labels[:9], rows=rows), "one label for each"),
            (lambda: corestack.adapt(self.stack, self.new, self.labels[:20] + 3, rows=rows), "is no class"),
            (lambda: corestack.adapt(self.stack, self.new, self.labels[:20], rows=rows + ROWS), "is not in split"),
            (lambda: corestack.adapt(self.stack, self.new), "labels are required"),
            (lambda: corestack.adapt(self.stack, self.oof, self.y), "was fitted on the rows"),
            (lambda: corestack.adapt(self.stack, {"d": self.new["d"]}, self.labels), "needs member"),
            (lambda: corestack.suggest(self.stack, self.new, ROWS + 1), "cannot be picked"),
        ):
            with self.assertRaisesRegex(corestack.Error, says):
                call()

    def test_a_constant_member(self):
        constant = {**self.new, "d": np.full((ROWS, CLASSES), 1 / CLASSES, np.float32)}
        made = corestack.adapt(self.stack, {k: p[:60] for k, p in constant.items()}, self.labels[:60])
        self.assertNotIn("d", made.kept)

    @needs_tool
    def test_as_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            np.save(folder / "y.npy", self.labels[:60])
            models = []
            for name, p in self.new.items():
                np.save(folder / f"{name}.npy", p[:60])
                models.append({"name": name, "predictions": {"new": f"{name}.npy"}})
            pool = {"corestack_pool": 1, "task": "classification", "classes": CLASSES, "splits": {"new": {"labels": "y.npy"}},
                    "models": models}  # fmt: skip
            (folder / "pool.json").write_text(json.dumps(pool))
            self.stack.save(folder / "m.cstack")
            run_tool("adapt", folder / "m.cstack", folder / "pool.json", "-o", folder / "m2.cstack")
            made = corestack.adapt(folder / "m.cstack", folder / "pool.json")
            self.assertEqual(made.to_bytes(), (folder / "m2.cstack").read_bytes())
            lines = run_tool("adapt", folder / "m.cstack", folder / "pool.json", "--suggest", 7).split()
            self.assertEqual([int(n) for n in lines], corestack.suggest(self.stack, folder / "pool.json", 7).tolist())
            self.assertTrue(os.path.exists(folder / "m2.cstack"))


if __name__ == "__main__":
    unittest.main()
