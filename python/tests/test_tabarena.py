"""The adapter against the published contract of TabArena's ensemblers: names, signatures, shapes, flags."""
import inspect
import unittest

import numpy as np

import corestack
from corestack.tabarena import CoreStackEnsembler

ROWS, MODELS, CLASSES = 150, 5, 3
RNG = np.random.default_rng(7)
Y = RNG.integers(0, CLASSES, ROWS)
TARGETS = RNG.normal(size=ROWS)
KEYWORD, PLAIN = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def probabilities(y, classes):
    z = 1.5 * np.eye(classes)[y] + RNG.normal(size=(MODELS, len(y), classes)) * np.linspace(1, 3, MODELS)[:, None, None]
    p = np.exp(z)
    return (p / p.sum(axis=2, keepdims=True)).astype("f4")


MULTI = probabilities(Y, CLASSES)
BINARY = probabilities(Y % 2, 2)[:, :, 1]
VALUES = (TARGETS + RNG.normal(size=(MODELS, ROWS)) * np.arange(1, MODELS + 1)[:, None] / 3).astype("f4")


def made(problem_type, **more):
    return CoreStackEnsembler(problem_type=problem_type, metric=None, **more)


class Contract(unittest.TestCase):
    def test_signatures(self):
        """What TaskEvaluator calls; "ensemble_size" is dropped by the scorer, as no **kwargs would take it."""
        for name, expected in {
            "fit": {"predictions": KEYWORD, "labels": KEYWORD, "time_limit": KEYWORD},
            "predict_proba": {"predictions": PLAIN},
            "predict": {"predictions": PLAIN, "problem_type": KEYWORD},
            "model_weights": {}, "models_used": {}, "info": {},
        }.items():  # fmt: skip
            found = inspect.signature(getattr(CoreStackEnsembler, name)).parameters
            self.assertEqual({n: p.kind for n, p in found.items() if n != "self"}, expected, name)
        found = inspect.signature(CoreStackEnsembler.__init__).parameters
        self.assertTrue(all(p.kind is KEYWORD for n, p in found.items() if n != "self"))
        self.assertLessEqual({"problem_type", "metric"}, set(found))
        self.assertIs(CoreStackEnsembler.linear, False)

    def check(self, ensembler, predictions, labels, shape):
        copy = predictions.copy()
        self.assertIs(ensembler.fit(predictions=predictions, labels=labels, time_limit=None), ensembler)
        self.assertEqual(ensembler.n_models_, MODELS)
        p = ensembler.predict_proba(list(predictions))
        self.assertEqual(p.shape, shape)
        np.testing.assert_array_equal(p, ensembler.predict_proba(predictions))
        np.testing.assert_array_equal(copy, predictions)
        used = ensembler.models_used()
        self.assertEqual((used.shape, used.dtype), ((MODELS,), bool))
        self.assertTrue(used.any())
        self.assertIsInstance(ensembler.info(), dict)
        self.assertEqual(ensembler.predict(predictions).shape, (ROWS,))
        return p

    def test_multiclass(self):
        ensembler = made("multiclass")
        p = self.check(ensembler, MULTI, Y, (ROWS, CLASSES))
        expected = corestack.fit(list(MULTI), Y, checks=False, evaluate_nested=False, seed=0).predict(list(MULTI))
        np.testing.assert_allclose(p, expected, atol=1e-6)
        np.testing.assert_array_equal(ensembler.predict(MULTI), p.argmax(axis=1))
        self.assertIsNone(ensembler.model_weights())

    def test_binary(self):
        ensembler = made("binary")
        p = self.check(ensembler, BINARY, Y % 2, (ROWS,))
        self.assertLess(-np.log(np.where(Y % 2, p, 1 - p)).mean(), -np.log(np.where(Y % 2, BINARY[-1], 1 - BINARY[-1])).mean())
        np.testing.assert_array_equal(ensembler.predict(BINARY), p >= 0.5)

    def test_regression(self):
        ensembler = made("regression")
        p = self.check(ensembler, VALUES, TARGETS, (ROWS,))
        self.assertLess(np.mean((p - TARGETS) ** 2), np.mean((VALUES[0] - TARGETS) ** 2))
        np.testing.assert_array_equal(ensembler.predict(VALUES), p)

    def test_linear_methods_also_of_probabilities_of_the_true_class(self):
        for method in ("greedy", "average"):
            ensembler = made("multiclass", method=method)
            p = self.check(ensembler, MULTI, Y, (ROWS, CLASSES))
            weights = ensembler.model_weights()
            self.assertTrue(ensembler.linear)
            np.testing.assert_allclose(p, np.einsum("k,knc->nc", weights, MULTI.astype(float)), atol=1e-9)
            np.testing.assert_array_equal(ensembler.models_used(), weights != 0)
        true = MULTI[:, np.arange(ROWS), Y]
        view = made("binary", method="greedy").fit(predictions=true, labels=np.ones(ROWS, int))
        np.testing.assert_allclose(view.predict_proba(true), view.model_weights() @ true.astype(float))
        np.testing.assert_allclose(view.model_weights(), made("multiclass", method="greedy").fit(
            predictions=MULTI, labels=Y).model_weights())  # fmt: skip
        self.assertEqual(view.predict(MULTI, problem_type="multiclass").shape, (ROWS,))

    def test_mistakes(self):
        with self.assertRaisesRegex(corestack.ArgumentError, "quantile"):
            made("quantile")
        with self.assertRaisesRegex(corestack.ArgumentError, "not fitted"):
            made("binary").predict(BINARY)
        with self.assertRaisesRegex(corestack.ArgumentError, "of 4 models, but the ensemble was fitted on 5"):
            made("binary").fit(predictions=BINARY, labels=Y % 2).predict(BINARY[:4])


if __name__ == "__main__":
    unittest.main()
