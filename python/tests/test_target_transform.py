"""target.transform in Python: the keyword, and predictor, saved model and arrays that agree."""

import os
import tempfile
import unittest

import numpy as np

import corestack


class TargetTransform(unittest.TestCase):
    def test_every_way_to_predict(self):
        rng = np.random.default_rng(7)
        base = 2 + rng.normal(size=(150, 2))
        y = np.exp(base)
        members = [(np.exp(base + s * rng.normal(size=base.shape)) - (k == 2)).astype(np.float32) for k, s in enumerate((0.2, 0.3, 0.4))]
        folds = np.arange(150) % 5
        stack = corestack.fit(members, y, task="regression", folds=folds, target_transform="log")
        by_hand = corestack.fit(
            [np.log(np.where(m > 0, m, y.min(0))).astype(np.float32) for m in members], np.log(y), task="regression", folds=folds, target_range="none"
        )
        self.assertEqual(stack.report["transform"], "log")
        found = stack.predict(members)
        wanted = np.exp(by_hand.predict([np.log(np.where(m > 0, m, y.min(0))).astype(np.float32) for m in members]))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        predict = stack.predictor()
        np.testing.assert_allclose(predict(members), found, rtol=1e-6)
        np.testing.assert_allclose(predict([m[:1] for m in members]), found[:1], rtol=1e-6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.cstack")
            stack.save(path)
            np.testing.assert_array_equal(corestack.load(path).predict(members), found)


if __name__ == "__main__":
    unittest.main()
