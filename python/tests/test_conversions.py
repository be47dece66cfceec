"""One conversion everywhere: masks, missing values, nullable types, objects, tensors that require gradients."""
from __future__ import annotations

import unittest
from unittest import mock

import numpy as np
from common import QUICK, Folder, toy

import corestack
from corestack import _arrays, _prediction, metrics

try:
    import pandas as pd
except ImportError:
    pd = None
try:
    import torch
except ImportError:
    torch = None
try:
    import sklearn
except ImportError:
    sklearn = None


class Conversions(Folder):
    def setUp(self):
        super().setUp()
        self.preds, self.y = toy()
        self.weights = np.random.default_rng(0).uniform(1, 2, len(self.y))
        self.stack = corestack.fit(self.preds, self.y, **QUICK)
        self.weighted = corestack.fit(self.preds, self.y, sample_weight=self.weights, **QUICK)

    def row_seven(self):
        return self.assertRaisesRegex(corestack.Error, "row 7 (is masked|has no value)")

    def test_masks(self):
        def masked(array):
            mask = np.zeros(array.shape, bool)
            mask[7] = True
            return np.ma.array(array, mask=mask)

        p, y = self.preds, self.y
        calls = [
            lambda: corestack.fit(p, masked(y), **QUICK),
            lambda: corestack.fit(p, y, sample_weight=masked(self.weights), **QUICK),
            lambda: corestack.fit(p, y, folds=masked(y % 2), **QUICK),
            lambda: corestack.fit({n: masked(a) for n, a in p.items()}, y, **QUICK),
            lambda: corestack.folds(masked(y)),
            lambda: metrics.nll(p["model0"], masked(y)),
            lambda: metrics.rmse(p["model0"][:, 0], masked(self.weights)),
            lambda: self.stack.evaluate(p, masked(y)),
            lambda: self.stack.predictor()({n: masked(a) for n, a in p.items()}),
            lambda: corestack.io.write_safetensors(self.path / "p.safetensors", {"a": masked(p["model0"])}),
        ]
        if sklearn is not None:
            X = np.concatenate(list(p.values()), axis=1)
            calls += [
                lambda: corestack.CoreStackClassifier().fit(X, masked(y)),
                lambda: corestack.CoreStackClassifier().fit(masked(X), y),
                lambda: corestack.CoreStackClassifier().fit(X, y, masked(self.weights)),
            ]
        for number, call in enumerate(calls):
            with self.subTest(number), self.row_seven():
                call()
        free = np.ma.array(y, mask=np.zeros(len(y), bool))
        self.assertEqual(corestack.fit(p, free, **QUICK).to_bytes(), self.stack.to_bytes())

    def test_addresses(self):
        """Numbers between the addresses that their type may have, as in a buffer behind a header, are copied."""

        def between(array):
            found = np.frombuffer(b"-" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)
            self.assertFalse(found.flags.aligned)
            return found

        p, y = {n: between(a) for n, a in self.preds.items()}, between(self.y.astype(np.int32))
        folds, weights = between(np.arange(len(y)) % 5), between(self.weights)
        given = [
            _arrays.labels(y, None), _arrays.targets(weights), _arrays.numbered(folds, "folds", len(y)),
            _arrays.row_weights(weights, len(y)), _arrays.distribution(p["model0"]), _arrays.values(p["model0"][:, 0]),
        ]  # fmt: skip
        for array in given:
            self.assertTrue(array.flags.aligned and array.flags.c_contiguous)
        self.assertEqual(corestack.fit(p, y, **QUICK).to_bytes(), self.stack.to_bytes())
        predict = self.stack.predictor()
        np.testing.assert_array_equal(predict(p), predict(self.preds))
        with mock.patch.object(_prediction.c.lib, "cst_predictor_predict_present", return_value=0) as call:
            predict(p)
        self.assertEqual([at % 4 for at in call.call_args[0][1]], [0] * len(self.stack.kept))
        path = self.path / "p.safetensors"
        corestack.io.write_safetensors(path, {"a": weights})
        np.testing.assert_array_equal(corestack.io.read_safetensors(path)["a"], self.weights)

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_nullable_types_and_objects(self):
        preds, y = self.preds, self.y
        frames = {n: pd.DataFrame(p.astype(float)).astype("Float64") for n, p in preds.items()}
        for labels in (pd.Series(y, dtype="Int64"), pd.Series(y, dtype=object), y.astype(object), pd.array(y, dtype="Int64")):
            self.assertEqual(corestack.fit(frames, labels, **QUICK).to_bytes(), self.stack.to_bytes())
        for weights in (pd.Series(self.weights, dtype="Float64"), self.weights.astype(object)):
            fitted = corestack.fit(preds, y, sample_weight=weights, **QUICK)
            self.assertEqual(fitted.to_bytes(), self.weighted.to_bytes())
        two, of_two = toy(classes=2)
        expected = corestack.fit(two, of_two, **QUICK).to_bytes()
        self.assertEqual(corestack.fit(two, pd.Series(of_two == 1, dtype="boolean"), **QUICK).to_bytes(), expected)
        missing = pd.Series(y, dtype="Int64")
        missing[7] = pd.NA
        frame = frames["model1"].copy()
        frame.iloc[7, 1] = pd.NA
        for call in (
            lambda: corestack.fit(preds, missing, **QUICK),
            lambda: corestack.fit(preds, missing.astype(object), **QUICK),
            lambda: corestack.fit(preds, y, sample_weight=missing.astype("Float64"), **QUICK),
            lambda: corestack.fit({**frames, "model1": frame}, y, **QUICK),
        ):
            with self.row_seven():
                call()
        if sklearn is not None:
            X = np.concatenate(list(preds.values()), axis=1)
            plain = corestack.CoreStackClassifier().fit(X, y, self.weights).stack_.to_bytes()
            fitted = corestack.CoreStackClassifier().fit(
                pd.DataFrame(X).add_prefix("c").astype("Float32"), pd.Series(y, dtype="Int64"),
                pd.Series(self.weights, dtype="Float64"),
            )  # fmt: skip
            self.assertEqual(fitted.stack_.to_bytes(), plain)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_tensors_that_require_gradients(self):
        tensors = {n: torch.tensor(p, requires_grad=True) for n, p in self.preds.items()}
        given = [tensors[name] for name in self.stack.kept]
        p = self.stack.predict(self.preds)
        np.testing.assert_allclose(self.stack.predictor()(given), p, atol=1e-6)
        self.assertEqual(metrics.nll(tensors["model0"], torch.tensor(self.y)), metrics.nll(self.preds["model0"], self.y))
        labels = torch.tensor(self.y).bfloat16()
        self.assertEqual(metrics.nll(self.preds["model0"], labels), metrics.nll(self.preds["model0"], self.y))
        self.assertEqual(corestack.fit(self.preds, labels, **QUICK).to_bytes(), self.stack.to_bytes())
        np.testing.assert_array_equal(corestack.folds(labels), corestack.folds(self.y))
        if sklearn is not None:
            flat = torch.cat(list(tensors.values()), dim=1)
            fitted = corestack.CoreStackClassifier().fit(flat, torch.tensor(self.y))
            expected = corestack.CoreStackClassifier().fit(flat.detach().numpy(), self.y)
            self.assertEqual(fitted.stack_.to_bytes(), expected.stack_.to_bytes())
            np.testing.assert_array_equal(fitted.predict(flat), expected.predict(flat.detach().numpy()))

    def test_folds_of_labels(self):
        with self.assertRaisesRegex(corestack.MismatchError, r"shape \(240, 3\); there must be one label per row"):
            corestack.folds(np.eye(3)[self.y], 5)
        np.testing.assert_array_equal(corestack.folds(self.y[:, None], 5), corestack.folds(self.y, 5))


if __name__ == "__main__":
    unittest.main()
