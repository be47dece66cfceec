"""--metric, --cost-matrix and predict --decide: figures against NumPy, decisions, refusals."""

import json
import math
import os
import statistics
import tempfile
import unittest

import numpy as np

from support import DIGITS, run

ROWS = 240


def auc(p, y):
    higher = p[y == 1][:, None] - p[y == 0]
    return np.mean((higher > 0) + 0.5 * (higher == 0))


def f1(told, y):
    return 2 * np.sum((told == 1) & (y == 1)) / (np.sum(told == 1) + np.sum(y == 1))


class Metrics(unittest.TestCase):
    """A rare second class, which the largest probability hardly ever is."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        rng = np.random.default_rng(4)
        cls.y = {}
        for split in ("oof", "test"):
            y = (rng.random(ROWS) < 0.2).astype(np.int64)
            np.save(cls.at(f"{split}_y.npy"), y)
            cls.y[split] = y
            for k in range(4):
                z = 1.2 * y - 2 + rng.normal(size=ROWS) * (0.8 + 0.1 * k)
                p = 1 / (1 + np.exp(-z))
                np.save(cls.at(f"m{k}_{split}.npy"), np.stack([1 - p, p], 1).astype(np.float32))
        models = [{"name": f"m{k}", "predictions": {s: f"m{k}_{s}.npy" for s in ("oof", "test")}} for k in range(4)]
        splits = {s: {"labels": f"{s}_y.npy"} for s in ("oof", "test")}
        cls.pool = cls.at("pool.json")
        with open(cls.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "classification", "classes": ["no", "yes"], "splits": splits, "models": models}, file)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def done(self, *arguments):
        result = run(*arguments, "--json")
        self.assertEqual(result.code, 0, result.err)
        return result.json()

    def refused(self, words, *arguments):
        result = run(*arguments)
        self.assertEqual(result.code, 2, result.out)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result.err)
        for word in words:
            self.assertIn(word, result.err)

    def test_auc_and_the_test_of_delong(self):
        saved = self.at("saved")
        report = self.done("compare", self.pool, "-m", "average,default", "--metric", "roc_auc", "-r", 200, "--save", saved)
        p = {m: np.load(os.path.join(saved, f"{m}.oof.npy"))[:, 1].astype(float) for m in ("average", "default")}
        y = self.y["oof"]
        for row in report["rows"]:
            self.assertAlmostEqual(row["auc"], auc(p[row["method"]], y), delta=1e-9)
            self.assertTrue(row["auc_ci"][0] < row["auc"] < row["auc_ci"][1])
        place = {}
        for name, q in p.items():
            higher = q[y == 1][:, None] - q[y == 0]
            wins = (higher > 0) + 0.5 * (higher == 0)
            place[name] = (wins.mean(1), wins.mean(0))
        apart = [place["default"][k] - place["average"][k] for k in (0, 1)]
        z = apart[0].mean() / math.sqrt(sum(np.var(a, ddof=1) / len(a) for a in apart))
        test = report["tests"][0]
        self.assertEqual((test["metric"], test["test"]), ("auc", "DeLong"))
        self.assertAlmostEqual(test["p"], math.erfc(abs(z) / math.sqrt(2)), delta=1e-9)
        self.assertEqual(report["metric"]["name"], "auc")

    def test_decisions_for_f1(self):
        model, out = self.at("f1.cstack"), self.at("decided.csv")
        fit = self.done("fit", self.pool, "--metric", "f1", "-o", model)
        plain = self.done("fit", self.pool, "-o", self.at("plain.cstack"))
        self.assertEqual({k: fit["oof"][k] for k in ("nll", "top1")}, {k: plain["oof"][k] for k in ("nll", "top1")})
        self.assertEqual(fit["decision"]["by"], "offsets")
        self.assertGreater(fit["decision"]["gain"], 0.1)
        self.assertTrue(fit["oof"]["f1_ci"][0] < fit["oof"]["f1"] < fit["oof"]["f1_ci"][1])
        self.assertGreater(fit["oof"]["f1"], max(m["f1"] for m in fit["members"]))
        run("predict", model, self.pool, "-o", self.at("p.npy"))
        p = np.load(self.at("p.npy")).astype(float)
        told = np.argmax(np.log(np.maximum(p, 1e-12)) + fit["decision"]["offsets"], 1)
        run("predict", model, self.pool, "-o", out, "--decide")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["label"] + [("no", "yes")[t] for t in told])
        run("predict", model, self.pool, "-o", self.at("decided.npy"), "--decide")
        self.assertEqual(np.load(self.at("decided.npy")).tolist(), told.tolist())
        score = self.done("evaluate", model, self.pool)
        self.assertAlmostEqual(score["f1"], f1(told, self.y["test"]), delta=1e-9)
        # A fitted method decides so, too, and compare scores what such a fit does.
        run("fit", self.pool, "--method", "average", "--metric", "f1", "-o", self.at("average.cstack"))
        one = self.done("evaluate", self.at("average.cstack"), self.pool)
        other = self.done("compare", self.pool, "-m", "average", "--metric", "f1", "--split", "test", "-r", 0)
        self.assertEqual(one["f1"], other["rows"][0]["f1"])

    def test_offsets_are_the_best_there_are(self):
        """Expected F1, half by labels and half by probabilities, at the threshold of a fit against every other one."""
        fit = self.done("fit", self.pool, "--method", "average", "--metric", "f1", "-o", self.at("a.cstack"))
        offsets = fit["decision"]["offsets"]
        p = np.mean([np.load(self.at(f"m{k}_oof.npy"))[:, 1] for k in range(4)], axis=0, dtype=np.float32).astype(float)
        soft = 0.5 * self.y["oof"] + 0.5 * p

        def value(told):
            return 2 * np.sum(soft[told]) / (told.sum() + soft.sum())

        best = max(value(p >= t) for t in p)
        self.assertAlmostEqual(value(np.log(p / (1 - p)) + offsets[1] - offsets[0] > 0), best, delta=1e-6)

    def test_costs(self):
        costs, model = self.at("costs.csv"), self.at("costs.cstack")
        with open(costs, "w", encoding="utf-8") as file:
            file.write("0,1\n7,0\n")
        fit = self.done("fit", self.pool, "--cost-matrix", costs, "-o", model)
        self.assertEqual(fit["decision"]["by"], "costs")
        os.remove(costs)  # the model has them
        run("predict", model, self.pool, "-o", self.at("p.npy"))
        p = np.load(self.at("p.npy")).astype(float)
        told = (7 * p[:, 1] > p[:, 0]).astype(int)
        y = self.y["test"]
        self.assertAlmostEqual(self.done("evaluate", model, self.pool)["cost"], np.mean(np.where(y == 1, 7 * (told == 0), told)), delta=1e-9)
        run("predict", model, self.pool, "-o", self.at("d.npy"), "--decide")
        self.assertEqual(np.load(self.at("d.npy")).tolist(), told.tolist())
        self.assertIn("by costs", run("show", model).out)
        np.save(self.at("costs.npy"), np.array([[0, 1], [7, 0]]))
        self.assertEqual(self.done("fit", self.pool, "--cost-matrix", self.at("costs.npy"), "-o", model)["oof"]["cost"], fit["oof"]["cost"])
        with open(costs, "w", encoding="utf-8") as file:
            file.write("0,1,2\n7,0\n")
        self.refused(["costs.csv", "5 numbers"], "fit", self.pool, "--cost-matrix", costs, "-o", model)

    def test_several_classes(self):
        report = self.done("compare", DIGITS, "-m", "average", "--metric", "f1-macro", "-r", 0)
        self.assertGreater(report["rows"][0]["f1_macro"], 0.9)
        self.refused(["two classes", "f1-macro"], "fit", DIGITS, "--metric", "f1", "-o", self.at("x.cstack"))

    def test_values(self):
        rng = np.random.default_rng(1)
        y = rng.gamma(2, 2, 60)
        for name, a in (("y", y), ("a", y + rng.normal(size=60)), ("b", y * np.exp(0.3 * rng.normal(size=60)))):
            np.save(self.at(f"v_{name}.npy"), a)
        files = [self.at(f"v_{n}.npy") for n in "ab"]
        report = run("compare", *files, "--labels", self.at("v_y.npy"), "--task", "regression", "--metric", "rmsle", "-m", "best-single,average",
                     "--with", f"low={self.at('v_low.npy')}", "-r", 0, "--json")
        self.assertEqual(report.code, 2, "the file of --with is not there yet")
        np.save(self.at("v_low.npy"), y - 3)
        report = self.done("compare", *files, "--labels", self.at("v_y.npy"), "--task", "regression", "--metric", "rmsle", "-m", "average",
                           "--with", f"low={self.at('v_low.npy')}", "-r", 0)
        f = np.mean([np.load(f) for f in files], 0)
        self.assertAlmostEqual(report["rows"][0]["rmsle"], np.sqrt(np.mean((np.log1p(y) - np.log1p(f)) ** 2)), delta=1e-6)
        self.assertIsNone(report["rows"][1]["rmsle"])
        self.assertTrue(any("low: RMSLE: the prediction of row" in n for n in report["notices"]), report["notices"])

    def test_refusals(self):
        model = self.at("x.cstack")
        self.refused(["auk", "choose one of: log-loss"], "fit", self.pool, "--metric", "auk", "-o", model)
        self.refused(["given twice"], "fit", self.pool, "--metric", "auc", "--set", "metric=f1", "-o", model)
        self.refused(["--cost-matrix FILE"], "fit", self.pool, "--metric", "cost", "-o", model)
        self.refused(["give one of them"], "fit", self.pool, "--metric", "auc", "--cost-matrix", "c.csv", "-o", model)
        self.assertFalse(os.path.exists(model))


class Values(unittest.TestCase):
    """A skewed target whose noise grows with it: medians, quantiles and the mean behind a transform."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        rng = np.random.default_rng(8)
        cls.y, splits = {}, {}
        for split in ("oof", "test"):
            size = np.exp(1 + 0.4 * rng.normal(size=ROWS))
            noise = [statistics.NormalDist().inv_cdf((i + 0.5) / ROWS) for i in rng.permutation(ROWS)]
            cls.y[split] = size * np.exp(0.6 * np.array(noise))
            np.save(cls.at(f"{split}_y.npy"), cls.y[split])
            splits[split] = {"labels": f"{split}_y.npy"}
            for k in range(4):
                np.save(cls.at(f"m{k}_{split}.npy"), (size * np.exp(0.2 * rng.normal(size=ROWS))).astype(np.float32))
        cls.fold = np.arange(ROWS) % 5
        np.save(cls.at("folds.npy"), cls.fold.astype(np.int32))
        splits["oof"]["folds"] = "folds.npy"
        models = [{"name": f"m{k}", "predictions": {s: f"m{k}_{s}.npy" for s in splits}} for k in range(4)]
        cls.pool = cls.at("pool.json")
        with open(cls.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "regression", "splits": splits, "models": models}, file)

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder.name, name)

    def done(self, *arguments):
        result = run(*arguments, "--json")
        self.assertEqual(result.code, 0, result.err)
        return result.json()

    def predicted(self, model, split, *more):
        out = self.at("out.npy")
        result = run("predict", model, self.pool, "--split", split, "-o", out, *more)
        self.assertEqual(result.code, 0, result.err)
        return np.load(out).astype(float)

    def loss(self, level, f, split="oof"):
        off = self.y[split] - f
        return np.mean(np.maximum(level * off, (level - 1) * off))

    def line(self, level, f, y, weights):
        """Intercept and slope of the least pinball loss: some two rows are on the line."""
        best = (np.inf, 0, 1)
        for i in range(0, len(f)):
            slopes = np.delete((y - y[i]), i) / np.delete(f - f[i], i)
            order = np.argsort(slopes)
            run_of = np.delete(np.abs(f - f[i]) * weights, i)[order]
            right = np.delete((f - f[i]) > 0, i)[order]
            # The derivative in the slope through row i: every row adds its own at its own slope.
            start = -np.sum(np.where(right, level, 1 - level) * run_of)
            at = np.searchsorted(start + np.cumsum(run_of), 0)
            slope = slopes[order][min(at, len(order) - 1)]
            off = y - y[i] - slope * (f - f[i])
            best = min(best, (np.sum(weights * np.maximum(level * off, (level - 1) * off)), y[i] - slope * f[i], slope))
        return best[1:]

    def test_quantiles(self):
        """Against the best line in NumPy, found on the other folds and on all rows."""
        f = np.mean([np.load(self.at(f"m{k}_oof.npy")) for k in range(4)], 0, dtype=np.float64)
        for metric, level, weights in (("pinball=0.9", 0.9, np.ones(ROWS)), ("mape", 0.5, 1 / self.y["oof"])):
            key = metric.split("=")[0]
            model = self.at(f"{key}.cstack")
            fit = self.done("fit", self.pool, "--method", "average", "--metric", metric, "-o", model)
            made = fit["decision"]
            self.assertEqual(made["by"], "quantile")
            told = np.empty(ROWS)
            for k in range(5):
                inside = self.fold != k
                a, b = self.line(level, f[inside], self.y["oof"][inside], weights[inside])
                told[~inside] = a + b * f[~inside]
            off = self.y["oof"] - told
            double = 1 if key == "pinball" else 2
            oracle = double * np.mean(weights * np.maximum(level * off, (level - 1) * off))
            self.assertLessEqual(fit["oof"][key], 1.01 * oracle, metric)
            plain = double * np.mean(weights * np.maximum(level * (self.y["oof"] - f), (level - 1) * (self.y["oof"] - f)))
            self.assertLess(fit["oof"][key], 0.98 * plain, metric)
            variance = self.at("variance.npy")
            mean = self.predicted(model, "oof", "--variance", variance)
            aimed = self.predicted(model, "oof", "--decide")
            line = made["offsets"][0] + made["slopes"][0] * mean + made["deviations"][0] * np.sqrt(np.load(variance))
            np.testing.assert_allclose(aimed, np.maximum(line, 0), rtol=1e-4, atol=1e-5)
            a, b = self.line(level, f, self.y["oof"], weights)
            self.assertLess(np.sum(weights * np.maximum(level * (self.y["oof"] - aimed), (level - 1) * (self.y["oof"] - aimed))),
                            1.001 * np.sum(weights * np.maximum(level * (self.y["oof"] - a - b * f), (level - 1) * (self.y["oof"] - a - b * f))))

    def test_everywhere(self):
        """Nested in compare, on test in compare and evaluate; other scores stay those of the mean."""
        model = self.at("all.cstack")
        fit = self.done("fit", self.pool, "--metric", "mae", "-o", model)
        plain = self.done("fit", self.pool, "-o", self.at("plain.cstack"))
        self.assertEqual({k: v for k, v in fit["oof"].items() if k != "mae"}, {k: v for k, v in plain["oof"].items() if k != "mae"})
        self.assertAlmostEqual(plain["oof"]["mae"] - fit["oof"]["mae"], fit["decision"]["gain"], delta=1e-9)
        np.testing.assert_array_equal(self.predicted(model, "test"), self.predicted(self.at("plain.cstack"), "test"))
        rows = self.done("compare", self.pool, "-m", "default,average", "--metric", "mae", "-r", 200)["rows"]
        self.assertTrue(rows[0]["decided"])
        self.assertEqual(rows[0]["mae"], fit["oof"]["mae"])
        self.assertTrue(rows[0]["mae_ci"][0] < rows[0]["mae"] < rows[0]["mae_ci"][1])
        mae = 2 * self.loss(0.5, self.predicted(model, "test", "--decide"), "test")
        self.assertAlmostEqual(self.done("evaluate", model, self.pool, "--split", "test")["mae"], mae, delta=1e-6)
        row = self.done("compare", self.pool, "-m", "default", "--metric", "mae", "--split", "test", "-r", 0)["rows"][0]
        self.assertAlmostEqual(row["mae"], mae, delta=1e-6)
        other = self.done("evaluate", model, self.pool, "--split", "test", "--metric", "rmse")
        self.assertAlmostEqual(other["mae"], 2 * self.loss(0.5, self.predicted(model, "test"), "test"), delta=1e-6)
        self.assertNotIn("decided", other)
        text = run("compare", self.pool, "-m", "default", "--metric", "mae", "-r", 0).out
        self.assertIn("MAE: of values that are decided for it", text)
        both, intervals = self.at("ends.npy"), self.at("ends2.npy")
        self.predicted(model, "test", "--intervals", both)
        self.predicted(model, "test", "--intervals", intervals, "--decide")
        np.testing.assert_array_equal(np.load(both), np.load(intervals))
        result = run("predict", self.at("plain.cstack"), self.pool, "-o", self.at("o.npy"), "--decide")
        self.assertIn("these are its predictions", result.err)

    def test_the_mean_behind_a_transform(self):
        """Duan's smearing, with residuals of nested predictions in NumPy."""
        for kind, there, back in (("log", np.log, np.exp), ("sqrt", np.sqrt, np.square)):
            saved, model = self.at(f"{kind}_saved"), self.at(f"{kind}.cstack")
            fit = self.done("fit", self.pool, "--metric", "rmse", "--target-transform", kind, "--set", "variance.rule=constant", "-o", model)
            self.done("compare", self.pool, "-m", "default", "--set", f"target.transform={kind}", "--set", "variance.rule=constant", "--save", saved, "-r", 0)
            nested = np.load(os.path.join(saved, "default.oof.npy")).ravel().astype(float)
            self.assertEqual(fit["decision"]["by"], "mean over residuals")
            residuals = there(self.y["oof"]) - there(nested)
            f = self.predicted(model, "test")
            oracle = np.mean(back(there(f)[:, None] + residuals), 1)
            aimed = self.predicted(model, "test", "--decide")
            np.testing.assert_allclose(aimed, oracle, rtol=0.03)
            self.assertGreater(np.mean(oracle / f), 1.1)
            plain = self.done("fit", self.pool, "--target-transform", kind, "-o", self.at("t.cstack"))
            self.assertNotIn("decision", plain)
            self.assertAlmostEqual(plain["oof"]["rmse"] - fit["oof"]["rmse"], fit["decision"]["gain"], delta=1e-9)
        median = self.done("fit", self.pool, "--metric", "mae", "--target-transform", "log", "-o", model)
        self.assertEqual(median["decision"]["by"] in ("quantile", "prediction"), True)


if __name__ == "__main__":
    unittest.main()
