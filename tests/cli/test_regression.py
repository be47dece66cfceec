"""Regression through the tool: the example from fit to comparison with its scores recomputed, and what is refused."""

import json
import os

import numpy as np

from support import DIGITS, SOURCES, PoolCase

EXAMPLE = os.path.join(SOURCES, "examples", "regression")


class Example(PoolCase):
    def test_fit_predict_evaluate(self):
        fit = self.works("fit", EXAMPLE, "-o", self.model, "--json").json()
        self.assertEqual(fit["task"], "regression")
        self.assertTrue(fit["oof"]["nested"])
        self.assertLess(fit["oof"]["rmse"], 56)
        self.assertLess(abs(fit["oof"]["coverage"][2] - 0.9), 0.06)
        out, variance, ends = (self.path(n) for n in ("out.npy", "variance.npy", "ends.npy"))
        self.works("predict", self.model, EXAMPLE, "-o", out, "--variance", variance, "--intervals", ends,
                   "--level", "0.8")
        labels = os.path.join(EXAMPLE, "test_labels.npy")
        y = np.load(labels).ravel()
        mean, var, ends = np.load(out), np.load(variance), np.load(ends)
        self.assertEqual((mean.shape, var.shape, ends.shape), ((len(y),), (len(y),), (2, len(y), 1)))
        self.assertTrue((var > 0).all() and (ends[0, :, 0] < mean).all() and (mean < ends[1, :, 0]).all())
        found = self.works("evaluate", out, "--labels", labels, "--task", "regression", "--json").json()
        self.assertAlmostEqual(found["rmse"], np.sqrt(np.mean((mean - y) ** 2)), places=5)
        self.assertAlmostEqual(found["mae"], np.mean(np.abs(mean - y)), places=5)
        self.assertAlmostEqual(found["r2"], 1 - np.sum((mean - y) ** 2) / np.sum((y - y.mean()) ** 2), places=6)
        scored = self.works("evaluate", self.model, EXAMPLE, "--baselines", "-r", "100", "--json").json()
        self.assertAlmostEqual(scored["rmse"], found["rmse"], places=5)
        nll = 0.5 * np.mean(np.log(2 * np.pi * var) + (mean - y) ** 2 / var)
        self.assertAlmostEqual(scored["nll"], nll, places=5)
        self.assertFalse(scored["seen_in_fitting"])
        self.assertEqual([b["method"] for b in scored["baselines"]], ["best-single", "average", "greedy"])
        self.assertLess(scored["rmse"], scored["baselines"][1]["rmse"])
        self.assertIn("RMSE", self.works("evaluate", self.model, EXAMPLE).out)

    def test_compare(self):
        methods = "best-single,average,performance-weighted,ridge,greedy,minimum-variance,hill-climbing,default"
        found = self.works("compare", EXAMPLE, "--methods", methods, "-r", "200", "--json").json()
        rows = {r["method"]: r for r in found["rows"]}
        self.assertEqual(sorted(rows), sorted(methods.split(",")))
        for row in rows.values():
            self.assertTrue(row["rmse_ci"][0] < row["rmse"] < row["rmse_ci"][1])
        self.assertEqual(len(found["tests"]), len(rows) - 1)
        self.assertAlmostEqual(sum(rows["average"]["weights"]), 1)
        self.assertIn("hill-climbing", self.works("compare", EXAMPLE, "--methods", methods, "-r", "0").out)

    def test_refused(self):
        self.works("fit", DIGITS, "-o", self.model, "--set", "evaluate.nested=false")
        out = self.path("out.npy")
        self.fails("predict", self.model, EXAMPLE, "-o", out, says=["classification", "regression"])
        self.fails("evaluate", self.model, EXAMPLE, says=["classification", "regression"])
        self.fails("compare", EXAMPLE, "--methods", "log-linear", says=["log-linear", "classification"])
        self.fails("ablate", EXAMPLE, says=["ablate", "regression"])
        self.fails("compare", EXAMPLE, "--ood", "test", says=["classification"])
        with open(os.path.join(EXAMPLE, "pool.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        manifest["outputs"] = 2
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        for name in os.listdir(EXAMPLE):
            if name.endswith(".npy"):
                self.save(name, np.load(os.path.join(EXAMPLE, name)))
        self.fails("fit", self.pool, "-o", self.path("m.cstack"), says=["oof_labels.npy", "outputs"])
        del manifest["outputs"]
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        broken = np.load(self.path("ridge.oof.npy")).astype(np.float32)
        broken.flat[7] = np.nan
        self.save("ridge.oof.npy", broken)
        self.fails("fit", self.pool, "-o", self.path("m.cstack"), says=["ridge.oof.npy", "row 7", "NaN"])
        targets = np.load(self.path("oof_labels.npy")).astype(float)
        self.save("ridge.oof.npy", np.load(os.path.join(EXAMPLE, "ridge.oof.npy")))
        targets.flat[3] = np.inf
        self.save("oof_labels.npy", targets)
        self.fails("fit", self.pool, "-o", self.path("m.cstack"), says=["oof_labels.npy", "row 3", "infinity"])
