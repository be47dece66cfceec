"""corestack.register: combiners of the user's own as methods of compare and sweep."""
import gc
import threading
import time
import unittest
import weakref

import numpy as np

import corestack

ROWS, MEMBERS, CLASSES = 150, 4, 3
RNG = np.random.default_rng(45)
Y = RNG.integers(0, CLASSES, ROWS)
FOLDS = np.arange(ROWS) % 5


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


SIGNAL = 2.0 * np.eye(CLASSES)[Y]
PREDS = {f"m{k}": softmax(SIGNAL + RNG.normal(size=(ROWS, CLASSES)) * (k + 1)).astype("f4") for k in range(MEMBERS)}
STACKED = np.stack(list(PREDS.values()), axis=1)


class Fitted:
    def __init__(self, weights):
        self.weights = weights


def fit_accuracy(predictions, y, weights):
    counts = np.ones(len(y)) if weights is None else weights
    right = predictions.argmax(axis=2) == y[:, None]
    found = (right * counts[:, None]).sum(axis=0)
    return Fitted(found / found.sum())


def predict_mix(fitted, predictions):
    return np.einsum("k,nkc->nc", fitted.weights, predictions)


class RegisterTest(unittest.TestCase):
    def register(self, name, *functions, **more):
        corestack.register(name, *functions, **more)
        self.addCleanup(lambda: name in corestack._methods._registered and corestack.unregister(name))

    def compare(self, methods, **more):
        return corestack.compare(PREDS, Y, methods=methods, resamples=0, folds=FOLDS, checks=False, **more)

    def rows(self, report, key="method"):
        return {row[key]: row for row in report["rows"]}

    def test_is_refitted_without_each_fold(self):
        self.register("mine", fit_accuracy, predict_mix, definition="members by accuracy")
        expected = np.empty((ROWS, CLASSES))
        for fold in range(5):
            held = FOLDS == fold
            expected[held] = predict_mix(fit_accuracy(STACKED[~held], Y[~held], None), STACKED[held])
        found = self.rows(self.compare(["mine", "performance-weighted"]))
        self.assertAlmostEqual(found["mine"]["nll"], -np.log(expected[np.arange(ROWS), Y]).mean(), places=6)
        self.assertAlmostEqual(found["mine"]["nll"], found["performance-weighted"]["nll"], places=6)
        self.assertEqual((found["mine"]["definition"], found["mine"]["models"], found["mine"]["weights"]),
                         ("members by accuracy", MEMBERS, None))  # fmt: skip

    def test_row_weights_reach_the_fit(self):
        self.register("mine", fit_accuracy, predict_mix)
        given = np.linspace(0.5, 2, ROWS)
        found = self.rows(self.compare(["mine", "performance-weighted"], sample_weight=given))
        self.assertAlmostEqual(found["mine"]["nll"], found["performance-weighted"]["nll"], places=6)

    def test_threads_do_not_change_results_and_nothing_is_kept(self):
        alive, threads, several = [], set(), []

        def fit(*given):
            threads.add(threading.get_ident())
            until = time.monotonic() + 0.3  # so that one quick thread does not do the work of all
            while several and len(threads) < 2 and time.monotonic() < until:
                time.sleep(0.005)
            fitted = fit_accuracy(*given)
            alive.append(weakref.ref(fitted))
            return fitted

        self.register("mine", fit, predict_mix)
        one = self.rows(self.compare(["mine+temperature"], threads=1))["mine+temperature"]
        several.append(True)
        four = self.rows(self.compare(["mine+temperature"], threads=4))["mine+temperature"]
        self.assertEqual({**one, "seconds": 0}, {**four, "seconds": 0})
        self.assertGreater(len(threads), 1)
        gc.collect()
        self.assertEqual([ref() for ref in alive], [None] * len(alive))

    def test_is_among_all_and_in_sweeps(self):
        self.register("mine", fit_accuracy, predict_mix)
        self.assertIn("mine", self.rows(self.compare(None)))
        found = corestack.sweep(PREDS, Y, over="pool.size", values=[2], draws=1, methods=["mine", "performance-weighted"],
                                folds=FOLDS, checks=False)  # fmt: skip
        self.assertAlmostEqual(*(row["nll"] for row in found["rows"]), places=6)
        corestack.unregister("mine")
        self.assertNotIn("mine", self.rows(self.compare(["all"])))

    def test_regression(self):
        y = RNG.normal(size=ROWS)
        preds = {f"m{k}": y + RNG.normal(size=ROWS) * (k + 1) for k in range(3)}

        def fit(predictions, targets, weights):
            return np.linalg.lstsq(predictions, targets, rcond=None)[0]

        self.register("least-squares", fit, lambda w, predictions: predictions @ w)
        stacked, expected = np.stack(list(preds.values()), axis=1).astype("f4"), np.empty(ROWS)
        for fold in range(5):
            held = FOLDS == fold
            expected[held] = stacked[held] @ fit(stacked[~held], y[~held], None)
        report = corestack.compare(preds, y, task="regression", methods=["least-squares", "average"], resamples=10, folds=FOLDS)
        self.assertAlmostEqual(self.rows(report)["least-squares"]["rmse"], np.sqrt(np.mean((expected - y) ** 2)), places=5)

    def test_missing_predictions_are_nan(self):
        seen = []

        def fit(predictions, y, weights):
            seen.append(np.isnan(predictions).any(axis=2).sum(axis=0))

        self.register("mine", fit, lambda fitted, predictions: np.nanmean(predictions, axis=1))
        preds = {**PREDS, "gaps": PREDS["m0"].copy()}
        preds["gaps"][:20] = np.nan
        corestack.compare(preds, Y, methods=["mine"], resamples=0, folds=FOLDS, checks=False, missing="allow")
        self.assertEqual(seen[0].tolist(), [0] * MEMBERS + [20])

    def test_exceptions_are_those_of_the_function(self):
        class Odd(Exception):
            pass

        def fail(*given):
            raise Odd("on purpose")

        for functions in ((fail, predict_mix), (fit_accuracy, fail)):
            self.register("mine", *functions)
            for threads in (1, 4):
                with self.assertRaisesRegex(Odd, "on purpose"):
                    self.compare(["mine", "average"], threads=threads)

    def test_bad_predictions_are_refused(self):
        for wrong, says in (
            (lambda f, p: p[:, 0, :2], "predict returned shape"),
            (lambda f, p: 2 * p[:, 0], "method 'mine': predict gave no probabilities for row 0 .their sum is 2"),
            (lambda f, p: np.nan * p[:, 0], "predict gave no probabilities"),
        ):
            self.register("mine", fit_accuracy, wrong)
            with self.assertRaisesRegex(corestack.Error, says):
                self.compare(["mine"])

    def test_is_refused_where_a_model_is_wanted(self):
        self.register("mine", fit_accuracy, predict_mix)
        with self.assertRaisesRegex(corestack.UnsupportedError, "a model cannot hold its functions"):
            corestack.fit(PREDS, Y, method="mine", folds=FOLDS, checks=False)

    def test_names(self):
        for name in ("average", "default", "all", "a+b", "a,b", "", "x" * 41):
            with self.assertRaisesRegex(corestack.ArgumentError, "of a method of your own"):
                corestack.register(name, fit_accuracy, predict_mix)
        with self.assertRaisesRegex(corestack.ArgumentError, "must be a function"):
            corestack.register("mine", 1, predict_mix)
        with self.assertRaisesRegex(corestack.ArgumentError, "not registered"):
            corestack.unregister("mine")


if __name__ == "__main__":
    unittest.main()
