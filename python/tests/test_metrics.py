"""Every metric of the list against scikit-learn or SciPy, with ties, weights, empty classes and one class."""
import math
import unittest

import corestack.metrics
import numpy as np

from scipy import stats
from sklearn import metrics as sk

score = corestack.metrics.score


def probabilities(rng, rows, classes, ties=False):
    z = rng.normal(size=(rows, classes)) * 1.5
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    if ties:
        p = np.stack([rng.multinomial(8, row / row.sum()) / 8 for row in p])
    return p.astype(np.float32)


class Classes(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(5)
        self.y2 = (rng.random(150) < 0.3).astype(np.int64)
        self.y4 = rng.choice(5, p=[0.4, 0.3, 0.2, 0.1, 0], size=150)  # the last class has no rows
        self.w = rng.random(150) * (rng.random(150) < 0.8)
        self.p2, self.ties2 = probabilities(rng, 150, 2), probabilities(rng, 150, 2, True)
        self.p4, self.ties4 = probabilities(rng, 150, 5), probabilities(rng, 150, 5, True)

    def same(self, name, p, y, expected, weights=None):
        self.assertAlmostEqual(score(name, p, y, weights=weights), expected, delta=1e-12, msg=name)

    def test_two_classes(self):
        y = self.y2
        for p in (self.p2, self.ties2):
            for w in (None, self.w):
                s, told = p[:, 1].astype(np.float64), np.argmax(p, 1)
                same = lambda name, value: self.same(name, p, y, value, w)
                auc = sk.roc_auc_score(y, s, sample_weight=w)
                same("roc_auc", auc)
                same("auc-ovo", auc)
                same("gini", 2 * auc - 1)
                same("pr-auc", sk.average_precision_score(y, s, sample_weight=w))
                fpr, tpr, _ = sk.roc_curve(y, s, sample_weight=w, drop_intermediate=False)
                same("ks", np.abs(tpr - fpr).max())
                precision, recall, _ = sk.precision_recall_curve(y, s, sample_weight=w)
                same("precision-at-recall=0.7", precision[recall >= 0.7].max())
                same("recall-at-precision=0.3", recall[precision >= 0.3].max())
                same("f1", sk.f1_score(y, told, sample_weight=w))
                same("mcc", sk.matthews_corrcoef(y, told, sample_weight=w))
                same("brier", np.average(((p - np.eye(2)[y]) ** 2).sum(1), weights=w))
                same("log_loss", np.average(-np.log(np.maximum(p[np.arange(150), y].astype(float), 1e-15)), weights=w))
        self.assertAlmostEqual(score("ks", self.p2, y), stats.ks_2samp(self.p2[y == 1, 1], self.p2[y == 0, 1])[0], delta=1e-12)
        self.assertEqual(score("auc", self.p2[:, 1], y), score("auc", self.p2, y))

    def test_more_classes(self):
        y, present = self.y4, np.arange(4)
        for p in (self.p4, self.ties4):
            for w in (None, self.w):
                told = np.argmax(p, 1)
                same = lambda name, value: self.same(name, p, y, value, w)
                one = [sk.roc_auc_score(y == c, p[:, c], sample_weight=w) for c in present]
                same("auc", np.mean(one))
                area = [sk.average_precision_score(y == c, p[:, c], sample_weight=w) for c in present]
                same("pr_auc", np.mean(area))
                for average in ("macro", "micro", "weighted"):
                    same(f"f1-{average}", sk.f1_score(y, told, average=average, sample_weight=w))
                same("accuracy", sk.accuracy_score(y, told, sample_weight=w))
                with np.testing.suppress_warnings() as quiet:
                    quiet.filter(UserWarning)
                    same("balanced-accuracy", sk.balanced_accuracy_score(y, told, sample_weight=w))
                same("mcc", sk.matthews_corrcoef(y, told, sample_weight=w))
                for name, rule in (("kappa", None), ("qwk", "quadratic")):
                    same(name, sk.cohen_kappa_score(y, told, weights=rule, labels=range(5), sample_weight=w))
        p = self.p4
        for k in (1, 2, 3):
            self.same(f"top-k={k}", p, y, sk.top_k_accuracy_score(y, p, k=k, labels=range(5)))
        pairs = []
        for a in present:
            for b in present[:a]:
                of = (y == a) | (y == b)
                pairs += [sk.roc_auc_score(y[of] == c, p[of, c]) for c in (a, b)]
        self.same("auc-ovo", p, y, np.mean(pairs))

    def test_smooth_calibration_error(self):
        p, y = self.p4.astype(np.float64), self.y4
        top = p.argmax(1)
        gap, f = (top == y) - p.max(1), p.max(1)
        t = (np.arange(4096) + 0.5) / 4096

        def error(width):
            kernel = sum(np.exp(-0.5 * ((t[:, None] - s * f + 2 * k) / width) ** 2) for k in range(-3, 4) for s in (1, -1))
            return np.abs((kernel / width / math.sqrt(2 * math.pi) * gap).mean(1)).mean()

        found = score("ece-smooth", self.p4, y)
        self.assertAlmostEqual(error(found), found, delta=2e-4)
        calibrated = np.eye(2, dtype=np.float32)[self.y2]
        self.assertLess(score("ece-smooth", calibrated, self.y2), 1e-6)

    def test_one_class_and_refusals(self):
        ones = np.ones(150, np.int64)
        for name in ("auc", "pr-auc", "ks", "auc-ovo"):
            self.assertTrue(math.isnan(score(name, self.p2, ones)), name)
        for name, words in (("auk", "choose one of"), ("precision-at-recall", "between 0 and 1"), ("auc=3", "takes no value"), ("top-k=0", "at least 1")):
            with self.assertRaisesRegex(corestack.ArgumentError, words):
                score(name, self.p2, self.y2)
        with self.assertRaisesRegex(corestack.Error, "two classes"):
            score("f1", self.p4, self.y4)


class Values(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(6)
        self.y = np.round(rng.gamma(2, 3, 150), 1) + 0.1
        self.f = (self.y * np.exp(0.4 * rng.normal(size=150))).astype(np.float32)
        self.w = rng.random(150) * (rng.random(150) < 0.8)

    def test_against_scikit_learn(self):
        y, f = self.y, self.f.astype(np.float64)
        for w in (None, self.w):
            of = {
                "rmse": sk.mean_squared_error(y, f, sample_weight=w, squared=False),
                "mae": sk.mean_absolute_error(y, f, sample_weight=w),
                "r2": sk.r2_score(y, f, sample_weight=w),
                "rmsle": sk.mean_squared_log_error(y, f, sample_weight=w, squared=False),
                "mape": sk.mean_absolute_percentage_error(y, f, sample_weight=w),
                "smape": np.average(2 * np.abs(y - f) / (np.abs(y) + np.abs(f)), weights=w),
                "pinball=0.9": sk.mean_pinball_loss(y, f, alpha=0.9, sample_weight=w),
                "poisson": sk.mean_poisson_deviance(y, f, sample_weight=w),
                "gamma": sk.mean_gamma_deviance(y, f, sample_weight=w),
                "tweedie=1.5": sk.mean_tweedie_deviance(y, f, power=1.5, sample_weight=w),
                "tweedie=3": sk.mean_tweedie_deviance(y, f, power=3, sample_weight=w),
                "tweedie=-1": sk.mean_tweedie_deviance(y, f, power=-1, sample_weight=w),
            }
            for name, expected in of.items():
                self.assertAlmostEqual(score(name, f, y, weights=w), expected, delta=1e-12 * max(1, abs(expected)), msg=name)
        self.assertAlmostEqual(score("median-ae", f, y), sk.median_absolute_error(y, f), delta=1e-12)

    def test_ranks(self):
        f = np.round(self.f)  # with ties
        self.assertAlmostEqual(score("spearman", f, self.y), stats.spearmanr(f, self.y)[0], delta=1e-12)
        higher = self.y[:, None] > self.y
        agree = (f[:, None] > f) + 0.5 * (f[:, None] == f)
        self.assertAlmostEqual(score("c-index", f, self.y), agree[higher].mean(), delta=1e-12)
        times = np.random.default_rng(7).integers(0, 4, 150)
        for name in ("spearman", "concordance"):  # a weight is a number of copies
            copies = score(name, np.repeat(f, times), np.repeat(self.y, times))
            self.assertAlmostEqual(score(name, f, self.y, weights=times), copies, delta=1e-12)

    def test_outputs(self):
        y, f = np.stack([self.y, self.y[::-1]], 1), np.stack([self.f, self.f], 1)
        for name in ("mae", "rmsle", "spearman"):
            mean = np.mean([score(name, f[:, d], y[:, d]) for d in (0, 1)])
            self.assertAlmostEqual(score(name, f, y), mean, delta=1e-12)

    def test_what_a_metric_does_not_take(self):
        with self.assertRaisesRegex(corestack.Error, "prediction of row 0 is -1.5"):
            score("rmsle", [-1.5, 1], [1, 1])
        with self.assertRaisesRegex(corestack.Error, "target of row 1 is 0"):
            score("gamma", [1, 1], [1, 0])


class Fits(unittest.TestCase):
    """A metric of the list, and one of the user's own, in the functions."""

    def setUp(self):
        rng = np.random.default_rng(3)
        self.y = (rng.random(150) < 0.25).astype(np.int64)
        z = 1.5 * self.y - 1.5 + rng.normal(size=(4, 150))
        p = 1 / (1 + np.exp(-z))
        self.preds = np.stack([1 - p, p], 2).astype(np.float32)

    def test_decisions(self):
        stack = corestack.fit(self.preds, self.y, metric="f1")
        self.assertGreater(stack.report["oof"]["f1"], 0)
        p, told = stack.predict(self.preds), stack.decide(self.preds)
        offsets = stack.report["decision"]["offsets"]
        np.testing.assert_array_equal(told, np.argmax(np.log(p) + offsets, 1))
        report = stack.evaluate(self.preds, self.y)
        self.assertAlmostEqual(report["f1"], sk.f1_score(self.y, told), delta=1e-9)
        self.assertIn("auc", stack.evaluate(self.preds, self.y, metric="auc"))
        self.assertAlmostEqual(corestack.evaluate(p, self.y, metric="auc")["auc"], sk.roc_auc_score(self.y, p[:, 1]), delta=1e-9)

    def test_a_function(self):
        def gini(y, p):
            return 2 * sk.roc_auc_score(y, p[:, 1]) - 1

        report = corestack.compare(self.preds, self.y, methods=["average", "default"], metric=gini, resamples=0)
        known = corestack.compare(self.preds, self.y, methods=["average", "default"], metric="gini", resamples=0)
        for mine, theirs in zip(report["rows"], known["rows"]):
            self.assertAlmostEqual(mine["custom"], theirs["gini"], delta=1e-9)
        corestack.metrics.register("mine", lambda y, p: -1.0, higher_is_better=False)
        self.assertEqual(corestack.fit(self.preds, self.y, metric="mine").report["oof"]["custom"], -1)
        with self.assertRaises(ZeroDivisionError):
            corestack.compare(self.preds, self.y, methods="average", metric=lambda y, p: 1 / 0, resamples=0)
        with self.assertRaisesRegex(corestack.ArgumentError, "no other metric"):
            corestack.metrics.register("auc", gini)


if __name__ == "__main__":
    unittest.main()
