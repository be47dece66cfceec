"""Folds in time in Python: arrays in another order, dates, files with arrays beside them, the function folds, refusals."""

import os
import tempfile
import unittest

import numpy as np

import corestack

ROWS = 150


class TimeFolds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(5)
        cls.y = rng.normal(size=ROWS) + np.arange(ROWS) / 50
        cls.members = [(cls.y + rng.normal(size=ROWS) * s).astype(np.float32) for s in (0.4, 0.6, 0.9)]
        cls.places = rng.permutation(ROWS)
        cls.rmse = cls.fit(cls.members, cls.y)

    @classmethod
    def fit(cls, members, y, **more):
        report = corestack.fit(members, y, task="regression", folds="time", folds_count=3, **more).report
        assert report["folds"] == {"count": 3, "source": "time"}, report["folds"]
        return report["oof"]["rmse"]

    def mixed(self, order, **more):
        return self.fit([m[self.places] for m in self.members], self.y[self.places], order=order, **more)

    def test_the_order_may_be_numbers_dates_or_texts(self):
        days = np.datetime64("2021-01-01") + self.places
        for order in (self.places, self.places / 7, days, [str(d) for d in days], days.tolist()):
            self.assertAlmostEqual(self.mixed(order), self.rmse, places=9)
        self.assertNotAlmostEqual(self.mixed(self.places, folds_gap=9), self.rmse, places=6)

    def test_an_order_beside_files(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"m{k}.npy") for k in range(3)]
            for path, member in zip(paths, self.members):
                np.save(path, member[self.places])
            self.assertAlmostEqual(self.fit(paths, self.y[self.places], order=self.places), self.rmse, places=9)

    def test_compare(self):
        report = corestack.compare(self.members, self.y, task="regression", folds="time", methods="ridge", resamples=0, options={"folds.count": 4})
        self.assertEqual(report["samples"], ROWS * 4 // 5)

    def test_the_function_folds(self):
        np.testing.assert_array_equal(corestack.folds(self.y, 2, task="regression", time=True), np.arange(ROWS) // 50)
        np.testing.assert_array_equal(corestack.folds(self.y, 2, task="regression", order=self.places), self.places // 50)

    def test_refusals(self):
        with self.assertRaisesRegex(corestack.MismatchError, "order: has shape"):
            self.fit(self.members, self.y, order=[1, 2])
        with self.assertRaisesRegex(corestack.InputError, "order: give a number"):
            self.fit(self.members, self.y, order=[None] * ROWS)
        with self.assertRaisesRegex(corestack.ArgumentError, "groups"):
            corestack.folds(self.y, 2, time=True, groups=np.arange(ROWS))


if __name__ == "__main__":
    unittest.main()
