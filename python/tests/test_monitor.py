"""The monitor: batches as arrays and files, the state, and the same figures as the command line."""
from __future__ import annotations

import json
import os
import pickle
import subprocess
import tempfile
import threading
import unittest

import numpy as np

import corestack
from common import DIGITS, QUICK, TOOL, digits, needs_tool

try:
    import pandas
except ImportError:
    pandas = None


class Monitor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        _, cls.oof, cls.test, cls.y, cls.y_test, cls.folds = digits()
        cls.stack = corestack.fit(cls.oof, cls.y, folds=cls.folds, **QUICK)

    def flat(self):
        return {name: (0.4 * p + 0.06).astype(np.float32) for name, p in self.test.items()}

    def test_batches(self):
        watch = corestack.Monitor(self.stack)
        self.assertFalse(watch.batch(self.test, self.y_test, name="monday"))
        self.assertEqual(watch.rows, len(self.y_test))
        self.assertTrue(watch.batch(self.flat(), name="tuesday"))
        self.assertTrue(watch.alarm)
        report = watch.report
        self.assertEqual(report["first_alarm"], {"number": 2, "batch": "tuesday"})
        self.assertIn("observed", report["batches"][0])
        self.assertNotIn("observed", report["batches"][1])
        self.assertIn("tuesday", report.summary())

    @needs_tool
    def test_as_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "m.cstack")
            self.stack.save(model)
            done = subprocess.run([TOOL, "monitor", model, str(DIGITS), "--json"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            found = corestack.monitor(model, DIGITS / "pool.json")
            self.assertEqual(found["batches"][0]["expected"], told["batches"][0]["expected"])
            self.assertEqual(found["evidence"], told["evidence"])

    def test_state(self):
        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "state")
            corestack.monitor(self.stack, self.test, state=state)
            again = corestack.Monitor(self.stack, state=state)
            self.assertEqual(again.rows, len(self.y_test))
            with self.assertRaises(corestack.InputError):
                corestack.Monitor(self.stack, state=state, alpha=0.2)

    def test_a_state_of_several_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            state = os.path.join(folder, "state")
            calls = [threading.Thread(target=corestack.monitor, args=(self.stack, self.test), kwargs={"state": state}) for _ in range(3)]
            for call in calls:
                call.start()
            for call in calls:
                call.join()
            one, two = corestack.Monitor(self.stack, state=state), corestack.Monitor(self.stack, state=state)
            self.assertEqual(one.rows, 3 * len(self.y_test))
            one.batch(self.test)
            one.save()
            one.save()
            with self.assertRaisesRegex(corestack.FileError, "another program has changed"):
                two.save()
            two.save(os.path.join(folder, "other"))
            self.assertEqual(sorted(os.listdir(folder)), ["other", "state"])

    def test_refused(self):
        with self.assertRaises(corestack.ArgumentError):
            corestack.Monitor(self.stack, alpha=2)
        with self.assertRaises(corestack.ArgumentError):
            corestack.Monitor(self.stack).save()
        with self.assertRaisesRegex(corestack.ArgumentError, "state"):
            corestack.Monitor(self.stack, state=3)
        with self.assertRaisesRegex(corestack.ArgumentError, "path"):
            corestack.Monitor(self.stack).save(3)
        with self.assertRaisesRegex(corestack.ArgumentError, "empty"):
            corestack.Monitor(self.stack).batch(DIGITS, split=[])
        with self.assertRaisesRegex(TypeError, "save"):
            pickle.dumps(corestack.Monitor(self.stack))
        watch = corestack.Monitor(self.stack)
        with self.assertRaises(corestack.Error):
            watch.batch({name: p[:, :4] for name, p in self.test.items()})
        self.assertEqual(watch.rows, 0)

    @unittest.skipIf(pandas is None, "pandas is not installed")
    def test_frames_with_columns_in_another_order(self):
        names = [f"digit {c}" for c in range(10)]
        stack = corestack.fit(self.oof, np.array(names)[self.y], classes=names, folds=self.folds, **QUICK)
        one, two = corestack.Monitor(stack), corestack.Monitor(stack)
        one.batch(self.test)
        two.batch({k: pandas.DataFrame(p, columns=names)[names[::-1]] for k, p in self.test.items()})
        self.assertEqual(one.report["batches"], two.report["batches"])
        with self.assertRaisesRegex(corestack.ArgumentError, "the stack has no class names"):
            corestack.Monitor(self.stack).batch(self.test, np.array(names)[self.y_test])


if __name__ == "__main__":
    unittest.main()
