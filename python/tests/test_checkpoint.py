"""fit(checkpoint=): a fit that was stopped goes on, and returns the same stack."""
from __future__ import annotations

import os
import shutil
import tempfile
import unittest

from common import toy

import corestack


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="corestack-checkpoint-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.parts = os.path.join(self.folder, "parts")

    def model(self, stack):
        path = os.path.join(self.folder, "model.cstack")
        stack.save(path)
        with open(path, "rb") as file:
            return file.read()

    def test_a_stopped_fit_goes_on(self):
        preds, y = toy(rows=4000, classes=10, members=8)
        other = y.copy()
        other[0] = (y[0] + 1) % 10
        how = {"threads": 1, "evaluate_nested": False}
        with self.assertRaises(corestack.CancelledError):
            corestack.fit(preds, y, checkpoint=self.parts, progress=lambda stage, *_: stage == "meta-learners", **how)
        self.assertTrue([name for name in os.listdir(self.parts) if name.endswith(".part")])
        with self.assertRaisesRegex(corestack.Error, "its seed is '0', here it is '1'"):
            corestack.fit(preds, y, checkpoint=self.parts, seed=1, **how)
        with self.assertRaisesRegex(corestack.Error, "the files of the pool .* had other contents"):
            corestack.fit(preds, other, checkpoint=self.parts, **how)
        with self.assertLogs("corestack", "WARNING") as logged:
            again = corestack.fit(preds, y, checkpoint=self.parts, **how)
        self.assertTrue(any("continued with " in line for line in logged.output), logged.output)
        self.assertFalse(os.path.exists(self.parts))
        self.assertEqual(self.model(again), self.model(corestack.fit(preds, y, **how)))

    def test_bad_folders(self):
        preds, y = toy(rows=300, classes=3, members=3)
        with self.assertRaisesRegex(corestack.Error, "does not exist; create it first"):
            corestack.fit(preds, y, checkpoint=os.path.join(self.folder, "no", "parts"))
        with self.assertRaisesRegex(corestack.Error, "empty"):
            corestack.fit(preds, y, checkpoint="")
        with self.assertRaises(corestack.Error):
            corestack.fit(preds, y, checkpoint=3)


if __name__ == "__main__":
    unittest.main()
