"""CoreStackRegressor, besides scikit-learn's own checks (test_sklearn_checks)."""
from __future__ import annotations

import pickle
import unittest

import numpy as np
import common  # noqa: F401

import corestack

try:
    import sklearn  # noqa: F401
    from sklearn.base import clone
    from sklearn.datasets import load_diabetes, make_regression
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict, train_test_split
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from corestack.sklearn import CoreStackRegressor
except ImportError:
    raise unittest.SkipTest("scikit-learn is not installed")

try:
    import pandas as pd
except ImportError:
    pd = None


class Weights(unittest.TestCase):
    def test_rows_of_weight_0_change_nothing(self):
        random = np.random.default_rng(3)
        y = random.normal(size=60)
        x = np.column_stack([y + random.normal(size=60) * s for s in (0.3, 0.4)])
        plain = CoreStackRegressor(n_jobs=1).fit(x, y)
        weights = np.r_[np.ones(60), np.zeros(60)]
        weighted = CoreStackRegressor(n_jobs=1).fit(np.r_[x, x + 1], np.r_[y, 3 - y], sample_weight=weights)
        np.testing.assert_allclose(plain.predict(x), weighted.predict(x), rtol=1e-6)


class OnPredictions(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(0)
        self.y = random.normal(size=(200, 2)) * [1, 10]
        self.members = [self.y + random.normal(size=self.y.shape) * s for s in (0.3, 0.4, 0.5, 0.7)]
        self.X = np.concatenate(self.members, axis=1)
        self.fitted = CoreStackRegressor().fit(self.X, self.y)

    def test_is_the_functional_fit(self):
        stack = corestack.fit(self.members, self.y, task="regression", evaluate_nested=False)
        self.assertEqual(self.fitted.stack_.to_bytes(), stack.to_bytes())
        self.assertEqual((self.fitted.n_outputs_, self.fitted.n_features_in_), (2, 8))
        mean, std = self.fitted.predict(self.X, return_std=True)
        expected, variance = stack.predict(self.members, return_variance=True)
        np.testing.assert_array_equal(mean, expected.astype(float))
        np.testing.assert_array_equal(std, np.sqrt(variance.astype(float)))
        np.testing.assert_array_equal(self.fitted.predict(self.X), mean)
        ends = self.fitted.predict_interval(self.X, 0.8)
        np.testing.assert_array_equal(ends, stack.predict_interval(self.members, 0.8).astype(float))
        low, high = ends
        self.assertAlmostEqual(((low <= self.y) & (self.y <= high)).mean(), 0.8, delta=0.08)
        self.assertGreater(self.fitted.score(self.X, self.y), 0.9)

    def test_shapes(self):
        mean = self.fitted.predict(self.X)
        cube = np.stack(self.members, axis=1)
        for X in (cube, np.asfortranarray(self.X)):
            other = CoreStackRegressor(n_members=4).fit(X, self.y)
            np.testing.assert_array_equal(other.predict(X), mean)
        one = np.stack([m[:, 0] for m in self.members], axis=1)
        for y, shape in ((self.y[:, 0], (200,)), (self.y[:, :1], (200, 1))):
            found = CoreStackRegressor().fit(one, y)
            self.assertEqual(found.predict(one).shape, shape)
            self.assertEqual(found.predict_interval(one).shape, (2, *shape))
            self.assertEqual(found.predict(one, return_std=True)[1].shape, shape)
            self.assertEqual(CoreStackRegressor().fit(one[:, :, None], y).predict(one[:, :, None]).shape, shape)
        with self.assertRaisesRegex(ValueError, "3 members with 2 outputs"):
            CoreStackRegressor(n_members=3).fit(self.X, self.y)
        with self.assertRaisesRegex(ValueError, "any number of members with 3 outputs"):
            CoreStackRegressor().fit(self.X, np.column_stack([self.y, self.y[:, 0]]))
        with self.assertRaisesRegex(ValueError, "was fitted on"):
            CoreStackRegressor().fit(cube, self.y).predict(cube[:, :2])
        with self.assertRaisesRegex(ValueError, "features"):
            self.fitted.predict(self.X[:, :6])
        with self.assertRaisesRegex(ValueError, "199 targets"):
            CoreStackRegressor().fit(cube, self.y[1:])

    def test_parameters(self):
        estimator = CoreStackRegressor(preset="paper", options={"cka.threshold": 0.9}, random_state=3, n_jobs=1)
        fitted = clone(estimator).fit(self.X, self.y)
        self.assertEqual(fitted.stack_.settings["cka.threshold"], "0.9")
        self.assertEqual(fitted.stack_.settings["seed"], "3")
        nested = CoreStackRegressor(nested=True, cv=3).fit(self.X, self.y)
        self.assertTrue(nested.report_["oof"]["nested"])
        self.assertEqual(nested.report_["folds"]["count"], 3)
        given = CoreStackRegressor().fit(self.X, self.y, folds=np.arange(200) % 4)
        self.assertEqual(given.report_["folds"], {"count": 4, "source": "pool"})
        with self.assertRaisesRegex(TypeError, "weights"):
            CoreStackRegressor().fit(self.X, self.y, weights=1)

    def test_sample_weight(self):
        weights = np.random.default_rng(0).random(200)
        weights[::7] = 0
        counted, folds = weights > 0, np.arange(200) % 4
        weighted = CoreStackRegressor().fit(self.X, self.y, weights, folds=folds)
        without = CoreStackRegressor().fit(self.X[counted], self.y[counted], weights[counted], folds=folds[counted])
        self.assertEqual(weighted.stack_.to_bytes(), without.stack_.to_bytes())
        stack = corestack.fit(
            self.members, self.y, task="regression", sample_weight=weights, folds=folds, evaluate_nested=False
        )
        self.assertEqual(weighted.stack_.to_bytes(), stack.to_bytes())
        search = GridSearchCV(CoreStackRegressor(), {"preset": ["default"]}, cv=3)
        self.assertGreater(search.fit(self.X, self.y, sample_weight=weights + 0.1).best_score_, 0.9)

    def test_pickle_and_search(self):
        again = pickle.loads(pickle.dumps(self.fitted))
        np.testing.assert_array_equal(again.predict(self.X), self.fitted.predict(self.X))
        search = GridSearchCV(
            CoreStackRegressor(), {"preset": ["default", "prototype"]}, cv=3, scoring="neg_root_mean_squared_error", n_jobs=2
        )
        search.fit(self.X, self.y)
        self.assertTrue(np.isfinite(search.best_score_))
        self.assertEqual(search.predict(self.X).shape, self.y.shape)

    def test_transform(self):
        out = self.fitted.transform(self.X)
        expected = np.concatenate([self.members[int(name[1:])] for name in self.fitted.stack_.kept], axis=1)
        np.testing.assert_array_equal(out, expected)
        self.assertEqual(len(self.fitted.get_feature_names_out()), out.shape[1])
        if pd is None:
            return
        columns = [f"model{k}_{d}" for k in range(4) for d in "ab"]
        frame = pd.DataFrame(self.X, columns=columns, index=np.arange(200) + 1000)
        fitted = CoreStackRegressor().fit(frame, pd.DataFrame(self.y))
        self.assertEqual(fitted.feature_names_in_.tolist(), columns)
        np.testing.assert_array_equal(fitted.predict(frame), self.fitted.predict(self.X))
        out = fitted.set_output(transform="pandas").transform(frame)
        pd.testing.assert_frame_equal(out, frame[out.columns])


class OnFeatures(unittest.TestCase):
    def setUp(self):
        self.X, self.y = load_diabetes(return_X_y=True)
        self.base = [
            ("ridge", make_pipeline(StandardScaler(), Ridge())),
            ("knn", KNeighborsRegressor(20)),
            ("rf", RandomForestRegressor(20, random_state=0)),
        ]

    def test_out_of_fold(self):
        cv = KFold(4, shuffle=True, random_state=0)
        fitted = CoreStackRegressor(self.base, cv=cv).fit(self.X, self.y)
        folds = np.empty(len(self.y), int)
        for number, (_, test) in enumerate(cv.split(self.X)):
            folds[test] = number
        preds = {n: cross_val_predict(clone(e), self.X, self.y, cv=cv) for n, e in self.base}
        stack = corestack.fit(preds, self.y, task="regression", folds=folds, evaluate_nested=False)
        self.assertEqual(fitted.stack_.to_bytes(), stack.to_bytes())
        self.assertEqual(list(fitted.named_estimators_), stack.kept)
        members = {n: clone(e).fit(self.X, self.y).predict(self.X) for n, e in self.base}
        np.testing.assert_array_equal(fitted.predict(self.X), stack.predict(members).astype(float))

    def test_is_better_than_its_members(self):
        X, X_test, y, y_test = train_test_split(self.X, self.y, random_state=0)
        fitted = CoreStackRegressor(self.base).fit(X, y)
        scores = [clone(e).fit(X, y).score(X_test, y_test) for _, e in self.base]
        self.assertGreater(fitted.score(X_test, y_test), np.mean(scores))
        low, high = fitted.predict_interval(X_test, 0.9)
        self.assertGreater(((low <= y_test) & (y_test <= high)).mean(), 0.8)

    def test_several_outputs(self):
        X, y = make_regression(150, 6, n_targets=3, noise=5, random_state=0)
        base = [("lr", LinearRegression()), ("knn", KNeighborsRegressor(3))]
        fitted = CoreStackRegressor(base).fit(X, y)
        self.assertEqual(fitted.predict(X).shape, y.shape)
        self.assertGreater(fitted.score(X, y), 0.95)
        self.assertEqual(fitted.get_feature_names_out().tolist()[:2], [f"{fitted.stack_.kept[0]}_{d}" for d in (0, 1)])

        class First(LinearRegression):
            def predict(self, X):
                return super().predict(X)[:, 0]

        with self.assertRaisesRegex(ValueError, "First: predicts 1 outputs, but y has 3"):
            CoreStackRegressor([("first", First())]).fit(X, y)

    def test_prefit_groups_and_splits(self):
        half = np.arange(len(self.y)) % 2 == 0
        base = [(n, clone(e).fit(self.X[half], self.y[half])) for n, e in self.base]
        fitted = CoreStackRegressor(base, cv="prefit").fit(self.X[~half], self.y[~half])
        for name, est in fitted.named_estimators_.items():
            self.assertIs(est, dict(base)[name])
        with self.assertRaises(sklearn.exceptions.NotFittedError):
            CoreStackRegressor([("knn", KNeighborsRegressor())], cv="prefit").fit(self.X, self.y)
        groups = np.arange(len(self.y)) % 10
        fitted = CoreStackRegressor(self.base, cv=GroupKFold(5)).fit(self.X, self.y, groups=groups)
        self.assertEqual(fitted.report_["folds"]["count"], 5)
        alike = CoreStackRegressor(self.base).fit(self.X, self.y, groups=groups)
        self.assertEqual(alike.stack_.to_bytes(), fitted.stack_.to_bytes())
        rows = np.arange(len(self.y))
        forward = [(rows[:200], rows[200:300]), (rows[:300], rows[300:])]  # as of a time series
        fitted = CoreStackRegressor(self.base, cv=forward).fit(self.X, self.y)
        self.assertEqual(fitted.report_["samples"], len(self.y) - 200)

    def test_parameters_of_estimators(self):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), CoreStackRegressor(self.base[:2], cv=3)),
            {"corestackregressor__ridge__ridge__alpha": [0.1, 10.0], "corestackregressor__knn": ["drop"]},
            cv=3,
        )
        search.fit(self.X, self.y)
        self.assertEqual(search.best_estimator_[-1].stack_.members, ["ridge"])
        self.assertGreater(search.best_score_, 0.4)

    def test_what_is_refused(self):
        for estimators, text in (
            ([], "at least one"),
            ([("scale", StandardScaler())], "not a regressor"),
            ([("lr", LogisticRegression())], "not a regressor"),
            ([("a", Ridge()), ("a", Ridge())], "not unique"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                CoreStackRegressor(estimators).fit(self.X, self.y)
        with self.assertRaisesRegex(ValueError, "folds: cv makes the folds"):
            CoreStackRegressor(self.base).fit(self.X, self.y, folds=np.arange(len(self.y)) % 3)
        with self.assertRaisesRegex(ValueError, "'prefit'"):
            CoreStackRegressor(self.base, cv="fitted").fit(self.X, self.y)

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_data_frame(self):
        frame = pd.DataFrame(self.X, columns=list("abcdefghij"))
        fitted = CoreStackRegressor(self.base[1:]).fit(frame, pd.Series(self.y))
        self.assertEqual(fitted.feature_names_in_.tolist(), list("abcdefghij"))
        self.assertEqual(fitted.estimators_[0].feature_names_in_.tolist(), list("abcdefghij"))
        out = fitted.set_output(transform="pandas").transform(frame)
        self.assertEqual(out.columns.tolist(), fitted.stack_.kept)


if __name__ == "__main__":
    unittest.main()
