"""Members with one column, the probability of class 1 of two."""
from __future__ import annotations

import unittest

import numpy as np
from common import QUICK, Folder, toy

import corestack

try:
    import pandas as pd
except ImportError:
    pd = None


class OneColumn(Folder):
    def setUp(self):
        super().setUp()
        self.both, self.y = toy(rows=150, classes=2, members=3)
        self.preds = {name: p[:, 1] for name, p in self.both.items()}
        self.names = np.array(["dog", "cat"])[self.y]
        self.stack = corestack.fit(self.preds, self.y, **QUICK)

    def test_shape(self):
        one, two = self.stack.predict(self.preds), self.stack.predict_proba(self.preds)
        self.assertEqual((one.shape, two.shape, one.dtype), ((150,), (150, 2), np.float32))
        np.testing.assert_array_equal(one, two[:, 1])
        columns = {name: p[:, None] for name, p in self.preds.items()}
        np.testing.assert_array_equal(self.stack.predict(columns), one)
        np.testing.assert_allclose(self.stack.predict(self.both)[:, 1], one, atol=1e-6)
        found, report = self.stack.predict(self.preds, return_report=True)
        np.testing.assert_array_equal(found, one)
        self.assertEqual(report["classes"], 2)
        values = corestack.fit(self.preds, self.y, task="regression", **QUICK)
        self.assertEqual((values.task, values.predict(self.preds).shape), ("regression", (150,)))
        logits = {name: np.log(p / (1 - p)) for name, p in self.preds.items()}
        self.assertEqual(corestack.fit(logits, self.y, output="logit", **QUICK).predict(logits, output="logit").shape, (150,))

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_frames(self):
        frame = pd.DataFrame(self.preds, index=[f"s{i}" for i in range(150)])
        stack = corestack.fit(frame, pd.Series(2 * self.y - 1, frame.index).iloc[::-1], **QUICK)
        self.assertEqual(stack.to_bytes(), self.stack.to_bytes())
        np.testing.assert_array_equal(stack.predict(frame), self.stack.predict(self.preds))
        frames = {name: pd.DataFrame({"p": p}) for name, p in self.preds.items()}
        np.testing.assert_array_equal(stack.predict(frames), self.stack.predict(self.preds))

    def test_labels(self):
        for y in (2 * self.y - 1, 2.0 * self.y - 1, self.y == 1, self.y.astype(float)):
            self.assertEqual(corestack.fit(self.preds, y, **QUICK).to_bytes(), self.stack.to_bytes())
        signs = 2 * self.y - 1
        self.assertEqual(self.stack.evaluate(self.preds, signs), self.stack.evaluate(self.preds, self.y))
        p = self.preds["model2"]
        self.assertEqual(corestack.evaluate(p, signs), corestack.evaluate(p, self.y))
        self.assertEqual(corestack.metrics.scores(p, signs), corestack.metrics.scores(p, self.y))
        stack = corestack.fit(self.preds, np.array(["unknown", "Positive"])[self.y], **QUICK)
        self.assertEqual(stack.classes, ["unknown", "Positive"])
        three = np.arange(150) % 3
        for y in (three, np.array(list("abc"))[three]):
            with self.assertRaisesRegex(corestack.Error, "column.* is the probability of"):
                corestack.fit(self.preds, y, **QUICK)
        with self.assertRaisesRegex(corestack.InputError, "row . is label -1|from 0"):
            corestack.fit({n: np.stack([p / 2, p / 2, 1 - p], 1) for n, p in self.preds.items()}, signs, **QUICK)

    def test_positive(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "cat and dog.*give positive="):
            corestack.fit(self.preds, self.names, **QUICK)
        stack = corestack.fit(self.preds, self.names, positive="cat", **QUICK)
        self.assertEqual(stack.classes, ["dog", "cat"])
        np.testing.assert_array_equal(stack.predict(self.preds), self.stack.predict(self.preds))
        self.assertEqual(stack.evaluate(self.preds, self.names)["top1"], self.stack.evaluate(self.preds, self.y)["top1"])
        for y, positive in ((self.y + 1, 2), (self.y == 1, True), (1 - self.y, 0)):
            turned = corestack.fit(self.preds, y, positive=positive, **QUICK)
            np.testing.assert_array_equal(turned.predict(self.preds), self.stack.predict(self.preds))
            self.assertEqual(turned.classes[1], str(positive))
        for wrong in ({"positive": "cow"}, {"positive": "cat", "classes": ["dog", "cat"]}, {"positive": 1, "task": "regression"}):
            y = self.y if "task" in wrong else self.names
            with self.assertRaisesRegex(corestack.ArgumentError, "positive: is"):
                corestack.fit(self.preds, y, **wrong, **QUICK)
        rows = corestack.compare(self.preds, self.names, positive="cat", methods="average", own={"mine": self.preds["model0"]}, resamples=0)
        self.assertIn("mine", str(rows))
        p = self.preds["model2"]
        self.assertEqual(corestack.evaluate(p, self.names, positive="cat")["nll"], corestack.evaluate(p, self.y)["nll"])

    def test_files(self):
        paths = []
        for name, p in self.preds.items():
            paths.append(self.path / f"{name}.npy")
            np.save(paths[-1], p)
        np.save(self.path / "y.npy", self.names)
        stack = corestack.fit(paths, self.path / "y.npy", positive="cat", **QUICK)
        p = stack.predict(paths)
        np.testing.assert_array_equal(p, self.stack.predict(self.preds))
        self.assertIn("probability of class 'cat'", stack.predict(paths, out=self.path / "p.csv")["columns"])
        self.assertEqual((self.path / "p.csv").read_text().partition("\n")[0], "cat")
        stack.predict(paths, out=self.path / "p.npy")
        np.testing.assert_array_equal(np.load(self.path / "p.npy"), p)
        scored = corestack.evaluate(self.path / "p.npy", self.path / "y.npy", positive="cat")
        self.assertEqual(scored["top1"], stack.evaluate(paths, self.path / "y.npy")["top1"])


if __name__ == "__main__":
    unittest.main()
