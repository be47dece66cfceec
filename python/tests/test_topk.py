"""Members that list their likeliest classes, in memory and in files."""

import os
import tempfile
import unittest

import numpy as np

import corestack


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


class Lists(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(3)
        self.y = rng.integers(0, 30, 200)
        right = np.arange(30) == self.y[:, None]
        self.dense = {name: softmax(rng.normal(size=(200, 30)) + a * right).astype(np.float32) for name, a in (("a", 2), ("b", 3), ("c", 1))}
        self.lists = {name: corestack.top_k(p, 4 + k)[: 3 - k % 2] for k, (name, p) in enumerate(self.dense.items())}

    def test_top_k(self):
        indices, logprobs, rest = corestack.top_k(self.dense["a"], 5)
        p = self.dense["a"].astype(float)
        self.assertTrue(np.array_equal(indices, np.argsort(-p, axis=1)[:, :5]))
        self.assertTrue(np.allclose(np.exp(logprobs), -np.sort(-p, axis=1)[:, :5], atol=1e-6))
        self.assertTrue(np.allclose(np.exp(logprobs).sum(axis=1) + np.exp(rest), 1, atol=1e-6))

    def test_arrays_are_as_files(self):
        stack = corestack.fit(self.lists, self.y, classes=30)
        self.assertEqual((stack.task, stack.n_classes), ("topk", 30))
        indices, logprobs, rest = stack.predict(self.lists)
        self.assertEqual((indices.shape, indices.dtype, rest.dtype), ((200, 6), np.int32, np.float32))
        self.assertLess(np.abs(np.exp(logprobs).sum(axis=1) + np.exp(rest) - 1).max(), 1e-5)
        self.assertTrue(np.array_equal(stack.predict(self.lists, top=2)[0], indices[:, :2]))
        found = stack.evaluate(self.lists, self.y)
        self.assertAlmostEqual(found["top1"], (indices[:, 0] == self.y).mean())
        with tempfile.TemporaryDirectory() as folder:
            for name, arrays in self.lists.items():
                np.savez(os.path.join(folder, f"{name}.npz"), **dict(zip(("indices", "logprobs", "rest"), arrays)))
            paths = [os.path.join(folder, f"{name}.npz") for name in self.lists]
            again = corestack.fit(paths, self.y, classes=30)
            self.assertEqual(again.to_bytes(), stack.to_bytes())
            for one, two in zip(again.predict(paths), (indices, logprobs, rest)):
                self.assertTrue(np.array_equal(one, two))

    def test_whole_lists_are_the_dense_pool(self):
        whole = {name: corestack.top_k(p, 30) for name, p in self.dense.items()}
        rows = [corestack.compare(preds, self.y, methods=["average"], resamples=0, **more)["rows"][0]
                for preds, more in ((whole, {"classes": 30}), (self.dense, {}))]  # fmt: skip
        self.assertAlmostEqual(rows[0]["nll"], rows[1]["nll"], places=6)

    def test_what_is_refused(self):
        for says, call in (
            ("number of all classes", lambda: corestack.fit(self.lists, self.y)),
            ("indices", lambda: corestack.fit(self.dense, self.y, task="topk", classes=30)),
            ("indices integers", lambda: corestack.fit({"a": (self.dense["a"], self.dense["a"])}, self.y, classes=30)),
            ("class 35 is not one of 0 to 29", lambda: corestack.fit({"a": (self.lists["a"][0] + 30, *self.lists["a"][1:])}, self.y, classes=30)),
            ("a tuple of two or three arrays", lambda: corestack.fit({"a": (*self.lists["a"], 0)}, self.y, classes=30)),
            ("b: has 100 rows, but a has 200", lambda: corestack.fit({"a": self.lists["a"], "b": tuple(x[:100] for x in self.lists["b"])}, self.y, classes=30)),
            ("row 0 has nan", lambda: corestack.top_k(self.dense["a"] * np.nan, 5)),
            ("predict_proba is for classification", lambda: corestack.fit(self.lists, self.y, classes=30).predict_proba(self.lists)),
        ):
            with self.assertRaises(corestack.Error) as caught:
                call()
            if "35" in says:
                self.assertRegex(str(caught.exception), r"a: row 0, column 0: class \d+ is not one of 0 to 29")
            else:
                self.assertIn(says, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
