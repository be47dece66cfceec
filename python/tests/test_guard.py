"""The guard: predictions of batches that look unlike the rows of the fit."""
import pickle
import unittest

import numpy as np

import corestack

MEMBERS, CLASSES, ROWS = 6, 4, 1200


def drawn(rng, rows, noise):
    """Labels, and what members say who see the same signal with noise of their own."""
    y = rng.integers(0, CLASSES, rows)
    signal = 3.0 * np.eye(CLASSES)[y] + rng.normal(size=(rows, CLASSES))
    members = {}
    for k in range(MEMBERS):
        z = signal + (0.3 + 0.2 * k + noise) * rng.normal(size=(rows, CLASSES))
        z = np.exp(z - z.max(1, keepdims=True))
        members[f"m{k}"] = (z / z.sum(1, keepdims=True)).astype(np.float32)
    return members, y


class Guarded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(5)
        preds, y = drawn(rng, ROWS, 0)
        cls.stack = corestack.fit(preds, y, keep_max=3)
        cls.clean, _ = drawn(rng, 400, 0)
        cls.shifted, _ = drawn(rng, 400, 3)

    def test_default_warns_and_changes_nothing(self):
        off = self.stack.predict(self.shifted, guard="off")
        with self.assertLogs("corestack", "WARNING") as said:
            warned = self.stack.predict(self.shifted)
        self.assertIn("unlike", said.output[0])
        self.assertEqual(off.tobytes(), warned.tobytes())
        rows = self.stack.predict({k: p[60:200] for k, p in self.shifted.items()})
        self.assertEqual(rows.tobytes(), off[60:200].tobytes())

    def test_auto_leans_on_all_members(self):
        off = self.stack.predict(self.shifted, guard="off")
        p, report = self.stack.predict(self.shifted, guard="auto", return_report=True)
        found = report["guard"]
        self.assertEqual((found["mode"], found["tested"], found["fired"]), ("auto", 1, 1))
        self.assertEqual((found["members"], found["others"]), (MEMBERS, MEMBERS - len(self.stack.kept)))
        self.assertGreater(found["batches"][0]["unlike"], 0.3)
        self.assertGreater(np.abs(p - off).max(), 0.01)
        np.testing.assert_allclose(p.sum(1), 1, atol=1e-5)
        kept, found = self.stack.predict({k: self.shifted[k] for k in self.stack.kept}, guard="auto", return_report=True)
        self.assertEqual((found["guard"]["members"], found["guard"]["others"]), (len(self.stack.kept), 0))
        self.assertGreater(np.abs(kept - p).max(), 0)

    def test_clean_and_small_batches_keep_their_bytes(self):
        for preds in (self.clean, {k: p[:49] for k, p in self.shifted.items()}):
            off = self.stack.predict(preds, guard="off")
            self.assertEqual(self.stack.predict(preds, guard="auto").tobytes(), off.tobytes())

    def test_batches(self):
        both = {k: np.concatenate([self.clean[k], self.shifted[k]]) for k in self.clean}
        off = self.stack.predict(both, guard="off")
        p, report = self.stack.predict(both, guard="auto", batch=120, return_report=True)
        batches = report["guard"]["batches"]
        self.assertEqual([b["rows"] for b in batches], [120] * 6 + [80])
        self.assertEqual([b["fired"] for b in batches], [False] * 3 + [True] * 4)
        self.assertEqual(p[:360].tobytes(), off[:360].tobytes())
        _, report = self.stack.predict(both, guard="warn", batch=190, return_report=True)
        self.assertEqual([b["rows"] for b in report["guard"]["batches"]], [190, 190, 190, 230])

    def test_wrong_arguments(self):
        for wrong in ({"guard": "on"}, {"guard": None}, {"batch": 0}, {"guard": "off", "batch": 100}, {"batch": "x"}):
            with self.assertRaises((corestack.Error, TypeError, ValueError)):
                self.stack.predict(self.clean, **wrong)
        rng = np.random.default_rng(1)
        y = rng.normal(size=300)
        members = [y + 0.3 * rng.normal(size=300) for _ in range(2)]
        values = corestack.fit(members, y, task="regression", evaluate_nested=False)
        with self.assertRaises(corestack.UnsupportedError):
            values.predict(members, guard="auto")

    def test_stream(self):
        guarded = self.stack.predictor(window=100)
        self.assertIsNone(guarded.found)
        kept = {k: self.clean[k] for k in self.stack.kept}
        p = np.concatenate([guarded({k: v[i : i + 50] for k, v in kept.items()}) for i in range(0, 400, 50)])
        self.assertEqual(p.tobytes(), self.stack.predictor()(kept).tobytes())
        self.assertFalse(guarded.found["fired"])
        self.assertEqual((guarded.found["first"], guarded.found["rows"]), (300, 100))
        rows = {k: v[:100] for k, v in self.shifted.items()}
        self.assertEqual(set(guarded.others), set(rows) - set(self.stack.kept))
        p = np.stack([guarded({k: v[i] for k, v in rows.items()}) for i in range(100)])  # row after row
        self.assertTrue(guarded.found["fired"])
        # The last row, whose window is the batch: the average of all members takes part.
        batch = self.stack.predict(rows, guard="auto")
        np.testing.assert_allclose(p[-1], batch[-1], atol=1e-5)
        self.assertGreater(np.abs(p[-1] - self.stack.predict(rows, guard="off")[-1]).max(), 1e-3)
        few = self.stack.predictor(window=100)
        np.testing.assert_allclose(
            few({k: rows[k] for k in self.stack.kept})[-1],
            self.stack.predict({k: rows[k] for k in self.stack.kept}, guard="auto")[-1], atol=1e-5,
        )  # fmt: skip
        self.assertIsNone(pickle.loads(pickle.dumps(guarded)).found)

    def test_stream_refused(self):
        for window in (0, 49, 65537, "100", 99.5):
            with self.assertRaisesRegex(corestack.ArgumentError, "window"):
                self.stack.predictor(window=window)
        with self.assertRaisesRegex(corestack.ArgumentError, "missing"):
            self.stack.predictor("allow", window=100)
        guarded = self.stack.predictor(window=50)
        row = {k: v[0] for k, v in self.clean.items()}
        with self.assertRaisesRegex(corestack.InputError, "no probabilities"):
            guarded({**row, guarded.others[0]: row[guarded.others[0]] * np.nan})
        with self.assertRaises(corestack.MismatchError):
            guarded({**row, guarded.others[0]: self.clean[guarded.others[0]]})
        self.assertIsNone(guarded.found)
        y, noise = np.random.default_rng(1).normal(size=(2, 60))
        values = corestack.fit({"a": y + noise, "b": y - 0.9 * noise}, y, task="regression")
        with self.assertRaisesRegex(corestack.UnsupportedError, "regression"):
            values.predictor(window=100)


if __name__ == "__main__":
    unittest.main()
