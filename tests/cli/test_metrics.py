"""--metric, --cost-matrix and predict --decide: figures against NumPy, decisions, refusals."""

import json
import math
import os
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


if __name__ == "__main__":
    unittest.main()
