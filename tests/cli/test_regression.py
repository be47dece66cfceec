"""Regression through the tool: the example from fit to comparison with its scores recomputed, and what is refused."""

import csv
import io
import json
import os

import numpy as np
from scipy.optimize import minimize

from support import SOURCES, PoolCase, slow, small
from test_domains import crc32c, sections

EXAMPLE = os.path.join(SOURCES, "examples", "regression")


class Range(PoolCase):
    """target.range: predictions are those without bounds, clipped by NumPy, and so are intervals around them, where the rule finds bounds."""

    def both(self, y, members):
        """Bounds, and (means, ends) of new rows with and without target.range; the new rows are the members' halves and doubles."""
        files = [self.save(f"{k}.npy", m) for k, m in enumerate(members)]
        new = [np.concatenate([m * 2, m / 2 - 0.2]) for m in members]
        new[0][:9] = np.nan
        for k, m in enumerate(new):
            np.save(self.path(f"n{k}.npy"), m)
        words = ("--task", "regression", "--missing", "allow")
        found = []
        for rule in ("auto", "none"):
            report = self.works("fit", *words, "--labels", self.save("y.npy", y), *files, "-o", self.model, "-s", f"target.range={rule}",
                                "-s", "evaluate.nested=false", "--json").json()
            names = [f"{k}={self.path(f'n{k}.npy')}" for k in range(len(members))]
            self.manifest = {"corestack_pool": 1, "task": "regression", "splits": {"test": {}},
                             "models": [{"name": str(k), "predictions": {"test": f"n{k}.npy"}} for k in range(len(names))]}
            self.write_manifest()
            self.works("predict", self.model, self.pool, "--missing", "allow", "-o", self.path("o.npy"), "--intervals", self.path("i.npy"))
            found.append((np.load(self.path("o.npy")), np.load(self.path("i.npy"))))
            bounds = (report["outputs"][0]["low"], report["outputs"][0]["high"])
            self.assertEqual(bounds if rule == "none" else (None, None), (None, None))
            wanted = bounds if rule == "auto" else wanted
        return wanted, found

    def check(self, y, members, bounds):
        found, (with_range, without) = self.both(y, members)
        self.assertEqual(found, bounds)
        low, high = (-np.inf if bounds[0] is None else bounds[0], np.inf if bounds[1] is None else bounds[1])
        mean, ends = np.clip(without[0], low, high), without[1]
        half = (ends[1] - ends[0]) / 2
        np.testing.assert_array_equal(with_range[0], mean)
        np.testing.assert_allclose(with_range[1].reshape(2, -1), np.clip([mean.ravel() - half.ravel(), mean.ravel() + half.ravel()], low, high), rtol=1e-5, atol=1e-6)
        if bounds != (None, None):
            self.assertTrue((with_range[0] != without[0]).any())

    def test_bounds(self):
        rng = np.random.default_rng(2)
        share = np.clip(rng.normal(size=150) * 0.4 + 0.5, 0, 1)
        noisy = [share + s * rng.normal(size=150) for s in (0.2, 0.3)]
        inside = np.clip(noisy[0], 0, 1)
        self.check(share, [inside, noisy[1]], (0, 1))
        with open(self.model, "rb") as file:
            data = bytearray(file.read())
        self.assertNotIn("RANG", sections(data))  # of the fit with target.range=none
        self.check(share * 0.99, [inside, noisy[1]], (0, None))  # no target is at 1
        self.check(share, [np.clip(noisy[0], 0, 1.1) + 0.01, noisy[1]], (0, None))  # no member keeps the bound at 1
        self.check(share, noisy, (None, None))  # every member goes below 0
        self.check(share - 0.001, [inside, noisy[1]], (None, None))  # a target is below 0

    def test_a_file_with_other_bounds_is_refused(self):
        y = np.arange(60) / 59
        files = [self.save(f"{k}.npy", np.clip(y + k, 0, 1)) for k in (0.01, 0.02)]
        self.works("fit", "--task", "regression", "--labels", self.save("y.npy", y), *files, "-o", self.model, "-s", "evaluate.nested=false")
        with open(self.model, "rb") as file:
            data = bytearray(file.read())
        place, payload = sections(data)["RANG"]
        self.assertEqual(payload, b"\3\0\0\0")
        data[place] = 4
        data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
        with open(self.model, "wb") as file:
            file.write(data)
        self.fails("show", self.model, says=["the range of an output is 4"])

    def test_bounds_in_a_comparison_and_of_presets(self):
        rng = np.random.default_rng(4)
        y = np.exp(rng.normal(size=150))
        files = [self.save(f"{k}.npy", np.maximum(y + rng.normal(size=150), 0 if k == 0 else -9)) for k in range(3)]
        words = ("compare", "--task", "regression", "--labels", self.save("y.npy", y), *files, "-r", 0, "-m", "default,paper", "--json")
        self.works(*words, "--save", self.path("a"))
        self.works(*words, "--save", self.path("b"), "-s", "target.range=none")
        one, other = (np.load(self.path(f"{d}/default.oof.npy")) for d in "ab")
        self.assertLess(other.min(), 0)
        np.testing.assert_array_equal(one, np.maximum(other, 0))
        np.testing.assert_array_equal(*(np.load(self.path(f"{d}/paper.oof.npy")) for d in "ab"))


class Transform(PoolCase):
    """target.transform: what a fit of transformed arrays gives, put back by NumPy."""

    KINDS = {"log1p": (np.log1p, np.expm1), "log": (np.log, np.exp), "sqrt": (np.sqrt, np.square),
             "logit": (lambda v: np.log(v) - np.log1p(-v), lambda z: 1 / (1 + np.exp(-z)))}

    def prices(self, rows, seed):
        """Log-normal targets [rows] and 6 members with multiplicative noise, of which one is below -1 at times."""
        rng = np.random.default_rng(seed)
        base = 2 + rng.normal(size=rows)
        members = [np.exp(base + 0.05 * k + (0.2 + 0.05 * k) * rng.normal(size=rows)) - (3 if k == 5 else 0) for k in range(6)]
        return np.exp(base), [m.astype(np.float32) for m in members]

    def write(self, fitted, new):
        for name, (y, members) in (("oof", fitted), ("test", new)):
            self.save(f"{name}_y.npy", y)
            for k, m in enumerate(members):
                self.save(f"{name}_{k}.npy", np.asarray(m, np.float32))
        self.manifest = {"corestack_pool": 1, "task": "regression", "splits": {s: {"labels": f"{s}_y.npy"} for s in ("oof", "test")},
                         "models": [{"name": f"m{k}", "predictions": {s: f"{s}_{k}.npy" for s in ("oof", "test")}} for k in range(len(fitted[1]))]}
        self.write_manifest()

    def predictions(self, *more):
        """Report of a fit, and of split test predictions, both ends of intervals and variances."""
        report = self.works("fit", self.pool, "-o", self.model, "-s", "target.range=none", "--json", *more).json()
        files = [self.path(f"out{k}.npy") for k in range(3)]
        self.works("predict", self.model, self.pool, "-o", files[0], "--intervals", files[1], "--variance", files[2])
        return report, [np.load(f).astype(float).reshape(n, -1) for f, n in zip(files, (1, 2, 1))]

    def test_as_by_hand(self):
        for kind, (forward, inverse) in self.KINDS.items():
            with self.subTest(kind):
                fitted, new = self.prices(150, 1), self.prices(60, 2)
                if kind == "logit":  # shares
                    fitted, new = ((y / (1 + y), [m / (1 + m) * 1.001 for m in ms]) for y, ms in (fitted, new))
                self.write(fitted, new)
                report, found = self.predictions("--target-transform", kind)
                ends = fitted[0].min(), fitted[0].max()

                def moved(members):
                    with np.errstate(all="ignore"):
                        whole = [forward(m.astype(float)) for m in members]
                    low, high = forward(np.array(ends))
                    return [np.where(np.isfinite(z), z, np.where(m > 0.5, high, low)) for z, m in zip(whole, members)]

                outside = sum((~np.isfinite(np.where(m > -1, 1, np.nan)) if kind == "log1p" else (m <= 0) if kind != "logit" else (m <= 0) | (m >= 1)).sum()
                              for m in fitted[1])
                if outside:
                    self.assertTrue(any(f"target.transform={kind}: {outside} predictions" in n for n in report["notices"]), report["notices"])
                self.write((forward(fitted[0]), moved(fitted[1])), (forward(new[0]), moved(new[1])))
                _, (mean, ends, variance) = self.predictions()
                np.testing.assert_allclose(found[0], inverse(mean), rtol=1e-5)
                np.testing.assert_allclose(found[1], inverse(np.maximum(ends, 0) if kind == "sqrt" else ends), rtol=1e-5, atol=1e-7)
                step = 1e-4  # the delta method: the slope of the inverse
                slope = (inverse(mean + step) - inverse(mean - step)) / (2 * step)
                np.testing.assert_allclose(found[2], variance * slope**2, rtol=1e-4)

    def test_scores_and_the_file(self):
        fitted, new = self.prices(150, 1), self.prices(60, 2)
        self.write(fitted, new)
        report, (mean, ends, _) = self.predictions("--metric", "rmsle")  # log1p by itself
        self.assertEqual(report["transform"], "log1p")
        self.assertTrue(any("metric rmsle" in n for n in report["notices"]))
        self.assertIsNone(report["oof"]["nll"])
        self.assertNotIn("coverage", report["oof"])
        scored = self.works("evaluate", self.model, self.pool, "--split", "test", "--metric", "rmsle", "-r", 0, "--json").json()
        self.assertAlmostEqual(scored["rmsle"], np.sqrt(np.mean((np.log1p(mean[0]) - np.log1p(new[0])) ** 2)), places=5)
        self.assertAlmostEqual(scored["rmse"], np.sqrt(np.mean((mean[0] - new[0]) ** 2)), places=4)
        self.assertIsNone(scored["nll"])
        self.assertNotIn("coverage", scored)
        words = ("compare", self.pool, "-r", 0, "-m", "default,paper,average", "--json")
        rows = {}
        for more in (("--metric", "rmsle"), ("--target-transform", "log1p"), ("--metric", "rmsle", "--target-transform", "none")):
            rows[more] = {r["method"]: r for r in self.works(*words, *more).json()["rows"]}
        (auto, asked, none) = rows.values()
        self.assertAlmostEqual(auto["default"]["rmsle"], report["oof"]["rmsle"], places=6)
        self.assertEqual(auto["default"]["rmse"], asked["default"]["rmse"])
        self.assertNotEqual(auto["default"]["rmse"], none["default"]["rmse"])
        self.assertEqual(auto["paper"]["rmse"], none["paper"]["rmse"])
        self.assertIsNone(asked["paper"]["nll"])
        self.assertIsNotNone(none["default"]["nll"])
        with open(self.model, "rb") as file:
            data = bytearray(file.read())
        place, payload = sections(data)["TRAN"]
        self.assertEqual(payload, b"\1\0\0\0" + np.array([fitted[0].min(), fitted[0].max()], "<f8").tobytes())
        data[place + 4 : place + 12] = np.array([-2.0], "<f8").tobytes()
        data[-4:] = crc32c(data[:-4]).to_bytes(4, "little")
        with open(self.model, "wb") as file:
            file.write(data)
        self.fails("show", self.model, says=["targets of output 0 are not above -1"])

    def test_a_target_outside_is_named(self):
        y, members = self.prices(60, 1)
        y[41] = -2
        self.write((y, members), (y, members))
        for kind, needs in (("log1p", "above -1"), ("log", "above 0"), ("sqrt", "0 or more"), ("logit", "between 0 and 1")):
            first = 41 if kind != "logit" else int(np.flatnonzero((y >= 1) | (y <= 0))[0])
            self.fails("fit", self.pool, "-o", self.model, "--target-transform", kind, says=[f"row {first}, output 0", needs])
        report = self.works("fit", self.pool, "-o", self.model, "-s", "target.transform=auto", "--metric", "mae", "--json").json()
        self.assertNotIn("transform", report)

    def test_rows_without_a_member(self):
        fitted, new = self.prices(150, 3), self.prices(60, 4)
        for k in (1, 2):
            new[1][k][k::9] = np.nan
        found = []
        for by_hand in (False, True):
            if by_hand:
                fitted, new = ((np.log1p(y), [np.log1p(np.where(m > -1, m, self.least)) for m in ms]) for y, ms in (fitted, new))
                for k in (1, 2):
                    new[1][k][k::9] = np.nan
            self.least = fitted[0].min()
            self.write(fitted, new)
            self.works("fit", self.pool, "-o", self.model, "-s", "target.range=none", *(() if by_hand else ("--target-transform", "log1p")))
            out, ends = self.path("o.npy"), self.path("i.npy")
            self.works("predict", self.model, self.pool, "--missing", "allow", "-o", out, "--intervals", ends)
            found += [np.load(out), np.load(ends)]
        np.testing.assert_allclose(found[0], np.expm1(found[2]), rtol=1e-5)
        np.testing.assert_allclose(found[1], np.expm1(found[3]), rtol=1e-5, atol=1e-5)

    def test_prices(self):
        """Out of sample as good by RMSLE as the better of a ridge on log1p, and hill climbing on RMSLE, within 1%."""
        (y, members), (truth, new) = self.prices(300, 5), self.prices(3000, 6)
        self.write((y, members), (truth, new))
        _, (mean, _, _) = self.predictions("--target-transform", "log1p")
        x, z = (np.log1p(np.maximum(np.array(m, float).T, y.min())) for m in (members, new))
        rmsle = lambda p, t: np.sqrt(np.mean((np.log1p(np.maximum(p, 0)) - np.log1p(t)) ** 2))
        center = x.mean(0)
        weights = np.linalg.solve((x - center).T @ (x - center) + np.eye(6), (x - center).T @ (np.log1p(y) - np.log1p(y).mean()))
        ridge = np.expm1(np.log1p(y).mean() + (z - center) @ weights)
        counts = np.zeros(6)
        for _ in range(50):
            counts[np.argmin([rmsle((np.array(members).T @ (counts + e)) / (counts.sum() + 1), y) for e in np.eye(6)])] += 1
        climbed = np.array(new).T @ counts / counts.sum()
        self.assertLess(rmsle(mean[0], truth), 1.01 * min(rmsle(ridge, truth), rmsle(climbed, truth)))


class Few(PoolCase):
    """The intervals at a level are quantiles of as many residuals as the fit had rows."""

    def fit_on(self, rows, *more):
        rng = np.random.default_rng(5)
        y = rng.normal(size=rows)
        self.files = [self.save(f"{name}.npy", y + s * rng.normal(size=rows)) for name, s in (("a", 0.4), ("b", 0.6))]
        self.words = ("--task", "regression", "--labels", self.save("y.npy", y))
        return self.works("fit", *self.words, *self.files, "-o", self.model, "--json", *more).json()

    def test_levels_that_the_rows_do_not_have(self):
        self.fit_on(30, "-s", "evaluate.nested=false")
        words = ("predict", self.model, *self.files, "-o", self.path("out.npy"), "--intervals", self.path("i.npy"), "--level")
        for level, needed in ((0.968, 31), (0.99, 99), (0.999, 999)):
            self.fails(*words, level, says=[f"level {level} need a fit on at least {needed} rows", "fitted on 30", "up to 0.9677"])
        self.works(*words, 0.9677)
        low, high = np.load(self.path("i.npy"))
        self.assertTrue(np.isfinite(high).all() and (low < high).all())
        self.fit_on(30, "-s", "evaluate.nested=false", "-s", "interval.rule=gaussian")
        self.works(*words, 0.999)
        # rows that weigh nearly nothing say nearly nothing
        weights = self.save("w.npy", np.where(np.arange(30) < 10, 1, 1e-9))
        self.fit_on(30, "-s", "evaluate.nested=false", "--weights", weights)
        self.fails(*words, 0.95, says=["at least 19 rows", "fitted on 10"])

    def test_reports_say_that_intervals_are_infinite(self):
        found = self.fit_on(20)
        self.assertEqual([w is None for w in found["oof"]["width"]], [False, False, False, True])  # 16 rows in each fit
        self.assertEqual(found["oof"]["coverage"][3], 1)
        told = "intervals at level 0.95 are infinite, because they need a fit on at least 19 rows"
        self.assertIn(told, found["notices"])
        words = (*self.words, *self.files, "-m", "default,average", "-r", 0, "--json")
        self.assertIn(f"default: {told}", self.works("compare", *words).json()["notices"])
        scored = self.works("evaluate", self.model, *self.words, *self.files, "--json").json()
        self.assertTrue(np.isfinite(scored["width"]).all())


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
        table = self.path("out.csv")
        self.assertIn("values", self.works("predict", self.model, EXAMPLE, "-o", table).out)
        with open(table, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual((lines[0], len(lines)), ("id,progression", 112))
        self.assertAlmostEqual(float(lines[1].split(",")[1]), float(np.load(out)[0]), places=4)
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
        self.assertLess(scored["rmse"], 1.01 * scored["baselines"][1]["rmse"])  # the average is hard to beat here
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

    def test_tables_have_the_scores(self):
        self.works("fit", EXAMPLE, "-o", self.model, "--set", "evaluate.nested=false")
        for call, key in ((("evaluate", self.model, EXAMPLE, "--baselines"), "baselines"),
                          (("compare", EXAMPLE, "--methods", "average,default", "-r", "0"), "rows")):
            document = self.works(*call, "--json").json()
            rows = list(csv.DictReader(io.StringIO(self.works(*call, "--csv").out)))
            expected = document[key] if key == "rows" else [document, *document[key]]
            self.assertEqual(len(rows), len(expected))
            table = self.works(*call, "--markdown").out.splitlines()
            self.assertIn("| RMSE | MAE | median AE | R^2 |", table[0])
            for row, scores, line in zip(rows, expected, table[2:]):
                for name in ("rmse", "mae", "median_ae", "r2", "nll"):
                    if name in scores and scores[name] is not None:
                        self.assertAlmostEqual(float(row[name]) / scores[name], 1, places=8, msg=name)
                self.assertIn(f"{scores['rmse']:.5f}", line)

    def test_a_fold_that_leaves_one_row(self):
        # Without fold 1 and one other, all that is left of the covariances is rounding.
        arrays = {
            "y": [0.0033691641856372404, -0.00031473535303669115, -0.003786284594671724, -0.0025474580352600434,
                  0.004395183326460822, -0.001163257481288779, -0.0026644049876593193],
            "a": [0.04256143048405647, -0.0648198351264, -0.08470432460308075, -0.02887112647294998, -0.15059858560562134,
                  0.15326271951198578, 0.005227867979556322],
            "b": [0.9647451043128967, -1.1229981184005737, 0.5979225635528564, -1.5085632801055908, -1.4283548593521118,
                  0.651313066482544, -0.4730128347873688],
            "folds": [1, 1, 1, 2, 1, 0, 0],
            "weights": [1.495288862169151, 2.6229017953931595, 2.243315454533765, 2.991122303130352, 2.001906554249632,
                        1.1912129572977164, 1.7864129468216352],
        }
        for name, values in arrays.items():
            values = np.array(values, {"a": "f4", "b": "f4", "folds": "i4"}.get(name, "f8"))
            self.save(name + ".npy", values)
        self.works("fit", "--task", "regression", "--labels", self.path("y.npy"), "--folds", self.path("folds.npy"), "--weights",
                   self.path("weights.npy"), self.path("a.npy"), self.path("b.npy"), "-o", self.model)

    def test_refused(self):
        self.works("fit", small("digits"), "-o", self.model, "--method", "average")
        out = self.path("out.npy")
        self.fails("predict", self.model, EXAMPLE, "-o", out, says=["classification", "regression"])
        self.fails("evaluate", self.model, EXAMPLE, says=["classification", "regression"])
        self.fails("compare", EXAMPLE, "--methods", "log-linear", says=["log-linear", "classification"])
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


class Made(PoolCase):
    """Pools of values made on the spot: members are the targets with noise."""

    def make(self, offset=0.0, scale=1.0, rows=200, members=5, folds=None, noise=0.3):
        rng = np.random.default_rng(3)
        targets = rng.normal(size=rows)
        split = {"targets": "y.npy"}
        self.save("y.npy", targets * scale + offset)
        if folds is not None:
            self.save("f.npy", np.array(folds, dtype=np.int32))
            split["folds"] = "f.npy"
        models = []
        for k in range(members):
            self.save(f"m{k}.npy", (targets + noise * rng.normal(size=rows)) * scale + offset)
            models.append({"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}})
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "regression", "outputs": ["level"], "splits": {"oof": split},
                       "models": models}, file)

    def fit(self, *arguments):
        return self.works("fit", self.pool, "-o", self.model, "--json", *arguments).json()

    def test_units(self):
        self.make()
        plain = self.fit()
        self.assertFalse([n for n in plain["notices"] if "float32" in n])
        self.make(offset=1e3)
        self.assertAlmostEqual(self.fit()["oof"]["rmse"], plain["oof"]["rmse"], places=4)
        self.make(offset=2e5)
        found = [n for n in self.fit()["notices"] if "float32" in n]
        self.assertEqual(len(found), 1)
        self.assertTrue("'oof'" in found[0] and "'level'" in found[0] and "subtract a constant" in found[0])
        for offset in (1e7, -1e8):
            self.make(offset=offset)
            self.fails("fit", self.pool, "-o", self.model, says=["'oof'", "'level'", "subtract a constant"])
            self.fails("compare", self.pool, says=["'oof'", "'level'", "subtract a constant"])
        for scale in (1e-14, 1e14):
            self.make(scale=scale)
            self.assertAlmostEqual(self.fit()["oof"]["rmse"] / scale, plain["oof"]["rmse"], places=5)
        for scale in (1e-20, 1e20):
            self.make(scale=scale)
            self.fails("fit", self.pool, "-o", self.model, says=["'oof'", "'level'", "another unit"])

    def test_results_beyond_float32(self):
        self.make(members=3)
        self.fit("--set", "keep.fraction=0", "--set", "select.direction=none", "--set", "redundancy.measure=none", "--set",
                 "gate.mode=none")
        names = [self.path(f"m{k}.npy") for k in range(3)]
        out, ends, variance = (self.path(name) for name in ("out.npy", "ends.npy", "variance.npy"))
        far = [np.load(name).astype(np.float32) for name in names]
        for name, values in zip(names, far):
            values[5] = 3e30
            np.save(name, values)
        doubt = ("--variance", variance, "--intervals", ends)
        self.fails("predict", self.model, *names, "--task", "regression", "-o", out, *doubt, says=["row 5, output 0", "variance"])
        for path in (out, ends, variance):
            self.assertFalse(os.path.exists(path), path)

    def test_settings_of_classes(self):
        for words in (["--head", "5"], ["--tail", "5"], ["--clean", "oof"], ["--reference-errors", "alexnet"]):
            self.fails("compare", EXAMPLE, *words, says=["supported for classification only; the pool's task is regression"])
        self.fails("soup", "greedy", "a", "b", "-o", self.path("s"), "--eval", "true", "--labels", "y.npy", "--task", "regression",
                   "--values", "logit", says=["--values", "the task is regression"])

    def test_options_of_other_tasks(self):
        self.make()
        foreign = ["fit.balance=1", "loglinear.bias=false", "probability.map=simplex", "detect.iou=0.6"]
        given = [word for text in foreign for word in ("--set", text)]
        found = [n for n in self.fit(*given)["notices"] if "does not use" in n]
        self.assertEqual(len(found), 1)
        for text in foreign:
            self.assertIn(text.split("=", maxsplit=1)[0], found[0])
        found = self.works("compare", self.pool, "--methods", "default", "-r", "0", "--json", *given).json()["notices"]
        self.assertEqual(len([n for n in found if "does not use" in n]), 1)
        for used in ([], ["--set", "linear_pool.prior=fixed", "--set", "loglinear.prior_weights=5"]):
            self.assertFalse([n for n in self.fit(*used)["notices"] if "does not use" in n])
        self.fails("fit", self.pool, "-o", self.model, "--values", "logit", says=["regression", "--values"])

    def test_caps_and_folds(self):
        self.make()
        found = [n for n in self.fit("--set", "keep.max=3")["notices"] if "the limits leave 3 of 5" in n]
        self.assertEqual(len(found), 1)
        self.assertIn("squared error", found[0])
        self.assertFalse([n for n in self.fit()["notices"] if "limits" in n])
        self.make(folds=[1] * 199 + [0])
        for command in (("fit", self.pool, "-o", self.model), ("compare", self.pool)):
            self.fails(*command, says=["fold 1", "199 of the 200 rows", "similar size"])
        self.make(folds=[1] * 198 + [0, 0])
        self.fit()

    def test_inspect(self):
        self.make(members=3)
        found = self.works("inspect", self.pool, "--json").json()
        self.assertEqual((found["task"], found["output_count"], found["samples"]), ("regression", 1, 200))
        y = np.load(self.path("y.npy"))
        members = np.array([np.load(self.path(f"m{k}.npy")) for k in range(3)])
        np.testing.assert_allclose(found["pearson"], np.corrcoef(members), atol=1e-6)
        for k in range(3):
            self.assertAlmostEqual(found["members"][k]["rmse"], np.sqrt(np.mean((members[k] - y) ** 2)), places=5)
        # CKA with a Gaussian kernel has its own oracles; here only that it is one and that it is not the identity.
        cka = np.array(found["cka"])
        np.testing.assert_allclose(cka, cka.T)
        self.assertTrue((np.diag(cka) == 1).all() and cka[0, 1] > 0.5 and cka.max() <= 1)
        self.assertGreater(len(found["eigenvalues"]), 3)
        self.assertTrue(all(found["lambda"][rule] >= 0 for rule in ("star", "cv", "gcv", "evidence")))
        self.assertEqual((found["problems"], found["notices"]), ([], []))
        text = self.works("inspect", EXAMPLE)
        for part in ("1 output, 18 members", "RMSE", "ridge, lasso", "evidence"):
            self.assertIn(part, text.out)
        self.assertNotIn("nan", text.out)

    def test_inspect_problems(self):
        self.make(members=3)
        y = np.load(self.path("y.npy"))
        self.save("y.npy", np.stack([y, 100 * y[::-1]], axis=1))
        for k in range(3):
            m = np.load(self.path(f"m{k}.npy"))
            self.save(f"m{k}.npy", np.stack([m, 100 * m[::-1]], axis=1) if k else np.ones((200, 2)))
        with open(self.pool, encoding="utf-8") as file:
            manifest = json.load(file)
        manifest["outputs"] = ["level", "flow"]
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        found = self.works("inspect", self.pool, "--json").json()
        self.assertEqual([o["name"] for o in found["outputs"]], ["level", "flow"])
        self.assertTrue(all(o["lambda"]["cv"] > 0 and len(o["eigenvalues"]) > 2 for o in found["outputs"]))
        self.assertTrue(any("'m0' gives every sample the same" in text for text in found["problems"]))
        text = self.works("inspect", self.pool).out
        for part in ("2 outputs", "output level", "output flow"):
            self.assertIn(part, text)

    @slow
    def test_far_more_members_than_rows(self):
        random = np.random.default_rng(3)
        y = random.normal(size=30)
        folder = self.path("many")
        os.makedirs(folder)
        spread = np.linspace(0.3, 1, 410)
        for k in range(410):
            np.save(os.path.join(folder, f"m{k:03d}.npy"), y + spread[k] * random.normal(size=30))
        np.save(self.path("y.npy"), y)
        fit = self.works("fit", "--task", "regression", "--labels", self.path("y.npy"), folder, "-o", self.model,
                         "--set", "evaluate.nested=false", "--json").json()
        self.assertLessEqual(fit["models_kept"], 400)
        self.assertIn("410 members are too many to select from with 30 rows: the 400", " ".join(fit["notices"]))
        errors = {m["name"]: m["rmse"] for m in fit["members"]}
        worst = sorted(errors, key=errors.get)[-10:]
        self.assertFalse(set(worst) & set(fit["kept"]))

    def test_one_split_at_a_time(self):
        self.works("fit", EXAMPLE, "-o", self.model, "--set", "evaluate.nested=false")
        self.fails("evaluate", self.model, EXAMPLE, "--split", "test,oof", says=["test,oof", "one at a time"])
        self.fails("compare", EXAMPLE, "--split", "test,oof", says=["test,oof", "one at a time"])

    def test_folds(self):
        y = np.random.default_rng(5).gumbel(size=203)
        file, out = self.save("t.npy", y), self.path("folds.npy")
        self.fails("folds", "-l", file, "-L", "5", "-o", out, says=["t.npy"])
        self.works("folds", "-l", file, "--task", "regression", "-L", "5", "-o", out)
        folds = np.load(out)
        self.assertEqual(sorted(np.bincount(folds)), [40, 40, 41, 41, 41])
        ranks = np.argsort(np.argsort(y))
        for f in range(5):  # one row of each stretch of five neighbours, the last of which has eight
            counts = np.bincount(np.minimum(ranks[folds == f] // 5, 39))
            self.assertTrue((counts[:39] == 1).all() and counts[39] in (1, 2))
        groups = self.save("g.npy", np.arange(203) // 4)
        self.works("folds", "-l", file, "--task", "regression", "--groups", groups, "-L", "5", "-o", out)
        folds = np.load(out)
        self.assertTrue(all(len(set(folds[g : g + 4])) == 1 for g in range(0, 203, 4)))
        self.save("t.npy", np.stack([y, -y], axis=1))
        self.works("folds", "-l", file, "--task", "regression", "-L", "5", "-o", out)
        y[17] = np.inf
        self.save("t.npy", y)
        self.fails("folds", "-l", file, "--task", "regression", "-L", "5", "-o", out, says=["t.npy", "row 17", "finite"])
        self.fails("folds", "-l", file, "--task", "detection", "-L", "5", "-o", out, says=["--task", "detection"])

    def test_definition(self):
        rows = self.works("compare", EXAMPLE, "--methods", "default", "-r", "0", "--json").json()["rows"]
        self.assertIn("towards the good members", rows[0]["definition"])


PRECISION, POWER = 1e-3, 4.0
ROWS, FOLDS = 90, 5
PLAIN = ["--set", "keep.fraction=0", "--set", "redundancy.measure=none", "--set", "select.direction=none", "--set", "evaluate.nested=false",
         "--set", "linear_pool.prior=fixed", "--set", f"loglinear.prior_weights={PRECISION}", "--set", f"linear_pool.center={POWER:g}",
         "--set", "gate.mode=prototype"]


def center_of(x, y):
    mse = ((x - y[:, None]) ** 2).mean(axis=0)
    return (mse.min() / mse) ** POWER / ((mse.min() / mse) ** POWER).sum()


def linear_pool(x, y, like=None):
    """Weights and intercept of the pool with a fixed prior; `like`: the rows whose center and lambda are taken."""
    center = center_of(x, y)
    gram, cross = np.cov(x.T, bias=True).reshape(x.shape[1], -1), (x - x.mean(axis=0)).T @ (y - y.mean()) / len(y)
    penalty = PRECISION * np.var(y - x @ center) / len(y) if like is None else like
    weights = np.linalg.solve(gram + penalty * np.eye(len(cross)), cross + penalty * center)
    return weights, y.mean() - weights @ x.mean(axis=0), penalty


def simplex(products):
    """Weights that sum to 1, not negative, of least w' products w."""
    count = len(products)
    best = minimize(lambda w: w @ products @ w / products.max(), np.full(count, 1 / count), method="SLSQP", bounds=[(0, 1)] * count,
                    jac=lambda w: 2 * products @ w / products.max(), options={"ftol": 1e-15, "maxiter": 1000},
                    constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(count)})
    return best.x


def learners(x, y, like=None):
    """(weights, intercept) of the four learners on the members alone."""
    weights, intercept, penalty = linear_pool(x, y, like)
    errors = x - y[:, None]
    best = np.eye(x.shape[1])[np.argmin((errors ** 2).mean(axis=0))]
    return [(weights, intercept), (simplex(errors.T @ errors / len(y)), 0), (best, 0), (center_of(x, y), 0)], penalty


def aggregated(x):
    """The members and the six features of the prototype."""
    mean, sd, median, spread = x.mean(axis=1), x.std(axis=1), np.median(x, axis=1), np.ptp(x, axis=1)
    return np.column_stack([x, mean, sd, median, spread, mean * sd, spread * sd])


def ridge(x, y, folds):
    """Weights and intercept on standardised columns, with the penalty of least held-out error."""
    def fits(x, y):
        mean, sd = x.mean(axis=0), x.std(axis=0)
        z = (x - mean) / sd
        values, vectors = np.linalg.eigh(z.T @ z / len(y))
        turned = vectors.T @ (z.T @ (y - y.mean()) / len(y))
        w = (vectors @ (turned[:, None] / (values[:, None] + 10 ** np.linspace(-8, 2, 61)))) / sd[:, None]
        return w, y.mean() - mean @ w
    losses = 0
    for fold in np.unique(folds):
        w, b = fits(x[folds != fold], y[folds != fold])
        losses = losses + ((y[folds == fold][:, None] - x[folds == fold] @ w - b) ** 2).sum(axis=0)
    w, b = fits(x, y)
    return w[:, np.argmin(losses)], b[np.argmin(losses)]


def stacked(residuals, prior, least):
    """Weights of learners from their cross-fitted residuals; the prior's where no more than `least` of the gain is trusted."""
    names, share = np.arange(residuals.shape[1]), None
    while True:
        part = residuals[:, names]
        weights = simplex(part.T @ part)
        if share is None and (weights < 0.01).any():
            names = names[weights >= 0.01]
            continue
        if share is None:
            gain = (residuals @ prior) ** 2 - (part @ weights) ** 2
            share = max(0, 1 - np.var(gain) / len(gain) / gain.mean() ** 2) if gain.mean() > 0 else 0
            if share <= least:
                return prior
            names = np.arange(residuals.shape[1])
            continue
        blend = np.zeros(residuals.shape[1])
        blend[names] = share * weights + (1 - share) * prior[names] / prior[names].sum() if prior[names].any() else weights
        if (blend[names] >= 0.01).all():
            return blend
        names = names[blend[names] >= 0.01]


class Blend(PoolCase):
    """The learners of the default, blended by their cross-fitted residuals, against NumPy."""
    NAMES = ["ridge", "linear-pool", "minimum-variance", "best-single", "center"]

    def make(self, seed, noise, tails=0, bend=0):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=2 * ROWS)
        y = 5 + 3 * truth + bend * truth * np.abs(truth) + (tails * rng.standard_t(3, size=2 * ROWS) if tails else 0)
        common = rng.normal(size=2 * ROWS)
        x = np.array([5 + 3 * truth + noise * (0.5 * common + (1 + 0.2 * k) * rng.normal(size=2 * ROWS)) for k in range(7)])
        x = x.astype(np.float32)
        self.folds = np.arange(ROWS) % FOLDS
        self.save("y.npy", y[:ROWS])
        self.save("folds.npy", self.folds)
        self.save("ytest.npy", y[ROWS:])
        for k, values in enumerate(x):
            self.save(f"m{k}.npy", values[:ROWS])
            self.save(f"m{k}t.npy", values[ROWS:])
        self.members = x.astype(float).T
        self.y = y
        self.pool = self.path("pool.json")
        self.write()

    def write(self, absent=(), costs=None):
        models = [{"name": f"m{k}", **({"flops": costs[k]} if costs else {}), "predictions": {"oof": f"m{k}.npy", **({} if k in absent else {"test": f"m{k}t.npy"})}}
                  for k in range(7)]
        with open(self.pool, "w", encoding="utf-8") as file:
            json.dump({"corestack_pool": 1, "task": "regression", "models": models, "splits": {
                "oof": {"labels": "y.npy", "folds": "folds.npy"}, "test": {"labels": "ytest.npy"}}}, file)

    def expected(self):
        """Blend of the five learners, and in units of the targets the learners on all rows."""
        y, x = self.y[:ROWS], self.members[:ROWS]
        location, scale = y.mean(), y.std()
        y, x = (y - location) / scale, (x - location) / scale
        z = aggregated(x)
        residuals = np.empty((ROWS, 5))
        for fold in range(FOLDS):
            held = self.folds == fold
            w, b = ridge(z[~held], y[~held], self.folds[~held])
            residuals[held, 0] = y[held] - z[held] @ w - b
            for j, (weights, intercept) in enumerate(learners(x[~held], y[~held])[0]):
                residuals[held, j + 1] = y[held] - x[held] @ weights - intercept
        plain = np.append(0, stacked(residuals[:, 1:], np.array([0.6, 0.2, 0, 0.2]), 0))
        fits, penalty = learners(x, y)
        return stacked(residuals, plain, 0.75), ([ridge(z, y, self.folds), *fits], penalty), x, y, location, scale

    def test_blend_agrees_with_numpy(self):
        seen = []
        for seed, noise, tails, bend in ((1, 3.0, 0, 0), (2, 3.0, 2, 0), (3, 1.5, 0, 0), (4, 6.0, 0, 0), (5, 1.0, 0, 3)):
            self.make(seed, noise, tails, bend)
            found = self.works("fit", self.pool, "-o", self.model, *PLAIN, "--json").json()
            blend, (fits, _), *_ = self.expected()
            names = self.NAMES[0 if blend[0] > 0 else 1:]  # a ridge that does not join is not there
            self.assertEqual(list(found["blend"]), names)
            np.testing.assert_allclose(list(found["blend"].values()), blend[-len(names):], atol=2e-4)
            if blend[0] == 0:
                np.testing.assert_allclose(list(found["weights"].values()), sum(b * w for b, (w, _) in zip(blend[1:], fits[1:])), atol=2e-4)
            shown = self.works("show", self.model, "--json").json()["learners"]
            self.assertEqual({e["name"]: round(e["weight"], 4) for e in shown},
                             {n: round(w, 4) for n, w in found["blend"].items() if w > 0})
            seen.append(blend)
        self.assertTrue(any(0.01 < b[1] < 0.99 for b in seen))
        self.assertEqual({b[0] > 0 for b in seen}, {False, True})
        self.assertGreater(len({tuple(b > 0) for b in seen}), 2)

    def test_absent_members(self):
        self.make(4, 6.0)
        self.works("fit", self.pool, "-o", self.model, *PLAIN)
        blend, (_, penalty), x, y, location, scale = self.expected()
        self.write(absent=(1, 4))
        out = self.path("out.npy")
        self.works("predict", self.model, self.pool, "--split", "test", "--missing", "allow", "-o", out)
        left = [0, 2, 3, 5, 6]
        part = learners(x[:, left], y, penalty)[0]
        rows = (self.members[ROWS:][:, left] - location) / scale
        mean = location + scale * sum(b * (rows @ w + c) for b, (w, c) in zip(blend[1:], part))
        np.testing.assert_allclose(np.load(out).ravel(), mean, atol=0.02 * scale)
        self.assertGreater(np.abs(mean - np.load(out).ravel()).max(), 0)

    def test_distilled_members_agree_with_numpy(self):
        most = 0.05
        for costs in (None, [5, 40, 1, 1, 1, 90, 2]):
            self.make(1, 1.5)
            self.write(costs=costs)
            found = self.works("fit", self.pool, "-o", self.model, *PLAIN, "--set", "select.direction=backward", "--set",
                               "select.rule=distil", "--set", f"select.tolerance={most}", "--json").json()
            blend, (fits, _), x, y, *_ = self.expected()
            self.assertEqual(blend[0], 0)  # distillation is without the aggregators
            told = sum(b * (x @ w + c) for b, (w, c) in zip(blend[1:], fits[1:]))
            paths = []
            for power in (0, 0.5, 1) if costs else (0,):
                worth = np.divide(costs or [1] * 7, np.mean(costs or [1])) ** power
                kept, path = list(range(7)), []
                while kept:
                    def distance(members):
                        z = np.column_stack([np.ones(ROWS), x[:, members]])
                        pool = z @ np.linalg.lstsq(z, told, rcond=None)[0]
                        return ((told - pool) ** 2).mean(), (y - pool) ** 2
                    path.append((list(kept), *distance(kept)))
                    kept.remove(min(kept, key=lambda k: (distance([j for j in kept if j != k])[0] - path[-1][1]) / worth[k]))
                change = [loss - path[0][2] for *_, loss in path]
                over = [max(d, c.mean()) for (_, d, _), c in zip(path, change)]
                size = 7 - max(i for i, o in enumerate(over) if o <= most * ROWS / (ROWS + 500) * found["path"][-1]["loss"])
                members = path[7 - size][0]
                price = size / 7 + (sum(costs[k] for k in members) / sum(costs) if costs else 0)
                paths.append((price, size, [members for members, *_ in path], over, change))
            _, size, sets, over, change = min(paths, key=lambda p: p[0])
            least = found["path"][-1]["loss"]
            for step, members, above, loss in zip(reversed(found["path"]), sets, over, change):
                self.assertEqual(step["members"], [f"m{k}" for k in members])
                self.assertAlmostEqual(step["loss"] - least, above, delta=1e-4 * least)
                self.assertAlmostEqual(step["against_all"], loss.mean(), delta=1e-3 * least)
                self.assertAlmostEqual(step["against_all_se"], loss.std() / np.sqrt(ROWS), delta=1e-3 * least)
                self.assertEqual(step["chosen"], step["size"] == size)
            self.assertLess(1, size)
            self.assertLess(size, 7)

    def test_accurate_members_are_no_duplicates(self):
        # Their values agree because all are near the target; only the copy has the same errors.
        rng = np.random.default_rng(5)
        y = 10 * rng.normal(size=400)
        common = 0.2 * rng.normal(size=400)
        x = [y + common + 0.2 * rng.normal(size=400) for _ in range(4)]
        x.append(x[1] + 0.005 * rng.normal(size=400))
        files = [self.save(f"a{k}.npy", v.astype("f4")) or self.path(f"a{k}.npy") for k, v in enumerate(x)]
        self.save("y.npy", y)
        found = self.works("fit", "--task", "regression", "--labels", self.path("y.npy"), *files, "-o", self.model, "--set",
                           "evaluate.nested=false", "--set", "select.rule=best", "--json").json()
        dropped = [m["name"] for m in found["dropped"] if m["because"] == "redundant"]
        self.assertEqual(len(dropped), 1)
        self.assertIn(dropped[0][-2:], ("a1", "a4"))

    def test_one_learner_on_request(self):
        self.make(1, 3.0)
        found = self.works("fit", self.pool, "-o", self.model, *PLAIN, "--set", "meta.learners=log-linear", "--json").json()
        self.assertEqual(found["blend"], {"linear-pool": 1})
