"""missing="allow": rows and members that are absent, from arrays, data frames and in a service."""
from __future__ import annotations

import pickle
import unittest

import numpy as np

import corestack
from common import QUICK, digits, small_digits, toy


class Missing(unittest.TestCase):
    def setUp(self):
        self.preds, self.y = toy()
        self.stack = corestack.fit(self.preds, self.y, select_direction="none", redundancy_measure="none", keep_fraction=1, **QUICK)
        self.assertEqual(len(self.stack.kept), 4)

    def test_absent_members_are_absent_rows(self):
        rows = {name: p.copy() for name, p in self.preds.items()}
        rows["model1"][:] = np.nan
        with self.assertRaisesRegex(corestack.InputError, "NaN.*missing='allow'"):
            self.stack.predict(rows)
        by_row = self.stack.predict(rows, missing="allow")
        named = {name: p for name, p in self.preds.items() if name != "model1"}
        with self.assertRaises(corestack.MismatchError):
            self.stack.predict(named)
        np.testing.assert_array_equal(by_row, self.stack.predict(named, missing="allow"))
        np.testing.assert_allclose(by_row.sum(1), 1, atol=1e-6)
        self.assertTrue((by_row != self.stack.predict(self.preds)).any())
        with self.assertRaises(corestack.MismatchError):
            self.stack.predictor()(named)
        predictor = pickle.loads(pickle.dumps(self.stack.predictor("allow")))
        np.testing.assert_allclose(by_row, predictor(named), atol=1e-6)
        given = [named.get(name) for name in self.stack.kept]
        np.testing.assert_allclose(by_row[:5], predictor([None if p is None else p[:5] for p in given]), atol=1e-6)
        np.testing.assert_array_equal(self.stack.predictor()(self.preds), predictor(self.preds))
        with self.assertRaisesRegex(corestack.MismatchError, "every kept member is missing"):
            predictor({})

    def test_patterns_of_rows(self):
        rows = {name: p.copy() for name, p in self.preds.items()}
        rows["model0"][:100] = np.nan
        rows["model3"][50:150] = np.nan
        found = self.stack.predict(rows, missing="allow")
        predictor = self.stack.predictor("allow")
        for start, end, gone in ((0, 50, {"model0"}), (50, 100, {"model0", "model3"}), (100, 150, {"model3"}), (150, 240, ())):
            part = {name: p[start:end] for name, p in self.preds.items() if name not in gone}
            np.testing.assert_allclose(found[start:end], predictor(part), atol=1e-6)
        scored = self.stack.evaluate(rows, self.y, missing="allow")
        nll = -np.log(found[np.arange(len(self.y)), self.y].astype(float)).mean()
        self.assertAlmostEqual(scored["nll"], nll, places=6)
        for name in rows:
            rows[name][7] = np.nan
        with self.assertRaisesRegex(corestack.InputError, "row 7: no member"):
            self.stack.predict(rows, missing="allow")

    def test_fit(self):
        rows = {name: p.copy() for name, p in self.preds.items()}
        rows["model0"][:40] = np.nan
        rows["model2"][30:90] = np.nan
        with self.assertRaisesRegex(corestack.InputError, "NaN"):
            corestack.fit(rows, self.y, **QUICK)
        folds = np.arange(len(self.y)) % 3
        folds[:12] = -1
        with self.assertRaisesRegex(corestack.InputError, "missing=\"allow\""):
            corestack.fit(self.preds, self.y, folds=folds, **QUICK)
        stack = corestack.fit(rows, self.y, folds=folds, missing="allow", **QUICK)
        self.assertEqual(stack.report["samples"], len(self.y) - 12)
        self.assertEqual(stack.to_bytes(), corestack.fit(rows, self.y, folds=folds, missing="allow", threads=1, **QUICK).to_bytes())
        with self.assertRaisesRegex(corestack.ArgumentError, "'error' or 'allow'"):
            corestack.fit(self.preds, self.y, missing=True, **QUICK)
        report = corestack.compare(rows, self.y, methods=["average", "log-linear"], resamples=0, missing="allow")
        self.assertEqual(len(report["rows"]), 2)
        self.assertIn("cka", corestack.inspect(rows, self.y, missing="allow"))

    def test_regression_has_wider_variances(self):
        random = np.random.default_rng(3)
        y = random.normal(size=300)
        preds = {f"m{k}": y + random.normal(size=300) for k in range(4)}
        stack = corestack.fit(preds, y, task="regression", select_direction="none", keep_fraction=1, **QUICK)
        mean, variance = stack.predict(preds, return_variance=True)
        some = {name: p for name, p in preds.items() if name in ("m0", "m2")}
        part, wider = stack.predict(some, return_variance=True, missing="allow")
        self.assertGreater(wider.mean(), 1.3 * variance.mean())
        self.assertLess(abs(np.mean((part - y) ** 2) / wider.mean() - 1), 0.2)
        low, high = stack.predict_interval(some, 0.8, missing="allow")
        self.assertLess(abs(np.mean((low < y) & (y < high)) - 0.8), 0.12)

    def test_resolved_weights_beat_scaled_ones(self):
        _, oof, test, y, truth, folds = digits(small_digits(8, 2))
        stack = corestack.fit(oof, y, folds=folds, **QUICK)
        total = np.zeros(2)
        for name in stack.kept:
            part = {k: p for k, p in test.items() if k != name}
            p = stack.predict(part, missing="allow", output="probability")
            total[0] -= np.log(p[np.arange(len(truth)), truth]).mean()
            again = corestack.fit({k: oof[k] for k in stack.kept if k != name}, y, folds=folds, select_direction="none",
                                  redundancy_measure="none", keep_fraction=1, **QUICK)  # fmt: skip
            p = again.predict(part)
            total[1] -= np.log(p[np.arange(len(truth)), truth]).mean()
        self.assertLess(total[0], 1.05 * total[1])


if __name__ == "__main__":
    unittest.main()
