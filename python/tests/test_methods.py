"""Any method as a stack, what a model file says of itself, and predictions in the form of a sample."""

import csv
import logging
import os
import tempfile
import unittest

import numpy as np
from common import EXAMPLES

import corestack

CONCRETE = str(EXAMPLES / "concrete" / "pool.json")
RNG = np.random.default_rng(3)
Y = np.arange(90) % 3
P = []
for skill in (1.0, 1.5, 2.0):
    z = RNG.normal(size=(90, 3)) + skill * np.eye(3)[Y]
    P.append(np.exp(z) / np.exp(z).sum(1, keepdims=True))


class Methods(unittest.TestCase):
    def test_average_and_its_temperature(self):
        stack = corestack.fit(P, Y, method="average")
        np.testing.assert_allclose(stack.predict(P), sum(P) / 3, atol=1e-6)
        np.testing.assert_allclose(list(stack.weights.values()), 1 / 3)
        warm = corestack.fit(P, Y, method="average+temperature")
        t = float(warm.info()["calibration"]["detail"].split("=")[1])
        scaled = (sum(P) / 3) ** (1 / t)
        np.testing.assert_allclose(warm.predict(P), scaled / scaled.sum(1, keepdims=True), atol=1e-3)
        np.testing.assert_array_equal(corestack.Stack.from_bytes(warm.to_bytes()).predict(P), warm.predict(P))
        self.assertEqual(warm.report["method"], "average+temperature")

    def test_predictor_and_regression(self):
        for method in ("hill-climbing", "mlp", "greedy+isotonic"):
            stack = corestack.fit(P, Y, method=method)
            needed = [P[int(name[-1])] for name in stack.kept]
            one = stack.predictor()([p[:1].astype(np.float32) for p in needed])
            np.testing.assert_allclose(one, stack.predict(P)[:1], atol=1e-6)
        x = RNG.normal(size=120)
        members = [x + RNG.normal(size=120) * s for s in (0.3, 0.5)]
        stack = corestack.fit(members, x, task="regression", method="ridge")
        self.assertLess(np.mean((stack.predict(members) - x) ** 2), np.mean((members[0] - x) ** 2) + 1e-6)
        self.assertEqual(stack.predict_interval(members).shape, (2, 120))

    def test_mistakes(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "unknown method 'hill'"):
            corestack.fit(P, Y, method="hill")
        with self.assertRaisesRegex(corestack.ArgumentError, "preset and method"):
            corestack.fit(P, Y, method="ridge", preset="paper")
        with self.assertRaisesRegex(corestack.ArgumentError, "keep.max has no effect"):
            corestack.fit(P, Y, method="ridge", keep_max=2)


class Info(unittest.TestCase):
    def test_a_stack_from_a_file_knows_itself(self):
        stack = corestack.Stack.from_bytes(corestack.fit(P, Y, seed=4, keep_max=2).to_bytes())
        info = stack.info()
        self.assertEqual([m["name"] for m in info["members"]], stack.kept)
        self.assertEqual(info["fitted_on"]["samples"], 90)
        self.assertEqual((info["preset"], info["fitted_on"]["seed"]), ("default", 4))
        self.assertEqual(info["changed"]["keep.max"]["value"], "2")
        self.assertIn("hash of the pool", stack.summary())

    def test_its_pool(self):
        stack = corestack.fit(CONCRETE, method="average", evaluate_nested=False)
        self.assertTrue(stack.info(CONCRETE)["pool"]["fitted_on"])
        self.assertFalse(stack.info(CONCRETE, split="test")["pool"]["fitted_on"])
        self.assertEqual(stack.info()["fitted_on"]["pool_hash"], stack.report["pool_hash"])
        with self.assertRaisesRegex(corestack.ArgumentError, "path of a pool"):
            stack.info(P)


class Like(unittest.TestCase):
    def test_sample_submission(self):
        with tempfile.TemporaryDirectory() as folder:
            sample, out = os.path.join(folder, "sample.csv"), os.path.join(folder, "out.csv")
            ids = np.load(os.path.join(os.path.dirname(CONCRETE), "test_ids.npy"))
            with open(sample, "w", encoding="utf-8") as file:
                file.write("id,strength\n" + "".join(f"{i},0\n" for i in ids[::-1]))
            stack = corestack.fit(CONCRETE, method="average", evaluate_nested=False)
            report = stack.predict(CONCRETE, out=out, like=sample)
            self.assertEqual(report["columns"], "column 'strength': the predicted value")
            with open(out, newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file))
            self.assertEqual(rows[0], ["id", "strength"])
            found = np.array([row[1] for row in rows[1:]], dtype=np.float32)
            np.testing.assert_array_equal(found, stack.predict(CONCRETE).ravel()[::-1])
            stack.predict(CONCRETE, out=out, column="mpa")
            with open(out, encoding="utf-8") as file:
                self.assertEqual(file.readline(), "id,mpa\n")
            for how, first in (("mark", "id,'=mpa\n"), ("keep", "id,=mpa\n")):
                with self.assertLogs("corestack") as told:
                    logging.getLogger("corestack").info("so that there is one")
                    stack.predict(CONCRETE, out=out, column="=mpa", formulas=how)
                self.assertEqual("formulas='keep'" in str(told.output), how == "mark")
                with open(out, encoding="utf-8") as file:
                    self.assertEqual(file.readline(), first)
            with self.assertRaisesRegex(corestack.ArgumentError, "'mark' or 'keep'"):
                stack.predict(CONCRETE, out=out, formulas="none")
            with self.assertRaisesRegex(corestack.ArgumentError, "give out="):
                stack.predict(CONCRETE, like=sample)
            with self.assertRaisesRegex(corestack.ArgumentError, ".csv"):
                stack.predict(CONCRETE, like=sample, out=os.path.join(folder, "x.npy"))


if __name__ == "__main__":
    unittest.main()
